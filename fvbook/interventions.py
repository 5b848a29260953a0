"""Interventions: run a network on one context with a part of it replaced by what another context made there.

A patch replaces, in the run on a target context, the keys that a layer asks with, or what it measures, or the
whole workspace up to it, by those of a donor. Everything else is the model's own forward pass, on moments
(`ConstrainedTransformer.trace`) or on tokens (`ConstrainedTransformer.predict`), watched and changed through
hooks that are gone when the function returns. (Until then the model must not run in another thread.)

A context is a batch of moments b, (B, D), or of tokens, a pair x (B, N, D), y (B, N). Layers count from 1.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Generator, Tensor

from fvbook import _check
from fvbook.contexts import sample_moment
from fvbook.models import ConstrainedTransformer, Trace
from fvbook.priors import TreePrior

Context = Tensor | tuple[Tensor, Tensor]
"""Moments b, (B, D), or tokens (x, y), (B, N, D) and (B, N)."""
Part = Literal["keys", "measured", "workspace"]
"""What a patch replaces: K_ℓ, or φ_ℓ = K_ℓ b, or Φ_ℓ = φ_1 ⊕ … ⊕ φ_ℓ."""
_PARTS: tuple[Part, ...] = get_args(Part)


class PatchingMap(NamedTuple):
    """Loss increase by key patching, as `patching_map` measures it.

    base : float, the loss without a patch; increase, standard_error : (L, K + 1), the mean increase of the
    loss over pairs of contexts and its standard error. Row ℓ − 1 is the layer patched; column m − 1 the level
    where the two paths part, the last one pairs of contexts of the same leaf.
    """

    base: float
    increase: Tensor
    standard_error: Tensor


@torch.no_grad()
def trace(model: ConstrainedTransformer, context: Context) -> Trace:
    """Return what each layer does with the contexts, without an intervention.

    On moments it is `ConstrainedTransformer.trace`. On tokens it is the token form: the keys are those that
    the router makes at the first token (every token holds the same workspace), the rest is read at the query.

    Raises ValueError if the context does not fit the model.
    """
    return _run(model, context, None, (), "keys")


@torch.no_grad()
def patch(
    model: ConstrainedTransformer,
    *,
    target: Context,
    donor: Context | Trace,
    what: Part,
    layer: int | Sequence[int],
    together: bool = False,
) -> Trace:
    """Return the run on the target contexts with a part replaced by the donor's, at one layer or at several.

    The layers after the patch go on as usual from the workspace they find: their keys may change too.

    Parameters
    ----------
    model : ConstrainedTransformer
        It is left as it is.
    target : Tensor or (Tensor, Tensor)
        B contexts, as moments or as tokens.
    donor : Tensor, (Tensor, Tensor) or Trace
        B contexts, the donor of each target, or one for all; or a run, made by `trace` or by hand, from which
        to take the part.
    what : str
        "keys": the target is asked the donor's questions, K_ℓ(Φ'_{ℓ−1}) b. "measured": it is asked its own,
        but the donor's answers φ'_ℓ go into the workspace. "workspace": all answers up to layer ℓ, Φ'_ℓ, are
        the donor's.
    layer : int or sequence of int
        ℓ, from 1 to L. A sequence makes one run for each layer, in one more axis in front of every result.
    together : bool
        Make a single run in which all the layers named are patched.

    Returns
    -------
    Trace
        The keys asked with, the function vector that the decoder read, and θ̂.

    Raises
    ------
    ValueError
        If a context or a run does not fit the model, a layer is not there or `what` is not one of the three.
    """
    if what not in _PARTS:
        raise ValueError(f"what = {what!r}: must be one of {', '.join(_PARTS)}")
    named = layer if isinstance(layer, Sequence) else [layer]
    layers = [_check.integer("layer", one, 1, model.layers) for one in named]
    if not layers:
        raise ValueError(f"layer = {layer!r}: must name at least one layer")
    source = donor if isinstance(donor, Trace) else trace(model, donor)
    _check_source(model, source, len(target if isinstance(target, Tensor) else target[1]))
    if together or not isinstance(layer, Sequence):
        return _run(model, target, source, layers, what)
    # one layer after another: each run has the shape, and so the rounding, of a run without a patch
    runs = [_run(model, target, source, [one], what) for one in layers]
    return Trace(
        [torch.stack(keys) for keys in zip(*(run.keys for run in runs), strict=True)],
        torch.stack([run.function_vector for run in runs]),
        torch.stack([run.theta_hat for run in runs]),
    )


def patch_keys(
    model: ConstrainedTransformer, *, target: Context, donor: Context | Trace, layer: int | Sequence[int]
) -> Tensor:
    """Return θ̂, (B, D), of the targets when layer ℓ asks with the keys that the donor makes there.

    For a sequence of layers, (layers, B, D). Arguments and errors as in `patch`.
    """
    return patch(model, target=target, donor=donor, what="keys", layer=layer).theta_hat


def patch_workspace(
    model: ConstrainedTransformer, *, target: Context, donor: Context | Trace, layer: int | Sequence[int]
) -> Tensor:
    """Return θ̂, (B, D), of the targets when the layers after ℓ find the donor's function vector Φ'_ℓ.

    For a sequence of layers, (layers, B, D). Arguments and errors as in `patch`.
    """
    return patch(model, target=target, donor=donor, what="workspace", layer=layer).theta_hat


def ablate_router(
    model: ConstrainedTransformer, *, target: Context, layer: int | Sequence[int] | None = None
) -> Tensor:
    """Return θ̂, (B, D), when a layer asks every context with the same key: the mean of its keys over them.

    The mean is scaled back to unit norm. A shorter key would carry signal and noise alike to later readers in
    smaller units, and so test how they take a change of scale; with unit norm the ablated network is one of
    the same kind, whose router does not listen. (Where keys cancel in the mean, its direction is arbitrary.)

    Parameters
    ----------
    model : ConstrainedTransformer
        It is left as it is.
    target : Tensor or (Tensor, Tensor)
        B contexts, as moments or as tokens; the mean is over them.
    layer : int or sequence of int, optional
        As in `patch`. By default all routers are ablated at once.

    Raises
    ------
    ValueError
        If the contexts do not fit the model or a layer is not there.
    """
    run = trace(model, target)
    means = [torch.nn.functional.normalize(keys.mean(0, keepdim=True), dim=-1) for keys in run.keys]
    donor = run._replace(keys=means)
    if layer is None:
        every = range(1, model.layers + 1)
        return patch(model, target=target, donor=donor, what="keys", layer=every, together=True).theta_hat
    return patch_keys(model, target=target, donor=donor, layer=layer)


def parting_leaves(
    tree: TreePrior, level: int, n: int, *, generator: Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Draw n pairs of leaves, (n,) and (n,), whose paths part at a level: the first that has another sign.

    The signs above are shared, those below are independent. The level K + 1 stands for paths that do not
    part: both leaves are the same.

    Raises ValueError if the level is not an integer from 1 to K + 1 or n < 1.
    """
    level = _check.integer("level", level, 1, tree.levels + 1)
    first, other = (tree.sample_leaves(n, generator=generator) for _ in range(2))
    if level > tree.levels:
        return first, first
    below = tree.levels - level  # bits after that of the level
    return first, ((first >> below) ^ 1) << below | other & ((1 << below) - 1)


