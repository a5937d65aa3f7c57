"""What one phase of a capture gives: rate, latency, power. One phase is in memory at a time, as suites are long; of a phase
of very many commands, only their latencies are."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.nvme import io
from wattbell_spec.wire import CommandFlag, RailFlag

from ..capture import Capture
from .energy import Energy
from .errormodel import ErrorModel, error_model
from .figure import Figure, absent, ratio
from .fiojson import inside, load_jobs
from .latency import quantile_ranks, standard_error, supported
from .loss import Loss, LossBook
from .phases import Phase, find_phases
from .pieces import Tally, active_span, bins, tally, verdicts
from .point import Point
from .rail import Rail, no_rail_reason
from .table import NONE, Commands, is_marker, lba_sizes, load_commands
from .throughput import BURST_GAP_S, Span, rate

Int64 = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
READ, WRITE = io("read"), io("write")
COLUMNS = ("start_tick", "doorbell_tick", "cqe_tick", "nbytes", "slba", "opcode", "qid", "status", "flags")
DOUBT_TEXT = {
    RailFlag.OVERLOAD_I: "current_beyond_the_adc",
    RailFlag.OVERLOAD_V: "voltage_beyond_the_adc",
    RailFlag.UNCALIBRATED: "uncalibrated",
    RailFlag.SATURATED: "clipped",
}
IO_COLUMNS = ("start_tick", "doorbell_tick", "cqe_tick", "nbytes", "opcode", "status", "flags")
STORED = ("doorbell_tick", "fetch_tick", "cqe_tick", "blocks", "nsid", "opcode", "qid", "status", "flags")
"""Columns of commands.parquet behind ``IO_COLUMNS``."""
WHOLE_ROWS = 8_000_000
"""A phase of more commands is measured in pieces of at most"""
PIECE_ROWS = 1_000_000
"""so many."""
NO_RAIL = "no rail was recorded"
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
        begin = int(self.events["tick"][0]) if len(self.events) else 0
        self._loss = LossBook(self.capture.gaps.collect(), self.events, begin, last, self._longest)
        self._sizes, self.notes = lba_sizes(self.capture.meta)
        self._told = _fio_bytes(self.capture)

    def _longest(self) -> int:
        """Ticks of the longest command of the capture."""
        start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
        longest = self.capture.commands.select((pl.col("cqe_tick") - start).max()).collect().item()
        return int(longest or 0)

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
        everything = load_commands(self._within(self.capture.commands, phase), self._sizes, COLUMNS)
        markers = is_marker(everything)
        return everything.take(~markers) if markers.any() else everything

    def io(self, phase: Phase) -> Commands:
        """The I/O commands of a phase (only ``IO_COLUMNS``)."""
        return self._io(self.capture.commands, phase)

    def io_pieces(self, phase: Phase) -> Iterator[Commands]:
        """The same in pieces of at most about ``PIECE_ROWS``, each sorted by start."""
        for piece in self.capture.command_pieces(phase.first_tick, self._latest(phase), STORED, PIECE_ROWS):
            yield self._io(piece.lazy(), phase)

    def is_long(self, phase: Phase) -> bool:
        """Whether a phase has more than ``WHOLE_ROWS`` commands."""
        return self.capture.command_rows(phase.first_tick, self._latest(phase)) > WHOLE_ROWS

    def _latest(self, phase: Phase) -> int:
        return phase.last_tick + round(LONGEST_S / self.tick_s)

    def _within(self, frame: pl.LazyFrame, phase: Phase) -> pl.LazyFrame:
        start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
        # what lies outside by the CQE is not even read: row groups are in order of arrival
        near = pl.col("cqe_tick").is_between(phase.first_tick, self._latest(phase))
        return frame.filter(near & (start >= phase.first_tick) & (start < phase.last_tick))

    def _io(self, frame: pl.LazyFrame, phase: Phase) -> Commands:
        known = (pl.col("flags") & int(CommandFlag.NO_SQE)) == 0
        return load_commands(self._within(frame, phase).filter((pl.col("qid") > 0) & known), self._sizes, IO_COLUMNS)

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

    def covered(self, first_tick: float, last_tick: float) -> Energy | None:
        """What the rail's meter says between two ticks; None where no rail was recorded."""
        part = self.rail.energy(first_tick, last_tick) if self.rail and last_tick > first_tick else None
        return part if part and part.covered_s > 0 else None

    def energy(self, first_tick: float, last_tick: float, lost: int = 0) -> tuple[Figure, Figure]:
        """(energy in J, mean power in W) between two ticks; no values without a rail."""
        part = self.covered(first_tick, last_tick)
        if part is None:
            return absent(NO_RAIL, "J"), absent(NO_RAIL, "W")
        mean = part.joules / part.covered_s
        doubtful = sum(self.doubtful_blocks(first_tick, last_tick).values())
        if doubtful:  # the error model holds for a calibrated rail within its range only
            return Figure(part.joules, None, "J", lost + doubtful), Figure(mean, None, "W", lost + doubtful)
        u = math.hypot(self.power_u(mean), part.edge_u_j / part.covered_s)
        return Figure(part.joules, u * part.covered_s, "J", lost), Figure(mean, u, "W", lost)

    def seconds(self, ticks: float) -> float:
        return float(ticks) * self.tick_s


