"""Phases of work in a meter's waveform: with a clock that is off and drifts, activity of their own, tails, noise and gaps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from wattbell.clocks.edges import match_edges
from wattbell.clocks.map import ClockMap
from wattbell.errors import ClockError

F64 = npt.NDArray[np.float64]
Spans = list[tuple[float, float]]
Clock = Callable[[Any], Any]


def phases(rng: np.random.Generator, count: int, *, alike: bool = False) -> Spans:
    found, at = [], rng.uniform(1, 3)
    for _ in range(count):
        length, pause = (2.0, 1.0) if alike else (rng.uniform(0.5, 6), rng.uniform(0.5, 3))
        found.append((at, at + length))
        at += length + pause
    return found


def drawn(rng: np.random.Generator, spans: Spans, *, late_s: float = 0.0, tail_s: float = 0.0, step_s: float = 1e-3) -> tuple[F64, F64]:
    """0.5 W at rest with ten bursts of 0.7 W more; 1.5 to 4 W in a phase, not steady; 50 mW of noise."""
    time = np.arange(0, spans[-1][1] + 5, step_s)
    power = np.full(len(time), 0.5)
    for begin in rng.uniform(0, time[-1], 10):
        power[(time > begin) & (time < begin + 0.1)] += 0.7
    for begin, end in spans:
        inside = (time >= begin + late_s) & (time < end + tail_s)
        power[inside] = rng.uniform(1.5, 4) + 0.3 * np.sin(time[inside] * rng.uniform(1, 50))
    return time, power + rng.normal(0, 0.05, len(time))


def clock(rng: np.random.Generator) -> Clock:
    offset, drift = rng.uniform(-10, 10), rng.uniform(-1e-4, 1e-4)
    return lambda s: s * (1 + drift) + offset


def told(rng: np.random.Generator, spans: Spans, host: Clock, u: float = 2e-3) -> list[tuple[float, float, float]]:
    return [(host(a) + rng.uniform(-u, u), host(b) + rng.uniform(-u, u), u) for a, b in spans]


def off_s(found: ClockMap, host: Clock, time: F64) -> float:
    ends = time[[0, -1]]
    return float(np.abs(found.to_reference(np.rint(ends * 1e9).astype(np.int64)) * 1e-9 - host(ends)).max())


@pytest.mark.parametrize("seed", range(12))
def test_the_clock_is_within_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spans, host = phases(rng, 6), clock(rng)
    time, power = drawn(rng, spans, late_s=rng.uniform(0, 5e-3))
    found = match_edges(time, power, told(rng, spans, host))
    assert off_s(found, host, time) <= found.bound_s < 0.015
    assert (found.first_ns, found.last_ns) == (0, round(time[-1] * 1e9))
    assert "12 edges of the phases, power up within 10 ms" in found.method


def test_the_bound_holds_what_a_drive_may_be_late_by() -> None:
    """The assumption on the drive is half of the bound, whatever else is known."""
    rng = np.random.default_rng(1)
    spans, host = phases(rng, 6), clock(rng)
    time, power = drawn(rng, spans, step_s=1e-4)
    bounds = [match_edges(time, power, told(rng, spans, host, 0.0), settle_s=late).bound_s for late in (0.005, 0.010, 0.040)]
    assert np.diff(bounds) == pytest.approx([0.0025, 0.015], abs=1e-3) and bounds[0] < 0.004


@pytest.mark.parametrize("wake_s", [0.03, 0.05, 0.07])
def test_a_drive_that_draws_more_to_wake_than_to_work_rises_when_it_wakes(wake_s: float) -> None:
    """From 0.5 W to 6 W, and only then to the power of the work."""
    rng = np.random.default_rng(7)
    spans, host = [(2.0, 7.0)], clock(rng)
    time, power = drawn(rng, spans)
    power[(time >= spans[0][0]) & (time < spans[0][0] + wake_s)] += 3
    found = match_edges(time, power, told(rng, spans, host))
    assert off_s(found, host, time) <= found.bound_s < 0.015
    assert "2 of 2 edges" in found.method


def test_samples_that_are_missing_at_an_edge_cost_that_edge() -> None:
    rng = np.random.default_rng(4)
    spans, host = phases(rng, 6), clock(rng)
    time, power = drawn(rng, spans)
    power[(time > spans[2][0] - 0.05) & (time < spans[2][0] + 0.05)] = math.nan
    keep = (time < spans[4][1] - 0.05) | (time > spans[4][1] + 0.05)
    found = match_edges(time[keep], power[keep], told(rng, spans, host))
    assert off_s(found, host, time) <= found.bound_s < 0.015
    assert found.method.startswith("10 of 12")


def test_part_of_the_work_is_enough_where_it_fits_nowhere_else() -> None:
    rng = np.random.default_rng(6)
    spans, host = phases(rng, 8), clock(rng)
    time, power = drawn(rng, spans)
    found = match_edges(time, power, told(rng, spans[2:6], host))
    assert off_s(found, host, time) <= found.bound_s


@pytest.mark.parametrize("seed", range(6))
def test_equal_phases_of_which_some_are_not_told_are_ambiguous(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spans, host = phases(rng, 8, alike=True), clock(rng)
    time, power = drawn(rng, spans)
    with pytest.raises(ClockError, match=r"fits the waveform at several places, [369]\.0"):
        match_edges(time, power, told(rng, spans[3:], host))


@pytest.mark.parametrize("seed", range(6))
def test_another_run_is_not_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    time, power = drawn(rng, phases(rng, 5))
    with pytest.raises(ClockError):
        match_edges(time, power, told(rng, phases(rng, 5), clock(rng)))


def test_noise_is_no_phase() -> None:
    rng = np.random.default_rng(0)
    time = np.arange(0, 40, 1e-3)
    with pytest.raises(ClockError, match="does not show the work"):
        match_edges(time, np.abs(rng.normal(1, 1, len(time))), told(rng, phases(rng, 5), clock(rng)))
    with pytest.raises(ClockError, match="the same everywhere"):
        match_edges(time, np.full(len(time), 2.0), told(rng, phases(rng, 5), clock(rng)))
    with pytest.raises(ClockError, match="too few samples"):
        match_edges(time, np.full(len(time), math.nan), told(rng, phases(rng, 5), clock(rng)))


def test_a_drive_that_is_later_than_assumed_contradicts_itself() -> None:
    """Power rises 60 ms after the host began and falls as it ends; it would have to fall before."""
    rng = np.random.default_rng(2)
    spans, host = phases(rng, 6), clock(rng)
    time, power = drawn(rng, spans, late_s=0.06)
    given = told(rng, spans, host)
    with pytest.raises(ClockError):
        match_edges(time, power, given)
    found = match_edges(time, power, given, settle_s=0.08)
    assert off_s(found, host, time) <= found.bound_s


def test_phases_too_short_to_be_looked_for_are_refused() -> None:
    rng = np.random.default_rng(2)
    time, power = drawn(rng, phases(rng, 2))
    with pytest.raises(ClockError, match="Leave out the short ones"):
        match_edges(time, power, [(1.0, 1.001, 0.0), (2.0, 2.001, 0.0)])
    with pytest.raises(ClockError, match="no phase"):
        match_edges(time, power, [])


def test_an_edge_that_two_phases_share_is_not_counted_among_those_to_be_found() -> None:
    """Six jobs, each begun as the one before it ended, at one power: nothing steps between them."""
    rng = np.random.default_rng(21)
    time = np.arange(0, 40, 1e-3)
    spans = [(5.0, 8.0), (8.0, 12.5), (12.5, 14.0), (14.0, 19.0), (19.0, 21.0), (21.0, 27.5)]
    power = np.where((time >= 5) & (time < 27.5), 2.0, 0.5) + rng.normal(0, 0.05, len(time))
    host = clock(rng)
    found = match_edges(time, power, told(rng, spans, host), offset_limit_s=12)
    assert found.method.startswith("2 of 2 edges") and off_s(found, host, time) <= found.bound_s
