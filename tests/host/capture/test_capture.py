"""A capture written from a stream, or by hand, reads back unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pyjls
import pytest
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture.eventtext import NOT_FOLLOWED
from wattbell.errors import CaptureError
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType, GuessReason

from tests.host.wire import encoder as e


def written(path: Path, *blocks: bytes, **options: Any) -> Any:
    with CaptureWriter(path, **options) as writer:
        writer.feed(b"".join(blocks))
    return open_capture(path)


def test_ages_become_ticks_unknown_ones_null_and_saturated_ones_flagged(tmp_path: Path) -> None:
    unknown = e.Command(10_000)
    exact = e.Command(20_000, 900, 800, 700, 600, 50, 60, nsid=7, slba=2**40 - 1, blocks=2**32 - 1)
    edge = e.Command(2**33, 0xFFFFFFFE, 0xFFFFFFFD, 1, 0, 0xFFFFFE, 0xFFFFFD, nsid=0xFFFF)
    large = e.Command(30_000, nsid=0xFFFE)
    tick = 2**33
    capture = written(tmp_path / "c", e.commands(0, 10_000, [unknown, exact, large]), e.commands(1, tick, [edge]))
    rows = capture.commands.collect().to_dicts()
    assert [row["cqe_tick"] for row in rows] == [10_000, 20_000, 30_000, tick]
    ages = ("doorbell", "fetch", "first_data", "last_data", "msix", "cq_head")
    assert [rows[0][f"{name}_tick"] for name in ages] == [None] * 6
    assert [rows[1][f"{name}_tick"] for name in ages] == [19_100, 19_200, 19_300, 19_400, 20_050, 20_060]
    assert (rows[1]["slba"], rows[1]["blocks"], rows[1]["nsid"]) == (2**40 - 1, 2**32 - 1, 7)
    assert rows[3]["doorbell_tick"] == tick - 0xFFFFFFFE
    assert rows[3]["fetch_tick"] == tick - 0xFFFFFFFD
    assert rows[3]["cq_head_tick"] == tick + 0xFFFFFD
    assert [row["saturated"] for row in rows] == [0, 0, 0, 0b010001]
    assert [row["nsid"] for row in rows] == [1, 7, None, 0xFFFFFFFF]


def test_every_file_may_be_read_by_the_same_people(tmp_path: Path) -> None:
    capture = written(tmp_path / "c", e.rail(0, 5000, [(165_000, 1000)] * 10))
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in capture.path.iterdir()}
    assert "rail.jls" in modes and len(set(modes.values())) == 1, modes


def test_rail_is_on_one_grid_with_nan_where_nothing_came(tmp_path: Path) -> None:
    samples = [(165_000 + i, -1000 * i) for i in range(100)]
    capture = written(
        tmp_path / "c",
        e.rail(0, 5000, samples, interval=2000, adc_index=100, energy=-77, flags=0x10),
        e.rail(1, 5000 + 100 * 2000, samples, interval=2000),
        e.rail(3, 5000 + 350 * 2000, samples, interval=2000),
        e.rail(4, 5000 + 500 * 2000, samples, interval=2000, dropped=50),
    )
    assert (capture.rail.first_tick, capture.rail.interval_ticks, len(capture.rail)) == (5000, 2000, 600)
    wave = capture.rail.read()
    missing = np.isnan(wave.power)
    assert missing.nonzero()[0].tolist() == [*range(200, 350), *range(450, 500)]
    assert wave.voltage[99] == pytest.approx(165_099 * 20e-6, rel=1e-6)
    assert wave.current[99] == pytest.approx(-99_000 * 500e-9, rel=1e-6)
    assert wave.power[350] == pytest.approx(0, abs=1e-9)
    blocks = capture.rail_blocks.collect()
    assert blocks["sample_id"].to_list() == [0, 100, 350, 500]
    assert blocks["energy_raw"][0] == -77
    gaps = capture.gaps.collect().filter(kind="RAIL").to_dicts()
    assert [(g["count"], g["reason"]) for g in gaps] == [
        (150, "blocks lost on the way to the host"),
        (50, "dropped in the rig"),
    ]
    assert gaps[0]["first_tick"] == 5000 + 200 * 2000
    assert gaps[0]["last_tick"] == 5000 + 349 * 2000
    assert capture.meta["rail"]["missing_samples"] == 200
    assert capture.meta["loss"]["lossless"] is False


def test_a_changed_interval_and_a_late_block_are_gaps_not_wrong_samples(tmp_path: Path) -> None:
    samples = [(165_000, 1000)] * 10
    capture = written(
        tmp_path / "c",
        e.rail(0, 0, samples),
        e.rail(2, 20_000, samples),
        e.rail(1, 10_000, samples),
        e.rail(3, 30_000, samples, interval=4000),
    )
    assert capture.rail_blocks.collect()["sample_id"].to_list() == [0, 20, -1, -1]
    assert int(np.isfinite(capture.rail.read().power).sum()) == 20
    reasons = capture.gaps.collect()["reason"].to_list()
    assert "came too late for the waveform" in reasons
    assert "sample interval changed during the capture" in reasons
    assert capture.meta["loss"]["missing_blocks"] == 0
    assert capture.meta["loss"]["late_blocks"] == 1


def test_other_programs_read_it(tmp_path: Path) -> None:
    written(tmp_path / "c", e.commands(0, 0, [e.Command(100)]), e.rail(1, 0, [(165_000, 2000)] * 5))
    assert pq.read_table(tmp_path / "c" / "commands.parquet").num_rows == 1
    with pyjls.Reader(str(tmp_path / "c" / "rail.jls")) as jls:
        signals = {s.name: (s.units, s.length, s.sample_rate) for s in jls.signals.values() if s.signal_id}
    assert signals == {"voltage": ("V", 5, 10**6), "current": ("A", 5, 10**6), "power": ("W", 5, 10**6)}
    json.loads((tmp_path / "c" / "meta.json").read_text())


def test_events_status_and_what_the_rig_lost(tmp_path: Path) -> None:
    records = [(10, 15, 1, 0, 0), (20, 7, 0, 0, 257), (30, 8, 5, 0, 12), (40, 8, 5, 0, 3), (50, 99, 1, 2, 3)]
    capture = written(tmp_path / "c", e.events(0, 10, records), e.status(1, 60, adc_period=1000, decimation=8))
    events = capture.events.collect().to_dicts()
    assert [row["name"] for row in events] == ["run", "marker", "loss", "loss", "type_99"]
    assert events[1]["arg32"] == 257
    assert capture.meta["loss"]["rig_events"] == {"records": 15}
    assert capture.meta["loss"]["lossless"] is False
    assert capture.meta["rail"]["decimation"] == 8
    assert capture.meta["rig"]["gateware"] == "1.0.0"
    assert capture.status.collect()["run"].to_list() == [1]


def test_built_by_hand(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c", conditions={"virtual": True, "profile": "none"}) as writer:
        writer.add_rows("commands", {"cqe_tick": [2000, 3000], "doorbell_tick": [1000, None], "opcode": [2, 1]})
        writer.add_rail(0, 1000, np.full(500, 3.3), np.full(500, 0.5), energy_raw=5)
        writer.add_rail(600_000, 1000, np.full(100, 3.3), np.full(100, 0.25))
        writer.add_gap(Gap(BlockContent.RAIL, 500_000, 599_000, 100, "test"))
        writer.meta["workload"]["phases"] = [{"phase": 1, "name": "a", "kind": "idle"}]
    capture = open_capture(tmp_path / "c")
    assert capture.state == "complete"
    assert capture.commands.collect()["doorbell_tick"].to_list() == [1000, None]
    assert capture.rail is not None
    assert capture.rail.power(0, 2) == pytest.approx([1.65, 1.65], rel=1e-6)
    assert np.isnan(capture.rail.power(500, 600)).all()
    assert capture.rail_blocks.collect()["sample_id"].to_list() == [0, 600]
    assert capture.phases[0]["name"] == "a"
    with pytest.raises(ValueError, match="no column"), CaptureWriter(tmp_path / "d", journal=False) as writer:
        writer.add_rows("commands", {"nonsense": [1]})


def test_sample_lookup(tmp_path: Path) -> None:
    capture = written(tmp_path / "c", e.rail(0, 10_000, [(1, 1)] * 50))
    rail = capture.rail
    assert rail.tick_of(3) == 13_000
    assert [rail.sample_at(t) for t in (0, 10_000, 10_001, 11_000, 59_000, 99_000)] == [0, 0, 1, 1, 49, 50]
    assert len(rail.read(40, 1000)) == 10
    assert len(rail.read(45, 45)) == 0
    statistics = rail.overview("power", 0, 50, 5)
    assert statistics.shape == (5, 4)


def test_block_size_is_known_or_said_to_be_assumed(tmp_path: Path) -> None:
    bare = written(tmp_path / "a", e.commands(0, 0, [e.Command(1)]))
    assert (bare.lba_size_bytes(1), bare.lba_size_known) == (512, False)
    told = written(tmp_path / "b", e.commands(0, 0, [e.Command(1)]), lba_size_bytes=4096)
    assert (told.lba_size_bytes(1), told.lba_size_known) == (4096, True)
    assert told.meta["drive"]["source"] == "--lba-size"


@pytest.mark.parametrize("reason", list(NOT_FOLLOWED))
def test_traffic_that_is_not_followed_is_noted_once(tmp_path: Path, reason: GuessReason) -> None:
    seen = (5, EventType.GUESSING, reason, 0x0101, 0)
    capture = written(tmp_path / "a", e.events(0, 5, [seen, seen]), e.events(1, 6, [seen]))
    assert capture.meta["conditions"]["notes"].count(NOT_FOLLOWED[reason]) == 1
    assert not set(NOT_FOLLOWED.values()) & set(
        written(tmp_path / "b", e.events(0, 5, [(5, EventType.GUESSING, 0, 3, 0)])).meta["conditions"]["notes"]
    )


def test_an_existing_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(CaptureError, match="exists"):
            CaptureWriter(tmp_path, overwrite=overwrite)
    assert (tmp_path / "thesis.txt").exists()
    written(tmp_path / "c", e.commands(0, 0, [e.Command(1)]))
    with pytest.raises(CaptureError, match="--force"):
        CaptureWriter(tmp_path / "c")
    again = written(tmp_path / "c", e.status(0, 5), overwrite=True)
    assert again.commands.collect().is_empty()


def test_an_empty_capture_opens(tmp_path: Path) -> None:
    capture = written(tmp_path / "c")
    assert capture.rail is None
    for name in ("commands", "events", "rail_blocks", "tlps", "gaps", "status"):
        assert capture.table(name).collect().is_empty()