@dataclass(frozen=True)
class Measured(ABC):
    """A phase with I/O: bytes moved and commands without error, and the active span."""

    source: Source
    phase: Phase
    span: Span | None
    lost: int

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Bytes moved without error."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Commands that ended without error."""

    @abstractmethod
    def latency_ticks(self, opcode: int | None = None) -> npt.NDArray[Any]:
        """Doorbell to CQE of the commands without error, of one opcode or of all I/O, nearly in order of time."""

    @abstractmethod
    def per_bin(self, bin_ticks: int) -> tuple[Int64, Int64]:
        """(commands, bytes) completed in each whole bin from the phase's first doorbell."""

    @property
    def active_s(self) -> float:
        """Length of the active span: gaps of 10 ms and more with nothing in flight are left out."""
        return self.source.seconds(self.span.active_ticks) if self.span else 0.0

    def rate(self, amount: float, unit: str, seconds: float | None = None) -> Figure:
        """``amount`` a second of the active span (or of ``seconds``)."""
        over = self.active_s if seconds is None else seconds
        return rate(amount, over, unit, self.source.model, self.lost)

    def power(self) -> tuple[Figure, Figure]:
        """(energy, mean power) over the active span."""
        if self.span is None:
            return absent("no I/O", "J"), absent("no I/O", "W")
        bursts = self.span.bursts if len(self.span.bursts) <= 4096 else self.span.bursts[[0, -1], [0, 1]][None, :]
        joules = seconds = edges = 0.0
        doubtful = 0
        for first, last in bursts.tolist():
            part = self.source.covered(first, last)
            if part is None:
                return absent(NO_RAIL, "J", self.lost), absent(NO_RAIL, "W", self.lost)
            joules, seconds, edges = joules + part.joules, seconds + part.covered_s, edges + part.edge_u_j**2
            doubtful += sum(self.source.doubtful_blocks(first, last).values())
        mean_w = joules / seconds
        if doubtful:
            return Figure(joules, None, "J", self.lost + doubtful), Figure(mean_w, None, "W", self.lost + doubtful)
        # what the front end is off by is common to all bursts; the edges are not
        u = math.hypot(self.source.power_u(mean_w), math.sqrt(edges) / seconds)
        return Figure(joules, u * seconds, "J", self.lost), Figure(mean_w, u, "W", self.lost)

    def latency(self, opcode: int | None = None) -> tuple[Figure, Figure]:
        """(mean, 99th percentile) of doorbell to CQE in s, of one opcode or of all I/O."""
        return describe(self.latency_ticks(opcode), self.source, self.lost)

    def point(self, x: Mapping[str, float]) -> Point:
        """The figures of the phase as a point of a test."""
        mb_per_s = self.rate(self.bytes / 1e6, "MB/s")
        energy, mean_w = self.power()
        mean_s, p99_s = self.latency()
        figures = {
            "mb_per_s": mb_per_s,
            "iops": self.rate(self.count, "1/s"),
            "mean_w": mean_w,
            "mb_per_s_per_w": ratio(mb_per_s, mean_w, "MB/s/W"),
            "mean_latency_s": mean_s,
            "p99_latency_s": p99_s,
            "energy_j": energy,
        }
        return Point(x, figures, self.bytes, self.active_s)


