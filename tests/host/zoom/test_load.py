"""Load over any span agrees with the rows, whether it comes from the pyramid or from rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from wattbell.zoom import Zoom
from wattbell.zoom.loadbins import LoadBins

from tests.host.zoom.conftest import spans, truth


def expected(rows: pl.DataFrame, bins: LoadBins) -> dict[str, np.ndarray]:
    """The same bins by walking through every command, tick by event."""
    io = rows.filter(pl.col("io") & (pl.col("end") >= bins.first_tick))
    low, width, n = bins.first_tick, bins.width_ticks, len(bins)
    high = low + n * width
    found = {name: np.zeros(n, np.int64) for name in ("count", "read_bytes", "write_bytes", "depth_ticks", "depth_max")}
    for end, good, moved, opcode in io.select("end", "good", "moved", "opcode").iter_rows():
        if low <= end < high:
            place = (end - low) // width
            found["count"][place] += good
            found["read_bytes" if opcode == 2 else "write_bytes"][place] += moved
    starts, ends = io["start"].to_numpy(), io["end"].to_numpy()
    edges = low + np.arange(n + 1) * width
    steps = np.unique(np.concatenate((starts, ends, edges)))
    steps = steps[(steps >= low) & (steps <= high)]
    depth = np.searchsorted(np.sort(starts), steps, side="right") - np.searchsorted(np.sort(ends), steps, side="right")
    place = (steps[:-1] - low) // width
    np.add.at(found["depth_ticks"], place, depth[:-1] * np.diff(steps))
    np.maximum.at(found["depth_max"], place, depth[:-1])
    return found


@pytest.mark.parametrize("points", [40, 700])
def test_load_is_what_the_rows_say(busy: Zoom, points: int) -> None:
    rows = truth(busy)
    assert len(busy.commands.pyramid.load_levels.begins) > 3, "there is a pyramid to answer from"
    for begin, end in spans(busy, 25):
        bins = busy.load(begin, end, points)
        assert bins.first_tick <= begin and bins.first_tick + len(bins) * bins.width_ticks >= end
        assert len(bins) <= points + 2
        for name, values in expected(rows, bins).items():
            np.testing.assert_array_equal(getattr(bins, name), values, f"{name} of {begin} .. {end}")


def test_a_bin_much_wider_than_the_commands_has_them_all(busy: Zoom) -> None:
    first, last = busy.bounds
    far = (last - first) * 1_000_000
    bins = busy.load(first - far, last + far, 9)
    rows = truth(busy).filter("io")
    assert bins.count.sum() == rows["good"].sum()
    assert bins.read_bytes.sum() + bins.write_bytes.sum() == rows["moved"].sum()
    assert bins.depth_ticks.sum() == (rows["end"] - rows["start"]).sum()


def test_pictures_do_not_change_while_they_move(busy: Zoom) -> None:
    first, last = busy.bounds
    middle, length = (first + last) // 2, (last - first) // 10
    one, other = busy.load(middle, middle + length, 100), busy.load(middle + length // 7, middle + length // 7 + length, 100)
    assert one.width_ticks == other.width_ticks
    shift = (other.first_tick - one.first_tick) // one.width_ticks
    np.testing.assert_array_equal(one.count[shift:], other.count[: len(one) - shift])
