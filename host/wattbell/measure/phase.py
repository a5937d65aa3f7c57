"""Figures of one phase of a capture: rate, latency, power. For a phase with very many commands, only the latencies stay in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import io

from .figure import Figure, absent, ratio
from .instruments import Instruments
from .latency import mean_and_p99
from .phases import Phase
from .pieces import Tally, active_span, bins, tally, verdicts
from .point import Point
from .source import Source
from .steadiness import BLOCKS, Steadiness, steadiness
from .table import NONE, Commands
from .throughput import BURST_GAP_S, ActiveTime, rate

Int64 = npt.NDArray[np.int64]
READ, WRITE = io("read"), io("write")


@dataclass(frozen=True)
class PhaseMeasurement(ABC):
    """Figures of a window of a capture with I/O.

    These are bytes moved and commands without error, the active span, and the rates, latency, power and energy that follow. ``lost``:
    records missing under the figures made of commands.
    """

    instruments: Instruments
    span: ActiveTime | None
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
        return self.instruments.seconds(self.span.active_ticks) if self.span else 0.0

    @property
    def least_s(self) -> float | None:
        """Least possible :attr:`active_s`, if that is uncertain; else None."""
        ticks = self.span.least_ticks if self.span else None
        return None if ticks is None else self.instruments.seconds(ticks)

    def rate(self, amount: float, unit: str, seconds: float | None = None, **conditions: str) -> Figure:
        """``amount`` a second of the active span (or of ``seconds``)."""
        over_s, least_s = self.active_s, self.least_s
        if seconds is not None:
            ends = self.span.ends_ticks if self.span else None
            over_s, least_s = seconds, None if ends is None else seconds - self.instruments.seconds(ends)
        return rate(amount, over_s, unit, self.instruments.model, self.lost, least_s, **conditions)

    def power(self, *, scored: bool = True, lost: int | None = None) -> tuple[Figure, Figure]:
        """Return (energy, mean power) over the active span, see :meth:`~.instruments.Instruments.active_energy`.

        lost: records missing under them, if different from the records missing under the commands
        """
        if scored and lost is None:
            return self._scored
        return self._power(self.lost if lost is None else lost, scored=scored)

    @cached_property
    def _scored(self) -> tuple[Figure, Figure]:
        return self._power(self.lost, scored=True)

    def _power(self, lost: int, *, scored: bool) -> tuple[Figure, Figure]:
        if self.span is None:
            return absent("no I/O", "J"), absent("no I/O", "W")
        return self.instruments.active_energy(self.span, lost, scored=scored)

    @cached_property
    def flow(self) -> Steadiness | None:
        """Whether the data rate held its level over the span; None if there is too little to see."""
        ticks = self.span.whole_ticks // BLOCKS if self.span and len(self.span.bursts) == 1 else 0
        return steadiness(self.per_bin(ticks)[1] / (self.instruments.seconds(ticks) * 1e6)) if ticks else None

    def latency(self, opcode: int | None = None) -> tuple[Figure, Figure]:
        """(mean, 99th percentile) of doorbell to CQE in s, of one opcode or of all I/O."""
        return mean_and_p99(self.latency_ticks(opcode), self.instruments.tick_s, self.instruments.model, self.lost)

    def point(self, x: Mapping[str, float]) -> Point[Figure]:
        """The figures of the phase as a point of a test."""
        mb_per_s = self.rate(self.bytes / 1e6, "MB/s")
        mb_per_s = self.flow.of(mb_per_s) if self.flow else mb_per_s
        energy, mean_w = self.power()
        mean_s, p99_s = self.latency()
        figures = {
            "mb_per_s": mb_per_s,
            "iops": self.rate(self.count, "1/s"),
            "mean_w": mean_w,
            "mb_per_j": ratio(mb_per_s, mean_w, "MB/J"),
            "mean_latency_s": mean_s,
            "p99_latency_s": p99_s,
            "energy_j": energy,
        }
        return Point(x, figures, self.bytes, self.active_s)


@dataclass(frozen=True)
class Whole(PhaseMeasurement):
    """A phase with its commands in memory.

    io: all commands
    good: mask of the commands without error
    moved: mask of the commands without error that moved data
    """

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
class InPieces(PhaseMeasurement):
    """A phase with too many commands to hold in memory at once."""

    tally: Tally
    pieces: Callable[[], Iterable[Commands]]

    @property
    def bytes(self) -> int:
        return self.tally.bytes

    @property
    def count(self) -> int:
        return self.tally.count

    def latency_ticks(self, opcode: int | None = None) -> npt.NDArray[Any]:
        return self.tally.ticks if opcode is None else self.tally.ticks[self.tally.opcode == opcode]

    def per_bin(self, bin_ticks: int) -> tuple[Int64, Int64]:
        return bins(self.pieces(), self.span, bin_ticks)


def of_commands(instruments: Instruments, io: Commands, span: ActiveTime | None, lost: int) -> Whole:
    """The measurement of I/O commands that are in memory."""
    good, moved = verdicts(io)
    return Whole(instruments, span, lost, io, good, moved)


def measure(source: Source, phase: Phase) -> PhaseMeasurement:
    """The figures of a phase with I/O."""
    if not source.is_long(phase):
        return measure_whole(source, phase)
    found = tally(source.io_pieces(phase), round(BURST_GAP_S / source.tick_s), source.by_host)
    return InPieces(source, found.span, source.loss(phase).under_commands, found, partial(source.io_pieces, phase))


def measure_whole(source: Source, phase: Phase) -> Whole:
    """The same with all commands in memory, however many there are."""
    io = source.io(phase)
    return of_commands(source, io, active_span(io, round(BURST_GAP_S / source.tick_s), source.by_host), source.loss(phase).under_commands)
