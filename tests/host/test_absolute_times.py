"""When something was: every time that leaves the host software, against the ticks that were written into a capture by hand.

The capture does not begin at tick 0, so that a time from the wrong origin shows, and nothing in it lies on a round number of samples. The
rail's samples are read with pyjls, tables with Polars."""

from __future__ import annotations

import configparser
import csv
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyjls
import pytest
import wattbell
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from starlette.testclient import TestClient
from wattbell.capture import Capture
from wattbell.clocks.edges import HostEdges, find_steps, match_edges
from wattbell.export import FORMATS, export_csv, export_sigrok
from wattbell.view.server import make_app
from wattbell.view.shown import Shown
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType, LinkState

MS, US = 1_000_000, 1_000
ZERO = 3 * MS + 70 * US
"""The capture's first tick: the rail's first sample."""
INTERVAL = 10 * US
STEP = 23 * MS + 456 * US
"""From here on the rail draws 2 W instead of 0.5 W: its first such sample is the next of the grid,"""
STEP_SAMPLE = 23 * MS + 460 * US
READ, LATENCY = 20 * MS + 1_234, 80_777
WRITE, WRITE_LATENCY = 31 * MS + 999, 44_001
LINK_AT, LOST_AT = 17 * MS + 321, (26 * MS + 5, 27 * MS + 9)
PHASE = (12 * MS + 11, 33 * MS + 77)
END = 40 * MS


@pytest.fixture
def capture(builder: Any) -> Capture:
    """Two commands, a step of the rail, a change of the link's state, a loss and a phase, each at a tick of its own."""
    builder.begin = ZERO
    builder.power(0, 0.5)
    builder.power(STEP, 2.0)
    builder.phase(1, *PHASE, "one")
    builder.command(READ, LATENCY, blocks=8)
    builder.command(WRITE, WRITE_LATENCY, opcode=1, blocks=16)
    builder.events.append((LINK_AT, EventType.LINK, int(LinkState.L1_2), 0))
    builder.gaps.append(Gap(BlockContent.COMMANDS, *LOST_AT, 3, "lost"))
    written: Capture = builder.write(END)
    return written


def since(tick: float) -> float:
    """Seconds from the capture's first tick."""
    return (tick - ZERO) * 1e-9


def exactly(seconds: float) -> Any:
    """To a thousandth of a tick."""
    return pytest.approx(seconds, rel=0, abs=1e-12)


def samples(capture: Capture) -> tuple[int, np.ndarray]:
    """Tick of the first sample and power of each, as pyjls and the capture's description have them."""
    about = json.loads((capture.path / "meta.json").read_text())["rail"]
    with pyjls.Reader(str(capture.path / "rail.jls")) as reader:
        (signal,) = [one for one in reader.signals.values() if one.name == "power"]
        return int(about["first_tick"]), reader.fsr(signal.signal_id, 0, signal.length)


def test_the_capture_holds_what_was_written(capture: Capture) -> None:
    first, power = samples(capture)
    assert first == ZERO and first + int(np.argmax(power > 1)) * INTERVAL == STEP_SAMPLE
    rows = pl.read_parquet(capture.path / "commands.parquet").filter(pl.col("qid") > 0)
    assert rows["doorbell_tick"].to_list() == [READ, WRITE] and rows["cqe_tick"].to_list() == [READ + LATENCY, WRITE + WRITE_LATENCY]


def test_rail_samples_in_python(capture: Capture) -> None:
    opened = wattbell.open(capture.path)
    rail = opened.rail()
    assert rail["t_s"][0] == exactly(0.0)
    assert rail.filter(pl.col("power_w") > 1)["t_s"][0] == exactly(since(STEP_SAMPLE))
    part = opened.rail(since(STEP - 3 * US), since(STEP + 22 * US))
    assert part["t_s"].to_list() == [exactly(since(STEP_SAMPLE)), exactly(since(STEP_SAMPLE + INTERVAL))]


def test_rail_points_in_python_are_at_the_middle_of_their_samples(capture: Capture) -> None:
    begin = ZERO + 1000 * INTERVAL
    points = wattbell.open(capture.path).rail(since(begin), since(begin + 40 * INTERVAL), points=10)
    assert points["t_s"].to_list() == [exactly(since(begin + (4 * k + 1.5) * INTERVAL)) for k in range(10)]


