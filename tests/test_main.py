import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from safetensors.torch import save_file
from torch import ones

import fvbook
from fvbook import catalogue, store
from fvbook.__main__ import main
from fvbook.catalogue import PROFILES, SWEEPS, Sweep
from fvbook.experiments import Experiment
from fvbook.priors import TreePrior
from fvbook.store import Store
from fvbook.training import TrainConfig

TINY = TrainConfig(n_tokens=8, steps=6, batch_size=8, held_out=50, warmup=2)
GOOD = [Experiment(TreePrior(2, 0.6), model, 1, 4, TINY).with_seed(s) for model in "BA" for s in range(2)]
GUILTY = Experiment(TreePrior(2, 0.6), "C", 1, 4, TrainConfig(steps=6, learning_rate=1e30, warmup=0))

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line, on a store of its own and with sweeps of its own."""
    monkeypatch.setenv("FVBOOK_STORE", str(tmp_path / "store"))
    tiny = Sweep("tiny", "Is it quick?", lambda profile: GOOD[: 2 if profile == "smoke" else None])
    mixed = Sweep("mixed", "Does it fail?", lambda profile: [GOOD[0], GUILTY, GUILTY.with_seed(4)])
    monkeypatch.setitem(SWEEPS, "tiny", tiny)
    monkeypatch.setitem(SWEEPS, "mixed", mixed)
    monkeypatch.setattr(name_choice(), "choices", list(SWEEPS))
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


def name_choice() -> object:
    """The names that the commands accept, made when the module is imported."""
    return next(parameter.type for parameter in main.commands["run"].params if parameter.name == "name")
