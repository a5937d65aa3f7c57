"""Load patterns in drawn waveforms of drives that are never quite idle. Against the SSD model: tests/e2e/test_clocks.py."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from wattbell.clocks.map import ClockMap
from wattbell.clocks.pattern import Burst, match_pattern, schedule
from wattbell.errors import ClockError

F64 = npt.NDArray[np.float64]
Spans = list[tuple[float, float]]
STARTS = (2.0, 40.0)


def made(*starts: float) -> list[Spans]:
    return [[(start + a, start + b) for a, b in schedule(backwards=k == 1)] for k, start in enumerate(starts)]


def drawn(
    rng: np.random.Generator, patterns: Sequence[Spans], late_s: float = 1e-3, noise_w: float = 0.05, step_s: float = 1e-3
) -> tuple[F64, F64]:
    """0.6 W at rest, 2 W in a burst, which takes up to 30 ms to fall; 3 W of other work from 15 s to 25 s; own activity now and then."""
    time = np.arange(0, 52, step_s)
    power = np.full(len(time), 0.6)
    for begin in rng.uniform(0, 52, 15):
        power[(time > begin) & (time < begin + rng.uniform(0, 0.2))] += 0.5
    power[(time > 15) & (time < 25)] = 3.0
    for begin, end in itertools.chain(*patterns):
        power[(time >= begin + late_s) & (time < end + rng.uniform(0, 0.03))] = 2.0
    return time, power + rng.normal(0, noise_w, len(time))


class Clock:
    """A host's clock far from the meter's in its origin, which the user knows to a few seconds."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.drift, self.near_s = rng.uniform(-1e-4, 1e-4), 5_000_000.0
        self.offset_ns = int((self.near_s + rng.uniform(-9, 9)) * 1e9)

    def ns(self, meter_s: float) -> int:
        return round(meter_s * 1e9) + round(meter_s * self.drift * 1e9) + self.offset_ns

    def told(self, rng: np.random.Generator, patterns: Sequence[Spans]) -> list[list[Burst]]:
        def around(meter_s: float) -> tuple[int, int]:
            return self.ns(meter_s) - int(rng.integers(0, 50_000)), self.ns(meter_s) + int(rng.integers(0, 50_000))

        return [[Burst(*around(a), *around(b)) for a, b in spans] for spans in patterns]

    def off_s(self, found: ClockMap) -> float:
        return max(abs(int(found.to_reference(ns)) - self.ns(ns * 1e-9)) for ns in (found.first_ns, found.last_ns)) * 1e-9


def test_no_two_bursts_are_as_far_apart_as_two_others() -> None:
    for backwards in (False, True):
        begins = [round(begin * 1000) for begin, _ in schedule(backwards=backwards)]
        apart = [b - a for a, b in itertools.combinations(begins, 2)]
        assert len(set(apart)) == len(apart) and begins[0] == 0 and begins == sorted(begins)
        assert all(end - begin == pytest.approx(0.1) for begin, end in schedule(backwards=backwards))
    forward, back = ([b - a for a, b in itertools.pairwise(begin for begin, _ in schedule(backwards=k))] for k in (False, True))
    assert forward == pytest.approx(back[::-1]) and forward != pytest.approx(back)
    assert schedule(unit_s=1.0)[-1] == (34.0, 34.5)


@pytest.mark.parametrize("seed", range(8))
def test_the_clock_is_within_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    patterns, clock = made(*STARTS), Clock(rng)
    time, power = drawn(rng, patterns, late_s=rng.uniform(0, 2e-3))
    found = match_pattern(time, power, clock.told(rng, patterns), offset_s=clock.near_s)
    assert clock.off_s(found) <= found.bound_s < 0.008
    assert " of 32 edges of 2 load patterns" in found.method


def test_one_pattern_alone_leaves_the_drift_to_its_limit() -> None:
    rng = np.random.default_rng(3)
    patterns, clock = made(*STARTS), Clock(rng)
    time, power = drawn(rng, patterns)
    both, one = (match_pattern(time, power, clock.told(rng, patterns[:k]), offset_s=clock.near_s) for k in (2, 1))
    assert clock.off_s(one) <= one.bound_s and one.bound_s > 0.0025 + both.bound_s


def test_a_pattern_that_is_not_there_is_not_found() -> None:
    rng = np.random.default_rng(4)
    patterns, clock = made(*STARTS), Clock(rng)
    time, power = drawn(rng, [])
    with pytest.raises(ClockError):
        match_pattern(time, power, clock.told(rng, patterns), offset_s=clock.near_s)
    time, power = drawn(rng, patterns)
    with pytest.raises(ClockError):  # it lies outside of what is searched
        match_pattern(time, power, clock.told(rng, patterns), offset_s=clock.near_s + 60)


