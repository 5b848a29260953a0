"""Loss against budget on a tree prior: strategies, lower bounds and trained networks, live."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anywidget
import traitlets

from fvbook import _check
from fvbook.experiments import Experiment, Result
from fvbook.priors import TreePrior
from fvbook.widgets import _assets

CURVES = (
    "one_coordinate",
    "one_coordinate_clean",
    "linear",
    "linear_law",
    "group_code",
    "fixed_bound",
    "fixed_bound_closed",
    "fixed_law",
    "any_bound",
)
"""The names of the curves of a `ScalingExplorer`, see there."""
_MODELS, _AXES = ("A", "B", "C"), ("log", "linear")
_FIELDS = ("model", "levels", "decay", "n_tokens", "noise_std", "budget", "loss")


def trained_points(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Return what a `ScalingExplorer` draws of results: the mean loss over the seeds of each experiment.

    Results for other priors than trees of at most 8 levels, or of other models than A, B and C, are left out.
    """
    losses: dict[Experiment, list[float]] = {}
    for result in results:
        losses.setdefault(result.experiment.with_seed(0), []).append(result.loss)
    return [
        {
            "model": experiment.model,
            "levels": experiment.prior.levels,
            "decay": experiment.prior.decay,
            "n_tokens": experiment.train.n_tokens,
            "noise_std": experiment.train.noise_std,
            "budget": experiment.budget,
            "loss": round(sum(several) / len(several), 5),
        }
        for experiment, several in losses.items()
        if isinstance(experiment.prior, TreePrior)
        and experiment.prior.levels <= 8
        and experiment.model in _MODELS
    ]


class ScalingExplorer(anywidget.AnyWidget):
    """The loss of strategies at every budget M, lower bounds, and trained networks where the setting matches.

    The curves are those of `fvbook.theory` for isotropic noise of variance τ², computed in the page:
    "one_coordinate" is `one_coordinate_mmse`, "one_coordinate_clean" the same without noise, "linear"
    `gaussian_mmse` of the prior's covariance, "linear_law" (M + 1)^−log2(1/α), "group_code"
    `group_code_mmse`, "fixed_law" a power law of exponent γ through it at M = 4, "fixed_bound"
    `nonadaptive_lower_bound`, "fixed_bound_closed" `nonadaptive_closed_form_bound` and "any_bound"
    `lower_bound`. A bound is shown with the region below it shaded.

    Parameters
    ----------
    tree : TreePrior
        What is shown first: K from 1 to 8, α from 0.05 to 0.95; the reader can change it, as everything else.
    noise_var : float
        τ² = (1 + s²)/N, from 1e-4 to 10.
    budget : int
        M at the marker, where values are read, from 1 to D.
    noise_std : float
        s ≥ 0: the number of tokens is shown as N = (1 + s²)/τ².
    curves : sequence of str
        Names of the curves that are shown.
    axis : {"log", "linear"}
        The axis of the budget; the linear one ends at 4K.
    trained : sequence of dict
        Trained networks, each with its model ("A", "B" or "C"), levels, decay, n_tokens, noise_std, budget
        and loss; see `trained_points`. They are drawn at the settings of their K, α and τ².

    Raises
    ------
    ValueError
        If an argument is out of its range, or a trained network has other fields.
    """

    _esm = _assets.script("scaling_explorer")
    _css = _assets.style("scaling_explorer")
    levels = traitlets.Int(8, min=1, max=8).tag(sync=True)
    decay = traitlets.Float(0.6, min=0.05, max=0.95).tag(sync=True)
    noise_var = traitlets.Float(1 / 64, min=1e-4, max=10).tag(sync=True)
    noise_std = traitlets.Float(0.0, min=0).tag(sync=True)
    budget = traitlets.Int(8, min=1, max=255).tag(sync=True)
    curves: traitlets.List[str] = traitlets.List(traitlets.Enum(CURVES)).tag(sync=True)
    axis = traitlets.Enum(_AXES, "log").tag(sync=True)
    trained: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)

    def __init__(
        self,
        tree: TreePrior,
        noise_var: float,
        budget: int,
        *,
        noise_std: float = 0.0,
        curves: Sequence[str] = ("one_coordinate", "one_coordinate_clean", "linear", "linear_law"),
        axis: str = "log",
        trained: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        for name in curves:
            if name not in CURVES:
                raise ValueError(f"curves holds {name!r}: must be among {', '.join(CURVES)}")
        if axis not in _AXES:
            raise ValueError(f"axis = {axis!r}: must be one of {', '.join(_AXES)}")
        super().__init__(
            levels=_check.integer("tree.levels", tree.levels, 1, 8),
            decay=_check.real("tree.decay", tree.decay, 0.05, 0.95),
            noise_var=_check.real("noise_var", noise_var, 1e-4, 10),
            noise_std=_check.real("noise_std", noise_std, 0),
            budget=_check.integer("budget", budget, 1, tree.dim),
            curves=list(curves),
            axis=axis,
            trained=[_checked(point) for point in trained],
        )

    def __repr__(self) -> str:
        return f"ScalingExplorer(levels={self.levels}, decay={self.decay:g}, noise_var={self.noise_var:g})"


def _checked(point: Mapping[str, Any]) -> dict[str, Any]:
    if sorted(point) != sorted(_FIELDS):
        raise ValueError(f"trained holds {dict(point)!r}: must have the fields {', '.join(_FIELDS)}")
    if point["model"] not in _MODELS:
        raise ValueError(f"trained holds the model {point['model']!r}: must be one of {', '.join(_MODELS)}")
    levels = _check.integer("levels of trained", point["levels"], 1, 8)
    return {
        "model": point["model"],
        "levels": levels,
        "decay": _check.real("decay of trained", point["decay"], 0, 1, open_=True),
        "n_tokens": _check.integer("n_tokens of trained", point["n_tokens"], 1),
        "noise_std": _check.real("noise_std of trained", point["noise_std"], 0),
        "budget": _check.integer("budget of trained", point["budget"], 1, 2**levels - 1),
        "loss": _check.real("loss of trained", point["loss"], 0),
    }
