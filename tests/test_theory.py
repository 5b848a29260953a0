import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fvbook import _bounds, policies, theory
from fvbook.contexts import sample_moment
from fvbook.priors import GaussianPrior, Prior, TreePrior

TREES = [(1, 0.5), (3, 0.3), (4, 0.9), (5, 0.8), (6, 0.6)]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def within(values: torch.Tensor, expected: float, z: float = 3.0) -> bool:
    """Whether the mean of the values lies within z standard errors of the expected number."""
    error = float(values.std()) / math.sqrt(len(values))
    return abs(float(values.mean()) - expected) <= z * error


@pytest.mark.parametrize(
    ("prior", "budget", "n_tokens", "noise_std"),
    [
        (GaussianPrior(8, dtype=torch.float64), 2, 64, 0.0),
        (GaussianPrior(8, dtype=torch.float64), 8, 16, 0.5),
        (GaussianPrior(3, dtype=torch.float64), 1, 1, 0.0),
        (TreePrior(5, 0.8, dtype=torch.float64), 3, 32, 0.0),
        (TreePrior(3, 0.3, dtype=torch.float64), 7, 8, 1.0),
        (TreePrior(4, 0.6, dtype=torch.float64), 5, 128, 0.2),
    ],
)
def test_linear_mmse_is_the_loss_of_the_linear_estimate(
    prior: Prior, budget: int, n_tokens: int, noise_std: float
) -> None:
    theta = prior.sample(100_000, generator=seeded(0))
    b = sample_moment(theta, n_tokens, noise_std, generator=seeded(1))[:, :budget]
    v = prior.variances[:budget]
    estimate = torch.zeros_like(theta)
    estimate[:, :budget] = b * v / (v * (1 + 1 / n_tokens) + (1 + noise_std**2) / n_tokens)
    losses = ((theta - estimate) ** 2).sum(1)
    assert within(losses, float(theory.linear_mmse(prior, budget, n_tokens, noise_std)))


@pytest.mark.parametrize(
    ("prior", "n_tokens", "budget", "expected"),
    [
        (GaussianPrior(8), 64, [2, 4, 8], [0.781, 0.562, 0.123]),
        (TreePrior(5, 0.8), 32, [3], [0.5543]),
    ],
)
def test_linear_mmse_known_values(
    prior: Prior, n_tokens: int, budget: list[int], expected: list[float]
) -> None:
    loss = theory.linear_mmse(prior, budget, n_tokens, 0.0)
    torch.testing.assert_close(loss, torch.tensor(expected, dtype=torch.float64), atol=6e-4, rtol=0)


@pytest.mark.parametrize("prior", [GaussianPrior(7), TreePrior(3, 0.3), TreePrior(5, 0.8)])
def test_linear_mmse_limits(prior: Prior) -> None:
    assert theory.linear_mmse(prior, 0, 5, 0.3) == pytest.approx(1, abs=1e-12)
    assert theory.linear_mmse(prior, prior.dim, math.inf, 0.3) == pytest.approx(0, abs=1e-12)
    budgets = torch.arange(prior.dim + 1)
    many = theory.linear_mmse(prior, budgets, 10**9, 0.0)
    torch.testing.assert_close(many, theory.linear_mmse(prior, budgets, math.inf, 0.0), atol=1e-6, rtol=0)
    assert bool((many.diff() < 0).all())


@pytest.mark.parametrize(("levels", "decay"), TREES)
def test_linear_mmse_of_the_tree_without_noise(levels: int, decay: float) -> None:
    """A full tree of m levels, M = 2^m − 1, leaves exactly the shares of the levels below."""
    tree = TreePrior(levels, decay)
    m = torch.arange(levels + 1)
    linear = theory.linear_mmse(tree, 2**m - 1, math.inf, 0.0)
    torch.testing.assert_close(linear, theory.one_coordinate_mmse(tree, m))


