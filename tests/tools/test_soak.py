"""tools/soak.py: results of another tree are not on the page, and no failure is forgotten."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.faults import faultmatrix, faulttrial
from tests.faults.faultoracle import NotHere, Verdict
from tools import soak

ROOT = Path(__file__).parents[2]


def test_a_short_soak_writes_its_page_and_ends_well(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.soak", "--short", "--parts", "trials", "--trials", "32", "--folder", str(tmp_path)]
    before = soak.PAGE.read_bytes()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "reliability.md").read_text()
    assert "| **all** | 32 |" in page
    assert "**Not run on this commit: matrix, attacks, bulk, fuzz.**" in page
    assert soak.PAGE.read_bytes() == before


def test_results_of_another_tree_are_neither_continued_nor_shown(tmp_path: Path) -> None:
    first = soak.Store(tmp_path, "matrix", "aaaaaaa")
    first.data["command"] = "`make soak`"
    first.add("disk full", lost=True, flagged=True, silent=[])
    first.save()
    assert soak.Store(tmp_path, "matrix", "aaaaaaa").data["rows"]["disk full"]["tried"] == 1
    assert soak.Store(tmp_path, "matrix", "bbbbbbb").data["rows"] == {}
    assert "disk full" in soak.page(tmp_path, "aaaaaaa")
    assert "disk full" not in soak.page(tmp_path, "bbbbbbb")


def test_a_try_that_was_not_flagged_makes_the_soak_fail(tmp_path: Path) -> None:
    store = soak.Store(tmp_path, "matrix", "aaaaaaa")
    store.data["command"] = "`make soak`"
    store.add("disk full", lost=True, flagged=True, silent=["try 3: a figure without a mark"])
    store.save()
    assert soak._faults(tmp_path, "aaaaaaa") == 1
    assert soak._faults(tmp_path, "bbbbbbb") == 0, "of another tree"
    assert "| disk full | 1 | 1 | 0 | 1 |" in soak.page(tmp_path, "aaaaaaa")


def test_a_row_that_the_machine_cannot_try_is_named_and_is_no_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def impossible(_rng: object, _folder: Path) -> Verdict:
        raise NotHere("no such device")

    place = tmp_path / "try"
    place.mkdir()
    with patch.dict(faultmatrix.ROWS, {"made": (impossible, 1)}), patch.object(faulttrial, "scratch", lambda: place):
        assert soak._try(("made", 0)) == ("made", 0, False, False, "no such device")
    store = soak.Store(tmp_path, "matrix", "aaaaaaa")
    store.data |= {"command": "`make soak`", "not_here": {"made": "no such device"}}
    store.save()
    assert soak._faults(tmp_path, "aaaaaaa") == 0
    assert "not tried: made: no such device" in capfd.readouterr().err
    assert "**Not tried:** made. Reason: no such device." in soak.page(tmp_path, "aaaaaaa")


def test_changes_that_no_commit_has_are_named_and_never_continued(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=tmp_path, check=True, capture_output=True)

    for name in soak.UNDER_TEST:
        place = tmp_path / name if name.endswith(".md") else tmp_path / name / "file"
        place.parent.mkdir(exist_ok=True)
        place.write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    clean = soak.tree_of(tmp_path)
    (tmp_path / "README.md").write_text("not under test")
    assert soak.tree_of(tmp_path) == clean
    (tmp_path / "host/new.py").write_text("not committed")
    changed = soak.tree_of(tmp_path)
    assert changed != clean and changed.startswith(clean)
    store = soak.Store(tmp_path, "trials", changed)
    store.data["next"] = 250
    store.save()
    assert "next" not in soak.Store(tmp_path, "trials", changed).data


def test_attacks_count_what_passed_failed_and_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_made.py").write_text(
        '"""A made attack. More of it."""\nimport pytest\ndef test_a(): pass\ndef test_b(): assert 0, "broken"\n'
        "@pytest.mark.skip\ndef test_c(): pass\n@pytest.fixture\ndef bad(): 1 / 0\ndef test_d(bad): pass\n"
    )
    file = os.path.relpath(tmp_path / "test_made.py", ROOT)
    store = soak.Store(tmp_path, "attacks", "aaaaaaa")
    store.data["command"] = "`make soak`"
    soak.attacks(store, tmp_path, [file])
    store.save()
    row = store.data["rows"][file]
    assert (row["passed"], row["failed"], row["skipped"]) == (1, 2, 1)
    assert soak._faults(tmp_path, "aaaaaaa") == 1
    assert f"| A made attack | `{file}` | 1 | 2 | 1 |" in soak.page(tmp_path, "aaaaaaa")


def test_every_test_of_the_threats_page_is_an_attack() -> None:
    files = soak.attack_files()
    assert {"tests/faults/test_odd_streams.py", "tests/faults/test_sockets.py", "tests/host/rig/test_registration.py"} <= set(files)
    assert all(soak._about(file) for file in files)


def test_ci_soaks_as_the_page_on_tests_says() -> None:
    page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    commands = re.search(r"^COMMANDS = \((.*)\)$", (ROOT / "tools/bare.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands
    named = re.findall(r'"([^"]+)"', commands[1])
    assert [name for name in named if f"`{name}`" not in page] == [] and "make soak SOAK=--short" in named
