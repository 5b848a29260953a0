"""The book's public address: where it is kept, and how it is changed everywhere at once.

``_config.yml`` holds the address; README, CITATION.cff, pyproject.toml and the first cell of each
chapter repeat it. ``python -m tools.address URL`` rewrites them all.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
# The three ways in which a repository on GitHub is named: itself, on Binder, on Colab.
MENTION = re.compile(
    r"(?:github\.com/|mybinder\.org/v2/gh/|research\.google\.com/github/)"
    r"([\w.-]+/[\w.-]+?)(?=\.git\b|[^\w.-]|\.?$|\.\s)"
)
ADDRESS = re.compile(r"https://github\.com/([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_.-]+?)(?:\.git)?/?")

COLAB_CELL = """\
# On Colab, install the book's package first; elsewhere this does nothing.
import sys

if "google.colab" in sys.modules:
    %pip install -q "fvbook @ git+{address}\""""


def places(root: Path = ROOT) -> list[Path]:
    """Return the files that hold the address, ``_config.yml`` first."""
    fixed = ["_config.yml", "README.md", "CITATION.cff", "pyproject.toml"]
    return [root / name for name in fixed] + sorted((root / "chapters").glob("*.ipynb"))


def current(root: Path = ROOT) -> str:
    """Return the address that ``_config.yml`` holds."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf8"))
    return str(config["repository"]["url"])


def slug(address: str) -> str:
    """Return ``owner/name`` of an address.

    Raises
    ------
    ValueError
        If the address is not that of a repository on GitHub, which Binder and Colab need.
    """
    match = ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(
            f"URL is {address!r}; it must read https://github.com/OWNER/NAME, for example "
            "https://github.com/example/fvbook"
        )
    return match[1]


def rewrite(address: str, root: Path = ROOT) -> list[Path]:
    """Put ``address`` wherever the present one stands; return the files that changed."""
    old, new = slug(current(root)), slug(address)
    changed = []
    for path in places(root):
        text = path.read_text(encoding="utf8")
        fresh = MENTION.sub(
            lambda m: m[0].replace(old, new) if m[1] == old else m[0],  # another project's stays
            text,
        )
        if fresh != text:
            path.write_text(fresh, encoding="utf8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make address URL=https://github.com/OWNER/NAME")
    try:
        for path in rewrite(sys.argv[1]):
            print("rewrote", path.relative_to(ROOT))
    except ValueError as error:
        sys.exit(str(error))
