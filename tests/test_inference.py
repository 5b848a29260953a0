import math
from collections.abc import Callable

import pytest
import torch
from scipy.special import kve

from fvbook import inference
from fvbook.contexts import moment, sample_moment, sample_tokens
from fvbook.priors import TreePrior


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


@pytest.mark.parametrize("own_keys", [False, True])
def test_gaussian_posterior_is_bayes_rule(own_keys: bool) -> None:
    """Against the precision form C⁻¹ + KᵀK/τ², sample by sample."""
    root = random(4, 4, seed=0)
    covariance = root @ root.T
    keys = random(*([6] if own_keys else []), 3, 4, seed=1)
    outcomes = random(6, 3, seed=2)
    posterior = inference.gaussian_posterior(covariance, keys, outcomes, 0.3)
    for i in range(6):
        k = keys[i] if own_keys else keys
        expected = (covariance.inverse() + k.T @ k / 0.3).inverse()
        got = posterior.covariance[i] if own_keys else posterior.covariance
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(posterior.mean[i], expected @ k.T @ outcomes[i] / 0.3)


def test_gaussian_posterior_is_the_belief_of_a_simulation() -> None:
    """The squared error has the mean of the trace, also when an outcome chooses the next key."""
    n, covariance = 100_000, torch.diag(torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64))
    theta = random(n, 3, seed=3) * covariance.diag().sqrt()
    basis = torch.eye(3, dtype=torch.float64)
    first = theta[:, 0] + 0.5 * random(n, seed=4)
    second_key = basis[1 + (first > 0).long()]
    second = (theta * second_key).sum(1) + 0.5 * random(n, seed=5)
    keys = torch.stack([basis[0].expand(n, -1), second_key], 1)
    posterior = inference.gaussian_posterior(covariance, keys, torch.stack([first, second], 1), 0.25)
    trace = posterior.covariance.diagonal(dim1=1, dim2=2).sum(1)
    difference = ((theta - posterior.mean) ** 2).sum(1) - trace
    assert abs(float(difference.mean())) < 3 * float(difference.std()) / math.sqrt(n)


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_leaf_projections(levels: int) -> None:
    tree = TreePrior(levels, 0.7, dtype=torch.float64)
    keys = random(2, 3, tree.dim, seed=6)
    torch.testing.assert_close(inference.leaf_projections(tree, keys), keys @ tree.leaves.T)


@pytest.mark.parametrize("own_keys", [False, True])
def test_tree_posterior_is_bayes_rule(own_keys: bool) -> None:
    tree = TreePrior(3, 0.6, dtype=torch.float64)
    keys = random(*([5] if own_keys else []), 2, 7, seed=7)
    outcomes = random(5, 2, seed=8)
    log_posterior = inference.tree_log_posterior(tree, keys, outcomes, 0.4)
    signal = keys @ tree.leaves.T
    signal = signal if own_keys else signal.expand(5, -1, -1)
    weight = torch.exp(-((outcomes[:, :, None] - signal) ** 2).sum(1) / 0.8)
    expected = weight / weight.sum(1, keepdim=True)
    torch.testing.assert_close(log_posterior.exp(), expected)
    torch.testing.assert_close(inference.tree_mean(tree, log_posterior), expected @ tree.leaves)
    torch.testing.assert_close(
        inference.tree_reach(tree, log_posterior), expected @ (tree.leaves != 0).double()
    )
    risk = (expected * ((tree.leaves - (expected @ tree.leaves)[:, None]) ** 2).sum(2)).sum(1)
    torch.testing.assert_close(inference.tree_risk(tree, log_posterior), risk)


def assert_calibrated(tree: TreePrior, leaf: torch.Tensor, log_posterior: torch.Tensor) -> None:
    """The squared error has the mean of the risk, and the best guess is right as often as it claims."""
    error = ((tree.leaves[leaf] - inference.tree_mean(tree, log_posterior)) ** 2).sum(1)
    best = log_posterior.max(1)
    for difference in (
        error - inference.tree_risk(tree, log_posterior),
        (best.indices == leaf).double() - best.values.exp(),
    ):
        assert abs(float(difference.mean())) < 3 * float(difference.std()) / math.sqrt(len(leaf))


