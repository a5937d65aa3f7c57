"""Observations of a capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from wattbell_spec.nvme import admin, io
from wattbell_spec.wire import CommandFlag, EventType

from ..analysis import apsttimers, idle, powerstates, statepairs, wakeup
from ..analysis.context import AER, Context, load
from ..analysis.result import Idle, PowerStates
from ..analysis.signals import requested_state
from ..analysis.stretches import FoundStretches, saw_requests
from ..capture import Capture
from ..measure.figure import Figure, absent
from ..measure.instruments import NO_COMMANDS
from ..measure.judge import LOST
from ..measure.loss import WindowLoss
from ..measure.table import NONE, Commands
from ..origin import origin_of_capture
from ..results.declared import PowerStateDescriptor, descriptors
from ..text import si
from .asleep import own_work
from .healthlog import HealthLog
from .latencylog import LatencyLog
from .measurands import EVENTS, OWN_HEALTH, OWN_LATENCY, OWN_METER, Observation, Subject, wanted_states
from .meterstarts import generation_error
from .model import Requirement
from .ownhealth import OwnHealth
from .ownlatency import OwnLatency
from .ownmeter import OwnMeter
from .pairs import NO_IDENTIFY, PairTime, pair_observations
from .powerlog import PowerLog
from .shutdowns import shutdown_time
from .temperatures import TEMPERATURES, declared_temperature
from .thresholdevents import ThresholdEvents
from .voltage import extreme_voltage

HOUR_S = 3600.0
HOST_LATENCY = "the host's own time before the doorbell and behind the CQE is in the figure, and nobody knows how long it is"
NO_REGISTERS = "a host's log does not show the registers of the controller"
NO_HOST_ADMIN = "this host's log has no admin commands"
_KEYS = {
    "state-maximum-power": "max_power_w",
    "state-idle-power": "idle_power_w",
    "state-entry-latency": "entry_latency_s",
    "state-exit-latency": "exit_latency_s",
}
"""Measurands that the analysis of power states has, by its key."""


@dataclass(frozen=True)
class DriveLogs:
    """A drive's own accounts of itself, read during a capture; None: not given.

    power : its power meter.
    power_before : earlier readings of the power meter's page, in order.
    latency : its latency monitor.
    health : its SMART log, in the order of the readings.
    """

    power: PowerLog | None = None
    power_before: Sequence[PowerLog] = ()
    latency: LatencyLog | None = None
    health: Sequence[HealthLog] = ()


def subject(capture: Capture, logs: DriveLogs = DriveLogs()) -> Subject:
    """Return a capture as a subject. The capture is analysed when its first figure is asked for."""
    drive = capture.meta.get("drive") or {}
    seen = _Seen(capture, logs)
    declares = {"own_meter_error": None if logs.power is None else logs.power.claimed_error, "rtd3_entry_s": drive.get("rtd3_entry_s")}
    return Subject(
        source=str(capture.path),
        model=str(drive.get("model") or ""),
        serial=str(drive.get("serial") or ""),
        firmware=str(drive.get("firmware") or ""),
        origin=origin_of_capture(capture.meta),
        states=descriptors(drive),
        observe=lambda requirement: _BY_MEASURAND[requirement.measurand](seen, requirement),
        declares={name: value for name, value in declares.items() if value is not None},
    )


@dataclass
class _Seen:
    """A capture, analysed piece by piece as requirements ask for it."""

    capture: Capture
    logs: DriveLogs

    @cached_property
    def own_meter(self) -> OwnMeter | None:
        return None if self.logs.power is None else OwnMeter(self.context, self.logs.power)

    @cached_property
    def own_latency(self) -> OwnLatency | None:
        return None if self.logs.latency is None else OwnLatency(self.context, self.logs.latency)

    @cached_property
    def own_health(self) -> OwnHealth:
        return OwnHealth(self.context, self.logs.health)

    @cached_property
    def threshold_events(self) -> ThresholdEvents:
        return ThresholdEvents(self.context)

    @cached_property
    def context(self) -> Context:
        return load(self.capture)

    @cached_property
    def states(self) -> tuple[PowerStateDescriptor, ...]:
        return tuple(descriptors(self.capture.meta.get("drive") or {}))

    @cached_property
    def found(self) -> FoundStretches | None:
        return powerstates.look(self.context)

    @cached_property
    def idle(self) -> Idle:
        return idle.idle_power(self.context, self.found)

    @cached_property
    def power_states(self) -> PowerStates:
        return powerstates.power_states(self.context, self.found, wakeup.wakeups(self.context, self.idle))

    @property
    def whole(self) -> WindowLoss:
        return self.context.loss.between(self.context.first_tick, self.context.last_tick)

    def asked(self) -> Iterator[tuple[int, int, int]]:
        """Yield (state, first tick, last tick) of the times between the host's requests, over the rail."""
        context = self.context
        if context.rail is None:
            return
        first, last = context.rail.first_tick, context.rail.last_tick
        sleeping = tuple(one.number for one in self.states if not one.operational)
        requested = requested_state(context.events, context.commands.start_tick[context.commands.qid > 0], sleeping)
        if requested is None:
            yield 0, first, last
            return
        joined: list[tuple[int, int, int]] = []
        at = first
        for state, ticks in requested.pieces(first, last):
            if joined and joined[-1][0] == state:
                joined[-1] = (state, joined[-1][1], at + ticks)
            else:
                joined.append((state, at, at + ticks))
            at += ticks
        yield from joined