@pytest.mark.parametrize(("levels", "decay"), TREES)
def test_one_coordinate_mmse_is_the_loss_of_the_strategy(levels: int, decay: float) -> None:
    tree = TreePrior(levels, decay, dtype=torch.float64)
    theta = tree.sample(500, generator=seeded(2))
    node = torch.zeros(500, dtype=torch.long)
    estimate = torch.zeros_like(theta)
    for budget in range(levels):
        loss = ((theta - estimate) ** 2).sum(1)
        expected = theory.one_coordinate_mmse(tree, budget)
        torch.testing.assert_close(loss, expected.expand(500))
        outcome = theta.gather(1, node[:, None])
        estimate.scatter_(1, node[:, None], outcome)
        node = 2 * node + torch.where(outcome[:, 0] > 0, 1, 2)
    assert bool((theory.one_coordinate_mmse(tree, range(levels, tree.dim + 1)) == 0).all())


def test_shapes_broadcast() -> None:
    prior = GaussianPrior(4)
    loss = theory.linear_mmse(prior, torch.arange(5)[:, None], [1, 2, math.inf], 0.1)
    assert loss.shape == (5, 3)
    assert loss.dtype == torch.float64
    assert loss[3, 1] == theory.linear_mmse(prior, 3, 2, 0.1)
    assert theory.one_coordinate_mmse(TreePrior(2, 0.5), 1).shape == ()


def ask(tree: TreePrior, snr: list[float], n: int, seed: int) -> torch.Tensor:
    """Simulate the sign decoder: level k read with this signal-to-noise ratio; the losses of n samples.

    On the right path the outcome is √ρ σ + noise; the block of level k is at the node that the signs lead to.
    """
    p = torch.tensor([0.5 * math.erfc(math.sqrt(r / 2)) for r in snr], dtype=torch.float64)
    reached = torch.cat([torch.ones(1, dtype=torch.float64), (1 - p).cumprod(0)[:-1]])
    guess = reached * (1 - 2 * p)
    sign = torch.randint(2, (n, len(snr)), generator=seeded(seed)) * 2.0 - 1
    noise = torch.randn(n, len(snr), generator=seeded(seed + 1), dtype=torch.float64)
    right = ((torch.tensor(snr).sqrt() * sign + noise).sign() == sign).double()
    on_path = torch.cat([torch.ones(n, 1, dtype=torch.float64), right.cumprod(1)[:, :-1]], 1)
    correlation = on_path * (2 * right - 1)
    return (_bounds.level_shares(tree) * (1 - 2 * guess * correlation + guess**2)).sum(1)


@pytest.mark.parametrize(
    ("levels", "decay", "budget", "noise_var"),
    [(1, 0.5, 1, 0.5), (3, 0.3, 3, 0.1), (4, 0.9, 2, 0.3), (5, 0.8, 5, 0.1), (6, 0.6, 9, 0.02)],
)
def test_one_coordinate_with_noise(levels: int, decay: float, budget: int, noise_var: float) -> None:
    tree = TreePrior(levels, decay)
    used = torch.arange(levels) < budget
    snr = (_bounds.level_shares(tree) * used / noise_var).tolist()
    assert within(ask(tree, snr, 200_000, 3), float(theory.one_coordinate_mmse(tree, budget, noise_var)))


@pytest.mark.parametrize(
    ("levels", "decay", "budget", "noise_var"),
    [(1, 0.5, 1, 0.5), (3, 0.3, 5, 0.1), (4, 0.9, 2, 0.3), (5, 0.8, 12, 0.1), (8, 0.6, 64, 1 / 64)],
)
def test_group_code_by_simulation(levels: int, decay: float, budget: int, noise_var: float) -> None:
    tree = TreePrior(levels, decay)
    counts = theory.group_code(tree, budget, noise_var)
    assert sum(counts) <= budget
    v = _bounds.level_shares(tree) / 2.0 ** torch.arange(levels)
    snr = (torch.tensor(counts) * v / noise_var).tolist()
    assert within(ask(tree, snr, 200_000, 5), float(theory.group_code_mmse(tree, budget, noise_var)))


def test_group_code_is_the_best_choice_of_counts() -> None:
    """The dynamic programme over levels agrees with the enumeration of all codes."""
    tree = TreePrior(4, 0.7)
    budget, noise_var = 7, 0.05
    losses = [
        theory._sign_decoder_loss(
            tree,
            torch.tensor(counts) * _bounds.level_shares(tree) / 2.0 ** torch.arange(4),
            torch.tensor(noise_var, dtype=torch.float64),
        )
        for counts in itertools.product([0, 1], [0, 1, 2], [0, 1, 2, 4], [0, 1, 2, 4, 8])
        if sum(counts) <= budget
    ]
    assert float(theory.group_code_mmse(tree, budget, noise_var)) == pytest.approx(
        float(min(losses)), abs=1e-12
    )


