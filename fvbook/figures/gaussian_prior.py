"""Figures of the chapter "A prior for which depth buys nothing"."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from torch import Tensor

from fvbook.figures.style import COLOURS, LOSS, MARKS, styled

Points = Mapping[str, Sequence[tuple[float, float]]]
Array = npt.NDArray[np.float64]


@styled
def risk_distribution(risks: Mapping[str, Tensor]) -> Figure:
    """Distribution function over contexts of the posterior risk. `risks`: label -> (contexts,)."""
    figure = Figure(figsize=(5.6, 3.2))
    axes = figure.subplots()
    looks = [{"color": COLOURS["theory"], "ls": "--"}, {"color": COLOURS["A"], "ls": "-"}]
    for (label, values), look in zip(risks.items(), looks, strict=False):
        axes.ecdf(np.asarray(values).round(9), label=label, **look)  # type: ignore[arg-type]
    axes.set(
        xlabel=r"posterior risk  tr Cov$(\theta\,|\,\Phi)$", ylabel="share of contexts below", xlim=(0, 1)
    )
    axes.legend()
    return figure


@styled
def on_the_line(
    budgets: Sequence[int],
    trained: Points,
    every: Sequence[int],
    line: Tensor,
) -> Figure:
    """Losses of trained models and the linear formula against the budget, and below it their ratio.

    `trained`: model name -> (loss, standard error) at each of `budgets`; `line`: at `every` budget.
    """
    figure = Figure(figsize=(5.6, 4.8))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    upper.plot(every, line, color=COLOURS["theory"], label="formula")
    lower.axhline(1, color=COLOURS["theory"])
    reference = np.interp(budgets, every, np.asarray(line))
    for index, (name, points) in enumerate(trained.items()):
        losses, errors = np.array(points).T
        position = np.array(budgets) + 0.13 * (index - 1)
        style = {"fmt": MARKS[name], "color": COLOURS[name], "capsize": 2, "ms": 5}
        upper.errorbar(position, losses, 2 * errors, label=f"model {name}", **style)
        lower.errorbar(position, losses / reference, 2 * errors / reference, **style)
    upper.set(ylabel=LOSS, ylim=(0, 1))
    upper.legend()
    lower.set(xlabel="budget $M$", ylabel="loss / formula", xticks=every)
    return figure


@styled
def shrinkage(curves: Mapping[int, tuple[Array, Array, float]]) -> Figure:
    """Factor of the best decoder against |b|, and the constant factor of the linear one.

    `curves`: number of tokens -> lengths (n,), factors (n,), linear factor.
    """
    figure = Figure()
    axes = figure.subplots()
    for (n_tokens, (lengths, factors, linear)), colour in zip(curves.items(), "BCA", strict=False):
        axes.plot(lengths, factors, color=COLOURS[colour], label=f"N = {n_tokens}")
        axes.plot(lengths, np.full_like(lengths, linear), "--", lw=1, color=COLOURS[colour])
    axes.set(xlabel=r"length of the moment $|b|$", ylabel=r"shrinkage $h(|b|)/|b|$")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


@styled
def dip_against_tokens(
    grid: Sequence[int],
    exact: Array,
    tokens: Sequence[int],
    dips: Mapping[str, Sequence[tuple[int, float, float]]],
) -> Figure:
    """How far the loss lies below the linear formula, relative to it, against the number of tokens.

    `exact`: of the Bayes risk on `grid`; `dips`: model name -> (tokens, dip, standard error) for each run.
    """
    figure = Figure()
    axes = figure.subplots()
    axes.axhline(0, color=COLOURS["theory"], lw=1)
    axes.plot(grid, 100 * exact, color=COLOURS["theory"], label="Bayes, exact")
    for name, points in dips.items():
        at, below, errors = np.array(points).T
        axes.errorbar(
            at,
            100 * below,
            200 * errors,
            fmt=MARKS[name],
            color=COLOURS[name],
            capsize=3,
            label=f"model {name}",
        )
    axes.set(xscale="log", xlabel="tokens $N$", ylabel="percent below the linear formula", xticks=tokens)
    axes.set_xticklabels([str(n_tokens) for n_tokens in tokens])
    axes.minorticks_off()
    axes.legend()
    return figure
