"""Exact Bayes decoders: the posterior over θ given linear measurements, or given the moment b of a context.

A measurement is y_i = k_i·θ + N(0, τ²), with any keys k_i: shared by all samples, (M, D), or each sample's
own, (B, M, D). Keys that were chosen from earlier outcomes need no other treatment: given those outcomes they
are fixed. (With the tokens of a context as keys, k_i = x_i and τ² = s², the same functions give the full
posterior of the context.)
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from fvbook import _check
from fvbook.priors import TreePrior


class GaussianPosterior(NamedTuple):
    """A Gaussian belief about θ: mean (B, D), covariance (B, D, D), or (D, D) where the keys are shared."""

    mean: Tensor
    covariance: Tensor


def gaussian_posterior(
    covariance: Tensor, keys: Tensor, outcomes: Tensor, noise_var: float
) -> GaussianPosterior:
    """Return the posterior of θ ~ N(0, C) given y = K θ + N(0, τ²).

    The mean is C Kᵀ G⁻¹ y and the covariance C − C Kᵀ G⁻¹ K C with G = K C Kᵀ + τ²: it does not depend on y.

    Parameters
    ----------
    covariance : Tensor
        C, (D, D), symmetric and positive semi-definite.
    keys : Tensor
        (M, D), or (B, M, D) for keys of each sample's own.
    outcomes : Tensor
        y, (B, M).
    noise_var : float
        τ² > 0.

    Raises
    ------
    ValueError
        If a shape does not fit, a value is not finite or τ² ≤ 0.
    """
    keys, outcomes, noise_var = _checked(covariance.shape[-1], keys, outcomes, noise_var)
    covariance = _check.tensor("covariance", covariance, keys.shape[-1], keys.shape[-1])
    cross = keys @ covariance  # (..., M, D)
    noise = noise_var * torch.eye(keys.shape[-2], dtype=keys.dtype, device=keys.device)
    gain = torch.linalg.solve(cross @ keys.mT + noise, cross)  # (..., M, D)
    mean = (outcomes[:, None, :] @ gain)[:, 0]
    return GaussianPosterior(mean, covariance - cross.mT @ gain)


def leaf_projections(tree: TreePrior, keys: Tensor) -> Tensor:
    """Return k·θ for every leaf, (..., 2^K), from keys (..., D), in O(D) steps for each key.

    Raises ValueError if the last axis of keys is not D long.
    """
    if not isinstance(keys, Tensor) or keys.ndim == 0 or keys.shape[-1] != tree.dim:
        shape = tuple(keys.shape) if isinstance(keys, Tensor) else keys
        raise ValueError(f"keys has shape {shape!r}: must be (..., {tree.dim})")
    total = torch.zeros_like(keys[..., :1])
    for level, amplitude in enumerate(tree.amplitudes.tolist()):
        step = amplitude * keys[..., 2**level - 1 : 2 ** (level + 1) - 1]  # the nodes of this level
        total = torch.stack([total + step, total - step], -1).flatten(-2)  # left = +1, right = −1
    return total


def log_normalised(log_weights: Tensor) -> Tensor:
    """Return log probabilities, (..., n), in proportion to the weights.

    Weights below e^-60 of the largest are raised to that: no result can see it (float64 ends at e^-36), and
    it keeps the subnormal numbers away, which are slow.
    """
    shifted = log_weights - log_weights.max(-1, keepdim=True).values
    return torch.log_softmax(shifted.clamp_min(-60), -1)


def tree_log_posterior(tree: TreePrior, keys: Tensor, outcomes: Tensor, noise_var: float) -> Tensor:
    """Return the log posterior of every leaf given y = K θ + N(0, τ²), (B, 2^K).

    Normalised in the log domain (`log_normalised`), so it is stable at any τ² > 0.

    Parameters
    ----------
    tree : TreePrior
    keys : Tensor
        (M, D), or (B, M, D) for keys of each sample's own.
    outcomes : Tensor
        y, (B, M).
    noise_var : float
        τ² > 0.

    Raises
    ------
    ValueError
        If a shape does not fit, a value is not finite or τ² ≤ 0.
    """
    keys, outcomes, noise_var = _checked(tree.dim, keys, outcomes, noise_var)
    log_likelihood = torch.zeros(len(outcomes), 2**tree.levels, dtype=keys.dtype, device=keys.device)
    for i in range(outcomes.shape[1]):  # one at a time: (B, M, 2^K) may not fit in memory
        log_likelihood -= (outcomes[:, i, None] - leaf_projections(tree, keys[..., i, :])) ** 2
    return log_normalised(log_likelihood / (2 * noise_var))


def moment_log_posterior(tree: TreePrior, b: Tensor, n_tokens: int, noise_std: float) -> Tensor:
    """Return the log posterior of every leaf given the moment b of N tokens, (B, 2^K), exactly at every N.

    Given y, b is Gaussian, and |y|² = (1 + s²) χ²_N does not depend on θ; integrating |y|² out gives, with
    t = b·θ and ν = (N − D)/2, log p(b | θ) = N t/s² + ν log r + log K_ν(N r/s²) + const, r² = s²|b|² + t²,
    and K_ν the modified Bessel function. Without noise, p(b | θ) ∝ t^((N−D−1)/2) exp(−N |b|²/(2t)) for t > 0,
    else 0. No strategy that sees the context through b alone does better than this posterior.

    Parameters
    ----------
    tree : TreePrior
    b : Tensor
        (B, D), the moment.
    n_tokens : int
        N ≥ 1.
    noise_std : float
        s ≥ 0.

    Raises
    ------
    ValueError
        If b is not a finite (B, D) tensor, N < 1 or s < 0.
    """
    b = _check.tensor("b", b, None, tree.dim)
    n = _check.integer("n_tokens", n_tokens, 1)
    s = _check.real("noise_std", noise_std, 0)
    t = leaf_projections(tree, b)
    norm2 = (b**2).sum(-1, keepdim=True)
    if s == 0:
        positive = t.clamp_min(torch.finfo(t.dtype).tiny)
        log_density = (n - tree.dim - 1) / 2 * positive.log() - n * norm2 / (2 * positive)
        log_density = log_density.where(t > 0, -math.inf)
    else:
        order = (n - tree.dim) / 2
        r = (s**2 * norm2 + t**2).sqrt()
        x = n * r / s**2
        # N t/s² − x, without cancellation: t − r = −s²|b|²/(t + r) for t > 0
        shift = torch.where(t > 0, -n * norm2 / (t + r), n * (t - r) / s**2)
        log_density = shift + order * r.log() + _log_scaled_bessel_k(order, x)
    return log_normalised(log_density)


def function_vector_log_posterior(
    tree: TreePrior, keys: Tensor, phi: Tensor, n_tokens: int, noise_std: float
) -> Tensor:
    """Return the log posterior of every leaf given the function vector Φ = K b, (B, 2^K), exactly at every N.

    Keys that were chosen from earlier entries of Φ count as given. In an orthonormal basis of the span of the
    keys, with c the coordinates of θ, t = Φ·c, ζ = 1 + s² − |c|², r² = ζ|Φ|² + t² and ν = (N − M)/2,
    log p(Φ | θ) = N t/ζ − ½ log ζ + ν log r + log K_ν(N r/ζ) + const. [Chapter "In-context inference"]

    Parameters
    ----------
    tree : TreePrior
    keys : Tensor
        (B, M, D), linearly independent in each row, of any length.
    phi : Tensor
        Φ, (B, M).
    n_tokens : int
        N > M.
    noise_std : float
        s ≥ 0.

    Raises
    ------
    ValueError
        If a shape does not fit, a value is not finite, N ≤ M or s < 0.
    """
    phi = _check.tensor("phi", phi, None, None)
    keys = _check.tensor("keys", keys, *phi.shape, tree.dim)
    n = _check.integer("n_tokens", n_tokens, phi.shape[1] + 1)
    s = _check.real("noise_std", noise_std, 0)
    basis, mixing = torch.linalg.qr(keys.mT)  # K = mixingᵀ basisᵀ
    phi = torch.linalg.solve_triangular(mixing.mT, phi[..., None], upper=False)[..., 0]  # basisᵀ b
    c = leaf_projections(tree, basis.mT)  # (B, M, 2^K)
    t = (phi[..., None] * c).sum(1)
    zeta = (1 + s**2 - (c**2).sum(1)).clamp_min(8 * torch.finfo(c.dtype).eps)  # 0: θ in the span, s = 0
    norm2 = (phi**2).sum(-1, keepdim=True)
    r = (zeta * norm2 + t**2).sqrt()
    order = (n - phi.shape[1]) / 2
    # (t − r)/ζ, for t > 0 written so that nothing cancels
    shift = torch.where(t > 0, -norm2 / (t + r).clamp_min(torch.finfo(t.dtype).tiny), (t - r) / zeta)
    bessel = _log_scaled_bessel_k(order, n * r / zeta)
    return log_normalised(n * shift - zeta.log() / 2 + order * r.log() + bessel)


def tree_mean(tree: TreePrior, log_posterior: Tensor) -> Tensor:
    """Return the posterior mean of θ, (..., D), from the log posterior of the leaves, (..., 2^K).

    At a node of level k it is a_k (P(left of the node) − P(right of the node)).
    """
    p = _leaf_probabilities(tree, log_posterior)
    means = []
    for amplitude in reversed(tree.amplitudes.tolist()):
        left, right = p[..., 0::2], p[..., 1::2]
        means.append(amplitude * (left - right))
        p = left + right
    return torch.cat(means[::-1], -1)


def tree_reach(tree: TreePrior, log_posterior: Tensor) -> Tensor:
    """Return the probability that the path visits each node, (..., D), from the log posterior, (..., 2^K)."""
    p = _leaf_probabilities(tree, log_posterior)
    masses = []
    for _ in range(tree.levels):
        p = p[..., 0::2] + p[..., 1::2]
        masses.append(p)
    return torch.cat(masses[::-1], -1)


def tree_risk(tree: TreePrior, log_posterior: Tensor) -> Tensor:
    """Return the posterior risk 1 − |E[θ | Φ]|² of each sample, (...,), from its log posterior, (..., 2^K).

    Since |θ| = 1, its mean over samples is the Bayes risk E|θ − E[θ | Φ]|², with less variance than the
    errors.
    """
    return 1 - (tree_mean(tree, log_posterior) ** 2).sum(-1)


def _leaf_probabilities(tree: TreePrior, log_posterior: Tensor) -> Tensor:
    if log_posterior.shape[-1:] != (2**tree.levels,):
        raise ValueError(
            f"log_posterior has shape {tuple(log_posterior.shape)}: must be (..., {2**tree.levels})"
        )
    return log_posterior.exp()


def _checked(dim: int, keys: Tensor, outcomes: Tensor, noise_var: float) -> tuple[Tensor, Tensor, float]:
    outcomes = _check.tensor("outcomes", outcomes, None, None)
    batch, budget = outcomes.shape
    if isinstance(keys, Tensor) and keys.ndim == 3:
        keys = _check.tensor("keys", keys, batch, budget, dim)
    else:
        keys = _check.tensor("keys", keys, budget, dim)
    return keys, outcomes, _check.real("noise_var", noise_var, 0, open_=True)


def _log_scaled_bessel_k(order: float, x: Tensor) -> Tensor:
    """Return log(e^x K_ν(x)) for x > 0, by the trapezoidal rule for K_ν(x) = ½ ∫ exp(ν v − x cosh v) dv.

    The nodes are centred on the maximum of the integrand, sinh v = ν/x, in units of its width: no order or
    argument overflows.
    """
    peak = torch.asinh(order / x)
    width = (order**2 + x**2 + 1) ** -0.25
    top = order * peak - 2 * x * torch.sinh(peak / 2) ** 2  # the exponent at the maximum, + x
    total = torch.zeros_like(x)
    for step in torch.arange(-12, 12.01, 0.5).tolist():
        v = peak + step * width
        total += torch.exp(order * v - 2 * x * torch.sinh(v / 2) ** 2 - top)
    return top + (total * width / 4).log()
