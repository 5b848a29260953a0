"""Figures of the chapter "What a context knows"."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from torch import Tensor

from fvbook.figures.style import COLOURS, INK, LOSS, styled

_SEEN = {"tokens": (COLOURS["A"], "o"), "b": (COLOURS["B"], "s")}
_READ = {"Bayes": "-", "linear": "--"}


@styled
def risk_by_knowledge(tokens: Sequence[int], risks: Mapping[tuple[str, str], Tensor]) -> Figure:
    """Risk against the number of tokens, for what is seen and how it is read.

    `risks`: ("tokens" or "b", "Bayes" or "linear") -> (len(tokens),).
    """
    figure = Figure(figsize=(5.6, 3.8))
    axes = figure.subplots()
    for (seen, read), values in risks.items():
        colour, mark = _SEEN[seen]
        axes.plot(tokens, values, _READ[read], marker=mark, color=colour, label=f"{seen}, {read}")
    axes.set(xlabel="tokens $N$", ylabel=r"risk $\mathbb{E}|\theta-\hat\theta|^2$", ylim=(0, 1))
    axes.set_xscale("log", base=2)
    axes.set_xticks(tokens, [str(n) for n in tokens])
    axes.legend(title="seen, read by")
    return figure


@styled
def loss_parts(parts: Mapping[str, Mapping[str, float]]) -> Figure:
    """The parts of the loss of each model, as one bar a model: model name -> part -> size."""
    figure = Figure(figsize=(5.6, 3.2))
    axes = figure.subplots()
    colours = [COLOURS["theory"], COLOURS["D"], COLOURS["B"], COLOURS["C"]]
    for row, (name, sizes) in enumerate(parts.items()):
        left = 0.0
        for (part, size), colour in zip(sizes.items(), colours, strict=True):
            axes.barh(
                row, size, left=left, height=0.55, color=colour + "90", edgecolor=colour,
                label=part if row == 0 else None,
            )  # fmt: skip
            if size > 0.05:
                axes.text(left + size / 2, row, f"{size:.2f}", ha="center", va="center")
            left += size
        axes.text(left + 0.01, row, f"= {left:.2f}", va="center")
        axes.text(-0.02, row, f"model {name}", ha="right", va="center")
    axes.set(yticks=[], xlabel=LOSS, xlim=(0, 0.75))
    axes.invert_yaxis()
    axes.spines["left"].set_visible(False)
    axes.grid(False, axis="y")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


@styled
def gradient_steps(
    steps: Sequence[int], losses: Sequence[float], best_linear: float, full_bayes: float
) -> Figure:
    """Loss against the number of gradient steps, between two levels: linear in b, and full Bayes."""
    figure = Figure()
    axes = figure.subplots()
    axes.axhline(best_linear, color=COLOURS["theory"], ls="--")
    axes.axhline(full_bayes, color=COLOURS["theory"], ls="-")
    axes.plot(steps, losses, "o-", color=COLOURS["A"])
    gap = 0.02 * (best_linear - full_bayes)
    axes.text(steps[-1], best_linear - gap, "best linear function of b", ha="right", va="top", color=INK)
    axes.text(steps[-1], full_bayes - 2 * gap, "all tokens, Bayes (ridge)", ha="right", va="top", color=INK)
    axes.set(
        xlabel="gradient steps in context",
        ylabel=r"loss $\mathbb{E}|\theta-w_t|^2$",
        ylim=(full_bayes - 0.2 * (best_linear - full_bayes), None),
    )
    axes.set_xticks(steps)
    return figure
