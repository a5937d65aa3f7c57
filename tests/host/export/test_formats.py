"""Windows exported for other programs, read back with readers that are not ours: Polars and pyarrow, pyjls, sigrok-cli, wellen (Surfer's
reader of VCD), and the messages of Perfetto's own schema."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pyjls
import pytest
import pywellen
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
from typer.testing import CliRunner
from wattbell.capture import open_capture
from wattbell.capture.jlsfaults import Watch
from wattbell.cli.app import app
from wattbell.errors import CaptureError, UsageError
from wattbell.export import FORMATS, export_jls, export_parquet, export_perfetto, export_vcd
from wattbell.export import perfetto as perfetto_export
from wattbell.export import vcd as vcd_export
from wattbell.export.lanes import lanes
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType

MS, US = 1_000_000, 1_000
BEGIN, END = 12 * MS, 16 * MS


@pytest.fixture
def capture(builder):
    """Commands that overlap each other and both ends of the window 12 to 16 ms, three of one queue at once, a hole in the rail."""
    builder.power(0, 0.66)
    builder.power(13 * MS + 5_000, 1.32)
    builder.hole = (15 * MS, 16 * MS)
    builder.events += [(0, EventType.PERST, 1, 0), (0, EventType.CLKREQ, 0, 0), (12 * MS + 7, EventType.CLKREQ, 1, 0)]
    builder.events += [(13 * MS, EventType.CLKREQ, 0, 0), (3 * MS, EventType.LINK, 1, 0), (15 * MS, EventType.LINK, 5, 0)]
    builder.phase(1, 11 * MS, 15 * MS + 500_000, "random read <b>&")
    builder.command(11 * MS + 950_000, 100 * US, slba=5)
    data = {"first_data_tick": 12 * MS + 20 * US, "last_data_tick": 12 * MS + 35 * US}
    builder.command(12 * MS + 10 * US, 30 * US, **data)
    builder.command(12 * MS + 20 * US, 90 * US, opcode=1, qid=2, blocks=256, slba=0xFFFF)
    builder.command(12 * MS + 20 * US, 10 * US)
    builder.command(12 * MS + 30 * US, 20 * US, fetch_tick=None)
    builder.command(15 * MS + 990 * US, 100 * US, opcode=0xC3)
    builder.command(17 * MS, 10 * US)
    builder.command(13 * MS, 2 * MS, qid=0, opcode=6, status=0x4002)
    builder.gaps.append(Gap(BlockContent.COMMANDS, 13 * MS, 13 * MS + 500_000, 4, "lost"))
    return builder.write(20 * MS)


def overlapping(capture) -> pl.DataFrame:
    start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
    return pl.read_parquet(capture.path / "commands.parquet").filter((pl.col("cqe_tick") >= BEGIN) & (start < END)).sort(start)


def written(capture, name: str, folder: Path) -> Path:
    form = FORMATS[name]
    return form.write(capture, BEGIN, END, folder / f"x{form.suffix}")


def test_parquet_has_names_units_and_all_that_was_in_flight(capture, tmp_path):
    with zipfile.ZipFile(written(capture, "parquet", tmp_path)) as archive:
        archive.extractall(tmp_path)
    found = pl.read_parquet(tmp_path / "commands.parquet")
    assert found.select(overlapping(capture).columns).equals(overlapping(capture))
    named = set(found.select("opcode", "is_admin", "opcode_name").rows())
    assert named == {(2, False, "read"), (1, False, "write"), (0xC3, False, None), (6, True, "identify"), (10, True, "get_features")}
    assert found.filter(pl.col("opcode_name") == "write")["bytes"].to_list() == [256 * 512]
    assert found["latency_ticks"].to_list() == (found["cqe_tick"] - found["doorbell_tick"]).to_list()
    about = {key.decode(): value.decode() for key, value in pq.read_metadata(tmp_path / "commands.parquet").metadata.items()}
    assert about["wattbell.tick_ps"] == "1000"
    units = json.loads(about["wattbell.units"])
    assert (units["cqe_tick"], units["latency_ticks"], units["bytes"]) == ("tick", "tick", "byte")
    assert about["wattbell.window"] == f"{BEGIN} {END}"
    events = pl.read_parquet(tmp_path / "events.parquet")
    assert events.select("tick", "text").rows() == [
        (12 * MS + 7, "CLKREQ# released"),
        (13 * MS, "CLKREQ# asserted"),
        (15 * MS, "link L1.2"),
        (15 * MS + 500_000, "marker 00000102h"),
    ]


def notes(path: Path) -> list[tuple[int, Any, str]]:
    found = []
    with pyjls.Reader(str(path)) as reader:
        power = next(number for number, signal in reader.signals.items() if signal.name == "power")
        reader.annotations(power, 0, lambda at, _, kind, __, text: bool(found.append((at, kind, text))))
    return found


def test_jls_has_the_samples_and_its_phases_and_events_as_annotations(capture, tmp_path):
    path = written(capture, "jls", tmp_path)
    low, high = BEGIN // 10_000, END // 10_000
    with pyjls.Reader(str(path)) as reader:
        for signal in reader.signals.values():
            if signal.name == "power":
                assert signal.length == high - low
                assert np.array_equal(reader.fsr(signal.signal_id, 0, high - low), capture.rail.power(low, high), equal_nan=True)
    assert np.isnan(capture.rail.power(low, high)).sum() == 100
    line, text = pyjls.AnnotationType.VMARKER, pyjls.AnnotationType.TEXT
    assert notes(path) == [
        (0, text, "MODEL: computed on the virtual rig, not measured"),
        (0, line, "1a"),
        (0, text, "CLKREQ# released"),
        (100, text, "CLKREQ# asserted"),
        (300, text, "link L1.2"),
        (350, line, "1b"),
    ]
    assert not list(tmp_path.glob(".*")), "no scratch is left"


def test_jls_names_phases_and_needs_samples(capture, tmp_path):
    whole = notes(export_jls(capture, tmp_path / "x.jls"))
    assert (1100, pyjls.AnnotationType.TEXT, "random read <b>&") in whole
    with pytest.raises(UsageError, match="no rail samples"):
        FORMATS["jls"].write(capture, BEGIN + 1, BEGIN + 2, tmp_path / "y.jls")


class Slices:
    """The slices, instants and counters of a trace by name of track, after the rules of TrackEvents: a slice's end closes the latest open
    one of its track."""

    def __init__(self, path: Path) -> None:
        trace = Trace()
        trace.ParseFromString(path.read_bytes())
        tracks = {packet.track_descriptor.uuid: packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")}
        self.slices: dict[str, list[tuple[int, int, str, dict[str, Any]]]] = defaultdict(list)
        self.counts: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.instants: list[tuple[int, str]] = []
        open_: dict[int, list[Any]] = defaultdict(list)
        events = sorted((packet for packet in trace.packet if packet.HasField("track_event")), key=lambda packet: packet.timestamp)
        for packet in events:
            event, at = packet.track_event, packet.timestamp
            about = tracks[event.track_uuid]
            name = tracks[about.parent_uuid].name if about.parent_uuid and not about.HasField("counter") else about.name
            if event.type == TrackEvent.TYPE_COUNTER:
                self.counts[about.name].append((at, event.double_counter_value))
            elif event.type == TrackEvent.TYPE_INSTANT:
                self.instants.append((at, event.name))
            elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
                assert not open_[event.track_uuid], "slices of one lane follow each other"
                values = {one.name: one.string_value if one.HasField("string_value") else one.int_value for one in event.debug_annotations}
                open_[event.track_uuid].append((at, event.name, values))
            else:
                begin, text, values = open_[event.track_uuid].pop()
                self.slices[name].append((begin, at, text, values))
        assert not any(open_.values())


def test_perfetto_has_commands_by_queue_and_the_rail(capture, tmp_path):
    path = written(capture, "perfetto", tmp_path)
    found = Slices(path)
    rows = overlapping(capture)
    for qid, name in ((0, "Admin queue"), (1, "I/O queue 1"), (2, "I/O queue 2")):
        mine = rows.filter(pl.col("qid") == qid)
        wanted = sorted(zip(mine["doorbell_tick"], mine["cqe_tick"], mine["cid"]))
        assert sorted((a, b, values["cid"]) for a, b, _, values in found.slices[name]) == wanted
    write = found.slices["I/O queue 2"][0]
    assert write[2] == "write"
    assert (write[3]["lba"], write[3]["bytes"], write[3]["fetch_ns"]) == (0xFFFF, 256 * 512, 12 * MS + 20 * US + 500)
    assert found.slices["Admin queue"][0][3]["status"].startswith("0/02")
    assert found.slices["Phases"] == [(11 * MS, 15 * MS + 500_000, "random read <b>&", {"phase": 1, "kind": "fio"})]
    power = capture.rail.power(BEGIN // 10_000, END // 10_000)
    assert [value for _, value in found.counts["power"]] == pytest.approx(power[np.isfinite(power)].tolist())
    assert all(at in range(BEGIN, END) for at, _ in found.counts["power"])
    assert max(value for _, value in found.counts["Queue depth"]) == 4
    assert [(a, b, text) for a, b, text, _ in found.slices["CLKREQ#"]] == [
        (BEGIN, BEGIN + 7, "asserted"),
        (BEGIN + 7, 13 * MS, "released"),
        (13 * MS, END, "asserted"),
    ]
    assert (15 * MS, "link L1.2") in found.instants
    assert [(a, b, text) for a, b, text, _ in found.slices["Missing: COMMANDS"]] == [(13 * MS, 13 * MS + 500_001, "lost")]
    assert "Missing: RAIL" in found.slices


def trace_processor() -> str | None:
    """Perfetto's own reader, where the machine has it: its package fetches it from the network when it is first used, a test never."""
    cached = list((Path.home() / ".local/share/perfetto/prebuilts").glob("trace_processor_shell-*"))
    return os.environ.get("WATTBELL_TRACE_PROCESSOR") or shutil.which("trace_processor_shell") or (str(cached[0]) if cached else None)


