"""Bring the build's cache of executed chapters up to date.

The cache knows a notebook by its cells alone. So this keeps a fingerprint of the package, of the
published results and of the pinned versions beside it, and removes the cache when the fingerprint
differs. Then it executes the chapters that the cache lacks, several at a time; the build itself
would take them one by one.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import sys
from pathlib import Path

from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor

ROOT = Path(__file__).parents[1]


def fingerprint(root: Path = ROOT) -> str:
    """Return a digest of every file the chapters' results depend on, and of Python's version."""
    digest = hashlib.sha256(sys.version.encode())
    files = [root / "requirements.txt"]
    files += sorted(path for folder in ("fvbook", "results") for path in (root / folder).rglob("*"))
    for path in files:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def refresh(root: Path = ROOT) -> bool:
    """Remove a cache that is out of date; return whether there was one to remove."""
    cache, note = root / "_build" / ".jupyter_cache", root / "_build" / ".fingerprint"
    now = fingerprint(root)
    stale = cache.exists() and (not note.exists() or note.read_text(encoding="utf8") != now)
    if stale:
        shutil.rmtree(cache)
    note.parent.mkdir(exist_ok=True)
    note.write_text(now, encoding="utf8")
    return stale


def fill(root: Path = ROOT) -> None:
    """Execute the chapters that the cache lacks, as many at a time as there are processors.

    Raises RuntimeError if any fails; the errors are on stderr.
    """
    cache = get_cache(root / "_build" / ".jupyter_cache")
    paths = [str(path) for path in sorted((root / "chapters").glob("*.ipynb"))]
    for path in paths:
        cache.add_nb_to_project(path)
    logger = logging.getLogger("chapters")
    logger.setLevel(logging.INFO)  # say which chapter starts and which is done
    executor = load_executor("local-parallel", cache, logger)
    result = executor.run_and_cache(filter_uris=paths, timeout=1200)
    if failed := result.excepted + result.errored:
        raise RuntimeError(f"these chapters failed: {', '.join(failed)}")


if __name__ == "__main__":
    if refresh():
        print("The package changed: every chapter is executed again.")
    fill()
