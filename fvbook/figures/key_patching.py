"""Figures of the chapter "Key patching"."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fvbook.figures.style import COLOURS, LOSS, MARKS, number_map, styled

INCREASE = "increase of the loss"
"""The label of an axis that shows what an intervention costs."""


@styled
def patching_maps(panels: Mapping[str, ArrayLike], errors: Mapping[str, ArrayLike] | None = None) -> Figure:
    """Increase of the loss by patched keys: (layer patched) × (level where the paths part).

    `panels`: title -> (L, K + 1), the last column for pairs of one leaf, as `interventions.patching_map` and
    `interventions.one_coordinate_map` have it. All panels share the colours. `errors`: title -> half-lengths
    of the intervals, (L, K + 1), for the panels that have them.
    """
    tables = {title: np.asarray(table, dtype=float) for title, table in panels.items()}
    heights = [0.46 * len(table) + 0.5 for table in tables.values()]
    figure = Figure(figsize=(5.6, sum(heights) + 0.4))
    top = max(float(table.max()) for table in tables.values())
    rows = figure.subplots(len(tables), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (title, table) in zip(rows, tables.items(), strict=True):
        number_map(axes, table, 0, top, errors=(errors or {}).get(title))
        axes.set_title(title, loc="left")
        axes.set_ylabel("layer patched")
        columns = table.shape[1]
        axes.set_xticks(range(columns), [*(str(i) for i in range(1, columns)), "never"])
    rows[-1].set_xlabel("level where the paths of target and donor part")
    return figure


@styled
def predicted_and_measured(predictions: Mapping[str, ArrayLike], measured: ArrayLike) -> Figure:
    """Increase of the loss against the layer patched: what was predicted and what was seen.

    `predictions`: label -> (L - 1,), for layers 2, 3, ..., L, up to three; `measured`: (networks, L - 1).
    """
    seen = np.asarray(measured, dtype=float)
    layers = np.arange(2, seen.shape[1] + 2)
    figure = Figure()
    axes = figure.subplots()
    for place, network in zip(np.linspace(-0.12, 0.12, len(seen)), seen, strict=True):
        axes.plot(layers + place, network, MARKS["A"], color=COLOURS["A"], zorder=3)
    axes.plot([], [], MARKS["A"], color=COLOURS["A"], label="measured, each seed")
    for (label, values), name in zip(predictions.items(), ("theory", "B", "C"), strict=False):
        line = {"theory": "o:", "B": "s--", "C": "^-"}[name]
        axes.plot(layers, np.asarray(values, dtype=float), line, color=COLOURS[name], label=label)
    axes.set(xlabel="layer patched", ylabel=INCREASE, xticks=layers, ylim=(0, None))
    figure.legend(loc="outside upper center", ncols=2)
    return figure


@styled
def later_keys(target: ArrayLike, donor: ArrayLike, patched: int) -> Figure:
    """Share of each layer's key on the path of the target and on that of the donor, below the root.

    `target` and `donor` are (L,), means over contexts; the workspace after layer `patched` is the donor's.
    """
    figure = Figure(figsize=(5.6, 3.2))
    axes = figure.subplots()
    layers = np.arange(1, len(np.asarray(target)) + 1)
    for shift, name, label, values in ((-0.2, "A", "target", target), (0.2, "B", "donor", donor)):
        axes.bar(layers + shift, np.asarray(values, dtype=float), 0.38, color=COLOURS[name], label=label)
    axes.axvline(patched + 0.5, color=COLOURS["theory"], ls="--", lw=1.2)
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="layer", ylabel="share of the key on the path", xticks=layers, ylim=(0, 1))
    figure.legend(title="whose path", title_fontsize=10, loc="outside upper center", ncols=2)
    return figure


@styled
def donor_walks(measured: Mapping[int, ArrayLike], predicted: Mapping[int, ArrayLike]) -> Figure:
    """How often the estimate goes with the donor's path down to level k, a line for each layer patched.

    Both map the layer ℓ whose workspace is the donor's to shares (K + 1,) for k = 1..K and the leaf; up to
    four layers. Predictions are thin and dotted.
    """
    figure = Figure()
    axes = figure.subplots()
    count = 0
    for (layer, values), (name, mark) in zip(measured.items(), MARKS.items(), strict=False):
        line = np.asarray(values, dtype=float)
        count = len(line)
        places = range(1, count + 1)
        axes.plot(places, np.asarray(predicted[layer], dtype=float), ":", lw=1.2, color=COLOURS[name])
        axes.plot(places, line, mark + "-", color=COLOURS[name], label=rf"$\ell = {layer}$")
    axes.set_xticks(range(1, count + 1), [*(str(i) for i in range(1, count)), "leaf"])
    axes.set(xlabel="level $k$", ylabel="share of estimates with the donor", ylim=(0, 1.05))
    figure.legend(
        title="the donor's workspace after layer", title_fontsize=10, loc="outside upper center", ncols=4
    )
    return figure


@styled
def increase_by_parting(increase: ArrayLike, errors: ArrayLike) -> Figure:
    """Increase of the loss against the level where the paths part, a line for each layer but the first.

    `increase` and `errors`, half-lengths of the bars, are (L, K + 1), the last column for pairs of one leaf;
    meant for up to five layers.
    """
    table, bars = np.asarray(increase, dtype=float), np.asarray(errors, dtype=float)
    figure = Figure()
    axes = figure.subplots()
    places = np.arange(1, table.shape[1] + 1)
    for layer, (name, mark) in zip(range(1, len(table)), MARKS.items(), strict=False):
        axes.errorbar(
            places + 0.06 * (layer - 2.5), table[layer], bars[layer], fmt=mark + "-", color=COLOURS[name],
            capsize=3, label=f"layer {layer + 1}",
        )  # fmt: skip
    axes.set_xticks(places, [*(str(place) for place in places[:-1]), "never"])
    axes.set(xlabel="level where the paths part", ylabel=INCREASE)
    axes.legend(title="keys patched in", title_fontsize=10)
    return figure


@styled
def what_is_replaced(losses: Mapping[str, ArrayLike], base: float) -> Figure:
    """Loss against the layer patched, a line for each part that a donor of another leaf replaces.

    `losses`: part -> (L,), up to four of them; `base` is the loss without a patch.
    """
    figure = Figure()
    axes = figure.subplots()
    axes.axhline(base, color=COLOURS["theory"], lw=1.2, label="nothing")
    count = 0
    for (label, values), (name, mark) in zip(losses.items(), MARKS.items(), strict=False):
        line = np.asarray(values, dtype=float)
        count = max(count, len(line))
        axes.plot(range(1, len(line) + 1), line, mark + "-", color=COLOURS[name], label=label)
    axes.set(xlabel="layer", ylabel=LOSS, xticks=range(1, count + 1), ylim=(0, None))
    axes.legend(title="taken from the donor", title_fontsize=10)
    return figure


@styled
def ablations(
    losses: Mapping[str, tuple[float, float]], references: Mapping[str, float], intact: Sequence[str] = ()
) -> Figure:
    """Loss of networks with a part switched off: a bar for each, from the top down.

    `losses`: label -> loss, half-length of its error bar; the bars named in `intact` are grey. `references`:
    label -> loss, vertical lines, up to four.
    """
    figure = Figure(figsize=(5.6, 0.9 + 0.36 * len(losses)))
    axes = figure.subplots()
    for place, (label, (loss, error)) in enumerate(losses.items()):
        colour = COLOURS["theory" if label in intact else "A"]
        axes.barh(place, loss, 0.65, xerr=error, color=colour, ecolor=COLOURS["B"], capsize=3)
    for style, (label, loss) in zip(["-", "--", ":", "-."], references.items(), strict=False):
        axes.axvline(loss, ls=style, lw=1.4, color=COLOURS["B"], label=label)
    axes.set_yticks(range(len(losses)), list(losses))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(LOSS)
    if references:
        figure.legend(loc="outside upper center", ncols=2)
    return figure
