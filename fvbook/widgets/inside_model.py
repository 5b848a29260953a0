"""A trained network that runs in the page, layer by layer, on contexts that the reader draws."""

from typing import Any

import anywidget
import torch
import traitlets

from fvbook import _check
from fvbook.models import ConstrainedTransformer
from fvbook.priors import TreePrior
from fvbook.widgets import _assets


class InsideModel(anywidget.AnyWidget):
    """A network at work: what each layer asks, what it hears, what that tells about the leaf, and θ̂.

    The reader picks a leaf and draws contexts of it; the page draws the moment b, runs the network and shows
    the layer that a slider names. With a donor, a second run stands beside the first in which one layer asks
    with the keys of the donor's context, as in `interventions.patch_keys`. The page computes in float64
    with the weights of the model; everything it needs is in its state, so no kernel is needed.

    Attributes
    ----------
    leaf, donor : int
        Of the two contexts, from 0; donor None for a single run.
    seed : int
        Of the random numbers behind the contexts, from 0. (They are not those of `contexts.sample_moment`,
        but have the same law.)
    layer : int
        What is shown: a layer from 1 to L, or L + 1 for what the decoder makes of Φ_L.
    patch : int
        The layer that asks with the donor's keys, or 0 for none.
    weights : bytes
        The parameters of the model in the order of `model.parameters()`, as little-endian float32.

    Parameters
    ----------
    model : ConstrainedTransformer
        In float32, with one channel in each of at most 6 layers, and MLPs in its decoder and, after the
        first, in its routers.
    tree : TreePrior
        With at most 5 levels, to fit a page, and the D of the model.
    n_tokens : int
        N, above L and at most 10 000.
    noise_std : float
        s ≥ 0.
    leaf, seed, layer, donor, patch : int
        The state to begin with. A patch needs a donor.

    Raises
    ------
    ValueError
        If the model, the tree or a number is another, when made and when an attribute is set.
    """

    _esm = _assets.script("inside_model")
    _css = _assets.style("inside_model")
    levels = traitlets.Int().tag(sync=True)
    decay = traitlets.Float().tag(sync=True)
    layers = traitlets.Int().tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    weights = traitlets.Bytes().tag(sync=True)
    n_tokens = traitlets.Int().tag(sync=True)
    noise_std = traitlets.Float().tag(sync=True)
    leaf = traitlets.Int().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)
    layer = traitlets.Int(1).tag(sync=True)
    donor = traitlets.Int(None, allow_none=True).tag(sync=True)
    patch = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        model: ConstrainedTransformer,
        tree: TreePrior,
        n_tokens: int,
        noise_std: float,
        *,
        leaf: int = 0,
        seed: int = 0,
        layer: int = 1,
        donor: int | None = None,
        patch: int = 0,
    ) -> None:
        _check.integer("tree.levels", tree.levels, 1, 5)
        _check.integer("model.dim", model.dim, tree.dim, tree.dim)
        _check.integer("model.channels", model.channels, 1, 1)
        _check.integer("model.layers", model.layers, 1, 6)
        if model.decoder.mlp is None or any(router.mlp is None for router in model.routers[1:]):
            raise ValueError(f"model = {model!r}: must have MLPs in its decoder and its routers")
        parameters = [parameter.detach().cpu() for parameter in model.parameters()]
        for parameter in parameters:
            _check.tensor("a parameter of model", parameter, *parameter.shape, dtype=torch.float32)
        if patch and donor is None:
            raise ValueError(f"patch = {patch!r}: must be 0 without a donor")
        last = 2**tree.levels - 1
        self._ranges = {
            "leaf": (0, last),
            "seed": (0, 2**31 - 1),
            "layer": (1, model.layers + 1),
            "donor": (0, last),
            "patch": (0, model.layers),
        }
        super().__init__(
            levels=tree.levels,
            decay=tree.decay,
            layers=model.layers,
            width=model.decoder.mlp[0].out_features,
            weights=b"".join(parameter.numpy().astype("<f4").tobytes() for parameter in parameters),
            n_tokens=_check.integer("n_tokens", n_tokens, model.layers + 1, 10_000),
            noise_std=_check.real("noise_std", noise_std, 0),
            leaf=self._checked("leaf", leaf),
            seed=self._checked("seed", seed),
            layer=self._checked("layer", layer),
            donor=None if donor is None else self._checked("donor", donor),
            patch=self._checked("patch", patch),
        )

    def _checked(self, name: str, value: object) -> int:
        return _check.integer(name, value, *self._ranges[name])

    @traitlets.validate("leaf", "seed", "layer", "donor", "patch")
    def _is_in_range(self, proposal: Any) -> int | None:
        name, value = proposal["trait"].name, proposal["value"]
        return None if name == "donor" and value is None else self._checked(name, value)

    def __repr__(self) -> str:
        return f"InsideModel(levels={self.levels}, layers={self.layers})"
