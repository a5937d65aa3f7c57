"""The rail over any span is what its samples say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import CaptureWriter, open_capture
from wattbell.wire.decode import Gap
from wattbell.zoom import Zoom, span
from wattbell.zoom.railpoints import increment_for
from wattbell_spec.wire import BlockContent

SAMPLES, INTERVAL, FIRST = 700_000, 1000, 5_000_500
HOLES = ((40_000, 41_500), (200_000, 200_001), (300_000, 380_000))
"""Missing samples: the last hole is too long to be stored."""


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    """Current in A: noise with single peaks, which an approximate summary puts elsewhere."""
    noise = np.random.default_rng(1)
    amps = (1 + 0.1 * noise.standard_normal(SAMPLES)).astype(np.float32)
    amps[noise.integers(0, SAMPLES, 400)] = 3
    for first, last in HOLES:
        amps[first:last] = np.nan
    return amps


@pytest.fixture(scope="module")
def zoom(tmp_path_factory: pytest.TempPathFactory, samples: np.ndarray) -> Zoom:
    path: Path = tmp_path_factory.mktemp("rail") / "capture"
    with CaptureWriter(path, journal=False, conditions={"virtual": True}) as writer:
        edges = [0, *(edge for hole in HOLES for edge in hole), SAMPLES]
        for first, last in zip(edges[::2], edges[1::2]):
            for begin in range(first, last, 5000):
                end = min(begin + 5000, last)
                writer.add_rail(FIRST + begin * INTERVAL, INTERVAL, np.full(end - begin, 3.25, np.float32), samples[begin:end])
        for first, last in HOLES:
            writer.add_gap(Gap(BlockContent.RAIL, FIRST + first * INTERVAL, FIRST + (last - 1) * INTERVAL, last - first, "test"))
    return Zoom(open_capture(path))


def inside(samples: np.ndarray, begin: int, end: int) -> np.ndarray:
    """The samples at ticks ``[begin, end)``."""
    low, high = (min(max(-(-(tick - FIRST) // INTERVAL), 0), SAMPLES) for tick in (begin, end))
    return samples[low:high].astype(np.float64)


@pytest.mark.parametrize(
    "begin, end, points", [(0, SAMPLES, 50), (0, SAMPLES, 1000), (10_000, 290_000, 300), (39_000, 42_000, 20), (299_000, 381_000, 7)]
)
def test_points_have_the_mean_and_the_limits_of_their_samples(zoom: Zoom, samples: np.ndarray, begin: int, end: int, points: int) -> None:
    found = zoom.rail(FIRST + begin * INTERVAL, FIRST + end * INTERVAL, points)
    assert found is not None and not found.raw and len(found.ticks) <= points + 2
    row, half = found.rows["current"], found.width_ticks / 2
    exact = 0
    for tick, mean, low, high in zip(found.ticks, row.mean, row.low, row.high, strict=True):
        here = inside(samples, int(np.ceil(tick - half)), int(np.ceil(tick + half)))
        here = here[np.isfinite(here)]
        if not len(here):
            assert np.isnan(mean)
            continue
        if tick > FIRST + HOLES[2][0] * INTERVAL:  # behind a break the file's entries lie across points
            assert np.isfinite(mean)
            continue
        exact += 1
        clear = len(here) == found.width_ticks // INTERVAL
        assert mean == pytest.approx(here.mean(), rel=1e-5 if clear else 2e-3)
        assert (low, high) == (pytest.approx(here.min(), rel=1e-6), pytest.approx(here.max(), rel=1e-6))
    assert exact or points < 20


def test_few_samples_are_drawn_singly_with_one_beyond_each_edge(zoom: Zoom, samples: np.ndarray) -> None:
    begin, end = FIRST + 40_990 * INTERVAL + 300, FIRST + 41_510 * INTERVAL - 300
    found = zoom.rail(begin, end, 600)
    assert found is not None and found.raw
    assert found.ticks[0] <= begin < found.ticks[1] and found.ticks[-2] < end <= found.ticks[-1]
    places = ((found.ticks - FIRST) / INTERVAL).astype(int)
    np.testing.assert_array_equal(found.rows["current"].mean, samples[places].astype(np.float64))


@pytest.mark.parametrize("read", [0, 1 << 20])
@pytest.mark.parametrize(
    "begin, end",
    [(0, SAMPLES), (39_990, 41_600), (41_000, 200_010), (250_000, 400_000), (310_000, 320_000), (500_000.3, 500_002.7), (650_000, 800_000)],
)
def test_statistics_of_a_span(
    zoom: Zoom, samples: np.ndarray, begin: float, end: float, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span, "READ_SAMPLES", read)
    low, high = round(FIRST + begin * INTERVAL), round(FIRST + end * INTERVAL)
    found = zoom.rail_span(low, high)
    here = inside(samples, low, high)
    known = here[np.isfinite(here)]
    assert found is not None and (found.samples, found.missing) == (len(known), len(here) - len(known))
    if len(known):
        current = found.signals["current"]
        assert current.mean == pytest.approx(known.mean(), rel=1e-6)
        assert (current.low, current.high) == (pytest.approx(known.min()), pytest.approx(known.max()))
        assert current.std == pytest.approx(known.std(), rel=1e-9 if read else 5e-3)
    else:
        assert not found.signals


def test_no_entry_of_a_summary_lies_on_two_points() -> None:
    for samples in (10, 1000, 127_000, 129_000, 10**6, 2_561_000, 86_400_000_000):
        increment = increment_for(samples, 1000)
        assert increment * 1000 >= samples
        entry = max((size for size in (1, *(128 * 20**k for k in range(9))) if size <= increment), default=1)
        assert increment % entry == 0


def test_histogram_of_samples(zoom: Zoom, samples: np.ndarray) -> None:
    begin, end = FIRST, FIRST + 100_000 * INTERVAL
    values, each = zoom.samples("current", begin, end, 200_000) or (np.empty(0), 0)
    assert each == 1
    np.testing.assert_array_equal(values, samples[:100_000].astype(np.float64))
    means, each = zoom.samples("current", begin, end, 200) or (np.empty(0), 0)
    assert len(means) <= 200 and each >= 128
    assert means[0] == pytest.approx(samples[:each].mean(), rel=1e-5)


def test_the_rail_is_moved_by_the_front_ends_delay(tmp_path: Path) -> None:
    with CaptureWriter(
        tmp_path / "capture", journal=False, conditions={"virtual": True, "front_end_delay_s": 2e-6, "front_end_delay_u_s": 1e-9}
    ) as writer:
        writer.add_rail(10_000, 1000, np.full(100, 3.3, np.float32), np.arange(100, dtype=np.float32))
    found = Zoom(open_capture(tmp_path / "capture")).rail(8_000, 108_000, 200)
    assert found is not None
    assert found.ticks[0] == 8_000 and found.rows["current"].mean[5] == 5
