"""Every figure draws, and its SVG can be read on any page."""

import re

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from fvbook.figures import show, to_svg, training_the_models, transformer
from fvbook.figures.style import INK
from fvbook.priors import TreePrior

TREE = TreePrior(3, 0.8)
DRAWN = {
    "layer_diagram": lambda: transformer.layer_diagram(),
    "moment_error": lambda: transformer.moment_error(
        [4, 16], torch.tensor([0.9, 0.2]), torch.tensor([0.1, 0.02]), torch.tensor([1.0, 0.25])
    ),
    "keys_by_context": lambda: transformer.keys_by_context(torch.full((3, 8, 7), 0.3), TREE.node_levels),
    "loss_against_budget": lambda: training_the_models.loss_against_budget(
        {"A": ([1, 2], [0.5, 0.3], [0.1, 0.1])}, {"a curve": ([1, 2], torch.tensor([0.6, 0.4]))}
    ),
    "training_history": lambda: training_the_models.training_history(
        {"A": [torch.tensor([[1.0, 0.5], [2.0, 0.4]])]}
    ),
    "two_by_two": lambda: training_the_models.two_by_two(np.full((2, 2), 0.5), np.full((2, 2), 0.01)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_svg_is_readable_on_any_page(name: str) -> None:
    figure = DRAWN[name]()
    svg = to_svg(figure, alt="what < it shows")
    assert svg.startswith('<svg role="img" aria-label="what &lt; it shows"')
    assert svg.endswith("</svg>")
    assert "currentColor" in svg
    assert INK not in svg
    assert all("://www.w3.org/" in address for address in re.findall(r"\w+://\S+", svg)), "it loads nothing"
    assert figure.get_figwidth() <= 6, "wider, it would be too small to read on a phone"


@pytest.mark.parametrize("name", DRAWN)
def test_figures_do_not_depend_on_the_callers_settings(name: str) -> None:
    plain = to_svg(DRAWN[name](), alt="x")
    with mpl.rc_context(
        {"font.size": 30, "axes.facecolor": "white", "svg.fonttype": "none", "axes.grid": False}
    ):
        assert to_svg(DRAWN[name](), alt="x") == plain


@pytest.mark.parametrize("alt", ["", "  "])
def test_a_figure_without_words_is_refused(alt: str) -> None:
    with pytest.raises(ValueError, match="alt"):
        to_svg(Figure(), alt=alt)


def test_show_displays_the_svg(capsys: pytest.CaptureFixture[str]) -> None:
    show(Figure(), alt="nothing")
    assert "HTML" in capsys.readouterr().out
