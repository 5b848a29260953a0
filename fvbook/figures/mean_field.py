"""Figures of the chapter "The mean field and its noise"."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter
from torch import Tensor

from fvbook.figures.style import COLOURS, INK, styled


@styled
def rates(
    tokens: Sequence[int],
    fluctuations: Tensor,
    first_layer: Tensor,
    excess: Tensor,
    errors: Tensor,
    predicted: Tensor,
) -> Figure:
    """How fast the mean-field limit is reached: fluctuation of Φ (left) and excess loss (right) against N.

    `fluctuations` is (len(tokens), L), root mean squares, one column a layer; its prediction for the
    `first_layer`, the `excess`, its standard `errors` and its `predicted` 1/N law are (len(tokens),).
    """
    figure = Figure(figsize=(5.6, 3.1))
    left, right = figure.subplots(1, 2)
    for layer in range(fluctuations.shape[1]):
        left.plot(
            tokens, fluctuations[:, layer], "osd^"[layer % 4], color=COLOURS["A"], mfc="none",
            ms=5 + 2 * layer, label=f"layer {layer + 1}",
        )  # fmt: skip
    left.plot(tokens, first_layer, color=COLOURS["theory"], zorder=0)
    left.set_title("fluctuation of Φ: slope −½")
    left.legend()
    right.plot(tokens, predicted, color=COLOURS["theory"])
    right.errorbar(tokens, excess, 2 * errors, fmt="o", color=COLOURS["B"])
    right.set_title("excess loss: slope −1")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="tokens $N$")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    return figure


@styled
def descent(steps: Sequence[int], errors: Mapping[str, Tensor], floor: float) -> Figure:
    """Error of gradient descent against the step, for each kind of noise; the floor of least squares."""
    figure = Figure()
    axes = figure.subplots()
    styles = {"same tokens": ("o-", "A"), "fresh tokens": ("s-", "B"), "mean field": ("--", "theory")}
    axes.axhline(floor, color=INK, lw=0.8, ls=":")
    axes.text(steps[-1], floor * 1.08, "least squares", ha="right", va="bottom")
    for name, values in errors.items():
        style, colour = styles[name]
        axes.plot(steps, values, style, color=COLOURS[colour], label=name)
    axes.set(yscale="log", xlabel="layer (gradient step)", ylabel=r"$\mathbb{E}|\theta-w_\ell|^2$")
    axes.set_ylim(bottom=min(float(errors["fresh tokens"].min()), floor) / 3)
    axes.legend()
    return figure


@styled
def two_keys(angles: Tensor, quenched: Tensor, fresh: Tensor) -> Figure:
    """Risk after two measurements against the angle between the keys, in degrees, for both kinds of noise.

    The first entry is the angle 0, where the quenched risk jumps. All are (n,).
    """
    figure = Figure()
    axes = figure.subplots()
    axes.plot(angles[1:], quenched[1:], color=COLOURS["A"], label="quenched")
    axes.plot(angles[:1], quenched[:1], "o", color=COLOURS["A"])
    axes.plot(angles[:1], quenched[1:2], "o", color=COLOURS["A"], mfc="none")
    axes.plot(angles, fresh, "--", color=COLOURS["B"], label="fresh")
    axes.set(xlabel="angle between the two keys (degrees)", ylabel="Bayes risk", xticks=range(0, 91, 15))
    axes.legend()
    return figure


@styled
def noise_pairs(pairs: Mapping[str, Tensor]) -> Figure:
    """Scatter of the noises of two measurements, in units of τ: title -> (n, 2), one panel each."""
    figure = Figure(figsize=(5.6, 2.6))
    panels = figure.subplots(1, len(pairs), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, noise) in zip(panels, pairs.items(), strict=True):
        axes.scatter(
            noise[:, 0], noise[:, 1], s=2, alpha=0.5, color=COLOURS["A"], linewidths=0, rasterized=True
        )
        edges = np.linspace(-2, 2, 9)
        first, second = noise[:, 0].numpy(), noise[:, 1].numpy()
        middle = (edges[1:] + edges[:-1]) / 2
        means = [second[(first >= low) & (first < low + 0.5)].mean() for low in edges[:-1]]
        axes.plot(middle, means, "o-", color=COLOURS["B"], ms=4)
        axes.set_title(title, fontsize=10)
        axes.set(aspect="equal", xlim=(-3.6, 3.6), ylim=(-3.6, 3.6), xticks=[-3, 0, 3], yticks=[-3, 0, 3])
    panels[0].set_ylabel("second noise / τ")
    panels[len(pairs) // 2].set_xlabel("first noise / τ")
    return figure