def test_a_pattern_that_is_there_twice_is_ambiguous() -> None:
    rng = np.random.default_rng(5)
    first, again = ([(start + a, start + b) for a, b in schedule()] for start in (2.0, 30.0))
    clock = Clock(rng)
    time, power = drawn(rng, [first, again])
    with pytest.raises(ClockError, match=r"several places, 28\.0"):
        match_pattern(time, power, clock.told(rng, [first]), offset_s=clock.near_s, offset_limit_s=40)


def test_a_meter_whose_clock_was_set_between_the_patterns_is_told() -> None:
    rng = np.random.default_rng(6)
    patterns, clock = made(*STARTS), Clock(rng)
    time, power = drawn(rng, patterns)
    bursts = clock.told(rng, patterns)
    late = [Burst(*(ns + 50_000_000 for ns in (b.begin_before_ns, b.begin_after_ns, b.end_before_ns, b.end_after_ns))) for b in bursts[1]]
    with pytest.raises(ClockError, match="contradict each other"):
        match_pattern(time, power, [bursts[0], late], offset_s=clock.near_s)


def test_bursts_out_of_order_are_refused() -> None:
    rng = np.random.default_rng(6)
    patterns, clock = made(*STARTS), Clock(rng)
    time, power = drawn(rng, patterns)
    bursts = clock.told(rng, patterns)
    with pytest.raises(ClockError, match="not in order of time"):
        match_pattern(time, power, [bursts[0][::-1]])
    with pytest.raises(ValueError, match="three bursts"):
        match_pattern(time, power, [bursts[0][:2]])


class SlowComputer:
    """Bursts of a few commands. Each takes the drive 0.2 ms at 1.2 W above rest; the host sends it up to 3 ms before, and has its
    completion up to 6 ms later."""

    def __init__(self, rng: np.random.Generator, patterns: Sequence[Spans], step_s: float = 1e-3) -> None:
        fine = 1e-4
        self.time = np.arange(0, 52, step_s) + step_s / 2
        power = np.full(round(52 / fine), 0.46)
        power[: round(1 / fine)] = 0.01  # asleep before the session
        self.commands: list[list[tuple[F64, F64]]] = []
        for spans in patterns:
            self.commands.append([])
            for begin, end in spans:
                at = np.sort(rng.uniform(begin, end, int(rng.integers(8, 60))))
                for instant in at:
                    power[round(instant / fine) : round((instant + 2e-4) / fine)] += 1.2
                self.commands[-1].append((at - rng.uniform(5e-5, 3e-3, len(at)), at + 2e-4 + rng.uniform(5e-5, 6e-3, len(at))))
        several = round(step_s / fine)
        self.power = power.reshape(-1, several).mean(axis=1) + rng.normal(0, 2e-3, len(self.time))

    def told(self, clock: Clock) -> list[list[Burst]]:
        def ns(instants: F64) -> list[int]:
            return [clock.ns(instant) for instant in instants.tolist()]

        return [[Burst.of(ns(start), ns(end)) for start, end in bursts] for bursts in self.commands]


@pytest.mark.parametrize("seed", range(6))
def test_a_few_commands_of_a_slow_computer_are_a_burst(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    seen, clock = SlowComputer(rng, made(*STARTS), (1e-4, 1e-3)[seed % 2]), Clock(rng)
    found = match_pattern(seen.time, seen.power, seen.told(clock), offset_s=clock.near_s)
    assert clock.off_s(found) <= found.bound_s < 0.008


def test_a_pattern_that_hardly_shows_leaves_the_other() -> None:
    """A drive that was never written answers without its flash."""
    rng = np.random.default_rng(8)
    patterns, clock = made(*STARTS), Clock(rng)
    time, power = drawn(rng, patterns[1:])
    told = clock.told(rng, patterns)
    found = match_pattern(time, power, told, offset_s=clock.near_s)
    assert "edges of 1 of 2 load patterns" in found.method
    assert clock.off_s(found) <= found.bound_s
    short = match_pattern(time, power, told, offset_s=clock.near_s, covers_ns=(clock.ns(38.0), clock.ns(48.0)))
    assert short.bound_s < found.bound_s - 2e-3, "near the pattern more is known"
    assert short.covers(round(38.001e9), round(47.999e9))
