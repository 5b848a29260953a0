"""Where a deep model's keys look, leaf by leaf and layer by layer."""

import anywidget
import traitlets
from torch import Tensor

from fvbook import _check
from fvbook.priors import TreePrior
from fvbook.widgets import _assets


class KeyExplorer(anywidget.AnyWidget):
    """A tree whose nodes show the energy of a model's key; sliders choose the leaf and the layer.

    Everything it shows is in its state, so it works in a page without a kernel.

    Parameters
    ----------
    tree : TreePrior
        With at most 5 levels, to fit a page.
    energy : Tensor
        (L, 2^K, D): energy of the key of each layer on each node, averaged over contexts of each leaf.
    leaf, layer : int
        What is shown first; leaves count from 0, layers from 1.

    Raises
    ------
    ValueError
        If the tree has more than 5 levels, `energy` is not a finite tensor of that shape, or `leaf` or
        `layer` is out of its range.
    """

    _esm = _assets.script("key_explorer")
    _css = _assets.style("key_explorer")
    levels = traitlets.Int().tag(sync=True)
    energy: traitlets.List[list[list[float]]] = traitlets.List().tag(sync=True)
    leaf = traitlets.Int().tag(sync=True)
    layer = traitlets.Int().tag(sync=True)

    def __init__(self, tree: TreePrior, energy: Tensor, *, leaf: int = 0, layer: int = 1) -> None:
        _check.integer("tree.levels", tree.levels, 1, 5)
        _check.tensor("energy", energy, None, 2**tree.levels, tree.dim)
        super().__init__(
            levels=tree.levels,
            energy=[[[round(float(e), 3) for e in row] for row in layer] for layer in energy],
            leaf=_check.integer("leaf", leaf, 0, 2**tree.levels - 1),
            layer=_check.integer("layer", layer, 1, len(energy)),
        )

    def __repr__(self) -> str:
        return f"KeyExplorer(levels={self.levels}, layers={len(self.energy)})"
