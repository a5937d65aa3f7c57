"""The highest mean power of a test over OCP's windows, against a waveform with peaks of known height and length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from wattbell.analysis import analyze
from wattbell.measure.source import Source
from wattbell.results.model import parse
from wattbell.suites.outcome import Outcome
from wattbell.suites.peaks import find_peaks
from wattbell.suites.suite import Test

from tests.host.conftest import MS, Builder

US = 1000


def some(*ids: str) -> list[Test]:
    return [Test(id=name, name=name, kind="burst", conditions=("empty",)) for name in ids]


def peaky(path: Path, interval: int) -> Any:
    """Two phases at 1 W. In the first, 9 W for 8 us; in the second, 3 W for 200 us. Between them 12 W, in no phase; before them a fill
    with 15 W."""
    builder = Builder(path, interval)
    builder.power(0, 1.0)
    for tick, watt, length in ((10 * MS, 15.0, MS), (60 * MS, 9.0, 8 * US), (300 * MS, 12.0, MS), (500 * MS, 3.0, 200 * US)):
        builder.power(tick, watt)
        builder.power(tick + length, 1.0)
    builder.phase(1, MS, 20 * MS, "fill", kind="precondition")
    builder.phase(2, 40 * MS, 240 * MS, "fill#1/read")
    builder.phase(3, 400 * MS, 600 * MS, "fill-wake")
    builder.command(50 * MS, 150 * MS)
    return builder.write(700 * MS)


def test_each_test_has_the_highest_of_its_phases_where_the_rail_is_fine_enough(tmp_path: Path) -> None:
    found = find_peaks(Source(peaky(tmp_path / "c", 2 * US)), some("fill", "fill-wake"))
    fill, wake = found["fill"], found["fill-wake"]
    assert {w: p.figure.value for w, p in fill.items()} == {
        "4us": pytest.approx(9.0, rel=1e-4),
        "100us": pytest.approx((8 * 9 + 92) / 100, rel=1e-4),
        "100ms": pytest.approx(1 + 8 * 8e-5, rel=1e-4),
    }
    assert {w: p.figure.value for w, p in wake.items()} == {
        "4us": pytest.approx(3.0, rel=1e-4),
        "100us": pytest.approx(3.0, rel=1e-4),
        "100ms": pytest.approx(1 + 2 * 2e-3, rel=1e-4),
    }
    assert fill["4us"].phase == "fill#1/read" and wake["100us"].phase == "fill-wake"
    assert fill["100us"].figure.u == pytest.approx(1e-3 * 1.64, rel=0.01)
    whole = find_peaks(Source(peaky(tmp_path / "d", 2 * US)), some("fill"))["fill"]
    assert whole["100ms"].phase == "fill-wake", "a test without a neighbour of a longer name owns that phase too"


@pytest.mark.parametrize(("interval", "missing"), [(4 * US, set()), (5 * US, {"4us"}), (200 * US, {"4us", "100us"})])
def test_a_window_shorter_than_the_interval_is_absent_and_says_so(tmp_path: Path, interval: int, missing: set[str]) -> None:
    capture = peaky(tmp_path / "c", interval)
    found = find_peaks(Source(capture), some("fill"))["fill"]
    assert {w for w, p in found.items() if p.figure.value is None} == missing
    for window in missing:
        assert f"{interval / 1000:g} us apart" in found[window].json["absent"] and found[window].json["value"] is None
    analysed = analyze(capture)["phases"][1]["power"]["max_moving_w"]
    assert (analysed["4us"]["value"] is None) == ("4us" in missing)
    if "4us" in missing:
        assert f"{interval / 1000:g} us apart" in analysed["4us"]["conditions"]["absent"]
    assert analysed["100us"]["value"] is not None, "the analysis gives the sample, and says how long it is"


def test_without_a_rail_there_are_none_and_a_phase_shorter_than_the_window_has_a_reason(builder: Any) -> None:
    builder.phase(1, MS, 2 * MS, "fill")
    assert find_peaks(Source(builder.write()), some("fill")) == {}


def test_a_short_phase_has_no_long_window(builder: Any) -> None:
    builder.phase(1, MS, 51 * MS, "fill")
    builder.power(0, 1.0)
    found = find_peaks(Source(builder.write(end=100 * MS)), some("fill"))["fill"]
    assert found["100ms"].json == {
        "value": None,
        "u": None,
        "n_lost": 0,
        "absent": "shorter than the averaging window",
        "shorter": ["fill"],
    }
    assert found["100us"].figure.value == pytest.approx(1.0, rel=1e-5)


def test_a_load_of_57_ms_has_no_mean_over_100_ms_though_its_phase_is_longer(builder: Any) -> None:
    """Over 100 ms of the phase it would be (57 * 2 + 43 * 1) / 100 W = 1.57 W, which the load never drew."""
    builder.phase(1, MS, 300 * MS, "fill/qd4")
    builder.levels += [(0, 1.0), (50 * MS, 2.0), (107 * MS, 1.0)]
    builder.command(50 * MS, 57 * MS)
    capture = builder.write(end=400 * MS)
    found = find_peaks(Source(capture), some("fill"))["fill"]
    assert found["100ms"].figure.value is None and found["100ms"].shorter == ("fill/qd4",)
    assert found["100ms"].json["absent"] == "the load lasted for 57.0 ms, and a window of 100 ms is longer"
    assert found["100us"].figure.value == pytest.approx(2.0, rel=1e-4) and found["100us"].shorter == ()
    (phase,) = analyze(capture)["phases"]
    assert phase["power"]["max_moving_w"]["100ms"]["value"] is None
    assert "57.0 ms" in phase["power"]["max_moving_w"]["100ms"]["conditions"]["absent"]


def test_they_pass_through_results_json(tmp_path: Path) -> None:
    found = find_peaks(Source(peaky(tmp_path / "c", 5 * US)), some("fill"))["fill"]
    assert Outcome(peaks=found).peaks is found
    entry = {"test": "fill", "name": "Fill", "condition": "empty", "peaks": {w: p.json for w, p in found.items()}}
    document = {"format": 1, "suite": "s", "suite_hash": "h", "drive": {}, "tests": [entry, {"test": "old"}]}
    first, old = parse(document, "here").tests
    assert set(first.peaks) == {"100us", "100ms"} and old.peaks == {}
    assert first.peaks["100us"].value == found["100us"].figure.value
