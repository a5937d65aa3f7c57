"""Runs a meter and joins its samples."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from wattbell.capture import RailSource
from wattbell.errors import RigError
from wattbell.meters.meter import Meter

from tests.patience import PATIENCE_S

Samples = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Ticks, V, A."""


def measured(meter: Meter, count: int, limit_s: float = PATIENCE_S, started: Callable[[], object] = bool) -> Samples:
    """At least `count` samples, and what came behind the stop. `started` is called behind the start."""
    meter.start()
    started()
    end = time.monotonic() + limit_s
    found: list[RailSource] = []
    while sum(int(source.count.sum()) for source in found) < count:
        assert time.monotonic() < end, "it sent too little"
        found += meter.read(0.05)
    meter.stop()
    while more := meter.read(0.1):
        found += more
    return joined(found)


def until_lost(meter: Meter, limit_s: float = PATIENCE_S, started: Callable[[], object] = bool) -> tuple[list[RailSource], RigError]:
    """All that comes before the error."""
    meter.start()
    started()
    end = time.monotonic() + limit_s
    found: list[RailSource] = []
    while time.monotonic() < end:
        try:
            found += meter.read(0.05)
        except RigError as error:
            return found, error
    raise AssertionError("it goes on")


def wait_for(condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
    """Until an emulator has seen the bytes sent."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.002)


def joined(found: list[RailSource]) -> Samples:
    if not found:
        return np.empty(0, np.int64), np.empty(0), np.empty(0)
    ticks = [
        first + np.arange(count) * int(interval)
        for source in found
        for first, count, interval in zip(source.first_tick, source.count, source.interval_ticks)
    ]
    return np.concatenate(ticks), np.concatenate([s.voltage_v for s in found]), np.concatenate([s.current_a for s in found])
