"""Execute the chapters in place and keep only what should be committed.

``python -m tools.chapters [FILE ...]`` runs the given notebooks (all by default) and writes them
back in normal form, so that a second run changes nothing but what truly changed.
"""

from __future__ import annotations

import copy
import re
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

CHAPTERS = Path(__file__).parents[1] / "chapters"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def normalise(notebook: Any) -> Any:
    """Return a copy without timings, versions, memory addresses and widget identifiers.

    A widget's state and view are left out: the build makes them anew. The stderr of cells tagged
    ``remove-stderr`` (progress bars) is left out too; any other stderr stays, for the tests to find.
    """
    notebook = copy.deepcopy(notebook)
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type != "code":
            continue
        outputs = []
        for output in cell.outputs:
            if output.get("name") == "stderr" and "remove-stderr" in tags:
                continue
            if "data" in output:
                output.data.pop(WIDGET_VIEW, None)
                output.metadata = nbformat.from_dict({})
                if "text/plain" in output.data:
                    text = "".join(output.data["text/plain"])
                    output.data["text/plain"] = re.sub(r" at 0x[0-9a-f]+", "", text)
            outputs.append(output)
        cell.outputs = outputs
    return notebook


def execute(path: Path) -> float:
    """Run one notebook in its own folder, write it back normalised, return the seconds taken."""
    notebook = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    nbformat.write(normalise(notebook), path)
    return time.perf_counter() - start


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or sorted(CHAPTERS.glob("*.ipynb")):
        print(f"{path.name}: {execute(path):.0f} s", flush=True)
