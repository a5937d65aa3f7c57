"""Tests that miss a program fail where the set-up brings it, so that CI cannot lose them silently."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from tests import needs

TESTS = Path(__file__).parent
ELSEWHERE = {"tests/needs.py", "tests/test_needs.py"}
ALLOWED = {
    "tests/host/export/test_formats.py": "perfetto's trace processor is fetched from the network, and no package has it",
}
"""Modules that look for a program themselves, and why."""


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No program, no CI, and a tree that nobody set up."""
    monkeypatch.setattr(needs.shutil, "which", lambda *_args, **_more: None)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(needs, "_STAMP", tmp_path / "venv")


@pytest.mark.usefixtures("nothing_here")
def test_a_stranger_without_the_program_skips() -> None:
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium"):
        needs.program("chromium")
    with pytest.raises(pytest.skip.Exception, match="no_such_library"):
        needs.library("no_such_library")
    with pytest.raises(pytest.skip.Exception, match="make sim"):
        needs.built(False, "make sim")


SETUP = (TESTS.parent / "tools" / "setup.sh").read_text()


@pytest.mark.usefixtures("nothing_here")
@pytest.mark.parametrize("where", ["in CI", "after setup.sh dev", "after setup.sh run"])
def test_where_the_set_up_brings_it_the_test_fails(where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if where == "in CI":
        monkeypatch.setenv("CI", "true")
    else:
        assert 'made_of="$(cat' in SETUP and 'want="$made_of $level"' in SETUP  # what the script leaves there
        (tmp_path / "venv").write_text(f"0123 Python 3.11.7 {where.rpartition(' ')[2]}")
    outcome: type[BaseException] = pytest.skip.Exception if where.endswith("run") else pytest.fail.Exception
    with pytest.raises(outcome, match="fio is missing"):
        needs.program("fio")
    with pytest.raises(outcome, match="not built"):
        needs.built(False, "make sim")
    with pytest.raises(pytest.skip.Exception if where.endswith("run") else ImportError):
        needs.library("no_such_library")


@pytest.mark.usefixtures("nothing_here")
def test_the_mark_is_looked_at_before_the_test_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    request.node.add_marker(pytest.mark.needs("picocom"))
    with pytest.raises(pytest.fail.Exception, match="picocom is missing: apt-get install picocom"):
        needs.pytest_runtest_setup(request.node)


def test_every_program_is_of_a_package_that_the_set_up_installs() -> None:
    listed = subprocess.run(
        [str(TESTS.parent / "tools/setup.sh"), "dev", "list"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {package for package in needs.PACKAGES.values() if package} <= set(listed)


def test_no_test_skips_for_want_of_a_program_in_its_own_way() -> None:
    """The syntax trees have no ``importorskip``, and no condition of ``skipif`` or ``if`` around ``pytest.skip`` looks for one."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")) + sorted(TESTS.rglob("conftest.py")):
        name = path.relative_to(TESTS.parent).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.unparse(node) if isinstance(node, ast.Call | ast.If) else ""
            own = isinstance(node, ast.Call) and ("importorskip(" in text.partition("\n")[0] or ("skipif(" in text and "which(" in text))
            own |= isinstance(node, ast.If) and "pytest.skip(" in text and "'CI'" in text
            if own and name not in ELSEWHERE and name not in ALLOWED:
                found.append(f"{name}:{node.lineno}")
    assert found == []
