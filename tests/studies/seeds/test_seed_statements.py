"""The seeds' statements: complete, and judged by measurements."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.errors import ResultsError
from wattbell.measure.figure import Figure, Known, ratio
from wattbell.results import read_run
from wattbell.results.model import parse
from wattbell.virtual.simulator import profiles_dir

from studies.seeds import check, load_statements
from studies.seeds.check import Profiles, counts
from studies.seeds.markdown import markdown, to_json
from studies.seeds.reduce import POINTS, SERIES, WHOLE_SERIES
from studies.seeds.statements import Book, parse_book
from tests.host.conftest import Builder
from tests.host.results import samples as maker

DRIVES = {"drives": {"x": {"title": "X", "profiles": ["x-*"]}, "y": {"title": "Y", "profiles": ["y-*"]}}, "groups": {"both": ["x", "y"]}}


@pytest.fixture(scope="module")
def samples() -> ModuleType:
    return maker


def book(**statement: Any) -> Book:
    whole = {"id": "s", "seed": "000", "quote": "q", "stated": "s", "tolerance": "t", **statement}
    return parse_book({"drives.toml": DRIVES, "s.toml": {"statement": [whole]}})


def run(profile: str, value: float, u: float | None = None, scale: float = 1.0, lost: int = 0, **drive: Any) -> Any:
    score = {"name": "m", "unit": "MB/s", "value": {"value": value, "u": u, "n_lost": lost}, "reading": None}
    test = {"test": "t", "condition": "full", "scores": [score], "points": []}
    about = {"model": profile, "profile": profile, **drive}
    document = {"format": 1, "suite": "anandtech-2018", "suite_hash": "h", "scale": scale, "drive": about, "tests": [test]}
    return parse(document, profile)


SCORE = {"test": "t", "condition": "full", "score": "MB/s"}


def verdict(tmp_path: Path, runs: list[Any], **statement: Any) -> Any:
    (outcome,) = check(book(**statement), runs, tmp_path)
    return outcome


def test_the_book_of_the_package_is_complete() -> None:
    found = load_statements().statements
    assert {s.seed for s in found} == {"000", "001", "002", "003", "004"}
    assert len(found) >= 60 and len({s.id for s in found}) == len(found)
    asked = [s for s in found if s.kind == "result" and not s.not_measurable]
    assert len(asked) >= 60
    for s in asked:
        for reference in (s.a, s.b):
            if reference is not None and reference.take:
                assert reference.take in (POINTS if reference.over else {**SERIES, **WHOLE_SERIES}), s.id


def test_limits_decide(tmp_path: Path) -> None:
    limits = {"a": {"drive": "x", **SCORE}, "low": 90.0, "high": 110.0, "unit": "MB/s"}
    assert verdict(tmp_path, [run("x-1", 100.0)], **limits).verdict == "holds"
    assert verdict(tmp_path, [run("x-1", 110.0)], **limits).verdict == "holds"
    assert verdict(tmp_path, [run("x-1", 111.0)], **limits).verdict == "does not hold"
    close = verdict(tmp_path, [run("x-1", 109.0, 2.0)], **limits)
    assert close.verdict == "holds" and "within the uncertainty" in close.remark
    assert "within" not in verdict(tmp_path, [run("x-1", 100.0, 2.0)], **limits).remark
    assert "4 records lost" in verdict(tmp_path, [run("x-1", 100.0, lost=4)], **limits).remark


def test_what_is_not_there_is_not_measured(tmp_path: Path) -> None:
    limits = {"a": {"drive": "x", **SCORE}, "low": 1.0}
    assert verdict(tmp_path, [run("y-1", 5.0)], **limits).remark == "no run of X"
    other = {"a": {"drive": "x", **SCORE, "condition": "empty"}, "low": 1.0}
    outcome = verdict(tmp_path, [run("x-1", 5.0)], **other)
    assert outcome.verdict == "not measured" and "t (empty) not run on X" in outcome.remark
    missing = {"a": {"drive": "x", **SCORE, "score": "W"}, "low": 1.0}
    assert "no score" in verdict(tmp_path, [run("x-1", 5.0)], **missing).remark


def test_two_figures_make_one_with_its_uncertainty(tmp_path: Path) -> None:
    both = {"a": {"drive": "x", **SCORE}, "b": {"drive": "y", **SCORE}, "low": 0.0}
    runs = [run("x-1", 50.0, 3.0), run("y-1", 100.0, 8.0)]
    quotient = verdict(tmp_path, runs, op="a/b", **both).value
    assert quotient.value == pytest.approx(0.5) and quotient.u == pytest.approx(0.5 * math.hypot(0.06, 0.08))
    difference = verdict(tmp_path, runs, op="a-b", **{**both, "low": -100.0}).value
    assert difference.value == pytest.approx(-50.0) and difference.u == pytest.approx(math.hypot(3.0, 8.0))
    assert verdict(tmp_path, [run("x-1", 50.0), run("y-1", 0.0)], op="a/b", **both).verdict == "not measured"


def test_the_least_scaled_run_counts_and_says_so(tmp_path: Path) -> None:
    limits = {"a": {"drive": "x", **SCORE}, "low": 0.0}
    scaled = verdict(tmp_path, [run("x-1", 5.0, scale=0.01), run("x-1", 6.0, scale=0.1)], **limits)
    assert scaled.value == Known(6.0) and "scaled ×0.1" in scaled.remark
    assert verdict(tmp_path, [run("x-1", 5.0, scale=0.01), run("x-1", 7.0)], **limits).value == Known(7.0)


@pytest.mark.parametrize(("pick", "wanted"), [("max", 30.0), ("min", 10.0), ("mean", 20.0), ("median", 20.0)])
def test_several_drives(tmp_path: Path, pick: str, wanted: float) -> None:
    statement = {"a": {"drive": "both", "pick": pick, **SCORE}, "low": 0.0}
    assert verdict(tmp_path, [run("x-1", 10.0), run("y-1", 30.0)], **statement).value.value == wanted
    assert "fewer than two" in verdict(tmp_path, [run("x-1", 10.0)], **statement).remark


def test_fitted_is_read_from_the_profile(tmp_path: Path) -> None:
    statement = {"a": {"drive": "x", **SCORE}, "low": 0.0, "depends": ["flash.a", "power_state.1.core_w"]}
    runs = [run("x-1", 5.0)]
    assert verdict(tmp_path, runs, **statement).group == "unfitted"
    profile = tmp_path / "x-1.toml"
    profile.write_text('[flash]\na = { value = 1, source = "assumed" }\n')
    assert verdict(tmp_path, runs, **statement).group == "unfitted"
    profile.write_text('[flash]\na = { value = 1, source = "assumed", fitted = true }\n')
    assert verdict(tmp_path, runs, **statement).fitted_by == ("x-1: flash.a",)
    profile.write_text('[[power_state]]\n[[power_state]]\ncore_w = { value = 1, source = "measured: seed 000" }\n')
    assert verdict(tmp_path, runs, **statement).fitted_by == ("x-1: power_state.1.core_w",)
    profile.write_text('[flash]\na = { value = 1, source = "measured: methodology.md" }\n')
    assert verdict(tmp_path, runs, **statement).group == "fitted", "the extract of the seeds is the seeds"
    profile.write_text('[flash]\na = { value = 1, source = "assumed" }\n')
    common = tmp_path / "common.toml"
    common.write_text('[flash]\na = { value = 2, source = "assumed", fitted = true }\n')
    assert verdict(tmp_path, runs, **statement).group == "unfitted", "the profile's own figure goes before that of all"
    profile.write_text("")
    assert verdict(tmp_path, runs, **statement).fitted_by == ("x-1: flash.a",)


def test_every_figure_named_as_deciding_is_in_the_profiles() -> None:
    """A key renamed in the profiles would silently turn fitted statements into unfitted ones."""
    known, drives = Profiles(profiles_dir()), load_statements().drives
    for statement in load_statements().statements:
        names = [name for drive in statement.drives for name in known.names(drives[drive])]
        for key in statement.depends if len(names) >= len(statement.drives) else ():
            assert any(known.entry(name, key) for name in names), (statement.id, key)


def test_declared_figures(tmp_path: Path) -> None:
    states = [{"state": 0, "max_power_w": 4.0, "non_operational": False}, {"state": 1, "exit_latency_s": 0.009, "non_operational": True}]
    runs = [run("x-1", 1.0, power_states=states, apst=True)]

    def of(name: str, value: float) -> str:
        outcome = verdict(tmp_path, runs, kind="declared", a={"drive": "x", "declared": name}, low=value, high=value)
        return str(outcome.verdict)

    assert of("power_states.0.max_w", 4.0) == of("power_states.1.exit_s", 0.009) == of("apst", 1.0) == "holds"
    assert of("non_operational_states", 1.0) == "holds" and of("power_states.0.max_w", 4.1) == "does not hold"
    assert of("hctm", 1.0) == "not measured"


def test_the_published_triple_through_the_real_arithmetic(tmp_path: Path) -> None:
    """1888 MB/s at 3.79 W is 498 MB/s/W (SM2262EN 2TB): by the analysis' efficiency, and by a quotient of statements."""
    efficiency = ratio(Figure(1888.0, 1.888, "MB/s"), Figure(3.79, 0.00379, "W"), "MB/s/W")
    assert round(efficiency.value) == 498
    assert efficiency.u == pytest.approx(498.15 * math.hypot(1e-3, 1e-3), rel=1e-4)
    both = {"a": {"drive": "x", **SCORE}, "b": {"drive": "y", **SCORE}, "op": "a/b", "low": 497.5, "high": 498.5}
    assert verdict(tmp_path, [run("x-1", 1888.0), run("y-1", 3.79)], **both).verdict == "holds"


