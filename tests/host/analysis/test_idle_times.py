"""When nothing at all is in flight."""

from __future__ import annotations

import numpy as np
from wattbell.analysis.context import AER, idle_times
from wattbell.measure.table import Commands

MS = 1_000_000


def table(*commands: tuple[int, int], qid: int = 1, opcode: int = 2) -> Commands:
    """Commands from, until, in ms."""
    starts, ends = (np.array([one[i] for one in commands], np.int64) * MS for i in (0, 1))
    n = len(commands)
    same = {"qid": np.full(n, qid, np.uint8), "opcode": np.full(n, opcode, np.uint8), "flags": np.zeros(n, np.uint8)}
    return Commands({"start_tick": starts, "cqe_tick": ends, **same})


def gaps(*tables: Commands, last_ms: int = 0) -> list[tuple[int, int]]:
    return [(int(a) // MS, int(b) // MS) for a, b in idle_times(tables, last_ms * MS, 20 * MS)]


def test_a_long_command_is_in_flight_behind_shorter_ones_that_came_later() -> None:
    assert gaps(table((0, 100), (10, 11), (60, 61), (130, 131))) == [(100, 130)]


def test_commands_of_any_table_and_the_end_count_but_not_waiting_for_an_event() -> None:
    markers, waiting = table((50, 51), qid=0), table((0, 500), qid=0, opcode=AER)
    assert gaps(table((0, 1), (90, 91)), markers, waiting, last_ms=200) == [(1, 50), (51, 90), (91, 200)]
    assert gaps(table((0, 1), (15, 16)), last_ms=30) == []
    assert gaps(table(), last_ms=100) == []
