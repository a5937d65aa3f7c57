"""Values of a capture, number by number: a short stream with every value worked out by hand."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture import writer as writer_module
from wattbell.capture.meta import NAME, UNITS
from wattbell.errors import CaptureError
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent

from tests.host.capture.streams import recorded, run
from tests.host.wire import encoder as e

FLUSH = 10_000_000
UTC = 1_700_000_000_000_000_000
"""2023-11-14 22:13:20 UTC."""


def status(
    number: int, tick: int, run: int, lost: tuple[int, ...] = (0,) * 5, commands: int = 0, bar0: int = 0, tick_ps: int = 1000
) -> bytes:
    """A STATUS block with the fields that the encoder leaves at 0; `lost`: TLPs, commands, records, events, samples."""
    payload = struct.pack("<IIHHHHHBBIIIHH", 0x010203, tick_ps, 4, 128, 64, 1024, 18, run, 2, 20, 500, 1000, 4, 0)
    payload += struct.pack("<QQQ", 11, 12, commands) + struct.pack("<9I", 13, 14, 15, *lost, 21) + struct.pack("<Q", bar0)
    return bytes(e.block(5, number, tick, payload))


def test_meta_of_a_short_stream(tmp_path: Path) -> None:
    samples = [(165_000, 2000)] * 10
    stream = [
        status(0, 500, 1),
        e.events(1, 500, [(500, 15, 1, 0, 0)]),
        e.commands(2, 900, [e.Command(1000, 100), e.Command(2000, 100)]),
        e.rail(3, 4000, samples, interval=4000, flags=0x10),
        e.rail(4, 4000 + 20 * 4000, samples, interval=4000, flags=0x01, dropped=10),
        e.events(
            5,
            100_000,
            [
                (100_000, 7, 0, 0, 257),
                (100_500, 7, 1, 0, 9),
                (100_600, 8, 2, 0, 3),
                (100_700, 8, 200, 0, 1),
                (100_800, 8, 2, 0, 4),
                (101_000, 15, 0, 0, 0),
            ],
        ),
        status(6, 101_000, 0, lost=(16, 17, 18, 19, 20), commands=2, bar0=0xFE00_0000),
    ]
    with CaptureWriter(tmp_path / "c", rig={"model": "m", "serial": "s"}, conditions={"virtual": True}) as writer:
        for k, piece in enumerate(stream):
            writer.feed(piece, UTC + k * 10**9)
        assert writer.markers == [(100_000, 257), (100_500, 9)]
        assert writer.last_tick == 101_000
        counts = {"commands": 2, "rail_blocks": 2, "events": 7, "tlps": 0, "gaps": 1, "status": 2, "link": 0}
        assert writer.counts() == {**counts, "samples": 30}
    capture = open_capture(tmp_path / "c")
    meta = capture.meta
    assert meta["rig"] == {
        "model": "m",
        "serial": "s",
        "gateware": "1.2.3",
        "clock_ticks": 4,
        "tlp_width": 128,
        "queues": 64,
        "slots": 1024,
        "adc_bits": 18,
        "dstrd": 2,
        "bar0": 0xFE00_0000,
    }
    # the first block alone waits for another: the second one's tick is the first the host has seen, 1 s after the start
    assert meta["clock"] == {"tick_ps": 1000, "utc_anchor": {"tick": 500, "utc_ns": UTC + 10**9, "utc": "2023-11-14T22:13:21.000000Z"}}
    assert meta["rail"] == {
        "first_tick": 4000,
        "interval_ticks": 4000,
        "samples": 30,
        "stored_samples": 30,
        "breaks": 0,
        "missing_samples": 10,
        "flags": 0x11,
        "adc_period_ticks": 1000,
        "decimation": 4,
    }
    loss = dict(meta["loss"])
    assert loss.pop("dropped") == {"COMMANDS": 0, "RAIL": 10, "EVENTS": 0, "TLP": 0, "STATUS": 0, "LINK": 0}
    lost = ("tlps", "commands", "records", "events", "samples")
    grown = {f"lost_{name}": 16 + k for k, name in enumerate(lost)}
    assert loss.pop("rig") == {**grown, "lost_pages": 0, "malformed": 0, "unmatched": 0}, "21 pages were lost before this run"
    assert loss.pop("rig_events") == {"slots": 7, "source_200": 1}
    # 16 TLPs; 17 commands less 7 that events tell of, 18 records; 19 events; 10 samples more than the next block says
    assert loss.pop("gaps") == {"RAIL": 2, "ANY": 1, "COMMANDS": 2, "EVENTS": 1}
    counted = capture.gaps.filter(pl.col("reason").str.contains("by its counter")).select("kind", "count", "first_tick", "last_tick")
    assert sorted(counted.collect().rows()) == [
        ("ANY", -1, 500, 101_000),
        ("COMMANDS", 10, 500, 101_000),
        ("COMMANDS", 18, 500, 101_000),
        ("EVENTS", 19, 500, 101_000),
        ("RAIL", 10, 500, 101_000),
    ]
    size = sum(map(len, stream))
    assert (loss.pop("bytes_in"), loss.pop("bytes_accepted"), loss.pop("blocks"), loss.pop("lossless")) == (size, size, 7, False)
    assert set(loss.values()) == {0}
    assert meta["counts"] == {**counts, "gaps": 6}
    assert meta["journal"] == {"cuts": [], "tick_offsets": [0]} and meta["units"] == UNITS and meta["drive"] is None
    assert meta["conditions"].pop("notes") == ["before this run the rig had counted since power-on: lost_pages 21, malformed 14"]
    assert meta["conditions"] == {"virtual": True, "profile": None, "timing": None}
    assert (meta["state"], meta["format"], meta["workload"]) == ("complete", 1, {"phases": []})
    assert set(meta["software"]) == {"python", "platform", "wattbell", "numpy", "pyarrow", "pyjls", "pyserial", "polars", "msgspec"}
    assert not (tmp_path / "c" / "stream.wbs").exists() and "stream.wbs" not in meta["files"]
    rows = capture.status.collect()
    names = ("tlps_down", "tlps_up", "in_flight", "malformed", "unmatched", "lost_pages", "voltage_lsb_uv", "current_lsb_na", "bar0")
    assert rows.select(names).rows()[0] == (11, 12, 13, 14, 15, 21, 20, 500, 0)
    (gap,) = capture.gaps.filter(~pl.col("reason").str.contains("by its counter")).collect().rows()
    assert gap == ("RAIL", 4000 + 10 * 4000, 4000 + 19 * 4000, 10, "dropped in the rig")


@pytest.mark.parametrize(
    ("rail_tick", "noise", "reasons"),
    [
        (11_000, b"", ["the rig counted more commands than came"]),
        (31_000, b"", ["blocks lost on the way to the host"]),
        (11_000, b"noise", []),
    ],
)
def test_a_known_loss_explains_what_the_rig_counted(tmp_path: Path, rail_tick: int, noise: bytes, reasons: list[str]) -> None:
    """Seven commands were made and none came: nothing is added where samples are missing, or bytes formed no block."""
    blocks = run(e.rail(2, 1000, [(1, 1)] * 10), e.rail(3, rail_tick, [(1, 1)] * 10), commands=7, last=90_000)
    capture = recorded(tmp_path / "c", *blocks[:3], noise, *blocks[3:])
    assert [row[4] for row in capture.gaps.collect().rows()] == reasons
    assert (capture.state, capture.meta["loss"]["lossless"]) == ("incomplete" if "counted" in "".join(reasons) else "complete", False)


def test_a_rail_block_of_every_kind_of_number(tmp_path: Path) -> None:
    energy = -(2**70) + 12345
    capture = recorded(
        tmp_path / "c",
        *run(
            e.rail(2, 7000, [(1, -1)] * 3, interval=500, flags=0x18, adc_index=2**40, energy=energy),
            e.rail(3, 8500, [(2, -2)] * 4, interval=500, energy=2**63),
            last=10_500,
        ),
    )
    first, second = capture.rail_blocks.collect().rows(named=True)
    assert first == {
        "first_tick": 7000,
        "interval_ticks": 500,
        "count": 3,
        "flags": 0x18,
        "adc_index": 2**40,
        "energy_raw": 12345,
        "energy_high": -(2**6),
        "sample_id": 0,
        "dropped": 0,
        "epoch": 0,
    }
    assert (second["energy_raw"], second["energy_high"], second["sample_id"]) == (-(2**63), 0, 3)
    wave = capture.rail.read()  # type: ignore[union-attr]
    assert wave.voltage.tolist() == [np.float32(1) * np.float32(20e-6)] * 3 + [np.float32(2) * np.float32(20e-6)] * 4
    assert wave.current.tolist() == [np.float32(-1) * np.float32(500e-9)] * 3 + [np.float32(-2) * np.float32(500e-9)] * 4


@pytest.mark.parametrize("energy", [0, 1, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 + 5, 2**94, -(2**95)])
def test_energy_given_by_hand_is_one_number_of_96_bits(tmp_path: Path, energy: int) -> None:
    with CaptureWriter(tmp_path / "c", journal=False) as writer:
        writer.add_rail(1000, 1000, np.full(2, 3.3), np.full(2, 0.5), energy_raw=energy, flags=3)
        writer.add_rail(3000, 1000, np.full(5, 3.3), np.full(5, 0.5), adc_index=77)
    first, second = open_capture(tmp_path / "c").rail_blocks.collect().rows(named=True)
    assert (first["energy_high"] << 64) + first["energy_raw"] % 2**64 == energy
    assert (first["adc_index"], first["flags"], first["count"], second["adc_index"], second["sample_id"]) == (2, 3, 2, 77, 2)


@pytest.mark.parametrize(
    ("away_ns", "offset"),
    [
        (0, 101_000 + FLUSH),
        (FLUSH, 101_000 + FLUSH),
        (3600 * 10**9, 101_000 + 3600 * 10**9 - 2500),
    ],
)
def test_a_restart_lies_as_far_behind_as_the_hosts_clock_says(tmp_path: Path, away_ns: int, offset: int) -> None:
    """Nor before a command that may still have been in progress: the first tick of the new run plus a flush."""
    before = [status(0, 500, 1), e.events(1, 600, [(600, 15, 1, 0, 0)]), e.commands(2, 101_000, [e.Command(101_000)])]
    behind = [
        status(0, 2000, 1),
        e.events(1, 2500, [(2500, 15, 1, 0, 0), (2600, 7, 0, 0, 5)]),
        e.tlps(2, 2500, [(2400, 1, 0, bytes(12))]),
        e.commands(3, 2500, [e.Command(2450, 10)]),
    ]
    writer = CaptureWriter(tmp_path / "c")
    for piece in before:
        writer.feed(piece, UTC)
    writer.reconnected()
    writer.feed(b"".join(behind), UTC + away_ns)
    assert writer.meta["journal"]["tick_offsets"] == [0, offset]
    assert writer.markers == [(offset + 2600, 5)]
    writer.save_meta()
    writer.abandon()
    capture = open_capture(tmp_path / "c")  # rebuilt: placed as before
    assert capture.meta["journal"]["tick_offsets"] == [0, offset]
    assert capture.events.collect()["tick"].to_list() == [600, offset + 2500, offset + 2600]
    assert capture.status.collect()["tick"].to_list() == [500, offset + 2000]
    assert capture.tlps.collect()["tick"].to_list() == [offset + 2400]
    assert capture.commands.collect().select("doorbell_tick", "cqe_tick").rows() == [(None, 101_000), (offset + 2440, offset + 2450)]
    note = "the rig restarted during the capture: times before and behind it are joined by the host's clock"
    assert capture.meta["conditions"]["notes"].count(note) == 1
    rows = {row[4]: row[:4] for row in capture.gaps.collect().rows()}
    assert rows["the rig restarted"] == ("ANY", 0, offset + 2500, -1)


def test_the_meta_is_brought_up_to_date_every_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(writer_module.time, "monotonic", lambda: now[0])

    def on_disk(name: str) -> int:
        return int(json.loads((tmp_path / name / NAME).read_text())["loss"].get("blocks", 0))

    blocks = run(*(e.commands(n, 1000 * n, [e.Command(1000 * n)]) for n in range(2, 6)))
    with CaptureWriter(tmp_path / "c") as writer, CaptureWriter(tmp_path / "bare", journal=False) as bare:
        seen = []
        for seconds, block in zip((0, 0.5, 0.75, 1.0, 1.5, 2.0), blocks):
            now[0] = 1000.0 + seconds
            writer.feed(block)
            bare.feed(block)
            seen.append((on_disk("c"), on_disk("bare")))
        # without a journal nothing can be rebuilt, and nothing is tried
        assert seen == [(1, 0), (1, 0), (1, 0), (4, 0), (4, 0), (6, 0)]


def test_an_anchor_that_was_given_stays_and_maps_the_waveform(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c") as writer:
        writer.set_anchor(5000, UTC)
        writer.feed(b"".join(run(e.rail(2, 1000, [(1, 1)] * 4), last=6000)), UTC + 77)
    assert open_capture(tmp_path / "c").meta["clock"]["utc_anchor"] == {"tick": 5000, "utc_ns": UTC, "utc": "2023-11-14T22:13:20.000000Z"}


def test_a_tick_that_is_no_nanosecond(tmp_path: Path) -> None:
    """The rig defines the length of a tick; UTC and restarts are counted in it."""
    began = e.events(1, 600, [(600, 15, 1, 0, 0)])
    capture = recorded(tmp_path / "c", status(0, 500, 1, tick_ps=4000), began, status(2, 700, 1, tick_ps=0))
    assert capture.tick_ps == 1000  # a rig that reports 0 does not say
    capture = recorded(tmp_path / "d", status(0, 500, 1, tick_ps=4000), status(1, 600, 1, tick_ps=4000))
    assert (capture.tick_ps, capture.seconds(10**9)) == (4000, 4.0)


def test_the_rail_is_told_with_what_its_ticks_need_behind_a_restart(tmp_path: Path) -> None:
    told: list[list[int]] = []
    with CaptureWriter(tmp_path / "c") as writer:
        writer.on_rail = lambda rail: told.append(rail.first_tick.tolist())
        writer.feed(b"".join([status(0, 500, 1), e.rail(1, 1000, [(1, 1)] * 5)]), UTC)
        writer.reconnected()
        writer.feed(b"".join([status(0, 100, 1), e.rail(1, 200, [(1, 1)] * 5)]), UTC)
    assert told == [[1000], [200 + 1000 + FLUSH]]
    assert open_capture(tmp_path / "c").rail_blocks.collect()["epoch"].to_list() == [0, 1]


def test_identified_drives_go_before_what_the_user_said(tmp_path: Path) -> None:
    """The user's value stays where nothing was seen; the drive is unknown if there is neither."""
    with CaptureWriter(tmp_path / "c", lba_size_bytes=4096, journal=False) as writer:
        writer.meta["drive"] = None
    assert open_capture(tmp_path / "c").meta["drive"] == {
        "source": "--lba-size",
        "power_states": [],
        "namespaces": [{"nsid": 1, "lba_size_bytes": 4096}],
    }


