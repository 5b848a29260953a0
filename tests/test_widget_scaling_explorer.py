import math
import time
from typing import Any

import pytest
import torch
from scipy import stats
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from fvbook import _bounds, theory
from fvbook.experiments import Experiment, Result
from fvbook.priors import GaussianPrior, Prior, TreePrior
from fvbook.training import TrainConfig
from fvbook.widgets import ScalingExplorer, trained_points
from tests.explorables import Bench, click, drawn, get, in_browser, press, touch
from tools.browser import PHONE

TREE = TreePrior(8, 0.6)
NETWORK = {
    "model": "A",
    "levels": 5,
    "decay": 0.8,
    "n_tokens": 160,
    "noise_std": 2.0,
    "budget": 3,
    "loss": 0.23,
}
BOUNDS = ("one_coordinate", "linear", "fixed_bound", "any_bound")


def random_settings(count: int) -> list[tuple[int, float, float, int]]:
    """K, α, τ² and M at random, over all that the explorable shows."""
    generator = torch.Generator().manual_seed(0)
    settings = []
    for a, b, c, d in torch.rand(count, 4, generator=generator, dtype=torch.float64).tolist():
        levels = 1 + int(8 * a)
        dim = 2**levels - 1
        settings.append((levels, 0.05 + 0.9 * b, 10 ** (5 * c - 4), min(dim, math.ceil(dim**d))))
    return settings


def test_the_state_holds_all_that_is_drawn() -> None:
    widget = ScalingExplorer(TREE, 1 / 64, 8, noise_std=2.0, curves=BOUNDS, axis="linear", trained=[NETWORK])
    state = widget.get_state()
    expected = {
        "levels": 8, "decay": 0.6, "noise_var": 1 / 64, "noise_std": 2.0, "budget": 8, "curves": list(BOUNDS),
        "axis": "linear", "trained": [NETWORK],
    }  # fmt: skip
    assert {name: state[name] for name in expected} == expected
    assert repr(widget) == "ScalingExplorer(levels=8, decay=0.6, noise_var=0.015625)"


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (r"tree\.levels = 9: must be .* 1 to 8", {"tree": TreePrior(9, 0.6)}),
        (r"tree\.decay = 0\.99: must be .*0\.95", {"tree": TreePrior(3, 0.99)}),
        (r"noise_var = 0: must be .*0\.0001, 10", {"noise_var": 0}),
        (r"budget = 256: must be .* 1 to 255", {"budget": 256}),
        ("noise_std = -1: must be", {"noise_std": -1}),
        ("curves holds 'best': must be among one_coordinate, ", {"curves": ["best"]}),
        ("axis = 'square': must be one of log, linear", {"axis": "square"}),
        ("trained holds .* fields model, levels, ", {"trained": [{"model": "A"}]}),
        ("the model 'D': must be one of A, B, C", {"trained": [NETWORK | {"model": "D"}]}),
        ("decay of trained = 1.5: must be", {"trained": [NETWORK | {"decay": 1.5}]}),
        ("budget of trained = 32: must be .* 1 to 31", {"trained": [NETWORK | {"budget": 32}]}),
        ("loss of trained = nan: must be", {"trained": [NETWORK | {"loss": math.nan}]}),
    ],
)
def test_bad_input_is_named(message: str, changes: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"tree": TREE, "noise_var": 1 / 64, "budget": 8} | changes
    with pytest.raises(ValueError, match=message):
        ScalingExplorer(**arguments)


def test_trained_points_are_means_over_seeds() -> None:
    def result(prior: Prior, model: str, seed: int, loss: float) -> Result:
        experiment = Experiment(prior, model, 3, train=TrainConfig(n_tokens=160, noise_std=2.0, seed=seed))
        return Result(experiment, loss, 0.0, (), None, {})

    small = TreePrior(5, 0.8)
    results = [result(small, "A", seed, loss) for seed, loss in ((0, 0.2), (1, 0.26))]
    others = [result(GaussianPrior(5), "A", 0, 0.5), result(small, "D", 0, 0.5)]
    assert trained_points([*results, *others]) == [NETWORK]


