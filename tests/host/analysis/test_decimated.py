"""Energy of a decimated rail, its samples through three boxcars (Hogenauer, 1981), against the sum of the conversions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wattbell.analysis import analyze
from wattbell.analysis.context import load
from wattbell.capture import Capture, CaptureWriter, open_capture
from wattbell.capture.meta import save

PERIOD = 1000
"""Ticks between conversions."""
VOLT = 3.3


def decimated(path: Path, watt: np.ndarray, by: int) -> Capture:
    """A capture of a rail that drew `watt[k]` in conversion k (at tick k x PERIOD): every `by`-th output of the filter, at the tick in the
    middle of its conversions, and the sums of all conversions so far."""
    boxcar = np.ones(by) / by
    taps = np.convolve(np.convolve(boxcar, boxcar), boxcar)
    filtered = np.convolve(watt, taps)[: len(watt)]  # filtered[k] has conversions k - 3 (by - 1) .. k
    last = np.arange(3 * by, len(watt), by)
    delay = 3 * (by - 1) * PERIOD // 2
    units = np.rint(watt * 1e11).astype(np.int64)
    sums = np.cumsum(units)
    with CaptureWriter(path, journal=False, conditions={"virtual": True}) as writer:
        for first in range(0, len(last), 50):
            part = last[first : first + 50]
            power = filtered[part]
            writer.add_rail(
                int(part[0]) * PERIOD - delay,
                by * PERIOD,
                np.full(len(part), VOLT, np.float32),
                (power / VOLT).astype(np.float32),
                energy_raw=int(sums[part[-1]]),
                adc_index=int(part[-1]) + 1,
            )
    capture = open_capture(path)
    capture.meta["rail"] |= {"adc_period_ticks": PERIOD, "decimation": by}
    save(path, capture.meta)
    return open_capture(path)


@pytest.mark.parametrize("by", [1, 5, 33])
@pytest.mark.parametrize("shift", [0, 17, 1234])
def test_energy_of_a_window_with_a_step_in_it_is_that_of_the_conversions(tmp_path: Path, by: int, shift: int) -> None:
    """1 W, and 4 W from the middle on. If the ends of blocks were taken a filter delay too early, the window would gain the delay's energy
    at 1 W and lose it at 4 W."""
    n = 60_000
    watt = np.where(np.arange(n) < n // 2 + shift, 1.0, 4.0)
    rail = load(decimated(tmp_path / "c", watt, by)).rail
    assert rail is not None and rail.decimation == by and rail.has_accumulator
    for first, last in ((10_000, 50_000), (10_000 + 7, 50_000 - 3), (20_001, 40_002 + 3)):
        # from midway between two conversions to midway between two others
        found = rail.energy((first - 0.5) * PERIOD, (last - 0.5) * PERIOD)
        joules = float(watt[first:last].sum()) * PERIOD * 1e-9
        assert found.joules == pytest.approx(joules, rel=2e-7)
        assert found.covered_s == pytest.approx((last - first) * PERIOD * 1e-9, rel=1e-9)
        assert 0.5 * joules < found.exact_j < joules


def test_the_edge_of_a_window_takes_its_doubt_from_all_that_the_filter_smears(tmp_path: Path) -> None:
    """A step 2 sample intervals before the edge affects the samples around it; 10 intervals before, it does not."""
    by, n = 33, 60_000
    for away, doubtful in ((0, True), (2 * by, True), (10 * by, False)):
        watt = np.where(np.arange(n) < 20_000 - away, 1.0, 4.0)
        rail = load(decimated(tmp_path / f"c{away}", watt, by)).rail
        assert rail is not None
        found = rail.energy(20_000 * PERIOD, 50_000 * PERIOD)
        assert (found.edge_u_j > 1e-9) == doubtful


def test_the_report_says_how_the_rail_was_decimated(tmp_path: Path) -> None:
    described = analyze(decimated(tmp_path / "c", np.full(9000, 1.0), 5))["capture"]["rail"]
    assert (described["decimation"], described["conversion_period_s"]) == (5, pytest.approx(1e-6))
    assert described["interval_s"] == pytest.approx(5e-6)
