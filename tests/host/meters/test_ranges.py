"""A meter that changes its range while it measures: figures have the uncertainty of the ranges that were in force, and of the changes."""

from __future__ import annotations

import math
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import Capture, CaptureWriter, open_capture
from wattbell.measure.errormodel import error_model
from wattbell.measure.loss import WindowLoss
from wattbell.measure.rail import Rail
from wattbell.meters.meter import open_meter
from wattbell.meters.record import Recorder

from tests.host.meters.ppk2_device import Ppk2Device

INTERVAL, VOLTS = 10_000, 3.3
COUNT = 60_000
REST, WORK = 2, 4
PERIOD, WORKS = 10_000, 2_000
"""Samples; of each period the last ones are work."""
TRUE_A = {REST: 0.004, WORK: 0.4}
OFF = {REST: 1.09, WORK: 0.88}
"""Readings of this instrument for the truth: within 10 % and 15 % of the reading."""


class Wrong(Ppk2Device):
    """It works a fifth of the time, in its highest range."""

    def __init__(self) -> None:
        super().__init__(self.of)

    def of(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scale = np.where(index % PERIOD >= PERIOD - WORKS, WORK, REST)
        level = {n: (TRUE_A[n] * OFF[n] / (1.8 / 163840 / self.r[n] * self.gi[n]) + self.o[n]) / 4 for n in (REST, WORK)}
        return scale, np.where(scale == WORK, round(level[WORK]), round(level[REST]))


class InPieces(Wrong):
    """Its bytes come in pieces that end one sample behind each change of range."""

    def __init__(self) -> None:
        super().__init__()
        self.odd_bytes = {start + place: b"" for start in range(0, 2 * COUNT, PERIOD) for place in (1, PERIOD - WORKS + 1)}

    def words(self, index: np.ndarray) -> bytes:
        if index[0] % PERIOD in (1, PERIOD - WORKS + 1):
            time.sleep(0.02)
        return super().words(index)


def recorded(folder: Path, options: str = "", kill: bool = False, made: type[Wrong] = Wrong) -> Capture:
    with made() as device, open_meter(f"ppk2:{device.port},volts={VOLTS},volts_u=0{options}") as meter:
        about = meter.about
        writer = CaptureWriter(folder, rig=about.rig(), conditions=about.all_conditions(), journal=False, tick_ps=about.tick_ps)
        recorder = Recorder(meter, writer)
        meter.start()
        while recorder.last_tick < COUNT * INTERVAL:
            recorder.take(0.1)
        recorder.end()
        if kill:
            shutil.copytree(folder, folder.with_name("killed"))
        writer.close()
    return open_capture(folder.with_name("killed") if kill else folder)


def rail_of(capture: Capture) -> Rail:
    return Rail(capture, error_model(capture.meta))


def share_u(rest_s: float, work_s: float) -> float:
    """k = 2 of the mean power (W) of so much rest and work, by Nordic's figures for the two ranges: 10 % and 5 uA, 15 % and 1 mA."""
    rest = math.hypot(0.1 * TRUE_A[REST] * OFF[REST], 5e-6) * rest_s
    work = math.hypot(0.15 * TRUE_A[WORK] * OFF[WORK], 1e-3) * work_s
    return VOLTS * (rest + work) / (rest_s + work_s)


@pytest.mark.parametrize(("kill", "made"), [(False, Wrong), (True, Wrong), (False, InPieces)])
def test_each_window_has_the_uncertainty_of_its_ranges(tmp_path: Path, kill: bool, made: type[Wrong]) -> None:
    capture = recorded(tmp_path / "c", kill=kill, made=made)
    changes = capture.rail_ranges
    assert changes is not None and set(changes["range"]) == {REST, WORK}
    at = changes["tick"].to_numpy() // INTERVAL
    assert at[0] == 0 and set(at[1:] % PERIOD) == {0, PERIOD - WORKS} and len(at) >= 2 * COUNT // PERIOD
    rail = rail_of(capture)

    def figures(first: int, last: int):  # type: ignore[no-untyped-def]
        window = (first * INTERVAL, last * INTERVAL)
        scan = rail.scan([window])
        return rail.figures(scan, 0, *window, loss=WindowLoss())

    rest = figures(PERIOD + 100, PERIOD + 7_000)["mean_w"]
    assert rest.value == pytest.approx(VOLTS * TRUE_A[REST] * OFF[REST], rel=1e-3)
    assert rest.u == pytest.approx(share_u(1, 0), rel=0.02), "nothing of the 15 % and the 1 mA of another range"
    assert abs(rest.value - VOLTS * TRUE_A[REST]) <= rest.u
    work = figures(2 * PERIOD - WORKS + 100, 2 * PERIOD - 100)["mean_w"]
    assert work.u == pytest.approx(share_u(0, 1), rel=0.02)
    both = figures(PERIOD, 5 * PERIOD)  # a period in each quarter: steady
    truth = VOLTS * (TRUE_A[REST] * (PERIOD - WORKS) + TRUE_A[WORK] * WORKS) / PERIOD
    settling = 8 * 4 / (4 * PERIOD) * VOLTS * (TRUE_A[WORK] * OFF[WORK] - TRUE_A[REST] * OFF[REST])
    assert both["mean_w"].u == pytest.approx(math.hypot(share_u(PERIOD - WORKS, WORKS), settling), rel=0.02)
    assert abs(both["mean_w"].value - truth) <= both["mean_w"].u
    of_changes = rail.energy((PERIOD + 50) * INTERVAL, (4 * PERIOD + 50) * INTERVAL).edge_u_j
    assert of_changes == pytest.approx(settling * 3 * PERIOD * INTERVAL * 1e-9, rel=0.05), "the window's own edges lie in rest"
    assert both["mean_current_a"].u == pytest.approx(share_u(PERIOD - WORKS, WORKS) / VOLTS, rel=0.02)
    assert both["max_sample_w"].u >= 0.15 * both["max_sample_w"].value and both["mean_w"].value is not None


def test_what_the_user_states_holds_in_all_of_them(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "c", ",gain=0.01,offset=1e-5")
    assert capture.meta["rig"]["error_model"]["ranges"] == [{"gain": 0.01, "offset_a": 1e-5}] * 5
    assert recorded(tmp_path / "d", ",offset=1e-5").meta["rig"]["error_model"]["ranges"][4] == {"gain": 0.15, "offset_a": 1e-5}


def test_changes_that_follow_each_other_closely_are_one_in_the_highest_and_then_the_last(tmp_path: Path) -> None:
    def levels(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hunting = (index % 1000 < 40) & (index % 4 < 2)
        return np.where(hunting, 3, 1), np.full(len(index), 500)

    with Ppk2Device(levels) as device, open_meter(f"ppk2:{device.port},volts={VOLTS}") as meter:
        meter.start()
        found = []
        while sum(int(source.count.sum()) for source in found) < 10_000:
            found += meter.read(0.1)
        remarks = meter.remarks()
    rows = [row for source in found if source.ranges for row in zip(source.ranges.tick // INTERVAL, source.ranges.number)]
    for start in range(2000, 9000, 1000):
        near = [(int(at), int(number)) for at, number in rows if start - 20 <= at < start + 900]
        assert 2 <= len(near) <= 14 and near[-1][1] == 1 and near[-1][0] < start + 42, "at rest it is in its lower range"
        assert {number for _, number in near} == {1, 3}
        for place in range(start, start + 40):
            if place % 4 < 2:
                assert max((at, number) for at, number in rows if at <= place)[1] == 3, "never in force is less than what was"
    assert int(remarks[0].split("its range ")[1].split()[0]) > 10 * 19
