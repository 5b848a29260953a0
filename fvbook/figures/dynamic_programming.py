"""Figures of the chapter "Choosing what to ask"."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from fvbook.figures.style import COLOURS, HEAT, INK, LOSS, styled

_MIXED = LinearSegmentedColormap.from_list("mixed", [COLOURS["B"] + "ff", COLOURS["B"] + "18"])
"""From orange, far from the root, to almost nothing at the root."""


@styled
def loss_against_first_key(tilts: Tensor, curves: Mapping[str, Sequence[float]]) -> Figure:
    """Loss against the first key's angle from the root, in radians (T,), with the lowest point of each curve.

    `curves`: label -> the T losses.
    """
    figure = Figure(figsize=(5.6, 3.9))
    axes = figure.subplots()
    degrees = np.degrees(np.asarray(tilts))
    colours = [COLOURS["theory"], COLOURS["B"], COLOURS["A"]]
    for (label, values), colour, style in zip(curves.items(), colours, ["-.", "--", "-"], strict=False):
        axes.plot(degrees, values, style, color=colour, label=label)
        lowest = int(np.argmin(values))
        axes.plot(degrees[lowest], values[lowest], "o", color=colour, clip_on=False)
    axes.set(
        yscale="log", xlabel="degrees of the first key from the root", xticks=range(0, 61, 10),
        ylabel=LOSS, xlim=(0, 60),
    )  # fmt: skip
    axes.set_ylim(top=6)
    axes.legend(fontsize=9, loc="upper left")
    return figure


@styled
def second_key(policies: Sequence[tuple[str, Tensor, Tensor, Tensor]]) -> Figure:
    """Energy of the second key on root, left and right node against the first outcome; one panel a policy.

    Each policy: title, outcomes (n,), their density (n,), energies (n, 3).
    """
    figure = Figure(figsize=(5.6, 2.3 * len(policies)))
    panels = figure.subplots(len(policies), 1, sharex=True, squeeze=False)[:, 0]
    lines = [("root", COLOURS["D"], ":"), ("left", COLOURS["A"], "-"), ("right", COLOURS["B"], "--")]
    for axes, (title, outcomes, density, energy) in zip(panels, policies, strict=True):
        hills = density / density.max() * 0.9
        axes.fill_between(outcomes, 0, hills, color=COLOURS["theory"], alpha=0.25, lw=0)
        for node, (label, colour, style) in enumerate(lines):
            axes.plot(outcomes, energy[:, node], style, color=colour, label=label)
        axes.set(title=title, ylabel="energy", ylim=(-0.03, 1.05), xlim=(-1.7, 1.7))
    panels[-1].set_xlabel("first outcome $y_1$")
    panels[0].legend(fontsize=9, loc="center left")
    return figure


def _map(
    axes: Axes, decays: Sequence[float], noise_vars: Sequence[float], values: Tensor, **options: object
) -> AxesImage:
    """Draw values (noise, decay) on the plane, noise upwards, as a grid of equal cells."""
    image = axes.imshow(np.asarray(values), origin="lower", aspect="auto", **options)  # type: ignore[arg-type]
    axes.grid(False)
    shown = range(0, len(decays), max(1, len(decays) // 3))
    axes.set(xticks=list(shown), xticklabels=[f"{decays[i]:g}" for i in shown], xlabel=r"decay $\alpha$")
    axes.set(yticks=range(len(noise_vars)), yticklabels=[f"{noise:.2g}" for noise in noise_vars])
    return image


@styled
def phase_diagram(
    decays: Sequence[float], noise_vars: Sequence[float], root_energy: Mapping[str, Tensor]
) -> Figure:
    """Energy of the best first key on the root over the plane of decay and noise; one panel a problem.

    `root_energy`: title -> (noise, decay), from 0 to 1.
    """
    figure = Figure(figsize=(5.6, 3.3))
    panels = figure.subplots(1, len(root_energy), sharey=True, squeeze=False)[0]
    for axes, (title, values) in zip(panels, root_energy.items(), strict=True):
        image = _map(axes, decays, noise_vars, values, cmap=_MIXED, vmin=0.3, vmax=1)
        axes.set_title(title, fontsize=10)
    panels[0].set_ylabel(r"noise $\tau^2$")
    bar = figure.colorbar(image, ax=list(panels), label="energy on the root", shrink=0.9)
    bar.outline.set_visible(False)
    return figure


@styled
def gain_map(decays: Sequence[float], noise_vars: Sequence[float], gain: Tensor) -> Figure:
    """What adaptivity gains over the plane of decay and noise, (noise, decay), written into each cell."""
    figure = Figure(figsize=(5.6, 3.8))
    axes = figure.subplots()
    _map(axes, decays, noise_vars, gain, cmap=HEAT, vmin=0, vmax=float(gain.max()) * 1.4)
    for row, column in np.ndindex(*gain.shape):
        axes.text(column, row, f"{100 * float(gain[row, column]):.0f}", ha="center", va="center", color=INK)
    axes.set(ylabel=r"noise $\tau^2$", title="loss of two fixed keys − adaptive loss, in hundredths")
    return figure


@styled
def greedy_cost(noise_vars: Tensor, relative: Mapping[str, Tensor]) -> Figure:
    """Loss of greedy rules relative to the optimum against the noise. `relative`: rule -> (n,)."""
    figure = Figure()
    axes = figure.subplots()
    axes.axhline(1, color=COLOURS["theory"], lw=1.2)
    for (label, values), colour, style in zip(relative.items(), ["A", "B"], ["-o", "--s"], strict=False):
        axes.plot(noise_vars, values, style, ms=4, color=COLOURS[colour], label=f"greedy in {label}")
    axes.set(xscale="log", xlabel=r"noise $\tau^2$", ylabel="loss / optimal loss")
    axes.legend()
    return figure
