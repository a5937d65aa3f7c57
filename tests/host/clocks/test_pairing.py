"""Two logs of the same commands, made here with known partners, each with its own clock, holes and beginning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wattbell.clocks.pairing import UNKNOWN, LoggedCommands, pair
from wattbell.errors import ClockError

Int64 = npt.NDArray[np.int64]
OFFSET, DRIFT = 123_456_789_012_345, 37e-6


def true(wire_ns: Int64) -> Int64:
    return wire_ns + OFFSET + np.rint(wire_ns * DRIFT).astype(np.int64)


def made(
    count: int, seed: int, *, depth: int = 1, queues: int = 2, blocks_of_drive: int = 1 << 20, fixed_cid: bool = False
) -> tuple[LoggedCommands, LoggedCommands]:
    """(host, wire), command i of either is the same one. Each queue has `depth` commands in flight; a CID comes again at once or after
    16."""
    rng = np.random.default_rng(seed)
    columns: list[list[npt.NDArray[Any]]] = [[] for _ in range(7)]
    for queue in range(1, queues + 1):
        for slot in range(depth):
            n = count // queues // depth
            latency, pause = rng.integers(20_000, 120_000, n), rng.integers(2_500, 20_000, n)
            end = np.cumsum(latency + pause) + int(rng.integers(0, 100_000))
            generation = np.zeros(n, int) if fixed_cid else np.arange(n) % 16 << 12
            for column, values in zip(
                columns,
                (
                    np.full(n, queue),
                    slot | generation,
                    rng.choice([1, 2], n),
                    rng.integers(0, blocks_of_drive, n),
                    np.full(n, 8),
                    end - latency,
                    end,
                ),
            ):
                column.append(values)
    every = [np.concatenate(column) for column in columns]
    order = np.argsort(every[5], kind="stable")
    every = [column[order] for column in every]
    n = len(order)
    setup = true(every[5]) - 300 - rng.exponential(500, n).astype(np.int64)
    complete = true(every[6]) + 400 + rng.exponential(500, n).astype(np.int64)
    return LoggedCommands(*every[:5], setup, complete), LoggedCommands(*every)


def within(clock: Any, wire: LoggedCommands) -> bool:
    x = np.array((clock.first_ns, clock.last_ns))
    return bool(np.abs(clock.to_reference(x) - true(x)).max() <= clock.bound_s * 1e9)


@settings(max_examples=40)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 4, 32]),
    st.sampled_from([1, 4, 1 << 20]),
    st.booleans(),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.integers(0, 800),
)
def test_every_command_that_is_in_both_logs_is_paired_and_no_other(
    seed: int, depth: int, blocks: int, fixed_cid: bool, lost: float, cut: int
) -> None:
    """Random holes in both, and the host's log begins later. Reads and writes of one block with a third missing are all alike: not asked
    for."""
    lost = min(lost, 0.02) if blocks == 1 else lost
    host, wire = made(3000, seed, depth=depth, blocks_of_drive=blocks, fixed_cid=fixed_cid)
    rng = np.random.default_rng(seed + 1)
    ours = np.flatnonzero(rng.random(len(host)) >= lost)
    theirs = np.flatnonzero(rng.random(len(wire)) >= lost)
    ours = rng.permutation(ours[ours >= cut])
    found = pair(host.take(ours), wire.take(theirs))
    assert np.array_equal(ours[found.host], theirs[found.wire])
    assert np.array_equal(np.sort(theirs[found.wire]), np.intersect1d(ours, theirs))
    assert len(found.differ) == 0 and within(found.clock, wire)
    assert len(found.host) + len(found.host_alone) + found.host_outside == len(ours)
    assert len(found.wire) + len(found.wire_alone) + found.wire_outside == len(theirs)
    assert set(ours[found.host_alone].tolist()).isdisjoint(theirs.tolist())
    assert set(theirs[found.wire_alone].tolist()).isdisjoint(ours.tolist())


def test_what_was_lost_while_both_ran_is_told_from_what_came_before() -> None:
    host, wire = made(4000, 7)
    hole = np.ones(len(host), bool)
    hole[2000:2050] = False
    found = pair(host.take(np.flatnonzero(hole & (np.arange(len(host)) >= 500))), wire.take(np.arange(3500)))
    assert found.wire_alone.tolist() == list(range(2000, 2050))
    assert 495 <= found.wire_outside <= 500 and 495 <= found.host_outside <= 500 and len(found.host_alone) <= 5
    assert "50 only on the wire" in str(found)


def test_depth_1_pins_the_clock_to_what_its_quickest_commands_leave() -> None:
    """700 ns of two ways at the least, so 0.35 us and what chance adds."""
    host, wire = made(60_000, 3)
    found = pair(host, wire)
    assert found.clock.last_ns - found.clock.first_ns > 2_000_000_000
    assert 0.35e-6 < found.clock.bound_s < 0.5e-6 and within(found.clock, wire)


def test_another_address_at_the_same_time_is_told_and_not_paired() -> None:
    host, wire = made(3000, 5)
    slba = wire.slba.copy()
    slba[100] += 8
    opcode = wire.opcode.copy()
    opcode[200] = 9
    found = pair(host, replace(wire, slba=slba, opcode=opcode))
    assert found.differ.tolist() == [100, 200] and len(found.wire) == len(wire) - 2


def test_unknown_instants_are_no_limits() -> None:
    host, wire = made(3000, 6)
    start = wire.start_ns.copy()
    start[::3] = UNKNOWN
    found = pair(host, replace(wire, start_ns=start))
    assert len(found.wire) == np.count_nonzero(start != UNKNOWN) and within(found.clock, wire)


def test_a_clock_that_was_set_meanwhile_is_told() -> None:
    host, wire = made(6000, 8)
    late = np.where(np.arange(len(host)) >= 3000, 40_000_000, 0)
    with pytest.raises(ClockError, match="part between"):
        pair(replace(host, start_ns=host.start_ns + late, end_ns=host.end_ns + late), wire)


def test_logs_of_different_runs_are_refused() -> None:
    host, _ = made(3000, 1)
    _, wire = made(3000, 2)
    with pytest.raises(ClockError, match="same drive and the same time"):
        pair(host, wire)
    with pytest.raises(ClockError, match="is empty"):
        pair(host.take(np.empty(0, np.int64)), wire)
