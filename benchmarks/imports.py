"""The time to import the package and each of its public modules, beyond that to import torch.

Each is imported by a process of its own, forked from an interpreter that has just loaded torch and nothing
else. What the first round has to read from the disk the others find in memory.
"""

import pkgutil
import subprocess
import sys

import fvbook
from benchmarks.common import Part, Result, cell, markdown, spread

SCRIPT = """
import importlib, os, sys, time

def load(name):
    start = time.perf_counter()
    importlib.import_module(name)
    print(name, time.perf_counter() - start, flush=True)

load("torch")
for name in sys.argv[1:]:
    if not os.fork():
        load(name)
        os._exit(0)
    os.wait()
"""


def _times(modules: list[str]) -> dict[str, float]:
    command = [sys.executable, "-c", SCRIPT, *modules]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return {name: float(took) for name, took in map(str.split, output.splitlines())}


def run(quick: bool) -> Result:
    """Measure the package and its modules."""
    public = [module.name for module in pkgutil.iter_modules(fvbook.__path__) if module.name[0] != "_"]
    modules = ["fvbook", *(f"fvbook.{name}" for name in (public[:1] if quick else public))]
    runs = [_times(modules) for _ in range(1 if quick else 5)]
    return {"rows": [{"module": name, "seconds": spread(run[name] for run in runs)} for name in runs[0]]}


def table(result: Result) -> str:
    """Each module."""
    return markdown(
        ["module", "seconds"], [[f"`{row['module']}`", cell(row["seconds"])] for row in result["rows"]]
    )


PART = Part("Imports", run, table)
