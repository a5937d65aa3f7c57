"""APST's timers: the idle time after which a drive moved on by itself, against the time in its table (ITPT).

The table is in no record of a tap. A phase has it, as the host read it from the drive or wrote it there (:mod:`.apst`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wattbell.analysis.apst import ApstTables
from wattbell.analysis.powerstates import name_of
from wattbell.analysis.statelabels import SURE
from wattbell.measure.figure import Figure

if TYPE_CHECKING:
    from wattbell.analysis.context import Context
    from wattbell.analysis.stretches import FoundStretches, Stretch

NO_TABLE = "no phase has APST's table: the tap sees Set Features 0Ch, and not its data"
UNLIKELY = 1 - SURE
"""Largest probability of the table's next state with which a level without a certain state shows that the drive stayed."""
NO_MOVE = "no idle time with APST on in which the rail shows the states before and behind a transition of the table"


@dataclass(frozen=True)
class TimedMove:
    """A transition of APST's table, or a stay for longer than the table allows.

    old, new : states of the table's entry.
    wait_s : its idle time (ITPT).
    after : idle time in the old state until the rail was at the level of the new one, in s; of a stay: all the time seen, a lower bound.
    stayed : whether the drive stayed to the end of the idle time.
    """

    old: int
    new: int
    wait_s: float
    after: Figure
    stayed: bool = False

    @property
    def late(self) -> Figure:
        """Return the idle time in s beyond the table's; negative of a drive that is early."""
        return replace(self.after, value=self.after.known - self.wait_s)

    @property
    def share(self) -> Figure:
        """Return the idle time as a part of the table's."""
        u = None if self.after.u is None else self.after.u / self.wait_s
        return replace(self.after, value=self.after.known / self.wait_s, u=u, unit="")


def timed_moves(context: Context, found: FoundStretches | None) -> tuple[list[TimedMove], str]:
    """Return the transitions by APST's table in order of time, and the reason if there are none.

    Only stretches with a certain state count. The idle time in a state begins with the last completion, or where the rail came to the
    state's level.
    """
    tables = ApstTables.of(context.phases)
    if not tables.ticks:
        return [], NO_TABLE
    if found is None or found.declared is None:
        return [], context.no_rail or "nobody saw Identify: the drive's power states are not known"
    gaps: dict[int, list[Stretch]] = {}
    for stretch in found.stretches:
        gaps.setdefault(stretch.gap, []).append(stretch)
    out: list[TimedMove] = []
    for gap, members in gaps.items():
        table = tables.at(int(context.gaps[gap, 0])) if len(context.gaps) > gap else None
        if table is not None and all(one.apst for one in members):
            out += _of_a_gap(context, found, table, members, context.gaps[gap].tolist())
    return out, "" if out else NO_MOVE


def targets(context: Context) -> set[int]:
    """Return the states that the tables of a capture lead into; empty without a table."""
    return {into for table in ApstTables.of(context.phases).tables for into, _ in table.values()}


def _of_a_gap(
    context: Context, found: FoundStretches, table: Mapping[int, tuple[int, float]], members: Sequence[Stretch], gap: Sequence[int]
) -> list[TimedMove]:
    """Return the moves in one idle time, and a stay at its end if it is longer than the table allows."""
    operational = found.declared.operational if found.declared else ()
    states = [name_of(one.label, one.asked, found.watched, operational)[1] for one in members]
    alone = members[0]
    if len(members) == 1 and states[0] is None and alone.asked in table and alone.asked in operational:
        # one level for a whole idle time is the old state's unless it may be the new one's
        states[0] = alone.asked if alone.label.shares.get(table[alone.asked][0], 0.0) <= UNLIKELY else None
    since, since_u_s, out = gap[0], 0.0, list[TimedMove]()
    for k, (one, state) in enumerate(zip(members, states, strict=True)):
        if k and state != states[k - 1]:
            since, since_u_s = one.first_tick, one.from_u_s
        if state is None or state not in table:
            continue
        into, wait_s = table[state]
        following = states[k + 1] if k + 1 < len(states) else None
        lost = context.loss.between(since, one.last_tick)
        missing = lost.under_commands + lost.under_rail
        if following == into != state:
            arrived = members[k + 1]
            seconds, u_s = context.seconds(arrived.first_tick - since), (since_u_s**2 + (arrived.from_u_s or found.bin_s) ** 2) ** 0.5
            out.append(TimedMove(state, into, wait_s, Figure(seconds, u_s, "s", missing)))
        elif k + 1 == len(states) and one.last_tick >= gap[1] and context.seconds(one.last_tick - since) > wait_s:
            out.append(TimedMove(state, into, wait_s, Figure(context.seconds(gap[1] - since), since_u_s, "s", missing), stayed=True))
    return out
