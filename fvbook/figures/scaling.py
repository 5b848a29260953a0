"""Figures of the chapter "Scaling"."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from fvbook.figures.style import COLOURS, HEAT, MARKS, log_budget_axes, styled
from fvbook.figures.training_the_models import Points

Line = tuple[np.ndarray, np.ndarray]


@styled
def straight_lines(points: Points, lines: Mapping[str, Line]) -> Figure:
    """Loss above what no budget can reach, against the budget: logarithmic axes for B and C, half so for A.

    `lines`: model name -> budgets and the fitted law.
    """
    figure = Figure(figsize=(5.6, 3.4))
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, names in ((left, "CB"), (right, "A")):
        for name in names:
            budgets, means, errors = points[name]
            axes.errorbar(
                budgets, means, errors, fmt=MARKS[name], color=COLOURS[name], label=f"model {name}", capsize=3
            )
            axes.plot(*lines[name], "-", color=COLOURS["theory"], lw=1.2, zorder=0)
    log_budget_axes(left, points["B"][0])
    right.set(yscale="log", xlabel="budget $M$ = depth", xticks=points["A"][0])
    left.set_ylabel(r"loss $+\ \alpha^K/(1-\alpha^K)$")
    figure.legend(loc="outside upper center", ncols=3)
    return figure


@styled
def gaussian_ratio(points: Points) -> Figure:
    """Loss over the loss of the best linear estimate, against the budget, for a Gaussian prior."""
    figure = Figure(figsize=(5.6, 3.2))
    axes = figure.subplots()
    axes.axhline(1, color=COLOURS["theory"], lw=1.2)
    for name, (budgets, ratios, errors) in points.items():
        axes.errorbar(
            budgets, ratios, errors, fmt=MARKS[name] + "-", color=COLOURS[name], label=f"model {name}", lw=1,
            capsize=3,
        )  # fmt: skip
    ticks = sorted({budget for budgets, _, _ in points.values() for budget in budgets})
    axes.set(xlabel="budget $M$", ylabel="loss / best linear loss", xticks=ticks)
    axes.legend()
    return figure


@styled
def phase_diagram(
    gains: Mapping[float, np.ndarray], budgets: Sequence[int], lengths: Sequence[int]
) -> Figure:
    """How many times smaller the loss of A is than that of B: a map over N and M for each decay.

    `gains`: decay -> (budgets, lengths).
    """
    figure = Figure(figsize=(5.6, 2.9 * len(gains)))
    top = max(float(np.log2(gain).max()) for gain in gains.values())
    panels = figure.subplots(len(gains), 1, squeeze=False)[:, 0]
    for axes, (decay, gain) in zip(panels, gains.items(), strict=True):
        axes.imshow(np.log2(gain), cmap=HEAT, vmin=0, vmax=1.3 * top, aspect="auto", origin="lower")
        axes.grid(False)
        for row in range(len(budgets)):
            for column in range(len(lengths)):
                value = f"{gain[row, column]:.1f}"
                axes.text(column, row, value, ha="center", va="center", fontsize=8)
        axes.set_title(rf"$\alpha = {decay}$", loc="left")
        axes.set_xticks(range(len(lengths)), [str(length) for length in lengths])
        axes.set_yticks(range(len(budgets)), [str(budget) for budget in budgets])
        axes.set_ylabel("budget $M$")
    panels[-1].set_xlabel("context length $N$")
    return figure


@styled
def gap_to_best(
    budgets: Sequence[int], best: np.ndarray, keys: np.ndarray, decoder: np.ndarray, errors: np.ndarray
) -> Figure:
    """How far the loss of A is above the best found, in per cent of that, stacked from two parts.

    `best` is the best loss found at each budget, `keys` what the keys of A lose on top and `decoder` what its
    decoder loses. `errors` are half-lengths of the bars on the sum. A line marks ten per cent.
    """
    figure = Figure(figsize=(5.6, 3.2))
    axes = figure.subplots()
    place, bottom = np.arange(len(budgets)), np.zeros(len(budgets))
    for label, part, colour in (("A's keys", keys, "A"), ("A's decoder", decoder, "B")):
        height = 100 * part / best
        axes.bar(place, height, 0.6, bottom=bottom, color=COLOURS[colour], label=label)
        bottom = bottom + height
    axes.errorbar(place, bottom, 100 * errors / best, fmt="none", ecolor=COLOURS["theory"], capsize=3)
    axes.axhline(10, color=COLOURS["theory"], ls="--", lw=1.2)
    labels = [f"{budget}\n{loss:.3f}" for budget, loss in zip(budgets, best, strict=True)]
    axes.set_xticks(place, labels)
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="budget $M$, and the best loss found", ylabel="above the best, per cent")
    axes.legend()
    return figure