def test_the_published_triple_through_a_capture(tmp_path: Path) -> None:
    """The same through capture and analysis: 128 KiB reads back to back at a constant 3.79 W."""
    builder = Builder(tmp_path / "capture")
    builder.power(0, 3.79)
    latency = round(131072 / 1888e6 * 1e9)
    builder.phase(1, 1_000_000, 150_000_000, "sequential read")
    tick = 2_000_000
    for k in range(2000):
        tick = builder.command(tick, latency, blocks=256, slba=256 * k)
    capture = builder.write(200_000_000)
    from wattbell.results.from_capture import run_from_capture

    found = run_from_capture(capture.path)
    (point,) = found.tests[0].points
    assert point.figures["mb_per_s"].value == pytest.approx(1888.0, rel=1e-4)
    assert point.figures["mean_w"].value == pytest.approx(3.79, rel=1e-4)
    assert round(point.figures["mb_per_j"].value) == 498


@pytest.mark.parametrize(
    ("take", "values", "wanted"),
    [
        ("max", [1, 3, 2], 3),
        ("min", [1, 3, 2], 1),
        ("last", [1, 3, 2], 2),
        ("last_over_first", [4, 3, 2], 0.5),
        ("min_over_max", [1, 4, 2], 0.25),
        ("largest_step", [4, 2, 3], 1.5),
        ("reaches_max_at", [1, 9.8, 9.9, 10], 1),
        ("middle_over_ends", [10, 2, 4, 8], 0.25),
        ("linear_rise", [1, 2, 3], 1.0),
        ("linear_rise", [3, 2, 1], 0.0),
    ],
)
def test_figures_over_points(take: str, values: list[float], wanted: float) -> None:
    points = [(float(x), Known(float(y))) for x, y in enumerate(values)]
    assert POINTS[take][1](points).value == pytest.approx(wanted)


