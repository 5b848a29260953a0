"""Figures of the chapter "Training the models"."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from fvbook.figures.style import COLOURS, HEAT, LOSS, MARKS, log_budget_axes, styled

Points = Mapping[str, tuple[Sequence[int], Sequence[float], Sequence[float]]]
"""Model name -> budgets, mean losses, half-lengths of the error bars."""


@styled
def loss_against_budget(points: Points, curves: Mapping[str, tuple[Sequence[int], Tensor]]) -> Figure:
    """Loss of trained models (points) and of theory (curves) against the budget M, both axes logarithmic.

    `curves`: label -> budgets, losses.
    """
    figure = Figure(figsize=(5.6, 4.4))
    axes = figure.subplots()
    for style, (label, (budgets, losses)) in zip(["-", "--", ":", "-."], curves.items(), strict=False):
        axes.plot(budgets, losses, style, color=COLOURS["theory"], label=label)
    for name, (budgets, means, errors) in points.items():
        axes.errorbar(
            budgets, means, errors, fmt=MARKS[name], color=COLOURS[name], label=f"model {name}", capsize=3
        )
    ticks = sorted({budget for budgets, _, _ in points.values() for budget in budgets})
    log_budget_axes(axes, ticks)
    axes.set(xlabel="budget $M$ (numbers passed by attention)", ylabel=LOSS)
    figure.legend(fontsize=9, loc="outside upper center", ncols=2)
    return figure


@styled
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


@styled
def two_by_two(losses: np.ndarray, errors: np.ndarray) -> Figure:
    """The 2×2 of causes: router MLP (rows: off, on), decoder MLP (columns: off, on).

    `losses` and their `errors` are (2, 2).
    """
    figure = Figure(figsize=(5.0, 3.6))
    axes = figure.subplots()
    axes.imshow(losses, cmap=HEAT, vmin=0, vmax=1)
    axes.grid(False)
    names = [["C (= D)", "B"], ["adaptive keys,\nlinear decoder", "A"]]
    for row in range(2):
        for column in range(2):
            text = f"{names[row][column]}\n{losses[row, column]:.3f} ± {errors[row, column]:.3f}"
            axes.text(column, row, text, ha="center", va="center", fontsize=10)
    axes.set(xticks=[0, 1], yticks=[0, 1], xticklabels=["linear", "MLP"], yticklabels=["fixed keys", "MLP"])
    axes.set(xlabel="decoder", ylabel="router")
    return figure