@pytest.mark.parametrize(
    ("eigenvalues", "budget", "noise_var"),
    [
        ([0.5, 0.3, 0.2], 0, 0.1),
        ([0.5, 0.3, 0.2], 2, 0.1),
        ([0.1] * 10, 5, 0.3),
        ([2.0, 1.0, 0.5, 0.0], 4, 1.0),
        ([0.9, 0.05, 0.05], 1, 0.0),
        ([0.7, 0.2, 0.1], 3, 0.01),
    ],
)
def test_gaussian_mmse_is_the_loss_of_the_top_eigenvectors(
    eigenvalues: list[float], budget: int, noise_var: float
) -> None:
    values = torch.tensor(eigenvalues, dtype=torch.float64)
    dim = len(values)
    basis = torch.linalg.qr(torch.randn(dim, dim, generator=seeded(7), dtype=torch.float64)).Q
    covariance = basis @ values.diag() @ basis.T
    expected = theory.gaussian_mmse(covariance, budget, noise_var)
    assert expected == pytest.approx(
        float(theory.gaussian_mmse(values.flip(0), budget, noise_var)), abs=1e-10
    )
    theta = torch.randn(100_000, dim, generator=seeded(8), dtype=torch.float64) * values.sqrt() @ basis.T
    noise = torch.randn(100_000, budget, generator=seeded(9), dtype=torch.float64)
    outcomes = theta @ basis[:, :budget] + noise_var**0.5 * noise
    top = values[:budget]
    estimate = (outcomes * top / (top + noise_var)) @ basis[:, :budget].T
    assert within(((theta - estimate) ** 2).sum(1), float(expected))


@pytest.mark.parametrize("snr", [0.01, 0.3, 1.0, 4.0, 12.0])
def test_binary_mmse(snr: float) -> None:
    z = torch.randn(400_000, generator=seeded(10), dtype=torch.float64)
    belief = torch.tanh(snr + snr**0.5 * z)
    value = float(theory.binary_mmse(snr))
    assert within(1 - belief, value)
    assert within(1 - belief**2, value)
    assert math.exp(-snr) <= value <= math.exp(-snr / 2)


def test_binary_mmse_is_decreasing_and_convex() -> None:
    values = theory.binary_mmse(torch.linspace(0, 20, 401))
    assert values[0] == pytest.approx(1, abs=1e-12)
    assert bool((values.diff() < 0).all())
    assert bool((values.diff().diff() > 0).all())


def test_information_mmse() -> None:
    p = torch.linspace(0.001, 0.5, 200, dtype=torch.float64)
    entropy = -(p * p.log2() + (1 - p) * (1 - p).log2())
    values = theory.information_mmse(1 - entropy)
    torch.testing.assert_close(values, 4 * p * (1 - p), atol=1e-6, rtol=0)
    bits = torch.linspace(0, 1, 101, dtype=torch.float64)
    floor = theory.information_mmse(bits)
    assert bool((floor <= 1 - bits + 1e-9).all())  # a bit buys more than its share, not less
    assert bool((floor >= 1 - 2 * math.log(2) * bits - 1e-9).all())
    assert bool((floor.diff().diff() > -1e-9).all())


POINTS = st.tuples(
    st.integers(1, 5), st.floats(0.05, 0.95), st.floats(-6.0, 2.0).map(math.exp), st.integers(0, 12)
)


