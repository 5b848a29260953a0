"""Our JavaScript passes the linter."""

import shutil
import subprocess
from pathlib import Path

from tests.required import unless

ROOT = Path(__file__).parents[1]
ESLINT = ROOT / "tools" / "node_modules" / "eslint" / "bin" / "eslint.js"
NODE = shutil.which("node")
REASON = None if NODE and ESLINT.exists() else "no Node, or not what tools/package-lock.json names"


@unless(REASON)
def test_lint() -> None:
    command = [str(NODE), str(ESLINT), "--config", "tools/eslint.config.mjs", "--max-warnings", "0"]
    result = subprocess.run([*command, "fvbook", "_ext", "tools"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
