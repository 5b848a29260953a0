"""Figures of the chapter "Limits"."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from fvbook.figures.style import COLOURS, INK, LOSS, log_budget_axes, styled

Curve = tuple[Sequence[float] | Tensor, Sequence[float] | Tensor]
"""What is on the horizontal axis, and on the vertical one."""


@styled
def one_number(capacity: Curve, curves: Mapping[str, Curve]) -> Figure:
    """Bits in one number against the signal-to-noise ratio 1/τ²: the capacity, and single keys below it.

    `curves`: label -> ratios, bits, in the order of the colours blue, orange.
    """
    figure = Figure(figsize=(5.6, 3.6))
    axes = figure.subplots()
    _forbid(axes, capacity, upwards=True)
    axes.plot(*capacity, color=COLOURS["theory"], label="capacity")
    for name, mark, (label, curve) in zip("BA", ("", "o"), curves.items(), strict=True):
        axes.plot(*curve, marker=mark, color=COLOURS[name], label=label)
    axes.set(xscale="log", xlabel=r"signal-to-noise ratio $1/\tau^2$", ylabel="bits in one number")
    axes.set(ylim=(0, 1.03 * float(max(capacity[1]))), xlim=(min(capacity[0]), max(capacity[0])))
    axes.legend(loc="upper left")
    return figure


@styled
def loss_against_bits(best_use: Curve, points: Mapping[str, Curve]) -> Figure:
    """Loss against the bits known about the leaf: the best use of bits, and strategies above it.

    `points`: label -> bits, losses of a strategy at growing budgets; the first two are adaptive.
    """
    figure = Figure(figsize=(5.6, 4.2))
    axes = figure.subplots()
    _forbid(axes, best_use)
    axes.plot(*best_use, color=COLOURS["theory"], label="best use of bits")
    looks = [("A", "o"), ("A", "x"), ("B", "s"), ("C", "^")]
    for (name, mark), (label, curve) in zip(looks, points.items(), strict=True):
        axes.plot(*curve, mark, color=COLOURS[name], label=label)
    axes.set(xlabel="bits known about the leaf", ylabel=LOSS, xlim=(0, 5), ylim=(0, 1))
    axes.legend(fontsize=9)
    return figure


@styled
def fixed_keys(
    bound: Curve, curves: Mapping[str, Curve], exponent: float, line_through: tuple[float, float]
) -> Figure:
    """Loss of fixed keys against the budget, both axes logarithmic, above the bound for any decoder.

    `curves`: label -> budgets, losses, in the order best keys, group code, linear decoder. A thin line of
    slope −exponent passes through the given point.
    """
    figure = Figure(figsize=(5.6, 4.4))
    axes = figure.subplots()
    _forbid(axes, bound)
    axes.plot(*bound, color=COLOURS["theory"], label="lower bound, any decoder")
    looks = [("B", "s"), ("D", "-"), ("C", "-")]
    for (name, mark), (label, curve) in zip(looks, curves.items(), strict=True):
        axes.plot(*curve, mark, color=COLOURS[name], label=label)
    x, y = line_through
    ends = (float(bound[0][0]), float(bound[0][-1]))
    axes.plot(
        ends, [y * (end / x) ** -exponent for end in ends], ":", lw=1.2, color=INK,
        label=rf"slope $-\gamma = -{exponent:.2f}$",
    )  # fmt: skip
    log_budget_axes(axes, [1, 2, 4, 8, 16, 32, 64])
    axes.set(ylim=(0.03, 1), ylabel=LOSS)
    figure.legend(fontsize=9, loc="outside upper center", ncols=2)
    return figure


@styled
def growing_gap(levels: Sequence[int], needed: Sequence[int], enough: Sequence[int]) -> Figure:
    """Numbers needed for the loss of one coordinate at a time, against the depth K of the tree.

    `levels` are the depths, and the numbers that the adaptive strategy takes; `needed` the least budget that
    the bound allows fixed keys; `enough` a budget that is certainly enough for them.
    """
    figure = Figure(figsize=(5.6, 3.8))
    axes = figure.subplots()
    axes.fill_between(levels, needed, enough, color=COLOURS["B"], alpha=0.25, lw=0)
    axes.plot(levels, enough, "--", color=COLOURS["B"], label="fixed keys: enough, all coordinates")
    axes.plot(levels, needed, "-s", color=COLOURS["B"], label="fixed keys: at least")
    axes.plot(levels, levels, "-o", color=COLOURS["A"], label="one coordinate at a time")
    axes.set(yscale="log", xlabel="levels of the tree $K$", ylabel="numbers needed, $M$")
    axes.set_yticks([2, 10, 100, 1000], ["2", "10", "100", "1000"])
    axes.set_xticks(list(levels))
    axes.legend(loc="upper left", fontsize=9)
    return figure


@styled
def between_bounds(
    any_bound: Curve,
    fixed_bound: Curve,
    floor: float,
    strategies: Mapping[str, tuple[str, str, Curve]],
) -> Figure:
    """Loss against the budget, both axes logarithmic: all strategies and the two lower bounds.

    `floor` is the loss given all of b. `strategies`: label -> name of a colour, format of the line or the
    marks, curve.
    """
    figure = Figure(figsize=(5.6, 5.0))
    axes = figure.subplots()
    _forbid(axes, any_bound)
    axes.plot(*any_bound, color=COLOURS["theory"], label="bound, any strategy")
    axes.plot(*fixed_bound, "--", color=COLOURS["B"], lw=1.2, label="bound, fixed keys")
    axes.axhline(floor, ls=":", color=COLOURS["theory"], label="all of $b$, Bayes")
    for label, (colour, style, curve) in strategies.items():
        axes.plot(*curve, style, color=COLOURS[colour], label=label)
    log_budget_axes(axes, [1, 2, 3, 5, 8, 16, 31])
    axes.set(ylim=(0.009, 1), ylabel=LOSS)
    figure.legend(fontsize=9, loc="outside upper center", ncols=2)
    return figure


def _forbid(axes: Axes, curve: Curve, *, upwards: bool = False) -> None:
    """Shade what lies beyond a bound."""
    axes.fill_between(*curve, 1e3 if upwards else 1e-6, color=COLOURS["theory"], alpha=0.18, lw=0)
