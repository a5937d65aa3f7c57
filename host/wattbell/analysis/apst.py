"""APST's table as the host wrote it down (``apst_table`` of a phase), and the state that it asks of an idle drive.

The table itself is on no wire that a capture keeps: the drive reads it from the host's memory. The wire only shows that APST is on
(:func:`.signals.apst_enabled`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattbell.measure.phases import Phase

Table = Mapping[int, tuple[int, float]]
"""Transitions by state: the next state, and the idle time in s before the transition."""
NEARLY_ALL = 0.9
"""Share of a stretch's time. If no state has so much, the table makes no statement on the stretch."""
_MOST_STATES = 32


@dataclass(frozen=True)
class ApstTables:
    """The tables in force from each of ``ticks`` on: by state, into which, after how many seconds of idle time in it."""

    ticks: Sequence[int]
    tables: Sequence[Table]

    @classmethod
    def of(cls, phases: Iterable[Phase]) -> ApstTables:
        """Collect the tables of the phases, in order of time, that name one."""
        named = [(phase.first_tick, phase.described["apst_table"]) for phase in phases if phase.described.get("apst_table")]
        return cls([tick for tick, _ in named], [table_of(table) for _, table in named])

    def at(self, tick: int) -> Table | None:
        """Return the table in force at a tick; None before the first."""
        at = bisect.bisect_right(self.ticks, tick) - 1
        return None if at < 0 else self.tables[at]

    def expected(self, tick: int, state: int, first_s: float, last_s: float) -> int | None:
        """Return the state of a drive that was idle for ``first_s`` to ``last_s`` and in ``state`` before, around ``tick``.

        None if it was in more than one state, or no table is known.
        """
        table = self.at(tick)
        if table is None or last_s <= first_s:
            return None
        inside: dict[int, float] = {}
        steps = [(state, 0.0), *descent(table, state)]
        last, since = steps[-1]
        stays = last not in table or table[last][0] == last
        ends = [*(due for _, due in steps[1:]), float("inf") if stays else since]
        for (one, begin), end in zip(steps, ends, strict=True):
            inside[one] = inside.get(one, 0.0) + max(0.0, min(last_s, end) - max(first_s, begin))
        likeliest = max(inside, key=lambda one: inside[one])
        return likeliest if inside[likeliest] >= NEARLY_ALL * (last_s - first_s) else None


def table_of(rows: Iterable[tuple[int, int, int]]) -> Table:
    """Return a table from rows of (from state, to state, after ms), as a phase has them; an entry of 0 ms is no transition."""
    return {begin: (into, ms * 1e-3) for begin, into, ms in rows if ms}


def descent(table: Table, state: int = 0) -> list[tuple[int, float]]:
    """(state, seconds of idle time until the drive sets out for it) of each step down from ``state``, in order."""
    out: list[tuple[int, float]] = []
    after = 0.0
    while len(out) < _MOST_STATES and state in table:
        into, wait_s = table[state]
        if into == state:
            break
        state, after = into, after + wait_s
        out.append((state, after))
    return out


LINUX_CLASSES = ((15_000, 0.1), (100_000, 2.0))
"""Entry and exit latency together in us, at most, and after how many seconds Linux has a drive enter such a state."""
LINUX_LONGEST_EXIT_US = 100_000
"""``nvme_core.default_ps_max_latency_us``."""


def linux_table(states: Sequence[tuple[bool, float, float]], longest_exit_us: float = LINUX_LONGEST_EXIT_US) -> Table:
    """Return the table that Linux 6.12 programs for a drive. Source: ``nvme_configure_apst`` in drivers/nvme/host/core.c.

    states: (whether operational, entry latency, exit latency, both in us), in order
    longest_exit_us: the latency tolerance, with which Linux compares the exit latency alone; 0 turns APST off
    """
    if longest_exit_us <= 0:
        return {}
    table: dict[int, tuple[int, float]] = {}
    target: tuple[int, float] | None = None
    last = len(LINUX_CLASSES)
    for state in range(len(states) - 1, -1, -1):
        if target is not None:
            table[state] = target
        operational, entry_us, exit_us = states[state]
        known = next((i for i, (most_us, _) in enumerate(LINUX_CLASSES) if entry_us + exit_us <= most_us), None)
        if operational or known is None or known >= last or exit_us > longest_exit_us:
            continue
        last, target = known, (state, LINUX_CLASSES[known][1])
    return table
