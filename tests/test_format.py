"""Lines that ruff format leaves alone are few: tables that are read as tables."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARK = "# fmt: " + "skip"
MOST = 40


def test_few_lines_are_kept_from_the_formatter() -> None:
    """Bounds the number of marks. Most stand at tables of registers, ports of primitives, and cases of a test."""
    files = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    counts = {name: (ROOT / name).read_text(encoding="utf-8").count(MARK) for name in files}
    assert sum(counts.values()) < MOST, {name: count for name, count in counts.items() if count}
