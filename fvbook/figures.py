"""Every figure of the book: one function each, which takes data and returns a matplotlib Figure.

`show` puts a figure into a page as inline SVG. What the figure draws in ink (text, axes, grid) takes the
colour of the page's text there, so that it reads on a light page and on a dark one; the data's colours are
chosen to read on both.
"""

import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import ParamSpec

import matplotlib as mpl
import numpy as np
from IPython.display import HTML, display
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor

_INK = "#010203"  # stands for the page's text colour until `show` replaces it
_STYLE = {
    "axes.edgecolor": _INK,
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.labelsize": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": _INK,
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.figsize": (5.6, 3.6),
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.size": 10,
    "grid.alpha": 0.15,
    "grid.color": _INK,
    "legend.frameon": False,
    "legend.labelcolor": _INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "mathtext.fontset": "dejavusans",
    "svg.hashsalt": "fvbook",
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
COLOURS = {
    "A": "#3f8fd2",
    "B": "#e08a2c",
    "C": "#3aa76d",
    "D": "#a06cc8",
    "theory": "#8a8f98",
}
"""The colour of each model and of theory curves, readable on light and dark."""
_HEAT = LinearSegmentedColormap.from_list("heat", ["#3f8fd200", "#3f8fd2ff"])  # transparent to blue

P = ParamSpec("P")


def _styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw a figure in the book's style, whatever the caller's matplotlib settings are."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(_STYLE)  # type: ignore[arg-type]
            return draw(*args, **kwargs)

    return styled


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
    with mpl.rc_context({"svg.hashsalt": "fvbook"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    label = f'<svg role="img" aria-label="{html.escape(alt)}" style="max-width: 100%; height: auto" '
    return svg.replace("<svg ", label, 1).strip()


def show(figure: Figure, *, alt: str) -> None:
    """Display a figure in a notebook or a page as inline SVG. Arguments and errors as in `to_svg`."""
    display(HTML(to_svg(figure, alt=alt)))  # type: ignore[no-untyped-call]


@_styled
def layer_diagram() -> Figure:
    """One layer of the constrained transformer, as a diagram."""
    figure = Figure(figsize=(5.6, 4.4))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 10.8)
    axes.set_ylim(0, 8)

    def box(x: float, y: float, width: float, text: str, colour: str) -> None:
        patch = FancyBboxPatch(
            (x, y), width, 0.9, boxstyle="round,pad=0.08", facecolor=colour + "30", edgecolor=colour
        )
        axes.add_patch(patch)
        axes.text(x + width / 2, y + 0.45, text, ha="center", va="center", fontsize=9.5)

    def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
        axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=_INK, lw=1))

    for x, name in [(0.2, "1"), (3.6, "2"), (7.0, "N")]:
        box(x, 0.2, 2.7, rf"token $(x_{name}, y_{name}),\ \Phi$", COLOURS["theory"])
        arrow((x + 1.35, 1.2), (x + 1.35, 1.95))
        box(x, 2.05, 2.7, rf"router: $k_{name} = \mathbf{{K}}(\Phi)\,x_{name}$", COLOURS["A"])
        arrow((x + 1.35, 3.05), (5 + (x - 3.6) * 0.3, 4.05))
    axes.text(6.65, 0.65, "…", ha="center", va="center", fontsize=12)
    axes.text(6.65, 2.5, "…", ha="center", va="center", fontsize=12)
    box(
        2.3,
        4.15,
        5.4,
        r"attention: $\varphi = \frac{1}{N}\sum_i y_i k_i = \mathbf{K}(\Phi)\,b$",
        COLOURS["B"],
    )
    arrow((5, 5.15), (5, 5.9))
    box(2.3, 6.0, 5.4, r"workspace: $\Phi \leftarrow \Phi \oplus \varphi$", COLOURS["C"])
    axes.add_patch(
        FancyArrowPatch(
            (7.85, 6.45), (9.75, 1.2), connectionstyle="arc3,rad=-0.42", arrowstyle="-|>", mutation_scale=11,
            color=_INK, lw=1, ls="--",
        )
    )  # fmt: skip
    axes.text(7.95, 7.1, "to every token,\nnext layer", fontsize=9, va="center")
    axes.text(0.3, 3.35, "chooses", fontsize=9, style="italic")
    axes.text(0.3, 4.6, "pools", fontsize=9, style="italic")
    axes.text(0.3, 6.45, "remembers", fontsize=9, style="italic")
    return figure