def test_a_folder_in_which_nothing_could_be_begun_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if somebody else has already removed it."""
    removed = [False]

    def full(folder: Path, _name: str) -> None:
        if removed[0]:
            shutil.rmtree(folder)
        raise CaptureError("the disk is full")

    monkeypatch.setattr(writer_module, "TableSink", full)
    for removed[0] in (False, True):
        with pytest.raises(CaptureError, match="full"):
            CaptureWriter(tmp_path / "c")
        assert not (tmp_path / "c").exists()


def test_it_is_closed_once(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c", keep_stream=True)
    writer.feed(b"".join(run(last=5000)))
    writer.close("incomplete")
    text = (tmp_path / "c" / NAME).read_bytes()
    writer.note("too late")
    writer.close()
    assert (tmp_path / "c" / NAME).read_bytes() == text
    assert open_capture(tmp_path / "c").state == "incomplete" and (tmp_path / "c" / "stream.wbs").stat().st_size
    writer = CaptureWriter(tmp_path / "d")
    writer.abandon()
    writer.close()
    assert json.loads((tmp_path / "d" / NAME).read_text())["state"] == "recording"


def test_one_that_could_not_be_written_stays_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its journal is released: it is rebuilt when opened."""
    writer = CaptureWriter(tmp_path / "c")
    writer.feed(b"".join(run(e.commands(2, 1000, [e.Command(1000)]), commands=1, last=5000)))

    def full(*_: Any, **__: Any) -> None:
        raise CaptureError("the disk is full")

    monkeypatch.setattr(writer_module.hashes, "sums", full)
    with pytest.raises(CaptureError, match="full"):
        writer.close()
    monkeypatch.undo()
    capture = open_capture(tmp_path / "c")
    assert capture.state == "recovered" and capture.commands.select(pl.len()).collect().item() == 1


