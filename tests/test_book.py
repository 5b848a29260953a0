"""What every chapter, and every file of the repository, has to look like."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tools import chapters, fresh_cache

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
MEGABYTE = 2**20
# Paths and hosts of one machine; written in two parts so that this file passes its own test.
UNWANTED = re.compile(
    "|".join(
        ["/ro" "ot/", "/ho" "me/", "/Use" "rs/", "/wo" "rk/", "/o" "pt/", r"C:\\Use" "rs",
         r"pypi\.or" "g", r"pythonhosted\.or" "g", r"download\.pytorch\.or" "g",
         r"repo\.anaconda\.co" "m", r"registry\.npmjs\.or" "g", r"deb\.debian\.or" "g"]
    )
)  # fmt: skip

per_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


@cache
def notebook(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in notebook(path).cells if cell.cell_type == "code"]


def syntax(source: str) -> ast.Module:
    """Parse a cell; lines with IPython's magics become ``pass``."""
    return ast.parse(re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.MULTILINE))


def files() -> list[Path]:
    """Return all files that are, or would be, under version control."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@per_chapter
def test_chapter_is_valid_and_in_normal_form(path: Path) -> None:
    nbformat.validate(notebook(path))
    assert chapters.normalise(notebook(path)) == notebook(path), "run make chapters"


@per_chapter
def test_chapter_was_executed_from_top_to_bottom(path: Path) -> None:
    counts = [cell.execution_count for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1)), "run make chapters"


@per_chapter
def test_what_a_cell_shows_is_stored(path: Path) -> None:
    for cell in code_cells(path):
        tree = syntax(cell.source)
        called = {
            node.value.func.id
            for node in tree.body
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
        }
        if called & {"print", "show", "display"}:
            assert cell.outputs, cell.source


@per_chapter
def test_no_error_and_no_stderr_is_stored(path: Path) -> None:
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", cell.source


@per_chapter
def test_chapter_opens_with_its_purpose_and_ends_with_exercises(path: Path) -> None:
    text = [cell.source for cell in notebook(path).cells if cell.cell_type == "markdown"]
    assert re.match(r"(\([\w-]+\)=\n)?# \S", text[0]), "the first text cell starts with the title"
    opening = text[0] + text[1]
    assert re.search(r"^(```+|:::+)\{admonition\}", opening, re.MULTILINE)
    for promise in ("question", "be able to", "takes"):
        assert promise in opening.lower(), f"the opening admonition does not say {promise!r}"
    headings = re.findall(r"^## +(.+)$", "\n".join(text), re.MULTILINE)
    assert "exercise" in headings[-1].lower(), headings
    assert any("{exercise}" in cell for cell in text)


@per_chapter
def test_every_figure_has_an_alternative_text(path: Path) -> None:
    for cell in code_cells(path):
        for node in ast.walk(syntax(cell.source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "show":
                assert "alt" in {keyword.arg for keyword in node.keywords}, cell.source


@per_chapter
def test_chapter_uses_public_names_only(path: Path) -> None:
    for cell in code_cells(path):
        for node in ast.walk(syntax(cell.source)):
            if isinstance(node, ast.ImportFrom):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [part for alias in node.names for part in alias.name.split(".")]
            elif isinstance(node, ast.Attribute):
                names = [node.attr]
            else:
                continue
            # _replace is a public method of named tuples
            private = [name for name in names if re.match(r"_(?!_|replace$)", name)]
            assert not private, (private, cell.source)


def test_names_of_chapters() -> None:
    assert CHAPTERS
    for path in CHAPTERS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", path.stem), path.name


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: git lists the files")
def test_files_are_small_and_name_no_machine() -> None:
    for path in files():
        assert path.stat().st_size <= 3 * MEGABYTE, path
        content = path.read_bytes()
        if b"\0" not in content:
            found = UNWANTED.search(content.decode("utf8"))
            assert not found, (path, found)


def test_the_cache_is_forgotten_when_the_package_changes(tmp_path: Path) -> None:
    module, cache = tmp_path / "fvbook" / "a.py", tmp_path / "_build" / ".jupyter_cache"
    module.parent.mkdir()
    module.write_text("x = 1", encoding="utf8")
    (tmp_path / "requirements.txt").write_text("numpy==2", encoding="utf8")
    assert not fresh_cache.refresh(tmp_path)  # nothing to forget yet
    cache.mkdir(parents=True)
    assert not fresh_cache.refresh(tmp_path)
    module.write_text("x = 2", encoding="utf8")
    assert fresh_cache.refresh(tmp_path)
    assert not cache.exists()


def test_chapters_that_the_cache_lacks_are_executed(tmp_path: Path) -> None:
    (tmp_path / "chapters").mkdir()
    for name in ["one", "two"]:
        cells = [nbformat.v4.new_code_cell(f"print({name!r})")]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "chapters" / f"{name}.ipynb")
    fresh_cache.fill(tmp_path)
    executed = tmp_path / "_build" / ".jupyter_cache" / "executed"
    texts = {path: path.read_text(encoding="utf8") for path in executed.rglob("*.ipynb")}
    assert sorted("one\\n" in text for text in texts.values()) == [False, True]
    (tmp_path / "chapters" / "one.ipynb").unlink()
    failing = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("assert False")])
    nbformat.write(failing, tmp_path / "chapters" / "three.ipynb")
    with pytest.raises(RuntimeError, match=r"three\.ipynb"):
        fresh_cache.fill(tmp_path)
    assert {path: path.read_text(encoding="utf8") for path in executed.rglob("*.ipynb")} == texts