@torch.no_grad()
def patching_map(
    model: ConstrainedTransformer,
    tree: TreePrior,
    n_tokens: int,
    noise_std: float,
    *,
    n_pairs: int = 4000,
    generator: Generator | None = None,
) -> PatchingMap:
    """Return how much the loss rises by the keys of a donor: (layer patched) × (level where the paths part).

    Target and donor are independent contexts of N tokens, drawn in n_pairs pairs for each column.

    Raises ValueError if the model does not fit the tree, N < 1, s < 0 or n_pairs < 2.
    """
    n_pairs = _check.integer("n_pairs", n_pairs, 2)
    base, increases, errors = [], [], []
    for level in range(1, tree.levels + 2):
        leaf, other = parting_leaves(tree, level, n_pairs, generator=generator)
        theta = tree.leaves[leaf]
        target, donor = (
            sample_moment(tree.leaves[one], n_tokens, noise_std, generator=generator) for one in (leaf, other)
        )
        loss = (model(target) - theta).square().sum(-1)
        every = range(1, model.layers + 1)
        patched = patch_keys(model, target=target, donor=donor, layer=every)
        increase = (patched - theta).square().sum(-1) - loss  # (L, n_pairs)
        base.append(loss.mean())
        increases.append(increase.mean(1))
        errors.append(increase.std(1) / n_pairs**0.5)
    return PatchingMap(float(torch.stack(base).mean()), torch.stack(increases, 1), torch.stack(errors, 1))


