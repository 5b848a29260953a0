"""Serve everything a page needs from the build itself, so that no page asks another host.

Jupyter Book's pages load MathJax, the widgets' machinery and thebe from public servers. This
extension

- copies MathJax from the installed package ``sphinx-mathjax-offline`` to ``_static/vendor`` of the
  *output* folder and points Sphinx there (nothing of it is kept in the repository);
- replaces the widgets' machinery by ``static_widgets.js`` beside this file, which draws the
  anywidgets of a page without a kernel;
- takes thebe's two scripts, which the book does not use, out of every page.
"""

from __future__ import annotations

import shutil
from importlib.metadata import files
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

VENDOR = "vendor"
MATH = "math.js"
WIDGETS = "static_widgets.js"
# What math.js loads, at once or on demand; the package holds four times as much.
MATHJAX_PARTS = (
    "startup.js",
    "core.js",
    "a11y/assistive-mml.js",
    "input/tex.js",
    "input/tex/extensions",
    "output/chtml.js",
    "output/chtml/fonts",
)


def mathjax_folder() -> Path:
    """Return the folder of MathJax inside the installed ``sphinx-mathjax-offline``."""
    for file in files("sphinx-mathjax-offline") or []:
        if file.name == "startup.js":
            return Path(str(file.locate())).parent
    raise ExtensionError("sphinx-mathjax-offline holds no MathJax; install requirements.txt again")


def configure(app: Sphinx, config: Any) -> None:
    config.mathjax_path = f"{VENDOR}/{MATH}"
    config.mathjax_options = {"defer": "defer"}
    config.nb_ipywidgets_js = {f"{VENDOR}/{WIDGETS}": {"defer": "defer"}}


def copy_assets(app: Sphinx) -> None:
    if app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / VENDOR
    source = mathjax_folder()
    for part in MATHJAX_PARTS:
        destination = target / "mathjax" / part
        destination.parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, destination, dirs_exist_ok=True)
        else:
            shutil.copy2(source / part, destination)
    for script in (MATH, WIDGETS):
        shutil.copy2(Path(__file__).with_name(script), target / script)


def drop_thebe(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if "thebe" not in str(getattr(script, "filename", None) or script)
        and "THEBE" not in getattr(script, "attributes", {}).get("body", "")
    ]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", configure)
    app.connect("builder-inited", copy_assets)
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