def test_gaps_of_the_decoder_are_placed_with_the_run_they_are_of(tmp_path: Path) -> None:
    late = 10**9
    with CaptureWriter(tmp_path / "c") as writer:
        for piece in (status(0, late, 1), *(e.commands(n, tick, [e.Command(tick)]) for n, tick in ((1, late + 10), (3, late + 20)))):
            writer.feed(piece, UTC)
        writer.reconnected()
        for piece in (status(0, late, 1), *(e.commands(n, tick, [e.Command(tick)]) for n, tick in ((1, late + 10), (3, late + 30)))):
            writer.feed(piece, UTC)
        writer.add_gap(Gap(BlockContent.TLP, 5, 6, 7, "by hand"))
    rows = open_capture(tmp_path / "c").gaps.collect().rows()
    offset = late + 20 + FLUSH
    assert [row[1:4] for row in rows if row[4] == "blocks lost on the way to the host"] == [
        (late + 10 - FLUSH, late + 20 + FLUSH, 1),
        (offset + late + 10 - FLUSH, offset + late + 30 + FLUSH, 1),
    ]
    assert ("TLP", 5, 6, 7, "by hand") in rows
    restarted = next(row for row in rows if row[4] == "the rig restarted")
    assert restarted[1:4] == (late + 20 - FLUSH, offset + late, -1)
