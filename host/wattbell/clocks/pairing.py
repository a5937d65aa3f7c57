"""Pair the host's log of commands with the wire's, and derive limits for the two clocks.

The driver notes a command before it rings the doorbell (``nvme_setup_cmd``) and after its CQE has come (``nvme_complete_rq``). So the
host's interval holds the wire's, whatever the delays are. In every pair, the doorbell is no earlier than the setup and the CQE no later
than the completion. At depth 1 both are a microsecond or a few apart, and one quick command in millions is enough, on either side.

**Known clocks.** A CID is used by one command of its queue at a time. Once the clocks are known well enough, a command of the wire lies
within the time of at most one command of the host with its QID and CID. This holds whatever was lost on either side, wherever either log
begins, and however often a CID comes again. If opcode or address differ, they are no pair.

**Unknown clocks.** At first, commands are paired if their QID, CID, opcode, address and length come only once in either log. In a log of
repeated work, the commands that follow are compared too. Most of these pairs give the offset in a short stretch. From there, the limits of
one stretch say where to look in the next, longer stretch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ClockError
from .hull import DRIFT_LIMIT, ClockLimits, fit
from .map import ClockMap

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

UNKNOWN = np.iinfo(np.int64).min
"""In the place of an instant that is not known."""
_FIRST_STRETCH = 256
"""Commands that tell the offset: their time is short, so that the drift hardly matters."""
_LEAST_SHARE = 0.2
"""Least share of the commands of the first stretch that must agree on the offset."""
_LEAST = 8
_FOLLOWERS = (0, 3, 15, 63)
"""With how many commands behind it a command is looked for, if it is not alone in its log."""
_ENOUGH = 0.2
"""Share of commands that are alone in both logs with which it begins."""


@dataclass(frozen=True)
class LoggedCommands:
    """Commands of one log, all arrays of one length, in any order.

    start_ns, end_ns: by the log's own clock, :data:`UNKNOWN` if not known. In the host's log, setup and completion; in the wire's, doorbell
        (else fetch) and CQE.
    """

    qid: npt.NDArray[Any]
    cid: npt.NDArray[Any]
    opcode: npt.NDArray[Any]
    slba: npt.NDArray[Any]
    blocks: npt.NDArray[Any]
    start_ns: Int64
    end_ns: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, index: npt.NDArray[Any]) -> LoggedCommands:
        """Some of them."""
        return LoggedCommands(
            *(column[index] for column in (self.qid, self.cid, self.opcode, self.slba, self.blocks, self.start_ns, self.end_ns))
        )

    def keys(self) -> npt.NDArray[np.uint64]:
        """A number that two commands share, as good as only if QID, CID, opcode, address and length are the same."""
        parts = (self.qid, self.cid, self.opcode, self.slba, self.blocks)
        return _mixed([np.asarray(part).astype(np.uint64) for part in parts])


@dataclass(frozen=True)
class Pairs:
    """Pairs of commands: ``host[i]`` of the host's log and ``wire[i]`` of the wire's are one command.

    host_alone, wire_alone: indices of commands without a partner while both logs ran, which the other log lost
    differ: commands of the wire with another opcode or address than the host's command of that time
    host_outside, wire_outside: numbers of commands before or after the time that both logs cover, which are in no other field
    clock: maps ns of the wire onto the host's, from the first pair to the last
    limits: the limits behind ``clock``
    """

    host: Int64
    wire: Int64
    host_alone: Int64
    wire_alone: Int64
    differ: Int64
    host_outside: int
    wire_outside: int
    clock: ClockMap
    limits: ClockLimits

    def __str__(self) -> str:
        return (
            f"{len(self.host)} commands paired, {len(self.host_alone)} only in the host's log, {len(self.wire_alone)} only on the wire, "
            f"{len(self.differ)} differ; clocks within {self.clock.bound_s * 1e6:.3g} us"
        )


def pair_limits(host: LoggedCommands, wire: LoggedCommands, host_index: Int64, wire_index: Int64) -> ClockLimits:
    """Return the limits that pairs give for the wire's clock (source) by the host's (reference)."""
    starts = (wire.start_ns[wire_index] != UNKNOWN) & (host.start_ns[host_index] != UNKNOWN)
    ends = (wire.end_ns[wire_index] != UNKNOWN) & (host.end_ns[host_index] != UNKNOWN)
    return ClockLimits(
        wire.start_ns[wire_index][starts], host.start_ns[host_index][starts], wire.end_ns[wire_index][ends], host.end_ns[host_index][ends]
    )


def pair(host: LoggedCommands, wire: LoggedCommands, *, drift_limit: float = DRIFT_LIMIT) -> Pairs:
    """Pair the two logs of one drive. Raises ClockError if they have too little in common, or their clocks parted (:func:`.hull.fit`)."""
    here = np.flatnonzero((host.start_ns != UNKNOWN) & (host.end_ns != UNKNOWN))
    there = np.flatnonzero((wire.start_ns != UNKNOWN) & (wire.end_ns != UNKNOWN))
    if not len(here) or not len(there):
        raise ClockError("there are no commands to pair: one of the two logs is empty.")
    here = here[np.argsort(host.start_ns[here], kind="stable")]
    there = there[np.argsort(wire.start_ns[there], kind="stable")]
    ours, theirs = host.take(here), wire.take(there)
    span = int(theirs.start_ns.min()), int(theirs.end_ns.max())
    clock = _coarse(ours, theirs, span, drift_limit)
    for _ in range(2):  # the better map decides where the coarse map could not choose between two neighbours
        a, b, differ = _contained(ours, theirs, clock)
        made = pair_limits(ours, theirs, a, b)
        clock = fit(made, f"{len(a)} commands in both logs", drift_limit=drift_limit)
    first, last = _common(ours, theirs, clock)
    alone = [np.ones(len(log), bool) for log in (ours, theirs)]
    alone[0][a], alone[1][b], alone[1][differ] = False, False, False
    mapped = [(ours.start_ns, ours.end_ns), (clock.to_reference(theirs.start_ns), clock.to_reference(theirs.end_ns))]
    inside = [(start >= first) & (end <= last) for start, end in mapped]
    return Pairs(
        here[a],
        there[b],
        np.sort(here[alone[0] & inside[0]]),
        np.sort(there[alone[1] & inside[1]]),
        np.sort(there[differ]),
        int(np.count_nonzero(alone[0] & ~inside[0])),
        int(np.count_nonzero(alone[1] & ~inside[1])),
        clock,
        made,
    )


def _common(host: LoggedCommands, wire: LoggedCommands, clock: ClockMap) -> tuple[int, int]:
    """The host's ns in which both logs ran, as far as their commands tell."""
    bounds = [(int(host.start_ns.min()), int(host.end_ns.max()))]
    bounds.append(tuple(int(ns) for ns in clock.to_reference(np.array((wire.start_ns.min(), wire.end_ns.max())))))  # type: ignore[arg-type]
    return max(b[0] for b in bounds), min(b[1] for b in bounds)


