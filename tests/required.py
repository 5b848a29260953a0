"""Checks that need more than Python: skipped where that is missing, an error where nothing may be."""

import os

import pytest


def unless(reason: str | None) -> pytest.MarkDecorator:
    """A mark that skips a test for this reason, if there is one.

    RuntimeError where FVBOOK_REQUIRE_BROWSER is set, since a skipped check is no check.
    """
    if reason and os.environ.get("FVBOOK_REQUIRE_BROWSER"):
        raise RuntimeError(reason)
    return pytest.mark.skipif(reason is not None, reason=str(reason))