@pytest.mark.skipif(trace_processor() is None, reason="trace_processor_shell is not on this machine, and tests fetch nothing")
def test_perfetto_as_its_trace_processor_reads_it(capture, tmp_path):
    path = written(capture, "perfetto", tmp_path)
    with TraceProcessor(trace=str(path), config=TraceProcessorConfig(bin_path=trace_processor())) as reader:
        count = "select count(*) as n from slice where name in ('read', 'write', 'identify', 'opcode_c3')"
        assert next(iter(reader.query(count))).n == len(overlapping(capture))
        assert not list(reader.query("select name from stats where severity = 'error' and value > 0"))


def test_a_longer_window_has_means_of_the_rail_in_a_trace_and_says_so(capture, tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto_export, "MOST_RAIL_ROWS", 100)
    monkeypatch.setattr(vcd_export, "MOST_RAIL_ROWS", 100)
    path = written(capture, "perfetto", tmp_path)
    assert b"Rail (means of 4 samples)" in path.read_bytes()
    counts = Slices(path).counts["power"]
    assert len(counts) <= 75, "rows with a missing sample have no mean"
    assert [value for at, value in counts if at < 13 * MS] == pytest.approx([0.66] * 25, rel=1e-5)
    assert "means of 4 samples" in written(capture, "vcd", tmp_path).read_text()[:200]


