"""Pure functions of the analysis against brute force and closed forms."""

import math
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.analysis.energybins import equal_shares
from wattbell.analysis.idle import cluster
from wattbell.measure.depth import depth_histogram, depth_steps, depth_summary, idle_gaps
from wattbell.measure.energy import EnergyMeter
from wattbell.measure.errormodel import ErrorModel
from wattbell.measure.figure import Figure, ratio
from wattbell.measure.latency import describe, supported
from wattbell.measure.windows import MovingMax, moving_mean
from wattbell.text import concise, si

EXACT = ErrorModel(gain=0.0, offset_a=0.0, timebase=0.0, tick_resolution_s=1e-9)
samples = st.lists(st.one_of(st.floats(0, 10), st.just(math.nan)), max_size=200)


def brute_moving(values, width):
    return [
        math.nan if any(math.isnan(v) for v in values[i : i + width]) else math.fsum(values[i : i + width]) / width
        for i in range(len(values) - width + 1)
    ]


@given(samples, st.integers(1, 40))
def test_moving_mean_is_the_mean_of_each_window(values, width):
    got = moving_mean(np.array(values, float), width)
    assert len(got) == max(0, len(values) - width + 1)
    np.testing.assert_allclose(got, brute_moving(values, width), atol=1e-9, equal_nan=True)


pairs = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=4)


@given(samples, st.integers(1, 30), pairs, st.data())
def test_moving_max_over_chunks_is_that_of_the_whole(values, width, ranges, data):
    ranges = [(min(a, b), min(max(a, b), len(values))) for a, b in ranges]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=5)))
    moving = MovingMax(width, ranges)
    for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True):
        moving.add(np.array(values[a:b], float))
    for i, (first, last) in enumerate(ranges):
        windows = brute_moving(values[first:last], width)
        good = [v for v in windows if not math.isnan(v)]
        assert moving.skipped[i] == len(windows) - len(good)
        assert moving.best[i] == pytest.approx(max(good, default=-math.inf), abs=1e-9)
        if good:
            at = moving.best_at[i]
            assert first <= at <= last - width
            assert math.fsum(values[at : at + width]) / width == pytest.approx(moving.best[i], abs=1e-9)


@given(st.lists(st.integers(1, 30), max_size=20), st.integers(1, 9), st.integers(0, 60), st.integers(0, 60), st.data())
def test_samples_that_are_skipped_count_like_missing_ones(lengths, width, a, b, data):
    total = sum(lengths)
    ranges = [(min(a, b, total), min(max(a, b), total)), (0, total)]
    one, other = MovingMax(width, ranges), MovingMax(width, ranges)
    for k, n in enumerate(lengths):
        if data.draw(st.booleans()):
            one.skip(n)
            other.add(np.full(n, np.nan))
        else:
            values = np.arange(n) * (k + 1.0)
            one.add(values)
            other.add(values)
    assert (one.best, one.best_at, one.skipped) == (other.best, other.best_at, other.skipped)


commands = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=60)


@given(commands, st.integers(0, 200), st.integers(1, 200))
def test_depth_is_the_number_in_flight_at_every_tick(pairs, first, length):
    starts = np.array([s for s, _ in pairs], np.int64)
    ends = np.array([s + d for s, d in pairs], np.int64)
    steps = depth_steps(starts, ends)
    assert (np.diff(steps.ticks) > 0).all()
    at = [sum(1 for s, d in pairs if s <= t < s + d) for t in range(first, first + length)]
    histogram = depth_histogram(steps, first, first + length)
    assert histogram.tolist() == np.bincount(at, minlength=len(histogram)).tolist()
    summary = depth_summary(steps, first, first + length)
    assert summary["mean"] == pytest.approx(sum(at) / length)
    assert summary["max"] == max(at)


def test_idle_gaps_lie_between_commands():
    steps = depth_steps(np.array([0, 5, 100, 130]), np.array([10, 20, 110, 140]))
    assert idle_gaps(steps, 20).tolist() == [[20, 100], [110, 130]]
    assert idle_gaps(steps, 21).tolist() == [[20, 100]]


def test_percentiles_are_nearest_rank_and_null_beyond_the_sample():
    ticks = np.arange(1, 1001, dtype=np.int64)  # 1 .. 1000 ns
    random.Random(3).shuffle(shuffled := ticks.tolist())
    got = describe(np.array(shuffled), 1e-9, EXACT)
    assert got["p50"] == pytest.approx(500e-9)
    assert got["p90"] == pytest.approx(900e-9)
    assert got["p99"] == pytest.approx(990e-9)
    assert got["p99_9"] is None
    assert got["p99_99"] is None
    assert got["max"] == pytest.approx(1000e-9)
    assert got["mean"] == pytest.approx(500.5e-9)


