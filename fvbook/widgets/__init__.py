"""Explorables: anywidgets that live in Jupyter and, without a kernel, in the static page."""

from fvbook.widgets.gaussian_measurement import GaussianMeasurement
from fvbook.widgets.inside_model import InsideModel
from fvbook.widgets.key_explorer import KeyExplorer
from fvbook.widgets.scaling_explorer import ScalingExplorer, trained_points
from fvbook.widgets.twenty_questions import TwentyQuestions

__all__ = [
    "GaussianMeasurement",
    "InsideModel",
    "KeyExplorer",
    "ScalingExplorer",
    "TwentyQuestions",
    "trained_points",
]
