"""Energy of one command of each class above operational idle, and the shares of a window's energy. ``docs/energy.md`` has the method.

A window with one class is accounted for: E = (energy of the active span - idle power x active time) / commands.

A window with several classes first gets one figure for all, by the same accounting. :func:`separate` then separates the classes as far as
the phases of the capture allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import io as opcode_of

from wattbell.analysis import energyfit
from wattbell.analysis.commandclass import CommandClass, classify
from wattbell.analysis.context import PUT_OFF
from wattbell.analysis.earlier import Earlier, earlier_work
from wattbell.analysis.energybins import EnergyBins, equal_shares, on_after, rail_bins
from wattbell.analysis.energyfit import PhaseLoad
from wattbell.analysis.railpiece import SteadyLevel
from wattbell.analysis.result import EnergyPerCommand, EnergyShares
from wattbell.measure.depth import DepthSteps
from wattbell.measure.figure import Figure
from wattbell.measure.rail import Rail
from wattbell.measure.table import Commands, is_one_of
from wattbell.measure.throughput import ActiveTime

Bool = npt.NDArray[np.bool_]

OWED_S = 0.05
"""Time in s after the last completion of a burst during which power still counts as its writes', if no other command comes.

Later power is work put off.
"""
BEHIND_S = 1e-3
"""The same for commands that put nothing off: reading ahead for the next sequential read ends within this time."""
_BUFFERED = (opcode_of("write"),)
"""Opcodes that fill a write buffer."""
_FLUSH = "flush"
_BY_FLUSHES = (_FLUSH, "write")
_MOST_BURSTS = 4096
_MIN_SAMPLES = 8
_MISFIT = 3.0
"""Residuals' spreads by which a phase may miss the model of all phases; one that misses by more is not separated."""
METHOD = 1.5e-3
"""Relative k = 2 of a separated class that is all of a phase, in addition to the residuals.

For a part of the phase, divide by the square root of that part, as for the residuals (:meth:`.energyfit.Fit.combination`). Phases of one
drive and front end follow the model to 0.02 %. Even so, classes of modelled drives were off by 0.03 to 0.3 %.
"""
_IN_COMPANY = ", in company"
NO_INTERVAL = "no interval: what is read ahead for sequential reads is used or lost by what runs beside them, which differs between phases"
SMALLEST_PART = 0.1
"""Share of a phase's energy above idle. The error of a smaller class may exceed the residuals of whole phases by much."""
TOO_SMALL = "no interval: a small part of what this phase drew, so that the phases hardly show how far off it is"
HELD = "how often such intervals held the truth on models of drives is in docs/energy-coverage.md"
FLUSHED = "no interval: what a flush has programmed before its page is full is not told apart from what the writes cost"
BY_HOST = "no interval: by the host's instants commands are in flight for longer than on the wire, by an amount that is not known"
MERGED = "no interval: for merged classes, such intervals held the truth too seldom on models of drives (docs/energy-coverage.md)"
NOT_TOLD_APART = "the phases of this capture do not tell these classes apart: one figure for all of them"


@dataclass(frozen=True)
class EnergyWindow:
    """Energy of a window, and the data that :func:`separate` needs.

    base_u_w: k = 2 of operational idle
    gain: gain error of the rail
    """

    result: EnergyPerCommand
    load: PhaseLoad | None = None
    classes: tuple[CommandClass, ...] = ()
    base_u_w: float = 0.0
    gain: float = 0.0
    lost: int = 0
    by_host: bool = False