def _largest_mean_power(seen: _Seen, wanted: Requirement) -> list[Observation]:
    context = seen.context
    if context.rail is None:
        return [Observation("", absent(context.no_rail or "no rail", "W"))]
    assert wanted.window_s is not None
    if wanted.states == "any":
        return [_over(seen, wanted, "", None, [(context.rail.first_tick, context.rail.last_tick)])]
    states = wanted_states(wanted, seen.states)
    if not seen.states:
        return [Observation("", absent(NO_IDENTIFY, "W"))]
    if not saw_requests(seen.context):
        return [Observation(f"PS{one.number}", absent("nobody saw what the host asked for", "W"), one) for one in states]
    spans: dict[int, list[tuple[int, int]]] = {}
    for number, first, last in seen.asked():
        spans.setdefault(number, []).append((first, last))
    return [_over(seen, wanted, f"PS{one.number}", one, spans.get(one.number, [])) for one in states]


def _over(
    seen: _Seen, wanted: Requirement, scope: str, state: PowerStateDescriptor | None, spans: Sequence[tuple[int, int]]
) -> Observation:
    """Return the largest moving mean over some spans of time."""
    context, rail = seen.context, seen.context.rail
    assert rail is not None and wanted.window_s is not None
    if not spans:
        return Observation(scope, absent(f"the host never asked for {scope}", "W"), state, 0.0, rail.interval_s)
    best: Figure | None = None
    why = absent("no time in this state", "W")
    for first, last in spans:
        found = rail.largest_mean(first, last, wanted.window_s)
        if found.value is None:
            why = found
        elif best is None or found.value > best.known:
            best = found
    lost = sum(context.loss.between(first, last).under_rail for first, last in spans)
    figure = why if best is None else replace(best, lost=max(best.lost, lost))
    seconds = sum(context.seconds(last - first) for first, last in spans)
    actual = float(figure.conditions.get("window_s", wanted.window_s))
    coarse = f"samples are {rail.interval_s * 1e6:g} us apart" if actual > 1.01 * wanted.window_s else ""
    if coarse:
        figure = absent(f"{coarse}: a window of {wanted.window_s * 1e6:g} us needs them closer", "W")
    return Observation(scope, figure, state, seconds, rail.interval_s)


def _asleep_power(seen: _Seen, wanted: Requirement) -> list[Observation]:
    assert wanted.window_s is not None
    if not seen.states:
        return [Observation("", absent(NO_IDENTIFY, "W"))]
    permissive = (seen.capture.meta.get("drive") or {}).get("nopspm")
    return own_work(seen.context, seen.found, wanted_states(wanted, seen.states), wanted.window_s, permissive)


