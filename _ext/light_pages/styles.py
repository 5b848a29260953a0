"""One style sheet out of many: the rules that some page can use, and the icons that they show."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import tinycss2
from fontTools import subset, ttLib

PRIVATE_USE = range(0xE000, 0xF900)  # where icon fonts have their characters
FONT = re.compile(r"fa-[\w-]+\.woff2")
NESTED = {"media", "supports", "layer", "container"}


def words(text: str) -> set[str]:
    """Return what could be the name of a class or an id in a page or in a script."""
    return set(re.findall(r"[\w-]+", text))


def _alternatives(prelude: list[Any]) -> Iterator[list[Any]]:
    """Split a list of selectors at its commas."""
    selector: list[Any] = []
    for token in prelude:
        if token == ",":
            yield selector
            selector = []
        else:
            selector.append(token)
    yield selector


def _names(selector: list[Any]) -> Iterator[str]:
    """Yield the classes and ids that a matching element must have; none of those inside :not()."""
    for before, token in zip([None, *selector], selector, strict=False):
        if token.type == "hash" or (token.type == "ident" and before == "."):
            yield token.value


def prune(css: str, known: set[str]) -> str:
    """Return the rules that can match an element with none but known classes and ids, without comments."""
    kept = []
    for rule in tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True):
        if rule.type == "qualified-rule":
            selectors = [s for s in _alternatives(rule.prelude) if known.issuperset(_names(s))]
            if selectors:
                head = ",".join(tinycss2.serialize(selector).strip() for selector in selectors)
                kept.append(f"{head}{{{_body(rule.content)}}}")
        elif rule.type == "at-rule" and rule.content and rule.lower_at_keyword in NESTED:
            if inner := prune(tinycss2.serialize(rule.content), known):
                kept.append(f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inner}}}")
        elif rule.type != "error":
            kept.append(rule.serialize())
    return "\n".join(kept)


def _body(content: list[Any]) -> str:
    text = tinycss2.serialize([token for token in content if token.type != "comment"])
    return re.sub(r"\s+", " ", text).strip()


def _subset_font(path: Path, glyphs: set[int]) -> bytes:
    """Return the font with these characters only, as WOFF."""
    font = ttLib.TTFont(path)
    cutter = subset.Subsetter(subset.Options(layout_features=[], notdef_outline=False))
    cutter.populate(unicodes=glyphs)
    cutter.subset(font)
    font.flavor = "woff"
    buffer = io.BytesIO()
    font.save(buffer)
    return buffer.getvalue()


def embed_icons(css: str, folder: Path) -> str:
    """Put the icons that the rules show into the style sheet, in place of the fonts that hold all of them."""
    glyphs = {int(code, 16) for code in re.findall(r'"\\([0-9a-f]{2,4})', css)}
    glyphs |= {ord(char) for char in css if ord(char) in PRIVATE_USE}

    def face(match: re.Match[str]) -> str:
        file = FONT.search(match[0])
        if not file:
            return match[0]
        found = next(folder.rglob(file[0].replace(".woff2", ".ttf")))
        font = base64.b64encode(_subset_font(found, glyphs)).decode()
        return re.sub(r"src:[^;}]*", f'src:url(data:font/woff;base64,{font}) format("woff")', match[0])

    return re.sub(r"@font-face\s*{[^}]*}", face, css)


def _read(path: Path, root: Path) -> Iterator[str]:
    """Yield a style sheet, after those it imports; its addresses relative to the folder ``root``."""
    css = path.read_text(encoding="utf8")
    for name in re.findall(r"""@import\s+(?:url\()?["']?([^"')]+)["']?\)?\s*;""", css):
        yield from _read((path.parent / name).resolve(), root)
    css = re.sub(r"@import[^;]*;|@charset[^;]*;", "", css)
    base = path.relative_to(root).as_posix()

    def address(match: re.Match[str]) -> str:
        return f"url({match[1]}{urljoin(base, match[2])}{match[1]})"

    yield re.sub(r"""url\((["']?)(?!data:|#)([^"')]+)\1\)""", address, css)


def bundle(sheets: list[str], static: Path, known: set[str]) -> str:
    """Return one style sheet, to lie in the folder ``static``, in place of these below it."""
    static = static.resolve()
    css = [css for sheet in sheets for css in _read(static / urlsplit(sheet).path, static)]
    return embed_icons(prune("\n".join(css), known), static)
