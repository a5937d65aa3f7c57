"""The host's times of work on its own clock; a waveform is aligned with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..capture.hostcommands import HostCommands
from .fiophases import FioRun

Int64 = npt.NDArray[np.int64]
REST_NS = 20_000_000
"""Longest rest within one piece of work, in ns. After a longer time without commands, the drive's power is its idle power.

A shorter rest does not show in the power.
"""
_MOST = 400


@dataclass(frozen=True)
class WorkTimes:
    """Times of work on a clock of the host.

    windows: (n, 2) ns in order, apart from each other
    edge_u_ns: limit of the error of each edge
    clock: the host's clock that the ns are read from
    what: source of the times, in words for the user
    """

    windows: Int64
    edge_u_ns: int
    clock: str
    what: str
    is_whole: bool = False
    """Whether it has all of the work of its clock, and no other of that clock adds to it."""

    @property
    def first_ns(self) -> int:
        """The begin of the first."""
        return int(self.windows[0, 0])

    @property
    def last_ns(self) -> int:
        """The end of the last."""
        return int(self.windows[-1, 1])

    def apart(self, least_s: float) -> list[tuple[int, int]]:
        """Return the windows that steps of a fraction of ``least_s`` can separate.

        Windows that lie nearer to each other are joined, and shorter windows are dropped. If too many remain for the search, the shortest
        pauses are closed. If none would remain, all windows are returned.
        """
        pauses = np.sort(self.windows[1:, 0] - self.windows[:-1, 1])
        least_ns = max(round(least_s * 1e9), int(pauses[-_MOST]) if len(pauses) >= _MOST else 0)
        joined: list[tuple[int, int]] = []
        for first, last in self.windows.tolist():
            # windows within the uncertainty of both edges share one edge already
            if joined and 2 * self.edge_u_ns < first - joined[-1][1] < least_ns:
                joined[-1] = joined[-1][0], max(joined[-1][1], last)
            else:
                joined.append((first, last))
        return [window for window in joined if window[1] - window[0] >= least_ns] or joined


def load_of_fio(run: FioRun) -> WorkTimes:
    """The phases of fio's JSON."""
    windows = np.array([(phase.first_ns, phase.last_ns) for phase in run.phases], np.int64)
    return WorkTimes(windows, max(phase.edge_u_ns for phase in run.phases), run.clock, "fio's JSON", is_whole=True)


def together(loads: Sequence[WorkTimes]) -> list[WorkTimes]:
    """Return one load for each clock: fio's JSON if there, since the JSON has all of fio's jobs; else all logs of the clock joined."""
    found: dict[str, WorkTimes] = {}
    for load in loads:
        known = found.get(load.clock)
        if known is None:
            found[load.clock] = load
        elif not known.is_whole:
            windows = _joined(np.concatenate((known.windows, load.windows)))
            found[load.clock] = WorkTimes(windows, max(known.edge_u_ns, load.edge_u_ns), load.clock, f"{known.what}, {load.what}")
    return list(found.values())


def _joined(windows: Int64) -> Int64:
    """Join stretches that overlap; return all in order."""
    out: list[list[int]] = []
    for first, last in sorted(windows.tolist()):
        if out and first - out[-1][1] < REST_NS:
            out[-1][1] = max(out[-1][1], last)
        else:
            out.append([first, last])
    return np.array(out, np.int64)


def load_of_log(log: HostCommands, name: str) -> WorkTimes | None:
    """Return the bursts of a log's commands, admin commands included; None without commands."""
    if not len(log):
        return None
    end = log.table["cqe_tick"].to_numpy()
    start = log.table["doorbell_tick"].combine_chunks().fill_null(-1).to_numpy()
    begin = np.where(start >= 0, start, end)
    order = np.argsort(begin, kind="stable")
    begin, busy_to = begin[order], np.maximum.accumulate(end[order])
    fresh = np.concatenate(([True], begin[1:] - busy_to[:-1] >= REST_NS))
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(begin)) - 1
    windows = np.stack((begin[first], busy_to[last]), axis=1).astype(np.int64)
    long = windows[:, 1] - windows[:, 0] >= REST_NS
    u = int(log.table["instant_u_ns"].to_numpy().max())
    return WorkTimes(windows[long] if long.any() else windows, u, log.clock, name)