@dataclass(frozen=True)
class Whole(Measured):
    """A phase whose commands are in memory: all, those without error, those of them that moved data."""

    io: Commands
    good: npt.NDArray[np.bool_]
    moved: npt.NDArray[np.bool_]

    @property
    def bytes(self) -> int:
        return int(self.io.nbytes[self.moved].sum())

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.good))

    def latency_ticks(self, opcode: int | None = None) -> npt.NDArray[Any]:
        usable = self.good & (self.io.doorbell_tick != NONE)
        if opcode is not None:
            usable &= self.io.opcode == opcode
        ticks: Int64 = (self.io.cqe_tick - self.io.doorbell_tick)[usable]
        return ticks

    def per_bin(self, bin_ticks: int) -> tuple[Int64, Int64]:
        return bins([self.io], self.span, bin_ticks)


@dataclass(frozen=True)
class InPieces(Measured):
    """A phase of more commands than are to be in memory at once."""

    tally: Tally

    @property
    def bytes(self) -> int:
        return self.tally.bytes

    @property
    def count(self) -> int:
        return self.tally.count

    def latency_ticks(self, opcode: int | None = None) -> npt.NDArray[Any]:
        return self.tally.ticks if opcode is None else self.tally.ticks[self.tally.opcode == opcode]

    def per_bin(self, bin_ticks: int) -> tuple[Int64, Int64]:
        return bins(self.source.io_pieces(self.phase), self.span, bin_ticks)


def describe(ticks: npt.NDArray[Any], source: Source, lost: int = 0) -> tuple[Figure, Figure]:
    """(mean, 99th percentile) of durations in ticks, as s. The percentile is None below 377 samples (docs/methodology.md)."""
    n = len(ticks)
    if n == 0:
        return absent("no command", "s", lost), absent("no command", "s", lost)
    error = standard_error(ticks)
    mean_s = float(ticks.sum()) / n * source.tick_s
    u = None if error is None else math.hypot(2 * error * source.tick_s, source.model.clocks_u(), source.model.timebase * mean_s)
    mean = Figure(mean_s, u, "s", lost)
    if not supported(n, 0.99):
        return mean, absent("too few commands", "s", lost)
    rank, low, high = quantile_ranks(n, 0.99)
    wanted = sorted({rank - 1, *(r - 1 for r in (low, high) if r is not None)})
    part = np.partition(ticks, wanted)
    value = float(part[rank - 1]) * source.tick_s
    half = None if low is None or high is None else float(part[high - 1] - part[low - 1]) / 2 * source.tick_s
    p99_u = None if half is None else math.hypot(half, source.model.interval_u(value))
    return mean, Figure(value, p99_u, "s", lost)


def _fio_bytes(capture: Capture) -> dict[int, int]:
    """Bytes read and written by group of jobs, by fio's own JSON; empty without one."""
    path = inside(capture.workload_dir, "fio.json", "fio.json")
    out: dict[int, int] = {}
    for job in load_jobs(path) if path else []:
        out[job.groupid] = out.get(job.groupid, 0) + sum(side.io_bytes for side in (job.read, job.write) if side)
    return out


def measure(source: Source, phase: Phase) -> Measured:
    """The figures of a phase with I/O."""
    if not source.is_long(phase):
        return measure_whole(source, phase)
    found = tally(source.io_pieces(phase), round(BURST_GAP_S / source.tick_s))
    return InPieces(source, phase, found.span, source.loss(phase).under_commands, found)


def measure_whole(source: Source, phase: Phase) -> Whole:
    """The same with all commands in memory, however many they are."""
    io = source.io(phase)
    good, moved = verdicts(io)
    span = active_span(io, round(BURST_GAP_S / source.tick_s))
    return Whole(source, phase, span, source.loss(phase).under_commands, io, good, moved)
