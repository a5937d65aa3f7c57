"""Classes of commands separated by the phases of a capture."""

from __future__ import annotations

import numpy as np
import pytest
from wattbell.analysis.energybins import POWERS_W
from wattbell.analysis.energyfit import PhaseLoad, fit, settle, tell_apart

READ_J, WRITE_J, ACTIVE_W = 10e-6, 40e-6, 0.8


def phase(reads: int, writes: int, busy_s: float = 1.0, off: tuple[float, float] = (0.0, 0.0)) -> PhaseLoad:
    """Energy that these commands draw, each class off by its own part. Time is shared by number."""
    counts = {name: n for name, n in (("read 4 KiB", reads), ("write 4 KiB", writes)) if n}
    shared = {name: busy_s * n / (reads + writes) for name, n in counts.items()}
    share_j = ACTIVE_W * busy_s / (reads + writes)
    joules = reads * (READ_J + share_j) * (1 + off[0]) + writes * (WRITE_J + share_j) * (1 + off[1])
    return PhaseLoad(counts, shared, joules, 0.0)


def parts(reads: int, writes: int, busy_s: float) -> np.ndarray:
    """Shares of the energy: of reads, of writes; 1 for one that is not there."""
    share_j = ACTIVE_W * busy_s / (reads + writes)
    joules = np.array([reads * (READ_J + share_j), writes * (WRITE_J + share_j)])
    return np.where(joules > 0, joules / joules.sum(), 1.0)


def test_classes_that_phases_mix_differently_are_told_apart() -> None:
    loads = [phase(50_000, 0), phase(100_000, 0), phase(0, 20_000), phase(0, 60_000, 0.5), phase(50_000, 20_000), phase(9_000, 40_000)]
    found = fit(loads)
    assert found is not None
    read, write = sorted(tell_apart(found, loads[4]), key=lambda one: one.names)
    share_j = ACTIVE_W / 70_000
    assert (read.names, write.names) == (("read 4 KiB",), ("write 4 KiB",))
    assert read.joules == pytest.approx(READ_J + share_j, rel=1e-6)
    assert write.joules == pytest.approx(WRITE_J + share_j, rel=1e-6)
    assert max(read.half_width, write.half_width) < 1e-9


def test_classes_that_run_in_one_proportion_are_one() -> None:
    loads = [phase(1000 * n, 2000 * n, busy) for n, busy in ((5, 1.0), (9, 0.3), (14, 0.7), (20, 1.0), (24, 0.2), (30, 0.5))]
    found = fit(loads)
    assert found is not None
    (one,) = tell_apart(found, loads[0])
    assert set(one.names) == {"read 4 KiB", "write 4 KiB"}
    assert one.joules == pytest.approx(loads[0].above_j / 15_000, rel=1e-6)


def test_too_few_phases_tell_nothing() -> None:
    assert fit([phase(50_000, 0), phase(0, 20_000), phase(50_000, 20_000)]) is None
    assert fit([]) is None


def test_what_a_small_class_costs_is_not_known_better_than_phases_follow_the_model() -> None:
    """Phases that miss the model by 2 % say as much of every class, however many commands it has."""
    offs = np.random.default_rng(3).normal(0, 0.02, (10, 2)).tolist()
    mixes = [(50_000, 0), (80_000, 0), (0, 30_000), (0, 60_000), *((50_000, 5_000 * n) for n in range(1, 7))]
    loads = [phase(*mix, off=off) for mix, off in zip(mixes, offs, strict=True)]
    found = fit(loads)
    assert found is not None and 0.01 < found.spread < 0.03
    for one in tell_apart(found, loads[5]):
        assert one.half_width > 2 * found.spread * one.joules