def _contained(host: LoggedCommands, wire: LoggedCommands, clock: ClockMap) -> tuple[Int64, Int64, Int64]:
    """Return (indices of the host, of the wire, of differing commands of the wire) by QID, CID and time."""
    slack = round(clock.bound_s * 1e9)
    start, end = clock.to_reference(wire.start_ns), clock.to_reference(wire.end_ns)
    middle = start + (end - start) // 2
    # Both logs by (QID, CID), then time: the host's commands of one QID and CID do not overlap.
    lane_host, lane_wire = _lanes(host), _lanes(wire)
    order = np.lexsort((host.start_ns, lane_host))
    lanes, begin = lane_host[order], host.start_ns[order]
    ranks = _ranks(lanes, begin, lane_wire, middle)
    at = np.maximum(ranks - 1, 0)
    chosen = order[at]
    inside = (ranks > 0) & (lanes[at] == lane_wire) & (host.start_ns[chosen] <= start + slack) & (end - slack <= host.end_ns[chosen])
    wire_index = np.flatnonzero(inside)
    host_index = chosen[inside]
    same = host.keys()[host_index] == wire.keys()[wire_index]
    # two of the wire within one of the host: a tap that follows the wrong queue, or a clock that is not known well enough
    _, first, times = np.unique(host_index, return_index=True, return_counts=True)
    once = np.zeros(len(host_index), bool)
    once[first[times == 1]] = True
    return host_index[same & once], wire_index[same & once], wire_index[~same]


def _lanes(log: LoggedCommands) -> Int64:
    found: Int64 = log.qid.astype(np.int64) << 16 | log.cid.astype(np.int64)
    return found


def _ranks(lanes: Int64, begin: Int64, lane: Int64, instant: Int64) -> Int64:
    """Count, for each (lane, instant), the sorted (lanes, begin) that are not behind it."""
    both = np.concatenate((lanes, lane))
    when = np.concatenate((begin, instant))
    queries = np.concatenate((np.zeros(len(lanes), np.int8), np.ones(len(lane), np.int8)))
    order = np.lexsort((queries, when, both))
    count = np.cumsum(order < len(lanes))
    found = np.empty(len(both), np.int64)
    found[order] = count
    return found[len(lanes) :]


