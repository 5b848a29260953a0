"""Figures of the chapter "A transformer that measures"."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor

from fvbook.figures.style import COLOURS, HEAT, INK, styled


@styled
def layer_diagram() -> Figure:
    """One layer of the constrained transformer, as a diagram."""
    figure = Figure(figsize=(5.2, 4.3))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 10.8)
    axes.set_ylim(0, 8)

    def box(x: float, y: float, width: float, text: str, colour: str) -> None:
        patch = FancyBboxPatch(
            (x, y), width, 0.9, boxstyle="round,pad=0.08", facecolor=colour + "30", edgecolor=colour
        )
        axes.add_patch(patch)
        axes.text(x + width / 2, y + 0.45, text, ha="center", va="center", fontsize=10)

    def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
        axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=INK, lw=1))

    for x, name in [(0.2, "1"), (3.6, "2"), (7.0, "N")]:
        box(x, 0.2, 2.7, rf"token $(x_{name}, y_{name}),\ \Phi$", COLOURS["theory"])
        arrow((x + 1.35, 1.2), (x + 1.35, 1.95))
        box(x, 2.05, 2.7, rf"$k_{name} = \mathbf{{K}}(\Phi)\,x_{name}$", COLOURS["A"])
        arrow((x + 1.35, 3.05), (5 + (x - 3.6) * 0.3, 4.05))
    axes.text(6.65, 0.65, "…", ha="center", va="center", fontsize=12)
    axes.text(6.65, 2.5, "…", ha="center", va="center", fontsize=12)
    box(
        2.3,
        4.15,
        5.4,
        r"$\varphi = \frac{1}{N}\sum_i y_i k_i = \mathbf{K}(\Phi)\,b$",
        COLOURS["B"],
    )
    arrow((5, 5.15), (5, 5.9))
    box(2.3, 6.0, 5.4, r"$\Phi \leftarrow \Phi \oplus \varphi$", COLOURS["C"])
    axes.add_patch(
        FancyArrowPatch(
            (7.85, 6.45), (9.75, 1.2), connectionstyle="arc3,rad=-0.42", arrowstyle="-|>", mutation_scale=11,
            color=INK, lw=1, ls="--",
        )
    )  # fmt: skip
    axes.text(7.95, 7.1, "to every token,\nnext layer", fontsize=9, va="center")
    axes.text(0.3, 3.35, "routers choose", fontsize=9, style="italic")
    axes.text(0.3, 5.3, "attention pools", fontsize=9, style="italic")
    axes.text(0.3, 7.15, "workspace remembers", fontsize=9, style="italic")
    return figure


@styled
def moment_error(tokens: Sequence[int], measured: Tensor, errors: Tensor, predicted: Tensor) -> Figure:
    """Mean squared error of the moment, and of the moment shrunk, against the number of tokens.

    Both axes are logarithmic. `measured`, its standard `errors` and `predicted` are (2, len(tokens)).
    """
    figure = Figure()
    axes = figure.subplots()
    axes.axhline(1, color=INK, lw=0.8, ls=":")
    for row, (name, colour) in enumerate([("b", COLOURS["A"]), (r"b shrunk, $c\,b$", COLOURS["B"])]):
        axes.plot(tokens, predicted[row], color=COLOURS["theory"])
        axes.errorbar(tokens, measured[row], 2 * errors[row], fmt="o", color=colour, label=name)
    axes.set(xscale="log", yscale="log", xlabel="tokens $N$", ylabel=r"squared error, estimate of $\theta$")
    axes.legend()
    return figure


@styled
def keys_by_context(energy: Tensor, node_levels: Tensor) -> Figure:
    """Where each layer's key looks: its energy on each node, for each leaf; one panel a layer.

    `energy` is (layers, leaves, D), squared entries of unit keys; `node_levels` (D,) puts a line between
    levels.
    """
    layers, leaves, dim = energy.shape
    figure = Figure(figsize=(5.6, 1.1 + 0.75 * layers * leaves / 8))
    panels = figure.subplots(layers, 1, sharex=True, squeeze=False)[:, 0]
    for layer, axes in enumerate(panels):
        image = axes.imshow(energy[layer].numpy(), cmap=HEAT, vmin=0, vmax=1, aspect="auto")
        axes.set(yticks=[], ylabel=f"layer {layer + 1}")
        axes.grid(False)
        for node in range(1, dim):
            if node_levels[node] > node_levels[node - 1]:
                axes.axvline(node - 0.5, color=INK, lw=0.8)
        axes.axhline(leaves / 2 - 0.5, color=INK, lw=0.5, ls=":")
    panels[-1].set(xticks=range(dim), xlabel="node of the tree (heap order)")
    panels[0].set_title("rows: leaves, left half of the tree above the dots")
    figure.colorbar(image, ax=panels, label="energy of the key on the node").outline.set_visible(False)
    return figure
