"""The numerics behind the lower bounds of `theory`: convex programmes over the levels, in float64."""

import math

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from fvbook.priors import TreePrior

Array = npt.NDArray[np.float64]

# The trapezoidal rule for a mixture over s > 0 of weight sech(πs/2): its error is below 1e-13.
_NODES = 0.2 * torch.arange(121, dtype=torch.float64)
_WEIGHTS = 0.2 / torch.cosh(math.pi / 2 * _NODES)
_WEIGHTS[0] /= 2
_RATES = (1 + _NODES**2) / 2


def level_shares(tree: TreePrior) -> Tensor:
    """Return the share a_k² of each level, (K,), in float64 whatever the prior's dtype."""
    shares = tree.decay ** torch.arange(tree.levels, dtype=torch.float64)
    return shares / shares.sum()


def ratio(signal: Tensor, noise: Tensor) -> Tensor:
    """Return signal/noise with 0/0 = 0 and x/0 = ∞."""
    return torch.where(signal == 0, 0.0, signal / noise)


def channel_bits(m: Tensor, power: Tensor, noise_var: Tensor) -> Tensor:
    """Return (M/2) log2(1 + power/(M τ²)), 0 for M = 0."""
    return m / 2 * torch.log1p(ratio(power / m.clamp_min(1), noise_var)).where(m > 0, 0.0) / math.log(2)


def binary_mmse(snr: Tensor) -> Tensor:
    """Return m(ρ) of `theory.binary_mmse`, unchecked."""
    return torch.exp(-snr[..., None] * _RATES) @ _WEIGHTS


def bits_of_bias(u: Tensor) -> Tensor:
    """Return 1 − h2((1 − u)/2), the bits known about a sign of mean u."""
    p = torch.stack([(1 + u) / 2, (1 - u) / 2])
    return 1 + torch.special.xlogy(p, p).sum(0) / math.log(2)


def information_bound(tree: TreePrior, m: Tensor, noise_var: Tensor) -> Tensor:
    """Return min Σ_k a_k² e_k under the channel's constraints on the tails Σ_{j ≥ k} I_j.

    With u_k the bias of level k, e_k = 1 − u_k², the optimum for a price μ_k of a bit is u_k = tanh(t_k) with
    tanh(t_k)/t_k = μ_k/(2 ln2 a_k²). The tails are nested, so going up from the deepest level, each
    constraint that is violated is met by capping all t_j below it at one common price.
    """
    shares = level_shares(tree)
    tails = shares.flip(0).cumsum(0).flip(0)
    energy = (shares + tails) / 2  # a_k² + ½ A_{k+1}
    floor = binary_mmse(ratio(energy, noise_var[..., None]))
    cap = (1 - floor).sqrt()  # of u_k, (..., K)
    u = torch.zeros_like(cap)
    for level in reversed(range(tree.levels)):
        u[..., level] = cap[..., level]
        below = u[..., level:].clone()
        allowed = channel_bits(m, tails[level], noise_var)
        # bisection for the price μ, as a share of the largest useful one, 2 ln2 a_level²
        low, high = torch.zeros_like(m), torch.ones_like(m)
        for _ in range(60):
            price = (low + high) / 2
            trial = _bias_at_price(price[..., None] * shares[level] / shares[level:]).minimum(below)
            over = bits_of_bias(trial).sum(-1) > allowed
            low, high = torch.where(over, price, low), torch.where(over, high, price)
        # `low` spends a little more than is allowed: the bound stays on the safe side
        trial = _bias_at_price(low[..., None] * shares[level] / shares[level:]).minimum(below)
        fits = bits_of_bias(below).sum(-1) <= allowed
        u[..., level:] = torch.where(fits[..., None], below, trial)
    return ((1 - u**2) * shares).sum(-1)


