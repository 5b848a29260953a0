"""What can change in a written page without a reader noticing, or to the good of one who does."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

SHEET = re.compile(r'[ \t]*<link\b(?=[^>]*rel="stylesheet")[^>]*href="([^"]*)"[^>]*>\n?')
PRELOAD = re.compile(r'<link\b(?=[^>]*rel="preload")[^>]*>\n?')
SCRIPT = re.compile(r'[ \t]*<script\b[^>]*\bsrc="([^"]*)"[^>]*></script>\n?')
GLYPH = re.compile(r'<path id="(DejaVu[\w-]+)" d="[^"]*"(?: transform="[^"]*")?/>')
RASTER = re.compile(r'(<image [^>]*)href="data:image/png;base64,([^"]{1000,})"')
WIDGETS = re.compile(r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>', re.DOTALL)
TOKEN = re.compile(r'<span class="(\w+)">([^<]*)</span>')
CODE = re.compile(r'(<div class="highlight">)(.*?)(</div>)', re.DOTALL)
# Scripts that serve only pages which hold the pattern; None: no page of this book.
SERVES = {
    "scripts/fontawesome.js": None,  # the style sheet has the icons
    "design-tabs.js": 'class="sd-tab',
    "togglebutton.js": r'class="(?:toggle\b|(?=[^"]*\badmonition\b)(?:[^"]* )?dropdown\b)',
    "copybutton.js": "<pre>",
    "clipboard.min.js": "<pre>",
    "vendor/math.js": 'class="math',
    "searchtools.js": 'id="search-results"',
    "language_data.js": 'id="search-results"',
    "searchindex.js": 'id="search-results"',
}


def _static(address: str) -> str:
    """The path of a file below ``_static``, from a link to it; other links as they are."""
    return urlsplit(address).path.split("_static/")[-1]


def one_style_sheet(text: str, bundle: str) -> tuple[str, list[str]]:
    """Link one style sheet in place of all; also return the names of those that were linked."""
    links = list(SHEET.finditer(text))
    if not links:
        return text, []
    folder = links[0][1].split("_static/")[0] + "_static/"
    head = f'    <link rel="stylesheet" href="{folder}{bundle}" />\n'
    text = text[: links[0].start()] + head + SHEET.sub("", text[links[0].end() :])
    return PRELOAD.sub("", text), [_static(link[1]) for link in links]


def fewer_scripts(text: str) -> tuple[str, list[str]]:
    """Defer the scripts that the page uses and drop the others; also return the names of those left."""
    left = []

    def script(match: re.Match[str]) -> str:
        name = _static(match[1])
        pattern = SERVES.get(name.split("../")[-1], "")
        if pattern is None or not re.search(pattern, text):
            return ""
        left.append(name)
        tag = match[0]
        return tag if " defer" in tag else tag.replace("<script", "<script defer", 1)

    text = SCRIPT.sub(script, text)
    # options set between two scripts: for search while one types, and to fold an index; the book does neither
    return re.sub(r"[ \t]*<script>\s*DOCUMENTATION_OPTIONS\.[^<]*</script>\n?", "", text), left


def accessible(text: str) -> str:
    """Mend what the theme tells screen readers, and choose light or dark before anything is drawn."""
    # icons are letters of a private alphabet
    text = re.sub(r'<(i|span) (?=class="(?:[^"]* )?fa[bsr]? |class="fa-)', r'<\1 aria-hidden="true" ', text)
    # names that are not what the element shows
    text = re.sub(r'(<button class="btn search-button-field[^>]*) aria-label="[^"]*"', r"\1", text)
    text = re.sub(r'<summary aria-label="[^"]*"', "<summary", text)
    text = text.replace('role="doc-biblioentry"', 'role="listitem"')
    return text.replace(
        'dataset.theme = localStorage.getItem("theme") || "auto"',
        'dataset.theme = localStorage.getItem("theme") || '
        '(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")',
    )


def _filed(content: bytes, suffix: str, page: Path, folder: Path) -> str:
    """Write a file named by its content, and return the link to it from a page."""
    folder.mkdir(exist_ok=True)
    file = folder / (hashlib.sha256(content).hexdigest()[:16] + suffix)
    file.write_bytes(content)
    return Path(os.path.relpath(file, page.parent)).as_posix()


def rasters_to_files(text: str, page: Path, folder: Path) -> str:
    """Move the rasters inside figures to files, so that the text does not wait for them."""

    def raster(match: re.Match[str]) -> str:
        return f'{match[1]}href="{_filed(base64.b64decode(match[2]), ".png", page, folder)}"'

    return RASTER.sub(raster, text)


def widgets_to_file(text: str, page: Path, folder: Path) -> str:
    """Move the state of a page's widgets to a script, which is loaded when one comes near."""

    def state(match: re.Match[str]) -> str:
        content = f"window.widgetState = {match[1].strip()};\n"
        source = _filed(content.encode(), ".js", page, folder)
        return f'<script type="application/vnd.jupyter.widget-state+json" data-src="{source}"></script>'

    return WIDGETS.sub(state, text)


def glyphs_once(text: str) -> str:
    """Keep the first of equal outlines of a letter: a reference finds the first in the page anyway."""
    seen: dict[str, str] = {}

    def glyph(match: re.Match[str]) -> str:
        repeated = seen.get(match[1]) == match[0]
        seen.setdefault(match[1], match[0])
        return "" if repeated else match[0]

    return GLYPH.sub(glyph, text).replace("<defs></defs>", "")


def classes_and_ids(text: str) -> set[str]:
    """Return all names of classes and ids in a page."""
    values = re.findall(r"""\b(?:class|id)=["']([^"']*)["']""", text)
    return {name for value in values for name in value.split()}


def plain_code(text: str, coloured: set[str]) -> str:
    """Take the marks off pieces of code that the style sheet does not colour."""

    def token(match: re.Match[str]) -> str:
        return match[0] if match[1] in coloured else match[2]

    def code(match: re.Match[str]) -> str:
        return match[1] + TOKEN.sub(token, match[2]) + match[3]

    return CODE.sub(code, text)