@given(st.floats(0.1, 1e6), st.floats(0.1, 1e6), st.floats(-5, 5))
def test_linear_rise_is_the_square_of_the_correlation(a: float, b: float, bend: float) -> None:
    import numpy as np

    x = np.arange(11) / 10
    y = a + b * x + bend * b * x * (1 - x) / 10
    found = POINTS["linear_rise"][1]([(float(i), Known(float(j))) for i, j in zip(x, y, strict=True)]).value
    assert found == pytest.approx(float(np.corrcoef(x, y)[0, 1]) ** 2, abs=1e-6)


def test_figures_of_a_series(samples: Any, tmp_path: Path) -> None:
    found = read_run(samples.write_consistency(tmp_path / "c"))
    runs = [found]
    of = {s.id: o for o in check(load_statements(), runs, tmp_path) if (s := o.statement).seed == "001"}
    test = found.test("random-write", "full")
    assert test is not None
    frame = found.series(test)
    assert isinstance(frame, pl.DataFrame)
    last = frame.filter(pl.col("t_s") > 3199)["iops"]
    assert of["600p-spikes-100k"].value == Known(100_000.0)
    assert of["600p-drops-early"].value == Known(240.0), "the sawtooth begins at 240 s"
    steady = of["600p-steady-after-minutes"].value
    assert steady is not None and 240 <= steady.value <= 310
    consistency = of["600p-consistency-low"].value
    assert consistency is not None and consistency.value == pytest.approx(last.mean() / last.std())
    op = of["600p-op-less-deep"].value
    assert op is not None and op.value > 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quote": "w " * 16}, "more than 15 words"),
        ({"low": 2.0, "high": 1.0}, "low is above high"),
        ({"op": "a/b"}, "op is a"),
        ({"tolerance": ""}, "tolerance"),
        ({"not_measurable": "why"}, "exactly one"),
        ({"colour": 1}, "unknown key colour"),
        ({"a": {"drive": "z", **SCORE}}, "drive z is in neither"),
        ({"a": {"drive": "both", **SCORE}}, "need `pick`"),
        ({"a": {"drive": "x", "what": 1}}, "unknown key what"),
    ],
)
def test_statements_that_make_no_sense_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ResultsError, match=words):
        book(**{"a": {"drive": "x", **SCORE}, "low": 1.0, **change})


def test_page_and_json_count_the_same(samples: Any, tmp_path: Path) -> None:
    runs = [read_run(samples.write_results(tmp_path / "a")), read_run(samples.write_results(tmp_path / "b", "crucial-p1-1tb", scale=0.5))]
    outcomes = check(load_statements(), runs, tmp_path)
    page, data = markdown(outcomes), json.loads(json.dumps(to_json(outcomes)))
    assert data["counts"] == counts(outcomes)
    assert sum(sum(row.values()) for row in data["counts"].values()) == len(outcomes) == len(load_statements().statements)
    for outcome in outcomes:
        assert page.count(f"| `{outcome.statement.id}` |") == 1
    row = data["counts"]["unfitted"]
    assert f"| {row['holds']} | {row['does not hold']} | {row['not measured']} |" in page
    assert "**Scaled runs (×0.5, ×1)**" in page
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {7, 5}, "no cell breaks its row"
