"""The tree of two levels solved exactly: one and two measurements, adaptive and fixed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from fvbook import _check
from fvbook.priors import TreePrior

_ANGLES = 48  # of the second key, over half a turn


@dataclass(frozen=True)
class TwoMeasurements:
    """The optima of one and of two measurements of the 2-level tree (D = 3: root, left node, right node).

    The problem does not change under a flip of the sign of any coordinate of the keys, nor when left and
    right are exchanged. The representative first key is non-negative with left ≥ right, and it is the root,
    (1, 0, 0), exactly whenever the root's loss is within 2e-5 of the least.

    Attributes
    ----------
    decay, noise_var : float
        α and τ².
    adaptive : float
        Least loss when the second key may depend on the first outcome.
    first_key : Tensor
        (3,), the first key that attains it.
    outcomes, density : Tensor
        (n,), a grid of first outcomes y, and the probability density of y there.
    second_keys : Tensor
        (n, 3), the best second key after each outcome: unit norm, orthogonal to first_key, its
        entry of largest absolute value positive.
    nonadaptive : float
        Least loss of two fixed keys.
    nonadaptive_keys : Tensor
        (2, 3), orthonormal keys that attain it. Any rotation of the pair in its plane has the same loss; this
        pair starts with the direction of the plane that is nearest to the root, in the representation above
        (a flip or exchange acts on both keys), so its second key has no root entry.
    root_first, root_first_nonadaptive : float
        The same two losses when the first key has to be the root.
    one_measurement : float
        Least loss of a single measurement; no strategy is adaptive here.
    one_key : Tensor
        (3,), the key that attains it.
    """

    decay: float
    noise_var: float
    adaptive: float
    first_key: Tensor
    outcomes: Tensor
    density: Tensor
    second_keys: Tensor
    nonadaptive: float
    nonadaptive_keys: Tensor
    root_first: float
    root_first_nonadaptive: float
    one_measurement: float
    one_key: Tensor


def solve_two_measurements(decay: float, noise_var: float) -> TwoMeasurements:
    """Solve the dynamic programme of two measurements of the 2-level tree, exactly up to quadrature.

    V = min over k_1 of E min over k_2 ⊥ k_1 of E[1 − |E[θ | y_1, y_2]|²]. The inner minimum is over the angle
    of k_2 in the plane orthogonal to k_1, for each first outcome on a grid of step τ/16; the outer one by the
    simplex method from a coarse search of all directions. The losses are accurate to 1e-4. Takes a few
    seconds on one CPU.

    Parameters
    ----------
    decay : float
        α in (0, 1).
    noise_var : float
        τ² ≥ 1e-3, the variance of the isotropic Gaussian noise.

    Raises
    ------
    ValueError
        If α or τ² is out of its range.
    """
    decay = _check.real("decay", decay, 0, 1, open_=True)
    noise_var = _check.real("noise_var", noise_var, 1e-3)
    leaves = TreePrior(2, decay, dtype=torch.float64).leaves

    def adaptive(key: Tensor, fineness: int) -> float:
        return 1 - float(_peak(_second_step(leaves, key, noise_var, fineness).value).sum())

    def nonadaptive(key: Tensor, fineness: int) -> float:
        return 1 - float(_peak(_second_step(leaves, key, noise_var, fineness).value.sum(0)))

    def single(key: Tensor, fineness: int) -> float:
        weights = _outcome_grid(leaves @ key, noise_var, fineness)[1] / 4
        return 1 - float(((weights @ leaves) ** 2).sum(1) @ (1 / weights.sum(1)))

    root = _direction(0.0, 0.0)
    best, first_key = _minimise_over_keys(adaptive)
    best_fixed, fixed_key = _minimise_over_keys(nonadaptive)
    best_single, one_key = _minimise_over_keys(single)
    step = _second_step(leaves, first_key, noise_var, 16)
    second_keys = step.keys[step.value.argmax(1)]
    largest = second_keys.gather(1, second_keys.abs().argmax(1, keepdim=True))
    partner = _second_step(leaves, fixed_key, noise_var, 16)
    pair = torch.stack([fixed_key, partner.keys[partner.value.sum(0).argmax()]])
    nearest = pair[:, 0] / pair[:, 0].norm().clamp_min(
        1e-9
    )  # rotate all of the root's share into the first key
    pair = torch.stack([nearest, torch.stack([-nearest[1], nearest[0]])]) @ pair
    pair = pair * torch.where(pair[0].abs() > 1e-9, pair[0], pair[1]).sign()
    left, right = pair[:, 1].round(decimals=9).tolist(), pair[:, 2].round(decimals=9).tolist()
    pair = (pair if left >= right else pair[:, [0, 2, 1]]) + 0.0  # − 0 becomes 0
    return TwoMeasurements(
        decay=decay,
        noise_var=noise_var,
        adaptive=max(best, 0.0),
        first_key=first_key,
        outcomes=step.outcomes,
        density=step.density,
        second_keys=second_keys * largest.sign(),
        nonadaptive=max(best_fixed, 0.0),
        nonadaptive_keys=pair,
        root_first=max(adaptive(root, 16), 0.0),
        root_first_nonadaptive=max(nonadaptive(root, 16), 0.0),
        one_measurement=max(best_single, 0.0),
        one_key=one_key,
    )


class _SecondStep(NamedTuple):
    outcomes: Tensor  # (n,), first outcomes y_1
    density: Tensor  # (n,), p(y_1)
    keys: Tensor  # (A, 3), second keys, their angle from 0 to π
    value: Tensor  # (n, A), the integral of |E[θ | y_1, y_2]|² over y_2 and over the cell of y_1


def _second_step(leaves: Tensor, key: Tensor, noise_var: float, fineness: int) -> _SecondStep:
    plane = torch.linalg.svd(key[None]).Vh[1:]  # an orthonormal basis of the plane orthogonal to the key
    angle = torch.arange(_ANGLES, dtype=leaves.dtype) * (math.pi / _ANGLES)
    keys = torch.stack([angle.cos(), angle.sin()], 1) @ plane
    outcomes, first = _outcome_grid(leaves @ key, noise_var, fineness)  # (n,), (n, 4)
    _, second = _outcome_grid(leaves @ keys.T, noise_var, 3)  # (n2, 4, A)
    second = second.permute(1, 2, 0).flatten(1)  # (4, A n2)
    squares = sum(((first * leaf) @ second) ** 2 for leaf in leaves.T)
    value = (squares / (first @ second)).unflatten(1, (_ANGLES, -1)).sum(-1) / 4
    density = first.mean(1) / (outcomes[1] - outcomes[0])
    return _SecondStep(outcomes, density, keys, value)


def _outcome_grid(means: Tensor, noise_var: float, fineness: int) -> tuple[Tensor, Tensor]:
    """Return outcomes y in ±(1 + 6τ) in steps of τ/fineness, (n,), and p(y | mean) dy, (n, *means)."""
    tau = noise_var**0.5
    size = math.ceil((1 + 6 * tau) / tau * fineness)
    y = torch.arange(-size, size + 1, dtype=means.dtype) * (tau / fineness)
    z = (y.reshape(-1, *[1] * means.ndim) - means) / tau
    exponent = (z**2 / 2).clamp_max(
        150
    )  # squares of products stay above the subnormal numbers, which are slow
    return y, torch.exp(-exponent) / (fineness * math.sqrt(2 * math.pi))


def _peak(value: Tensor) -> Tensor:
    """Return the maximum over the last, periodic axis, by the parabola through the largest entry."""
    top = value.argmax(-1, keepdim=True)
    size = value.shape[-1]
    middle, left, right = (value.gather(-1, (top + d) % size)[..., 0] for d in (0, -1, 1))
    curvature = 2 * middle - left - right
    return middle + (right - left) ** 2 / (8 * curvature.clamp_min(1e-300)).where(curvature > 0, math.inf)


def _direction(polar: float, azimuth: float) -> Tensor:
    """Return the representative of a key: non-negative, left ≥ right."""
    entries = [math.cos(polar), math.sin(polar) * math.cos(azimuth), math.sin(polar) * math.sin(azimuth)]
    root, *nodes = map(abs, entries)
    return torch.tensor([root, max(nodes), min(nodes)], dtype=torch.float64)


def _minimise_over_keys(loss: Callable[[Tensor, int], float]) -> tuple[float, Tensor]:
    """Return the least loss(key, fineness) over the directions, and the key."""
    grid = [(p * math.pi / 16, a * math.pi / 16) for p in range(9) for a in range(5)]
    starts = sorted(grid, key=lambda angles: loss(_direction(*angles), 4))[:2]
    root = _direction(0.0, 0.0)
    best = loss(root, 16), root
    for start in starts:
        simplex = np.asarray(start) + np.array([[0, 0], [0.1, 0], [0, 0.1]])
        options = {"initial_simplex": simplex, "xatol": 1e-3, "fatol": 1e-6}
        found = minimize(lambda x: loss(_direction(*x), 6), start, method="Nelder-Mead", options=options)
        key = _direction(*found.x)
        if (least := loss(key, 16)) < best[0] - 2e-5:
            best = least, key
    return best
