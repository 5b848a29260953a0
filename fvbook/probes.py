"""Probes: what the keys of a network look at, and what its function vector knows.

Most take the `Trace` of a batch of B contexts (`interventions.trace`, `ConstrainedTransformer.trace`) and,
where they need it, the leaf of each. Layers count from 1; Φ_ℓ is the first ℓ d entries of Φ_L.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fvbook import _check
from fvbook.inference import function_vector_log_posterior
from fvbook.interventions import Context, patch, trace
from fvbook.models import ConstrainedTransformer, Trace
from fvbook.policies import Strategy
from fvbook.priors import TreePrior


class KeyEnergy(NamedTuple):
    """Energy of the keys of each layer on each level: on the path, `on` (L, K), and beside it, `off` (L, K).

    Means over contexts and channels; the 2K numbers of a layer sum to 1.
    """

    on: Tensor
    off: Tensor


def key_energy(tree: TreePrior, run: Trace, leaf: Tensor) -> KeyEnergy:
    """Return the share of |k|² = 1 that keys spend on each level, on the context's path and off it.

    Raises ValueError if the leaves, (B,) integers, or the tree do not fit the run.
    """
    _check_leaves(tree, run, leaf)
    on, off = [], []
    for keys in run.keys:
        energy = keys.square().mean(1)  # (B, D)
        whole = energy.new_zeros(len(energy), tree.levels).index_add_(1, tree.node_levels - 1, energy)
        path = energy.gather(1, tree.paths[leaf])  # (B, K)
        on.append(path.mean(0))
        off.append((whole - path).mean(0))
    return KeyEnergy(torch.stack(on), torch.stack(off))


def linear_readout(tree: TreePrior, run: Trace, leaf: Tensor, *, by_branch: bool = False) -> Tensor:
    """Return how often a linear probe of Φ_ℓ tells sign k of the path, (L, K), on held-out contexts.

    The probe is the sign of the least-squares fit of σ_k by Φ_ℓ and a constant, which for two classes is
    Fisher's linear discriminant; it is fitted on the first half of the contexts and tested on the second.

    Parameters
    ----------
    tree : TreePrior
    run : Trace
    leaf : Tensor
        (B,) integers.
    by_branch : bool
        Fit a probe of its own in each branch: for sign k one at each node of level k, for the contexts whose
        path visits it. A router may ask with k in one branch and with −k in the next; then no single linear
        probe can read the answers, but one in each branch can. It is told the branch, so it may do better
        than `bayes_readout`, which has to find it out.

    Raises
    ------
    ValueError
        If the leaves or the tree do not fit the run, or a probe has fewer than 2 (M + 1) contexts to fit.
    """
    _check_leaves(tree, run, leaf)
    phi = run.function_vector
    features = torch.cat([torch.ones_like(phi[:, :1]), phi], 1)  # the constant first
    signs, paths = tree.signs[leaf].to(phi.dtype), tree.paths[leaf]
    fitted = torch.arange(len(phi), device=phi.device) < len(phi) // 2
    right = phi.new_zeros(len(run.keys), tree.levels)
    for level in range(tree.levels):
        nodes = range(2**level - 1, 2 ** (level + 1) - 1) if by_branch else [None]
        for node in nodes:
            here = torch.ones_like(fitted) if node is None else paths[:, level] == node
            fit, test = here & fitted, here & ~fitted
            if int(fit.sum()) < 2 * features.shape[1]:
                raise ValueError(
                    f"run leaves a probe of level {level + 1} {int(fit.sum())} contexts to fit: "
                    f"must leave {2 * features.shape[1]} or more"
                )
            for layer, keys in enumerate(run.keys, 1):
                count = 1 + layer * keys.shape[1]
                sign = signs[:, level]
                weights = torch.linalg.lstsq(features[fit, :count], sign[fit, None]).solution[:, 0]
                right[layer - 1, level] += _right(features[test, :count] @ weights * sign[test]).sum()
    return right / (~fitted).sum()


def leaf_log_posterior(tree: TreePrior, run: Trace, layer: int, n_tokens: int, noise_std: float) -> Tensor:
    """Return the log posterior of every leaf given Φ_ℓ, (B, 2^K); ℓ = 0 gives the prior.

    The keys, which are functions of Φ, count as known: `inference.function_vector_log_posterior` of the first
    ℓ layers. In a patched run they are those the target was asked with.

    Raises ValueError if ℓ is not an integer from 0 to L, the tree does not fit the run, N ≤ ℓ d or s < 0.
    """
    layer = _check.integer("layer", layer, 0, len(run.keys))
    phi = run.function_vector
    if layer == 0:
        return phi.new_full((len(phi), 2**tree.levels), 0.5**tree.levels).log()
    keys = torch.cat(run.keys[:layer], 1)
    return function_vector_log_posterior(tree, keys, phi[:, : keys.shape[1]], n_tokens, noise_std)


def bayes_readout(tree: TreePrior, run: Trace, leaf: Tensor, n_tokens: int, noise_std: float) -> Tensor:
    """Return how often the posterior given Φ_ℓ tells sign k of the path, (L, K): the best any read-out can.

    The guess is the likelier sign; a tie counts as half right. Nothing is fitted: all contexts are held out.

    Raises ValueError if the leaves, (B,) integers, or the tree do not fit the run, N ≤ M or s < 0.
    """
    _check_leaves(tree, run, leaf)
    accuracies = []
    for layer in range(1, len(run.keys) + 1):
        belief = leaf_log_posterior(tree, run, layer, n_tokens, noise_std).exp()
        guesses = belief @ tree.signs.to(belief.dtype)  # E[σ_k | Φ_ℓ]
        accuracies.append(_right(guesses * tree.signs[leaf]).mean(0))
    return torch.stack(accuracies)


class Components(NamedTuple):
    """Principal components: scores (B, m), directions (m, n) with unit rows, shares (n,) of the variance.

    The largest entry of a direction is positive.
    """

    scores: Tensor
    directions: Tensor
    shares: Tensor


def principal_components(phi: Tensor, count: int = 2) -> Components:
    """Return the first principal components of vectors, (B, n): of Φ_ℓ, say.

    Raises ValueError if phi is not a finite (B, n) tensor with B ≥ 2, or count not an integer from 1 to n.
    """
    phi = _check.tensor("phi", phi, None, None)
    count = _check.integer("count", count, 1, phi.shape[1])
    _check.integer("the number of vectors", len(phi), 2)
    centred = phi - phi.mean(0)
    energies, axes = torch.linalg.eigh(centred.T @ centred)  # ascending
    directions = axes.T.flip(0)[:count]
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    directions = directions * largest.sign()
    energies = energies.flip(0).clamp_min(0)
    return Components(centred @ directions.T, directions, energies / energies.sum())


def key_similarity(
    tree: TreePrior, run: Trace, strategy: Strategy, n_tokens: int, noise_std: float
) -> Tensor:
    """Return how alike the keys of a network of one channel are to those of a strategy, (L, B).

    The strategy (see `policies`) is told what the network knows before layer ℓ, the belief given Φ_{ℓ−1} and
    the keys so far, and names its own key. The value is |cos| of the angle between the two, each without its
    part along the earlier keys, which tells nothing new: 1 for the same question up to sign. For two random
    directions it is about (2/(πD))^½.

    `policies.one_coordinate` and `policies.largest_variance` take the earlier keys for coordinates, which
    those of a network are not. Told of none, the second names the coordinate it is least sure of:
    ``lambda belief, used: largest_variance(tree)(belief, used[:, :0])``.

    Raises ValueError if the network has more than one channel, the tree does not fit the run, N < L, s < 0,
    or the strategy returns another shape than (B, D).
    """
    _check.integer("channels of the run", run.keys[0].shape[1], 1, 1)
    similarities = []
    for layer, key in enumerate(run.keys):
        used = torch.cat(run.keys[:layer], 1) if layer else key[:, :0]  # (B, ℓ−1, D)
        with torch.no_grad():
            other = strategy(leaf_log_posterior(tree, run, layer, n_tokens, noise_std), used)
        if other.shape != key[:, 0].shape:
            raise ValueError(
                f"the strategy returned shape {tuple(other.shape)}: must be {tuple(key[:, 0].shape)}"
            )
        ours, theirs = (
            torch.linalg.qr(torch.cat([used, one[:, None]], 1).mT).Q[..., -1] for one in (key[:, 0], other)
        )
        similarities.append((ours * theirs).sum(1).abs())
    return torch.stack(similarities)


def null_direction(
    model: ConstrainedTransformer, context: Context, direction: Tensor, *, layer: int
) -> Trace:
    """Return the run in which Φ_ℓ says nothing along a direction: it has there its mean over the contexts.

    Parameters
    ----------
    model : ConstrainedTransformer
        It is left as it is.
    context : Tensor or (Tensor, Tensor)
        B contexts, moments or tokens.
    direction : Tensor
        (ℓ d,), of any length but 0.
    layer : int
        ℓ, from 1 to L. The layers after it, and the decoder, read the changed Φ_ℓ.

    Raises
    ------
    ValueError
        If the layer is not there or the direction has another shape, is 0 or is not finite.
    """
    layer = _check.integer("layer", layer, 1, model.layers)
    direction = _check.tensor("direction", direction, layer * model.channels, dtype=model.dtype)
    if not bool(direction.any()):
        raise ValueError("direction = 0: must have a length")
    run = trace(model, context)
    phi = run.function_vector.clone()
    read = phi[:, : len(direction)]
    along = (read - read.mean(0)) @ direction / direction.square().sum()
    phi[:, : len(direction)] -= along[:, None] * direction
    donor = run._replace(function_vector=phi)
    return patch(model, target=context, donor=donor, what="workspace", layer=layer)


@torch.no_grad()
def who_reads_what(model: ConstrainedTransformer, context: Context) -> Tensor:
    """Return how much the keys of a layer change when one entry of Φ is nulled for that layer alone, (L, M).

    Row ℓ − 1, column j − 1: the mean over contexts and channels of |k − k'|²/2 (0: the same keys, 1: at right
    angles), with k the keys of layer ℓ and k' those its router makes if entry j of Φ_{ℓ−1} is replaced by its
    mean over the contexts. Entries that layer ℓ cannot see, j > (ℓ − 1) d, count 0.

    Raises ValueError if the context does not fit the model.
    """
    run = trace(model, context)
    phi, means = run.function_vector, run.function_vector.mean(0)
    changes = phi.new_zeros(model.layers, model.budget)
    for layer, router in enumerate(model.routers):
        seen = phi[:, : layer * model.channels]
        for entry in range(seen.shape[1]):
            nulled = seen.clone()
            nulled[:, entry] = means[entry]
            changes[layer, entry] = (router(nulled) - run.keys[layer]).square().sum(-1).mean() / 2
    return changes


def _right(agreement: Tensor) -> Tensor:
    """1 where a guess times the truth is positive, 0 where negative, ½ where there is no guess."""
    return (agreement.sign() + 1) / 2


def _check_leaves(tree: TreePrior, run: Trace, leaf: Tensor) -> None:
    """ValueError unless the run is on the tree, and there is a leaf of it for each context."""
    if run.keys[0].shape[-1] != tree.dim:
        raise ValueError(
            f"run has keys of length {run.keys[0].shape[-1]}: must be {tree.dim}, as of the tree"
        )
    if leaf.shape != run.function_vector.shape[:1] or leaf.is_floating_point():
        raise ValueError(
            f"leaf has shape {tuple(leaf.shape)} and dtype {leaf.dtype}: "
            f"must be integers of shape {tuple(run.function_vector.shape[:1])}"
        )