def test_commands_events_gaps_and_phases_in_python(capture: Capture) -> None:
    opened = wattbell.open(capture.path)
    rows = opened.commands.collect()
    assert rows["t_s"].to_list() == [exactly(since(READ)), exactly(since(WRITE))]
    assert rows["latency_s"].to_list() == [exactly(LATENCY * 1e-9), exactly(WRITE_LATENCY * 1e-9)]
    assert opened.events.filter(pl.col("name") == "LINK")["t_s"].to_list() == [exactly(since(LINK_AT))]
    (gap,) = opened.gaps.filter(pl.col("kind") == "COMMANDS").rows(named=True)
    assert (gap["t0_s"], gap["t1_s"]) == (exactly(since(LOST_AT[0])), exactly(since(LOST_AT[1])))
    (phase,) = opened.phases.rows(named=True)
    assert (phase["t0_s"], phase["t1_s"]) == (exactly(since(PHASE[0])), exactly(since(PHASE[1])))
    assert opened.phases["duration_s"][0] == exactly((PHASE[1] - PHASE[0]) * 1e-9)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_csv(capture: Capture, tmp_path: Path) -> None:
    files = {path.name: table(path) for path in export_csv(capture, tmp_path / "csv")}
    commands = [row for row in files["commands.csv"] if row["qid"] != "0"]
    nearly = lambda seconds: pytest.approx(seconds, rel=0, abs=0.6e-9)  # noqa: E731 - nine decimals
    assert [float(row["doorbell_s"]) for row in commands] == [nearly(since(READ)), nearly(since(WRITE))]
    assert [float(row["cqe_s"]) for row in commands] == [nearly(since(READ + LATENCY)), nearly(since(WRITE + WRITE_LATENCY))]
    (link,) = [row for row in files["events.csv"] if row["name"] == "LINK"]
    assert float(link["time_s"]) == nearly(since(LINK_AT)) and int(link["tick"]) == LINK_AT
    rail = files["rail.csv"]
    assert float(rail[0]["time_s"]) == nearly(0.0)
    assert next(float(row["time_s"]) for row in rail if float(row["power_w"]) > 1) == nearly(since(STEP_SAMPLE))
    depth = [(int(row["tick"]), int(row["depth"])) for row in files["queue-depth.csv"]][1:]
    assert depth == [(READ, 1), (READ + LATENCY, 0), (WRITE, 1), (WRITE + WRITE_LATENCY, 0)]
    assert float(files["queue-depth.csv"][1]["time_s"]) == nearly(since(READ))


def test_csv_of_means_of_samples_is_at_their_middle(capture: Capture, tmp_path: Path) -> None:
    export_csv(capture, tmp_path / "csv", rail_every=4)
    rail = table(tmp_path / "csv" / "rail.csv")
    assert [float(row["time_s"]) for row in rail[:3]] == [pytest.approx((4 * k + 1.5) * INTERVAL * 1e-9, abs=1e-9) for k in range(3)]


@pytest.mark.parametrize(("rate_hz", "start_s"), [(1_000_000, None), (3_000_000, None), (1_000_000, 0.0100005)])
def test_sigrok(capture: Capture, tmp_path: Path, rate_hz: int, start_s: float | None) -> None:
    """A strobe is in the first sample at or after it; analog is the last rail sample at or before."""
    made = export_sigrok(capture, tmp_path / "x.sr", samplerate_hz=rate_hz, start_s=start_s)
    first = ZERO if start_s is None else ZERO + round(start_s * 1e9)
    assert made.start_s == exactly(since(first))
    with zipfile.ZipFile(made.path) as archive:
        about = configparser.ConfigParser()
        about.read_string(archive.read("metadata").decode())
        logic = np.frombuffer(archive.read("logic-1-1"), "<u2")
        device = about["device 1"]
        probes = {device[name]: int(name.removeprefix("probe")) - 1 for name in device if name.startswith("probe")}
        power = np.frombuffer(archive.read(f"analog-1-{len(probes) + 3}-1"), "<f4")

    def at(name: str) -> list[int]:
        return np.flatnonzero(logic >> probes[name] & 1).tolist()

    def place(tick: int) -> int:
        return math.ceil((tick - first) * rate_hz / 1e9)

    assert {place(READ), place(WRITE)} <= set(at("DOORBELL")) and len(at("DOORBELL")) <= 4, "with the markers"
    assert {place(READ + LATENCY), place(WRITE + WRITE_LATENCY)} <= set(at("CQE"))
    assert int(np.argmax(power > 1)) == place(STEP_SAMPLE)
    link = logic >> probes["LINK0"] & 7
    assert int(np.argmax(link == int(LinkState.L1_2))) == place(LINK_AT)


def test_vcd(capture: Capture, tmp_path: Path) -> None:
    """Nanoseconds: the CLKREQ# and link lines are not there before they are known, a command's line rises at its doorbell."""
    path = FORMATS["vcd"].write(capture, ZERO, END, tmp_path / "x.vcd")
    text = path.read_text()
    names = dict(reversed(line.split()[3:5]) for line in text.splitlines() if line.startswith("$var"))
    changes: dict[str, list[int]] = {}
    now = 0
    for line in text.partition("$enddefinitions $end")[2].splitlines():
        if line.startswith("#"):
            now = int(line[1:])
        elif line and line[0] in "01xzbrs":
            symbol = line.split()[1] if " " in line else line[1:]
            changes.setdefault(symbol, []).append(now)
    seen = {tick for ticks in changes.values() for tick in ticks}
    unit = 1  # ns
    assert "$timescale 1 ns" in text and names
    for tick in (READ, READ + LATENCY, WRITE, WRITE + WRITE_LATENCY, LINK_AT, STEP_SAMPLE):
        assert (tick - ZERO) * unit in seen, tick
    assert max(seen) <= END - ZERO


