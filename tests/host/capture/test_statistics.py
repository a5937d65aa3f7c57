"""Statistics of a recording as lines of a log, from a writer that is fed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import CaptureWriter, blocks
from wattbell.capture.statistics import PeriodStatistics, StatisticsWriter, check_period
from wattbell.capture.tables import rows_table
from wattbell.errors import UsageError

MS = 1_000_000
SECOND = 1000 * MS


class Source:
    def __init__(self, **columns: object) -> None:
        self.columns = columns

    def table(self):  # type: ignore[no-untyped-def]
        return rows_table("commands", self.columns)  # type: ignore[arg-type]


class Recording:
    def __init__(self, path: Path, period_s: float) -> None:
        self.writer = CaptureWriter(path, journal=False, lba_size_bytes=4096)
        self.live = self.writer.begin_live()
        self.lines: list[PeriodStatistics] = []
        StatisticsWriter(self.live, period_s, self.lines.append)

    def second(self, number: int, watt: float, commands: int) -> None:
        """A second of a rail of 1 kSPS, and reads of 80 us each."""
        self.writer.add_rail_source(blocks(number * SECOND, MS, np.full(1000, 4, np.float32), np.full(1000, watt / 4, np.float32)))
        begin = number * SECOND + np.arange(commands) * (SECOND // max(commands, 1))
        if commands:
            columns = {"cqe_tick": begin + 80_000, "doorbell_tick": begin, "opcode": [2] * commands, "qid": [1] * commands}
            self.writer.add_command_source(Source(**columns, blocks=[2] * commands))
        self.live.flush()


def test_a_line_tells_its_period_and_comes_when_that_is_over(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "c", 1.0)
    recording.second(0, 2.0, 1000)
    assert not recording.lines, "some of it may still be under way"
    recording.second(1, 3.0, 0)
    first = recording.lines[0]
    assert len(recording.lines) == 1
    assert (first.time_s, first.duration_s) == (1.0, 1.0)
    assert first.power_mean_w == first.power_min_w == first.power_max_w == pytest.approx(2.0)
    assert (first.voltage_mean_v, first.current_mean_a) == (pytest.approx(4.0), pytest.approx(0.5))
    assert first.energy_j == first.energy_total_j == pytest.approx(2.0)
    assert first.charge_c == pytest.approx(0.5)
    assert first.read_mb_per_s == pytest.approx(1000 * 2 * 4096 / 1e6)
    assert (first.write_mb_per_s, first.iops, first.depth_mean) == (0, 1000, pytest.approx(0.08))
    assert first.p50_s == pytest.approx(80e-6, rel=0.03)
    assert first.p99_s == first.p99_9_s == first.p50_s
    assert (first.missing_s, first.lost) == (0, 0)
    recording.writer.close()
    last = recording.lines[1]
    assert len(recording.lines) == 2
    assert last.duration_s == pytest.approx(1, abs=0.002)
    assert last.energy_total_j == pytest.approx(5.0)
    assert (last.iops, last.p50_s) == (0, None)


def test_what_is_late_by_a_block_still_counts_in_its_period(tmp_path: Path) -> None:
    """A block of commands may wait for 10 ms longer than one of the rail."""
    recording = Recording(tmp_path / "c", 1.0)
    recording.second(0, 1.0, 0)
    recording.writer.add_rail_source(blocks(SECOND, MS, np.full(15, 4, np.float32), np.full(15, 1, np.float32)))
    recording.live.flush()
    columns = {"cqe_tick": [SECOND - 1], "doorbell_tick": [SECOND - 100], "opcode": [2], "qid": [1], "blocks": [1]}
    recording.writer.add_command_source(Source(**columns))
    recording.writer.close()
    assert [line.iops for line in recording.lines] == [1, 0]


def test_no_period_is_left_out_and_none_is_told_twice(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "c", 0.1)
    for number in (0, 1, 2, 7):
        recording.second(number, 1.0, 200)
    recording.writer.close()
    assert [round(line.time_s, 6) for line in recording.lines[:-1]] == [round(0.1 * (k + 1), 6) for k in range(79)]
    assert recording.lines[-1].time_s == pytest.approx(7.999, abs=0.001)
    assert sum(line.iops * line.duration_s for line in recording.lines) == pytest.approx(800)
    silent = recording.lines[35]
    assert silent.power_mean_w is None
    assert silent.energy_j is None
    assert silent.missing_s == pytest.approx(0.1)
    assert recording.lines[-1].energy_total_j == pytest.approx(4.0)


def test_the_time_of_day_stands_in_it(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "c", 1.0)
    recording.writer.set_anchor(0, 1_600_000_000 * SECOND)
    recording.lines.clear()
    statistics = StatisticsWriter(recording.live, 1.0, recording.lines.append)
    statistics.utc_of = recording.writer.utc_of
    recording.second(0, 1.0, 0)
    recording.second(1, 1.0, 0)
    assert "2020-09-13T12:26:41.000000Z" in [line.utc for line in recording.lines]
    recording.writer.abandon()


def test_nothing_recorded_is_no_line(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "c", 1.0)
    recording.writer.close()
    assert recording.lines == []


@pytest.mark.parametrize("period", [0, 0.05, 0.15, -1, 1e9, float("inf"), float("nan")])
def test_periods_that_bins_do_not_make_up_are_refused(period: float) -> None:
    with pytest.raises(UsageError, match="tenths of a second"):
        check_period(period, "--statistics")


@pytest.mark.parametrize("period", [0.1, 0.3, 1, 60, 86400])
def test_periods(period: float) -> None:
    assert check_period(period, "--statistics") == pytest.approx(period)
