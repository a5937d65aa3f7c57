"""tools/rustmutants.py: a fault is put exactly where cargo-mutants says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import rustmutants  # noqa: E402


def span(first: tuple[int, int], last: tuple[int, int]) -> dict[str, dict[str, int]]:
    return {"start": {"line": first[0], "column": first[1]}, "end": {"line": last[0], "column": last[1]}}


def test_only_the_span_is_replaced() -> None:
    source = "const STEP: Ps = 20 * MS; // Ä\nfn f() -> u8 {\n    g();\n    7\n}\n"
    assert rustmutants.replaced(source, span((1, 21), (1, 22)), "+") == source.replace("20 * MS", "20 + MS")
    assert rustmutants.replaced(source, span((3, 5), (4, 6)), "0") == "const STEP: Ps = 20 * MS; // Ä\nfn f() -> u8 {\n    0\n}\n"


def test_the_files_with_the_truth_exist_and_the_version_is_the_makefiles() -> None:
    for name in (*rustmutants.FILES, *rustmutants.NOT_MADE):
        assert list((ROOT / "sim").glob(name)), name
    assert re.search(rf"cargo-mutants@{re.escape(rustmutants.VERSION)}\b", (ROOT / "Makefile").read_text())
