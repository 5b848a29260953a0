"""The Gaussian measurement: its numbers are those of the package, and the reader can drag it."""

import math
from typing import Any

import pytest
import torch
import traitlets
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from torch import Tensor

from fvbook import inference, theory
from fvbook.policies import solve_two_measurements
from fvbook.priors import TreePrior
from fvbook.widgets import GaussianMeasurement
from tests.explorables import Bench, click, drag, drawn, get, in_browser, press, touch
from tools.browser import PHONE


def test_the_state_holds_all_that_is_drawn() -> None:
    widget = GaussianMeasurement()
    names = ["prior", "axis_ratio", "decay", "angle", "outcome", "noise_var"]
    state = widget.get_state()
    assert [state[name] for name in names] == ["gaussian", 2.0, 0.7, 40.0, 0.4, 0.2]
    assert GaussianMeasurement(prior="tree").angle == 0
    assert GaussianMeasurement(prior="tree", angle=-34).angle == -34
    assert repr(widget) == "GaussianMeasurement(prior='gaussian')"
    with pytest.raises(traitlets.TraitError):
        widget.outcome = 2.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prior", "uniform"),
        ("axis_ratio", 0.5),
        ("axis_ratio", math.nan),
        ("decay", 1.0),
        ("angle", 200),
        ("outcome", -1.5),
        ("outcome", "0"),
        ("noise_var", 0),
    ],
)
def test_bad_input_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} = "):
        GaussianMeasurement(**{name: value})


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def draws(seed: int) -> list[tuple[float, float, float, float]]:
    """A shape in (0, 1), an angle, an outcome and a noise variance, a few times."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(8, 4, generator=generator, dtype=torch.float64)
    return [
        (shape, math.pi * (2 * turn - 1), 2.8 * outcome - 1.4, 10 ** (-2 * noise))
        for shape, turn, outcome, noise in uniform.tolist()
    ]


class TestNumbers:
    pytestmark = in_browser

    @staticmethod
    def question(bench: Bench, make: str, *arguments: Any, outcomes: list[float]) -> dict[str, Any]:
        """What a question says of itself, and of each of the outcomes."""
        script = """
        const [root, make, values, outcomes, done] = arguments;
        import(`${root}widgets/lib/questions.js`).then((module) => {
          const question = module[make](...values);
          done({ ...question, at: outcomes.map(question.at), density: outcomes.map(question.density) });
        });
        """
        answer = bench.driver.execute_async_script(script, bench.root, make, list(arguments), outcomes)
        return dict(answer)

    @pytest.mark.parametrize("dim", [2, 5])
    def test_gaussian_beliefs_are_those_of_the_package(self, bench: Bench, dim: int) -> None:
        generator = torch.Generator().manual_seed(dim)
        root, keys = torch.randn(2, dim, dim, generator=generator, dtype=torch.float64)
        outcomes = torch.randn(1, dim, generator=generator, dtype=torch.float64)
        belief = {"mean": [0.0] * dim, "covariance": (root @ root.T).tolist()}
        for count in range(1, dim + 1):
            key, outcome = keys[count - 1].tolist(), float(outcomes[0, count - 1])
            belief = bench.call("lib/gaussian.js", "measured", belief, key, outcome, 0.3)
            mean, covariance = inference.gaussian_posterior(
                root @ root.T, keys[:count], outcomes[:, :count], 0.3
            )
            torch.testing.assert_close(tensor(belief["mean"]), mean[0])
            torch.testing.assert_close(tensor(belief["covariance"]), covariance)

    def test_the_gaussian_question(self, bench: Bench) -> None:
        for shape, angle, outcome, noise_var in draws(1):
            ratio = 1 + 3 * shape
            key = tensor([math.cos(angle), math.sin(angle)])
            question = self.question(
                bench, "gaussianQuestion", ratio, key.tolist(), noise_var, outcomes=[outcome, -1.0, 0.0]
            )
            prior = tensor([ratio**2, 1]).diag() / (1 + ratio**2)
            mean, covariance = inference.gaussian_posterior(
                prior, key[None], tensor([[outcome], [-1.0], [0.0]]), noise_var
            )
            variance = float(key @ prior @ key) + noise_var
            density = math.exp(-(outcome**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
            assert question["density"][0] == pytest.approx(density)
            values, vectors = torch.linalg.eigh(covariance)
            for i, found in enumerate(question["at"]):
                torch.testing.assert_close(tensor(found["mean"]), mean[i])
                torch.testing.assert_close(tensor(found["covariance"]), covariance)
                torch.testing.assert_close(tensor(found["axes"]["values"]), values.flip(0))
                direction = tensor([math.cos(found["axes"]["angle"]), math.sin(found["axes"]["angle"])])
                assert abs(float(direction @ vectors[:, 1])) == pytest.approx(1)  # the top eigenvector
                assert found["loss"] == pytest.approx(float(covariance.trace()))
                after = float(theory.gaussian_mmse(covariance, 1, noise_var))
                assert found["loss"] - found["gains"][0] == pytest.approx(after)

            # no other direction is better
            turns = torch.linspace(0, math.pi, 181, dtype=torch.float64)
            others = torch.stack([turns.cos(), turns.sin()], 1)
            gains = (others @ covariance).square().sum(1) / (
                ((others @ covariance) * others).sum(1) + noise_var
            )
            assert question["at"][0]["gains"][0] >= gains.max() - 1e-12

    def test_equal_axes_have_the_direction_across_the_key(self, bench: Bench) -> None:
        # measured along the long axis, λ τ²/(λ + τ²) = 1 − λ at λ = 0.8 and τ² = 4/15
        question = self.question(bench, "gaussianQuestion", 2, [1, 0], 4 / 15, outcomes=[0.3])
        assert question["at"][0]["axes"]["angle"] == pytest.approx(math.pi / 2)

    def test_the_tree_question(self, bench: Bench) -> None:
        plane = tensor([[1, 0, 0], [0, 0.5**0.5, 0.5**0.5]])
        for shape, angle, outcome, noise_var in [*draws(2), (0.75, 0.0, 0.0, 0.2)]:
            tree = TreePrior(2, 0.1 + 0.8 * shape, dtype=torch.float64)
            direction = tensor([math.cos(angle), math.sin(angle)])
            key = direction @ plane
            question = self.question(
                bench, "treeQuestion", tree.decay, direction.tolist(), noise_var, outcomes=[outcome]
            )
            torch.testing.assert_close(tensor(question["places"]), tree.leaves @ plane.T)
            variances = (plane * tree.variances) @ plane.T
            torch.testing.assert_close(tensor(question["prior"]["covariance"]), variances)
            flat = inference.gaussian_posterior(
                tree.variances.diag(), key[None], tensor([[outcome]]), noise_var
            )
            assert question["flat"] == pytest.approx(float(flat.covariance.trace()))
            z = (outcome - inference.leaf_projections(tree, key)) / noise_var**0.5
            density = torch.exp(-(z**2) / 2).mean() / math.sqrt(2 * math.pi * noise_var)
            assert question["density"][0] == pytest.approx(float(density), rel=1e-9, abs=1e-12)

            found = question["at"][0]
            belief = inference.tree_log_posterior(tree, key[None], tensor([[outcome]]), noise_var)
            mean = inference.tree_mean(tree, belief)[0]
            second = (belief[0].exp()[:, None] * tree.leaves).T @ tree.leaves
            covariance = plane @ (second - mean.outer(mean)) @ plane.T
            torch.testing.assert_close(tensor(found["chances"]), belief[0].exp())
            torch.testing.assert_close(tensor(found["mean"]), plane @ mean, rtol=1e-8, atol=1e-9)
            torch.testing.assert_close(tensor(found["covariance"]), covariance, rtol=1e-8, atol=1e-9)
            assert found["loss"] == pytest.approx(float(inference.tree_risk(tree, belief)), abs=1e-9)
            for node, gain in enumerate(found["gains"], start=1):
                after = self.risk_after(tree, key, outcome, node, noise_var, belief[0].exp())
                assert found["loss"] - gain == pytest.approx(after, abs=1e-6)

    @staticmethod
    def risk_after(
        tree: TreePrior, key: Tensor, first: float, node: int, noise_var: float, chances: Tensor
    ) -> float:
        """The mean posterior risk over the outcome of a second question, about a node, by quadrature."""
        second = torch.eye(tree.dim, dtype=torch.float64)[node]
        step = noise_var**0.5 / 40
        size = math.ceil(1 / step) + 400
        y = step * torch.arange(-size, size + 1, dtype=torch.float64)
        z = (y[:, None] - inference.leaf_projections(tree, second)) / noise_var**0.5
        density = torch.exp(-(z**2) / 2) @ chances / math.sqrt(2 * math.pi * noise_var)
        outcomes = torch.stack([torch.full_like(y, first), y], 1)
        belief = inference.tree_log_posterior(tree, torch.stack([key, second]), outcomes, noise_var)
        return float(density @ inference.tree_risk(tree, belief)) * step

    def test_the_better_node_after_each_outcome_is_the_best_strategy(self, bench: Bench) -> None:
        outcomes = torch.linspace(-4, 4, 321, dtype=torch.float64)
        question = self.question(bench, "treeQuestion", 0.7, [1, 0], 0.2, outcomes=outcomes.tolist())
        after = tensor([found["loss"] - max(found["gains"]) for found in question["at"]])
        loss = float(after @ tensor(question["density"])) * float(outcomes[1] - outcomes[0])
        assert loss == pytest.approx(solve_two_measurements(0.7, 0.2).adaptive, abs=2e-4)
        for outcome, found in zip(outcomes.tolist(), question["at"], strict=True):
            left, right = found["gains"]
            assert (left - right) * outcome >= -1e-12  # the sign says which


class TestInTheBrowser:
    pytestmark = in_browser

    @staticmethod
    def handles(widget: Any) -> tuple[Any, Any]:
        outcome, direction = widget.find_elements("css selector", ".fv-handle")
        return outcome, direction

    @staticmethod
    def says(widget: Any, words: str) -> None:
        """Wait for words in the text alternative, which follows when the reader rests."""
        WebDriverWait(widget.parent, 3).until(
            lambda _: words in widget.find_element("css selector", ".fv-words").text
        )

    @staticmethod
    def belief(widget: Any) -> dict[str, str]:
        names = ["rx", "ry", "transform"]
        ellipse = widget.find_element("css selector", ".belief")
        return {name: ellipse.get_attribute(name) for name in names}

    def test_the_mouse_drags_the_outcome_and_the_ellipse_keeps_its_shape(self, bench: Bench) -> None:
        widget = bench.show(GaussianMeasurement())
        self.says(widget, "leaves the loss 0.48, as any other outcome would")
        before, title = self.belief(widget), widget.find_element("css selector", "text.number").text
        outcome, _ = self.handles(widget)
        drag(outcome.find_element("css selector", ".knob"), -60, 40)
        assert get(widget, "outcome") < 0
        after = self.belief(widget)
        assert (before["rx"], before["ry"]) == (after["rx"], after["ry"])
        assert before["transform"].split(") ")[1] == after["transform"].split(") ")[1]  # its angle
        assert before["transform"] != after["transform"]
        assert widget.find_element("css selector", "text.number").text == title
        self.says(widget, f"outcome −{abs(get(widget, 'outcome')):.2f}, leaves the loss 0.48")
        assert bench.errors() == []

    def test_the_handles_stay_within_their_range(self, bench: Bench) -> None:
        widget = bench.show(GaussianMeasurement(angle=0))
        outcome, direction = self.handles(widget)
        drag(outcome.find_element("css selector", ".knob"), 0, -130)
        assert get(widget, "outcome") == 1.4
        drag(direction.find_element("css selector", ".tip"), 100, 120)
        assert 30 < get(widget, "angle") < 75
        press(direction, Keys.END, Keys.ARROW_UP, Keys.HOME)
        assert get(widget, "angle") == -180
        press(direction, Keys.ARROW_LEFT)
        assert get(widget, "angle") == 175
        assert bench.errors() == []

    def test_touch_drags_both_handles(self, bench: Bench) -> None:
        widget = bench.show(GaussianMeasurement(angle=0), size=PHONE)
        outcome, direction = self.handles(widget)
        touch(direction.find_element("css selector", ".tip"), to=(60, 20))
        angle = get(widget, "angle")
        assert 10 < angle < 60
        touch(outcome.find_element("css selector", ".strip"), to=(0, 80))
        assert get(widget, "angle") == angle
        assert get(widget, "outcome") < 0.2
        script = "return document.documentElement.scrollWidth"
        assert bench.driver.execute_script(script) == PHONE[0]
        assert bench.errors() == []

    def test_the_keyboard_moves_all(self, bench: Bench) -> None:
        widget = bench.show(GaussianMeasurement(), theme="dark", still=True)
        outcome, direction = self.handles(widget)
        press(outcome, Keys.ARROW_RIGHT, Keys.PAGE_DOWN)
        assert get(widget, "outcome") == pytest.approx(0.2)
        assert outcome.get_attribute("aria-valuetext") == "0.20"
        press(direction, Keys.ARROW_DOWN)
        assert get(widget, "angle") == 35
        assert direction.get_attribute("aria-valuetext") == "35°"
        before = self.belief(widget)
        sliders = [i for i in widget.find_elements("css selector", "input[type=range]") if i.is_displayed()]
        for slider in sliders:
            press(slider, Keys.ARROW_RIGHT)
        names = ["outcome", "angle", "noise_var", "axis_ratio"]
        assert [get(widget, name) for name in names] == [0.21, 36, 0.22, 2.1]
        assert self.belief(widget) != before
        self.says(widget, "in the direction 36°, with the outcome 0.21")
        press(widget.find_element("css selector", "input[type=radio]"), Keys.ARROW_RIGHT)
        assert (get(widget, "prior"), get(widget, "angle")) == ("tree", 0)
        self.says(widget, "The question about the root")
        assert bench.errors() == []

    def test_on_a_tree_the_sign_of_the_outcome_turns_the_next_question(self, bench: Bench) -> None:
        widget = bench.show(GaussianMeasurement())
        click(widget.find_elements("css selector", "input[type=radio]")[1])
        self.says(widget, "ask the left one next")
        shape = self.belief(widget)
        assert widget.find_element("css selector", ".child.ask").text.startswith("left node")
        outcome, _ = self.handles(widget)
        drag(outcome.find_element("css selector", ".strip"), 0, 90)
        self.says(widget, "ask the right one next")
        assert widget.find_element("css selector", ".child.ask").text.startswith("right node")
        assert self.belief(widget)["ry"] != shape["ry"]
        before = drawn(widget)
        bench.driver.execute_script("arguments[0].model.set('outcome', 0)", widget)
        self.says(widget, "would each gain")
        assert drawn(widget) != before
        assert len(widget.find_elements("css selector", ".child.ask")) == 2
        assert bench.errors() == []
