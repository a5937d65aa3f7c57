"""A rig used only for its rail: one with an ignored tap, and the real virtual rig on a trace without a TLP."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import open_capture
from wattbell.meters.meter import open_meter

from tests.e2e import stream_maker as maker
from tests.e2e.test_record import Bench, finished, wait_for
from tests.e2e.virtual import MARKS
from tests.host.meters.measuring import measured
from tests.host.wire import encoder


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


def test_what_the_tap_saw_is_left_out_and_nothing_else(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(b"".join(maker.stream(500)))
    told = json.loads(finished(bench.wattbell("record", "--meter", "rig:FEED1", "--out", str(tmp_path / "cap"), "--json"))[0])
    assert (told["ended"], told["state"], told["lossless"], told["commands"]) == ("the rig stopped", "complete", True, 0)
    capture = open_capture(tmp_path / "cap")
    rail = capture.rail
    assert rail is not None and rail.samples == told["samples"] == 500 * maker.SAMPLES_A_BLOCK
    wave = rail.read()
    assert wave.voltage[0] == pytest.approx(3.3, rel=1e-6) and wave.current[-1] == pytest.approx((1000 + 499 % 500) * 500e-9, rel=1e-6)
    assert capture.meta["rail"]["first_tick"] == 500, "counted from the tick that the rig told before the start"
    assert capture.meta["rig"]["model"] == "feeder" and any("tap saw is left out" in note for note in capture.meta["conditions"]["notes"])
    assert capture.gaps.collect().is_empty()


def test_events_of_the_tap_are_left_out_and_those_of_the_slot_kept(bench: Bench, tmp_path: Path) -> None:
    """Types and sources by docs/wire-format.md: 2 CLKREQ#, 7 MARKER (source 0 in band, 1 control port), 11 BAR0, 12 power state, 15
    RUN.
    """
    e = encoder
    seen = [(1000, 7, 0, 0, 0x102), (1100, 7, 1, 0, 0x55), (1200, 12, 3, 0, 0), (1300, 2, 1, 0, 0), (1400, 11, 0, 0, 4)]
    bench.feeder(
        e.status(0, 500, run=1)
        + e.events(1, 500, [(500, 15, 1, 0, 0), *seen])
        + e.rail(2, 2000, [(165_000, 1000)] * 100, interval=1000, adc_index=100)
        + e.events(3, 200_000, [(200_000, 15, 0, 0, 0)])
        + e.status(4, 200_000, run=0)
    )
    finished(bench.wattbell("record", "--meter", "rig:FEED1", "--out", str(tmp_path / "cap")))
    events = open_capture(tmp_path / "cap").events.collect()
    assert list(zip(events["tick"], events["type"])) == [(0, 15), (600, 7), (800, 2), (199_500, 15)]


def test_a_block_that_is_lost_on_the_way_is_a_gap(bench: Bench, tmp_path: Path) -> None:
    blocks = maker.stream(200)
    bench.feeder(b"".join([*blocks[:103], *blocks[104:]]))  # RAIL blocks have odd places
    told = json.loads(finished(bench.wattbell("record", "--meter", "rig", "--out", str(tmp_path / "cap"), "--json"))[0])
    assert told["lossless"] is False
    capture = open_capture(tmp_path / "cap")
    assert maker.SAMPLES_A_BLOCK in capture.gaps.collect()["count"].to_list() and capture.meta["rail"]["missing_samples"] == 100


def test_a_rig_that_is_unplugged_is_one_error_behind_all_that_it_had_sent(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(b"".join(maker.stream(300, stop=False)), "--exit-at-end")
    run = bench.wattbell("record", "--meter", "rig:FEED1,gain=0.01", "--out", str(tmp_path / "cap"))
    _, told = run.communicate()
    assert run.returncode == 1 and told.count("error:") == 1 and "was lost" in told and "Traceback" not in told
    capture = open_capture(tmp_path / "cap")
    assert capture.meta["state"] == "incomplete" and capture.meta["rail"]["samples"] == 300 * maker.SAMPLES_A_BLOCK
    assert capture.meta["rig"]["error_model"] == {"gain": 0.01}
    assert "the meter was lost" in capture.gaps.collect()["reason"].to_list()


def trace(path: Path, seconds: float) -> Path:
    """Write a bus trace without a TLP (docs/bus-trace.md): 100 mA, and 1 A in every second half of 10 ms; CLKREQ# moves once."""
    said = json.dumps({"source": "test", "profile": "none", "timing": "model", "notes": []}).encode()
    records = [
        struct.pack("<BBHQqq", 4, 0, 16, at, 1_000_000_000 if at % 10**10 else 100_000_000, 3_300_000_000)
        for at in range(0, round(seconds * 1e12), 5 * 10**9)
    ]
    records.insert(3, struct.pack("<BBHQBB", 5, 0, 2, 12 * 10**9, 2, 1))
    records.append(struct.pack("<BBHQ", 6, 0, 0, round(seconds * 1e12)))
    path.write_bytes(b"WBBT" + struct.pack("<II", 1, len(said)) + said + b"".join(records))
    return path


class TestVirtual:
    pytestmark = MARKS

    def rig(self, bench: Bench, folder: Path, seconds: float) -> dict[str, str]:
        """Return the registration of a virtual rig that plays the trace."""
        played = trace(folder / "rail.wbt", seconds)
        bench.wattbell("sim", "start", "--trace", str(played), "--serial", "RAIL1", "--fidelity", "fast", "--realtime")
        registered = folder / "runtime" / "rigs" / "RAIL1.json"
        wait_for(registered.exists, "the rig")
        found: dict[str, str] = json.loads(registered.read_text())
        return found

    def test_a_rig_without_a_tap_is_recorded_whole(self, bench: Bench, tmp_path: Path) -> None:
        self.rig(bench, tmp_path, 0.5)
        run = bench.wattbell("record", "--meter", "rig:RAIL1", "--out", str(tmp_path / "cap"), "--json")
        told = json.loads(finished(run)[0])
        assert (told["ended"], told["state"], told["lossless"], told["commands"]) == ("the rig stopped", "complete", True, 0)
        capture = open_capture(tmp_path / "cap")
        assert capture.rail is not None and capture.meta["conditions"]["virtual"] is True
        power = capture.rail.read().power[: told["samples"]]
        assert told["samples"] >= 500_000
        assert np.median(power[power > 1]) == pytest.approx(3.3, rel=1e-3) and np.median(power[power < 1]) == pytest.approx(0.33, rel=1e-3)
        assert "clkreq" in capture.events.collect()["name"].to_list()

    def test_its_counter_is_asked_once_a_second(self, bench: Bench, tmp_path: Path) -> None:
        ports = self.rig(bench, tmp_path, 30)
        with open_meter(f"rig:{ports['data']},{ports['control']}") as meter:
            ticks, volts, _ = measured(meter, 1_300_000)
            first, *rest = meter.clock_pairs()
        assert rest and first.tick == 0 and volts.mean() == pytest.approx(3.3, rel=1e-3)
        assert ticks[0] >= 0 and (np.diff(ticks) == meter.about.interval_ticks).all()
        for before, after in zip([first, *rest], rest):
            assert before.before_ns is not None and after.before_ns is not None and after.tick > before.tick
            assert before.before_ns < before.after_ns < after.before_ns < after.after_ns
