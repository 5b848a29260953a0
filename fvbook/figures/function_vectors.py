"""Figures of the chapter "What a function vector knows"."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from torch import Tensor

from fvbook.figures.style import COLOURS, INK, MARKS, number_map, styled
from fvbook.priors import TreePrior
from fvbook.probes import KeyEnergy

TURNS = ("left, left", "left, right", "right, left", "right, right")
"""The names of two turns in a row."""


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
    rows[-1].set_xlabel("turn at level $k$")
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
def geometry(panels: Mapping[str, tuple[Tensor, Tensor]], labels: Sequence[tuple[str, str]]) -> Figure:
    """Contexts as points of a plane, coloured by two turns of their path; two panels in a row.

    `panels`: title -> points (B, 2) and turns (B,), 0 = left, left to 3 = right, right. `labels`: the names
    of the two axes of each panel.
    """
    count = len(panels)
    figure = Figure(figsize=(5.6, 2.6 * ((count + 1) // 2) + 0.5))
    grid = figure.subplots((count + 1) // 2, 2, squeeze=False).ravel()
    for axes, (title, (points, turns)), (across, up) in zip(grid, panels.items(), labels, strict=False):
        for index, (label, colour) in enumerate(zip(TURNS, "ADBC", strict=True)):
            x, y = points[turns == index].T
            axes.scatter(x, y, 3, color=COLOURS[colour], alpha=0.6, lw=0, label=label, rasterized=True)
        axes.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim", xlabel=across, ylabel=up)
        axes.set_title(title)
    for axes in grid[count:]:
        axes.set_axis_off()
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, markerscale=4)
    return figure


@styled
def keys_in_branches(tree: TreePrior, panels: Mapping[str, tuple[ArrayLike, Sequence[int]]]) -> Figure:
    """Where a key looks: on a tree a disc for each node, its area the share of the key's energy there.

    `panels`: title -> shares (D,) and the nodes of the path so far, drawn thick; two panels in a row.
    """
    count = len(panels)
    figure = Figure(figsize=(5.6, 1.9 * ((count + 1) // 2)))
    grid = figure.subplots((count + 1) // 2, 2, squeeze=False).ravel()
    for axes in grid:
        axes.set_axis_off()

    def place(node: int) -> tuple[float, float]:
        depth = (node + 1).bit_length() - 1
        return (node + 1.5 - 2**depth) / 2**depth, -float(depth)

    for axes, (title, (shares, path)) in zip(grid, panels.items(), strict=False):
        for node in range(1, tree.dim):
            (x0, y0), (x1, y1) = place((node - 1) // 2), place(node)
            thick = node in path
            axes.plot(
                [x0, x1], [y0, y1], color=INK, lw=2 if thick else 0.7, alpha=1 if thick else 0.35, zorder=1
            )
        x, y = np.array([place(node) for node in range(tree.dim)]).T
        axes.scatter(x, y, 260 * np.asarray(shares, dtype=float), color=COLOURS["A"], lw=0, zorder=2)
        axes.set(xlim=(0, 1), ylim=(0.4 - tree.levels, 0.6))
        axes.set_title(title)
    return figure


@styled
def turn(answer: ArrayLike, shares: Mapping[str, ArrayLike], belief: ArrayLike) -> Figure:
    """Where the next key looks, against the answer before it: a line for each node, and the belief, dashed.

    `answer` is (n,), each entry of `shares`, node -> share of the key's energy, and `belief` too.
    """
    figure = Figure()
    axes = figure.subplots()
    for (label, values), name in zip(shares.items(), "AB", strict=False):
        axes.plot(np.asarray(answer), np.asarray(values), color=COLOURS[name], label=label)
    axes.plot(
        np.asarray(answer), np.asarray(belief), "--", color=COLOURS["theory"], label="belief in a left turn"
    )
    axes.set(xlabel=r"first answer $\varphi_1$", ylabel="share, probability", ylim=(-0.02, 1.02))
    figure.legend(loc="outside upper center", ncols=2)
    return figure


@styled
def bits(lines: Mapping[str, Sequence[ArrayLike]], levels: int) -> Figure:
    """Information about the leaf in Φ_ℓ against ℓ: several networks for each label, and one bit a layer.

    `lines`: label -> for each network (L + 1,) bits, from ℓ = 0; up to four labels. `levels` is K, the most.
    """
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, levels], [0, levels], "--", color=COLOURS["theory"], label="one turn a layer")
    axes.axhline(levels, color=COLOURS["theory"], lw=1.2)
    for (label, runs), (name, mark) in zip(lines.items(), MARKS.items(), strict=False):
        for index, run in enumerate(runs):
            values = np.asarray(run, dtype=float)
            axes.plot(
                range(len(values)), values, mark + "-", ms=4, color=COLOURS[name],
                label=label if index == 0 else None,
            )  # fmt: skip
    axes.set(xlabel=r"layers read, $\ell$", ylabel="bits about the leaf", ylim=(0, levels + 0.2))
    axes.legend()
    return figure


@styled
def roles(rows: Sequence[str], columns: Sequence[str], losses: ArrayLike) -> Figure:
    """Loss for each state of the routers (row) and each reader of the answers (column), (rows, columns)."""
    figure = Figure(figsize=(5.6, 0.5 + 0.42 * len(rows)))
    axes = figure.subplots()
    number_map(axes, losses, 0, float(np.max(np.asarray(losses))))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="who reads the answers", ylabel="routers")
    return figure


@styled
def interpolation(steps: ArrayLike, panels: Mapping[str, Mapping[str, ArrayLike]]) -> Figure:
    """Share of pairs of contexts read as each kind of leaf, along the line between their function vectors.

    `panels`: title -> kind -> shares (n,), up to four kinds; `steps` is (n,), from 0 to 1.
    """
    figure = Figure(figsize=(5.6, 2.2 * len(panels) + 0.4))
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, kinds) in zip(rows, panels.items(), strict=True):
        for (label, shares), name in zip(kinds.items(), MARKS, strict=False):
            axes.plot(np.asarray(steps), np.asarray(shares), color=COLOURS[name], label=label)
        axes.set(title=title, ylabel="share of pairs", ylim=(-0.02, 1.02))
    rows[-1].set_xlabel("from the first function vector to the second")
    handles, names = rows[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3)
    return figure


@styled
def similarities(lines: Mapping[str, tuple[ArrayLike, ArrayLike]], chance: float) -> Figure:
    """|cos| between keys of networks and those of a policy under the same belief, against the layer.

    `lines`: label -> means (L,), half-lengths of the error bars (L,); up to four. `chance`: of two random
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
