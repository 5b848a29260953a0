"""What an outcome does to a Gaussian belief, and to a belief about a tree."""

import anywidget
import traitlets

from fvbook import _check
from fvbook.widgets import _assets

_PRIORS = ("gaussian", "tree")


class GaussianMeasurement(anywidget.AnyWidget):
    """A direction to measure and an outcome, both to drag, and the belief they lead to.

    The outcome is φ = k·θ + N(0, τ²) with a unit key k in the plane of the drawing. The Gaussian prior is
    N(0, C) in that plane, tr C = 1. The tree is that of two levels, D = 3: the plane holds the root's
    coordinate and the sum of the left and the right node's. A second question has noise of its own.

    Parameters
    ----------
    prior : {"gaussian", "tree"}
        What is shown first; the reader can change it, as everything else.
    axis_ratio : float
        Length of the long principal axis of C over that of the short one, from 1 to 4.
    decay : float
        α of the tree, from 0.1 to 0.9.
    angle : float, optional
        Of the key, in degrees from the long axis (from the root's axis), clockwise, from −180 to 180. By
        default 40 for the Gaussian and 0, a question about the root, for the tree.
    outcome : float
        φ, from −1.4 to 1.4.
    noise_var : float
        τ², from 0.01 to 1.

    Raises
    ------
    ValueError
        If an argument is none of these or out of its range.
    """

    _esm = _assets.script("gaussian_measurement")
    _css = _assets.style("gaussian_measurement")
    prior = traitlets.Enum(_PRIORS, "gaussian").tag(sync=True)
    axis_ratio = traitlets.Float(2.0, min=1, max=4).tag(sync=True)
    decay = traitlets.Float(0.7, min=0.1, max=0.9).tag(sync=True)
    angle = traitlets.Float(40.0, min=-180, max=180).tag(sync=True)
    outcome = traitlets.Float(0.4, min=-1.4, max=1.4).tag(sync=True)
    noise_var = traitlets.Float(0.2, min=0.01, max=1).tag(sync=True)

    def __init__(
        self,
        *,
        prior: str = "gaussian",
        axis_ratio: float = 2.0,
        decay: float = 0.7,
        angle: float | None = None,
        outcome: float = 0.4,
        noise_var: float = 0.2,
    ) -> None:
        if prior not in _PRIORS:
            raise ValueError(f"prior = {prior!r}: must be one of {_PRIORS}")
        if angle is None:
            angle = 0.0 if prior == "tree" else 40.0
        super().__init__(
            prior=prior,
            axis_ratio=_check.real("axis_ratio", axis_ratio, 1, 4),
            decay=_check.real("decay", decay, 0.1, 0.9),
            angle=_check.real("angle", angle, -180, 180),
            outcome=_check.real("outcome", outcome, -1.4, 1.4),
            noise_var=_check.real("noise_var", noise_var, 0.01, 1),
        )

    def __repr__(self) -> str:
        return f"GaussianMeasurement(prior={self.prior!r})"