def _idle_power(seen: _Seen, wanted: Requirement) -> list[Observation]:
    rail = seen.context.rail
    if rail is None or not seen.idle["levels"]:
        return [Observation("", absent(seen.context.no_rail or seen.idle.get("absent") or "no idle time was seen", "W"))]
    by_number = {one.number: one for one in seen.states}
    return [
        Observation(
            level["label"],
            level["mean_w"],
            by_number.get(-1 if level["state"] is None else level["state"]),
            level["duration_s"],
            rail.interval_s,
        )
        for level in seen.idle["levels"]
    ]


def _of_states(seen: _Seen, wanted: Requirement) -> list[Observation]:
    found = seen.power_states
    states = wanted_states(wanted, seen.states)
    if not seen.states:
        return [Observation("", absent(NO_IDENTIFY))]
    rows = {row["state"]: row["judged"] for row in found["states"]}
    out = []
    for one in states:
        judged = rows.get(one.number, {}).get(_KEYS[wanted.measurand])
        if judged is None:
            out.append(Observation(f"PS{one.number}", absent(found.get("absent", "the state was not seen")), one))
            continue
        doubt = judged["why"] if judged["verdict"].startswith("conditional") else ""
        out.append(Observation(f"PS{one.number}", judged["measured"], one, doubt=_own(doubt), remark=judged["why"]))
    return out


def _own(why: str) -> str:
    """Return the analysis's own doubts. The requirement's limit and the figure's losses are judged anew."""
    anew = ("closer to the limit", "times the limit", LOST)
    return "; ".join(part for part in why.split("; ") if part and not any(words in part for words in anew))


def _transitions(seen: _Seen, wanted: Requirement) -> list[Observation]:
    if not seen.context.saw_commands:
        return [Observation("", absent(NO_COMMANDS, "s"))]
    if not seen.states:
        return [Observation("", absent(NO_IDENTIFY, "s"))]
    found = statepairs.by_pair(statepairs.transitions_asked(seen.context))
    return pair_observations(seen.states, {pair: PairTime.of(one) for pair, one in found.items()})


def _apst(seen: _Seen, wanted: Requirement) -> list[Observation]:
    """Return the worst move by APST's table into each state."""
    late, unit = wanted.measurand == "apst-late", "s" if wanted.measurand == "apst-late" else ""
    if not seen.states:
        return [Observation("", absent(NO_IDENTIFY, unit))]
    moves, why = apsttimers.timed_moves(seen.context, seen.found)
    out = []
    targets = apsttimers.targets(seen.context)
    for one in wanted_states(wanted, seen.states):
        if targets and one.number not in targets:
            continue  # no table leads there
        mine = [move for move in moves if move.new == one.number]
        # a stay is a lower bound: it shows a late drive, and no early one
        mine = [move for move in mine if not move.stayed or (late and move.late.known > (one.entry_s or 0.0))]
        if not mine:
            out.append(Observation(f"PS{one.number}", absent(why or "the drive did not go there by the table", unit), one))
            continue
        worst = max(mine, key=lambda move: move.late.known) if late else min(mine, key=lambda move: move.share.known)
        figure = worst.late if late else worst.share
        what = f"PS{worst.old} to PS{worst.new}, table {si(worst.wait_s, 's', 4)}, seen after {si(worst.after.known, 's', 4)}"
        stayed = ", and not yet there at the end of the idle time" if worst.stayed else ""
        remark = f"{what}{stayed}; {'the latest' if late else 'the earliest'} of {len(mine)}"
        out.append(Observation(f"PS{one.number}", replace(figure, lost=sum(m.after.lost for m in mine)), one, remark=remark))
    return out


