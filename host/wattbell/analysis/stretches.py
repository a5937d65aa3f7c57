"""Stretches of one power state: the rail's change points, cut where the link's state changes, with the probability of every state.

Commands in flight show by themselves that the drive works, so only the time between them is searched. If nobody saw commands, the
whole rail is searched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from wattbell_spec.wire import LinkState

from wattbell.analysis.apst import ApstTables
from wattbell.analysis.changepoints import LevelPiece, bins, locate, pieces, scatter_of
from wattbell.analysis.link import states as link_states
from wattbell.analysis.signals import StateTrack, apst_enabled, in_reset, requested_state
from wattbell.analysis.statelabels import Declared, StateLabel, StateLevel, groups, label_of, probabilities
from wattbell.measure.table import NONE

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

BIN_S = 1e-3
STEADY_BINS = 5
"""Shorter than this is no level, but the way from one to another."""
MAX_BINS = 2_000_000
MOST_LOCATED = 20_000
"""Changes of level that are looked up on the samples; the places of more are known to a bin."""
THIN_BINS = 20
"""A shorter stretch is said to be of its level with less certainty."""
SURE_ALONE = 0.93
"""No label of a rail alone is surer: on models of drives (studies/state_coverage.py, seeds from 1001 on) as many of the surest held."""
LINKS = (LinkState.L0, LinkState.L0S, LinkState.L1, LinkState.L1_1, LinkState.L1_2)


@dataclass
class Stretch:
    """``settled``: the ticks between which the level was measured; ``first_tick`` and ``last_tick`` are where it was reached and left.
    ``gap``: which idle time, counted from 0, and ``position_s`` in it. ``from_u_s``, ``to_u_s``: how far off its ends may be (0: from
    the wire). ``asked``, ``link``, ``apst``, ``by_table``: as in :class:`~wattbell.analysis.statelabels.StateLevel`."""

    first_tick: int
    last_tick: int
    mean_w: float
    std_w: float
    bins: int
    gap: int
    position_s: float
    settled: tuple[int, int]
    from_u_s: float = 0.0
    to_u_s: float = 0.0
    link: int | None = None
    asked: int | None = None
    apst: bool | None = None
    by_table: int | None = None
    label: StateLabel = field(default_factory=lambda: StateLabel((), 0.0, {}))
    level: int = -1

    @property
    def ticks(self) -> int:
        return self.last_tick - self.first_tick


@dataclass(frozen=True)
class FoundStretches:
    """All stretches in order.

    bin_s: length of a bin
    watched: whether requests of the host could be seen

    The other fields are the evidence for the states.
    """

    stretches: list[Stretch]
    bin_s: float
    declared: Declared | None
    requested: StateTrack | None
    watched: bool
    link_seen: bool


def saw_requests(context: Context) -> bool:
    """Return whether requests of the host could be seen."""
    return context.saw_commands and (not context.by_host or bool((context.commands.qid == 0).any()))


def find(context: Context, windows: Int64) -> FoundStretches:
    """The stretches in ``windows`` (ticks, shape (n, 2)): the idle times, or the whole rail."""
    rail = context.rail
    assert rail is not None
    total_s = float((windows[:, 1] - windows[:, 0]).sum()) * context.tick_s
    width = max(4, math.ceil(max(BIN_S, total_s / MAX_BINS) / rail.interval_s))
    pitch = width * rail.interval_ticks
    declared = Declared.of((context.capture.meta.get("drive") or {}).get("power_states") or [])
    io = context.commands.start_tick[context.commands.qid > 0]
    requested = requested_state(context.events, io, tuple(declared.sleeping) if declared else ())
    watched = saw_requests(context)
    apst = apst_enabled(context.capture.commands) if watched else None
    tables = ApstTables.of(context.phases)
    held = in_reset(context.events)
    ticks, values = link_states(context.events)
    link = StateTrack(ticks, values, int(LinkState.UNKNOWN)) if len(ticks) else None
    left = MOST_LOCATED
    out: list[Stretch] = []
    for g, (first, last) in enumerate(windows.tolist()):
        low, high = rail.indices(first, last)
        means = bins(rail, low, high, width)
        origin = rail.reader.tick_of(low)
        for low_tick, high_tick in held:
            if low_tick < last and high_tick > first:
                means[max(0, (low_tick - origin) // pitch) : max(0, -(-(high_tick - origin) // pitch))] = np.nan
        steady = [p for p in pieces(means, scatter_of(means)) if p.last - p.first >= STEADY_BINS]
        begin = len(out)
        before: LevelPiece | None = None
        for piece in steady:
            made = list(_by_link(piece, means, origin, pitch, link, g, first, context.tick_s))
            if before is not None:
                apart = piece.first - before.last
                if apart > STEADY_BINS or not left:
                    out[-1].to_u_s = made[0].from_u_s = pitch * context.tick_s
                else:
                    left -= 1
                    middle = origin + (before.last + piece.first) * pitch // 2
                    tick, u_s = locate(rail, middle, before.mean_w, piece.mean_w, (apart + 4) * pitch // 2)
                    if out[-1].first_tick < tick < made[0].last_tick:
                        out[-1].last_tick = made[0].first_tick = tick
                    out[-1].to_u_s = made[0].from_u_s = u_s + rail.model.alignment_u_s
            out += made
            before = piece
        _to_the_ends(out[begin:], first, last, pitch)
        for stretch in out[begin:]:
            middle = (stretch.first_tick + stretch.last_tick) // 2
            if watched:
                stretch.asked = requested.at(middle) if requested else 0
                on = apst.at(middle) if apst else -1
                stretch.apst = None if on < 0 else bool(on)
                if stretch.apst and stretch.asked not in (declared.sleeping if declared else ()):
                    since, until = ((tick - first) * context.tick_s for tick in (stretch.first_tick, stretch.last_tick))
                    stretch.by_table = tables.expected(middle, stretch.asked, since, until)
    if declared is not None:
        _label(out, declared, _waits(context, windows) if context.saw_commands else {}, not context.saw_commands)
    return FoundStretches(out, width * rail.interval_s, declared, requested, watched, link is not None)


def _to_the_ends(found: list[Stretch], first: int, last: int, pitch: int) -> None:
    """The outermost stretches reach to the window's ends, which commands tell, if they come within two bins."""
    if found and found[0].first_tick - first <= 2 * pitch:
        found[0].first_tick = first
    if found and last - found[-1].last_tick <= 2 * pitch:
        found[-1].last_tick = last


