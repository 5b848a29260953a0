"""How a figure looks and how it gets into a page.

What a figure draws in ink (text, axes, grid) takes the colour of the page's text when `show` puts it there as
inline SVG, so it reads on a light page and on a dark one; the data's colours are chosen to read on both.
"""

import html
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

import matplotlib as mpl
import numpy as np
from IPython.display import HTML, display
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fvbook.figures.compact import compact

INK = "#010203"
"""The colour of text and lines in a figure: `show` replaces it by that of the text around the figure."""
_STYLE = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.figsize": (5.6, 3.6),
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.size": 10,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "mathtext.fontset": "dejavusans",
    "savefig.dpi": 200,  # of what is drawn as a raster inside an SVG
    "svg.hashsalt": "fvbook",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
COLOURS = {
    "A": "#3f8fd2",
    "B": "#e08a2c",
    "C": "#3aa76d",
    "D": "#a06cc8",
    "theory": "#8a8f98",
}
"""The colour of each model and of theory curves, readable on light and dark."""
MARKS = {"A": "o", "B": "s", "C": "^", "D": "x"}
"""The mark of each model."""
LOSS = r"loss $\mathbb{E}|\theta-\hat\theta|^2$"
"""The label of an axis that shows the loss."""
HEAT = LinearSegmentedColormap.from_list("heat", [COLOURS["A"] + "00", COLOURS["A"] + "ff"])
"""Colours from nothing to blue, for shares from 0 to 1."""

P = ParamSpec("P")
_DRAWING = threading.RLock()


@contextmanager
def _book_style() -> Iterator[None]:
    """Matplotlib in the book's style, whatever the caller's settings are; afterwards as it was.

    Matplotlib's settings are global, so threads draw one after another.
    """
    with _DRAWING, mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)  # type: ignore[arg-type]
        yield


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Make a function draw its figure in the book's style."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with _book_style():
            return draw(*args, **kwargs)

    return drawn


def log_budget_axes(axes: Axes, ticks: Sequence[int]) -> None:
    """Make both axes logarithmic, the horizontal one a budget M with these ticks."""
    axes.set(xscale="log", yscale="log", xlabel="budget $M$")
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)


def number_map(
    axes: Axes, values: ArrayLike, low: float, high: float, digits: int = 2, errors: ArrayLike | None = None
) -> None:
    """Draw a table of numbers, coloured from nothing at `low` to blue at `high`; NaN leaves a gap.

    Rows count layers from 1, the first on top, columns from 1. `errors`, of the same shape, are written below
    the numbers where they do not round to 0.
    """
    table = np.asarray(values, dtype=float)
    bars = np.zeros_like(table) if errors is None else np.asarray(errors, dtype=float)
    # not up to the full colour, so that the numbers stay easy to read
    axes.imshow(table, cmap=HEAT, vmin=low, vmax=low + 1.3 * (high - low), aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        if not np.isnan(value):
            text = f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no minus before a zero
            bar = f"{bars[row, column]:.{digits}f}"
            if float(bar):
                text += f"\n±{bar}"
            axes.text(column, row, text, ha="center", va="center", fontsize=9, linespacing=1.1)
    axes.grid(False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks(range(table.shape[1]), [str(i + 1) for i in range(table.shape[1])])
    axes.set_yticks(range(table.shape[0]), [str(i + 1) for i in range(table.shape[0])])


def to_svg(figure: Figure, *, alt: str) -> str:
    """The figure as an `<svg>` element without a background, in the ink of the text around it.

    Parameters
    ----------
    figure : Figure
    alt : str
        What the figure shows, in words, for readers who cannot see it.

    Raises
    ------
    ValueError
        If `alt` is empty.
    """
    if not alt.strip():
        raise ValueError(f"alt = {alt!r}: must say in words what the figure shows")
    buffer = io.StringIO()
    with _book_style():
        figure.draw_without_rendering()  # the layout is found once, so that a figure drawn twice is the same
        figure.set_layout_engine("none")
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = compact(svg[svg.index("<svg") :].replace(INK, "currentColor"))
    label = f'<svg role="img" aria-label="{html.escape(alt)}" style="max-width: 100%; height: auto" '
    return svg.replace("<svg ", label, 1)


def show(figure: Figure, *, alt: str) -> None:
    """Display a figure in a notebook or a page as inline SVG. Arguments and errors as in `to_svg`."""
    display(HTML(to_svg(figure, alt=alt)))  # type: ignore[no-untyped-call]
