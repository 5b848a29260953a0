import re
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import traitlets
from selenium.webdriver.common.keys import Keys
from torch import Tensor

from fvbook import inference, policies, theory
from fvbook.priors import TreePrior
from fvbook.widgets import TwentyQuestions
from tests.explorables import Bench, click, drawn, get, in_browser, press, settle, touch
from tools.browser import PHONE

GAME = "lib/game.js"
_PLAY = """
const [root, energy, noiseVar, answers, budget, done] = arguments;
import(`${root}widgets/lib/game.js`).then((q) => done(
  [q.followSigns, q.inOrder].map((choose) => q.play(energy, noiseVar, answers, choose, budget))
));
"""
_AVERAGE = """
const [root, energy, noiseVar, games, done] = arguments;
import(`${root}widgets/lib/game.js`).then((q) => {
  const next = q.manyGames(energy, noiseVar, 1);
  for (let i = 1; i < games; i += 1) next();
  done(next());
});
"""


def test_the_state_is_a_game_in_progress() -> None:
    widget = TwentyQuestions()
    state = widget.get_state()
    game = {name: state[name] for name in ("levels", "budget", "asked", "player", "noise_var")}
    assert game == {"levels": 4, "budget": 4, "asked": [0], "player": "you", "noise_var": 0.04}
    assert repr(widget) == "TwentyQuestions(levels=4, decay=0.8, noise_var=0.04)"
    with pytest.raises(traitlets.TraitError):
        widget.player = "me"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("levels", {"levels": 6}),
        ("decay", {"decay": 1.0}),
        ("noise_var", {"noise_var": 0.0}),
        ("budget", {"levels": 2, "budget": 4}),
        ("seed", {"seed": -1}),
        (r"asked\[1\]", {"levels": 2, "asked": (0, 3)}),
        ("asked", {"asked": (0, 0)}),
        ("asked", {"asked": (0, 1, 2, 3, 4)}),
        ("player", {"player": "me"}),
    ],
)
def test_bad_input_is_named(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=name):
        TwentyQuestions(**arguments)


def run(tree: TreePrior, noise_var: float, answers: Tensor, strategy: policies.Strategy) -> list[Tensor]:
    """The log posteriors, (1, 2^K), after 0..D questions to given answers, as `policies.measure` has them."""
    keys, outcomes = torch.zeros(1, 0, tree.dim, dtype=tree.dtype), torch.zeros(1, 0, dtype=tree.dtype)
    beliefs = [torch.full((1, 2**tree.levels), 0.5**tree.levels, dtype=tree.dtype).log()]
    for _ in range(tree.dim):
        key = strategy(beliefs[-1], keys)
        keys = torch.cat([keys, key[:, None]], 1)
        outcomes = torch.cat([outcomes, (key @ answers)[:, None]], 1)
        beliefs.append(inference.tree_log_posterior(tree, keys, outcomes, noise_var))
    return beliefs


class TestNumbers:
    pytestmark = in_browser

    @pytest.mark.parametrize(
        ("levels", "decay", "noise_var"), [(2, 0.3, 0.3), (3, 0.8, 0.05), (4, 0.8, 0.04), (5, 0.9, 0.01)]
    )
    def test_players_and_beliefs_are_those_of_the_package(
        self, bench: Bench, levels: int, decay: float, noise_var: float
    ) -> None:
        tree = TreePrior(levels, decay, dtype=torch.float64)
        energy = (tree.amplitudes**2).tolist()
        fixed = policies.fixed(policies.breadth_first_keys(tree, tree.dim))
        for seed in range(5):
            game = bench.call(GAME, "drawGame", energy, noise_var, seed)
            answers = torch.tensor(game["answers"], dtype=tree.dtype)
            runs = bench.driver.execute_async_script(
                _PLAY, bench.root, energy, noise_var, game["answers"], tree.dim
            )
            for found, strategy in zip(runs, (policies.one_coordinate(tree), fixed), strict=True):
                beliefs = run(tree, noise_var, answers, strategy)
                shown = torch.tensor(found["beliefs"], dtype=tree.dtype)
                torch.testing.assert_close(shown, torch.cat(beliefs).exp(), rtol=0, atol=1e-9)
            assert sorted(runs[0]["nodes"]) == list(range(tree.dim))
            assert runs[1]["nodes"] == list(range(tree.dim))

    def test_answers_are_a_leaf_in_noise(self, bench: Bench) -> None:
        tree = TreePrior(4, 0.8, dtype=torch.float64)
        energy = (tree.amplitudes**2).tolist()
        leaves, noise = [], []
        for seed in range(200):
            game = bench.call(GAME, "drawGame", energy, 0.04, seed)
            leaves.append(game["leaf"])
            noise.append(torch.tensor(game["answers"], dtype=tree.dtype) - tree.leaves[game["leaf"]])
        assert set(leaves) == set(range(16))
        z = torch.cat(noise) / 0.2  # 3000 numbers
        assert abs(z.mean()) < 4 / 3000**0.5
        assert abs(z.var() - 1) < 4 * (2 / 3000) ** 0.5

    @pytest.mark.parametrize(("levels", "decay", "noise_var"), [(3, 0.8, 0.1), (4, 0.8, 0.04)])
    def test_means_are_the_losses_of_the_strategies(
        self, bench: Bench, levels: int, decay: float, noise_var: float
    ) -> None:
        tree = TreePrior(levels, decay, dtype=torch.float64)
        energy = (tree.amplitudes**2).tolist()
        games = 400
        found = bench.driver.execute_async_script(_AVERAGE, bench.root, energy, noise_var, games)
        assert found["games"] == games
        generator = torch.Generator().manual_seed(levels)
        fixed = policies.fixed(policies.breadth_first_keys(tree, tree.dim))
        for name, strategy in {"adaptive": policies.one_coordinate(tree), "fixed": fixed}.items():
            for budget in (1, levels, levels + 2, tree.dim):
                risks = policies.measure(tree, strategy, budget, noise_var, 4000, generator=generator).risks
                error = risks.std() * (1 / games + 1 / 4000) ** 0.5
                assert abs(found[name][budget] - risks.mean()) < 4 * error, (name, budget)
        assert found["adaptive"][-1] == pytest.approx(found["fixed"][-1])  # all nodes read

    @pytest.mark.parametrize(("levels", "decay"), [(2, 0.5), (4, 0.8), (5, 0.95)])
    def test_losses_without_noise_are_the_closed_forms(self, bench: Bench, levels: int, decay: float) -> None:
        tree = TreePrior(levels, decay, dtype=torch.float64)
        every = range(tree.dim + 1)
        found = bench.call(GAME, "withoutNoise", (tree.amplitudes**2).tolist())
        adaptive = theory.one_coordinate_mmse(tree, every)
        linear = theory.linear_mmse(tree, every, float("inf"), 0)
        torch.testing.assert_close(torch.tensor(found["adaptive"], dtype=torch.float64), adaptive)
        torch.testing.assert_close(torch.tensor(found["fixed"], dtype=torch.float64), linear)