def _active_power(seen: _Seen, wanted: Requirement) -> list[Observation]:
    reason = "a capture does not show which workload runs: `wattbell run power-states` measures it"
    states = wanted_states(wanted, seen.states)
    return [Observation(f"PS{one.number}", absent(reason, "W"), one) for one in states] or [Observation("", absent(reason, "W"))]


# -- latencies --------------------------------------------------------------------------------------------------------


def _latencies(seen: _Seen, wanted: Requirement, *, admin_queue: bool) -> Iterator[Commands]:
    """Yield pieces of the commands of one kind with an SQE, without the exempt opcodes.

    An aborted command counts until its queue was deleted or its controller reset: so long at least it had no CQE.
    """
    name = admin if admin_queue else io
    exempt = [AER] if admin_queue else []
    for one in wanted.exempt:
        try:
            exempt.append(name(one))
        except KeyError:
            continue
    for piece in seen.context.commands.pieces():
        kept = (piece.qid == 0) == admin_queue
        kept &= ~np.isin(piece.opcode, exempt) & ~piece.has(CommandFlag.NO_SQE)
        yield piece.take(kept & (piece.cqe_tick != NONE))


def _longest(seen: _Seen, wanted: Requirement, *, admin_queue: bool) -> list[Observation]:
    context = seen.context
    if not context.saw_commands:
        return [Observation("", absent(NO_COMMANDS, "s"))]
    longest, count, late = -1, 0, 0
    for piece in _latencies(seen, wanted, admin_queue=admin_queue):
        count += len(piece)
        late += int((piece.doorbell_tick == NONE).sum())
        if len(piece):
            longest = max(longest, int((piece.cqe_tick - piece.start_tick).max()))
    seconds = context.seconds(context.last_tick - context.first_tick)
    if longest < 0:
        unseen = admin_queue and context.by_host and not saw_requests(context)
        why = NO_HOST_ADMIN if unseen else f"no {'admin' if admin_queue else 'I/O'} command was seen"
        return [Observation("", absent(why, "s"), seen_s=seconds)]
    figure = Figure(context.seconds(longest), context.model.interval_u(context.seconds(longest)), "s", seen.whole.under_commands)
    doubt = f"{late} of {count} commands have no doorbell: their latency begins at the fetch" if late else ""
    over = HOST_LATENCY if context.by_host else ""
    return [Observation("", figure, seen_s=seconds, doubt=doubt, over=over, remark=f"the longest of {count}")]


def _slow(seen: _Seen, wanted: Requirement) -> list[Observation]:
    context = seen.context
    if not context.saw_commands:
        return [Observation("", absent(NO_COMMANDS))]
    assert wanted.threshold_s is not None
    starts = [
        piece.start_tick[piece.cqe_tick - piece.start_tick > wanted.threshold_s / context.tick_s]
        for piece in _latencies(seen, wanted, admin_queue=False)
    ]
    begun = np.sort(np.concatenate(starts)) if starts else np.empty(0, np.int64)
    within = np.searchsorted(begun, begun + round(HOUR_S / context.tick_s), side="left") - np.arange(len(begun))
    figure = Figure(float(within.max(initial=0)), 0.0, "", seen.whole.under_commands)
    over = HOST_LATENCY if context.by_host else ""
    return [Observation("", figure, seen_s=context.seconds(context.last_tick - context.first_tick), over=over)]


def _after_enable(seen: _Seen, wanted: Requirement) -> list[Observation]:
    context = seen.context
    if context.by_host:
        return [Observation("", absent(NO_REGISTERS, "s"))]
    first_io = wanted.measurand == "enable-to-io"
    enabled = context.events.filter((pl.col("type") == int(EventType.CC_EN)) & (pl.col("arg8") == 1))["tick"].to_list()
    if not enabled:
        return [Observation("", absent("CC.EN was not written 1 in this capture", "s"))]
    identify = admin("identify")
    longest = -1
    for k, tick in enumerate(enabled):
        until = enabled[k + 1] if k + 1 < len(enabled) else context.last_tick + 1
        members = context.commands.between(tick, until)
        kept = members.take((members.qid > 0) if first_io else ((members.qid == 0) & (members.opcode == identify)))
        ended = kept.cqe_tick[kept.cqe_tick != NONE]
        if len(ended):
            longest = max(longest, int(ended.min()) - tick)
    if longest < 0:
        return [Observation("", absent(f"no {'I/O' if first_io else 'Identify'} command behind CC.EN = 1", "s"))]
    figure = Figure(context.seconds(longest), context.model.interval_u(context.seconds(longest)), "s", seen.whole.under_commands)
    return [Observation("", figure, remark=f"the longest of {len(enabled)}" if len(enabled) > 1 else "")]