class TestNumbers:
    pytestmark = in_browser

    def evaluate(self, bench: Bench, module: str, body: str, values: object) -> torch.Tensor:
        """body, a JavaScript expression of the module m and of one of the values v, for each value."""
        script = f"""
        const [module, values, done] = arguments;
        import(module).then((m) => done(values.map((v) => {body})), (error) => done(String(error)));
        """
        found = bench.driver.execute_async_script(script, f"{bench.root}widgets/lib/{module}", values)
        return torch.tensor(found, dtype=torch.float64)

    def test_closed_forms(self, bench: Bench) -> None:
        settings = random_settings(40)
        names = ["linearLosses", "oneCoordinateLosses", "groupCodeLosses", "closedFormBounds"]
        body = f"{names}.map((name) => m[name](v[0], v[1], v[2])[v[3]])".replace("'", '"')
        found = self.evaluate(bench, "theory.js", body, settings)
        for row, (levels, decay, noise_var, budget) in zip(found, settings, strict=True):
            tree = TreePrior(levels, decay, dtype=torch.float64)
            expected = [
                theory.gaussian_mmse(tree.variances, budget, noise_var),
                theory.one_coordinate_mmse(tree, budget, noise_var),
                theory.group_code_mmse(tree, budget, noise_var),
                theory.nonadaptive_closed_form_bound(tree, budget, noise_var),
            ]
            torch.testing.assert_close(row, torch.stack(expected), rtol=1e-6, atol=1e-9)

    @pytest.mark.parametrize(("levels", "decay"), [(1, 0.5), (4, 0.9), (8, 0.6)])
    def test_every_budget_at_once(self, bench: Bench, levels: int, decay: float) -> None:
        tree = TreePrior(levels, decay, dtype=torch.float64)
        every = list(range(tree.dim + 1))
        clean = bench.call("lib/theory.js", "oneCoordinateLosses", levels, decay, 0)
        expected = theory.one_coordinate_mmse(tree, every)
        torch.testing.assert_close(torch.tensor(clean, dtype=torch.float64), expected, rtol=0, atol=1e-12)
        code = bench.call("lib/theory.js", "groupCodeLosses", levels, decay, 0.05)
        expected = theory.group_code_mmse(tree, every, 0.05)
        torch.testing.assert_close(torch.tensor(code, dtype=torch.float64), expected, rtol=0, atol=1e-12)

    def test_exponents_and_special_functions(self, bench: Bench) -> None:
        decays = [0.05, 0.5, 0.95]
        found = self.evaluate(bench, "theory.js", "[m.nonadaptiveExponent(v), m.linearExponent(v)]", decays)
        torch.testing.assert_close(found[:, 0], theory.nonadaptive_exponent(decays))
        torch.testing.assert_close(found[:, 1], theory.linear_exponent(decays))

        x = torch.linspace(0, 12, 97, dtype=torch.float64)
        tail = self.evaluate(bench, "theory.js", "m.normalTail(v)", x.tolist())
        torch.testing.assert_close(tail, torch.tensor(stats.norm.sf(x)), rtol=1e-12, atol=0)

        rho = torch.cat([torch.tensor([0.0, 1e-9]), torch.logspace(-4, 2, 40, dtype=torch.float64)])
        for name, curve in {
            "binaryMmse": _bounds._mmse_curve,
            "sequentialMmse": _bounds._sequential_curve,
        }.items():
            found = self.evaluate(bench, "bounds.js", f"m.{name}(v)", rho.tolist())
            for column, expected in enumerate(curve(rho.numpy())):
                torch.testing.assert_close(found[:, column], torch.tensor(expected), rtol=1e-9, atol=1e-12)
            step = 1e-5 * (rho + 1e-3)
            slopes = [curve((rho + sign * step).clamp_min(0).numpy())[1] for sign in (1, -1)]
            bend = torch.tensor(slopes[0] - slopes[1]) / (2 * step)
            torch.testing.assert_close(found[2:, 2], bend[2:], rtol=1e-4, atol=1e-6)

    def test_lower_bounds(self, bench: Bench) -> None:
        """The browser's solver is the sharper one: certified as well, and nowhere visibly below."""
        edges = [(8, 0.6, 1 / 64, 1), (8, 0.6, 1 / 64, 254), (8, 0.9, 1e-4, 255), (5, 0.8, 10.0, 30)]
        settings = random_settings(20) + edges
        body = "Object.values(m.lowerBounds(v[0], v[1], v[3], v[2]))"
        found = self.evaluate(bench, "bounds.js", body, settings)
        for row, (levels, decay, noise_var, budget) in zip(found, settings, strict=True):
            tree = TreePrior(levels, decay, dtype=torch.float64)
            expected = torch.stack(
                [
                    theory.lower_bound(tree, budget, noise_var),
                    theory.nonadaptive_lower_bound(tree, budget, noise_var),
                ]
            )
            torch.testing.assert_close(row, expected, rtol=1e-5, atol=1e-6)
            assert (row > expected - 1e-8).all()


