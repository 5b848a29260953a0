"""A bench for explorables in a real browser: their numbers, and what mouse, touch and keyboard do to them."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from ipywidgets.embed import dependency_state
from selenium.webdriver.common.action_chains import ActionChains

from tests.required import unless
from tools import browser as b

ROOT = Path(__file__).parents[1]
in_browser = [pytest.mark.browser, unless(b.missing(book=False))]
"""What a test file that uses the bench sets as its `pytestmark`."""

_CALL = """
const [module, name, values, done] = arguments;
import(module).then((m) => done({ value: m[name](...values) }))
  .catch((error) => done({ error: String(error) }));
"""
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>bench</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<style>:root {{ color-scheme: light dark; font: 16px sans-serif }} body {{ margin: 8px }}</style>
<body>
<script type="application/vnd.jupyter.widget-state+json">{state}</script>
<script type="application/vnd.jupyter.widget-view+json">{view}</script>
<script src="static_widgets.js"></script></body></html>"""


class Bench:
    """One browser, and a folder it is served: the modules of fvbook.widgets and pages with a widget each."""

    def __init__(self, driver: Any, folder: Path, root: str) -> None:
        self.driver, self.root, self._folder = driver, root, folder
        (folder / "widgets").symlink_to(ROOT / "fvbook" / "widgets")
        (folder / "static_widgets.js").symlink_to(ROOT / "_ext" / "offline_assets" / "static_widgets.js")
        (folder / "blank.html").write_text("<!doctype html><title>blank</title>", encoding="utf8")
        self._names = (f"page{i}.html" for i in itertools.count())
        b.visit(driver, root + "blank.html")

    def call(self, module: str, function: str, *arguments: Any) -> Any:
        """The value of an exported JavaScript function of a module, named from fvbook/widgets on."""
        found = self.driver.execute_async_script(
            _CALL, f"{self.root}widgets/{module}", function, list(arguments)
        )
        assert "error" not in found, found["error"]
        return found["value"]

    def show(
        self, widget: Any, *, theme: str = "light", size: tuple[int, int] = b.DESKTOP, still: bool = False
    ) -> Any:
        """Open a page with the widget, drawn as in the static book, and return the widget's element."""
        state = {
            "version_major": 2,
            "version_minor": 0,
            "state": dependency_state([widget], drop_defaults=False),
        }
        page = next(self._names)
        view = json.dumps({"version_major": 2, "version_minor": 0, "model_id": widget.model_id})
        text = _PAGE.format(state=json.dumps(state).replace("</", "<\\/"), view=view)
        (self._folder / page).write_text(text, encoding="utf8")
        self.driver.get_log("browser")  # what earlier pages left
        b.visit(self.driver, self.root + page, theme=theme, size=size, still=still)
        return self.driver.find_element("css selector", ".fvbook-widget")

    def errors(self) -> list[str]:
        """What went wrong in the browser since the last `show`."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


def get(widget: Any, name: str) -> Any:
    """The value of a trait in the page."""
    return widget.parent.execute_script("return arguments[0].model.get(arguments[1])", widget, name)


def drawn(widget: Any) -> str:
    """All that is drawn: the markup of the widget's SVG."""
    script = "return [...arguments[0].querySelectorAll('svg')].map((el) => el.outerHTML).join('')"
    return str(widget.parent.execute_script(script, widget))


def settle(driver: Any) -> None:
    """Wait until the frame after the next is drawn."""
    driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
    )


def click(element: Any, *, at: float = 0.5) -> None:
    """Press the mouse's button on an element, at this share of its width, and let go."""
    driver = element.parent
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", element)
    offset = round((at - 0.5) * element.size["width"])  # from the middle
    ActionChains(driver).move_to_element_with_offset(element, offset, 0).click().perform()
    settle(driver)


def drag(element: Any, x: int, y: int) -> None:
    """Drag an element with the mouse by so many pixels."""
    driver = element.parent
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", element)
    ActionChains(driver).click_and_hold(element).move_by_offset(x, y).release().perform()
    settle(driver)


def touch(element: Any, *, at: float = 0.5, to: tuple[int, int] = (0, 0)) -> None:
    """Put a finger on an element, at this share of its width, move it by so many pixels and lift it."""
    driver = element.parent
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", element)
    box = driver.execute_script("return arguments[0].getBoundingClientRect().toJSON()", element)
    x, y = box["left"] + at * box["width"], box["top"] + box["height"] / 2
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    steps = [(x + to[0] * i / 4, y + to[1] * i / 4) for i in range(5)] if any(to) else [(x, y)]
    for kind, (px, py) in zip(["touchStart", *["touchMove"] * (len(steps) - 1)], steps, strict=True):
        points = [{"x": px, "y": py}]
        driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    settle(driver)


def press(element: Any, *keys: str) -> None:
    """Give an element the focus and press keys."""
    element.parent.execute_script("arguments[0].focus()", element)
    for key in keys:
        ActionChains(element.parent).send_keys(key).perform()
    settle(element.parent)