def _by_link(
    piece: LevelPiece, means: Float, origin: int, pitch: int, link: StateTrack | None, gap: int, first: int, tick_s: float
) -> Iterator[Stretch]:
    """The piece, cut where the link goes into another state for at least as long as makes a level."""
    low, high = origin + piece.first * pitch, origin + piece.last * pitch
    spans: list[tuple[int, int, int | None]] = [(low, high, None)]
    if link is not None:
        spans = []
        for state, ticks in link.pieces(low, high):
            start = spans[-1][1] if spans else low
            value = state if state in set(LINKS) else None
            if spans and (ticks < STEADY_BINS * pitch or value is None or value == spans[-1][2]):
                spans[-1] = (spans[-1][0], start + ticks, spans[-1][2])
            elif spans and spans[-1][1] - spans[-1][0] < STEADY_BINS * pitch:
                spans[-1] = (spans[-1][0], start + ticks, value)
            else:
                spans.append((start, start + ticks, value))
    for start, end, kept in spans:
        part = means[(start - origin) // pitch : max((start - origin) // pitch + 1, (end - origin) // pitch)]
        scatter = 1.4826 * float(np.median(np.abs(part - np.median(part))))
        yield Stretch(start, end, float(part.mean()), scatter, len(part), gap, (start - first) * tick_s, (start, end), link=kept)


def _waits(context: Context, windows: Int64) -> dict[int, float]:
    """Return by window how long in s the first command behind it waited for its fetch; in a host's log, for its completion."""
    out: dict[int, float] = {}
    for table in (context.markers, context.commands):
        rows = np.searchsorted(table.start_tick, windows[:, 1])
        for g, row in enumerate(rows.tolist()):
            if row < len(table) and table.start_tick[row] == windows[g, 1]:
                end = table.cqe_tick[row] if context.by_host else table.fetch_tick[row]
                if end != NONE:
                    out[g] = float(end - table.start_tick[row]) * context.tick_s
    return out


def _label(found: list[Stretch], declared: Declared, waits: Mapping[int, float], alone: bool) -> None:
    """Gives each stretch its probabilities."""
    keys: dict[tuple[object, ...], list[tuple[float, int]]] = {}
    for at, stretch in enumerate(found):
        keys.setdefault((stretch.link, stretch.asked, stretch.apst, stretch.by_table), []).append((stretch.mean_w, at))
    levels: list[StateLevel] = []
    of: dict[int, int] = {}
    for (link, asked, apst, by_table), members in keys.items():
        for group in groups(members):
            those = [found[i] for i in group]
            seconds = sum(s.ticks for s in those)
            mean = sum(s.mean_w * s.ticks for s in those) / seconds
            scatter = math.sqrt(sum(s.std_w**2 * s.ticks for s in those) / seconds) / max(abs(mean), 1e-6)
            of.update(dict.fromkeys(group, len(levels)))
            levels.append(StateLevel(mean, float(seconds), scatter, link, asked, apst, by_table, with_commands=alone))  # type: ignore[arg-type]
    exits: dict[int, list[float]] = {}
    for i, stretch in enumerate(found):
        mine = levels[of[i]]
        if i == 0 or found[i - 1].gap != stretch.gap:
            mine.first += 1
        elif of[i - 1] != of[i]:
            before = levels[of[i - 1]]
            before.next[of[i]] = before.next.get(of[i], 0) + 1
        if stretch.gap in waits and (i + 1 == len(found) or found[i + 1].gap != stretch.gap):
            exits.setdefault(of[i], []).append(waits[stretch.gap])
    for number, times in exits.items():
        levels[number].exit_s = float(np.median(times))
    shares = probabilities(levels, declared)
    for i, stretch in enumerate(found):
        sure = (SURE_ALONE if alone else 1.0) - 0.3 * max(0.0, 1 - stretch.bins / THIN_BINS)
        stretch.label = label_of({state: p * sure for state, p in shares[of[i]].items()})
