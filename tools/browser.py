"""A headless browser on the built book, and a server for it on a loopback port.

``python -m tools.browser FOLDER`` writes a screenshot of every page, in light, in dark and at
360 pixels.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BOOK = Path(__file__).parents[1] / "_build" / "html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE, DESKTOP = (360, 740), (1280, 900)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
]
# Resolves once the mathematics is typeset, the fonts are there and every widget is drawn.
SETTLED = """
const done = arguments[arguments.length - 1];
window.drawWidgets?.();
const math = window.typesetPage ? typesetPage() : Promise.resolve();
const widgets = () => [...document.querySelectorAll(".fvbook-widget")]
  .every((el) => el.dataset.ready);
const wait = () => widgets() ? done(true) : setTimeout(wait, 20);
math.then(() => document.fonts.ready).then(wait);
"""
# Lays out what is far out of view too; returns the height of the page.
LAID_OUT = """
document.querySelectorAll(".cell").forEach((cell) => { cell.style.contentVisibility = "visible"; });
return document.documentElement.scrollHeight;
"""


def missing(*, book: bool = True) -> str | None:
    """Return why no browser check (of the book, unless `book` is false) can run here, or None if one can."""
    if not any(map(shutil.which, BROWSERS)) or not shutil.which("chromedriver"):
        return "no Chromium with chromedriver on this machine"
    if book and not (BOOK / "index.html").exists():
        return "the book is not built; run make book"
    return None


def pages() -> list[str]:
    """Return the addresses of all pages, relative to the book's root."""
    found = (path.relative_to(BOOK).as_posix() for path in BOOK.rglob("*.html"))
    return sorted(page for page in found if not page.startswith("_"))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def server(folder: Path = BOOK) -> Iterator[str]:
    """Serve a folder, the built book by default; yields its root address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{httpd.server_port}/"
        finally:
            httpd.shutdown()
            thread.join()


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium with an empty profile; yields a selenium driver."""
    os.environ["SE_OFFLINE"] = "true"  # selenium must not look for a browser to download
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in [*FLAGS, f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
        driver = webdriver.Chrome(options=options, service=service)
        try:
            yield driver
        finally:
            driver.quit()


def visit(
    driver: Any, url: str, *, theme: str = "light", size: tuple[int, int] = DESKTOP, still: bool = False
) -> None:
    """Open a page as a reader with these settings of the system and this window would, and wait for it."""
    features = [
        {"name": "prefers-color-scheme", "value": theme},
        {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.get(url)
    driver.set_script_timeout(30)
    driver.execute_async_script(SETTLED)


def requests(driver: Any) -> list[str]:
    """Return the addresses asked for since the last call."""
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


def screenshots(folder: Path) -> None:
    """Write ``<page>-<light|dark|phone>.png`` of every page into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    views = {"light": ("light", DESKTOP), "dark": ("dark", DESKTOP), "phone": ("light", PHONE)}
    with server() as root, browser() as driver:
        for page in pages():
            for name, (theme, size) in views.items():
                visit(driver, root + page, theme=theme, size=size)
                height = driver.execute_script(LAID_OUT)
                visit(driver, root + page, theme=theme, size=(size[0], min(height, 15000)))
                driver.execute_script(LAID_OUT)
                stem = page.removesuffix(".html").replace("/", "-")
                driver.save_screenshot(str(folder / f"{stem}-{name}.png"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make screenshots DIR=FOLDER")
    if reason := missing():
        sys.exit(f"No screenshots: {reason}.")
    screenshots(Path(sys.argv[1]))
