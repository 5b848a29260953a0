"""Take docstrings as they are meant where Sphinx would read something else into them.

- ``|θ|²`` is a norm; reStructuredText would take it for a substitution.
- "Variance of θ, (D,): they sum to 1", as the first line of a property, is a sentence; napoleon
  would take what stands before the colon for a type.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

LITERAL = re.compile(r"(`+[^`]+`+)")


def read_plainly(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    for i, line in enumerate(lines):
        parts = LITERAL.split(line)
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[i] = "".join(parts)
    if what == "property":
        lines[:0] = ["..", ""]  # an empty comment


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", read_plainly, priority=400)  # before napoleon's 500
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
