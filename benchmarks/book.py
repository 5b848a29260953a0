"""The book: each chapter's time and memory, and the whole build, cold and warm.

A chapter runs in a kernel of its own. Its memory is the peak of the resident memory of the kernel and all
processes that it starts, as seen ten times a second, or that of the kernel alone if the system, which misses
nothing, reports more. The build is `make build` in a copy of the working tree without its
caches, and then once more. Nothing trained before is at hand: the store of results is empty each time.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import nbformat
import psutil
from nbclient import NotebookClient

from benchmarks.common import ROOT, Part, Result, markdown, number

# A chapter's last cell: the peak of its kernel, in bytes. (On Linux, what `resource` reports is no less than
# what the process that started the kernel had.)
PEAK = """
import pathlib, re, resource
status = pathlib.Path("/proc/self/status")
if status.exists():
    print(1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text())[1]))
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
NOT_COPIED = ("_build", ".venv", ".git", ".store", "__pycache__", ".*_cache")


def _environment(store: str) -> dict[str, str]:
    """One thread, no progress bars, as the make targets have it, and this store."""
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TQDM_DISABLE": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "FVBOOK_STORE": store,
    }


class _Watch(threading.Thread):
    """Follow the memory of the processes that this one has started; a context."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.over = 0, threading.Event()

    def run(self) -> None:
        """Look ten times a second."""
        while not self.over.wait(0.1):
            total = 0
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # it has just ended
                    total += process.memory_info().rss
            self.peak = max(self.peak, total)

    def __enter__(self) -> "_Watch":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()


def chapter(path: Path) -> Result:
    """Run a notebook; its seconds, and its peak of memory in bytes."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(PEAK))
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    )
    with tempfile.TemporaryDirectory() as store, _Watch() as watch:
        start = time.perf_counter()
        client.execute(env=_environment(store))
        took = time.perf_counter() - start
    headings = [
        found[1]
        for cell in notebook.cells
        if cell.cell_type == "markdown" and (found := re.search("^# (.+)$", cell.source, re.MULTILINE))
    ]
    title = headings[0] if headings else path.stem
    peak = max(watch.peak, int(notebook.cells[-1].outputs[0].text))
    return {"chapter": path.stem, "title": title, "seconds": took, "peak_bytes": peak}


def builds(*options: str) -> Result:
    """Seconds of the first and of the second build of a copy; the options go to make."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "book"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        (copy / ".venv").symlink_to(sys.prefix)
        # The environment is there, whatever make thinks of its age.
        command = ["make", "build", "--old-file", ".venv/.ready", *options]
        took = []
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run(
                command, cwd=copy, env=_environment(f"{folder}/store"), stdout=subprocess.DEVNULL, check=True
            )
            took.append(time.perf_counter() - start)
    return {"cold_s": took[0], "warm_s": took[1]}


def run(quick: bool) -> Result:
    """Measure every chapter and the build; to see that it works, an empty chapter and what make would do."""
    if not quick:
        rows = [chapter(path) for path in sorted((ROOT / "chapters").glob("*.ipynb"))]
        return {"rows": rows} | builds()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.ipynb"
        nbformat.write(nbformat.v4.new_notebook(), path)
        return {"rows": [chapter(path)]} | builds("--dry-run")


def table(result: Result) -> str:
    """Each chapter and their sum, then the builds."""
    rows = [
        [row["chapter"], number(row["seconds"]), number(row["peak_bytes"] / 1e9)] for row in result["rows"]
    ]
    total = ["all", number(sum(row["seconds"] for row in result["rows"])), ""]
    header = ["chapter", "seconds", "memory, GB"]
    return (
        markdown(header, [*rows, total])
        + "\n\n"
        + markdown(
            ["build of the book", "seconds"],
            [["cold", number(result["cold_s"])], ["warm", number(result["warm_s"])]],
        )
    )


PART = Part("The book", run, table, slow=True)