def all_of(widget: Any, selector: str) -> Sequence[Any]:
    found: Sequence[Any] = widget.find_elements("css selector", selector)
    return found


def wait_for(widget: Any, text: str) -> None:
    end = time.monotonic() + 10
    while text not in widget.text and time.monotonic() < end:
        time.sleep(0.05)
    assert text in widget.text


def column(widget: Any, player: str) -> list[str]:
    """What a player asked and heard, and its loss, from the table."""
    return [cell.text for cell in all_of(widget, f"td[data-player={player}]")]


class TestPlaying:
    pytestmark = in_browser

    def test_mouse_touch_and_keyboard_ask_until_the_leaf_is_shown(self, bench: Bench) -> None:
        widget = bench.show(TwentyQuestions())
        nodes = all_of(widget, ".node")
        assert "Question 2 of 4" in widget.text
        assert len(get(widget, "outcomes")) == 1
        before = drawn(widget)
        click(nodes[2])
        assert get(widget, "asked") == [0, 2]
        assert drawn(widget) != before
        answer = re.search(r"Node 2 answered ([+−]0\.\d\d): the path turns left there", widget.text)
        assert answer is not None
        assert column(widget, "you")[:2] == [column(widget, "you")[0], f"2: {answer[1]}"]
        assert f"{get(widget, 'outcomes')[1]:+.2f}".replace("-", "−") == answer[1]
        click(nodes[2])  # asked already
        touch(nodes[1])
        assert get(widget, "asked") == [0, 2, 1]
        assert "the path is elsewhere" in widget.text
        assert not all_of(widget, ".leaf.path, .slot.path, g.path")  # not told yet

        # one place for Tab, from which the arrows go down to 2 and 5 and Enter asks
        assert [node.get_attribute("tabindex") for node in nodes].count("0") == 1
        press(nodes[2], Keys.ARROW_DOWN, Keys.ENTER)
        assert get(widget, "asked") == [0, 2, 1, 5]
        assert "The hidden path is violet" in widget.text
        assert "your actual error is" in widget.text
        assert len(all_of(widget, "line.path")) == 4
        for player in ("you", "adaptive", "fixed"):
            assert len(column(widget, player)) == 6
            assert all(column(widget, player))
        click(nodes[6])
        assert len(get(widget, "asked")) == 4
        click(all_of(widget, ".fv-button")[0])
        assert get(widget, "asked") == []
        assert get(widget, "seed") == 6
        assert "Nothing asked yet" in widget.text
        press(all_of(widget, ".node")[0], Keys.SPACE)
        assert get(widget, "asked") == [0]
        assert bench.errors() == []

    def test_the_loss_shown_is_the_posterior_risk(self, bench: Bench) -> None:
        asked = [0, 2, 13]
        widget = bench.show(TwentyQuestions(noise_var=0.1, asked=asked))
        tree = TreePrior(4, 0.8, dtype=torch.float64)
        outcomes = torch.tensor([get(widget, "outcomes")], dtype=tree.dtype)
        belief = inference.tree_log_posterior(tree, torch.eye(15, dtype=tree.dtype)[asked], outcomes, 0.1)
        assert f"Expected loss {inference.tree_risk(tree, belief).item():.2f}" in widget.text
        heights = [float(bar.get_attribute("height")) for bar in all_of(widget, ".bar")]
        torch.testing.assert_close(torch.tensor(heights, dtype=tree.dtype) / 56, belief[0].exp())
        reach = inference.tree_reach(tree, belief)[0, 5].item()
        label = all_of(widget, ".node")[5].get_attribute("aria-label")
        assert label == f"node 5, level 3; on the path: {round(100 * reach)} %"

    def test_strategies_play_one_question_after_another(self, bench: Bench) -> None:
        widget = bench.show(TwentyQuestions())
        adaptive = all_of(widget, "input[type=radio]")[1]
        click(adaptive)
        assert get(widget, "player") == "adaptive"
        assert len([cell for cell in column(widget, "adaptive") if cell]) < 4
        assert "“adaptive” asks its questions" in widget.text
        wait_for(widget, "after 4 of 4 questions")
        assert [cell.split(":")[0] for cell in column(widget, "adaptive")[:4]] == ["0", "2", "5", "12"]
        assert column(widget, "fixed") == [""] * 5
        click(all_of(widget, ".node")[1])  # it is not the reader's turn
        assert get(widget, "asked") == [0]
        assert bench.errors() == []

    def test_without_motion_they_play_at_once(self, bench: Bench) -> None:
        widget = bench.show(TwentyQuestions(), theme="dark", still=True)
        adaptive, fixed = all_of(widget, "input[type=radio]")[1:]
        touch(adaptive)
        assert "after 4 of 4 questions" in widget.text
        press(adaptive, Keys.ARROW_RIGHT)
        assert get(widget, "player") == "fixed"
        assert fixed.is_selected()
        assert "Node 3 answered" in widget.text
        assert [cell.split(":")[0] for cell in column(widget, "fixed")[:4]] == ["0", "1", "2", "3"]
        name = all_of(widget, ".name")[0]
        colour = bench.driver.execute_script("return getComputedStyle(arguments[0]).fill", name)
        assert colour == "rgb(255, 255, 255)"  # it is dark
        assert bench.errors() == []

    def test_the_kernel_can_set_the_game(self, bench: Bench) -> None:
        widget = bench.show(TwentyQuestions())
        bench.driver.execute_script(
            "arguments[0].model.set({ levels: 3, budget: 9, asked: [0, 0, 9, 2] })", widget
        )
        settle(bench.driver)
        assert len(all_of(widget, ".node")) == 7
        assert len(get(widget, "outcomes")) == 2  # node 9 is not in this tree
        assert "after 2 of 7 questions" in widget.text
        assert bench.errors() == []

    def test_sliders_change_the_game_and_the_curves_form(self, bench: Bench) -> None:
        widget = bench.show(TwentyQuestions())
        wait_for(widget, "On average the adaptive player loses 0.02")
        levels, decay, noise = all_of(widget, "input[type=range]")
        before = get(widget, "outcomes")
        press(noise, Keys.ARROW_RIGHT)
        assert get(widget, "noise_var") == pytest.approx(0.0625)
        assert get(widget, "asked") == [0]
        assert get(widget, "outcomes") != before
        press(decay, Keys.ARROW_LEFT)
        assert get(widget, "decay") == pytest.approx(0.75)
        touch(levels, at=0.95)
        assert (get(widget, "levels"), get(widget, "budget"), get(widget, "asked")) == (5, 5, [])
        assert len(all_of(widget, ".node")) == 31
        wait_for(widget, "with 5 questions")
        curves = [path.get_attribute("d") for path in all_of(widget, ".mean")]
        assert all(curve.count("L") == 31 for curve in curves)
        assert bench.errors() == []

    @pytest.mark.parametrize("levels", [2, 3, 4, 5])
    def test_with_little_noise_the_list_needs_all_nodes(self, bench: Bench, levels: int) -> None:
        widget = bench.show(TwentyQuestions(levels, noise_var=0.05**2))
        wait_for(widget, f"The list needs {2**levels - 1} questions")

    @pytest.mark.parametrize("levels", [2, 4, 5])
    def test_it_fits_a_phone_and_a_finger(self, bench: Bench, levels: int) -> None:
        widget = bench.show(TwentyQuestions(levels), size=PHONE, still=True)
        assert bench.driver.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
        boxes = bench.driver.execute_script(
            "return arguments[0].map((el) => el.getBoundingClientRect().toJSON())", all_of(widget, ".target")
        )
        assert min(min(box["width"], box["height"]) for box in boxes) >= 24
        for i, one in enumerate(boxes):
            for other in boxes[i + 1 :]:
                across = min(one["right"], other["right"]) - max(one["left"], other["left"])
                down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
                assert min(across, down) < 1, "two targets overlap"
        touch(all_of(widget, ".node")[-1])
        assert get(widget, "asked") == [0, 2**levels - 2]
