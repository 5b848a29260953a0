"""Contexts: N tokens z_i = (x_i, y_i) about one θ, and the moment b through which linear attention sees them.

x_i ~ N(0, I_D), y_i = θ·x_i + ε_i with ε_i ~ N(0, s²). The moment b = (1/N) Σ_i y_i x_i estimates θ without
bias: b = θ + η with Cov(η | θ) = ((|θ|² + s²) I + θθᵀ)/N.
"""

import torch
from torch import Generator, Tensor

from fvbook import _check


def sample_tokens(
    theta: Tensor, n_tokens: int, noise_std: float, *, generator: Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Draw one context of N tokens for each θ.

    Parameters
    ----------
    theta : Tensor
        (B, D), one latent for each context; the result has its dtype and device.
    n_tokens : int
        N ≥ 1.
    noise_std : float
        s ≥ 0, the standard deviation of ε.

    Returns
    -------
    x : Tensor
        (B, N, D), standard normal inputs.
    y : Tensor
        (B, N), y = θ·x + ε.

    Raises
    ------
    ValueError
        If θ is not a finite (B, D) tensor, n_tokens < 1 or noise_std < 0.
    """
    theta, n_tokens, noise_std = _checked(theta, n_tokens, noise_std)
    batch, dim = theta.shape
    x = _normal(theta, generator, batch, n_tokens, dim)
    y = torch.einsum("bnd,bd->bn", x, theta) + noise_std * _normal(theta, generator, batch, n_tokens)
    return x, y


def moment(x: Tensor, y: Tensor) -> Tensor:
    """The moment b = (1/N) Σ_i y_i x_i of each context, (B, D), from x (B, N, D) and y (B, N).

    Raises ValueError if the shapes or dtypes do not fit or a value is not finite.
    """
    x = _check.tensor("x", x, None, None, None)
    y = _check.tensor("y", y, *x.shape[:2], dtype=x.dtype)
    return torch.einsum("bnd,bn->bd", x, y) / x.shape[1]


def sample_moment(
    theta: Tensor, n_tokens: int, noise_std: float, *, generator: Generator | None = None
) -> Tensor:
    """Draw the moment of one context for each θ, without drawing its tokens: cost O(D), free of N.

    The result is equal in law to ``moment(*sample_tokens(theta, n_tokens, noise_std))``. With u = θ/|θ| it is
    [√U h u + √(h² + s² W) g⊥]/N, h = |θ| √U + s g, where U ~ χ²_N, W ~ χ²_{N−1}, g ~ N(0, 1) and a standard
    normal vector g⊥ orthogonal to u are independent. [Chapter "A transformer that measures", the exact law of
    the moment.]

    Parameters, and the ValueErrors raised, are those of `sample_tokens`.

    Returns
    -------
    Tensor
        b, (B, D).
    """
    theta, n_tokens, noise_std = _checked(theta, n_tokens, noise_std)
    batch, dim = theta.shape
    norm = theta.norm(dim=1, keepdim=True)  # (B, 1)
    u = theta / norm.clamp_min(torch.finfo(theta.dtype).tiny)  # 0 for θ = 0, whose b has no axis
    root_u = _chi_square(n_tokens, theta, generator).sqrt()  # √U
    w = _chi_square(n_tokens - 1, theta, generator)
    g = _normal(theta, generator, batch, 1)
    g_all = _normal(theta, generator, batch, dim)  # g⊥ and, along u, a part to take off
    h = norm * root_u + noise_std * g
    across = (h**2 + noise_std**2 * w).sqrt() / n_tokens
    along = root_u * h / n_tokens - across * (g_all * u).sum(1, keepdim=True)
    return along * u + across * g_all


def _checked(theta: Tensor, n_tokens: int, noise_std: float) -> tuple[Tensor, int, float]:
    return (
        _check.tensor("theta", theta, None, None),
        _check.integer("n_tokens", n_tokens, 1),
        _check.real("noise_std", noise_std, 0),
    )


def _normal(like: Tensor, generator: Generator | None, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)


def _chi_square(degrees: int, like: Tensor, generator: Generator | None) -> Tensor:
    """One χ² variable with this many degrees of freedom for each row of `like`, (B, 1)."""
    shape = torch.full((len(like), 1), degrees / 2, dtype=like.dtype, device=like.device)
    return 2 * torch._standard_gamma(shape, generator=generator)
