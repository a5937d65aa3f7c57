"""What one phase of a capture gives: rate, latency, power. One phase is in memory at a time, as suites are long."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ..analysis.figures import ErrorModel, error_model
from ..analysis.latency import quantile_ranks, standard_error, supported
from ..analysis.loss import Loss, LossBook
from ..analysis.names import TRANSFER_OPCODES
from ..analysis.phases import Phase, find_phases
from ..analysis.rail import Rail, no_rail_reason
from ..analysis.table import NONE, Commands, is_marker, lba_sizes, load_commands
from ..analysis.throughput import BURST_GAP_S, Span
from ..capture import Capture
from ..wire.spec import CommandFlag, RailFlag
from .quantity import Quantity, quantity, ratio

Int64 = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
READ, WRITE = 2, 1
COLUMNS = ("start_tick", "doorbell_tick", "cqe_tick", "nbytes", "slba", "opcode", "qid", "status", "flags")
DOUBT_TEXT = {
    RailFlag.OVERLOAD_I: "current_beyond_the_adc",
    RailFlag.OVERLOAD_V: "voltage_beyond_the_adc",
    RailFlag.UNCALIBRATED: "uncalibrated",
    RailFlag.SATURATED: "clipped",
}
LONGEST_S = 60.0
"""No command takes longer; hosts give up after 30 s."""


@dataclass
class Source:
    """An open capture: its phases by name, its rail, its losses, without its commands."""

    capture: Capture
    model: ErrorModel = field(init=False)
    tick_s: float = field(init=False)
    rail: Rail | None = field(init=False)
    phases: dict[str, Phase] = field(init=False)
    events: pl.DataFrame = field(init=False)

    def __post_init__(self) -> None:
        self.model = error_model(self.capture.meta)
        self.tick_s = self.capture.tick_ps * 1e-12
        self.rail = Rail(self.capture, self.model) if no_rail_reason(self.capture) is None else None
        self.events = self.capture.events.collect().sort("tick", maintain_order=True)
        last = int(self.events["tick"][-1]) + 1 if len(self.events) else 0
        found = find_phases(self.events, self.capture.meta.get("workload") or {}, last)
        self.phases = {phase.name: phase for phase in found}
        self._loss = LossBook(self.capture.gaps.collect(), self.events)
        self._sizes, self.notes = lba_sizes(self.capture.meta)
        self._told = _fio_bytes(self.capture)

    def named(self, step: str) -> list[tuple[str, Phase]]:
        """(section, phase) of a step of the plan, in order of time; the section is "" for a step that is one phase."""
        found = []
        for name, phase in self.phases.items():
            base, _, section = name.partition("/")
            if base == step:
                found.append((section, phase))
        return sorted(found, key=lambda item: item[1].first_tick)

    def numbered(self, step: str) -> Iterator[tuple[int, str, Phase]]:
        """(number, section, phase) of the steps ``step#1``, ``step#2``, ..."""
        for name, phase in sorted(self.phases.items(), key=lambda item: item[1].first_tick):
            base, _, section = name.partition("/")
            head, mark, number = base.rpartition("#")
            if mark and head == step:
                yield int(number), section, phase

    def commands(self, phase: Phase) -> Commands:
        """The commands of a phase (only ``COLUMNS``), markers left out."""
        start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
        # what lies outside by the CQE is not even read: row groups are in order of arrival
        late = round(LONGEST_S / self.tick_s)
        near = pl.col("cqe_tick").is_between(phase.first_tick, phase.last_tick + late)
        frame = self.capture.commands.filter(near & (start >= phase.first_tick) & (start < phase.last_tick))
        everything = load_commands(frame, self._sizes, COLUMNS)
        markers = is_marker(everything)
        return everything.take(~markers) if markers.any() else everything

    def loss(self, phase: Phase) -> Loss:
        """What is missing in a phase."""
        return self._loss.between(phase.first_tick, phase.last_tick)

    def power_u(self, watts: float) -> float:
        """Expanded uncertainty in W of a mean power, at this rail's voltage."""
        return self.model.power_u(watts, self.rail.supply_v if self.rail else 0.0)

    def doubtful_blocks(self, first_tick: float, last_tick: float) -> dict[str, int]:
        """Rail blocks of a window whose power is wrong or not known to be right, by why."""
        found = self.rail.doubtful_blocks(first_tick, last_tick) if self.rail else {}
        return {f"rail_blocks_{DOUBT_TEXT[flag]}": n for flag, n in found.items()}

    def disagreement(self, phase: Phase, nbytes: int) -> int:
        """Bytes that fio says it moved in a phase less those on the wire; 0 where fio's figures are not there."""
        group = phase.described.get("fio_group")
        return self._told[group] - nbytes if group in self._told else 0

    def energy(self, first_tick: float, last_tick: float, lost: int = 0) -> tuple[Quantity, Quantity]:
        """(energy in J, mean power in W) between two ticks; no values without a rail."""
        if self.rail is None or last_tick <= first_tick:
            return quantity(None), quantity(None)
        part = self.rail.energy(first_tick, last_tick)
        if part.covered_s <= 0:
            return quantity(None), quantity(None)
        mean = part.joules / part.covered_s
        doubtful = sum(self.doubtful_blocks(first_tick, last_tick).values())
        if doubtful:  # the error model holds for a calibrated rail within its range only
            return quantity(part.joules, None, lost + doubtful), quantity(mean, None, lost + doubtful)
        u = math.hypot(self.power_u(mean), part.edge_u_j / part.covered_s)
        return quantity(part.joules, u * part.covered_s, lost), quantity(mean, u, lost)

    def seconds(self, ticks: float) -> float:
        return float(ticks) * self.tick_s