def one_coordinate_map(
    tree: TreePrior, budget: int, *, decoder: Literal["bayes", "signs"] = "bayes"
) -> Tensor:
    """Return the map of `patching_map` for the one-coordinate policy as the noise goes to zero, (M, K + 1).

    A donor whose path parts from the target's above level ℓ makes layer ℓ look off the target's path: it
    measures noise, takes a random turn, and every other time the later layers look off the path too. With
    A = Σ_{ℓ < k ≤ M} a_k² the loss rises by A/2 for the Bayes decoder, which takes the keys for those of the
    policy and finds from the silence of the later layers which turn was the wrong one; by 2 a_M² where there
    is no later layer, ℓ = M. A decoder that believes the sign of each outcome loses 2 a_ℓ² + A.
    Where the paths part at level ℓ or later the donor's key is the target's own. [Chapter "Key patching"]

    Parameters
    ----------
    tree : TreePrior
    budget : int
        M, from 1 to K, one node each.
    decoder : str
        "bayes" or "signs".

    Raises
    ------
    ValueError
        If the budget is not an integer from 1 to K, or `decoder` not one of the two.
    """
    budget = _check.integer("budget", budget, 1, tree.levels)
    if decoder not in ("bayes", "signs"):
        raise ValueError(f"decoder = {decoder!r}: must be 'bayes' or 'signs'")
    energy = tree.amplitudes[:budget] ** 2  # a_k², k ≤ M
    later = energy.sum() - energy.cumsum(0)  # A
    later[-1] = 0  # exactly
    if decoder == "signs":
        rise = 2 * energy + later
    else:
        rise = later / 2
        rise[-1] = 2 * energy[-1]
    layer = torch.arange(1, budget + 1, device=tree.device)[:, None]
    parting = torch.arange(1, tree.levels + 2, device=tree.device)
    return torch.where(layer > parting, rise[:, None], 0.0)


def _run(
    model: ConstrainedTransformer, context: Context, source: Trace | None, layers: Sequence[int], what: Part
) -> Trace:
    """The model's own forward pass on a context, with a part of the source put in at some layers."""
    keys: list[Tensor] = []
    read: list[Tensor] = []

    def record_keys(_module: Any, _args: Any, output: Tensor) -> None:
        keys.append(output if isinstance(context, Tensor) else output[:, 0])

    def record_decoder(_module: Any, args: tuple[Tensor], output: Tensor) -> None:
        read.extend([args[0], output])

    with ExitStack() as hooks:
        for layer in layers:
            assert source is not None
            if what == "keys":
                hook = _put_keys(source.keys[layer - 1])
                hooks.enter_context(model.routers[layer - 1].register_forward_hook(hook))
                continue
            stop = layer * model.channels
            start = stop - model.channels if what == "measured" else 0
            pre_hook = _put_entries(source.function_vector[:, start:stop], start)
            for reader in [*model.routers[layer:], model.decoder]:
                hooks.enter_context(reader.register_forward_pre_hook(pre_hook))
        for router in model.routers:  # after the patches, to see what they did
            hooks.enter_context(router.register_forward_hook(record_keys))
        hooks.enter_context(model.decoder.register_forward_hook(record_decoder))
        if isinstance(context, Tensor):
            model.trace(context)
        else:
            x, y = context
            model.predict(x, y, model.decoder.linear.new_zeros(len(y), model.dim))
    function_vector, theta_hat = read
    shape = (len(theta_hat), model.channels, model.dim)
    return Trace([key.expand(shape) for key in keys], function_vector, theta_hat)


def _put_keys(keys: Tensor) -> Callable[[Any, Any, Tensor], Tensor]:
    """A hook that makes a router return these keys, (B or 1, d, D), at every token if it works on tokens."""
    return lambda _module, _args, own: keys[:, None] if own.ndim == 4 else keys


def _put_entries(values: Tensor, start: int) -> Callable[[Any, tuple[Tensor]], Tensor]:
    """A hook that makes a router or decoder find these values, (B or 1, n), in the workspace from `start`."""

    def hook(_module: Any, args: tuple[Tensor]) -> Tensor:
        phi = args[0].clone()
        phi[..., start : start + values.shape[1]] = values if phi.ndim == 2 else values[:, None]
        return phi

    return hook


def _check_source(model: ConstrainedTransformer, source: Trace, batch: int) -> None:
    """ValueError unless the run is one of this model, of so many contexts or of one."""
    if len(source.keys) != model.layers:
        raise ValueError(f"donor has the keys of {len(source.keys)} layers: must be {model.layers}")
    for key in source.keys:
        _check.tensor("a key of donor", key, None, model.channels, model.dim, dtype=model.dtype)
    phi = source.function_vector
    _check.tensor("the function vector of donor", phi, None, model.budget, dtype=model.dtype)
    for part in [*source.keys, phi]:
        if len(part) not in (1, batch):
            raise ValueError(f"donor has {len(part)} contexts: must be {batch}, as target has, or 1")
