"""Wake-up latency: the first command after idle, compared with the same kind of command in a stream.

The field has no agreed definition, so every reading is printed. There is the time from doorbell to CQE, its excess over the median of the
same class, and the times to the SQE fetch and to the first data. CLKREQ# and the link state add the link's part before the doorbell, and
the time from CLKREQ# to CQE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.wire import CommandFlag, EventType, LinkState

from wattbell.analysis import idle
from wattbell.analysis.context import IDLE_MIN_S
from wattbell.analysis.link import states
from wattbell.analysis.names import admin_name, io_name, size_text
from wattbell.analysis.result import Idle, LinkPart, Summary, Wakeup, WakeupGroup, Wakeups
from wattbell.analysis.signals import requested_state
from wattbell.measure.latency import describe
from wattbell.measure.steadiness import QUARTERS
from wattbell.measure.table import NONE, Commands

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

MAX_EVENTS = 1000
LEAST = 3
"""Commands that a baseline needs."""
MOST_CHANGE = 0.25
"""Largest relative difference between the median of a quarter of a class, in order of time, and the median of all. Beyond, no baseline."""


def wakeups(context: Context, idle_result: Idle) -> Wakeups:
    """``events``: one entry a wake-up (at most 1000); ``by_state``: grouped by state before it and class of command."""
    gaps = context.gaps
    ends = gaps[:, 1]
    out: Wakeups = {
        "threshold_s": IDLE_MIN_S,
        "definition": "first command after idle, doorbell to CQE; extra: less the median of its class in a stream",
        "events": [],
        "by_state": [],
        "transitions": [],
    }
    entries: list[Wakeup] = []
    for table, markers in ((context.commands, False), (context.markers, True)):
        usable = ~table.has(CommandFlag.ABORTED) & ~table.has(CommandFlag.NO_SQE)
        first = np.nonzero(np.isin(table.start_tick, ends) & usable)[0]
        entries += _entries(context, table, first, gaps, idle_result, markers)
    entries.sort(key=lambda e: e["start_tick"])
    groups: dict[tuple[str, str], list[Wakeup]] = {}
    for entry in entries:
        groups.setdefault((entry["state"], entry["class"]), []).append(entry)
    out["events"] = entries[:MAX_EVENTS]
    out["by_state"] = [_group(context, state, kind, members) for (state, kind), members in sorted(groups.items())]
    return out


def _entries(
    context: Context,
    table: Commands,
    first: Any,
    gaps: Any,
    idle_result: Idle,
    markers: bool,
) -> list[Wakeup]:
    baselines = _baselines(table, first)
    levels = idle_result["levels"]
    last_segment = {int(s["gap"]): s for s in idle_result["segments"]}
    requested = requested_state(context.events)
    sidebands = Sidebands(context.events)
    out = []
    seen: set[int] = set()
    for i in first.tolist():
        start, cqe = int(table.start_tick[i]), int(table.cqe_tick[i])
        gap = int(np.searchsorted(gaps[:, 1], start))
        if gap in seen:
            continue  # several commands behind one doorbell: the first is the wake-up
        seen.add(gap)
        kind = idle.class_of(table, i)
        segment = last_segment.get(gap)
        if segment is not None:
            state = levels[segment["level"]]["label"]
            how = levels[segment["level"]]["how"]
        elif requested is not None and requested.at(start):
            state, how = f"PS{requested.at(start)}", "requested by the host (Set Features 02h)"
        else:
            state, how = "unknown", "no steady level before the command"
        baseline = baselines.get(kind)
        latency = cqe - start
        entry: Wakeup = {
            "start_tick": start,
            "from": "doorbell" if table.doorbell_tick[i] != NONE else "fetch",
            "idle_s": (start - int(gaps[gap, 0])) * context.tick_s,
            "state": state,
            "how": how,
            "class": _class_text(kind, markers),
            "latency_ticks": latency,
            "lost": context.loss.between(int(gaps[gap, 0]), cqe).under_commands,
            "latency_s": latency * context.tick_s,
            "extra_s": None if baseline is None else (latency - baseline) * context.tick_s,
            "to_fetch_s": _since(table.fetch_tick[i], start, context.tick_s),
            "to_first_data_s": _since(table.first_data_tick[i], start, context.tick_s),
            **sidebands.link_part(int(gaps[gap, 0]), cqe, context.tick_s),
        }
        out.append(entry)
    return out


def _since(tick: Any, start: int, tick_s: float) -> float | None:
    return None if int(tick) == NONE else (int(tick) - start) * tick_s


def _class_text(kind: tuple[int, int, int], marker: bool) -> str:
    io, opcode, nbytes = kind
    if marker:
        return "marker (get_features)"
    if not io:
        return f"admin {admin_name(opcode)}"
    return f"{io_name(opcode)} {size_text(nbytes)}" if nbytes else io_name(opcode)


def _baselines(table: Commands, first: Any) -> dict[tuple[int, int, int], float]:
    """Return the median latency in ticks of each class that occurs among the wake-ups, which are left out.

    The median is over commands that were alone in flight, as a first command after idle is, if there are three; else over all. A class that
    changed its latency during the capture has no single latency to compare a wake-up with, and no baseline. Such a change may come with the
    depth, the drive's state or the data on it.
    """
    out: dict[tuple[int, int, int], float] = {}
    usable = (table.doorbell_tick != NONE) & ~table.has(CommandFlag.ABORTED)
    if not usable.any():
        usable = ~table.has(CommandFlag.ABORTED)
    usable[first] = False
    lone = _lone(table) if len(first) else usable
    for kind in {idle.class_of(table, i) for i in first.tolist()}:
        io, opcode, nbytes = kind
        same = usable & ((table.qid > 0) == bool(io)) & (table.opcode == opcode) & (table.nbytes == nbytes)
        chosen = same & lone if np.count_nonzero(same & lone) >= LEAST else same
        if np.count_nonzero(chosen) < LEAST:
            continue
        latency = (table.cqe_tick - table.start_tick)[chosen]
        middle = float(np.median(latency))
        if len(latency) < QUARTERS or all(abs(np.median(p) - middle) <= MOST_CHANGE * middle for p in np.array_split(latency, QUARTERS)):
            out[kind] = middle
    return out


def _lone(table: Commands) -> npt.NDArray[np.bool_]:
    """Commands that no other was in flight with when they began, nor began before they ended."""
    out = np.ones(len(table), np.bool_)
    latest, at = -1, 0
    for piece in table.pieces():
        ends = np.maximum.accumulate(np.maximum(piece.cqe_tick, latest))
        out[at : at + len(piece)] = piece.start_tick >= np.concatenate(([latest], ends[:-1]))
        latest, at = int(ends[-1]), at + len(piece)
    out[:-1] &= out[1:] | (table.start_tick[1:] >= table.cqe_tick[:-1])
    return out


class Sidebands:
    """Locate the link's own exit from the CLKREQ# and link state events."""

    def __init__(self, events: pl.DataFrame) -> None:
        clkreq = events.filter((pl.col("type") == int(EventType.CLKREQ)) & (pl.col("arg8") == 0))
        self._clkreq = clkreq["tick"].cast(pl.Int64).to_numpy()
        self._link, self._state = states(events)

    def instants(self, idle_from: int, cqe: int) -> dict[str, float]:
        """``clkreq``: CLKREQ# asserted; ``link``: the first sign of recovery; ``l0``: the link in L0 after them; without those not seen."""
        at = int(np.searchsorted(self._clkreq, cqe, side="right")) - 1
        out: dict[str, float] = {}
        asserted = int(self._clkreq[at]) if at >= 0 and self._clkreq[at] >= idle_from else None
        if asserted is not None:
            out["clkreq"] = float(asserted)
        low, high = np.searchsorted(self._link, [idle_from, cqe])
        for tick, state in zip(self._link[low:high].tolist(), self._state[low:high].tolist(), strict=True):
            if state == LinkState.L0 and "l0" not in out and (asserted is None or tick >= asserted):
                out["l0"] = float(tick)
            elif state == LinkState.RECOVERY and "link" not in out:
                out["link"] = float(tick)
        return out

    def link_part(self, idle_from: int, cqe: int, tick_s: float) -> LinkPart:
        """``link_exit_s``: CLKREQ# asserted (or, without it, the first sign of recovery) until L0;
        ``from_clkreq_s``: CLKREQ# asserted until the CQE. None if not seen."""
        out: LinkPart = {"link_exit_s": None, "from_clkreq_s": None}
        seen = self.instants(idle_from, cqe)
        asserted, awake = seen.get("clkreq"), seen.get("l0")
        begin = seen.get("clkreq", seen.get("link"))
        if begin is not None and awake is not None and awake >= begin:
            out["link_exit_s"] = int(awake - begin) * tick_s
        if asserted is not None:
            out["from_clkreq_s"] = int(cqe - asserted) * tick_s
        return out


def _group(context: Context, state: str, kind: str, members: list[Wakeup]) -> WakeupGroup:
    ticks = np.array([m["latency_ticks"] for m in members], np.int64)

    def summary(name: Literal["extra_s", "to_fetch_s", "to_first_data_s", "link_exit_s", "from_clkreq_s"]) -> Summary | None:
        values = [value for m in members if (value := m[name]) is not None]
        return {"median": float(np.median(values)), "max": float(max(values)), "n": len(values)} if values else None

    return {
        "state": state,
        "how": members[0]["how"],
        "class": kind,
        "count": len(members),
        "lost": sum(m["lost"] for m in members),
        "latency_s": describe(ticks, context.tick_s, context.model, full=False),
        "idle_s_min": min(m["idle_s"] for m in members),
        "idle_s_max": max(m["idle_s"] for m in members),
        "extra_s": summary("extra_s"),
        "to_fetch_s": summary("to_fetch_s"),
        "to_first_data_s": summary("to_first_data_s"),
        "link_exit_s": summary("link_exit_s"),
        "from_clkreq_s": summary("from_clkreq_s"),
    }