def _coarse(host: LoggedCommands, wire: LoggedCommands, span: tuple[int, int], drift_limit: float) -> ClockMap:
    """A map good enough to tell a command from its neighbours."""
    a, b = _alike(host, wire)
    if len(a) < min(_LEAST, len(host), len(wire)):
        raise ClockError(
            f"only {len(a)} of {len(wire)} commands on the wire can be found among the {len(host)} of the host's log; "
            "are both of the same drive and the same time?"
        )
    low = host.start_ns[a] - wire.start_ns[b]
    high = host.end_ns[a] - wire.end_ns[b]
    at = wire.start_ns[b]
    every = np.arange(len(a))
    chosen, share = _consensus(low, high, at, every, drift_limit)
    if share < _LEAST_SHARE or len(chosen) < min(_LEAST, len(host), len(wire)):
        raise ClockError(
            f"the two logs do not agree on an offset of their clocks: at best {share:.0%} of the commands that occur once in both; "
            "are both of the same drive and the same time?"
        )
    begin, end = int(chosen[0]), int(chosen[-1]) + 1
    while True:
        clock = fit(
            pair_limits(host, wire, a[chosen], b[chosen]), "commands that occur once in both logs", span=span, drift_limit=drift_limit
        )
        if begin == 0 and end == len(a):
            break
        length = end - begin
        begin, end = max(0, begin - length), min(len(a), end + length)
        part = np.arange(begin, end)
        # All lines within the limits hold for this longer stretch, so nothing lies outside their range.
        reach = fit(
            pair_limits(host, wire, a[chosen], b[chosen]),
            "",
            span=(int(at[begin]), int(wire.end_ns[b[part]].max())),
            drift_limit=drift_limit,
        )
        slack = round(reach.bound_s * 1e9)
        start, stop = (reach.to_reference(ns[b[part]]) for ns in (wire.start_ns, wire.end_ns))
        chosen = part[(host.start_ns[a[part]] <= start + slack) & (stop - slack <= host.end_ns[a[part]])]
    # If others agree among themselves, and none there with the rest, the clocks parted; pairs that only look alike are anywhere.
    others = np.setdiff1d(every, chosen)
    if len(others) >= _LEAST:
        parted, share = _consensus(low, high, at, others, drift_limit)
        amid = np.count_nonzero((chosen >= parted[0]) & (chosen <= parted[-1])) if len(parted) else 0
        if share >= _LEAST_SHARE and len(parted) >= _LEAST and amid < len(parted):
            both = np.sort(np.concatenate((chosen, parted)))
            fit(pair_limits(host, wire, a[both], b[both]), "commands that occur once in both logs", drift_limit=drift_limit)
    return clock


def _consensus(low: Int64, high: Int64, at: Int64, index: Int64, drift_limit: float) -> tuple[Int64, float]:
    """Return the agreeing members of the best of up to 16 short stretches of the candidates `index`, all over the log, and their share."""
    length = min(len(index), _FIRST_STRETCH)
    found: tuple[Int64, float] = (index[:0], 0.0)
    for k in np.unique(np.linspace(0, len(index) - length, 16).astype(int)).tolist():
        part = index[k : k + length]
        members, share = _agreeing(low[part], high[part], at[part], drift_limit)
        if share > found[1]:
            found = part[members], share
    return found


def _agreeing(low: Int64, high: Int64, at: Int64, drift_limit: float) -> tuple[Bool, float]:
    """Return a mask of the intervals that hold the offset common to most, and their share."""
    # Sums with an origin: float64 of whole offsets would round them.
    reach = np.rint(np.abs(at - at[len(at) // 2]) * drift_limit).astype(np.int64)
    first, last = low - reach, high + reach
    order = np.argsort(np.concatenate((first, last)), kind="stable")
    depth = np.cumsum(np.where(order < len(first), 1, -1))
    top = int(np.concatenate((first, last))[order[int(np.argmax(depth))]])
    members = (first <= top) & (top <= last)
    return members, float(np.count_nonzero(members)) / max(1, len(members))


def _alike(host: LoggedCommands, wire: LoggedCommands) -> tuple[Int64, Int64]:
    """Return the indices of the commands that are unique in both logs, in the wire's order.

    If there are few, commands are compared together with the commands behind them in their queue.
    """
    keys = host.keys(), wire.keys()
    found: tuple[Int64, Int64] = (np.empty(0, np.int64), np.empty(0, np.int64))
    for more in _FOLLOWERS:
        grams = [_grams(key, log, more) for key, log in zip(keys, (host, wire))]
        (ours, a), (theirs, b) = (_once(key, index) for key, index in grams)
        _, i, j = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
        if len(i) > len(found[0]):
            order = np.argsort(b[j], kind="stable")
            found = a[i][order], b[j][order]
        if len(found[0]) >= max(_LEAST, _ENOUGH * min(len(host), len(wire))):
            break
    return found


def _grams(keys: npt.NDArray[np.uint64], log: LoggedCommands, more: int) -> tuple[npt.NDArray[np.uint64], Int64]:
    """Key of each command with the `more` that follow it in its queue, and the index of the command."""
    index = np.argsort(log.qid, kind="stable")
    if not more:
        return keys, np.arange(len(keys))
    ordered, queue = keys[index], log.qid[index]
    if len(ordered) <= more:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    count = len(ordered) - more
    made = _mixed([ordered[k : k + count] for k in range(more + 1)])
    whole = queue[:count] == queue[more:]
    return made[whole], index[:count][whole]


def _once(keys: npt.NDArray[np.uint64], index: Int64) -> tuple[npt.NDArray[np.uint64], Int64]:
    values, first, times = np.unique(keys, return_index=True, return_counts=True)
    return values[times == 1], index[first[times == 1]]


def _mixed(parts: list[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """One number of several, by SplitMix64's finalizer."""
    out = np.zeros(len(parts[0]), np.uint64)
    for part in parts:
        out = (out ^ part) + np.uint64(0x9E3779B97F4A7C15)
        out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out = out ^ (out >> np.uint64(31))
    return out
