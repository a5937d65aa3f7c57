"""A capture of another meter and another tap of the bus: no stream of ours, no accumulator, samples in V and A."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from wattbell.analysis import analyze
from wattbell.capture import Accumulator, CaptureWriter, CommandSource, RailSource, blocks, open_capture, together
from wattbell.capture.tables import rows_table

MS = 1_000_000


@dataclass
class Multimeter:
    """Blocks of 10 samples, 1 ms apart; 3.3 V and 0.5 A."""

    first_tick: npt.NDArray[np.int64]
    accumulator: Accumulator | None = None
    ranges: None = None

    @property
    def interval_ticks(self) -> npt.NDArray[np.uint32]:
        return np.full(len(self.first_tick), MS, np.uint32)

    @property
    def count(self) -> npt.NDArray[np.uint16]:
        return np.full(len(self.first_tick), 10, np.uint16)

    @property
    def flags(self) -> npt.NDArray[np.uint16]:
        return np.zeros(len(self.first_tick), np.uint16)

    @property
    def dropped(self) -> npt.NDArray[np.uint32]:
        return np.zeros(len(self.first_tick), np.uint32)

    @property
    def voltage_v(self) -> npt.NDArray[np.float32]:
        return np.full(10 * len(self.first_tick), 3.3, np.float32)

    @property
    def current_a(self) -> npt.NDArray[np.float32]:
        return np.full(10 * len(self.first_tick), 0.5, np.float32)


class Protocol:
    """A protocol analyser: 100 reads of 4 KiB, one a millisecond, that take 80 us. It sees no fetch."""

    def table(self) -> pa.Table:
        start = [100 * MS + k * MS for k in range(100)]
        done = [tick + 80_000 for tick in start]
        columns = {"cqe_tick": done, "doorbell_tick": start, "opcode": [2] * 100, "qid": [1] * 100, "blocks": [8] * 100}
        return rows_table("commands", columns)


def test_another_meter_and_another_tap_make_a_capture(tmp_path: Path) -> None:
    meter: RailSource = Multimeter(np.arange(0, 40, dtype=np.int64) * 10 * MS)
    tap: CommandSource = Protocol()
    with CaptureWriter(tmp_path / "c", rig={"model": "multimeter and analyser"}, lba_size_bytes=512, journal=False) as writer:
        writer.add_rail_source(meter)
        writer.add_command_source(tap)
    found = analyze(open_capture(tmp_path / "c"))
    assert found["power"]["mean_w"]["value"] == pytest.approx(1.65, rel=1e-6)
    assert found["power"]["mean_w"]["conditions"]["source"] == "samples"
    energy = found["power"]["energy_j"]
    assert energy["value"] == pytest.approx(1.65 * 0.399, rel=1e-4) and 0 < energy["u"] < 0.01 * energy["value"]
    read = found["commands"]["by_opcode"]["read"]
    assert (read["count"], read["latency_s"]["from"]) == (100, "doorbell") and read["latency_s"]["p50"] == pytest.approx(80e-6)
    assert found["loss"]["commands"] == found["loss"]["rail_samples"] == 0


def test_what_a_meter_left_out_is_a_gap(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c", journal=False) as writer:
        writer.add_rail_source(Multimeter(np.array([0, 10 * MS, 40 * MS], np.int64)))
    (gap,) = open_capture(tmp_path / "c").gaps.collect().to_dicts()
    assert (gap["kind"], gap["first_tick"], gap["last_tick"], gap["count"]) == ("RAIL", 20 * MS, 39 * MS, 20)


def test_pieces_together_are_the_capture_of_the_pieces(tmp_path: Path) -> None:
    """Blocks of unlike lengths and flags, with some missing between them, and one of another interval."""
    random = np.random.default_rng(3)
    parts = []
    for first, count, flags, interval in ((0, 7, 0, MS), (7, 40_000, 1, MS), (50_000, 3, 2, MS), (50_010, 5, 0, 2 * MS)):
        volts, amperes = (random.random(count).astype(np.float32) for _ in range(2))
        parts.append(blocks(first * MS, interval, volts, amperes, flags=flags, dropped=flags))
    captures = []
    for name, sources in (("apart", parts), ("together", [together(parts)])):
        with CaptureWriter(tmp_path / name, rig={"model": "M"}, conditions={"virtual": False}) as writer:
            for source in sources:
                writer.add_rail_source(source)
        captures.append(open_capture(tmp_path / name))
    one, other = captures
    assert one.rail_blocks.collect().equals(other.rail_blocks.collect()) and one.gaps.collect().equals(other.gaps.collect())
    assert len(one.gaps.collect()) == 2
    assert np.array_equal(one.rail.power(), other.rail.power(), equal_nan=True)
