"""Every figure of the book: one function each, which takes data and returns a matplotlib Figure.

Each chapter has a module of its own here, of the same name; `show` puts a figure into a page.
"""

from fvbook.figures.style import COLOURS, show, to_svg

__all__ = ["COLOURS", "show", "to_svg"]
