import pytest
import torch
from selenium.webdriver.common.keys import Keys

from fvbook.priors import TreePrior
from fvbook.widgets import KeyExplorer
from tests.explorables import Bench, click, drawn, get, in_browser, press, touch

TREE = TreePrior(2, 0.8)
ENERGY = torch.arange(2 * 4 * 3).reshape(2, 4, 3) / 24


def test_the_state_holds_all_that_is_drawn() -> None:
    widget = KeyExplorer(TREE, ENERGY, leaf=3, layer=2)
    state = widget.get_state()
    assert (state["levels"], state["leaf"], state["layer"]) == (2, 3, 2)
    assert torch.allclose(torch.tensor(state["energy"]), ENERGY, atol=5e-4)
    assert repr(widget) == "KeyExplorer(levels=2, layers=2)"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tree.levels", (TreePrior(6, 0.8), torch.zeros(1, 64, 63), 0, 1)),
        ("energy", (TREE, torch.zeros(2, 4, 4), 0, 1)),
        ("energy", (TREE, torch.full((2, 4, 3), float("nan")), 0, 1)),
        ("leaf", (TREE, ENERGY, 4, 1)),
        ("layer", (TREE, ENERGY, 0, 0)),
        ("layer", (TREE, ENERGY, 0, 3)),
    ],
)
def test_bad_input_is_named(name: str, arguments: tuple[TreePrior, torch.Tensor, int, int]) -> None:
    tree, energy, leaf, layer = arguments
    with pytest.raises(ValueError, match=name):
        KeyExplorer(tree, energy, leaf=leaf, layer=layer)


class TestInTheBrowser:
    pytestmark = in_browser

    def test_mouse_touch_and_keyboard_choose_leaf_and_layer(self, bench: Bench) -> None:
        widget = bench.show(KeyExplorer(TREE, ENERGY))
        leaf, layer = widget.find_elements("css selector", "input")
        before = drawn(widget)
        press(leaf, Keys.ARROW_RIGHT)
        assert get(widget, "leaf") == 1
        assert drawn(widget) != before
        touch(layer, at=0.95)
        assert get(widget, "layer") == 2
        assert "Leaf 1, layer 2" in widget.text
        click(widget.find_elements("css selector", ".leaf")[3])
        assert get(widget, "leaf") == 3
        assert "Leaf 3, layer 2" in widget.find_element("css selector", "svg").get_attribute("aria-label")
        assert bench.errors() == []
