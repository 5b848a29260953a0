"""Figures of the chapter "Playground"."""

from collections import Counter
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from torch import Tensor

from fvbook.figures.style import COLOURS, LOSS, MARKS, log_budget_axes, styled

_DASHES = ["-", "--", ":", "-.", (0, (1, 4))]


def _log_loss_axis(axes: Axes) -> None:
    """A logarithmic axis of losses with plain numbers at its ticks."""
    axes.set(yscale="log", ylabel=LOSS)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())


@styled
def runs(
    curves: Sequence[tuple[str, str, Tensor, float | None]], lines: Mapping[str, float], title: str = ""
) -> Figure:
    """Training loss against the step, and lines of theory; the vertical axis is logarithmic.

    `curves`: label, model, history (records, 2) as in `training.TrainResult`, and the held-out loss, a mark
    at the last step, or None. Runs of one model differ in their dashes. `lines`: label -> loss; those far
    below all runs are in the legend only. `title` is that of the legend.
    """
    figure = Figure(figsize=(5.6, 4.6))
    axes = figure.subplots()
    _log_loss_axis(axes)
    lowest = [loss for _, _, _, loss in curves if loss]
    lowest += [float(history[:, 1].nan_to_num(1).min()) for _, _, history, _ in curves if len(history)]
    bottom = 0.6 * min(lowest, default=0.1)
    for style, (label, loss) in zip(_DASHES, lines.items(), strict=False):
        height = loss if loss > bottom else float("nan")
        axes.axhline(height, ls=style, lw=1.2, color=COLOURS["theory"], label=f"{label}, {loss:.3f}")
    seen: Counter[str] = Counter()
    for label, model, history, held_out in curves:
        style = _DASHES[seen[model] % len(_DASHES)]
        seen[model] += 1
        axes.plot(history[:, 0], history[:, 1], ls=style, color=COLOURS[model], label=label)
        if held_out is not None:
            axes.plot(history[-1, 0], held_out, MARKS[model], color=COLOURS[model], mew=1.5)
    axes.set(xlabel="step")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=bottom)
    figure.legend(fontsize=8, loc="outside upper center", ncols=2, title=title, title_fontsize=8)
    return figure


@styled
def theory_curves(budgets: Sequence[int], curves: Mapping[str, Tensor]) -> Figure:
    """Closed forms of the loss against the budget M, both axes logarithmic. `curves`: label -> losses."""
    figure = Figure()
    axes = figure.subplots()
    for style, (label, losses) in zip(_DASHES, curves.items(), strict=False):
        axes.plot(
            budgets, losses.where(losses > 0, float("nan")), ls=style, color=COLOURS["theory"], label=label
        )
    log_budget_axes(axes, [2**power for power in range(len(budgets).bit_length())])
    _log_loss_axis(axes)
    axes.legend()
    return figure
