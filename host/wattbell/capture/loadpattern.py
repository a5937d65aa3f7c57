"""A meter's clock by its waveform: patterns of load that the host made (:mod:`wattbell.clocks.pattern`), as it knows them and as the rail
shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from wattbell_spec.nvme import io

from ..clocks.map import ClockMap
from ..clocks.pattern import SEVERAL, Burst, match_pattern
from ..clocks.ticks import ns_of
from ..errors import ClockError
from ..jsondata import Json
from .schema import SeenBy
from .source import RailSource

Int64 = npt.NDArray[np.int64]
BIN_S = 200e-6
"""The waveform is looked at in means over this, if its samples are closer."""
OFFSET_LIMIT_S, BEHIND_LIMIT_S = 20.0, 120.0
"""Largest delay in s of the quickest arrival of a meter's data; and the same for a virtual rig, since its simulation may be behind."""
_SEEN_IN_A_LOG = (SeenBy.TRACEPOINT, SeenBy.BLKTRACE)
"""Logs that have the commands of everybody, not of fio alone."""


@dataclass(frozen=True)
class Reads:
    """The reads of a burst: between which instants of the host's clock each ran (ns)."""

    start_ns: Int64
    end_ns: Int64

    @property
    def span_ns(self) -> tuple[int, int]:
        """Time from the begin of the first to the end of the last."""
        return int(self.start_ns.min()), int(self.end_ns.max())


Pattern = Sequence[Reads]


def to_json(pattern: Pattern) -> Json:
    """Return the pattern for a journal: of each burst the first and last reads, which :meth:`~wattbell.clocks.pattern.Burst.of` needs."""

    def ends(instants: Int64) -> list[int]:
        ordered = np.sort(instants)
        kept = ordered if len(ordered) <= 2 * SEVERAL else np.concatenate((ordered[:SEVERAL], ordered[-SEVERAL:]))
        return [int(ns) for ns in kept]

    return [[ends(reads.start_ns), ends(reads.end_ns)] for reads in pattern]


def from_json(told: Json) -> Pattern:
    """Return the pattern that :func:`to_json` wrote."""
    return [Reads(np.array(start, np.int64), np.array(end, np.int64)) for start, end in told]


def as_logged(patterns: Sequence[Pattern], log: Iterable[pa.Table]) -> list[Pattern]:
    """Return the patterns with the times of the host's log (rows in pieces, in ns), where found: they exclude the time of a system call."""
    bursts = [reads for pattern in patterns for reads in pattern]
    spans = np.array([reads.span_ns for reads in bursts], np.int64).reshape(-1, 2)
    starts: list[list[Int64]] = [[] for _ in bursts]
    ends: list[list[Int64]] = [[] for _ in bursts]
    for table in log if bursts else ():
        start, end = (table[name].fill_null(-1).to_numpy() for name in ("doorbell_tick", "cqe_tick"))
        source, qid, opcode = (table[name].to_numpy() for name in ("source", "qid", "opcode"))
        mine = np.isin(source, _SEEN_IN_A_LOG) & ~((source == SeenBy.TRACEPOINT) & (qid == 0)) & (opcode == io("read")) & (start >= 0)
        start, end = start[mine], end[mine]
        if not len(start) or start.min() > spans[:, 1].max() or end.max() < spans[:, 0].min():
            continue
        for k, (first, last) in enumerate(spans.tolist()):
            inside = (start >= first) & (end <= last)
            if inside.any():
                starts[k].append(start[inside])
                ends[k].append(end[inside])
    found = [Reads(np.concatenate(s), np.concatenate(e)) if s else reads for s, e, reads in zip(starts, ends, bursts, strict=True)]
    cuts = np.cumsum([0, *(len(pattern) for pattern in patterns)]).tolist()
    return [found[low:high] for low, high in zip(cuts, cuts[1:], strict=False)]


class PatternPower:
    """Means of the power while patterns ran."""

    def __init__(self, tick_ps: int) -> None:
        self._tick_ps = tick_ps
        self._parts: list[tuple[Int64, npt.NDArray[np.float64]]] = []
        """Instants and means, W, appended as one: the recorder's thread adds while another looks."""

    def add(self, source: RailSource) -> None:
        """Some blocks."""
        count = source.count.astype(np.int64)
        watts = source.voltage_v.astype(np.float64) * source.current_a
        ends = np.cumsum(count)
        for k in np.flatnonzero(count).tolist():
            interval = int(source.interval_ticks[k])
            part = watts[ends[k] - count[k] : ends[k]]
            several = max(1, min(len(part), int(BIN_S * 1e12 / (interval * self._tick_ps))))
            whole = len(part) // several * several
            ticks = int(source.first_tick[k]) + (np.arange(whole // several) * several + (several - 1) / 2) * interval
            means = part[:whole].reshape(-1, several).mean(axis=1)
            self._parts.append((ns_of(ticks.astype(np.int64), self._tick_ps), means))

    def align(
        self, played: Sequence[Pattern], about_ns: int, limit_s: float = OFFSET_LIMIT_S, covers_ns: tuple[int, int] | None = None
    ) -> ClockMap:
        """Return the map of the meter's clock onto the host's. Raises ClockError if the waveform does not show the patterns.

        about_ns: host less meter, to ``limit_s``
        covers_ns: instants of the host's clock between which the bound must hold, None for the whole waveform
        """
        parts = list(self._parts)
        if not parts or not played:
            raise ClockError("the meter sent nothing while the pattern of load ran.")
        ns, watts = (np.concatenate(column) for column in zip(*parts, strict=True))
        bursts = [[Burst.of(reads.start_ns, reads.end_ns) for reads in pattern] for pattern in played]
        return match_pattern(ns * 1e-9, watts, bursts, offset_s=about_ns * 1e-9, offset_limit_s=limit_s, covers_ns=covers_ns)


__all__ = ["BEHIND_LIMIT_S", "OFFSET_LIMIT_S", "Pattern", "PatternPower", "Reads", "as_logged", "from_json", "to_json"]
