"""Measurement strategies on the tree prior, fixed, adaptive and learned, all read by the exact Bayes decoder.

A strategy is a function ``strategy(log_posterior, keys) -> (B, D)``: given the belief about the leaves, (B,
2^K), and the i keys used so far, (B, i, D), it names the next direction, of any length. `measure` makes it
orthogonal to the earlier keys and of unit norm, and draws the outcome y = k·θ + N(0, τ²).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Generator, Tensor, nn

from fvbook import _check
from fvbook.inference import leaf_projections, log_normalised, tree_mean, tree_reach, tree_risk
from fvbook.priors import TreePrior

Strategy = Callable[[Tensor, Tensor], Tensor]


class Measured(NamedTuple):
    """What a strategy did to a batch of leaves.

    keys : (B, M, D), orthonormal for each sample; outcomes : (B, M); log_posterior : (B, 2^K), the exact
    belief at the end; risks : (B,), the posterior risk 1 − |E[θ | Φ]|², whose mean is the loss of the
    strategy.
    """

    keys: Tensor
    outcomes: Tensor
    log_posterior: Tensor
    risks: Tensor


def measure(
    tree: TreePrior,
    strategy: Strategy,
    budget: int,
    noise_var: float,
    n_samples: int,
    *,
    generator: Generator | None = None,
) -> Measured:
    """Run a strategy of M measurements on n_samples contexts; differentiable in its parameters.

    The leaves are stratified: each comes up equally often, up to one.

    Raises
    ------
    ValueError
        If M is not an integer from 0 to D, τ² ≤ 0 or n_samples < 1, or if the strategy returns a wrong shape
        or a direction that the earlier keys already span.
    """
    budget = _check.integer("budget", budget, 0, tree.dim)
    noise_var = _positive("noise_var", noise_var)
    n_samples = _check.integer("n_samples", n_samples, 1)
    leaf = _stratified_leaves(tree, n_samples, generator)
    noise = torch.randn(budget, n_samples, 1, generator=generator, dtype=tree.dtype, device=tree.device)
    noise = noise_var**0.5 * noise
    keys = noise.new_zeros(n_samples, 0, tree.dim)
    outcomes = noise.new_zeros(n_samples, 0)
    log_likelihood = noise.new_zeros(n_samples, 2**tree.levels)
    log_posterior = log_normalised(log_likelihood)
    for i in range(budget):
        key = _orthonormal(strategy(log_posterior, keys), keys)
        signal = leaf_projections(tree, key)  # (B, 2^K)
        outcome = signal.gather(1, leaf[:, None]) + noise[i]
        log_likelihood = log_likelihood - (outcome - signal) ** 2 / (2 * noise_var)
        log_posterior = log_normalised(log_likelihood)
        keys = torch.cat([keys, key[:, None]], 1)
        outcomes = torch.cat([outcomes, outcome], 1)
    return Measured(keys, outcomes, log_posterior, tree_risk(tree, log_posterior))


def fixed(keys: Tensor) -> Strategy:
    """Return the non-adaptive strategy that uses the rows of keys, (M, D), in order."""
    return lambda _, used: keys[used.shape[1]].expand(len(used), -1)


def fixed_risks(
    tree: TreePrior, keys: Tensor, noise_var: float, n_samples: int, *, generator: Generator | None = None
) -> Tensor:
    """Return the posterior risks, (n_samples,), of the non-adaptive keys, (M, D), without a loop over M.

    Equal in law to ``measure(tree, fixed(keys), ...).risks`` for orthonormal keys; differentiable in the
    keys.

    Raises ValueError if keys is not a finite (M, D) tensor, τ² ≤ 0 or n_samples < 1.
    """
    keys = _check.tensor("keys", keys, None, tree.dim)
    noise_var = _positive("noise_var", noise_var)
    leaf = _stratified_leaves(tree, _check.integer("n_samples", n_samples, 1), generator)
    signal = leaf_projections(tree, keys).T  # (2^K, M)
    noise = torch.randn(n_samples, len(keys), generator=generator, dtype=keys.dtype, device=keys.device)
    outcomes = signal[leaf] + noise_var**0.5 * noise
    # up to −|y|²/(2τ²), which is the same for every leaf
    log_likelihood = (outcomes @ signal.T - (signal**2).sum(1) / 2) / noise_var
    return tree_risk(tree, log_normalised(log_likelihood))


def breadth_first_keys(tree: TreePrior, budget: int) -> Tensor:
    """Return the first M coordinates, root first, (M, D): the best keys of a linear decoder."""
    budget = _check.integer("budget", budget, 0, tree.dim)
    return torch.eye(tree.dim, dtype=tree.dtype, device=tree.device)[:budget]


def group_keys(tree: TreePrior, counts: tuple[int, ...]) -> Tensor:
    """Return the keys of a group-testing code, (Σ M_k, D), root level first.

    The nodes of level k fall into M_k groups of neighbours of equal size, each with the normalised sum of its
    nodes as its key. `theory.group_code` returns the best counts for a budget; counts of 1 are sums of whole
    levels.

    Raises ValueError unless there is one count for each level, and each is 0 or a power of two up to 2^(k−1).
    """
    if len(counts) != tree.levels:
        raise ValueError(f"counts = {counts!r}: must have {tree.levels} entries, one for each level")
    keys = torch.zeros(sum(counts), tree.dim, dtype=tree.dtype, device=tree.device)
    row = 0
    for level, count in enumerate(counts):
        if count == 0:
            continue
        if count not in [2**e for e in range(level + 1)]:
            raise ValueError(f"counts[{level}] = {count}: must be 0 or a power of two up to {2**level}")
        size = 2**level // count
        for first in range(2**level - 1, 2 ** (level + 1) - 1, size):
            keys[row, first : first + size] = size**-0.5
            row += 1
    return keys


def one_coordinate(tree: TreePrior) -> Strategy:
    """Return the adaptive strategy that reads one node at a time, root first, following the signs.

    The belief after an outcome y at a node is left of it just if y > 0, so the next node is found from the
    belief inside the last key's subtree. Beyond the K-th measurement it reads the coordinate of largest
    posterior variance.
    """
    greedy = largest_variance(tree)

    def strategy(log_posterior: Tensor, keys: Tensor) -> Tensor:
        step = keys.shape[1]
        if step >= tree.levels:
            return greedy(log_posterior, keys)
        if step == 0:
            node = torch.zeros(len(keys), dtype=torch.long, device=keys.device)
        else:
            last = keys[:, -1].abs().argmax(-1, keepdim=True)
            side = tree_mean(tree, log_posterior).gather(1, last)[:, 0]  # its sign is the outcome's
            node = 2 * last[:, 0] + torch.where(side > 0, 1, 2)
        return nn.functional.one_hot(node, tree.dim).to(keys.dtype)

    return strategy


def largest_variance(tree: TreePrior) -> Strategy:
    """Return the greedy adaptive strategy: read the unread coordinate of largest posterior variance.

    Without noise it is one coordinate at a time, root first; with noise it comes back to a level it is unsure
    of.
    """
    level = tree.node_levels - 1

    def strategy(log_posterior: Tensor, keys: Tensor) -> Tensor:
        power = tree.amplitudes[level] ** 2 * tree_reach(tree, log_posterior)
        variance = power - tree_mean(tree, log_posterior) ** 2
        read = keys.abs().sum(1) > 0.5
        return nn.functional.one_hot(variance.masked_fill(read, -1.0).argmax(-1), tree.dim).to(keys.dtype)

    return strategy


def learn_keys(
    tree: TreePrior,
    budget: int,
    noise_var: float,
    *,
    steps: int = 1000,
    batch_size: int = 512,
    learning_rate: float = 0.02,
    start: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return the best non-adaptive keys found by gradient descent, (M, D) orthonormal.

    Adam with a cosine schedule on the mean risk of the exact Bayes decoder over fresh, stratified samples.
    Starts from `start`, (M, D), or from random keys of the prior's own scale. Evaluate the result with
    ``measure(tree, fixed(keys), ...)``.

    Raises ValueError if M is not an integer from 1 to D, τ² ≤ 0, or steps or batch_size < 1.
    """
    budget = _check.integer("budget", budget, 1, tree.dim)
    noise_var = _positive("noise_var", noise_var)
    batch_size = _check.integer("batch_size", batch_size, 1)
    if start is None:
        shape = (budget, tree.dim)
        start = torch.randn(shape, generator=generator, dtype=tree.dtype, device=tree.device)
        start = start * tree.variances.sqrt()
    raw = _check.tensor("start", start, budget, tree.dim).clone().requires_grad_()

    def loss() -> Tensor:
        return fixed_risks(tree, _orthonormal_rows(raw), noise_var, batch_size, generator=generator).mean()

    _descend([raw], loss, steps, learning_rate)
    return _orthonormal_rows(raw.detach())


