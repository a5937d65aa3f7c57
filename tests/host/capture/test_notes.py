"""Descriptions in a capture's own files: metadata of its tables, phases and events as annotations of its waveform."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pyjls
import pytest
from wattbell.capture import CaptureWriter, notes, open_capture, schema
from wattbell.capture.meta import load, save
from wattbell.capture.notes import Shape, annotations_of
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType

from tests.host.wire import encoder

MS = 1_000_000


def about(path: Path) -> dict[str, str]:
    return {key: value for key, value in pl.read_parquet_metadata(path).items() if key.startswith("wattbell.")}


def read(path: Path) -> list[tuple[int, Any, str]]:
    """(sample, type, text) of the annotations of the power."""
    found: list[tuple[int, Any, str]] = []
    with pyjls.Reader(str(path / "rail.jls")) as reader:
        power = next(number for number, signal in reader.signals.items() if signal.name == "power")
        reader.annotations(power, 0, lambda at, _, kind, __, text: bool(found.append((at, kind, text))))
    return found


LINE, TEXT = pyjls.AnnotationType.VMARKER, pyjls.AnnotationType.TEXT


def test_every_table_says_of_which_capture_it_is_and_what_its_numbers_are(builder) -> None:
    builder.power(0, 0.66)
    builder.command(1 * MS, 80_000)
    capture = builder.write(5 * MS)
    for table in schema.TABLES:
        found = about(capture.path / f"{table}.parquet")
        assert (found["wattbell.capture"], found["wattbell.table"]) == (capture.meta["id"], table)
        assert found["wattbell.tick_ps"] == str(capture.tick_ps)
        assert set(json.loads(found["wattbell.units"])) <= set(pq.read_schema(capture.path / f"{table}.parquet").names)
    units = json.loads(about(capture.path / "commands.parquet")["wattbell.units"])
    assert (units["cqe_tick"], units["blocks"]) == ("tick", "logical block")


def test_the_tick_is_the_one_that_the_rig_states_in_its_stream(tmp_path: Path) -> None:
    block = bytearray(encoder.status(0, 1000))
    block[32:36] = (500).to_bytes(4, "little")
    block[-4:] = zlib.crc32(block[:-4]).to_bytes(4, "little")
    with CaptureWriter(tmp_path / "c") as writer:
        writer.feed(bytes(block))
    assert about(tmp_path / "c" / "commands.parquet")["wattbell.tick_ps"] == "500"


def test_a_capture_that_is_rebuilt_keeps_its_id(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c")
    writer.feed(encoder.events(0, MS, [(MS, int(EventType.CLKREQ), 1, 0, 0)]))
    writer.save_meta()
    known = writer.meta["id"]
    writer.abandon()
    capture = open_capture(tmp_path / "c")
    assert capture.state == "recovered"
    assert capture.meta["id"] == about(capture.path / "events.parquet")["wattbell.capture"] == known


def test_a_capture_from_before_there_were_ids_is_read(builder) -> None:
    path = builder.write(1).path
    meta = load(path)
    del meta["id"]
    save(path, meta)
    assert schema.metadata("events", open_capture(path).meta)["wattbell.capture"] == ""


def test_the_waveform_has_phases_and_events_beside_it(builder) -> None:
    builder.power(0, 0.66)
    builder.phase(3, 1 * MS, 2 * MS, "read <b>")
    builder.events += [(1 * MS + 500_000, EventType.LINK, 5, 0), (1 * MS + 600_000, EventType.DLLP, 1, 0), (90 * MS, EventType.LINK, 1, 0)]
    capture = builder.write(5 * MS)
    assert [text for _, kind, text in read(capture.path) if kind == LINE] == ["1a", "1b"]
    assert [at for at, kind, _ in read(capture.path) if kind == LINE] == [100, 200]
    assert (150, TEXT, "link L1.2") in read(capture.path)
    assert not any("dllp" in text or text == "link L0" for *_, text in read(capture.path)), "too many, and behind the end"


def test_a_recorded_phase_has_its_name(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c", journal=False) as writer:
        volts = np.full(1000, 3.3, np.float32)
        writer.add_rail(0, 10_000, volts, volts)
        writer.add_markers([(1 * MS, 0x501), (2 * MS, 0x502), (3 * MS, 0x601)])
        writer.meta["workload"] = {"phases": [{"phase": 5, "name": "random read"}]}
        writer.last_tick = 9 * MS
    assert read(tmp_path / "c")[1:] == [
        (100, LINE, "1a"),
        (100, TEXT, "random read"),
        (200, LINE, "1b"),
        (300, LINE, "2a"),
        (300, TEXT, "phase 6"),
        (900, LINE, "2b"),
    ]
    assert open_capture(tmp_path / "c").rail is not None


def test_an_event_in_a_long_gap_stands_at_its_beginning_and_those_behind_it_in_their_places(tmp_path: Path) -> None:
    volts = np.full(1000, 3.3, np.float32)
    hour = 3_600_000 * MS
    with CaptureWriter(tmp_path / "c", journal=False) as writer:
        writer.add_rail(0, 10_000, volts, volts)
        writer.add_rail(hour, 10_000, volts, volts)
        rows = [(hour // 2, 1), (hour + 50 * 10_000, 5)]
        columns = {"tick": [tick for tick, _ in rows], "type": [int(EventType.LINK)] * 2, "arg8": [state for _, state in rows]}
        writer.add_rows("events", {**columns, "name": ["link"] * 2, "arg16": [0] * 2, "arg32": [0] * 2})
    stored = open_capture(tmp_path / "c").meta["rail"]["stored_samples"]
    assert read(tmp_path / "c")[1:] == [(stored - 1001, TEXT, "link L0"), (stored - 950, TEXT, "link L1.2")]


def test_a_flood_of_events_ends_with_a_word(monkeypatch: pytest.MonkeyPatch, builder) -> None:
    monkeypatch.setattr(notes, "MOST_EVENTS", 3)
    builder.power(0, 0.66)
    builder.events += [(n * 100_000, EventType.CLKREQ, n % 2, 0) for n in range(10)]
    texts = [text for *_, text in read(builder.write(5 * MS).path)]
    assert "MODEL" in texts[0] and len(texts) == 5
    assert "events.parquet" in texts[4]


def test_annotations_are_in_order_of_time_and_leave_out_markers() -> None:
    found = annotations_of([(1, 10, 40)], {1: "x"}, [(5, 2, 1, 0, 0), (20, 7, 0, 0, 0x101), (30, 7, 1, 0, 9)])
    assert [(one.tick, one.shape) for one in found] == [
        (5, Shape.TEXT),
        (10, Shape.BEGIN),
        (10, Shape.TEXT),
        (30, Shape.TEXT),
        (40, Shape.END),
    ]


def test_a_capture_without_rail_has_none(builder) -> None:
    builder.events.append((MS, EventType.CLKREQ, 1, 0))
    builder.gaps.append(Gap(BlockContent.RAIL, 0, MS, -1, "test"))
    assert read(builder.write().path) == []
