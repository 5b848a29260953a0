"""Every figure draws, and its SVG can be read on any page."""

import re

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from fvbook.figures import (
    dynamic_programming,
    function_vectors,
    gaussian_prior,
    in_context_inference,
    key_patching,
    limits,
    mean_field,
    playground,
    scaling,
    show,
    to_svg,
    training_the_models,
    transformer,
    tree_prior,
)
from fvbook.figures.style import INK
from fvbook.priors import TreePrior
from fvbook.probes import KeyEnergy

TREE = TreePrior(3, 0.8)
HALVES = torch.tensor([0.5, 0.25])
CLOUD = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
DRAWN = {
    "layer_diagram": lambda: transformer.layer_diagram(),
    "moment_error": lambda: transformer.moment_error(
        [4, 16], torch.full((2, 2), 0.9), torch.full((2, 2), 0.1), torch.full((2, 2), 1.0)
    ),
    "keys_by_context": lambda: transformer.keys_by_context(torch.full((3, 8, 7), 0.3), TREE.node_levels),
    "loss_against_budget": lambda: training_the_models.loss_against_budget(
        {"A": ([1, 2], [0.5, 0.3], [0.1, 0.1])}, {"a curve": ([1, 2], torch.tensor([0.6, 0.4]))}
    ),
    "training_history": lambda: training_the_models.training_history(
        {"A": [torch.tensor([[1.0, 0.5], [2.0, 0.4]])]}
    ),
    "two_by_two": lambda: training_the_models.two_by_two(np.full((2, 2), 0.5), np.full((2, 2), 0.01)),
    "straight_lines": lambda: scaling.straight_lines(
        {name: ([1, 2], [0.5, 0.3], [0.1, 0.1]) for name in "ABC"},
        {name: (np.array([1, 2]), np.array([0.5, 0.3])) for name in "ABC"},
    ),
    "gaussian_ratio": lambda: scaling.gaussian_ratio({"A": ([1, 2], [1.0, 0.99], [0.01, 0.01])}),
    "gain_over_length": lambda: scaling.phase_diagram({0.8: np.array([[1.0, 2.0]])}, [2], [8, 16]),
    "gap_to_best": lambda: scaling.gap_to_best(
        [1, 2], np.array([0.5, 0.3]), np.array([0.1, 0.1]), np.array([0.1, 0.1]), np.array([0.01, 0.01])
    ),
    "patching_maps": lambda: key_patching.patching_maps(
        {"a": np.eye(3, 4), "b": np.zeros((3, 4))}, {"a": np.full((3, 4), 0.02)}
    ),
    "predicted_and_measured": lambda: key_patching.predicted_and_measured(
        {"a": HALVES}, np.full((3, 2), 0.3)
    ),
    "later_keys": lambda: key_patching.later_keys(HALVES, HALVES, 1),
    "donor_walks": lambda: key_patching.donor_walks({1: HALVES}, {1: HALVES}),
    "increase_by_parting": lambda: key_patching.increase_by_parting(np.eye(4), np.full((4, 4), 0.01)),
    "what_is_replaced": lambda: key_patching.what_is_replaced({"keys": HALVES, "workspace": 3 * HALVES}, 0.1),
    "ablations": lambda: key_patching.ablations(
        {"intact": (0.1, 0.01), "all off": (0.4, 0.02)}, {"model B": 0.3}, ["intact"]
    ),
    "key_energy": lambda: function_vectors.key_energy(KeyEnergy(torch.eye(3), torch.zeros(3, 3))),
    "readouts": lambda: function_vectors.readouts({"linear": np.eye(3), "Bayes": np.full((3, 3), 0.5)}),
    "belief_by_layer": lambda: function_vectors.belief_by_layer(np.full((3, 8), 1 / 8), 5),
    "geometry": lambda: function_vectors.geometry(
        {name: (CLOUD, torch.arange(len(CLOUD)) % 4) for name in "abc"}, [("x", "y")] * 3
    ),
    "keys_in_branches": lambda: function_vectors.keys_in_branches(
        TREE, {"a": (np.full(7, 1 / 7), [0, 1]), "b": (np.eye(7)[2], [0, 2])}
    ),
    "turn": lambda: function_vectors.turn(HALVES, {"left": HALVES, "right": 1 - HALVES}, HALVES),
    "bits": lambda: function_vectors.bits({"a": [HALVES, 2 * HALVES], "b": [HALVES]}, 3),
    "roles": lambda: function_vectors.roles(["on", "off"], ["a", "b", "c"], np.eye(2, 3)),
    "interpolation": lambda: function_vectors.interpolation(HALVES, {"a": {"x": HALVES}, "b": {"x": HALVES}}),
    "similarities": lambda: function_vectors.similarities({"a policy": (HALVES, HALVES / 10)}, 0.1),
    "reading": lambda: function_vectors.reading(np.tri(3, k=-1)),
    "tree_path": lambda: tree_prior.tree_path(TREE, 5),
    "node_variances": lambda: tree_prior.node_variances(TREE.variances, TREE.variances, TREE.node_levels),
    "refinement": lambda: tree_prior.refinement(torch.eye(4)[:3] - 0.25, torch.eye(4)[:3]),
    "noisy_coordinates": lambda: tree_prior.noisy_coordinates(
        {
            "none": ([1, 2], torch.tensor([0.5, 0.3]), None),
            "some": ([1, 2], torch.tensor([0.6, 0.4]), torch.tensor([0.5, 0.3])),
        }
    ),
    "exponential_against_power": lambda: tree_prior.exponential_against_power(
        {"a law": ([1, 2], torch.tensor([0.5, 0.3]))},
        {name: ([1, 2], torch.tensor([0.6, 0.4])) for name in ("adaptive", "fixed", "linear")},
    ),
    "bumps": lambda: tree_prior.bumps(
        {"N = 6": (list(CLOUD[:400].reshape(4, 200)), torch.linspace(-2, 2, 9), torch.ones(9))}
    ),
    "mixing": lambda: tree_prior.mixing(torch.arange(3), {"a noise": torch.tensor([0.5, 0.4, 0.6])}),
    "risk_by_knowledge": lambda: in_context_inference.risk_by_knowledge(
        [1, 2], {("b", "linear"): HALVES, ("tokens", "Bayes"): HALVES}
    ),
    "loss_parts": lambda: in_context_inference.loss_parts(
        {"A": {"tokens": 0.1, "pooling": 0.1, "budget": 0.2, "decoder": 0.01}}
    ),
    "gradient_steps": lambda: in_context_inference.gradient_steps([1, 2], [0.4, 0.3], 0.4, 0.2),
    "rates": lambda: mean_field.rates(
        [8, 16], HALVES[:, None].expand(2, 3), HALVES, HALVES, HALVES / 100, HALVES
    ),
    "descent": lambda: mean_field.descent(
        [1, 2], {name: HALVES for name in ["same tokens", "fresh tokens", "mean field"]}, 0.1
    ),
    "two_keys": lambda: mean_field.two_keys(torch.linspace(0, 90, 4), torch.ones(4), torch.ones(4)),
    "noise_pairs": lambda: mean_field.noise_pairs({"a cloud": CLOUD}),
    "loss_against_first_key": lambda: dynamic_programming.loss_against_first_key(
        torch.linspace(0, 1, 5), {"one": [0.5, 0.4, 0.3, 0.4, 0.5], "two": [0.2, 0.1, 0.1, 0.2, 0.3]}
    ),
    "second_key": lambda: dynamic_programming.second_key(
        [("root first", torch.linspace(-1, 1, 5), torch.ones(5), torch.ones(5, 3) / 2)]
    ),
    "phase_diagram": lambda: dynamic_programming.phase_diagram(
        [0.2, 0.5], [0.1, 1.0], {"one key": torch.eye(2)}
    ),
    "gain_map": lambda: dynamic_programming.gain_map([0.2, 0.5], [0.1, 1.0], torch.eye(2)),
    "greedy_cost": lambda: dynamic_programming.greedy_cost(
        torch.tensor([0.1, 1.0]), {"variance": torch.tensor([1.5, 1.0])}
    ),
    "risk_distribution": lambda: gaussian_prior.risk_distribution(
        {"Gaussian": torch.full((9,), 0.9), "tree": torch.linspace(0.1, 0.9, 9)}
    ),
    "on_the_line": lambda: gaussian_prior.on_the_line(
        [1, 2], {"A": [(0.9, 0.01), (0.8, 0.01)]}, [1, 2, 3], torch.tensor([0.9, 0.8, 0.7])
    ),
    "shrinkage": lambda: gaussian_prior.shrinkage({16: (np.array([0.5, 1.0]), np.array([1.0, 0.8]), 0.9)}),
    "dip_against_tokens": lambda: gaussian_prior.dip_against_tokens(
        [16, 64], np.array([0.08, 0.06]), [16], {"B": [(16, 0.07, 0.01)]}
    ),
    "one_number": lambda: limits.one_number(
        ([1, 2], [0.5, 0.8]), {"a": ([1, 2], [0.4, 0.5]), "b": ([1, 2], [0.4, 0.6])}
    ),
    "loss_against_bits": lambda: limits.loss_against_bits(
        ([0, 1], [1.0, 0.5]), {name: ([0.5], [0.8]) for name in "abcd"}
    ),
    "fixed_keys": lambda: limits.fixed_keys(
        ([1, 2], [0.5, 0.4]), {name: ([1, 2], [0.6, 0.5]) for name in "abc"}, 0.4, (1, 0.5)
    ),
    "growing_gap": lambda: limits.growing_gap([2, 3], [3, 6], [3, 7]),
    "between_bounds": lambda: limits.between_bounds(
        ([1, 2], [0.4, 0.1]), ([1, 2], [0.4, 0.3]), 0.02, {"s": ("A", "o", ([1, 2], [0.6, 0.4]))}
    ),
    "runs": lambda: playground.runs(
        [("1: a", "A", torch.tensor([[1.0, 0.5], [2.0, 0.4]]), 0.4), ("2: b", "A", torch.empty(0, 2), None)],
        {"prior knowledge": 1.0, "a bound": 0.0},
        "a title",
    ),
    "theory_curves": lambda: playground.theory_curves(
        [1, 2, 3], {"a curve": torch.tensor([0.6, 0.5, 0.4]), "another": torch.tensor([0.5, 0.2, 0.0])}
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_svg_is_readable_on_any_page(name: str) -> None:
    figure = DRAWN[name]()
    svg = to_svg(figure, alt="what < it shows")
    assert svg.startswith('<svg role="img" aria-label="what &lt; it shows"')
    assert svg.endswith("</svg>")
    assert "currentColor" in svg
    assert INK not in svg
    assert all("://www.w3.org/" in address for address in re.findall(r"\w+://\S+", svg)), "it loads nothing"
    assert figure.get_figwidth() <= 6, "wider, it would be too small to read on a phone"


@pytest.mark.parametrize("name", DRAWN)
def test_figures_do_not_depend_on_the_callers_settings(name: str) -> None:
    plain = to_svg(DRAWN[name](), alt="x")
    with mpl.rc_context(
        {"font.size": 30, "axes.facecolor": "white", "svg.fonttype": "none", "axes.grid": False}
    ):
        assert to_svg(DRAWN[name](), alt="x") == plain


@pytest.mark.parametrize("alt", ["", "  "])
def test_a_figure_without_words_is_refused(alt: str) -> None:
    with pytest.raises(ValueError, match="alt"):
        to_svg(Figure(), alt=alt)


def test_show_displays_the_svg(capsys: pytest.CaptureFixture[str]) -> None:
    show(Figure(), alt="nothing")
    assert "HTML" in capsys.readouterr().out