def strategies(tree: TreePrior, budget: int, noise_var: float) -> dict[str, tuple[bool, policies.Strategy]]:
    """Name every fixed strategy, whether it is adaptive, and the strategy."""
    generator = seeded(11)
    random = torch.randn(budget, tree.dim, generator=generator, dtype=torch.float64)
    counts = theory.group_code(tree, budget, noise_var)
    groups = torch.cat([policies.group_keys(tree, counts), random])[:budget]
    return {
        "random": (False, policies.fixed(random)),
        "scaled": (False, policies.fixed(random * tree.variances)),
        "breadth first": (False, policies.fixed(policies.breadth_first_keys(tree, budget))),
        "groups": (False, policies.fixed(groups)),
        "one coordinate": (True, policies.one_coordinate(tree)),
        "largest variance": (True, policies.largest_variance(tree)),
        "router": (
            True,
            policies.Router(tree, max(budget, 1), 16, generator=generator).requires_grad_(False),
        ),
    }


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(POINTS)
def test_no_strategy_crosses_the_bounds(point: tuple[int, float, float, int]) -> None:
    levels, decay, noise_var, budget = point
    tree = TreePrior(levels, decay, dtype=torch.float64)
    budget = min(budget, tree.dim)
    least = float(theory.lower_bound(tree, budget, noise_var))
    fixed_least = float(theory.nonadaptive_lower_bound(tree, budget, noise_var))
    bits = float(theory.information_bits(budget, noise_var))
    assert 0 <= least <= fixed_least <= 1 + 1e-12
    assert float(theory.nonadaptive_closed_form_bound(tree, budget, noise_var)) <= fixed_least + 1e-12
    for name, (adaptive, strategy) in strategies(tree, budget, noise_var).items():
        with torch.no_grad():
            run = policies.measure(tree, strategy, budget, noise_var, 600, generator=seeded(12))
        slack = 4 * float(run.risks.std()) / math.sqrt(600) + 1 / 600  # an error in 600 may not be seen
        assert float(run.risks.mean()) >= (least if adaptive else fixed_least) - slack, name
        known = levels + (run.log_posterior.exp() * run.log_posterior.clamp_min(-1e3)).sum(1) / math.log(2)
        assert float(known.mean()) <= bits + 4 * float(known.std()) / math.sqrt(600) + 1e-9, name


@pytest.mark.parametrize(("levels", "decay"), TREES)
def test_bounds_are_monotone_and_have_the_right_limits(levels: int, decay: float) -> None:
    tree = TreePrior(levels, decay)
    budgets = torch.arange(tree.dim + 1)
    noise = torch.tensor([1e-3, 0.03, 0.3, 3.0])
    for bound in (theory.lower_bound, theory.nonadaptive_lower_bound, theory.nonadaptive_closed_form_bound):
        values = bound(tree, budgets, noise[:, None])
        assert bool((values[:, 0] > 1 - 1e-12).all())
        assert bool((values.diff(dim=1) <= 1e-9).all())
        assert bool((values.diff(dim=0) >= -1e-9).all())
        assert bound(tree, 1, 1e9) == pytest.approx(1, abs=1e-6)
        assert bound(tree, [0, 1], 0.0).tolist() == pytest.approx([1, 0])
    upper = theory.group_code_mmse(tree, budgets, noise[:, None])
    assert bool((upper >= theory.nonadaptive_lower_bound(tree, budgets, noise[:, None]) - 1e-12).all())
    assert bool((upper.diff(dim=1) <= 1e-12).all())
    upper = theory.one_coordinate_mmse(tree, budgets, noise[:, None])
    assert bool((upper >= theory.lower_bound(tree, budgets, noise[:, None]) - 1e-12).all())


@pytest.mark.parametrize("level", [1, 2, 4])
def test_the_second_moment_of_half_the_difference_of_two_leaves(level: int) -> None:
    """It is diagonal: v_k at level k, v_j/2 at each level j below, 0 above."""
    tree, n = TreePrior(4, 0.7, dtype=torch.float64), 200_000
    below = 4 - level
    prefix = torch.randint(2 ** (level - 1), (n,), generator=seeded(14)) << (below + 1)
    left, right = (torch.randint(2**below, (n,), generator=seeded(seed)) for seed in (15, 16))
    delta = (tree.leaves[prefix + left] - tree.leaves[prefix + 2**below + right]) / 2
    torch.testing.assert_close((delta**2).sum(1), (delta[0] ** 2).sum().expand(n))
    weight = (tree.node_levels == level) + (tree.node_levels > level) / 2
    expected = (weight * tree.variances).diag()
    torch.testing.assert_close(delta.T @ delta / n, expected, atol=1.5e-3, rtol=0)


