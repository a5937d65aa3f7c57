"""Every number of a run of `quick` and of `power-states` has its uncertainty, or docs/accuracy.md lists it among the numbers
without one.

Each listed number occurs here or in tests/host/analysis/test_every_number.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from wattbell.analysis import figures_of
from wattbell.analysis.result import Analysis
from wattbell.capture import open_capture
from wattbell.measure.encode import tree_json
from wattbell.present.capture.tables import all_tables
from wattbell.present.suite.presentation import SuitePresentation
from wattbell.present.table import Table
from wattbell.results import read_run

from tests.e2e.virtual import MARKS, finished, wattbell
from tests.host.analysis.test_page import everything
from tests.host.conftest import Builder
from tests.numbers import COLUMNS, listed, matches, patterns, unmarked, without_u

pytestmark = MARKS
RUNS = (("quick", 0.02), ("power-states", 0.1))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("numbers")
    for suite, scale in RUNS:
        common = ("--virtual", "crucial-p1-1tb", "--fidelity", "fast", "--scale", scale, "--no-store", "--no-page")
        finished(wattbell(folder, "run", suite, *common, "--out", folder / suite))
    return [folder / suite for suite, _ in RUNS]


@pytest.fixture(scope="module")
def analyses(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Analysis]:
    made = [figures_of(everything(Builder(tmp_path_factory.mktemp("all") / "capture")))]
    return made + [figures_of(open_capture(path)) for run in runs for path in sorted((run / "captures").iterdir())]


def test_json(runs: list[Path], analyses: list[Analysis]) -> None:
    documents = [tree_json(one) for one in analyses] + [json.loads((run / "results.json").read_text()) for run in runs]
    paths = {path for document in documents for path in without_u(document)}
    known = patterns()
    assert not {".".join(path) for path in paths if not any(matches(path, one) for one in known)}, "neither a u nor in the list"
    assert not {one for one in known if not any(matches(path, one) for path in paths)}, "listed, and not met"


def columns(runs: list[Path], analyses: list[Analysis]) -> Iterator[tuple[str, str]]:
    for found in analyses:
        yield from unmarked(all_tables(found).items())
    for run in runs:
        for section in SuitePresentation([read_run(run)]).sections():
            yield from unmarked((section.title, block) for block in section.blocks if isinstance(block, Table))


def test_tables(runs: list[Path], analyses: list[Analysis]) -> None:
    seen, known = set(columns(runs, analyses)), dict(listed(COLUMNS))
    assert not {(table, column) for table, column in seen if not any(fnmatchcase(column, one) for one in known.get(table, ()))}
    met = {table: [column for name, column in seen if name == table] for table in known}
    assert not {(table, one) for table, each in known.items() for one in each if not any(fnmatchcase(column, one) for column in met[table])}