def wait_for(widget: Any, text: str) -> None:
    """Wait until the widget says it: the bounds take a moment."""
    end = time.monotonic() + 20
    while text not in widget.find_element("css selector", ".fv-words").text:
        assert time.monotonic() < end, widget.text
        time.sleep(0.05)


def two_digits(value: Any) -> str:
    return f"{float(value):.2g}"


def curve(widget: Any, name: str) -> list[Any]:
    return widget.find_elements("css selector", f".curve[data-name={name}]:not(.stale)")


class TestInTheBrowser:
    pytestmark = in_browser

    def test_first_it_shows_an_exponential_and_a_power_law(self, bench: Bench) -> None:
        widget = bench.show(ScalingExplorer(TREE, 1 / 64, 8))
        one = theory.one_coordinate_mmse(TREE, 8, 1 / 64)
        linear = theory.gaussian_mmse(TREE.variances, 8, 1 / 64)
        wait_for(widget, f"one coordinate at a time loses {two_digits(one)}")
        wait_for(widget, f"linear decoder lose {two_digits(linear)}")
        leaves = theory.one_coordinate_mmse(TREE, range(9), 1 / 64)
        floor = theory.gaussian_mmse(TREE.variances, 255, 1 / 64)
        enough = int((leaves < floor).double().argmax())
        wait_for(widget, f"read linearly leave {two_digits(floor)}; chosen in turn, {enough} leave less")
        assert len(widget.find_elements("css selector", ".curve[data-name]")) == 4
        assert "N = 64" in widget.text.replace("\u00a0", " ")
        assert bench.errors() == []

    def test_bounds_say_what_fixed_keys_cannot(self, bench: Bench) -> None:
        widget = bench.show(ScalingExplorer(TREE, 1 / 64, 8, curves=BOUNDS))
        wait_for(widget, "takes more than")
        words = widget.find_element("css selector", ".fv-words").text
        limit = math.floor(100 * float(theory.nonadaptive_lower_bound(TREE, 8, 1 / 64))) / 100
        assert f"no fixed keys lose less than {limit}" in words
        more = int(words.split("more than ")[1].split()[0])
        assert theory.nonadaptive_lower_bound(TREE, more, 1 / 64) > theory.one_coordinate_mmse(
            TREE, 8, 1 / 64
        )
        assert len(widget.find_elements("css selector", "svg svg .shade")) == 2
        assert bench.errors() == []

    def test_the_marker_moves_by_keyboard_mouse_and_touch(self, bench: Bench) -> None:
        widget = bench.show(ScalingExplorer(TREE, 1 / 64, 8, curves=BOUNDS))
        marker = widget.find_element("css selector", ".fv-handle")
        press(marker, Keys.ARROW_RIGHT)
        assert get(widget, "budget") == 9
        press(marker, Keys.END)
        assert get(widget, "budget") == 255
        assert marker.get_attribute("aria-valuetext") == "M = 255"
        press(marker, Keys.HOME)
        assert get(widget, "budget") == 1
        wait_for(widget, "With 1 number (")
        click(widget.find_element("css selector", "svg"))
        middle = get(widget, "budget")
        assert 8 < middle < 32
        touch(marker, to=(-120, 0))
        assert 1 <= get(widget, "budget") < middle
        wait_for(widget, f"With {get(widget, 'budget')} number")
        assert bench.errors() == []

    def test_sliders_checkboxes_and_axis(self, bench: Bench) -> None:
        widget = bench.show(ScalingExplorer(TREE, 1 / 64, 200))
        levels, decay, noise = widget.find_elements("css selector", "input[type=range]")
        before = drawn(widget)
        press(noise, Keys.ARROW_RIGHT)
        assert get(widget, "noise_var") == pytest.approx(2**-5.75)
        press(decay, Keys.ARROW_RIGHT)
        assert get(widget, "decay") == pytest.approx(0.65)
        touch(levels, at=0.02)
        assert get(widget, "levels") == 1
        press(levels, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        wait_for(widget, "With 7 numbers (K = 3, α = 0.65,")  # no more than D
        assert drawn(widget) != before

        name = "fixed_bound"
        assert curve(widget, name) == []
        boxes = widget.find_elements("css selector", "input[type=checkbox]")
        click(boxes[6])
        wait_for(widget, "no fixed keys lose less than")
        assert len(curve(widget, name)) == 1
        press(boxes[6], Keys.SPACE)
        assert get(widget, "curves").count(name) == 0
        assert curve(widget, name) == []
        click(widget.find_element("css selector", "input[value=linear]"))
        assert get(widget, "axis") == "linear"
        assert bench.errors() == []

    def test_trained_networks_appear_at_their_setting(self, bench: Bench) -> None:
        other = NETWORK | {"model": "B", "levels": 8, "decay": 0.6, "n_tokens": 64, "noise_std": 0.0}
        widget = bench.show(ScalingExplorer(TREE, 1 / 64, 3, trained=[NETWORK, other], noise_std=2.0))
        networks = "svg svg ~ g .network"
        wait_for(widget, "Trained networks: B 0.23")
        assert "N = 320, s = 2" in widget.text.replace("\u00a0", " ")
        choice = Select(widget.find_element("css selector", "select"))
        assert choice.first_selected_option.text == "K = 8, α = 0.6, τ² = 1/64"
        choice.select_by_visible_text("K = 5, α = 0.8, τ² = 1/32")
        wait_for(widget, "Trained networks: A 0.23")
        assert len(widget.find_elements("css selector", networks)) == 1
        assert get(widget, "noise_var") == 1 / 32
        press(widget.find_elements("css selector", "input[type=range]")[1], Keys.ARROW_RIGHT)
        wait_for(widget, "α = 0.85")
        assert widget.find_elements("css selector", networks) == []
        assert bench.errors() == []

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_it_fits_a_phone(self, bench: Bench, theme: str) -> None:
        widget = bench.show(
            ScalingExplorer(TREE, 1 / 64, 8, curves=BOUNDS, noise_std=10.0, trained=[NETWORK]),
            theme=theme,
            size=PHONE,
            still=True,
        )
        wait_for(widget, "With 8 numbers")
        script = """
        const [el] = arguments;
        const least = (nodes, size) => Math.min(...[...el.querySelectorAll(nodes)].map(size));
        const height = (node) => node.getBoundingClientRect().height;
        const letters = (node) => parseFloat(getComputedStyle(node).fontSize) * node.getScreenCTM().a;
        const [plot, target] = [least(".frame", height), least("label, .room", height)];
        return [document.documentElement.scrollWidth, plot, target, least("svg text", letters)];
        """
        width, plot, target, letters = bench.driver.execute_script(script, widget)
        assert width <= PHONE[0]
        assert plot >= 300
        assert target >= 40
        assert letters >= 11
        assert bench.errors() == []
