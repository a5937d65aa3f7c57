"""How long a controller is on after its commands, from the rail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wattbell.analysis.context import load
from wattbell.analysis.energybins import POWERS_W, on_after
from wattbell.capture import CaptureWriter, open_capture
from wattbell.measure.depth import depth_steps
from wattbell.measure.rail import Rail

US = 1000
"""Ticks."""
IDLE_W, CONTROLLER_W, PULSE_W = 0.5, 0.8, 2.0
EVERY_US, WRITE_US, AFTER_US = 400, 15, 120
WRITES = 200


def rail_of(path: Path, interval_us: int, missing: bool = False) -> Rail:
    """Writes of 15 us, one each 400 us; the controller is on for 120 us more, a die in the first 60 us. Noise of 5 mW. ``missing``:
    10 ms are not there."""
    at_us = np.arange(EVERY_US * (WRITES + 2))
    since = np.where(at_us < EVERY_US * WRITES, at_us % EVERY_US, EVERY_US - 1)
    watt = IDLE_W + CONTROLLER_W * (since < WRITE_US + AFTER_US) + PULSE_W * ((since >= WRITE_US) & (since < WRITE_US + 60))
    watt = watt[: len(watt) // interval_us * interval_us].reshape(-1, interval_us).mean(axis=1)
    watt = watt + np.random.default_rng(1).normal(0, 5e-3, len(watt))
    with CaptureWriter(path, journal=False, conditions={"virtual": True, "front_end_delay_s": 0.0, "front_end_delay_u_s": 0.0}) as writer:
        for first in range(0, len(watt), 100):
            if missing and 20_000 <= first * interval_us < 30_000:
                continue
            part = watt[first : first + 100].astype(np.float32)
            middle = (2 * first + 1) * interval_us * US // 2
            writer.add_rail(middle, interval_us * US, np.full(len(part), 1.0, np.float32), part)
    rail = load(open_capture(path)).rail
    assert rail is not None
    return rail


def after(rail: Rail) -> np.ndarray:
    starts = np.arange(WRITES) * EVERY_US * US
    steps = depth_steps(starts, starts + WRITE_US * US)
    return on_after(rail, steps, [(0, WRITES * EVERY_US * US)], IDLE_W) / WRITES * 1e6


@pytest.mark.parametrize(("interval_us", "within"), [(1, 1.0), (5, 1.0), (20, 6.0), (50, 15.0)])
def test_time_after_writes_is_that_of_the_controller(tmp_path: Path, interval_us: int, within: float) -> None:
    """Neither the die's power nor idle noise comes in; a coarse rail separates it less well."""
    found = float(np.interp(CONTROLLER_W, POWERS_W, after(rail_of(tmp_path / "c", interval_us))))
    assert found == pytest.approx(AFTER_US, abs=within)


def test_what_it_draws_need_not_be_known_well(tmp_path: Path) -> None:
    found = after(rail_of(tmp_path / "c", 5))
    plateau = found[(POWERS_W > 0.1) & (POWERS_W < 1.5)]
    assert plateau.max() - plateau.min() < 2.0


def test_time_that_is_not_on_the_rail_is_not_guessed(tmp_path: Path) -> None:
    assert np.isnan(after(rail_of(tmp_path / "c", 5, missing=True))).any()
