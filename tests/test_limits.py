"""No wait of a test has a limit of its own that a slow machine could reach (tests/patience.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LEFT_OUT = ("bench", "slow")
"""Folders that `make test` does not run."""
METHODS = ("join", "wait")
"""Methods with a limit in s as their first argument."""
LEAST_S = 1.0
"""A shorter limit is one that a test means to reach."""
MEANT = {
    "sim/test_cut_short.py",
    "hw/board/test_route.py",  # mean to reach it
    "host/meters/line.py",
    "host/meters/scpi_device.py",
    "host/meters/test_file.py",  # leave a thread behind that still waits
}
"""Files with a longer limit."""


def limits(tree: ast.AST) -> Iterator[tuple[int, float]]:
    """Yield line and value of each limit that is a number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = [word.value for word in node.keywords if word.arg in ("timeout", "timeout_s")]
            if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                given += node.args[:1]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and ast.unparse(node.left) == "time.monotonic()":
            given = [node.right]
        else:
            given = []
        for value in given:
            if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                yield value.lineno, value.value


FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in LEFT_OUT)


@pytest.mark.parametrize("folder", sorted({name.split("/")[0] for name in FILES}))
def test_waits_have_the_limit_of_all(folder: str) -> None:
    own: dict[str, list[tuple[int, float]]] = {}
    for name in FILES:
        if name.split("/")[0] == folder and name not in MEANT:
            found = [at for at in limits(ast.parse((TESTS / name).read_text(encoding="utf-8"))) if at[1] >= LEAST_S]
            own |= {name: found} if found else {}
    assert own == {}, "use PATIENCE_S of tests/patience.py"


def test_a_limit_is_found() -> None:
    made = "run(x, timeout=60)\nthread.join(5)\nend = time.monotonic() + 20\nsocket.settimeout(0.5)\nrun(x, timeout=PATIENCE_S)\n"
    assert sorted(limits(ast.parse(made))) == [(1, 60), (2, 5), (3, 20)]