def _shutdown(seen: _Seen, wanted: Requirement) -> list[Observation]:
    if not seen.context.saw_commands:
        return [Observation("", absent(NO_COMMANDS, wanted.unit))]
    if seen.context.by_host:
        return [Observation("", absent(NO_REGISTERS, wanted.unit))]
    return [shutdown_time(seen.context, seen.whole.under_commands)]


def _voltage(seen: _Seen, wanted: Requirement) -> list[Observation]:
    assert wanted.window_s is not None
    figure, seconds = extreme_voltage(seen.context, wanted.window_s, lowest=wanted.measurand == "lowest-voltage")
    rail = seen.context.rail
    return [Observation("", figure, seen_s=seconds, sampling_s=None if rail is None else rail.interval_s)]


def _own_meter(seen: _Seen, wanted: Requirement) -> list[Observation]:
    if seen.own_meter is None:
        return [Observation("", absent("needs the drive's log page 25h: --power-log FILE"))]
    return [Observation("", seen.own_meter.figure(wanted.measurand), remark=seen.own_meter.remark)]


def _generation(seen: _Seen, wanted: Requirement) -> list[Observation]:
    if seen.logs.power is None:
        return [Observation("", absent("needs the drive's log page 25h from before a start and from behind it: --power-log FILE twice"))]
    return [Observation("", generation_error(seen.context, (*seen.logs.power_before, seen.logs.power)))]


def _own_latency(seen: _Seen, wanted: Requirement) -> list[Observation]:
    if seen.own_latency is None:
        return [Observation("", absent("needs the drive's log page C3h: --latency-log FILE"))]
    return [Observation("", seen.own_latency.figure(wanted.measurand))]


def _own_health(seen: _Seen, wanted: Requirement) -> list[Observation]:
    if not seen.logs.health:
        return [Observation("", absent("needs the drive's log page 02h: --health-log FILE", wanted.unit))]
    remark = seen.own_health.remark if wanted.measurand == "own-second" else ""
    return [Observation("", seen.own_health.figure(wanted.measurand), remark=remark)]


_BY_MEASURAND: Mapping[str, Callable[[_Seen, Requirement], list[Observation]]] = {
    "largest-mean-power": _largest_mean_power,
    "asleep-power": _asleep_power,
    "idle-power": _idle_power,
    **dict.fromkeys(_KEYS, _of_states),
    "state-active-power": _active_power,
    "state-transition-time": _transitions,
    "apst-early": _apst,
    "apst-late": _apst,
    "admin-latency": lambda seen, wanted: _longest(seen, wanted, admin_queue=True),
    "io-latency": lambda seen, wanted: _longest(seen, wanted, admin_queue=False),
    "slow-io-per-hour": _slow,
    "lowest-voltage": _voltage,
    "highest-voltage": _voltage,
    **dict.fromkeys(TEMPERATURES, lambda seen, one: declared_temperature(seen.capture.meta.get("drive") or {}, one)),
    "enable-to-identify": _after_enable,
    "enable-to-io": _after_enable,
    "shutdown-time": _shutdown,
    **dict.fromkeys(EVENTS, lambda seen, one: seen.threshold_events.observations(one.measurand)),
    **dict.fromkeys(OWN_METER, _own_meter),
    "meter-generation": _generation,
    **dict.fromkeys(OWN_LATENCY, _own_latency),
    **dict.fromkeys(OWN_HEALTH, _own_health),
}