def test_a_percentile_needs_enough_samples_to_be_bounded():
    # p ** n <= 2.275 %: the probability that all n samples lie below the quantile
    for p, n in ((0.9, 36), (0.99, 377), (0.999, 3783), (0.9999, 37831), (0.99999, 378316)):
        least = math.ceil(math.log(0.02275) / math.log(p))
        assert abs(least - n) <= 2
        assert supported(least, p)
        assert not supported(least - 1, p)


RAIL_COLUMNS = {
    "first_tick": pl.Int64,
    "interval_ticks": pl.UInt32,
    "count": pl.UInt16,
    "adc_index": pl.UInt64,
    "energy_raw": pl.Int64,
    "energy_high": pl.Int32,
    "epoch": pl.UInt32,
    "flags": pl.UInt16,
}


def halves(energy):
    """A 96-bit sum as the two columns that hold it."""
    return (energy + 2**63) % 2**64 - 2**63, energy >> 64


def block_frame(power_units, block, interval=1000, first=0, start_energy=0):
    """RAIL blocks of a rail with the product voltage x current `power_units` in each conversion."""
    energy, rows = start_energy, []
    for a in range(0, len(power_units), block):
        part = power_units[a : a + block]
        energy += sum(part)
        rows.append((first + a * interval, interval, len(part), a + len(part), *halves(energy), 0, 0))
    return pl.DataFrame(rows, schema=RAIL_COLUMNS, orient="row")