def energy_per_command(
    rail: Rail,
    commands: Commands,
    span: ActiveTime,
    idle_w: Figure | None,
    lost: int,
    window: tuple[int, int] | None = None,
    until: int | None = None,
    by_host: bool = False,
    steps: DepthSteps | None = None,
    depth: npt.NDArray[np.int32] | None = None,
    before: SteadyLevel | None = None,
    behind_writes: bool = False,
) -> EnergyWindow:
    """Return the energy of each class: ``{"method", "classes": {"read 4 KiB": figure in J}, "shares"}``, or ``{"absent": reason}``.

    commands: I/O commands with an SQE, sorted by start
    lost: loss marked in every figure of the result
    window: first and last tick that ``shares`` covers, by default the active span
    until: begin of the next command, by default the end of the window
    by_host: instants are a host's
    steps: depth of ``commands``; without it the classes are not separated
    depth: depth at each start, if it is known already
    before: the rail's level just before the first command, if the drive was left alone
    behind_writes: whether earlier commands in the capture may have left work
    """
    if idle_w is None or idle_w.value is None:
        return EnergyWindow({"absent": "no steady operational idle level in this capture to measure above"})
    if span.active_ticks * rail.tick_s < _MIN_SAMPLES * rail.interval_s or len(span.bursts) > _MOST_BURSTS:
        return EnergyWindow({"absent": "active time too short, or too many bursts, for the sample rate"})
    base, base_u = idle_w.value, idle_w.u or 0.0
    classes = tuple(classify(commands, depth))
    first, last = window or (span.first_tick, span.last_tick)
    deferring = is_one_of(commands.opcode, PUT_OFF)
    tail = (OWED_S if deferring.any() else BEHIND_S) / rail.tick_s
    limits = [*span.bursts[1:, 0].tolist(), until or max(last, span.last_tick)]
    at_work = [(a, max(b, min(b + tail, limit))) for (a, b), limit in zip(span.bursts.tolist(), limits, strict=True)]
    parts = [rail.energy(a, b) for a, b in at_work]
    joules, seconds = sum(p.joules for p in parts), sum(p.covered_s for p in parts)
    above = joules - base * seconds
    edges = sum(p.edge_u_j**2 for p in parts) + sum(p.moved_j for p in parts) ** 2
    u = math.sqrt(edges + (base_u * seconds) ** 2 + (rail.model.gain * joules) ** 2)
    found = Earlier(0.0) if deferring.any() or steps is None else earlier_work(rail, commands, steps, at_work, base, behind_writes)
    if steps is not None and behind_writes and not deferring.any() and any(one.pattern != "random" for one in classes):
        found = found.of_a_stream(above)
    earlier = found.with_level(before, base, seconds, above)
    count, name = len(commands), _joined(one.name for one in classes)
    conditions = {"idle_w": base, "commands": count, **_circumstances(classes), **earlier.conditions}
    known_u = None if earlier.most_j is None else math.hypot(u, earlier.most_j) / count
    result: EnergyPerCommand = {
        "method": "accounting: (energy of the active span - idle power x active time) / commands",
        "classes": {name: Figure(above / count, known_u, "J", lost, conditions)},
        "shares": _shares(rail, at_work, (first, last), idle_w, name, above, lost, earlier.most_j),
    }
    if steps is None:
        return EnergyWindow(result)
    ends = np.maximum(commands.cqe_tick, commands.start_tick)
    shares = equal_shares(steps, commands.start_tick, ends)
    buffered = is_one_of(commands.opcode, _BUFFERED)
    filling = buffered if buffered.any() else deferring  # a trim moves no data, whatever the size of its ranges
    written = {identity(one, classes): float(commands.nbytes[one.members & filling].sum()) for one in classes}
    bytes_written = sum(written.values())
    load = PhaseLoad(
        {identity(one, classes): one.count for one in classes},
        {identity(one, classes): float(shares[one.members].sum()) * rail.tick_s for one in classes},
        above,
        u,
        on_after(rail, steps, at_work, base) if bytes_written else None,
        {name: nbytes / bytes_written for name, nbytes in written.items()} if bytes_written else {},
        math.inf if earlier.most_j is None else earlier.most_j,
    )
    return EnergyWindow(result, load, classes, base_u, rail.model.gain, lost, by_host)


def separate(windows: Sequence[EnergyWindow]) -> None:
    """Replace the one figure for all commands by figures of the classes, as far as the ``windows`` (one a phase) separate them."""
    loads = [window.load for window in windows if window.load is not None and window.load.usable]
    mixed = [window for window in windows if window.load is not None and len(window.classes) > 1]
    flushing = {id(window) for window in mixed if any(one.name.startswith(_FLUSH) for one in window.classes)}
    found = energyfit.settle(loads) if mixed else None
    for window in mixed:
        load = window.load
        assert load is not None
        if found is not None and load.usable:
            load = load.with_after(found.controller_w)
        (whole,) = window.result["classes"].values()
        told = energyfit.tell_apart(found, load) if found and load.usable and found.spread <= energyfit.MOST_SPREAD else []
        explained = sum(one.joules * sum(load.counts[name] for name in one.names) for one in told)
        if found is None or len(told) < 2 or abs(explained - load.above_j) > _MISFIT * found.spread * load.above_j + load.u_j:
            (name,) = window.result["classes"]
            conditions = {**whole.conditions, "note": "; ".join([*_note(whole), NOT_TOLD_APART])}
            window.result["classes"] = {name: replace(whole, conditions=conditions)}
            continue
        by_identity = {identity(one, window.classes): one for one in window.classes}
        classes: dict[str, Figure] = {}
        spent: dict[str, Figure] = {}
        for one in told:
            members = tuple(by_identity[name] for name in one.names)
            name, n = _joined(member.name for member in members), sum(member.count for member in members)
            # An error of the idle power is an error of the controller's power, which is shared out by time.
            base_u = window.base_u_w * sum(load.shared_s[each] for each in one.names) / n
            part = one.joules * n / load.above_j
            u = math.hypot(one.half_width, base_u, window.gain * one.joules, method_u(one.joules, part))
            conditions = {"idle_w": whole.conditions["idle_w"], "commands": n, **_circumstances(members)}
            notes = [NOT_TOLD_APART, MERGED] * (len(members) > 1) + [NO_INTERVAL] * any(name.endswith(_IN_COMPANY) for name in one.names)
            notes += [TOO_SMALL] * (part < SMALLEST_PART)
            notes += [FLUSHED] * (id(window) in flushing and name.startswith(_BY_FLUSHES))
            notes += [BY_HOST] * window.by_host + _note(whole)
            known_u = None if {MERGED, NO_INTERVAL, TOO_SMALL, BY_HOST, FLUSHED} & set(notes) else u
            note = {"note": "; ".join(notes)} if notes else {}
            classes[name] = Figure(one.joules, known_u, "J", window.lost, {**conditions, **note})
            spent[name] = Figure(one.joules * n, None if known_u is None else u * n, "J", window.lost)
        window.result["method"] = f"least squares over the {found.phases} phases of the capture; {HELD}"
        window.result["classes"] = classes
        shares = window.result["shares"]
        if "absent" not in shares:
            moved = sum(one.known for one in shares["classes_j"].values()) - sum(one.known for one in spent.values())
            left = shares["unexplained_j"]
            shares["unexplained_j"] = replace(left, value=left.known + moved)
            shares["classes_j"], shares["by_accounting"] = spent, False