def test_half_widths_hold_the_truth_as_often_as_they_say() -> None:
    """Each class is off by itself, with a variance that goes with its part of the phase. Where all of this is as the method takes it,
    phases that are left out make intervals wider than need be."""
    rng, held, all_of_them = np.random.default_rng(5), 0, 0
    for _ in range(150):
        mixes = [(50_000, 0), (90_000, 0), (0, 30_000), (0, 60_000), *rng.integers(5_000, 50_000, (5, 2)).tolist()]
        busy = rng.uniform(0.3, 1, len(mixes)).tolist()
        offs = [tuple(rng.normal(0, 0.01, 2) / np.sqrt(parts(*mix, busy_s))) for mix, busy_s in zip(mixes, busy, strict=True)]
        loads = [phase(*mix, busy_s=busy_s, off=off) for mix, busy_s, off in zip(mixes, busy, offs, strict=True)]
        found = fit(loads)
        assert found is not None
        for load, off in zip(loads[4:], offs[4:], strict=True):
            share_j = ACTIVE_W * sum(load.shared_s.values()) / sum(load.counts.values())
            truth = {"read 4 KiB": (READ_J + share_j) * (1 + off[0]), "write 4 KiB": (WRITE_J + share_j) * (1 + off[1])}
            for one in tell_apart(found, load):
                joules = sum(truth[name] * load.counts[name] for name in one.names) / sum(load.counts[name] for name in one.names)
                held += abs(one.joules - joules) <= one.half_width
                all_of_them += 1
    assert all_of_them >= 1490 and 0.92 < held / all_of_them < 0.995


def test_a_controller_that_is_on_after_writes_is_not_taken_for_what_a_write_costs() -> None:
    """Alone, each write leaves it on for 1 ms; between reads it is on anyway. Then a write costs less, and the reads no more."""
    after_s = {index: 1e-3 * n for index, n in ((2, 300), (3, 500))}
    loads = []
    for index, (reads, writes) in enumerate(
        [(50_000, 0), (100_000, 0), (0, 300), (0, 500), (50_000, 2_000), (9_000, 4_000), (20_000, 900)]
    ):
        plain, on_s = phase(reads, writes, 0.5 if reads else 0.02), after_s.get(index, 0.0)
        seen = np.where(POWERS_W < 2.5, on_s, 0.0)
        joules = plain.above_j + on_s * ACTIVE_W
        loads.append(PhaseLoad(plain.counts, plain.shared_s, joules, 0.0, seen, {"write 4 KiB": 1.0} if writes else {}))
    found = settle(loads)
    assert found is not None and found.controller_w == pytest.approx(ACTIVE_W, rel=1e-6) and found.spread < 1e-6
    read, write = sorted(tell_apart(found, loads[4].with_after(found.controller_w)), key=lambda one: one.names)
    share_j = ACTIVE_W * 0.5 / 52_000
    assert (read.joules, write.joules) == (pytest.approx(READ_J + share_j, rel=1e-6), pytest.approx(WRITE_J + share_j, rel=1e-6))
    (alone,) = tell_apart(found, loads[2].with_after(found.controller_w))
    assert alone.joules == pytest.approx(WRITE_J + ACTIVE_W * (0.02 / 300 + 1e-3), rel=1e-6)
    without = fit([PhaseLoad(load.counts, load.shared_s, load.above_j, 0.0) for load in loads])
    assert without is not None and without.spread > 0.01


def test_the_spread_is_of_phases_told_by_the_others() -> None:
    offs = np.random.default_rng(8).normal(0, 0.02, (9, 2)).tolist()
    mixes = [(50_000, 0), (80_000, 0), (0, 30_000), (0, 60_000), *((50_000, 9_000 * n) for n in range(1, 6))]
    loads = [phase(*mix, busy_s=0.3 + 0.1 * n, off=off) for n, (mix, off) in enumerate(zip(mixes, offs, strict=True))]
    found = fit(loads)
    assert found is not None
    errors = []
    for left in range(len(loads)):
        others = fit(loads[:left] + loads[left + 1 :])
        assert others is not None
        count = sum(loads[left].counts.values())
        told = others.combination(others.weights(loads[left], list(loads[left].counts)))[0] * count
        errors.append(told / loads[left].above_j - 1)
    assert found.spread == pytest.approx(float(np.sqrt(np.mean(np.square(errors)))), rel=1e-6)
