"""Which state an idle drive is to be in by APST's table, as the host that programmed it wrote it down (``apst_table`` of a phase).

The table itself is on no wire that a capture keeps: the drive reads it from the host's memory. That it is on, the wire tells
(:func:`.signals.apst_enabled`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wattbell.measure.phases import Phase

NEARLY_ALL = 0.9
"""Of a stretch's time: less of it in one state, and the table says nothing of the stretch."""
_MOST_STATES = 32


@dataclass(frozen=True)
class ApstTables:
    """The tables in force from each of ``ticks`` on: by state, into which, after how many seconds of idle time in it."""

    ticks: Sequence[int]
    tables: Sequence[Mapping[int, tuple[int, float]]]

    @classmethod
    def of(cls, phases: Iterable[Phase]) -> ApstTables:
        """Of the phases, in order of time, that name one."""
        named = [(phase.first_tick, phase.described["apst_table"]) for phase in phases if phase.described.get("apst_table")]
        return cls([tick for tick, _ in named], [{begin: (into, ms * 1e-3) for begin, into, ms in table if ms} for _, table in named])

    def expected(self, tick: int, state: int, first_s: float, last_s: float) -> int | None:
        """The state of a drive that was idle for ``first_s`` to ``last_s`` and in ``state`` before, around ``tick``; None where it is in
        more than one, or no table is known."""
        at = bisect.bisect_right(self.ticks, tick) - 1
        if at < 0 or last_s <= first_s:
            return None
        table, begin, inside = self.tables[at], 0.0, dict[int, float]()
        for _ in range(_MOST_STATES):
            target, wait_s = table.get(state, (state, float("inf")))
            end = begin + wait_s
            inside[state] = inside.get(state, 0.0) + max(0.0, min(last_s, end) - max(first_s, begin))
            if end >= last_s or target == state:
                break
            state, begin = target, end
        likeliest = max(inside, key=lambda one: inside[one])
        return likeliest if inside[likeliest] >= NEARLY_ALL * (last_s - first_s) else None