@_styled
def moment_error(tokens: Sequence[int], measured: Tensor, errors: Tensor, predicted: Tensor) -> Figure:
    """Mean squared error of the moment against the number of tokens: simulation and formula.

    Both axes are logarithmic. `measured`, its standard `errors` and `predicted` are (len(tokens),).
    """
    figure = Figure()
    axes = figure.subplots()
    axes.plot(tokens, predicted, color=COLOURS["theory"], label="formula")
    axes.errorbar(tokens, measured, 2 * errors, fmt="o", color=COLOURS["A"], label="simulated contexts")
    axes.set(xscale="log", yscale="log", xlabel="tokens $N$", ylabel=r"$\mathbb{E}\,|b - \theta|^2$")
    axes.legend()
    return figure


@_styled
def keys_by_context(energy: Tensor, node_levels: Tensor) -> Figure:
    """Where each layer's key looks: its energy on each node, for each leaf; one panel a layer.

    `energy` is (layers, leaves, D), squared entries of unit keys; `node_levels` (D,) puts a line between
    levels.
    """
    layers, leaves, dim = energy.shape
    figure = Figure(figsize=(5.6, 1.1 + 0.75 * layers * leaves / 8))
    panels = figure.subplots(layers, 1, sharex=True, squeeze=False)[:, 0]
    for layer, axes in enumerate(panels):
        image = axes.imshow(energy[layer], cmap=_HEAT, vmin=0, vmax=1, aspect="auto")
        axes.set(yticks=[], ylabel=f"layer {layer + 1}")
        axes.grid(False)
        for node in range(1, dim):
            if node_levels[node] > node_levels[node - 1]:
                axes.axvline(node - 0.5, color=_INK, lw=0.8)
        axes.axhline(leaves / 2 - 0.5, color=_INK, lw=0.5, ls=":")
    panels[-1].set(xticks=range(dim), xlabel="node of the tree (heap order)")
    panels[0].set_title("rows: leaves, left half of the tree above the dots")
    figure.colorbar(image, ax=panels, label="energy of the key on the node").outline.set_visible(False)
    return figure


Points = Mapping[str, tuple[Sequence[int], Sequence[float], Sequence[float]]]
"""Model name -> budgets, mean losses, half-lengths of the error bars."""


@_styled
def loss_against_budget(points: Points, curves: Mapping[str, tuple[Sequence[int], Tensor]]) -> Figure:
    """Loss of trained models (points) and of theory (curves) against the budget M.

    `curves`: label -> budgets, losses.
    """
    figure = Figure(figsize=(5.6, 4))
    axes = figure.subplots()
    for style, (label, (budgets, losses)) in zip(["-", "--", ":", "-."], curves.items(), strict=False):
        axes.plot(budgets, losses, style, color=COLOURS["theory"], label=label)
    marks = {"A": "o", "B": "s", "C": "^", "D": "x"}
    for name, (budgets, means, errors) in points.items():
        axes.errorbar(
            budgets, means, errors, fmt=marks[name], color=COLOURS[name], label=f"model {name}", capsize=3
        )
    axes.set(
        yscale="log",
        xlabel="budget $M$ (numbers passed by attention)",
        ylabel=r"loss $\mathbb{E}|\theta-\hat\theta|^2$",
    )
    axes.legend(fontsize=9)
    return figure


@_styled
def training_history(histories: Mapping[str, Sequence[Tensor]]) -> Figure:
    """Training loss against the step, a thin line for each seed.

    `histories`: model name -> a (records, 2) tensor for each seed, as in `training.TrainResult.history`.
    """
    figure = Figure()
    axes = figure.subplots()
    for name, runs in histories.items():
        for index, history in enumerate(runs):
            axes.plot(
                history[:, 0], history[:, 1], lw=0.9, color=COLOURS[name],
                label=f"model {name}" if index == 0 else None,
            )  # fmt: skip
    axes.set(yscale="log", xlabel="step", ylabel="training loss")
    axes.legend()
    return figure


@_styled
def two_by_two(losses: np.ndarray, errors: np.ndarray) -> Figure:
    """The 2×2 of causes: router MLP (rows: off, on), decoder MLP (columns: off, on).

    `losses` and their `errors` are (2, 2).
    """
    figure = Figure(figsize=(5.0, 3.6))
    axes = figure.subplots()
    axes.imshow(losses, cmap=_HEAT, vmin=0, vmax=1)
    axes.grid(False)
    names = [["C (= D)", "B"], ["adaptive keys,\nlinear decoder", "A"]]
    for row in range(2):
        for column in range(2):
            text = f"{names[row][column]}\n{losses[row, column]:.3f} ± {errors[row, column]:.3f}"
            axes.text(column, row, text, ha="center", va="center", fontsize=10)
    axes.set(xticks=[0, 1], yticks=[0, 1], xticklabels=["linear", "MLP"], yticklabels=["fixed keys", "MLP"])
    axes.set(xlabel="decoder", ylabel="router")
    return figure
