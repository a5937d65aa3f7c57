"""Answers to the page about a capture, against the data put into it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from wattbell.analysis import figures_of
from wattbell.capture import open_capture
from wattbell.measure.encode import tree_json
from wattbell.view.plain import rounded
from wattbell.view.server import make_app
from wattbell.view.shown import Shown
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType

from tests.host.conftest import MS, Builder
from tests.host.view.conftest import MARKUP, Ask


def test_the_capture(ask: Ask, shown: Shown) -> None:
    told = ask("capture")
    assert told["name"] == "capture" and told["state"] == "complete" and told["tick_s"] == 1e-9 and not told["live"]
    assert told["has"] == {"rail": True, "commands": True, "events": True, "link": True, "tlps": False}
    assert told["rail"] == {"interval": 10_000, "samples": 100_000}
    assert [(p["number"], p["name"], p["begin"], p["end"]) for p in told["phases"]] == [
        (1, f"reads {MARKUP}", 10 * MS, 210 * MS),
        (2, "writes", 600 * MS, 900 * MS),
    ]
    assert {(c["name"], c["count"]) for c in told["classes"]} == {("read", 150), ("write", 100), ("get_features", 4)}
    assert told["commands"] == 254 and any("commands" in text for text in told["loss"])
    zoom = shown.zoom
    assert zoom is not None and told["origin_tick"] == zoom.bounds[0] and told["end"] == zoom.bounds[1] - zoom.bounds[0]


def test_times_count_from_where_those_of_reports_do(shown: Shown) -> None:
    from wattbell.analysis.context import load

    context = load(open_capture(shown.path))
    assert shown.zoom is not None and shown.zoom.bounds == (context.first_tick, context.last_tick)


def test_the_rail(ask: Ask) -> None:
    told = ask("rail", begin=0, end=200 * MS, points=50)
    assert not told["raw"] and len(told["t"]) == len(told["power"]["max"]) <= 52
    assert told["power"]["mean"] == pytest.approx([1.0] * len(told["t"]), rel=1e-4)
    near = ask("rail", begin=599_985_000, end=600_015_000, points=50)
    assert near["raw"] and near["t"] == [599_980_000, 599_990_000, 600_000_000, 600_010_000, 600_020_000]
    assert near["power"]["mean"] == pytest.approx([0.1, 0.1, 2, 2, 2], rel=1e-3)
    hole = ask("rail", begin=690 * MS, end=730 * MS, points=4000)
    missing = [t for t, v in zip(hole["t"], hole["power"]["mean"], strict=True) if v is None]
    assert min(missing) == 702 * MS and max(missing) == 714 * MS - 10_000


def test_the_load(ask: Ask) -> None:
    told = ask("load", points=1000)
    width_s = told["width"] * 1e-9
    assert sum(told["read_mb_per_s"]) * width_s == pytest.approx(150 * 8 * 4096 / 1e6, rel=1e-5)
    assert sum(told["write_mb_per_s"]) * width_s == pytest.approx(99 * 256 * 4096 / 1e6, rel=1e-5)
    assert sum(told["iops"]) * width_s == pytest.approx(249, rel=1e-5)
    assert max(told["depth_max"]) == 2


def test_commands_are_rows_or_their_density(ask: Ask) -> None:
    rows = ask("commands", begin=11 * MS, end=13 * MS + 100, limit=100)
    assert rows["count"] == 3 and rows["kind"] == "rows"
    assert rows["rows"]["doorbell"] == [11 * MS, 12 * MS, 13 * MS] and rows["rows"]["name"] == ["read"] * 3
    assert rows["rows"]["latency_s"] == [200e-6, 201e-6, 202e-6] and rows["rows"]["bytes"] == [32768] * 3
    assert rows["rows"]["first_data"] == [None] * 3 and rows["rows"]["admin"] == [False] * 3
    many = ask("commands", limit=100)
    assert many["count"] == 254 and many["kind"] == "density"
    counts = np.array(many["counts"])
    assert counts.sum() == 254 and counts.shape == (len(many["t_edges"]) - 1, len(many["latency_edges_s"]) - 1)
    assert ask("commands", opcode=1, admin=0, limit=1000)["count"] == 100
    assert ask("commands", status=-1, admin=0, limit=1000)["rows"]["status"] == [0x281]


def test_events_levels_and_gaps(ask: Ask) -> None:
    assert ask("events", limit=2)["count"] == 8 and len(ask("events", limit=2)["rows"]) == 2
    assert {"t": 300 * MS, "name": "CLKREQ", "text": "CLKREQ# released"} in ask("events")["rows"]
    told = ask("levels", begin=400 * MS, end=650 * MS)
    assert told["clkreq"] == [[300 * MS, 1], [590 * MS, 0]] and told["link_state"] == [[301 * MS, "L1.2"], [591 * MS, "L0"]]
    assert told["perst"] == []
    assert ask("levels", begin=100 * MS, end=200 * MS)["clkreq"] == [[100 * MS, 0]]
    assert ask("levels", begin=100 * MS, end=200 * MS)["link_state"] == [[100 * MS, None]]
    often = ask("levels", begin=0, end=1000 * MS, points=8)
    assert often["clkreq"] == [[0, 0], [300 * MS, 1], [590 * MS, 0]]
    gaps = ask("gaps")
    assert ("COMMANDS", 850 * MS, 851 * MS, 3, MARKUP) in [tuple(gap.values()) for gap in gaps]
    assert sum(gap["count"] for gap in gaps if gap["kind"] == "RAIL") >= 1200
    merged = ask("gaps", points=8, begin=0, end=1000 * MS)
    assert len(merged) < len(gaps) and merged[0]["begin"] == gaps[0]["begin"] and merged[-1]["end"] == gaps[-1]["end"]


def test_a_hundred_thousand_gaps_are_a_few_where_they_are_close(tmp_path: Path) -> None:
    made = Builder(tmp_path / "capture")
    made.command(0, 1000)
    kinds = (BlockContent.RAIL, BlockContent.COMMANDS, BlockContent.EVENTS)
    made.gaps = [Gap(kinds[i // 700 % 3], i * MS, i * MS + 1000, -1 if i == 5 else 2, f"reason {i // 700}") for i in range(2100)]
    made.gaps.append(Gap(BlockContent.TLP, 5000 * MS, 5001 * MS, 1, "late"))
    made.command(5200 * MS, 1000)
    made.write()
    client = TestClient(make_app([Shown(tmp_path / "capture")], "x" * 32), base_url="http://localhost")
    few = client.get(f"/{'x' * 32}/api/0/gaps?points=100&begin=0&end={5200 * MS}").json()
    assert few == [
        {"kind": "ANY", "begin": 0, "end": 2099 * MS + 1000, "count": None, "reason": "several"},
        {"kind": "TLP", "begin": 5000 * MS, "end": 5001 * MS, "count": 1, "reason": "late"},
    ]
    near = client.get(f"/{'x' * 32}/api/0/gaps?points=100&begin={10 * MS}&end={600 * MS}").json()
    assert near == [{"kind": "RAIL", "begin": 10 * MS, "end": 600 * MS + 1000, "count": 2 * 591, "reason": "reason 0"}]
    assert len(client.get(f"/{'x' * 32}/api/0/gaps").json()) == 2101


def test_a_level_that_changes_more_often_than_can_be_drawn_says_so(tmp_path: Path) -> None:
    from starlette.testclient import TestClient
    from wattbell.view.server import make_app

    from tests.host.conftest import Builder

    made = Builder(tmp_path / "capture")
    made.events += [(i * MS, EventType.CLKREQ, i & 1, 0) for i in range(1000)]
    made.write()
    client = TestClient(make_app([Shown(tmp_path / "capture")], "x" * 32), base_url="http://localhost")
    told = client.get(f"/{'x' * 32}/api/0/levels?points=10").json()["clkreq"]
    assert 10 <= len(told) <= 24 and "*" in [value for _, value in told]
    assert told[-1] == [999 * MS, 1]


def test_a_span(ask: Ask) -> None:
    told = ask("span", begin=650 * MS, end=750 * MS)
    assert told["duration_s"] == pytest.approx(0.1)
    assert told["power"]["mean"] == pytest.approx(2, rel=1e-4) and told["missing_s"] == pytest.approx(0.012)
    assert told["energy_j"] == pytest.approx(2 * (0.1 - 0.012), rel=1e-4)
    assert told["charge_c"] == pytest.approx(2 / 3.3 * (0.1 - 0.012), rel=1e-4)
    assert "rail samples" in " ".join(told["lost"])
    write = told["commands"][0]
    assert (write["name"], write["count"], write["bytes"], write["p50_s"], write["p99_s"]) == ("write", 50, 50 * 1048576, 0.003, None)
    assert told["iops"] == pytest.approx(500) and told["mb_per_s"] == pytest.approx(50 * 1.048576 / 0.1, rel=1e-5)
    assert ask("span", begin=400 * MS, end=500 * MS)["lost"] == []


def test_a_span_without_a_sample_has_no_power(ask: Ask) -> None:
    told = ask("span", begin=100, end=200)
    assert told["power"] is None and told["energy_j"] is None


def test_histograms(ask: Ask) -> None:
    told = ask("histogram", of="power", bins=10, begin=590 * MS, end=610 * MS)
    assert told["unit"] == "W" and sum(told["counts"]) == 2000 and told["counts"][0] == told["counts"][-1] == 1000
    latency = ask("histogram", of="latency", bins=20)
    assert latency["unit"] == "s" and sum(latency["counts"]) == 249 and len(latency["edges"]) == 21
    assert "of is one of" in ask("histogram", 422, of="temperature")["error"]


def test_search(ask: Ask) -> None:
    slow = ask("find", what="command", above_s=2.9e-3)
    assert slow["begin"] == 601 * MS and slow["row"]["name"] == "write" and "3.000 ms" in slow["text"]
    assert ask("find", what="command", above_s=2.9e-3, at=slow["begin"])["begin"] == 603 * MS
    assert ask("find", what="command", above_s=2.9e-3, at=slow["begin"], direction=-1) is None
    failed = ask("find", what="command", status=0x281)
    assert failed["begin"] == 615 * MS and "2/81" in failed["text"]
    assert ask("find", what="command", slba=8 * 42 + 7, opcode=2)["begin"] == 53 * MS
    assert ask("find", what="wake-up", at=300 * MS) == {"begin": 600 * MS, "end": 600 * MS + 5_000, "text": "wake-up after 390.0 ms idle"}
    assert ask("find", what="phase", at=10 * MS)["begin"] == 600 * MS
    assert ask("find", what="phase", at=10 * MS, direction=-1) is None
    assert ask("find", what="gap")["begin"] == 702 * MS
    assert ask("find", what="event", at=300 * MS)["begin"] == 301 * MS
    assert "what is one of" in ask("find", 422, what="treasure")["error"]


def test_the_figures_are_those_of_analyze(ask: Ask, shown: Shown) -> None:
    assert ask("figures") == tree_json(figures_of(open_capture(shown.path)))


@pytest.mark.parametrize("parameters", [{"begin": "x"}, {"begin": "nan"}, {"end": "1e300"}, {"begin": 5, "end": 1}, {"points": "many"}])
def test_a_question_that_makes_no_sense_is_told(ask: Ask, parameters: dict[str, object]) -> None:
    assert "error" in ask("rail", 422, **parameters)


def test_a_span_far_outside_is_empty(ask: Ask) -> None:
    assert ask("load", begin=1e15, end=2e15, points=10)["iops"].count(0.0) > 0
    assert ask("commands", begin=1e15, end=2e15)["count"] == 0
    assert ask("rail", begin=-1e15, end=-9e14, points=10)["t"] == [0]
    assert ask("levels", begin=1e15, end=2e15)["clkreq"] == [[590 * MS, 0]]


def test_a_capture_that_is_complete_has_no_latest(ask: Ask) -> None:
    assert ask("latest", 409)["error"] == "The capture is not being recorded."


def test_numbers_have_seven_digits() -> None:
    values = np.array([0.0, np.pi, -1 / 3, 1e-9 / 7, 1.234567891e15, np.nan, np.inf, 123456.75, 9.9999999e-5])
    for value, short in zip(values, rounded(values), strict=True):
        assert short == float(f"{value:.7g}") or (np.isnan(value) and np.isnan(short))
