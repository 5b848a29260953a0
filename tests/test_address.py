"""The public address is kept in one place and is the same wherever it is repeated."""

import re
from pathlib import Path

import nbformat
import pytest

from tools import address

CHAPTERS = sorted((address.ROOT / "chapters").glob("*.ipynb"))
NEW = "https://github.com/someone-else/their.book_2"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.name)
def test_each_chapter_opens_with_the_same_colab_cell(path: Path) -> None:
    cell = nbformat.read(path, as_version=4).cells[0]
    assert cell.cell_type == "code"
    assert cell.source == address.COLAB_CELL.format(address=address.current())
    assert cell.metadata.get("tags") == ["remove-cell"]
    assert cell.outputs == []


@pytest.mark.parametrize("path", address.places(), ids=lambda path: path.name)
def test_address_is_that_of_the_configuration(path: Path) -> None:
    mentions = set(address.MENTION.findall(path.read_text(encoding="utf8")))
    assert mentions - {"OWNER/NAME"} == {address.slug(address.current())}


def test_rewriting_reaches_every_mention_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "chapters").mkdir()
    for path in address.places():
        copy = tmp_path / path.relative_to(address.ROOT)
        copy.write_text(path.read_text(encoding="utf8"), encoding="utf8")
    old = address.slug(address.current())
    foreign = "See https://github.com/example/fvbook-extras and https://github.com/pytorch/pytorch."
    with (tmp_path / "README.md").open("a", encoding="utf8") as readme:
        readme.write(foreign)

    changed = address.rewrite(NEW, tmp_path)

    assert changed == address.places(tmp_path)
    assert address.current(tmp_path) == NEW
    assert address.rewrite(NEW, tmp_path) == []
    for path in address.places(tmp_path):
        text = path.read_text(encoding="utf8").replace(foreign, "")
        assert address.slug(NEW) in text
        assert not re.search(re.escape(old) + r"(?![\w-])", text)
    assert foreign in (tmp_path / "README.md").read_text(encoding="utf8")


@pytest.mark.parametrize("suffix", ["", "/", ".git", ".git/"])
def test_slug(suffix: str) -> None:
    assert address.slug("https://github.com/a-b/c.d" + suffix) == "a-b/c.d"


@pytest.mark.parametrize(
    "bad",
    ["", "a/b", "http://github.com/a/b", "https://gitlab.com/a/b", "https://github.com/a",
     "https://github.com/a/b/c", "https://github.com/a b/c"],
)  # fmt: skip
def test_bad_address_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="must read https"):
        address.slug(bad)
