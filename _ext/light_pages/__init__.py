"""Pages that open fast on a phone.

A page of the theme loads a dozen style sheets, every icon there is, and the search index. After the
build this extension

- puts one style sheet in their place, with the rules and the icons that some page can use (``styles.py``);
- defers the scripts, and takes those away that a page does not use;
- takes out of every page what stands there twice or has no effect (``pages.py``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from . import pages, styles

BUNDLE = "book.bundle.css"


def lighten(app: Sphinx, exception: Exception | None) -> None:
    if exception or app.builder.format != "html":
        return
    root = Path(app.outdir)
    static = root / "_static"
    files = sorted(path for path in root.rglob("*.html") if static not in path.parents)
    texts = {path: path.read_text(encoding="utf8") for path in files}

    sheets: dict[str, None] = {}  # a set that keeps the order
    scripts: set[str] = set()
    for path, text in texts.items():
        text, own_sheets = pages.one_style_sheet(text, BUNDLE)
        text, own_scripts = pages.fewer_scripts(text)
        text = pages.accessible(text)
        text = pages.rasters_to_files(text, path, root / "_images")
        text = pages.widgets_to_file(text, path, static / "widgets")
        texts[path] = pages.glyphs_once(text)
        sheets |= dict.fromkeys(own_sheets)
        scripts |= set(own_scripts)
    if not sheets.keys() - {BUNDLE}:
        return  # no page was written since the last time

    known: set[str] = set()
    for script in filter(Path.exists, (static / name for name in scripts)):
        known |= styles.words(script.read_text(encoding="utf8"))
    for text in texts.values():
        known |= pages.classes_and_ids(text)
    css = styles.bundle([sheet for sheet in sheets if sheet != BUNDLE], static, known)
    (static / BUNDLE).write_text(css, encoding="utf8")
    coloured = set(re.findall(r"\.highlight \.(\w+)", css))
    for path, text in texts.items():
        path.write_text(pages.plain_code(text, coloured), encoding="utf8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", lighten, priority=900)  # after the theme has written its last files
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
