"""Closed forms: every curve that the chapters draw. All results are float64.

Every argument but the prior may be a number or a sequence, array or tensor of numbers; they are broadcast
against each other, and the result is a float64 tensor of the broadcast shape (0-dim for plain numbers).
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fvbook import _bounds, _check
from fvbook.priors import Prior, TreePrior

Numbers = float | Sequence[float] | npt.NDArray[np.generic] | Tensor
"""A number, or many of them in any shape."""


def linear_mmse(prior: Prior, budget: Numbers, n_tokens: Numbers, noise_std: Numbers) -> Tensor:
    """Return the loss of the best linear estimate of θ from any M fixed linear measurements of the moment b.

    The moment has covariance S = V(1 + 1/N) + (1 + s²)/N with V = diag(v) the prior covariance, and
    cross-covariance V with θ. The best M measurements are the M coordinates of largest prior variance, and
    L = 1 − Σ_{n ≤ M} v_n² / (v_n (1 + 1/N) + (1 + s²)/N), exact at every finite N.

    Parameters
    ----------
    prior : GaussianPrior or TreePrior
        With variances v that sum to 1.
    budget : integer(s)
        M, from 0 to D.
    n_tokens : integer(s) or infinity
        N ≥ 1; `math.inf` gives the limit of many tokens, the sum of the D − M smallest variances.
    noise_std : number(s)
        s ≥ 0.

    Returns
    -------
    Tensor
        The loss E|θ − θ̂|², between 0 and 1, of the broadcast shape.

    Raises
    ------
    ValueError
        If an argument is out of its range or the shapes do not broadcast.
    """
    m = _numbers("budget", budget, 0, prior.dim, whole=True)
    n = _numbers("n_tokens", n_tokens, 1, math.inf, whole=True)
    s = _numbers("noise_std", noise_std, 0)
    m, n, s = _broadcast(m, n, s)
    v = _variances(prior)
    n, s = n[..., None], s[..., None]
    gains = v**2 / (v * (1 + 1 / n) + (1 + s**2) / n)  # (..., D), already in decreasing order
    kept = torch.arange(prior.dim) < m[..., None]
    return (v - torch.where(kept, gains, 0.0)).sum(-1)


def gaussian_mmse(covariance: Tensor, budget: Numbers, noise_var: Numbers) -> Tensor:
    """Return the least loss of M unit-norm orthogonal measurements of a Gaussian θ, adaptive or not.

    With θ ~ N(0, C) and y_i = k_i·θ + N(0, τ²) the posterior covariance depends on the keys alone, and the
    best keys are the top M eigenvectors of C: L = Σ_{i ≤ M} λ_i τ²/(λ_i + τ²) + Σ_{i > M} λ_i.

    Parameters
    ----------
    covariance : Tensor
        C, (D, D), symmetric and positive semi-definite; or its eigenvalues in any order, (D,).
    budget : integer(s)
        M, from 0 to D.
    noise_var : number(s)
        τ² ≥ 0.

    Returns
    -------
    Tensor
        The loss E|θ − θ̂|², in the units of tr C.

    Raises
    ------
    ValueError
        If an argument is out of its range, C has a negative eigenvalue or the shapes do not broadcast.
    """
    if isinstance(covariance, Tensor) and covariance.ndim == 1:
        values = _check.tensor("covariance", covariance, None).double()
    else:
        matrix = _check.tensor("covariance", covariance, None, None).double()
        if matrix.shape[0] != matrix.shape[1] or not torch.allclose(matrix, matrix.T):
            raise ValueError(f"covariance has shape {tuple(matrix.shape)}: must be square and symmetric")
        values = torch.linalg.eigvalsh(matrix)
    values = values.sort(descending=True).values
    if values[-1] < -1e-6 * values[0].abs():
        raise ValueError(f"covariance has the eigenvalue {values[-1]:g}: must have none below 0")
    values = values.clamp_min(0)
    m, t = _broadcast(
        _numbers("budget", budget, 0, len(values), whole=True), _numbers("noise_var", noise_var, 0)
    )
    measured = torch.arange(len(values)) < m[..., None]
    left = values * t[..., None] / (values + t[..., None]).clamp_min(torch.finfo(torch.float64).tiny)
    return torch.where(measured, left, values).sum(-1)


def one_coordinate_mmse(tree: TreePrior, budget: Numbers, noise_var: Numbers = 0.0) -> Tensor:
    """Return the loss of one coordinate at a time, root first, each outcome's sign choosing the next node.

    Without noise it is (α^M − α^K)/(1 − α^K), and 0 for M ≥ K: M measurements know the first M levels and the
    share Σ_{k>M} a_k² of |θ|² remains. With noise the sign of level k, read on the right node, is wrong with
    probability p_k = Q(a_k/τ), the right node is reached with probability q_k = Π_{i<k} (1 − p_i), and the
    best estimate from the signs alone, a_k q_k (1 − 2p_k) times the sign at the node reached, has the loss
    1 − Σ_{k ≤ M} a_k² q_k² (1 − 2p_k)², exactly. (The Bayes decoder of the same outcomes loses less.)

    Parameters
    ----------
    tree : TreePrior
    budget : integer(s)
        M, from 0 to D. Measurements beyond the K-th are not used.
    noise_var : number(s)
        τ² ≥ 0 of the isotropic Gaussian noise.

    Returns
    -------
    Tensor
        The loss, between 0 and 1, of the broadcast shape.

    Raises
    ------
    ValueError
        If an argument is out of its range or the shapes do not broadcast.
    """
    m, t = _budget_and_noise(tree, budget, noise_var)
    power = (torch.arange(tree.levels) < m[..., None]).double()
    return _sign_decoder_loss(tree, power * _bounds.level_shares(tree), t[..., None])


def group_code(tree: TreePrior, budget: int, noise_var: float) -> tuple[int, ...]:
    """Return the best group-testing code: the number M_k of groups at each level, with Σ M_k ≤ M.

    The 2^(k−1) nodes of level k fall into M_k groups of neighbours of equal size (M_k is a power of two, or 0
    if the level is not read), and each group has one key, the normalised sum of its nodes. The keys are fixed
    beforehand, so this is a non-adaptive strategy; see `group_code_mmse` for its decoder and its loss.

    Raises ValueError if M is not an integer from 0 to D or τ² < 0.
    """
    budget = _check.integer("budget", budget, 0, tree.dim)
    _, choices = _best_groups(tree, budget, _check.real("noise_var", noise_var, 0))
    counts = []
    for choice in choices:
        counts.append(int(choice[budget]))
        budget -= counts[-1]
    return tuple(counts)


def group_code_mmse(tree: TreePrior, budget: Numbers, noise_var: Numbers) -> Tensor:
    """Return the loss of the best group-testing code under the sign decoder.

    Read from the root down, the group that holds the node reached gives the sign of that level: with M_k
    groups its signal-to-noise ratio is ρ_k = M_k v_k/τ², v_k = a_k²/2^(k−1). With p_k = Q(√ρ_k) and q_k =
    Π_{i<k} (1 − p_i) the loss is 1 − Σ_k a_k² q_k² (1 − 2p_k)², exactly. The numbers M_k are optimised by
    dynamic programming over the levels. As a function of M the loss falls like M^−γ, `nonadaptive_exponent`.

    Parameters
    ----------
    tree : TreePrior
    budget : integer(s)
        M, from 0 to D.
    noise_var : number(s)
        τ² ≥ 0.

    Returns
    -------
    Tensor
        The loss, between 0 and 1, of the broadcast shape.

    Raises
    ------
    ValueError
        If an argument is out of its range or the shapes do not broadcast.
    """
    m, t = _budget_and_noise(tree, budget, noise_var)
    loss = torch.ones(m.shape, dtype=torch.float64)
    for value in t.unique():
        gains, _ = _best_groups(tree, tree.dim, float(value))
        loss = torch.where(t == value, 1 - gains[m.long()], loss)
    return loss


def binary_mmse(snr: Numbers) -> Tensor:
    """Return m(ρ), the least mean squared error of a fair sign σ seen as √ρ σ + N(0, 1).

    m(ρ) = 1 − E tanh(ρ + √ρ Z) = e^(−ρ/2) E sech(√ρ Z) = E exp(−ρ(1 + S²)/2) with S of density ½ sech(πs/2):
    a mixture of exponentials, so decreasing and convex, with e^−ρ ≤ m(ρ) ≤ e^(−ρ/2). Raises ValueError if ρ <
    0.
    """
    return _bounds.binary_mmse(_numbers("snr", snr, 0))


def information_mmse(bits: Numbers) -> Tensor:
    """Return the least mean squared error of a fair sign about which I bits of information are known.

    It is φ(1 − I), where φ(h) = 4p(1 − p) for h = h2(p), p ≤ ½. φ is convex, with φ(0) = 0, φ(1) = 1 and
    slope 2 ln 2 at 1, so φ(1 − I) ≥ 1 − (2 ln 2) I; it lies below 1 − I. Raises ValueError if I is not in [0,
    1].
    """
    bits_known = _numbers("bits", bits, 0, 1)
    low, high = torch.zeros_like(bits_known), torch.ones_like(bits_known)
    for _ in range(60):  # bisection for u = 1 − 2p
        u = (low + high) / 2
        below = _bounds.bits_of_bias(u) < bits_known
        low, high = torch.where(below, u, low), torch.where(below, high, u)
    return 1 - low**2


def information_bits(budget: Numbers, noise_var: Numbers) -> Tensor:
    """Return I_M = (M/2) log2(1 + 1/(M τ²)), the most bits that M measurements tell about θ, E|θ|² = 1.

    It holds for adaptive unit-norm orthogonal keys and Gaussian noise of variance τ² ≥ 0, in bits; I_0 = 0,
    and I_M is infinite without noise. Raises ValueError if M is not an integer ≥ 0, τ² < 0, or the shapes do
    not broadcast.
    """
    m, t = _broadcast(_numbers("budget", budget, 0, 1e15, whole=True), _numbers("noise_var", noise_var, 0))
    return _bounds.channel_bits(m, torch.ones_like(t), t)


def lower_bound(tree: TreePrior, budget: Numbers, noise_var: Numbers) -> Tensor:
    """Return a lower bound on the loss of every strategy, adaptive or not, with any decoder.

    The largest of three. (1) Information: with I_k the bits known about the sign σ_k given the signs above
    it, and A_k = Σ_{j ≥ k} a_j², the error of level k is at least φ(1 − I_k) (`information_mmse`) and at
    least m((a_k² + A_k)/(2τ²)) (`binary_mmse`), and the channel allows Σ_{j ≥ k} I_j ≤ (M/2) log2(1 + A_k/(M
    τ²)) for every k: the least Σ_k a_k² e_k under these constraints. (2) Energy: outcomes can aim the next
    key at the path no better than by the factor Λ = 1 + √((1 + a_1²)/π)/τ, so an adaptive strategy has the
    signal energies of a non-adaptive one of budget 1 + Λ + … + Λ^(M−1), and a sign read with mean
    signal-to-noise ratio ρ has an error of at least ψ(ρ) = 1 − u², u atanh u = ρ; see
    `nonadaptive_lower_bound`. (3) A single measurement cannot adapt, so M = 1 obeys the non-adaptive bound.

    Parameters
    ----------
    tree : TreePrior
    budget : integer(s)
        M, from 0 to D, unit-norm orthogonal keys.
    noise_var : number(s)
        τ² ≥ 0.

    Returns
    -------
    Tensor
        The bound, between 0 and 1, of the broadcast shape; it decreases in M and increases in τ².

    Raises
    ------
    ValueError
        If an argument is out of its range or the shapes do not broadcast.
    """
    m, t = _budget_and_noise(tree, budget, noise_var)
    bound = _bounds.information_bound(tree, m, t)
    bound = torch.maximum(bound, _bounds.energy_bound(tree, m, t, adaptive=True))
    single = m == 1
    if bool(single.any()):
        bound[single] = torch.maximum(bound[single], _bounds.energy_bound(tree, m[single], t[single]))
    return bound


def nonadaptive_lower_bound(tree: TreePrior, budget: Numbers, noise_var: Numbers) -> Tensor:
    """Return a lower bound on the loss of every non-adaptive strategy, whatever its decoder.

    Let P_j be the squared norm that the M keys spend on level j. To a decoder that is told the path above
    level k and two leaves, one on each side of the node there, of which one is the truth, what is left is a
    sign in Gaussian noise, of mean signal-to-noise ratio ρ_k = (P_k v_k + ½ Σ_{j>k} P_j v_j)/τ², v_k =
    a_k²/2^(k−1). As m is convex (`binary_mmse`), the loss is at least Σ_k a_k² m(ρ_k). The bound is the least
    of this over all allocations, Σ_j P_j = M and 0 ≤ P_j ≤ 2^(j−1): a convex programme, certified by its
    linearisation. The result is the larger of this and `lower_bound`.

    Parameters, result and errors are those of `lower_bound`.
    """
    m, t = _budget_and_noise(tree, budget, noise_var)
    return torch.maximum(_bounds.energy_bound(tree, m, t), lower_bound(tree, m, t))


def nonadaptive_closed_form_bound(tree: TreePrior, budget: Numbers, noise_var: Numbers) -> Tensor:
    """Return Σ_k a_k² exp(−M v_k/τ²), v_k = a_k²/2^(k−1), a lower bound for every non-adaptive strategy.

    It follows from `nonadaptive_lower_bound` (which it never exceeds) by ρ_k ≤ M v_k/τ² and m(ρ) ≥ e^−ρ, and
    it gives the power law: if M v_1 ≥ τ² ≥ M v_K then L ≥ (α (1 − α)/e) (M a_1²/τ²)^−γ,
    `nonadaptive_exponent`.

    Parameters, result and errors are those of `lower_bound`.
    """
    m, t = _budget_and_noise(tree, budget, noise_var)
    v = _bounds.level_shares(tree) / 2.0 ** torch.arange(tree.levels)
    return (_bounds.level_shares(tree) * torch.exp(-_bounds.ratio(m[..., None] * v, t[..., None]))).sum(-1)


def nonadaptive_exponent(decay: Numbers) -> Tensor:
    """Return γ = ln(1/α)/ln(2/α): the best non-adaptive loss falls like M^−γ, whatever the decoder.

    Raises ValueError if α is not in (0, 1).
    """
    alpha = _numbers("decay", decay, 0, 1, open_=True)
    return alpha.log() / (alpha / 2).log()


def linear_exponent(decay: Numbers) -> Tensor:
    """Return log2(1/α): without noise the best linear, non-adaptive loss falls like M^−log2(1/α).

    Raises ValueError if α is not in (0, 1).
    """
    return -_numbers("decay", decay, 0, 1, open_=True).log2()


def _numbers(
    name: str, value: Numbers, low: float, high: float = math.inf, *, open_: bool = False, whole: bool = False
) -> Tensor:
    """Return the value in float64; ValueError unless all of it is in [low, high], or (low, high) if `open_`.

    Infinity is allowed only for `whole` numbers without an upper end.
    """
    kind = "integers" if whole else "numbers"
    left, right = "()" if open_ else "[]"
    allowed = f"{kind} in {left}{low:g}, {high:g}{')' if math.isinf(high) else right}"
    try:
        numbers = torch.as_tensor(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{name} = {value!r}: must be {allowed}") from None
    inside = (numbers > low) & (numbers < high) if open_ else (numbers >= low) & (numbers <= high)
    fits = inside & (numbers.round() == numbers if whole else numbers.isfinite())
    if not bool(fits.all()):
        raise ValueError(f"{name} = {value!r}: must be {allowed}")
    return numbers


def _broadcast(*tensors: Tensor) -> tuple[Tensor, ...]:
    shapes = [tuple(tensor.shape) for tensor in tensors]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"the arguments have shapes {shapes}: must broadcast against each other") from None
    return tuple(tensor.expand(shape) for tensor in tensors)


def _variances(prior: Prior) -> Tensor:
    """Return the prior variance of each coordinate in decreasing order, (D,), in float64."""
    if isinstance(prior, TreePrior):
        level = prior.node_levels.cpu() - 1
        return _bounds.level_shares(prior)[level] / 2.0**level
    return torch.full((prior.dim,), 1 / prior.dim, dtype=torch.float64)


def _budget_and_noise(tree: TreePrior, budget: Numbers, noise_var: Numbers) -> tuple[Tensor, Tensor]:
    m, t = _broadcast(
        _numbers("budget", budget, 0, tree.dim, whole=True), _numbers("noise_var", noise_var, 0)
    )
    return m, t


def _sign_decoder_loss(tree: TreePrior, power: Tensor, noise_var: Tensor) -> Tensor:
    """Return 1 − Σ_k a_k² q_k² (1 − 2p_k)² for the squared signal of each level, (..., K)."""
    wrong = torch.special.ndtr(-_bounds.ratio(power, noise_var).sqrt())
    reached = torch.cat([torch.ones_like(wrong[..., :1]), (1 - wrong[..., :-1]).cumprod(-1)], -1)
    return (_bounds.level_shares(tree) * (1 - (reached * (1 - 2 * wrong)) ** 2)).sum(-1)


def _best_groups(tree: TreePrior, budget: int, noise_var: float) -> tuple[Tensor, list[Tensor]]:
    """Return 1 − L of the best code for every M ≤ budget, and each level's M_k for every M left to it.

    The sum Σ_k a_k² q_k² (1 − 2p_k)² is nested, G_k(M) = max_c [a_k² (1 − 2p)² + (1 − p)² G_{k+1}(M − c)].
    """
    shares = _bounds.level_shares(tree)
    left = torch.arange(budget + 1)
    gain = torch.zeros(budget + 1, dtype=torch.float64)
    choices: list[Tensor] = []
    for level in reversed(range(tree.levels)):
        counts = torch.tensor([0] + [2**e for e in range(level + 1)])
        counts = counts[counts <= budget]
        rho = _bounds.ratio(counts * shares[level] / 2.0**level, torch.tensor(noise_var, dtype=torch.float64))
        wrong = torch.special.ndtr(-rho.sqrt())[:, None]
        rest = left - counts[:, None]
        value = shares[level] * (1 - 2 * wrong) ** 2 + (1 - wrong) ** 2 * gain[rest.clamp_min(0)]
        gain, best = value.where(rest >= 0, -1.0).max(0)
        choices.insert(0, counts[best])
    return gain, choices