def _bias_at_price(ratio: Tensor) -> Tensor:
    """Return u = tanh(t) where tanh(t)/t = ratio, and 0 where ratio ≥ 1."""
    r = ratio.clamp(1e-12, 1 - 1e-15)
    gap = 1 / r - 1
    t = torch.where(gap < 2.5, (3 * gap / (1 - gap.clamp_max(2.5) / 5)).sqrt(), 1 / r)  # above the root
    for _ in range(12):  # Newton's steps on the concave tanh(t) − r t descend to the root
        th = t.tanh()
        t = t - (th - r * t) / (1 - th**2 - r)
    return torch.where(ratio >= 1, 0.0, t.tanh())


def _mmse_curve(rho: Array) -> tuple[Array, Array]:
    """Return m(ρ) and its derivative."""
    rates = _RATES.numpy()
    terms = np.exp(-np.outer(rho, rates)) * _WEIGHTS.numpy()
    return terms.sum(1), -terms @ rates


def _sequential_curve(rho: Array) -> tuple[Array, Array]:
    """Return ψ(ρ) and its derivative, from the root t of t tanh t = ρ: ψ = 1 − tanh² t."""
    low, high = np.maximum(np.sqrt(rho), rho), (rho + np.sqrt(rho**2 + 4 * rho)) / 2
    for _ in range(50):
        t = (low + high) / 2
        below = t * np.tanh(t) < rho
        low, high = np.where(below, t, low), np.where(below, high, t)
    u = np.tanh(high)  # of the upper end: ψ is not overestimated
    loss = 4 * np.exp(-2 * high) / (1 + np.exp(-2 * high)) ** 2  # 1/cosh²
    slope = -2 * u * loss / np.maximum(u + high * loss, 1e-300)
    return loss, np.where(rho < 1e-12, -1.0, slope)


def energy_bound(tree: TreePrior, m: Tensor, noise_var: Tensor, *, adaptive: bool = False) -> Tensor:
    """Return min_P Σ_k a_k² f(ρ_k(P)) at each point, f = m, or f = ψ and the effective budget if adaptive."""
    points = zip(m.flatten().tolist(), noise_var.flatten().tolist(), strict=True)
    bounds = [_energy_bound_at(tree, budget, noise, adaptive=adaptive) for budget, noise in points]
    return torch.tensor(bounds, dtype=torch.float64).reshape(m.shape)


def _energy_bound_at(tree: TreePrior, budget: float, noise_var: float, *, adaptive: bool = False) -> float:
    if budget == 0 or noise_var == 0:
        return float(budget == 0)
    shares = level_shares(tree).numpy()
    nodes = 2.0 ** np.arange(tree.levels)
    v = shares / nodes
    ratios = (np.diag(v) + np.triu(np.tile(v, (tree.levels, 1)), 1) / 2) / noise_var  # ρ = ratios @ P
    most, curve = nodes, _mmse_curve
    if adaptive:
        leak = 1 + math.sqrt((1 + shares[0]) / (math.pi * noise_var))
        effective = 0.0
        for _ in range(int(budget)):
            effective = 1 + leak * effective
            if effective * v[-1] > 50 * noise_var:  # every level can be read: nothing is left to bound
                return 0.0
        budget, most, curve = effective, np.full_like(nodes, effective), _sequential_curve

    def log_loss(power: Array) -> tuple[float, Array]:
        value, slope = curve(np.maximum(ratios @ power, 0))
        total = max(float(shares @ value), 1e-300)
        return math.log(total), (shares * slope) @ ratios / total

    found = minimize(
        log_loss,
        np.minimum(budget / tree.levels, most),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, limit) for limit in most],
        constraints={"type": "ineq", "fun": lambda p: budget - p.sum(), "jac": lambda p: -np.ones_like(p)},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    # The convex loss lies above its tangent plane, and the least value of that is a greedy filling. A solver
    # that stopped early would only loosen the bound.
    value, slope = log_loss(found.x)
    order = np.argsort(slope)
    filled = np.clip(budget - np.cumsum(most[order]) + most[order], 0, most[order])
    certified = math.exp(value) * (1 - float(slope @ found.x) + float(slope[order] @ filled))
    closed_form = float(shares @ np.exp(-budget * v / noise_var))
    return max(certified, 0.0 if adaptive else closed_form)
