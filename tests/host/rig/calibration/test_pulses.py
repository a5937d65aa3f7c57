"""Pulses of a rig's test load in its stream, by an encoder of the tests' own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from wattbell.rig.calibration import CalibrationError
from wattbell.rig.calibration.pulses import PulseStream
from wattbell_spec.wire import LOAD_OFF_MARK, LOAD_ON_MARK, EventType, MarkerSource

from tests.host.wire import encoder

TAU_NS = 1760.0
PULSES, PERIOD_NS = 120, 296_000
LEVEL = 200_000
"""Current of the load, in units of the wire."""


def stream(flags_of_block: dict[int, int]) -> bytes:
    """Edges at random phases of the conversions, through one pole of 1.76 us; a sample a microsecond."""
    rng = np.random.default_rng(7)
    edges = [(200_000 + n * PERIOD_NS // 2 + int(rng.integers(0, 1000)), n % 2 == 0) for n in range(2 * PULSES)]
    ticks = np.arange(0, edges[-1][0] + PERIOD_NS, 1000)
    current = np.zeros(len(ticks))
    for at, on in edges:
        settled = 1 - np.exp(-np.maximum(ticks - at, 0) / TAU_NS)
        current += (LEVEL if on else -LEVEL) * np.where(ticks >= at, settled, 0)
    samples = [(165_000, int(value)) for value in np.rint(current)]
    blocks = [
        encoder.rail(n, int(ticks[first]), samples[first : first + 300], flags=flags_of_block.get(n, 0))
        for n, first in enumerate(range(0, len(samples), 300))
    ]
    marks = [(at, int(EventType.MARKER), int(MarkerSource.CONTROL), 0, LOAD_ON_MARK if on else LOAD_OFF_MARK) for at, on in edges]
    blocks += [encoder.events(len(blocks) + n, edges[first][0], marks[first : first + 100]) for n, first in enumerate(range(0, 240, 100))]
    return b"".join(blocks)


def collected(flags_of_block: dict[int, int]) -> PulseStream:
    found = PulseStream()
    found.feed(stream(flags_of_block))
    assert found.edges == 2 * PULSES
    return found


@pytest.mark.parametrize("flags", [{}, {5: 2}])
def test_the_delay_is_that_of_the_path_whatever_the_voltage_does(flags: dict[int, int]) -> None:
    assert collected(flags).delay().delay_s == pytest.approx(TAU_NS * 1e-9, abs=20e-9)


@pytest.mark.parametrize("flag", [1, 8])
@pytest.mark.parametrize("block", [0, 60])
def test_a_pulse_that_was_clipped_does_not_calibrate(flag: int, block: int) -> None:
    with pytest.raises(CalibrationError, match="beyond the path's scale"):
        collected({block: flag}).delay()


def test_a_stream_in_which_samples_are_missing_does_not_calibrate() -> None:
    found = collected({})
    found._ticks[10] = found._ticks[10] + 1
    with pytest.raises(CalibrationError, match="not evenly spaced"):
        found.delay()
    assert math.isfinite(found.last_s)
