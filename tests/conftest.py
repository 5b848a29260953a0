"""Settings and fixtures shared by all tests."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tools import browser

if TYPE_CHECKING:
    from tests.explorables import Bench

torch.set_num_threads(1)  # several test processes share the machine's cores
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser.browser() as driver:
        yield driver


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    """Address of the built book."""
    with browser.server() as root:
        yield root


@pytest.fixture(scope="module")
def bench(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Bench"]:
    from tests.explorables import Bench

    folder: Path = tmp_path_factory.mktemp("bench")
    with browser.server(folder) as root:
        yield Bench(driver, folder, root)
