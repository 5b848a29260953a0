"""Figures of the chapter "A tree prior"."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from fvbook.figures.style import COLOURS, INK, LOSS, styled
from fvbook.priors import TreePrior


@styled
def tree_path(tree: TreePrior, leaf: int) -> Figure:
    """A leaf's code θ on the tree: a disc at each node of its path, of radius |entry|, coloured by its sign.

    Nodes carry their index in heap order; meant for up to 4 levels.
    """
    figure = Figure(figsize=(5.6, 0.9 + 0.75 * tree.levels))
    axes = figure.subplots()
    axes.set_axis_off()
    path = [*tree.paths[leaf].tolist(), tree.dim + leaf]  # the leaves go on in heap order
    theta = tree.leaves[leaf].tolist()
    levels = tree.levels
    largest = float(tree.amplitudes[0])

    def place(node: int) -> tuple[float, float]:
        depth = (node + 1).bit_length() - 1
        return (node + 1.5 - 2**depth) / 2**depth, -float(depth)

    for node in range(1, 2 * tree.dim + 1):
        (x0, y0), (x1, y1) = place((node - 1) // 2), place(node)
        on_path = node in path
        axes.plot(
            [x0, x1], [y0, y1], color=INK, lw=2.2 if on_path else 0.8, alpha=1 if on_path else 0.35, zorder=1
        )
    for node in range(tree.dim):
        x, y = place(node)
        entry = theta[node]
        colour = COLOURS["A"] if entry > 0 else COLOURS["B"] if entry < 0 else COLOURS["theory"]
        radius = 4 + 18 * abs(entry) / largest
        axes.scatter(x, y, s=radius**2, color=colour, zorder=2)
        if entry:
            axes.annotate(f"{node}", (x, y), ha="center", va="center", fontsize=8)
            axes.annotate(
                rf"${entry:+.2f}$", (x, y), (radius / 2 + 2, 3), textcoords="offset points", fontsize=8.5
            )
        else:  # on the side away from the edge that comes from above
            side = -1 if node % 2 else 1
            axes.annotate(
                f"{node}", (x, y), (side, 3), textcoords="offset points", fontsize=7.5,
                ha="right" if side < 0 else "left",
            )  # fmt: skip
    for index in range(2**levels):
        x, y = place(tree.dim + index)
        chosen = index == leaf
        axes.scatter(
            x, y, s=45 if chosen else 10, marker="s", color=INK, alpha=1 if chosen else 0.35, zorder=2
        )
    axes.annotate(f"leaf {leaf}", place(tree.dim + leaf), (0, -17), textcoords="offset points", ha="center")
    axes.set(xlim=(0, 1), ylim=(-levels - 0.5, 0.35))
    return figure


@styled
def node_variances(measured: Tensor, predicted: Tensor, node_levels: Tensor) -> Figure:
    """Variance of every coordinate of θ, measured and by the formula, (D,) each, on a logarithmic axis."""
    figure = Figure(figsize=(5.6, 3.2))
    axes = figure.subplots()
    nodes = np.arange(len(measured))
    axes.step(nodes, predicted, where="mid", color=COLOURS["theory"], label="formula")
    axes.plot(nodes, measured, "o", ms=4, color=COLOURS["A"], label="estimated from samples")
    for node in nodes[1:]:
        if node_levels[node] > node_levels[node - 1]:
            axes.axvline(node - 0.5, color=INK, lw=0.6, alpha=0.5)
    axes.set(yscale="log", xlabel="node of the tree (heap order)", ylabel="prior variance")
    axes.legend()
    return figure


@styled
def refinement(details: Tensor, sums: Tensor) -> Figure:
    """A leaf's indicator as a Haar series: what each scale adds (left) and the sums so far (right).

    `details` and `sums` are (K + 1, 2^K): row 0 is the constant, row m the term of level m. Each panel has a
    scale of its own, and its height on the axis.
    """
    rows, points = details.shape
    figure = Figure(figsize=(5.6, 0.75 * rows + 0.5))
    panels = figure.subplots(rows, 2, sharex=True)
    edges = np.arange(points + 1) + 0.5
    for row in range(rows):
        for axes, values, colour in zip(
            panels[row], (details[row], sums[row]), (COLOURS["B"], COLOURS["A"]), strict=True
        ):
            height = float(values.abs().max())
            axes.stairs(values, edges, fill=True, color=colour)
            axes.axhline(0, color=INK, lw=0.6)
            axes.grid(False)
            low = -1.25 if colour == COLOURS["B"] and row > 0 else 0
            axes.set(ylim=(low * height, 1.25 * height))
            axes.set_yticks([height], [f"1/{round(1 / height)}" if height < 0.99 else "1"])
            axes.spines[["left", "bottom"]].set_visible(False)
            axes.tick_params(length=0)
        label = "constant" if row == 0 else f"level {row}"
        panels[row, 0].set_ylabel(label, rotation=0, ha="right", va="center")
    panels[0, 0].set_title("what it adds")
    panels[0, 1].set_title("what is known so far")
    for axes in panels[-1]:
        axes.set(xlabel="leaf", xticks=[1, points // 2, points])
    return figure


@styled
def noisy_coordinates(curves: Mapping[str, tuple[Sequence[int], Tensor, Tensor | None]]) -> Figure:
    """Loss of one coordinate at a time against the budget, for several noise levels.

    `curves`: label -> budgets, loss from the signs alone (a line), Bayes loss of the same outcomes (points,
    or None).
    """
    figure = Figure()
    axes = figure.subplots()
    colours = [COLOURS[name] for name in ("theory", "A", "C", "B")]
    for colour, (label, (budgets, signs, bayes)) in zip(colours, curves.items(), strict=False):
        axes.plot(budgets, signs, color=colour, label=label)
        if bayes is not None:
            axes.plot(budgets, bayes, "o", color=colour)
    axes.set(yscale="log", xlabel="budget $M$", ylabel=LOSS)
    axes.legend(title="noise (lines: signs alone, points: Bayes)", fontsize=9, title_fontsize=9)
    return figure


@styled
def exponential_against_power(
    without_noise: Mapping[str, tuple[Sequence[int], Tensor]],
    with_noise: Mapping[str, tuple[Sequence[int], Tensor]],
) -> Figure:
    """Loss against the budget on logarithmic axes: thin lines without noise, thick ones with noise.

    Both map a label to budgets and losses; those with noise come in the order adaptive, fixed, linear.
    """
    figure = Figure(figsize=(5.6, 4.2))
    axes = figure.subplots()
    for style, (label, (budgets, losses)) in zip("-:", without_noise.items(), strict=False):
        axes.plot(budgets, losses, style, lw=1.2, color=COLOURS["theory"], label=label)
    marks = {"A": "o", "B": "s", "C": ""}
    for (name, mark), (label, (budgets, losses)) in zip(marks.items(), with_noise.items(), strict=True):
        axes.plot(budgets, losses, marker=mark, ms=5, color=COLOURS[name], label=label)
    axes.set(xscale="log", yscale="log", xlabel="budget $M$", ylabel=LOSS)
    axes.set_ylim(0.01, 1)
    ticks = [1, 2, 4, 8, 16, 32, 64, 128, 255]
    axes.set_xticks(ticks, [str(tick) for tick in ticks], fontsize=9)
    axes.minorticks_off()
    axes.legend(fontsize=9, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0)
    return figure


@styled
def bumps(panels: Mapping[str, tuple[Sequence[Tensor], Tensor, Tensor]]) -> Figure:
    """Histograms of a scalar k·b for each leaf, under the density of all; one panel for each noise level.

    `panels`: title -> samples for each of the four leaves (left-left first), a grid of values, the density on
    it.
    """
    figure = Figure(figsize=(5.6, 2.3 * len(panels)))
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, (samples, grid, density)) in zip(rows, panels.items(), strict=True):
        low, high = float(grid[0]), float(grid[-1])
        bins = np.linspace(low, high, 121)
        for index, values in enumerate(samples):
            counts, _ = np.histogram(values, bins)
            share = counts / (len(values) * len(samples) * (bins[1] - bins[0]))
            axes.stairs(
                share, bins, fill=True, color=COLOURS["AB"[index // 2]], alpha=0.9 - 0.45 * (index % 2),
                label=("left, left", "left, right", "right, left", "right, right")[index],
            )  # fmt: skip
        axes.plot(grid, density, color=INK, lw=1.2)
        axes.set(title=title, yticks=[], ylabel="density", xlim=(low, high))
    rows[-1].set_xlabel(r"$\varphi = k \cdot b$")
    rows[0].legend(fontsize=9)
    return figure


@styled
def mixing(degrees: Tensor, losses: Mapping[str, Tensor]) -> Figure:
    """Loss of one measurement against the angle of its key, 0 = root alone, a line for each noise level.

    The least value of each line is marked.
    """
    figure = Figure()
    axes = figure.subplots()
    for name, (label, values) in zip("BCA", losses.items(), strict=False):
        best = int(values.argmin())
        axes.plot(degrees, values, color=COLOURS[name], label=label)
        axes.plot(degrees[best], values[best], "o", color=COLOURS[name], clip_on=False)
    axes.set(
        xlabel=r"angle $\beta$ of the key (0° = root, 90° = both children)",
        ylabel="loss of one measurement",
        xticks=[0, 15, 30, 45, 60, 75, 90],
        xlim=(0, 90),
        ylim=(0, 1),
    )
    axes.legend(fontsize=9)
    return figure