def test_perfetto(capture: Capture, tmp_path: Path) -> None:
    trace = Trace()
    trace.ParseFromString(FORMATS["perfetto"].write(capture, ZERO, END, tmp_path / "x.pftrace").read_bytes())
    begins = {
        (packet.track_event.name, packet.timestamp)
        for packet in trace.packet
        if packet.HasField("track_event") and packet.track_event.type == TrackEvent.TYPE_SLICE_BEGIN
    }
    assert {tick for name, tick in begins if name.startswith("read")} == {READ - ZERO}
    assert {tick for name, tick in begins if name.startswith("write")} == {WRITE - ZERO}
    counted = [packet for packet in trace.packet if packet.HasField("track_event") and packet.track_event.type == TrackEvent.TYPE_COUNTER]
    assert STEP_SAMPLE - ZERO in {packet.timestamp for packet in counted}


@pytest.fixture
def ask(capture: Capture) -> Callable[..., Any]:
    client = TestClient(make_app([Shown(capture.path)], "T" * 32), base_url="http://127.0.0.1:5000")

    def question(name: str, **parameters: Any) -> Any:
        answer = client.get(f"/{'T' * 32}/api/0/{name}", params=parameters)
        assert answer.status_code == 200, answer.text[:200]
        return answer.json()

    return question


def test_view(ask: Callable[..., Any]) -> None:
    about = ask("capture")
    assert (about["origin_tick"], about["begin"]) == (ZERO, 0)
    assert [(phase["begin"], phase["end"]) for phase in about["phases"]] == [(PHASE[0] - ZERO, PHASE[1] - ZERO)]
    near = ask("rail", begin=STEP - 25 * US - ZERO, end=STEP + 25 * US - ZERO, points=50)
    assert near["raw"] and next(t for t, w in zip(near["t"], near["power"]["mean"], strict=True) if w > 1) == STEP_SAMPLE - ZERO
    rows = ask("commands", limit=100, admin=0)["rows"]
    assert rows["doorbell"] == [READ - ZERO, WRITE - ZERO] and rows["cqe"] == [READ + LATENCY - ZERO, WRITE + WRITE_LATENCY - ZERO]
    (link,) = [row for row in ask("events")["rows"] if row["name"] == "LINK"]
    assert link["t"] == LINK_AT - ZERO
    load = ask("load", begin=READ - ZERO - 5 * MS, end=READ - ZERO + 5 * MS, points=200)
    (busy,) = [t for t, rate in zip(load["t"], load["read_mb_per_s"], strict=True) if rate]
    assert abs(busy - (READ + LATENCY - ZERO)) <= load["width"] / 2, "the bin in which the read completed, at its middle"


def test_the_middle_of_an_instant_of_the_hosts_is_its_middle() -> None:
    edges = HostEdges(np.array([1.0, 4.0]), np.array([1.5, 4.25]), np.array([True, False]), np.array([True, True]))
    assert edges.middle_s.tolist() == [1.25, 4.125]


def test_a_step_lies_between_the_samples_around_it() -> None:
    """1 W from 0.5 s on, samples every ms: the last of before and the first of behind, each half an interval further out."""
    time = np.arange(1000) * 1e-3
    power = np.where(time >= 0.5, 1.0, 0.2) + np.random.default_rng(1).normal(0, 1e-4, 1000)
    edges = HostEdges(np.array([0.498]), np.array([0.502]), np.array([True]), np.array([True]))
    steps = find_steps(time, power, edges, edges.middle_s, 0.01, 0.02)
    assert (steps.first_s[0], steps.last_s[0]) == (pytest.approx(0.4985, abs=1e-9), pytest.approx(0.5005, abs=1e-9))


def test_a_meters_clock_is_placed_where_the_steps_are() -> None:
    """The host is 5 s ahead, and knows its instants within 200 ms. The drive reacts at once. The offset follows from the steps, not from
    an end of the instants; its remaining bound is the delay that the drive may have."""
    time = np.arange(0, 12, 1e-3)
    spans = [(1.0, 2.0), (3.0, 5.5), (7.0, 7.8), (9.0, 10.5)]
    power = np.full(len(time), 0.5) + np.random.default_rng(2).normal(0, 1e-3, len(time))
    for begin, end in spans:
        power[(time >= begin) & (time < end)] += 2.0
    found = match_edges(time, power, [(a + 5.0, b + 5.0, 0.2) for a, b in spans], offset_limit_s=6.0, drift_limit=0.0)
    placed = found.to_reference(np.array([0, 10**10])) * 1e-9
    assert np.abs(placed - np.array([5.0, 15.0])).max() <= found.bound_s <= 0.21
    assert np.abs(placed - np.array([5.0, 15.0])).max() <= 0.006, "half of what a drive may be late by, and a sample"
