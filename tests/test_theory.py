import math
from collections.abc import Callable

import pytest
import torch

from fvbook import theory
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
    ],
)
def test_bad_arguments(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
