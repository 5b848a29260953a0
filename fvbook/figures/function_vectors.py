"""Figures of the chapter "What a function vector knows"."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from torch import Tensor

from fvbook.figures.key_patching import number_map
from fvbook.figures.style import COLOURS, INK, MARKS, styled
from fvbook.probes import KeyEnergy


@styled
def key_energy(energy: KeyEnergy) -> Figure:
    """Share of a key's energy on each level, at the node of the path and off it: (layer) × (level) twice."""
    figure = Figure(figsize=(5.6, 5.2))
    rows = figure.subplots(2, 1)
    for axes, title, table in zip(rows, ("on the path", "off the path"), energy, strict=True):
        number_map(axes, table, 0, 1)
        axes.set_title(title, loc="left")
        axes.set_ylabel("layer")
    rows[-1].set_xlabel("level of the tree")
    return figure


@styled
def readouts(tables: Mapping[str, ArrayLike]) -> Figure:
    """How often sign k of the path is told from Φ_ℓ: (layer ℓ) × (level k), coloured from ½ to 1.

    `tables`: name of the read-out -> (L, K), as in `probes`.
    """
    figure = Figure(figsize=(5.6, 2.6 * len(tables) + 0.2))
    rows = figure.subplots(len(tables), 1, squeeze=False)[:, 0]
    for axes, (title, table) in zip(rows, tables.items(), strict=True):
        number_map(axes, table, 0.5, 1)
        axes.set_title(title, loc="left")
        axes.set_ylabel(r"read from $\Phi_\ell$, $\ell =$")
    rows[-1].set_xlabel("sign of level $k$")
    return figure


@styled
def belief_by_layer(beliefs: ArrayLike, leaf: int) -> Figure:
    """The posterior over leaves after each layer, one context: a row of bars for ℓ = 0, 1, ..., L.

    `beliefs` is (L + 1, 2^K), probabilities; `leaf` is the true one, counted from 0, and marked.
    """
    table = np.asarray(beliefs, dtype=float)
    layers, leaves = table.shape
    figure = Figure(figsize=(5.6, 0.62 * layers + 0.6))
    rows = figure.subplots(layers, 1, sharex=True, squeeze=False)[:, 0]
    for layer, (axes, row) in enumerate(zip(rows, table, strict=True)):
        axes.bar(range(1, leaves + 1), row, 0.85, color=COLOURS["A"])
        axes.axvline(leaf + 1, color=COLOURS["B"], lw=1.2, ls=":", zorder=0)
        axes.grid(False)
        axes.set(ylim=(0, 1), yticks=[])
        axes.set_ylabel(rf"$\ell = {layer}$", rotation=0, ha="right", va="center")
        axes.tick_params(length=0)
        axes.spines["left"].set_visible(False)
    rows[-1].set(xlabel="leaf (dotted: the true one)", xticks=[1, leaves // 2, leaves])
    return figure


@styled
def geometry(panels: Mapping[str, Tensor], branch: Tensor) -> Figure:
    """Contexts in the plane of the first two principal components, coloured by the branch they are in.

    `panels`: title -> scores (B, 2); `branch`: (B,), the first two turns, 0 = left, left to 3 = right, right.
    """
    count = len(panels)
    figure = Figure(figsize=(5.6, 2.6 * ((count + 1) // 2) + 0.5))
    grid = figure.subplots((count + 1) // 2, 2, squeeze=False).ravel()
    names = ("left, left", "left, right", "right, left", "right, right")
    for axes, (title, scores) in zip(grid, panels.items(), strict=False):
        for index, (label, colour) in enumerate(zip(names, "ADBC", strict=True)):
            x, y = scores[branch == index].T
            axes.scatter(x, y, 3, color=COLOURS[colour], alpha=0.6, lw=0, label=label, rasterized=True)
        axes.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
        axes.set_title(title)
    for axes in grid[count:]:
        axes.set_axis_off()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, markerscale=4)
    return figure


@styled
def similarities(lines: Mapping[str, tuple[ArrayLike, ArrayLike]], chance: float) -> Figure:
    """|cos| between the network's keys and those of other policies under the same belief, against the layer.

    `lines`: policy -> means (L,), half-lengths of the error bars (L,); up to four. `chance`: of two random
    directions.
    """
    figure = Figure()
    axes = figure.subplots()
    count = 0
    for (label, (means, errors)), (name, mark) in zip(lines.items(), MARKS.items(), strict=False):
        values = np.asarray(means, dtype=float)
        count = max(count, len(values))
        axes.errorbar(
            range(1, len(values) + 1), values, np.asarray(errors, dtype=float), fmt=mark + "-",
            color=COLOURS[name], capsize=3, label=label,
        )  # fmt: skip
    axes.axhline(chance, color=COLOURS["theory"], lw=1.2, label="random directions")
    axes.set(xlabel="layer", ylabel=r"$|\cos|$ of the keys", xticks=range(1, count + 1), ylim=(0, 1.02))
    figure.legend(loc="outside upper center", ncols=2)
    return figure


@styled
def reading(table: ArrayLike) -> Figure:
    """How much the keys of each layer change without one entry of Φ: (layer) × (entry), as `who_reads_what`.

    Entries a layer cannot see must be 0, and are left blank.
    """
    values = np.asarray(table, dtype=float)
    figure = Figure(figsize=(5.6, 3.2))
    axes = figure.subplots()
    number_map(axes, np.where(values == 0, np.nan, values), 0, float(values.max()))
    for edge in range(1, len(values)):  # what a layer can see ends with the layer before it
        axes.axhline(edge - 0.5, color=INK, lw=0.4, alpha=0.3)
    entries = [rf"$\varphi_{{{entry}}}$" for entry in range(1, values.shape[1] + 1)]
    axes.set_xticks(range(values.shape[1]), entries)
    axes.set(xlabel="entry of the function vector that is nulled", ylabel="keys of layer")
    return figure
