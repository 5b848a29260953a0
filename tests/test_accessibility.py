"""What axe-core finds on the built pages, in both themes."""

from typing import Any

import pytest

from tests.required import unless
from tools import browser as b

AXE = b.BOOK.parents[1] / "tools" / "node_modules" / "axe-core" / "axe.min.js"
REASON = b.missing() or (None if AXE.exists() else "no axe-core in tools/node_modules; it takes Node")
pytestmark = [pytest.mark.browser, unless(REASON)]
PAGES = b.pages() if REASON is None else []
# What lies inside a figure with a name is no one's but the eye's; test_browser.py checks that it can be read.
RUN = """
const done = arguments[arguments.length - 1];
document.querySelectorAll("svg[role=img]").forEach((figure) => figure.replaceChildren());
axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => done(
  violations.filter(({ impact }) => ["serious", "critical"].includes(impact)).map(({ id, nodes }) =>
    [id, nodes.map(({ html, failureSummary }) => html.slice(0, 200) + " " + failureSummary).slice(0, 5)])
));
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_no_serious_violation(page: str, theme: str, root: str, driver: Any) -> None:
    b.visit(driver, root + page, theme=theme, still=True)
    driver.execute_script(AXE.read_text(encoding="utf8"))
    assert driver.execute_async_script(RUN) == []
