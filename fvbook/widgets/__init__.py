"""Explorables: anywidgets that live in Jupyter and, without a kernel, in the static page."""

from fvbook.widgets.key_explorer import KeyExplorer

__all__ = ["KeyExplorer"]