def test_vcd_as_wellen_reads_it(capture, tmp_path):
    path = written(capture, "vcd", tmp_path)
    wave = pywellen.Waveform(str(path))
    signals = {variable.full_name: list(variable.signal) for variable in wave.all_vars()}
    assert str(wave.timescale) == "1ns"
    power = {at: value for at, value in signals["wattbell.rail.power"] if at > BEGIN}
    low = BEGIN // 10_000
    for sample in range(low + 1, END // 10_000):
        value = float(capture.rail.power(sample, sample + 1)[0])
        held = [v for at, v in power.items() if at <= sample * 10_000] or [signals["wattbell.rail.power"][0][1]]
        assert held[-1] == pytest.approx(value, nan_ok=True)
    assert signals["wattbell.pins.CLKREQ#"] == [(BEGIN, 0), (BEGIN + 7, 1), (13 * MS, 0)]
    assert [word for _, word in signals["wattbell.pins.LINK_STATE"]] == ["L0", "L1.2"]
    assert signals["wattbell.missing.commands"] == [(BEGIN, 0), (13 * MS, 1), (13 * MS + 500_001, 0)]
    slots = sorted(name for name in signals if name.startswith("wattbell.q1.") and name.endswith("_state"))
    begun = sum(state == "submitted" for name in slots for _, state in signals[name])
    assert begun >= len(overlapping(capture).filter((pl.col("qid") == 1) & (pl.col("doorbell_tick") >= BEGIN)))
    late = [next(state for at, state in reversed(signals[name]) if at <= BEGIN + 34 * US) for name in slots]
    assert sorted(filter(None, late)) == ["data", "fetched", "submitted"], "with data; from before the window; whose fetch was not seen"
    busy = [next(value for at, value in reversed(signals[name.replace("state", "busy")]) if at <= BEGIN + 34 * US) for name in slots]
    assert busy == [int(bool(state)) for state in late]
    texts = {text for name in signals if name.endswith("_command") for _, text in signals[name]}
    assert "write_cid_4_lba_65535_131072_B" in texts
    assert any("_lba_" not in text for text in texts) and not any("_lba_" in text and "C3" in text for text in texts)


@pytest.mark.needs("sigrok-cli")
def test_vcd_as_sigrok_reads_its_pins(capture, tmp_path):
    path = written(capture, "vcd", tmp_path)
    command = ["sigrok-cli", "-i", path, "-I", "vcd:downsample=1000", "-O", "csv"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    lines = [line.split(",") for line in done.stdout.splitlines() if line[:1] in "01"]
    head = next(line for line in done.stdout.splitlines() if ("CLKREQ#" in line and "logic" in line) or "Channels" in line)
    column = [name.strip() for name in head.split(":", 1)[1].split(",")].index("CLKREQ#")
    levels = [int(row[column]) for row in lines]
    assert levels.count(1) == pytest.approx(1000, abs=2), "released for 1 ms"
    assert len(levels) == END // US


def test_lanes_hold_what_does_not_overlap():
    start = np.array([0, 0, 5, 10, 10, 30])
    end = np.array([10, 20, 6, 12, 40, 31])
    assert lanes(start, end).tolist() == [0, 1, 2, 0, 2, 0]


@pytest.mark.parametrize("name", FORMATS)
def test_a_window_outside_the_capture_is_refused_by_every_format(capture, tmp_path, name):
    with pytest.raises(UsageError, match="Nothing lies between"):
        FORMATS[name].write(capture, 21 * MS, 22 * MS, tmp_path / "x")


@pytest.mark.parametrize("name", ["csv", "parquet", "perfetto", "vcd", "sr"])
def test_a_capture_without_rail_or_events_or_phases(builder, tmp_path, name):
    builder.command(1 * MS, 80 * US)
    capture = builder.write()
    assert FORMATS[name].write(capture, 0, 2 * MS, tmp_path / "x").stat().st_size > 0


@pytest.mark.parametrize("name", ["csv", "parquet", "perfetto", "vcd", "sr"])
def test_a_capture_with_the_rail_alone(builder, tmp_path, name):
    builder.power(0, 0.66)
    capture = builder.write(5 * MS)
    assert FORMATS[name].write(capture, 1 * MS, 2 * MS, tmp_path / "x").stat().st_size > 0


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "sr"])
def test_a_full_disk_is_one_line(capture, tmp_path, name):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(CaptureError, match=r"cannot be written.*(large|space|27).*choose another place\.$"):
            FORMATS[name].write(capture, BEGIN, END, tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.glob(".x*")), "no scratch is left"


