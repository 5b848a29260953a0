"""What the build takes out of pages and style sheets has no use, and the rest stays."""

from pathlib import Path

import pytest

from _ext.light_pages import pages, styles


@pytest.mark.parametrize(
    ("css", "kept"),
    [
        (".a{x:1}.b{y:2}", ".a{x:1}"),
        (".a .b,p .a{x:1}", "p .a{x:1}"),
        ("#b p{x:1}", ""),
        ("p:not(.b){x:1}", "p:not(.b){x:1}"),
        ("@media print{.b{x:1}}", ""),
        ("@media print{.a{x:1}}", "@media print{.a{x:1}}"),
        ("@keyframes k{0%{x:1}}", "@keyframes k{0%{x:1}}"),
        ("/* b */ a{x:1}", "a{x:1}"),
    ],
)
def test_prune(css: str, kept: str) -> None:
    assert styles.prune(css, {"a"}) == kept


def test_one_style_sheet() -> None:
    first = '<link rel="stylesheet" href="../_static/a.css?v=1" />'
    second = '<link href="../_static/b.css" rel="stylesheet" />'
    text, sheets = pages.one_style_sheet(first + second + "<title>", "all.css")
    assert sheets == ["a.css", "b.css"]
    assert [line.strip() for line in text.splitlines()] == [
        '<link rel="stylesheet" href="../_static/all.css" />',
        "<title>",
    ]


@pytest.mark.parametrize(
    ("page", "left"),
    [
        ('<script src="_static/vendor/math.js"></script>', []),
        ('<script src="_static/vendor/math.js"></script><p class="math">', ["vendor/math.js"]),
        ('<script src="_static/doctools.js?v=1"></script>', ["doctools.js"]),
        ('<script src="searchindex.js"></script>', []),
    ],
)
def test_fewer_scripts(page: str, left: list[str]) -> None:
    text, scripts = pages.fewer_scripts(page)
    assert scripts == left
    assert text.count("<script defer ") == text.count("<script") == len(left)


@pytest.mark.parametrize(("page", "up"), [("intro.html", ""), ("chapters/a.html", "../")])
def test_widgets_to_file(page: str, up: str, tmp_path: Path) -> None:
    static = tmp_path / "_static"
    static.mkdir()
    text = '<p><script type="application/vnd.jupyter.widget-state+json">{"state": {}}</script></p>'
    text = pages.widgets_to_file(text, tmp_path / page, static / "widgets")
    (script,) = (static / "widgets").iterdir()
    assert f' data-src="{up}_static/widgets/{script.name}"></script></p>' in text
    assert script.read_text(encoding="utf8") == 'window.widgetState = {"state": {}};\n'


def test_glyphs_once() -> None:
    first, other = '<path id="DejaVuSans-30" d="m0 0"/>', '<path id="DejaVuSans-30" d="m1 1"/>'
    page = f"<svg><defs>{first}</defs></svg><svg><defs>{first}</defs></svg><svg>{other}</svg>"
    assert pages.glyphs_once(page) == f"<svg><defs>{first}</defs></svg><svg></svg><svg>{other}</svg>"


def test_plain_code() -> None:
    page = '<div class="highlight"><span class="k">for</span> <span class="n">x</span></div><span class="n">y'
    plain = '<div class="highlight"><span class="k">for</span> x</div><span class="n">y'
    assert pages.plain_code(page, {"k"}) == plain
