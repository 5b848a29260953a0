import math
from collections.abc import Callable

import pytest
import torch

from fvbook import inference, policies, theory
from fvbook.priors import TreePrior


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def loss_and_error(
    tree: TreePrior,
    strategy: policies.Strategy,
    budget: int,
    noise_var: float,
    n: int = 20_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the loss of a strategy and its standard error."""
    with torch.no_grad():
        run = policies.measure(tree, strategy, budget, noise_var, n, generator=seeded(0))
    return float(run.risks.mean()), float(run.risks.std()) / math.sqrt(n)


STRATEGIES: dict[str, Callable[[TreePrior], policies.Strategy]] = {
    "fixed": lambda tree: policies.fixed(policies.breadth_first_keys(tree, 4)),
    "one coordinate": policies.one_coordinate,
    "largest variance": policies.largest_variance,
    "router": lambda tree: policies.Router(tree, 4, 16, generator=seeded(1)).requires_grad_(False),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_measure_keeps_its_promises(name: str) -> None:
    """Orthonormal keys; the belief is the posterior of those keys and outcomes; stratified leaves."""
    tree = TreePrior(3, 0.7, dtype=torch.float64)
    run = policies.measure(tree, STRATEGIES[name](tree), 4, 0.2, 80, generator=seeded(2))
    gram = run.keys @ run.keys.mT
    torch.testing.assert_close(gram, torch.eye(4, dtype=torch.float64).expand(80, 4, 4))
    posterior = inference.tree_log_posterior(tree, run.keys, run.outcomes, 0.2)
    torch.testing.assert_close(run.log_posterior, posterior)
    torch.testing.assert_close(run.risks, inference.tree_risk(tree, posterior))


@pytest.mark.parametrize("name", STRATEGIES)
def test_measure_is_reproducible(name: str) -> None:
    tree = TreePrior(3, 0.7)
    first, second = (
        policies.measure(tree, STRATEGIES[name](tree), 4, 0.2, 16, generator=seeded(3)) for _ in range(2)
    )
    assert torch.equal(first.outcomes, second.outcomes)


@pytest.mark.parametrize(
    ("levels", "decay", "budget"), [(1, 0.5, 1), (3, 0.3, 2), (4, 0.9, 4), (5, 0.8, 3), (6, 0.6, 8)]
)
@pytest.mark.parametrize("name", ["one coordinate", "largest variance"])
def test_one_coordinate_without_noise(name: str, levels: int, decay: float, budget: int) -> None:
    tree = TreePrior(levels, decay, dtype=torch.float64)
    loss, _ = loss_and_error(tree, STRATEGIES[name](tree), budget, 1e-8, 200)
    assert loss == pytest.approx(float(theory.one_coordinate_mmse(tree, budget)), abs=1e-9)


@pytest.mark.parametrize(
    ("levels", "decay", "budget", "noise_var"),
    [(1, 0.5, 1, 0.5), (3, 0.3, 3, 0.1), (4, 0.9, 2, 0.3), (5, 0.8, 5, 0.1), (6, 0.6, 9, 0.02)],
)
def test_the_bayes_decoder_beats_the_sign_decoder(
    levels: int, decay: float, budget: int, noise_var: float
) -> None:
    """Same outcomes, better decoder: below the exact loss of the sign decoder, for both codes of `theory`."""
    tree = TreePrior(levels, decay, dtype=torch.float64)
    loss, error = loss_and_error(tree, policies.one_coordinate(tree), budget, noise_var)
    assert loss - 3 * error < float(theory.one_coordinate_mmse(tree, budget, noise_var))
    keys = policies.group_keys(tree, theory.group_code(tree, budget, noise_var))
    loss, error = loss_and_error(tree, policies.fixed(keys), len(keys), noise_var)
    assert loss - 3 * error < float(theory.group_code_mmse(tree, budget, noise_var))
    assert loss + 3 * error > float(theory.nonadaptive_lower_bound(tree, budget, noise_var))


def test_fixed_risks_is_measure_for_fixed_keys() -> None:
    tree, n = TreePrior(4, 0.7, dtype=torch.float64), 50_000
    keys = policies.group_keys(tree, (1, 2, 0, 4))
    risks = policies.fixed_risks(tree, keys, 0.1, n, generator=seeded(9))
    loss, error = loss_and_error(tree, policies.fixed(keys), len(keys), 0.1)
    assert abs(float(risks.mean()) - loss) < 3 * math.hypot(error, float(risks.std()) / math.sqrt(n))


def test_one_binary_sign() -> None:
    """One level: every strategy is the binary channel of `theory.binary_mmse`."""
    for noise_var in (0.1, 0.3, 1.0, 3.0, 10.0):
        tree = TreePrior(1, 0.5, dtype=torch.float64)
        loss, error = loss_and_error(tree, policies.one_coordinate(tree), 1, noise_var, 50_000)
        assert abs(loss - float(theory.binary_mmse(1 / noise_var))) < 3 * error


def test_group_keys() -> None:
    tree = TreePrior(3, 0.5, dtype=torch.float64)
    keys = policies.group_keys(tree, (1, 1, 2))
    h = math.sqrt(0.5)
    expected = [[1, 0, 0, 0, 0, 0, 0], [0, h, h, 0, 0, 0, 0], [0, 0, 0, h, h, 0, 0], [0, 0, 0, 0, 0, h, h]]
    torch.testing.assert_close(keys, torch.tensor(expected, dtype=torch.float64))
    assert policies.group_keys(tree, (0, 0, 0)).shape == (0, 7)


# The losses of the best known non-adaptive keys at K = 8, α = 0.6, τ² = 1/64.
BEST_KEYS = {1: 0.388, 2: 0.259, 4: 0.177, 8: 0.128, 16: 0.090, 32: 0.063, 64: 0.043}


@pytest.mark.parametrize("budget", BEST_KEYS)
def test_learned_keys_reach_the_known_losses(budget: int) -> None:
    tree = TreePrior(8, 0.6)
    keys = policies.learn_keys(tree, budget, 1 / 64, steps=400, generator=seeded(4))
    torch.testing.assert_close(keys @ keys.T, torch.eye(budget), atol=1e-5, rtol=0)
    loss = float(policies.fixed_risks(tree, keys, 1 / 64, 16_384, generator=seeded(8)).mean())
    assert loss == pytest.approx(BEST_KEYS[budget], rel=0.03)
    assert loss > float(theory.nonadaptive_lower_bound(tree, budget, 1 / 64))


def test_the_exponent_of_the_best_keys() -> None:
    """The slope is −γ once the levels that a finite tree lacks, α^K/(1 − α^K), are added back."""
    decay, levels = 0.6, 8
    x = torch.tensor([m for m in BEST_KEYS if m >= 4], dtype=torch.float64).log()
    losses = torch.tensor([loss for m, loss in BEST_KEYS.items() if m >= 4], dtype=torch.float64)
    gamma = float(theory.nonadaptive_exponent(decay))

    def slope(y: torch.Tensor) -> float:
        return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())

    assert -slope(losses.log()) == pytest.approx(gamma, abs=0.1)
    assert -slope((losses + decay**levels / (1 - decay**levels)).log()) == pytest.approx(gamma, abs=0.02)


def test_learned_router_is_adaptive() -> None:
    """It lies below what any non-adaptive strategy can reach, and above the bound for any strategy."""
    tree = TreePrior(5, 0.8)
    router = policies.learn_router(tree, 3, 1 / 32, steps=250, batch_size=256, generator=seeded(5))
    loss, _ = loss_and_error(tree, router, 3, 1 / 32)
    assert loss < 0.9 * float(theory.nonadaptive_lower_bound(tree, 3, 1 / 32))
    assert loss > float(theory.lower_bound(tree, 3, 1 / 32))
    assert loss < loss_and_error(tree, policies.one_coordinate(tree), 3, 1 / 32)[0]


@pytest.fixture(scope="module", params=[(0.7, 0.3), (0.7, 0.05), (0.5, 0.1), (0.9, 0.2), (0.3, 1.0)])
def solved(request: pytest.FixtureRequest) -> policies.TwoMeasurements:
    return policies.solve_two_measurements(*request.param)


def test_two_measurements_are_ordered(solved: policies.TwoMeasurements) -> None:
    tree = TreePrior(2, solved.decay)
    at = (tree, 2, solved.noise_var)
    assert float(theory.lower_bound(*at)) <= solved.adaptive <= solved.nonadaptive
    assert solved.nonadaptive <= solved.one_measurement
    assert float(theory.nonadaptive_lower_bound(*at)) <= solved.nonadaptive
    assert solved.adaptive <= solved.root_first <= solved.root_first_nonadaptive
    assert solved.nonadaptive <= solved.root_first_nonadaptive
    assert solved.nonadaptive < float(theory.gaussian_mmse(tree.variances, *at[1:]))


def test_two_measurements_by_simulation(solved: policies.TwoMeasurements) -> None:
    """Playing the policies that it returns gives the losses that it states."""
    tree, n = TreePrior(2, solved.decay, dtype=torch.float64), 200_000
    theta = tree.sample(n, generator=seeded(6))
    noise = solved.noise_var**0.5 * torch.randn(n, 2, generator=seeded(7), dtype=torch.float64)
    first = theta @ solved.first_key + noise[:, 0]
    step = solved.outcomes[1] - solved.outcomes[0]
    cell = ((first - solved.outcomes[0]) / step).round().long().clamp(0, len(solved.outcomes) - 1)
    second_key = solved.second_keys[cell]
    second = (second_key * theta).sum(1) + noise[:, 1]
    both = torch.stack([solved.first_key.expand(n, -1), second_key], 1)
    outcomes = torch.stack([first, second], 1)
    risks = inference.tree_risk(tree, inference.tree_log_posterior(tree, both, outcomes, solved.noise_var))
    assert abs(float(risks.mean()) - solved.adaptive) < 3 * float(risks.std()) / math.sqrt(n) + 1e-4
    for keys, value in (
        (solved.nonadaptive_keys, solved.nonadaptive),
        (solved.one_key[None], solved.one_measurement),
    ):
        loss, error = loss_and_error(tree, policies.fixed(keys), len(keys), solved.noise_var, n)
        assert abs(loss - value) < 3 * error + 1e-4


def test_two_measurements_shape(solved: policies.TwoMeasurements) -> None:
    size = len(solved.outcomes)
    assert solved.second_keys.shape == (size, 3)
    torch.testing.assert_close(solved.second_keys.norm(dim=1), torch.ones(size, dtype=torch.float64))
    assert float((solved.second_keys @ solved.first_key).abs().max()) < 1e-9
    gram = solved.nonadaptive_keys @ solved.nonadaptive_keys.T
    torch.testing.assert_close(gram, torch.eye(2, dtype=torch.float64))
    total = float(solved.density.sum() * (solved.outcomes[1] - solved.outcomes[0]))
    assert total == pytest.approx(1, abs=1e-6)
    for key in (solved.first_key, solved.nonadaptive_keys[0], solved.one_key):
        assert float(key[0]) >= -1e-9
        assert float(key[1]) >= float(key[2]) >= -1e-9


def test_the_root_comes_first(solved: policies.TwoMeasurements) -> None:
    """At these three points the adaptive optimum reads the root first; the non-adaptive one does at two."""
    assert solved.first_key.tolist() == [1, 0, 0]
    assert (solved.nonadaptive < solved.root_first_nonadaptive - 1e-4) == (solved.noise_var == 0.05)


TREE = TreePrior(2, 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: policies.measure(TREE, policies.one_coordinate(TREE), 4, 0.1, 8), "budget"),
        (lambda: policies.measure(TREE, policies.one_coordinate(TREE), 1, 0.0, 8), "noise_var"),
        (lambda: policies.measure(TREE, policies.one_coordinate(TREE), 1, 0.1, 0), "n_samples"),
        (lambda: policies.measure(TREE, lambda p, _: p, 1, 0.1, 8), "shape"),
        (lambda: policies.measure(TREE, policies.fixed(torch.ones(2, 3)), 2, 0.1, 8), "span"),
        (lambda: policies.fixed_risks(TREE, torch.ones(2, 4), 0.1, 8), "keys"),
        (lambda: policies.fixed_risks(TREE, torch.ones(2, 3), 0.0, 8), "noise_var"),
        (lambda: policies.breadth_first_keys(TREE, 4), "budget"),
        (lambda: policies.group_keys(TREE, (1,)), "counts"),
        (lambda: policies.group_keys(TREE, (1, 3)), r"counts\[1\] = 3"),
        (lambda: policies.learn_keys(TREE, 0, 0.1), "budget"),
        (lambda: policies.learn_keys(TREE, 1, -0.1), "noise_var"),
        (lambda: policies.learn_keys(TREE, 1, 0.1, steps=0), "steps"),
        (lambda: policies.learn_keys(TREE, 1, 0.1, batch_size=0), "batch_size"),
        (lambda: policies.learn_keys(TREE, 1, 0.1, start=torch.ones(2, 3)), "start"),
        (lambda: policies.learn_router(TREE, 5, 0.1), "budget"),
        (lambda: policies.learn_router(TREE, 1, 0.1, sharpness=0.0), "sharpness"),
        (lambda: policies.learn_router(TREE, 1, 0.1, batch_size=0), "n_samples"),
        (lambda: policies.solve_two_measurements(1.0, 0.1), "decay"),
        (lambda: policies.solve_two_measurements(0.5, 1e-4), "noise_var"),
    ],
)
def test_bad_arguments(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
