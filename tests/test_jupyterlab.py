"""The widgets in a live JupyterLab on a loopback port: the kernel sees what the reader does."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.required import unless
from tools import browser as b

REASON = b.missing(book=False)
pytestmark = [pytest.mark.browser, unless(REASON)]
# Each widget: how to make one, and the trait that its first slider sets.
WIDGETS = {
    "KeyExplorer": ("KeyExplorer(TreePrior(3, 0.8), torch.rand(2, 8, 7))", "leaf"),
    "TwentyQuestions": ("TwentyQuestions()", "levels"),
    "InsideModel": ("InsideModel(model_a(7, 3), TreePrior(3, 0.8), n_tokens=32, noise_std=0.0)", "leaf"),
    "ScalingExplorer": ("ScalingExplorer(TreePrior(3, 0.8), noise_var=0.1, budget=2)", "levels"),
    "GaussianMeasurement": ("GaussianMeasurement()", "outcome"),
}
MAKE = """
import torch
from fvbook.models import model_a
from fvbook.priors import TreePrior
from fvbook.widgets import {name}
widget = {make}
widget
"""
SETTINGS = """
c = get_config()
c.IdentityProvider.token = ""
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.expose_app_in_browser = True
c.LabApp.extension_manager = "readonly"
c.LabApp.news_url = None
c.ServerApp.allow_root = True
c.ServerApp.open_browser = False
"""
KERNEL_IS_READY = """
return globalThis.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === "idle";
"""
RUN_CELL = """
const [index, done] = arguments;
jupyterapp.shell.currentWidget.content.activeCellIndex = index;
jupyterapp.commands.execute("notebook:run-cell").then(() => done(true));
"""
SLIDER, PRINTED = ".jp-OutputArea input[type=range]", ".jp-OutputArea-output[data-mime-type*=stdout]"
SVG = "return arguments[0].closest('.jp-OutputArea').querySelector('svg').innerHTML"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a folder with a notebook for each widget; yields the root address."""
    folder = tmp_path_factory.mktemp("lab")
    for name, (make, trait) in WIDGETS.items():
        cells = [new_code_cell(MAKE.format(name=name, make=make)), new_code_cell(f"print(widget.{trait})")]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        nbformat.write(new_notebook(cells=cells, metadata=kernel), folder / f"{name}.ipynb")
    settings = folder / "settings.py"
    settings.write_text(SETTINGS, encoding="utf8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    environment = os.environ | {name: str(folder / name.lower()) for name in own}
    command = [sys.executable, "-m", "jupyterlab", f"--config={settings}", "--ip=127.0.0.1"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [*command, f"--port={port}", "--ServerApp.port_retries=0"],
            cwd=folder, env=environment, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            root = f"http://127.0.0.1:{port}/"
            end = time.monotonic() + 30
            while server.poll() is None and time.monotonic() < end:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"{root}api"):
                    break
                time.sleep(0.1)
            assert server.poll() is None, (folder / "log").read_text()
            yield root
        finally:
            server.terminate()  # takes its kernels along
            server.wait(timeout=10)


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with b.browser() as driver:
        driver.set_script_timeout(30)
        yield driver


@pytest.mark.parametrize("name", WIDGETS)
def test_kernel_sees_what_the_reader_does(name: str, lab: str, driver: Any) -> None:
    driver.get_log("browser"), b.requests(driver)  # what earlier pages left
    driver.get(f"{lab}doc/tree/{name}.ipynb")
    wait = WebDriverWait(driver, 30, poll_frequency=0.1)
    wait.until(lambda driver: driver.execute_script(KERNEL_IS_READY))
    driver.execute_async_script(RUN_CELL, 0)
    slider = wait.until(lambda driver: driver.find_elements("css selector", SLIDER))[0]
    before = driver.execute_script(SVG, slider)
    slider.send_keys(Keys.ARROW_RIGHT)
    wait.until(lambda driver: driver.execute_script(SVG, slider) != before)
    driver.execute_async_script(RUN_CELL, 1)
    printed = wait.until(lambda driver: driver.find_elements("css selector", PRINTED))[0]
    assert float(printed.text) == float(slider.get_attribute("value"))
    assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []
    here = (lab, lab.replace("http", "ws"), "data:", "blob:", "chrome://", "about:")
    assert [url for url in b.requests(driver) if not url.startswith(here)] == []
