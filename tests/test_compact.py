"""The compact SVG draws what matplotlib drew."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fvbook.figures.compact import compact

NUMBER = st.floats(-1000, 1000).map(lambda value: round(value, 6))
COUNTS = {"M": 1, "L": 1, "Q": 2, "C": 3}


@st.composite
def segments(draw: st.DrawFn) -> list[tuple[str, list[float]]]:
    """Commands of a path as matplotlib writes them, with their absolute coordinates."""
    names = draw(st.lists(st.sampled_from("MLQCz"), max_size=12))
    path = []
    for name in ["M", *names]:
        count = 2 * COUNTS.get(name, 0)
        path.append((name, draw(st.lists(NUMBER, min_size=count, max_size=count))))
    return path


def absolute(path: str) -> list[float]:
    """All absolute coordinates of a path in relative ones; repeated commands may be left out."""
    found: list[float] = []
    point, start = np.zeros(2), np.zeros(2)
    for command, text in re.findall(r"([mlqcz])([^mlqcz]*)", path):
        numbers = [float(value) for value in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", text)]
        if command == "z":
            point = start
            continue
        size = 2 * COUNTS[command.upper()]
        for i in range(0, len(numbers), size):
            pairs = point + np.reshape(numbers[i : i + size], (-1, 2))
            found += pairs.ravel().tolist()
            point = pairs[-1]
        if command == "m":
            start = point
    return found


@given(segments())
def test_paths_keep_their_points(path: list[tuple[str, list[float]]]) -> None:
    text = " ".join(f"{name} {' '.join(f'{value:f}' for value in values)}\n" for name, values in path)
    match = re.search(r' d="([^"]*)"', compact(f'<svg><path d="{text}"/></svg>'))
    assert match
    expected = [value for _, values in path for value in values]
    np.testing.assert_allclose(absolute(match[1]), expected, atol=0.0051)


def test_names_and_glyphs_are_kept_where_they_are_used() -> None:
    svg = """<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 10.000001 5">
     <g id="figure_1"><defs><path id="a-1" d="M 1 2 \nz\n" transform="scale(0.015625)"/></defs>
     <!-- x --> <use xlink:href="#a-1" transform="translate(3.123456 0)"/></g></svg>"""
    assert compact(svg) == (
        '<svg viewBox="0 0 10 5"><g><defs><path id="a-1" d="m1 2z" transform="scale(0.015625)"/></defs>'
        '<use href="#a-1" x="3.12"/></g></svg>'
    )
