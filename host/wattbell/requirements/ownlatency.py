"""The drive's own latency monitor against the wire.

The host configures the monitor (Set Features C5h), which clears its buckets, and reads log page C3h. A latency is the time from the fetch
of the SQE to the CQE. A command nearer to a threshold than `EDGE_S` may be in either bucket. The page may be up to ten minutes old, so
commands of that time may be counted or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import OCP_LATENCY_MONITOR_FEATURE, OCP_LATENCY_MONITOR_LOG, io
from wattbell_spec.wire import CommandFlag

from ..analysis.context import Context
from ..measure.figure import Figure, K, absent
from ..measure.instruments import NO_COMMANDS
from ..measure.table import NONE
from .latencylog import KINDS, SATURATED, Entry, Kind, LatencyLog
from .logcommands import log_commands

EDGE_S = 1e-3
"""Resolution of the latencies that the monitor reports."""
OLD_S = 600.0
"""Oldest data that the page may have (LMLLOG-5)."""
NO_FETCH = "a host's log does not tell when the drive takes a command up, from where the monitor counts"
_OPCODES = dict(zip(KINDS, (io("read"), io("write"), io("dsm"))))
_MS_U = K * EDGE_S / math.sqrt(12.0)
Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KindSeen:
    """Commands of one kind that ended while the monitor ran, by CQE.

    latency_s : from fetch to CQE; negative where the fetch is unknown.
    cqe_tick : of each.
    """

    latency_s: Float
    cqe_tick: Int64


@dataclass(frozen=True)
class MonitorSeen:
    """The commands between the one that configured the monitor and the last one that read it.

    fresh_tick : the page has all commands up to here.
    lost : command records that are missing, or lack the opcode or the fetch.
    """

    kinds: dict[Kind, KindSeen]
    fresh_tick: int
    lost: int


class OwnLatency:
    """One page of the drive's latency monitor, beside the capture in which it counted.

    Figures without a value give the reason.
    """

    def __init__(self, context: Context, log: LatencyLog) -> None:
        self._context, self._log = context, log

    def figure(self, measurand: str) -> Figure:
        """Return the figure of a measurand of :data:`.measurands.OWN_LATENCY`."""
        figures: Mapping[str, Callable[[], Figure]] = {
            "own-latency-count": self.miscounted,
            "own-latency-value": self.latency_error_s,
            "own-latency-stamp": self.stamp_error_s,
        }
        return figures[measurand]()

    def miscounted(self) -> Figure:
        """Return the largest number of commands that one counter has too many or too few."""
        seen = self._seen
        if isinstance(seen, str):
            return absent(seen)
        worst = 0
        for (bucket, kind), entry in self._log.entries.items():
            surely, perhaps = self._counts(seen, kind, bucket)
            least = 0 if kind == "deallocate" else surely  # its attribute is not on record: another Dataset Management does not count
            much = entry.count - perhaps
            worst = max(worst, least - entry.count if entry.count != SATURATED else 0, much)
        return Figure(float(worst), 0.0, "", seen.lost)

    def latency_error_s(self) -> Figure:
        """Return the largest difference in s between a reported latency and the commands that may have it."""
        seen = self._seen
        if isinstance(seen, str):
            return absent(seen, "s")
        worst: float | None = None
        for (bucket, kind), entry in self._log.entries.items():
            if entry.latency_s is None:
                continue
            mine = seen.kinds[kind].latency_s
            places = self._candidates(seen, kind, bucket, entry)
            allowed = mine[places] if len(places) else np.append(mine[mine >= 0], 0.0)  # of no command of the bucket: the nearest of all
            off_s = float(np.abs(allowed - entry.latency_s).min())
            worst = off_s if worst is None else max(worst, off_s)
        if worst is None:
            return absent("the page reports no latency", "s")
        return Figure(worst, self._context.model.interval_u(worst), "s", seen.lost)

    def stamp_error_s(self) -> Figure:
        """Return the spread in s of the offsets between the drive's time stamps and the CQEs of their commands.

        Needs two stamps of one clock, each with a known command.
        """
        seen = self._seen
        if isinstance(seen, str):
            return absent(seen, "s")
        offsets: dict[bool, list[float]] = {}
        for (bucket, kind), entry in self._log.entries.items():
            if entry.stamp_ms is None or entry.latency_s is None:
                continue
            places = self._candidates(seen, kind, bucket, entry)
            near = places[np.abs(seen.kinds[kind].latency_s[places] - entry.latency_s) <= EDGE_S] if len(places) else places
            if len(near) == 1:
                at_s = self._context.seconds(int(seen.kinds[kind].cqe_tick[near[0]]) - self._context.first_tick)
                offsets.setdefault(entry.by_host, []).append(entry.stamp_ms * 1e-3 - at_s)
        spreads = [max(found) - min(found) for found in offsets.values() if len(found) > 1]
        if not spreads:
            return absent("fewer than two time stamps whose commands are known", "s")
        return Figure(max(spreads), math.hypot(_MS_U, self._context.model.interval_u(max(spreads))), "s", seen.lost)

    def _edges(self, bucket: int) -> tuple[float, float]:
        edges = (*self._log.thresholds_s, math.inf)
        return edges[bucket], edges[bucket + 1]

    def _counts(self, seen: MonitorSeen, kind: Kind, bucket: int) -> tuple[int, int]:
        """Return how many commands are surely, and perhaps, in the bucket. A command without a fetch may be in any."""
        low, high = self._edges(bucket)
        mine = seen.kinds[kind]
        inside = (mine.latency_s >= low + EDGE_S) & (mine.latency_s < high - EDGE_S) & (mine.cqe_tick <= seen.fresh_tick)
        maybe = (mine.latency_s < 0) | ((mine.latency_s >= low - EDGE_S) & (mine.latency_s < high + EDGE_S))
        return int(inside.sum()), int(maybe.sum())

    def _candidates(self, seen: MonitorSeen, kind: Kind, bucket: int, entry: Entry) -> Int64:
        """Return the places of the commands of a bucket that may have the reported latency.

        In the mode *first* that is the first, or its neighbours where the first lies near an edge. In the mode *largest* without a minimum
        window these are the largest so far at any time within the age of the page. With a minimum window any command may be left
        out, so all are allowed. All are allowed for *deallocate*, too: its attribute is not on record.
        """
        low, high = self._edges(bucket)
        mine = seen.kinds[kind]
        places = np.flatnonzero((mine.latency_s >= low - EDGE_S) & (mine.latency_s < high + EDGE_S))
        if not len(places) or kind == "deallocate":
            return places
        latency_s = mine.latency_s[places]
        surely = (latency_s >= low + EDGE_S) & (latency_s < high - EDGE_S)
        if not entry.largest:
            first = int(np.argmax(surely)) if surely.any() else len(places) - 1
            return places[: first + 1]
        if self._log.window_s:
            return places
        least = float(latency_s[surely & (mine.cqe_tick[places] <= seen.fresh_tick)].max(initial=0.0))
        return places[latency_s >= least]

    @cached_property
    def _seen(self) -> MonitorSeen | str:
        """The commands that the monitor saw, or the reason why they are unknown."""
        context = self._context
        if not context.saw_commands:
            return NO_COMMANDS
        if context.by_host:
            return NO_FETCH
        begin = read_tick = NONE
        for one in log_commands(context, OCP_LATENCY_MONITOR_LOG, OCP_LATENCY_MONITOR_FEATURE):
            if one.reads:
                read_tick = one.cqe_tick
            else:
                begin, read_tick = one.cqe_tick, NONE
        if begin == NONE:
            return "the capture has no Set Features C5h, which clears the monitor"
        if read_tick == NONE:
            return "the capture has no Get Log Page C3h behind Set Features C5h"
        after_s = self._log.moved_after_s
        if after_s is not None and context.seconds(read_tick - begin) >= after_s:
            return f"the monitor clears its buckets after {after_s / 60:g} minutes, and the page was read later"
        found: dict[Kind, list[tuple[Float, Int64]]] = {kind: [] for kind in KINDS}
        lost = context.loss.between(begin, read_tick).under_commands
        for piece in context.commands.pieces():
            ended = (piece.qid > 0) & (piece.cqe_tick > begin) & (piece.cqe_tick <= read_tick) & ~piece.has(CommandFlag.ABORTED)
            unnamed = piece.has(CommandFlag.NO_SQE)
            lost += int((ended & (unnamed | (piece.fetch_tick == NONE))).sum())
            for kind in KINDS:
                mine = piece.take(ended & (piece.opcode == _OPCODES[kind]) & ~unnamed)
                seconds = (mine.cqe_tick - mine.fetch_tick) * context.tick_s
                found[kind].append((np.where(mine.fetch_tick == NONE, -1.0, seconds), mine.cqe_tick))
        return MonitorSeen(
            {kind: _by_cqe(parts) for kind, parts in found.items()},
            read_tick - round(OLD_S / context.tick_s),
            lost,
        )


def _by_cqe(parts: list[tuple[Float, Int64]]) -> KindSeen:
    latency_s = np.concatenate([part for part, _ in parts]) if parts else np.empty(0)
    cqe_tick = np.concatenate([part for _, part in parts]) if parts else np.empty(0, np.int64)
    order = np.argsort(cqe_tick, kind="stable")
    return KindSeen(latency_s[order], cqe_tick[order])
