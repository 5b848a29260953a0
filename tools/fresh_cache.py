"""Forget the executed chapters if what they import has changed since.

The build's cache knows a notebook by its cells alone. This keeps a fingerprint of the package, of
the published results and of the pinned versions beside it, and removes the cache when the
fingerprint differs.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

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


if __name__ == "__main__":
    if refresh():
        print("The package changed: every chapter is executed again.")
