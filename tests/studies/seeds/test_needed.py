"""Runs that `make seeds-check` would make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from wattbell.suites.manifest import load_suite

from studies.seeds.statements import load_statements

ROOT = Path(__file__).parents[3]


def test_every_test_a_statement_asks_for_is_run_once_and_exists() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "studies.seeds.runs", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    names = [line.split(": ")[0] for line in said]
    assert len(names) == len(set(names))
    runs = dict(line.split(": ") for line in said)
    assert runs["intel-660p-1tb-anandtech-2018-both"] == "all tests"
    book = load_statements()
    asked = [r for s in book.statements for r in (s.a, s.b) if r and r.test]
    for reference in asked:
        assert reference.test in {test.id for test in load_suite(reference.suite).tests}
        for drive in reference.drives:
            mine = [
                tests
                for name, tests in runs.items()
                if reference.suite in name and book.drives[drive].matches(name.split(f"-{reference.suite}")[0])
            ]
            assert any(tests == "all tests" or reference.test in tests.split(", ") for tests in mine), (drive, reference.test)