def _note(figure: Figure) -> list[str]:
    """Return the notes of the figure so far."""
    return [str(figure.conditions["note"])] if "note" in figure.conditions else []


def method_u(joules: float, part: float) -> float:
    """:data:`METHOD` of a class that is this ``part`` of its phase's energy, in J."""
    return METHOD * joules / math.sqrt(min(max(part, SMALLEST_PART), 1.0))


def identity(one: CommandClass, company: Sequence[CommandClass]) -> str:
    """Return the name of the kind of command that is taken to cost the same in all phases of a capture.

    Sequential reads among other commands are a kind of their own: the other commands end the drive's reading ahead.
    """
    name = one.name if one.name.endswith(one.pattern) else f"{one.name}, {one.pattern}"
    return f"{name}{_IN_COMPANY}" if len(company) > 1 and one.pattern != "random" and name.startswith("read") else name


def _joined(names: Iterable[str]) -> str:
    return " + ".join(names)


def _circumstances(classes: Sequence[CommandClass]) -> dict[str, str | float]:
    return {"pattern": _joined(c.pattern for c in classes), "depth": _joined(c.depth for c in classes)}


def _shares(
    rail: Rail,
    at_work: list[tuple[float, float]],
    window: tuple[int, int],
    idle_w: Figure,
    name: str,
    above_j: float,
    lost: int,
    earlier_j: float | None,
) -> EnergyShares:
    """Return where the energy of the window went. All energy ``at_work`` (ticks) belongs to the classes.

    earlier_j: the part that may be an earlier phase's
    """
    whole = rail.energy(*window)
    bins = rail_bins(rail, *window)
    if whole.covered_s <= 0 or not np.isfinite(bins.joules).all():
        return {"absent": "part of the rail is missing in this window"}
    base, base_u = idle_w.known, idle_w.u or 0.0
    rest = bins.joules[~_overlap(bins, at_work)] - base * bins.seconds
    baseline = base * whole.covered_s + float(np.minimum(rest, 0.0).sum())
    deferred = float(np.maximum(rest, 0.0).sum())
    beyond = rail.energy(window[1], at_work[-1][1]) if at_work[-1][1] > window[1] else None
    after = beyond.joules - base * beyond.covered_s if beyond else 0.0
    unexplained = whole.joules - baseline - deferred - (above_j - after)

    def figure(joules: float, seconds: float = 0.0) -> Figure:
        u = math.sqrt((base_u * seconds) ** 2 + (rail.model.gain * joules) ** 2)
        return Figure(joules, u, "J", lost, {"idle_w": base})

    own = figure(above_j, sum(b - a for a, b in at_work) * rail.tick_s)
    own = replace(own, u=None if earlier_j is None or own.u is None else math.hypot(own.u, earlier_j))
    return {
        "total_j": figure(whole.joules),
        "baseline_j": figure(baseline, whole.covered_s),
        "classes_j": {name: own},
        "after_j": figure(after, beyond.covered_s if beyond else 0.0),
        "deferred_j": figure(deferred, len(rest) * bins.seconds),
        "unexplained_j": Figure(unexplained, None, "J", lost, {"note": "what is left of the total"}),
        "by_accounting": True,
    }


def _overlap(bins: EnergyBins, spans: list[tuple[float, float]]) -> Bool:
    """Bins that any of the spans, which are in order, touches."""
    starts, ends = np.array([a for a, _ in spans]), np.array([b for _, b in spans])
    touched: Bool = np.searchsorted(starts, bins.edges[1:]) > np.searchsorted(ends, bins.edges[:-1], side="right")
    return touched
