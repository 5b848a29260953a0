"""Measurement strategies on the tree prior, fixed, adaptive and learned, all read by the exact Bayes decoder.

A strategy is a function ``strategy(log_posterior, keys) -> (B, D)``: given the belief about the leaves, (B,
2^K), and the i keys used so far, (B, i, D), it names the next direction, of any length. `measure` makes it
orthogonal to the earlier keys and of unit norm, and draws the outcome y = k·θ + N(0, τ²).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from fvbook import _check
from fvbook.inference import leaf_projections, log_normalised, tree_mean, tree_reach, tree_risk
from fvbook.priors import TreePrior
from fvbook.two_measurements import TwoMeasurements, solve_two_measurements

__all__ = [
    "Measured",
    "Router",
    "Strategy",
    "TwoMeasurements",
    "breadth_first_keys",
    "fixed",
    "fixed_risks",
    "group_keys",
    "largest_variance",
    "learn_keys",
    "learn_router",
    "measure",
    "one_coordinate",
    "solve_two_measurements",
]

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
    noise_var = _check.real("noise_var", noise_var, 0, open_=True)
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
    noise_var = _check.real("noise_var", noise_var, 0, open_=True)
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
    noise_var = _check.real("noise_var", noise_var, 0, open_=True)
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
        self.sharpness = _check.real("sharpness", sharpness, 0, open_=True)
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