@pytest.mark.parametrize("noise_var", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("budget", [1, 3, 6])
def test_the_channel_limits_the_information_about_the_lower_levels(budget: int, noise_var: float) -> None:
    """Σ_{j ≥ k} I_j ≤ (M/2) log2(1 + A_k/(M τ²)) for adaptive strategies, and mmse_k ≥ φ(1 − I_k)."""
    tree, n = TreePrior(4, 0.7, dtype=torch.float64), 16_000
    for strategy in (policies.one_coordinate(tree), policies.largest_variance(tree)):
        run = policies.measure(tree, strategy, budget, noise_var, n, generator=seeded(17))
        # average over the posterior instead of the true path: P(prefix) times the entropy of the next sign
        bits, errors = [], []
        for level in range(1, 5):
            p = run.log_posterior.exp().reshape(n, 2 ** (level - 1), 2, -1).sum(-1)
            mass = p.sum(-1)
            q = p / mass[..., None]
            known = 1 + torch.special.xlogy(q, q).sum(-1) / math.log(2)
            bits.append(float((mass * known).sum(1).mean()))
            errors.append(float((mass * 4 * q.prod(-1)).sum(1).mean()))
        tails = _bounds.level_shares(tree).flip(0).cumsum(0).flip(0)
        for level in range(4):
            limit = budget / 2 * math.log2(1 + float(tails[level]) / (budget * noise_var))
            assert sum(bits[level:]) <= limit + 0.01
            assert errors[level] >= float(theory.information_mmse(min(max(bits[level], 0), 1))) - 1e-9


def test_energy_bound_is_the_minimum_over_allocations() -> None:
    """The certified value agrees with a brute-force search of the powers."""
    tree = TreePrior(3, 0.7)
    budget, noise_var = 3, 0.2
    shares = _bounds.level_shares(tree)
    v = shares / 2.0 ** torch.arange(3)
    first, second = torch.meshgrid(
        torch.linspace(0, 1, 201, dtype=torch.float64),
        torch.linspace(0, 2, 401, dtype=torch.float64),
        indexing="ij",
    )
    power = torch.stack([first, second, budget - first - second], -1)
    weights = (v.diag() + v.expand(3, 3).triu(1) / 2) / noise_var
    values = theory.binary_mmse((power @ weights.T).clamp_min(0)) @ shares
    allowed = (power[..., 2] >= 0) & (power[..., 2] <= 4)
    least = float(values.where(allowed, 2.0).min())
    found = _bounds._energy_bound_at(tree, budget, noise_var)
    assert least - 1e-4 <= found <= least + 1e-12


def test_the_sequential_curve() -> None:
    """ψ(u atanh u) = 1 − u², with its derivative, and ψ ≤ m."""
    u = torch.linspace(0.01, 0.999, 2000, dtype=torch.float64).numpy()
    rho = u * np.arctanh(u)
    loss, slope = _bounds._sequential_curve(rho)
    np.testing.assert_allclose(loss, 1 - u**2, rtol=1e-6)
    np.testing.assert_allclose(slope[1:-1], np.gradient(loss, rho)[1:-1], atol=3e-4)
    assert bool((loss <= _bounds._mmse_curve(rho)[0]).all())


def test_a_sequential_reading_of_one_sign_respects_psi() -> None:
    """Reading one sign in small steps until its odds are e^±3: near ψ, and well below m at equal energy."""
    n, step = 20_000, 0.01
    generator = seeded(13)
    half_log_odds, energy = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    for _ in range(2000):
        go = (half_log_odds.abs() < 1.5).double()
        noise = torch.randn(n, generator=generator, dtype=torch.float64)
        half_log_odds += go * (step + step**0.5 * noise)
        energy += go * step
    error, mean_energy = float((1 - half_log_odds.tanh() ** 2).mean()), float(energy.mean())
    bound = float(_bounds._sequential_curve(np.array([mean_energy]))[0][0])
    assert bound - 2e-3 < error < 1.1 * bound
    assert error < 0.8 * float(theory.binary_mmse(mean_energy))


def test_the_energy_bound_is_close_to_the_best_known_keys() -> None:
    """Best losses found at K = 8, α = 0.6, τ² = 1/64 (see test_policies) are 7 to 13 % above the bound."""
    budgets = [4, 8, 16, 32, 64]
    best = torch.tensor([0.177, 0.128, 0.0894, 0.063, 0.0437], dtype=torch.float64)
    ratio = best / theory.nonadaptive_lower_bound(TreePrior(8, 0.6), budgets, 1 / 64)
    assert bool((ratio > 1).all())
    assert bool((ratio < 1.13).all())


def test_the_information_bound_uses_the_right_inequality() -> None:
    """One level, M = 1, τ² = 1: half a bit is known, yet the loss is below one half."""
    tree = TreePrior(1, 0.5)
    assert float(theory.information_bits(1, 1.0)) == pytest.approx(0.5)
    assert float(theory.binary_mmse(1.0)) < 0.45
    assert theory.lower_bound(tree, 1, 1.0) == pytest.approx(float(theory.binary_mmse(1.0)))


@pytest.mark.parametrize("decay", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_power_law(decay: float) -> None:
    """The constant of the closed form: L ≥ (α(1 − α)/e) (M a_1²/τ²)^−γ where M v_1 ≥ τ² ≥ M v_K."""
    tree = TreePrior(12, decay)
    v = _bounds.level_shares(tree) / 2.0 ** torch.arange(12)
    budgets = torch.arange(1, 513)
    noise_var = float(v[0])
    gamma = theory.nonadaptive_exponent(decay)
    assert gamma < theory.linear_exponent(decay)
    law = decay * (1 - decay) / math.e * (budgets * v[0] / noise_var) ** -gamma
    inside = budgets * v[-1] <= noise_var
    assert int(inside.sum()) >= 100
    bound = theory.nonadaptive_closed_form_bound(tree, budgets, noise_var)
    assert bool((bound >= law)[inside].all())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: theory.linear_mmse(GaussianPrior(4), 5, 8, 0.0),
            r"budget = 5: must be integers in ",
        ),
        (lambda: theory.linear_mmse(GaussianPrior(4), [1, -1], 8, 0.0), "budget"),
        (lambda: theory.linear_mmse(GaussianPrior(4), 1.5, 8, 0.0), "budget"),
        (lambda: theory.linear_mmse(GaussianPrior(4), 1, 0, 0.0), "n_tokens"),
        (lambda: theory.linear_mmse(GaussianPrior(4), 1, 8, -0.1), "noise_std"),
        (lambda: theory.linear_mmse(GaussianPrior(4), 1, 8, math.inf), "noise_std"),
        (lambda: theory.linear_mmse(GaussianPrior(4), 1, 8, math.nan), "noise_std"),
        (lambda: theory.linear_mmse(GaussianPrior(4), [1, 2, 3], [1, 2], 0.0), "broadcast"),
        (lambda: theory.one_coordinate_mmse(TreePrior(2, 0.5), 4), "budget"),
        (lambda: theory.one_coordinate_mmse(TreePrior(2, 0.5), "one"), "budget"),  # type: ignore[arg-type]
        (lambda: theory.one_coordinate_mmse(TreePrior(2, 0.5), 1, -1.0), "noise_var"),
        (lambda: theory.gaussian_mmse(torch.ones(2, 3), 1, 0.1), "covariance"),
        (lambda: theory.gaussian_mmse(torch.tensor([1.0, -1.0]), 1, 0.1), "covariance"),
        (lambda: theory.gaussian_mmse(torch.ones(3), 4, 0.1), "budget"),
        (lambda: theory.group_code(TreePrior(2, 0.5), 4, 0.1), "budget"),
        (lambda: theory.group_code_mmse(TreePrior(2, 0.5), 1, math.nan), "noise_var"),
        (lambda: theory.binary_mmse(-1.0), "snr"),
        (lambda: theory.information_mmse(1.1), "bits"),
        (lambda: theory.information_bits(-1, 0.1), "budget"),
        (lambda: theory.information_bits(2.5, 0.1), "budget"),
        (lambda: theory.lower_bound(TreePrior(2, 0.5), 4, 0.1), "budget"),
        (lambda: theory.lower_bound(TreePrior(2, 0.5), 1, -0.1), "noise_var"),
        (lambda: theory.nonadaptive_lower_bound(TreePrior(2, 0.5), [1, 2], [0.1, 0.2, 0.3]), "broadcast"),
        (lambda: theory.nonadaptive_closed_form_bound(TreePrior(2, 0.5), -1, 0.1), "budget"),
        (lambda: theory.nonadaptive_exponent(1.0), "decay"),
        (lambda: theory.linear_exponent(0.0), "decay"),
    ],
)
def test_bad_arguments(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
