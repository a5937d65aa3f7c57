"""Reading a stream for a calibration."""

from __future__ import annotations

import numpy as np
import pytest
from wattbell.errors import CalibrationError
from wattbell.rig.calibration.readings import Mean, Stretches, clipped

from tests.host.wire import encoder


def stream(values: list[tuple[int, int]], first_tick: int = 5_000_000, flags_of_block: dict[int, int] | None = None) -> bytes:
    """Samples every 1000 ticks, 300 per block."""
    blocks = []
    for n, at in enumerate(range(0, len(values), 300)):
        flags = (flags_of_block or {}).get(n, 0)
        blocks.append(encoder.rail(n, first_tick + 1000 * at, values[at : at + 300], flags=flags))
    return b"".join(blocks)


def test_a_stretch_is_what_lies_in_it_however_the_stream_is_cut() -> None:
    rng = np.random.default_rng(1)
    values = [(int(v), int(c)) for v, c in rng.integers(-1000, 1000, (2000, 2))]
    data = stream(values, flags_of_block={1: 4, 4: 1})
    readings = Stretches([(100e-6, 450e-6), (600.5e-6, 1000e-6)])
    for at in range(0, len(data), 777):
        readings.feed(data[at : at + 777])
    for reading, (low, high) in zip(readings.readings, [(100, 450), (601, 1000)]):
        for mean, column in ((reading.voltage, 0), (reading.current, 1)):
            inside = np.array(values[low:high])[:, column]
            assert mean.count == high - low
            assert mean.mean == pytest.approx(inside.mean(), abs=1e-9)
            assert mean.sigma == pytest.approx((inside.var(ddof=1) / len(inside) + 1 / 12) ** 0.5, rel=1e-9)
    assert [reading.flags for reading in readings.readings] == [4, 0], "those of the blocks that it lies in"
    assert readings.complete
    assert clipped(1) == (False, True) and clipped(2) == (True, False) and clipped(8) == (True, True)


def test_a_constant_is_not_known_better_than_its_rounding() -> None:
    mean = Mean()
    mean.add(np.full(400, 7, np.int32))
    assert mean.sigma == pytest.approx((1 / 12) ** 0.5)


def test_a_stream_with_a_hole_is_refused() -> None:
    data = stream([(1, 1)] * 1200)
    size = len(data) // 4
    readings = Stretches([(0.0, 1e-3)])
    with pytest.raises(CalibrationError, match="lost"):
        readings.feed(data[:size] + data[2 * size :])
        readings.feed(stream([(1, 1)] * 300))