@pytest.mark.parametrize(
    ("levels", "decay", "budget", "noise_var"),
    [(1, 0.5, 1, 1.0), (3, 0.6, 2, 0.1), (4, 0.9, 4, 0.3), (5, 0.8, 3, 0.03), (6, 0.4, 10, 0.2)],
)
def test_tree_posterior_is_calibrated(levels: int, decay: float, budget: int, noise_var: float) -> None:
    tree, n = TreePrior(levels, decay, dtype=torch.float64), 20_000
    leaf = tree.sample_leaves(n, generator=seeded(9))
    theta = tree.leaves[leaf]
    keys = random(budget, tree.dim, seed=10)
    outcomes = theta @ keys.T + noise_var**0.5 * random(n, budget, seed=11)
    log_posterior = inference.tree_log_posterior(tree, keys, outcomes, noise_var)
    assert_calibrated(tree, leaf, log_posterior)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tree_posterior_at_tiny_noise(dtype: torch.dtype) -> None:
    tree = TreePrior(12, 0.8, dtype=dtype)
    leaf = torch.tensor([0, 1234, 4095])
    keys = torch.eye(tree.dim, dtype=dtype)[tree.paths[leaf]]
    outcomes = tree.signs[leaf] * tree.amplitudes
    log_posterior = inference.tree_log_posterior(tree, keys, outcomes, 1e-12)
    assert log_posterior.shape == (3, 4096)
    assert torch.equal(log_posterior.argmax(1), leaf)
    torch.testing.assert_close(log_posterior.exp().sum(1), torch.ones(3, dtype=dtype))
    assert bool((inference.tree_risk(tree, log_posterior).abs() < 1e-5).all())


@pytest.mark.parametrize(
    ("levels", "decay", "n_tokens", "noise_std"),
    [
        (3, 0.6, 8, 0.5),
        (3, 0.6, 8, 0.0),
        (2, 0.3, 1, 1.0),
        (3, 0.9, 2, 0.2),
        (5, 0.8, 32, 1.0),
        (4, 0.7, 64, 0.1),
    ],
)
@pytest.mark.parametrize("tokens", [False, True])
def test_moment_posterior_is_calibrated(
    levels: int, decay: float, n_tokens: int, noise_std: float, tokens: bool
) -> None:
    tree, n = TreePrior(levels, decay, dtype=torch.float64), 10_000
    leaf = tree.sample_leaves(n, generator=seeded(12))
    theta = tree.leaves[leaf]
    if tokens:
        b = moment(*sample_tokens(theta, n_tokens, noise_std, generator=seeded(13)))
    else:
        b = sample_moment(theta, n_tokens, noise_std, generator=seeded(13))
    log_posterior = inference.moment_log_posterior(tree, b, n_tokens, noise_std)
    assert_calibrated(tree, leaf, log_posterior)


def test_moment_posterior_limits() -> None:
    """Little noise tends to none; many tokens with much noise tend to b = θ + N(0, (1 + s²)/N)."""
    tree = TreePrior(3, 0.6, dtype=torch.float64)
    theta = tree.sample(50, generator=seeded(14))
    b = sample_moment(theta, 6, 0.0, generator=seeded(15))
    exact = inference.moment_log_posterior(tree, b, 6, 0.0).exp()
    torch.testing.assert_close(
        inference.moment_log_posterior(tree, b, 6, 0.01).exp(), exact, atol=1e-3, rtol=0
    )
    scaled = theta / 30 + 0.03 * random(50, 7, seed=16)  # far from any leaf: many leaves stay likely
    many = inference.moment_log_posterior(tree, scaled, 2000, 30.0)
    gaussian = inference.tree_log_posterior(tree, torch.eye(7, dtype=torch.float64), scaled, 901 / 2000)
    torch.testing.assert_close(many.exp(), gaussian.exp(), atol=2e-3, rtol=0)


