"""Events of the drive's power threshold (feature 24h) against the rail.

The host asks for an event (Asynchronous Event Request) and enables a threshold. The event is due at the end of the drive's first second
with a mean at or above the threshold. The drive's seconds begin at an unknown instant, so all begins are tried, in steps of `STEP_S`. The
event is due between the earliest and the latest instant that these begins give.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.nvme import POWER_THRESHOLD
from wattbell_spec.wire import CommandFlag, EventType

from ..analysis.context import AER, Context
from ..measure.figure import Figure, absent
from ..measure.instruments import NO_COMMANDS
from .logcommands import log_commands
from .measurands import EVENTS, Observation
from .powerlog import INTERVAL_S, SCALES_W
from .railsteps import STEP_S, step_means

_ENABLE, _TYPE, _SCALE = 31, 20, 16
"""Bits of CDW11: enable, type of power (four bits), scale (two bits)."""
NEVER_SET = "the capture has no Set Features 24h that enables a threshold"
NO_EVENTS = "a host's log has no requests for events (Asynchronous Event Requests)"
NO_REQUEST = "nobody saw a waiting request for an event"
OTHER_KIND = "a tap keeps no content of events: another kind of event counts, too"
UNCROSSED = "no second of the rail was surely above the threshold"
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Armed:
    """A time in which a threshold was enabled, until the host set the feature again, or the end. Ticks.

    begun, enabled : fetch and CQE of Set Features 24h.
    watts : the threshold; None for a scale that reports no power, or another type than the whole drive's.
    """

    begun: int
    enabled: int
    over: int
    watts: float | None


@dataclass(frozen=True)
class Due:
    """When an event is due, in ticks. ``first``: no second before could be above; ``last``: a second was surely above by then, or None."""

    first: int | None
    last: int | None


class ThresholdEvents:
    """The thresholds and events of a capture."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def observations(self, measurand: str) -> list[Observation]:
        """Return the observation of a measurand of :data:`EVENTS`."""
        unit = "s" if measurand == EVENTS[0] else ""
        context = self._context
        if not context.saw_commands:
            return [Observation("", absent(NO_COMMANDS, unit))]
        if context.by_host:
            return [Observation("", absent(NO_EVENTS, unit))]
        if context.rail is None:
            return [Observation("", absent(context.no_rail or "no rail", unit))]
        if not self._armed:
            return [Observation("", absent(NEVER_SET, unit))]
        return [self._late() if measurand == EVENTS[0] else self._extra()]

    def _late(self) -> Observation:
        """Return the latest event, or the longest time without one."""
        found = [one for armed in self._armed if (one := self._late_of(armed)) is not None]
        known = [one for one in found if one.figure.value is not None]
        if not known:
            return found[0] if found else Observation("", absent(UNCROSSED, "s"))
        worst = max(known, key=lambda one: one.figure.known - (one.figure.u or 0.0))
        return replace(worst, remark=f"{worst.remark}; the worst of {len(known)}" if len(known) > 1 else worst.remark)

    def _late_of(self, armed: Armed) -> Observation | None:
        """Return how late the event of one threshold is; None where none is due, or an event came too early to be of it."""
        due = self._due(armed)
        if isinstance(due, str):
            return Observation("", absent(due, "s"))
        if due.first is None or due.last is None:
            return None
        context = self._context
        begins, ends, _ = self._requests  # an aborted one ends the threshold, too
        came = ends[(ends >= due.first) & (ends < armed.over)]
        until = int(came[0]) if len(came) else armed.over
        half_s = context.seconds(due.last - due.first) / 2 + STEP_S
        late_s = context.seconds(until - due.last) + half_s
        waited = bool(((begins <= due.last) & (ends >= until)).any())
        lost = context.loss.between(armed.begun, until)
        between = [context.seconds(tick - armed.enabled) for tick in (due.first, due.last)]
        what = f"{armed.watts:g} W, due {between[0]:.2f} to {between[1]:.2f} s behind its request"
        figure = Figure(late_s, half_s, "s", lost.under_rail + lost.under_commands)
        doubt = "" if waited else NO_REQUEST
        return Observation("", figure, doubt=doubt, remark=f"{what}{'' if len(came) else ', and no event came'}")

    def _extra(self) -> Observation:
        """Count the events that no second explains: before the first that may be above, behind the first event, or without a threshold."""
        _, ends, aborted = self._requests
        came, extra = ends[~aborted], 0
        dues = [(armed, self._due(armed)) for armed in self._armed]
        for tick in came.tolist():
            mine = next(((armed, due) for armed, due in dues if armed.begun <= tick < armed.over), None)
            if mine is None:
                extra += 1
                continue
            armed, due = mine
            if isinstance(due, str):
                return Observation("", absent(due))
            earlier = came[(came >= armed.begun) & (came < tick)]
            if due.first is None or tick < due.first or any(one >= due.first for one in earlier.tolist()):
                extra += 1
        lost = self._context.loss.between(self._armed[0].begun, self._context.last_tick)
        figure = Figure(float(extra), 0.0, "", lost.under_rail + lost.under_commands)
        return Observation("", figure, doubt=OTHER_KIND if extra else "", remark=f"{len(came)} events of {len(self._armed)} thresholds")

    def _due(self, armed: Armed) -> Due | str:
        """Return when the event of a threshold is due, or why nobody knows."""
        context, rail = self._context, self._context.rail
        assert rail is not None
        if armed.watts is None:
            return "the threshold is not of the whole drive's power"
        width, step = round(INTERVAL_S / STEP_S), STEP_S / context.tick_s
        origin = armed.begun - round(width * step)
        fine = step_means(rail, max(origin, rail.first_tick), min(armed.over, rail.last_tick))
        if len(fine) < 2 * width or np.isnan(fine).any():
            return (
                "the rail does not cover two seconds with the threshold"
                if len(fine) < 2 * width
                else "the rail is missing in a part of the time"
            )
        sums = np.concatenate(([0.0], np.cumsum(fine)))
        means = (sums[width:] - sums[:-width]) / width
        ends = max(origin, rail.first_tick) + np.round((np.arange(len(means)) + width) * step).astype(np.int64)
        u = rail.mean_u(armed.begun, armed.over, armed.watts, rail.supply_v)
        perhaps, surely = means >= armed.watts - u, means >= armed.watts + u
        first = ends[perhaps & (ends >= armed.begun)]
        # seconds that begin behind the request, for each begin of the drive's seconds
        whole = np.flatnonzero(ends >= armed.enabled + round(width * step))
        latest: list[int] = []
        for begin in range(width):
            mine = whole[whole % width == begin]
            above = mine[surely[mine]]
            if not len(above):
                return Due(int(first[0]) if len(first) else None, None)
            latest.append(int(ends[above[0]]))
        return Due(int(first[0]) if len(first) else None, max(latest))

    @cached_property
    def _armed(self) -> list[Armed]:
        context = self._context
        words = log_commands(context, None, POWER_THRESHOLD)
        _, over, aborted = self._requests
        resets = context.events.filter(pl.col("type").is_in([int(EventType.CC_EN), int(EventType.PERST)]) & (pl.col("arg8") == 0))[
            "tick"
        ].to_list()
        out = []
        for k, one in enumerate(words):
            ends = [tick for tick in (*resets, *over[aborted].tolist()) if tick > one.cqe_tick] + [
                words[k + 1].fetch_tick if k + 1 < len(words) else context.last_tick
            ]
            if one.cdw11 >> _ENABLE & 1:
                step_w = SCALES_W.get(one.cdw11 >> _SCALE & 3)
                whole = not one.cdw11 >> _TYPE & 0xF
                watts = (one.cdw11 & 0xFFFF) * step_w if step_w is not None and whole else None
                out.append(Armed(one.fetch_tick, one.cqe_tick, min(ends), watts))
        return out

    @cached_property
    def _requests(self) -> tuple[Int64, Int64, Bool]:
        """Begins, ends and fates of the requests for events, by their end. An aborted request ended without an event."""
        ours = (pl.col("qid") == 0) & (pl.col("opcode") == AER) & pl.col("cqe_tick").is_not_null()
        begin = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick").alias("begin")
        found = self._context.capture.commands.filter(ours).select(begin, "cqe_tick", "status", "flags").sort("cqe_tick").collect()
        fate = (found["flags"].cast(pl.Int64).to_numpy() & int(CommandFlag.ABORTED) != 0) | (found["status"].to_numpy() != 0)
        return found["begin"].cast(pl.Int64).to_numpy(), found["cqe_tick"].cast(pl.Int64).to_numpy(), fate
