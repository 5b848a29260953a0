"""The built book, opened in a browser: what a reader sees works, is light, and asks nobody for anything."""

import gzip
import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup
from selenium.webdriver.common.keys import Keys

from tests.explorables import click, drawn, press, touch
from tests.required import unless
from tools import browser as b

REASON = b.missing()
pytestmark = [pytest.mark.browser, unless(REASON)]
PAGES = b.pages() if REASON is None else []
KILOBYTE = 1000
PACKED = {".png", ".ico", ".woff"}  # a host sends these as they are, all else compressed
OFFLINE = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
per_page = pytest.mark.parametrize("page", PAGES)

# Figures and icons that a screen reader would meet without knowing what they show.
UNNAMED = """
return [...document.querySelectorAll("article img, article svg")].filter((el) =>
  !el.closest("[aria-hidden=true], mjx-container, button")
  && !(el.getAttribute("alt") || "").trim()
  && !el.closest("[aria-label]:not([aria-label=''])")
  && !el.closest("[aria-labelledby]")
).map((el) => el.outerHTML.slice(0, 200));
"""
# Text of inline figures whose contrast with the page behind it is below 3 : 1.
UNREADABLE = """
const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
const paint = canvas.getContext("2d", { willReadFrequently: true });
function rgba(colour) {
  paint.clearRect(0, 0, 1, 1); paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
  return [...paint.getImageData(0, 0, 1, 1).data];
}
function luminance([r, g, b]) {
  const [x, y, z] = [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}
function behind(el) {
  for (; el; el = el.parentElement) {
    const colour = rgba(getComputedStyle(el).backgroundColor);
    if (colour[3] > 250) return colour;
  }
  return [255, 255, 255, 255];
}
const seen = [];
for (const figure of document.querySelectorAll("article svg")) {
  if (figure.closest("[aria-hidden=true]")) continue;
  const ground = luminance(behind(figure.parentElement));
  for (const el of figure.querySelectorAll("text, use[href*='DejaVu']")) {
    const ink = luminance(rgba(getComputedStyle(el).fill));
    const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (ratio < 3) seen.push([ratio.toFixed(2), (el.textContent || el.outerHTML).slice(0, 80)]);
  }
}
return seen;
"""
TOO_WIDE = """
if (document.documentElement.scrollWidth <= innerWidth) return [];
return [...document.querySelectorAll("body *")]
  .filter((el) => el.getBoundingClientRect().right > innerWidth + 1)
  .map((el) => el.tagName + "." + el.className).slice(0, 10);
"""


@cache
def parsed(page: str) -> BeautifulSoup:
    return BeautifulSoup((b.BOOK / page).read_text(encoding="utf8"), "html.parser")


@cache
def anchors(page: str) -> set[str]:
    """All names in a page that a link can point to."""
    names = {str(el.get("id")) for el in parsed(page).select("[id]")}
    return names | {str(el.get("name")) for el in parsed(page).select("a[name]")}


@per_page
def test_page_opens_without_errors_or_outside_requests(page: str, root: str, driver: Any) -> None:
    driver.get_log("browser"), b.requests(driver)  # what earlier pages left
    b.visit(driver, root + page)
    errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors
    here = (root, "data:", "blob:", "chrome://", "about:")
    assert [url for url in b.requests(driver) if not url.startswith(here)] == []


def transferred(address: str) -> int:
    """Bytes that a static host sends for a file of the book."""
    file = b.BOOK / unquote(urlsplit(address).path).lstrip("/")
    content = file.read_bytes()
    return len(content) if file.suffix in PACKED else len(gzip.compress(content, 6))


@per_page
def test_page_is_light(page: str, root: str, driver: Any) -> None:
    assert (b.BOOK / page).stat().st_size < 600 * KILOBYTE
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    b.requests(driver)
    b.visit(driver, root + page)
    loaded = {url for url in b.requests(driver) if url.startswith(root) and "/mathjax/" not in url}
    weights = {url.removeprefix(root): transferred(url) for url in loaded}
    assert sum(weights.values()) < 600 * KILOBYTE, weights


@per_page
def test_math_is_typeset(page: str, root: str, driver: Any) -> None:
    expected = len(parsed(page).select("article .math"))
    b.visit(driver, root + page)
    typeset = driver.execute_script("return document.querySelectorAll('article .math mjx-container').length")
    wrong = driver.execute_script("return [...document.querySelectorAll('mjx-merror')].map((el) => el.title)")
    assert not wrong
    assert typeset >= expected


@per_page
def test_nothing_sticks_out_on_a_phone(page: str, root: str, driver: Any) -> None:
    b.visit(driver, root + page, size=b.PHONE)
    assert driver.execute_script(TOO_WIDE) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@per_page
def test_figures_are_named_and_readable(page: str, theme: str, root: str, driver: Any) -> None:
    b.visit(driver, root + page, theme=theme)
    assert driver.execute_script("return document.documentElement.dataset.theme") == theme
    assert driver.execute_script(UNNAMED) == []
    assert driver.execute_script(UNREADABLE) == []


@per_page
def test_widgets_answer_mouse_touch_and_keyboard_offline(page: str, root: str, driver: Any) -> None:
    b.visit(driver, root + page)
    widgets = driver.find_elements("css selector", ".fvbook-widget")
    refused = driver.find_elements("css selector", ".fvbook-needs-kernel")
    shown = parsed(urlsplit(driver.current_url).path.lstrip("/"))  # index.html leads on to another
    assert len(widgets) + len(refused) == len(shown.select('script[type*="widget-view"]'))
    driver.get_log("browser"), b.requests(driver)  # what opening the page left
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", OFFLINE)
    for widget in widgets:
        sliders = widget.find_elements("css selector", "input[type=range]")
        for slider in filter(lambda one: one.is_displayed(), sliders):
            press(slider, Keys.HOME)
            states = [(slider.get_attribute("value"), widget.text, drawn(widget))]
            acts: list[Callable[[Any], None]] = [
                lambda one: press(one, Keys.END),
                lambda one: touch(one, at=0.05),
                lambda one: click(one, at=0.95),
            ]
            for act in acts:
                act(slider)
                states.append((slider.get_attribute("value"), widget.text, drawn(widget)))
            values, texts, pictures = zip(*states, strict=True)
            for before, after in itertools.pairwise(range(4)):
                assert values[before] != values[after], (slider.accessible_name, values)
                assert texts[before] != texts[after], slider.accessible_name
            assert len(set(pictures)) > 1, slider.accessible_name
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", OFFLINE | {"offline": False})
    assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert b.requests(driver) == []


@per_page
def test_local_links_and_assets_exist(page: str) -> None:
    dead = []
    for tag in parsed(page).select("[href], [src]"):
        link = str(tag.get("href") or tag.get("src") or "")
        target = urlsplit(urljoin(f"http://book/{page}", link))
        if target.netloc != "book" or not link:
            continue
        file = unquote(target.path).lstrip("/") or page
        path: Path = b.BOOK / file
        anchor = unquote(target.fragment)
        if not path.is_file() or (anchor and file.endswith(".html") and anchor not in anchors(file)):
            dead.append(link)
    assert not dead