def meter_of(power_units, block, interval=1000, start_energy=0):
    watt = np.array([float(u) * 1e-11 for u in power_units])

    def read(first, last):
        low = max(0, -(-first // interval))
        high = min(len(watt), -(-last // interval))
        return low * interval, watt[low:high]

    frame = block_frame(power_units, block, interval, start_energy=start_energy)
    return EnergyMeter(frame, interval, 0.0, 1e-9, read)


@given(
    st.lists(st.integers(-(2**40), 2**44), min_size=12, max_size=120),
    st.integers(1, 9),
    st.integers(-(2**95) + 2**60, 2**95 - 2**60),
    st.data(),
)
def test_energy_of_any_window_is_the_integral_of_the_held_samples(units, block, start, data):
    interval = 1000
    meter = meter_of(units, block, interval, start)
    span = (-interval // 2, (len(units) - 1) * interval + interval // 2)
    a, b = sorted(data.draw(st.tuples(st.integers(*span), st.integers(*span))))
    want = sum(u * 1e-11 * 1e-9 * max(0, min(b, k * interval + 500) - max(a, k * interval - 500)) for k, u in enumerate(units))
    got = meter.between(a, b)
    scale = sum(abs(u) for u in units) * 1e-11 * 1e-6
    assert got.joules == pytest.approx(want, abs=1e-9 * scale + 1e-18)
    assert got.covered_s == pytest.approx((b - a) * 1e-9, abs=1e-12)


def accumulator(steps, index_steps):
    """A meter over blocks with an accumulator that grew by `steps`, with this many conversions in each."""
    total = index = 0
    rows = []
    for step, conversions in zip(steps, index_steps, strict=True):
        total, index = total + step, index + conversions
        rows.append((index * 1000, 1000, 10, index, *halves(total), 0, 0))
    frame = pl.DataFrame(rows, schema=RAIL_COLUMNS, orient="row")
    return EnergyMeter(frame, 1000, 0.0, 1e-9, lambda first, _last: (first, np.empty(0)))


def test_energy_is_exact_beyond_64_bits():
    # 4 W: 4e11 units per conversion; 4e6 conversions per block; wraps 2^64 8 times
    steps = [4 * 10**11 * 4 * 10**6 + k for k in range(100)]
    meter = accumulator(steps, [4 * 10**6] * 100)
    assert meter.exact_units(0, 99) == sum(steps[1:])
    assert meter.exact_units(17, 18) == steps[18]


@pytest.mark.parametrize("quiet, lost", [(0.05, 5.0), (5.0, 0.05), (0.05, 20.0)])
def test_energy_across_a_long_gap_is_that_of_the_accumulator_whatever_the_power_was(quiet, lost):
    """20 s, 100 s without a block, 20 s: the power in the gap differs from that before it, and 500 J do not fit 64 bits."""
    second = 10**6
    powers = [quiet] * 20 + [lost] + [quiet] * 20
    counts = [second] * 20 + [100 * second] + [second] * 20
    steps = [round(p * 1e11) * n for p, n in zip(powers, counts, strict=True)]
    meter = accumulator(steps, counts)
    boundary = meter.boundary
    found = meter.between(float(boundary[0]), float(boundary[-1]))
    assert meter.exact_units(0, len(steps) - 1) == sum(steps[1:])
    assert found.joules == pytest.approx(19 * quiet + 100 * lost + 20 * quiet, rel=1e-9)


@pytest.mark.parametrize("column, value, left_us", [("epoch", 1, 70), ("flags", 0x10, 40), ("interval_ticks", 2000, 40)])
def test_nothing_exact_spans_a_restart_or_another_period(column, value, left_us):
    """The index may have grown past the old one by then, so it does not tell."""
    whole = block_frame([10**11] * 100, 10)
    at = pl.col("first_tick") >= 50_000
    broken = whole.with_columns(pl.when(at).then(pl.lit(value, whole.schema[column])).otherwise(pl.col(column)).alias(column))
    found = EnergyMeter(broken, 1000, 0.0, 1e-9, lambda first, _last: (first, np.empty(0))).between(0, 99_000)
    assert found.covered_s == pytest.approx(left_us * 1e-6)  # no samples here: a window across a break is not covered
    assert found.joules == found.exact_j == pytest.approx(left_us * 1e-6)


def test_lost_blocks_do_not_lose_energy():
    units = [1_000_000 * (k % 7 + 1) for k in range(100)]
    whole = block_frame(units, 10)
    holed = whole.filter(~pl.col("first_tick").is_between(30_000, 60_000))
    watt = np.array(units) * 1e-11

    def read(first, last):
        low, high = max(0, -(-first // 1000)), min(100, -(-last // 1000))
        return low * 1000, watt[low:high]

    a, b = 15_000, 85_000
    full = EnergyMeter(whole, 1000, 0.0, 1e-9, read).between(a, b)
    less = EnergyMeter(holed, 1000, 0.0, 1e-9, read).between(a, b)
    assert less.joules == pytest.approx(full.joules, rel=1e-12)


def test_edge_uncertainty_is_zero_on_a_flat_rail_and_bounds_a_step():
    flat = meter_of([10**11] * 50, 10)
    assert flat.between(12_345, 33_333).edge_u_j == 0
    stepped = meter_of([10**11] * 20 + [3 * 10**11] * 30, 10)
    # a step of 2 W inside one 1 us interval: k = 2 of a uniform distribution
    assert stepped.between(19_700, 44_100).edge_u_j == pytest.approx(2 * 2.0 * 1e-6 / math.sqrt(12), rel=1e-9)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 300)), min_size=1, max_size=40))
def test_equal_shares_of_commands_are_the_time_with_anything_in_flight(pairs):
    starts = np.sort(np.array([s for s, _ in pairs], np.int64))
    ends = starts + np.array([d for _, d in pairs], np.int64)
    got = equal_shares(depth_steps(starts, ends), starts, ends)
    at = np.arange(1300)
    in_flight = (starts[:, None] <= at) & (at < ends[:, None])
    want = (in_flight / np.maximum(in_flight.sum(axis=0), 1)).sum(axis=1)
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_levels_are_grouped_by_power():
    levels = cluster([0.6, 0.0098, 0.59, 0.0276, 0.0099])
    assert [sorted(x) for x in levels] == [[0, 2], [3], [1, 4]]


def test_ratio_adds_relative_uncertainties_in_squares():
    got = ratio(Figure(1000.0, 3.0, "MB/s", lost=2), Figure(2.0, 0.008, "W", lost=1), "MB/s/W")
    assert got.value == 500
    assert got.u == pytest.approx(500 * math.hypot(0.003, 0.004))
    assert got.lost == 3
    assert ratio(Figure(None, None, "MB/s"), Figure(1.0, None, "W"), "x").value is None


def test_figures_as_text():
    assert concise(Figure(1.44961, 0.00145, "W")) == "1.4496(14)"
    assert concise(Figure(0.0276, 3.2e-5, "W"), 1e3) == "27.600(32)"
    assert concise(Figure(None, None, "W")) == "–"
    assert si(54.8e-3, "s") == "54.80 ms"
    assert si(-11.65e-6, "s") == "−11.65 µs"
    assert si(999.99e-6, "s", 3) == "1.00 ms"