@pytest.mark.parametrize(("n_tokens", "noise_std"), [(16, 0.5), (9, 0.2), (40, 0.0)])
def test_function_vector_posterior_given_every_number_is_that_of_the_moment(
    n_tokens: int, noise_std: float
) -> None:
    tree = TreePrior(3, 0.7, dtype=torch.float64)
    b = sample_moment(tree.sample(40, generator=seeded(16)), n_tokens, noise_std, generator=seeded(17))
    keys = random(40, 7, 7, seed=18)  # of full rank: Φ tells b
    phi = torch.einsum("bmd,bd->bm", keys, b)
    got = inference.function_vector_log_posterior(tree, keys, phi, n_tokens, noise_std)
    expected = inference.moment_log_posterior(tree, b, n_tokens, noise_std)
    torch.testing.assert_close(got.exp(), expected.exp(), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("n_tokens", "noise_std"), [(5, 0.0), (12, 0.6), (64, 0.1)])
def test_function_vector_posterior_is_calibrated_with_chosen_keys(n_tokens: int, noise_std: float) -> None:
    tree, n = TreePrior(3, 0.7, dtype=torch.float64), 10_000
    leaf = tree.sample_leaves(n, generator=seeded(19))
    b = sample_moment(tree.leaves[leaf], n_tokens, noise_std, generator=seeded(20))
    keys = b.new_zeros(n, 2, tree.dim)
    keys[:, 0, :3] = torch.tensor([1.0, 0.4, -0.3])
    first = (keys[:, 0] * b).sum(1)
    keys[:, 1, 1], keys[:, 1, 2], keys[:, 1, 5] = (first > 0).double(), (first <= 0).double(), first
    phi = torch.stack([first, (keys[:, 1] * b).sum(1)], 1)
    log_posterior = inference.function_vector_log_posterior(tree, keys, phi, n_tokens, noise_std)
    assert_calibrated(tree, leaf, log_posterior)


@pytest.mark.parametrize("order", [0.0, 0.5, -3.0, 7.0, 40.5])
def test_bessel_function(order: float) -> None:
    x = torch.tensor([0.05, 0.3, 1.0, 5.0, 50.0, 500.0], dtype=torch.float64)
    expected = torch.tensor(kve(order, x.numpy())).log()
    torch.testing.assert_close(inference._log_scaled_bessel_k(order, x), expected, atol=1e-8, rtol=1e-8)


TREE = TreePrior(2, 0.5)
EYE, ONE, THREE = torch.eye(3), torch.ones(1, 2), torch.ones(1, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: inference.gaussian_posterior(EYE, torch.eye(2), ONE, 0.1), "keys"),
        (
            lambda: inference.gaussian_posterior(EYE, EYE, THREE, 0.0),
            "noise_var",
        ),
        (
            lambda: inference.gaussian_posterior(torch.ones(2, 3), EYE, THREE, 0.1),
            "covariance",
        ),
        (lambda: inference.tree_log_posterior(TREE, EYE, ONE, 0.1), "keys"),
        (lambda: inference.tree_log_posterior(TREE, torch.ones(2, 3, 3), THREE, 0.1), "keys"),
        (lambda: inference.tree_log_posterior(TREE, EYE, torch.ones(3), 0.1), "outcomes"),
        (lambda: inference.tree_log_posterior(TREE, EYE, THREE, -0.1), "noise_var"),
        (lambda: inference.tree_log_posterior(TREE, EYE, THREE, 0.0), "noise_var"),
        (lambda: inference.leaf_projections(TREE, torch.ones(4)), "keys"),
        (lambda: inference.moment_log_posterior(TREE, torch.ones(1, 4), 8, 0.1), "b has shape"),
        (lambda: inference.moment_log_posterior(TREE, THREE, 0, 0.1), "n_tokens"),
        (lambda: inference.moment_log_posterior(TREE, THREE, 8, -0.1), "noise_std"),
        (lambda: inference.function_vector_log_posterior(TREE, EYE[None], ONE, 8, 0.1), "keys"),
        (lambda: inference.function_vector_log_posterior(TREE, EYE[None], THREE, 3, 0.1), "n_tokens"),
        (lambda: inference.function_vector_log_posterior(TREE, EYE[None], THREE, 8, -0.1), "noise_std"),
        (lambda: inference.tree_mean(TREE, torch.ones(3, 5)), "log_posterior"),
    ],
)
def test_bad_arguments(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