@dataclass(frozen=True)
class Measured:
    """A phase with I/O: its commands, those without error among them, and the active span."""

    source: Source
    phase: Phase
    io: Commands
    good: npt.NDArray[np.bool_]
    moved: npt.NDArray[np.bool_]
    span: Span | None
    lost: int

    @property
    def active_s(self) -> float:
        """Length of the active span: gaps of 10 ms and more with nothing in flight are left out."""
        return self.source.seconds(self.span.active_ticks) if self.span else 0.0

    @property
    def bytes(self) -> int:
        return int(self.io.nbytes[self.moved].sum())

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.good))

    def rate(self, amount: float, seconds: float | None = None) -> Quantity:
        """``amount`` a second of the active span (or of ``seconds``)."""
        over = self.active_s if seconds is None else seconds
        if over <= 0:
            return quantity(None, None, self.lost)
        value = amount / over
        return quantity(value, value * self.source.model.interval_u(over) / over, self.lost)

    def power(self) -> tuple[Quantity, Quantity]:
        """(energy, mean power) over the active span."""
        if self.span is None:
            return quantity(None), quantity(None)
        bursts = self.span.bursts if len(self.span.bursts) <= 4096 else self.span.bursts[[0, -1], [0, 1]][None, :]
        joules = seconds = edge = 0.0
        lost, certain = self.lost, True
        for first, last in bursts.tolist():
            energy, mean = self.source.energy(first, last)
            if energy["value"] is None:
                return quantity(None, None, self.lost), quantity(None, None, self.lost)
            part = energy["value"] / mean["value"] if mean["value"] else self.source.seconds(last - first)
            joules, seconds = joules + energy["value"], seconds + part
            edge += (energy["u"] or 0.0) ** 2
            lost, certain = lost + energy["n_lost"], certain and energy["u"] is not None
        if seconds <= 0:
            return quantity(None), quantity(None)
        mean_w = joules / seconds
        if not certain:
            return quantity(joules, None, lost), quantity(mean_w, None, lost)
        u = math.hypot(self.source.power_u(mean_w), math.sqrt(edge) / seconds)
        return quantity(joules, u * seconds, self.lost), quantity(mean_w, u, self.lost)

    def latency(self, opcode: int | None = None) -> tuple[Quantity, Quantity]:
        """(mean, 99th percentile) of doorbell to CQE in s, of one opcode or of all I/O."""
        usable = self.good & (self.io.doorbell_tick != NONE)
        if opcode is not None:
            usable &= self.io.opcode == opcode
        ticks = (self.io.cqe_tick - self.io.doorbell_tick)[usable]
        return describe(ticks, self.source, self.lost)

    def point(self, x: dict[str, float]) -> dict[str, Any]:
        """The point of results.json."""
        mb_per_s = self.rate(self.bytes / 1e6)
        energy, mean_w = self.power()
        mean_s, p99_s = self.latency()
        return {
            "x": x,
            "mb_per_s": mb_per_s,
            "iops": self.rate(self.count),
            "mean_w": mean_w,
            "mb_per_s_per_w": ratio(mb_per_s, mean_w),
            "mean_latency_s": mean_s,
            "p99_latency_s": p99_s,
            "energy_j": energy,
            "bytes": self.bytes,
            "active_s": self.active_s,
        }

    def per_bin(self, bin_ticks: int) -> tuple[Int64, Int64]:
        """(commands, bytes) completed in each whole bin from the phase's first doorbell."""
        if self.span is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first, last = self.span.first_tick, self.span.last_tick
        bins = max(0, (last - first) // bin_ticks)
        index = (self.io.cqe_tick - first) // bin_ticks
        inside = self.good & (index >= 0) & (index < bins)
        counts = np.bincount(index[inside], minlength=bins).astype(np.int64)
        weights = np.where(self.moved, self.io.nbytes, 0)[inside]
        sums = np.rint(np.bincount(index[inside], weights=weights, minlength=bins)).astype(np.int64)
        return counts, sums


def describe(ticks: Int64, source: Source, lost: int = 0) -> tuple[Quantity, Quantity]:
    """(mean, 99th percentile) of durations in ticks, as s. The percentile is None below 377 samples (docs/methodology.md)."""
    n = len(ticks)
    if n == 0:
        return quantity(None, None, lost), quantity(None, None, lost)
    error = standard_error(ticks)
    mean_s = float(ticks.sum()) / n * source.tick_s
    u = None if error is None else math.hypot(2 * error * source.tick_s, source.model.timebase * mean_s)
    mean = quantity(mean_s, u, lost)
    if not supported(n, 0.99):
        return mean, quantity(None, None, lost)
    rank, low, high = quantile_ranks(n, 0.99)
    wanted = sorted({rank - 1, *(r - 1 for r in (low, high) if r is not None)})
    part = np.partition(ticks, wanted)
    value = float(part[rank - 1]) * source.tick_s
    half = None if low is None or high is None else float(part[high - 1] - part[low - 1]) / 2 * source.tick_s
    p99_u = None if half is None else math.hypot(half, source.model.interval_u(value))
    return mean, quantity(value, p99_u, lost)


def _fio_bytes(capture: Capture) -> dict[int, int]:
    """Bytes read and written by group of jobs, by fio's own JSON; empty without one."""
    try:
        jobs = json.loads((capture.workload_dir / "fio.json").read_text(encoding="utf-8"))["jobs"]
        out: dict[int, int] = {}
        for job in jobs:
            group = int(job["groupid"])
            out[group] = out.get(group, 0) + int(job["read"]["io_bytes"]) + int(job["write"]["io_bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return out


def measure(source: Source, phase: Phase) -> Measured:
    """The figures of a phase with I/O."""
    members = source.commands(phase)
    io = members.take((members.qid > 0) & ~members.has(CommandFlag.NO_SQE))
    good = ((io.status & 0x7FF) == 0) & ~io.has(CommandFlag.ABORTED)
    moved = good & np.isin(io.opcode, TRANSFER_OPCODES)
    span = active_span(io, round(BURST_GAP_S / source.tick_s))
    return Measured(source, phase, io, good, moved, span, source.loss(phase).commands)


def active_span(io: Commands, gap_ticks: int) -> Span | None:
    """The bursts of commands sorted by start: the same as ``find_span`` of their depth, without sorting starts and ends."""
    if not len(io):
        return None
    end = np.maximum.accumulate(np.maximum(io.cqe_tick, io.start_tick))
    after = np.flatnonzero(io.start_tick[1:] - end[:-1] >= gap_ticks)
    starts = np.concatenate((io.start_tick[:1], io.start_tick[after + 1]))
    return Span(np.stack((starts, np.concatenate((end[after], end[-1:]))), axis=1))
