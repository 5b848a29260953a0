import math
import re
from collections.abc import Callable

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor

from fvbook.contexts import moment, sample_moment, sample_tokens

# Some 250 two-sample tests are made below, each passed by chance with probability 1 − 1e-4.
CHANCE = 1e-4

LATENTS = {
    "D=1": [0.8],
    "D=1, zero": [0.0],
    "D=2": [0.6, -0.8],
    "D=5, unit": [0.5, -0.5, 0.1, 0.7, 0.0],
    "D=5, long": [3.0, 1.0, 0.0, 0.0, -2.0],
    "D=3, zero": [0.0, 0.0, 0.0],
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def repeated(latent: str, n: int) -> Tensor:
    return torch.tensor(LATENTS[latent], dtype=torch.float64).expand(n, -1)


def statistics(b: Tensor, theta: Tensor) -> dict[str, Tensor]:
    """Numbers whose joint law tells much of the law of b."""
    norm = theta.norm()
    u = theta / norm if norm > 0 else torch.eye(1, len(theta), dtype=theta.dtype)[0]
    along = b @ u
    across = b - along[:, None] * u
    fixed = torch.linspace(-1, 2, len(theta), dtype=theta.dtype)
    result = {"along": along, "fixed": b @ fixed, "square": b.square().sum(1)}
    if len(theta) > 1:
        perpendicular = fixed - (fixed @ u) * u
        result["across"] = b @ perpendicular
        result["product"] = along * across.square().sum(1)
        result["ratio"] = across.square().sum(1) / (along.square() + 1e-9)
    return result


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("noise_std", [0.0, 0.7])
@pytest.mark.parametrize(("n_tokens", "n"), [(1, 4000), (2, 4000), (32, 4000), (2000, 600)])
def test_sample_moment_is_equal_in_law_to_the_tokens(
    latent: str, noise_std: float, n_tokens: int, n: int
) -> None:
    theta = repeated(latent, n)
    exact = statistics(sample_moment(theta, n_tokens, noise_std, generator=seeded(1)), theta[0])
    simulated = statistics(moment(*sample_tokens(theta, n_tokens, noise_std, generator=seeded(2))), theta[0])
    for name in exact:
        p = ks_2samp(exact[name].numpy(), simulated[name].numpy(), method="asymp").pvalue
        assert p > CHANCE, name


def covariance(theta: Tensor, n_tokens: int, noise_std: float) -> Tensor:
    """Cov(b | θ) = ((|θ|² + s²) I + θθᵀ)/N."""
    eye = torch.eye(len(theta), dtype=theta.dtype)
    return ((theta @ theta + noise_std**2) * eye + torch.outer(theta, theta)) / n_tokens


def test_the_test_of_law_has_teeth() -> None:
    """A Gaussian with the right mean and covariance is found out at N = 2."""
    theta = repeated("D=5, unit", 4000)
    simulated = statistics(moment(*sample_tokens(theta, 2, 0.0, generator=seeded(0))), theta[0])
    noise = torch.randn(theta.shape, dtype=theta.dtype, generator=seeded(1))
    gaussian = statistics(theta + noise @ torch.linalg.cholesky(covariance(theta[0], 2, 0.0)), theta[0])
    for name in ["along", "square", "product"]:
        assert ks_2samp(gaussian[name].numpy(), simulated[name].numpy(), method="asymp").pvalue < 1e-20


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("noise_std", [0.0, 0.7])
@pytest.mark.parametrize("n_tokens", [1, 2, 32, 10**9])
def test_mean_and_covariance(latent: str, noise_std: float, n_tokens: int) -> None:
    """E b = θ and the covariance of the module's docstring, every entry within 5 standard errors."""
    n = 100_000
    theta = repeated(latent, n)
    eta = (sample_moment(theta, n_tokens, noise_std, generator=seeded(0)) - theta) * n_tokens**0.5
    products = eta[:, :, None] * eta[:, None, :]
    zero = torch.zeros_like(theta[0])
    for values, expected in [(eta, zero), (products, covariance(theta[0], n_tokens, noise_std) * n_tokens)]:
        error = values.std(0) / n**0.5
        assert bool(((values.mean(0) - expected).abs() <= 5 * error + 1e-12).all())


@pytest.mark.parametrize("noise_std", [0.0, 0.7])
def test_each_row_has_its_own_latent(noise_std: float) -> None:
    """In a batch of many θ, and with a zero among them, b − θ is still of the size of its own noise."""
    theta = torch.randn(20_000, 3, generator=seeded(0), dtype=torch.float64)
    theta[::2] = 0
    for b in [
        sample_moment(theta, 4, noise_std, generator=seeded(1)),
        moment(*sample_tokens(theta, 4, noise_std, generator=seeded(1))),
    ]:
        square = theta.square().sum(1)
        expected = (3 * (square + noise_std**2) + square) / 4
        excess = (b - theta).square().sum(1) - expected
        for half in [excess[::2], excess[1::2]]:
            assert abs(float(half.mean())) <= 4 * float(half.std()) / len(half) ** 0.5


@pytest.mark.parametrize(("n_tokens", "noise_std"), [(1, 0.0), (5, 0.0), (5, 2.0)])
def test_tokens(n_tokens: int, noise_std: float) -> None:
    """Inputs are standard normal and y − θ·x is noise of deviation s, apart from x."""
    theta = torch.randn(20_000, 2, generator=seeded(0), dtype=torch.float64)
    x, y = sample_tokens(theta, n_tokens, noise_std, generator=seeded(1))
    assert x.shape == (20_000, n_tokens, 2)
    assert y.shape == (20_000, n_tokens)
    noise = y - (x * theta[:, None]).sum(2)
    assert float(noise.abs().max()) < 1e-12 or noise_std > 0
    assert ks_2samp(x.flatten().numpy(), torch.randn(200_000, generator=seeded(2)).numpy()).pvalue > CHANCE
    assert abs(float(noise.square().mean()) - noise_std**2) <= 5 * noise_std**2 * (2 / noise.numel()) ** 0.5
    assert abs(float((noise[..., None] * x).mean())) <= 5 * noise_std / (2 * noise.numel()) ** 0.5


def test_moment_is_the_mean_of_y_x() -> None:
    x, y = torch.randn(3, 7, 2, generator=seeded(0)), torch.randn(3, 7, generator=seeded(1))
    by_hand = torch.stack([sum((y[c, i] * x[c, i] for i in range(7)), torch.zeros(2)) / 7 for c in range(3)])
    torch.testing.assert_close(moment(x, y), by_hand)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sampler", [sample_moment, lambda *a, **k: moment(*sample_tokens(*a, **k))])
def test_samplers_use_the_generator_alone(sampler: Callable[..., Tensor], dtype: torch.dtype) -> None:
    theta = torch.randn(6, 3, generator=seeded(0)).to(dtype)
    kept, before = theta.clone(), torch.get_rng_state()
    first, again, other = (sampler(theta, 4, 0.5, generator=seeded(seed)) for seed in [3, 3, 4])
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(theta, kept)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == dtype
    assert first.shape == (6, 3)


def test_float32_keeps_the_law_at_many_tokens() -> None:
    """Where b is θ up to rounding, and where N itself is no float32 number."""
    theta = repeated("D=5, unit", 5000).float()
    eta = (sample_moment(theta, 10**7 + 1, 0.5, generator=seeded(0)) - theta) * (10**7 + 1) ** 0.5
    expected = torch.diag(covariance(theta[0], 1, 0.5))
    torch.testing.assert_close(eta.var(0), expected, rtol=0.1, atol=0)
    assert float((eta.mean(0) / expected.sqrt()).abs().max()) < 5 / 5000**0.5


THETA, X, Y = torch.ones(2, 3), torch.ones(2, 4, 3), torch.ones(2, 4)


@pytest.mark.parametrize("sampler", [sample_moment, sample_tokens])
@pytest.mark.parametrize(
    ("theta", "n_tokens", "noise_std", "complaint"),
    [
        (THETA, 0, 0.0, "n_tokens = 0: must be an integer ≥ 1"),
        (THETA, 2.5, 0.0, "n_tokens = 2.5: must be an integer ≥ 1"),
        (THETA, 4, -0.1, "noise_std = -0.1: must be a finite number in [0, inf)"),
        (THETA, 4, math.nan, "noise_std = nan: must be a finite number in [0, inf)"),
        (THETA[0], 4, 0.0, "theta has shape (3,): must be (any, any)"),
        (THETA[:0], 4, 0.0, "theta has shape (0, 3): must be (any, any)"),
        (THETA.long(), 4, 0.0, "theta has dtype torch.int64: must be a floating-point type"),
        (THETA * math.nan, 4, 0.0, "theta holds NaN or infinite values: must be finite"),
        ([1.0], 4, 0.0, "theta = [1.0]: must be a torch.Tensor of shape (any, any)"),
    ],
)
def test_bad_input(
    sampler: Callable[..., object], theta: Tensor, n_tokens: int, noise_std: float, complaint: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        sampler(theta, n_tokens, noise_std)


@pytest.mark.parametrize(
    ("x", "y", "complaint"),
    [
        (X[0], Y, "x has shape (4, 3): must be (any, any, any)"),
        (X[:, :0], Y[:, :0], "x has shape (2, 0, 3): must be (any, any, any)"),
        (X, Y[:, :3], "y has shape (2, 3): must be (2, 4)"),
        (X, Y.double(), "y has dtype torch.float64: must be torch.float32"),
        (X, Y / 0, "y holds NaN or infinite values: must be finite"),
    ],
)
def test_moment_bad_input(x: Tensor, y: Tensor, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        moment(x, y)
