"""Every number of an analysis has its uncertainty, or docs/accuracy.md lists it among the numbers without one."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from wattbell.analysis.result import Analysis
from wattbell.measure.encode import tree_json
from wattbell.measure.figure import Figure
from wattbell.present.capture.tables import all_tables
from wattbell.present.table import Column, Table, figure

from tests.host.analysis.test_page import found  # noqa: F401
from tests.numbers import COLUMNS, listed, matches, patterns, unmarked, without_u


def test_the_json_of_a_capture_with_everything(found: Analysis) -> None:  # noqa: F811
    paths = list(without_u(tree_json(found)))
    assert len(paths) > 300
    known = patterns()
    assert not {".".join(path) for path in paths if not any(matches(path, one) for one in known)}


def test_the_tables_of_a_capture_with_everything(found: Analysis) -> None:  # noqa: F811
    known = dict(listed(COLUMNS))
    seen = set(unmarked(all_tables(found).items()))
    assert len(seen) > 50
    assert not {(table, column) for table, column in seen if not any(fnmatchcase(column, one) for one in known.get(table, ()))}


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({"power": {"mean_w": {"value": 1.0, "u": 0.1}}}, []),
        ({"power": {"mean_w": {"value": 1.0, "u": None, "n_lost": 3}}}, ["power.mean_w"]),
        ({"power": {"mean_w": {"value": None, "u": None}}, "ok": True}, []),
        ({"all": {"mean": 1.0, "p99": 2.0, "max": 3.0, "u": {"mean": 0.1, "p99": None}, "interval": {"p99": [1.9, 2.1]}}}, ["all.max"]),
        ({"phases": [{"a": 1}, {"a": 2}]}, ["phases.a", "phases.a"]),
        ({"scores": [{"name": "mean", "reading": None, "unit": "W", "value": {"value": 2.0, "u": None}}]}, ["scores.mean"]),
    ],
)
def test_what_the_walk_finds(document: object, paths: list[str]) -> None:
    assert [".".join(path) for path in without_u(document)] == paths


@pytest.mark.parametrize(
    ("path", "pattern", "same"),
    [
        ("a.b", "b", True),
        ("a.b", "a", False),
        ("a.b", "a.b", True),
        ("c.b", "a.b", False),
        ("x.a.b.c", "a.*", True),
        ("x.a", "a.*", False),
        ("x.median, all", "x.median, *", True),
    ],
)
def test_what_a_key_of_the_list_stands_for(path: str, pattern: str, same: bool) -> None:
    assert matches(tuple(path.split(".")), pattern) is same


def test_a_printed_number_needs_its_digits_in_parentheses() -> None:
    rows = [[figure(Figure(1.25, 0.02)), figure(Figure(1.25, None)), "PS 3"]]
    table = Table("t", [Column("sure"), Column("bare"), Column("text", numeric=False)], rows)
    assert list(unmarked([("t", table)])) == [("t", "bare")]