def test_too_many_commands_are_refused(capture, tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto_export, "MOST_COMMANDS", 3)
    monkeypatch.setattr(vcd_export, "MOST_COMMANDS", 3)
    for write in (export_perfetto, export_vcd):
        with pytest.raises(UsageError, match="shorter window"):
            write(capture, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_without_the_package_the_error_names_the_extra(capture, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    with pytest.raises(UsageError, match=r"package perfetto, which is not installed: .*pip install -r .*/requirements/perfetto\.txt"):
        export_perfetto(capture, tmp_path / "x")


@pytest.mark.parametrize(("command", "out"), [("jls", "x.jls"), ("perfetto", "x.pftrace"), ("vcd", "x.vcd"), ("parquet", "tables")])
def test_the_command_line_writes_a_window(capture, tmp_path, command, out):
    words = ["export", command, str(capture.path), "--out", str(tmp_path / out), "--from", "0.012", "--to", "0.016", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    paths = [Path(path) for path in json.loads(done.output)["written"]]
    assert all(path.stat().st_size for path in paths)
    assert [path.name for path in paths] == (["commands.parquet", "events.parquet"] if command == "parquet" else [out])


def test_parquet_of_the_whole_capture(capture, tmp_path):
    paths = export_parquet(capture, tmp_path / "tables")
    assert len(pl.read_parquet(paths[0])) == len(pl.read_parquet(capture.path / "commands.parquet"))
    assert open_capture(capture.path).commands.collect().height == len(pl.read_parquet(paths[0]))
    assert not Watch().seen()