class Router(nn.Module):
    """A learned adaptive strategy: one small network for each measurement, from the belief to the next key.

    The network sees the posterior mean of θ, scaled to the sign of each node, and the probability that the
    path visits the node. Its output is added to (v/max v)^sharpness, v the posterior variances of the
    coordinates not read yet: training starts from a soft version of `largest_variance`, the harder the larger
    the sharpness.

    Parameters
    ----------
    tree : TreePrior
    budget : int
        M ≥ 1.
    width : int
        Of the hidden layer.
    sharpness : float
        > 0. Low noise rewards superposed keys, which 1 leads to; 4 leads to nearly one coordinate at a time.
    """

    def __init__(
        self,
        tree: TreePrior,
        budget: int,
        width: int = 64,
        sharpness: float = 1.0,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.tree = tree
        self.sharpness = _positive("sharpness", sharpness)
        self.first = nn.Parameter((tree.variances / tree.variances[0]) ** sharpness)
        self.networks = nn.ModuleList()
        for _ in range(_check.integer("budget", budget, 1, tree.dim) - 1):
            network = nn.Sequential(nn.Linear(2 * tree.dim, width), nn.GELU(), nn.Linear(width, tree.dim)).to(
                tree.device, tree.dtype
            )
            for parameter in network.parameters():
                bound = 0.3 * parameter.shape[-1] ** -0.5
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
            self.networks.append(network)

    def forward(self, log_posterior: Tensor, keys: Tensor) -> Tensor:
        """Return the next direction, (B, D)."""
        if keys.shape[1] == 0:
            return self.first.expand(len(keys), -1)
        reach = tree_reach(self.tree, log_posterior)
        scale = self.tree.amplitudes[self.tree.node_levels - 1]
        sign = tree_mean(self.tree, log_posterior) / scale
        variance = scale**2 * (reach - sign**2)
        unread = variance * (1 - (keys**2).sum(1))
        share = unread / unread.max(-1, keepdim=True).values.clamp_min(1e-30)
        direction: Tensor = self.networks[keys.shape[1] - 1](torch.cat([sign, reach], -1))
        return share**self.sharpness + direction


def learn_router(
    tree: TreePrior,
    budget: int,
    noise_var: float,
    *,
    width: int = 64,
    sharpness: float = 1.0,
    steps: int = 1000,
    batch_size: int = 512,
    learning_rate: float = 0.01,
    generator: Generator | None = None,
) -> Router:
    """Return an adaptive strategy learned by gradient descent through the simulated measurements.

    Adam with a cosine schedule on the mean posterior risk of fresh, stratified samples, the decoder being
    exact: the loss of the result, by `measure`, is an upper bound on the adaptive optimum.

    Raises ValueError if M is not an integer from 1 to D, τ² ≤ 0, or steps or batch_size < 1.
    """
    router = Router(tree, budget, width, sharpness, generator=generator)

    def loss() -> Tensor:
        return measure(tree, router, budget, noise_var, batch_size, generator=generator).risks.mean()

    _descend(list(router.parameters()), loss, steps, learning_rate)
    return router.requires_grad_(False)


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


_ANGLES = 48


def _positive(name: str, value: float) -> float:
    if _check.real(name, value, 0) == 0:
        raise ValueError(f"{name} = {value!r}: must be > 0")
    return float(value)


def _stratified_leaves(tree: TreePrior, n_samples: int, generator: Generator | None) -> Tensor:
    """Return n_samples leaf indices, each leaf as often as any other, up to one; the first is random."""
    start = torch.randint(2**tree.levels, (), generator=generator, device=tree.device)
    return (torch.arange(n_samples, device=tree.device) + start) % 2**tree.levels


def _orthonormal(direction: Tensor, used: Tensor) -> Tensor:
    """Return the directions, (B, D), made orthogonal to the rows of used, (B, i, D), with unit norm."""
    if direction.shape != (used.shape[0], used.shape[2]):
        raise ValueError(
            f"the strategy returned shape {tuple(direction.shape)}: must be {(len(used), used.shape[2])}"
        )
    key = direction / direction.norm(dim=-1, keepdim=True).clamp_min(1e-30)
    for _ in range(2):  # twice is enough
        key = key - torch.einsum("bid,bi->bd", used, torch.einsum("bid,bd->bi", used, key))
    norm = key.norm(dim=-1, keepdim=True)
    if not bool((norm > 1e-6).all()):
        raise ValueError(
            "the strategy returned a direction that the earlier keys span: must be independent of them"
        )
    return key / norm


def _orthonormal_rows(raw: Tensor) -> Tensor:
    """Return an orthonormal basis of the span of the rows: only the span matters to the loss."""
    return torch.linalg.qr(raw.T).Q.T


def _descend(parameters: list[Tensor], loss: Callable[[], Tensor], steps: int, learning_rate: float) -> None:
    steps = _check.integer("steps", steps, 1)
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
        schedule.step()
