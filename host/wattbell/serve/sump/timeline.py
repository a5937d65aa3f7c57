"""Converts the stream to words of logic channels on a sample grid.

The stream reports a command when it is over, and sends a block at most 10 ms after its first record. So samples are made some time behind
the stream (:meth:`Timeline.advance`). Anything that arrives later than that is counted, not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from wattbell_spec import units
from wattbell_spec import wire as spec

from ...probes import PROBES
from ...wire.decode import Batch
from ...wire.records import CommandRecords, RailRecords
from .protocol import U32
from .trigger import I64

QUANTITIES = ("voltage", "current", "power")
_VOLTS, _AMPS = units.VOLTAGE_LSB_V, units.CURRENT_LSB_A
_PINS = {"CLKREQ#": (spec.EventType.CLKREQ, 1), "PERST#": (spec.EventType.PERST, 1), "LINK0": (spec.EventType.LINK, 7)}
MOST_THRESHOLDS = 15 - len(PROBES)
"""Two bytes per sample; RLE takes the top bit."""


@dataclass(frozen=True)
class Threshold:
    """A channel that is high while the rail sample is above `level` (V, A, W)."""

    quantity: str
    level: float

    @property
    def name(self) -> str:
        """Name as shown to sigrok's users."""
        return f"{self.quantity}>{self.level:g}{'VAW'[QUANTITIES.index(self.quantity)]}"

    def above(self, rail: RailRecords) -> npt.NDArray[np.bool_]:
        """Whether each sample is above the level."""
        volts, amps = rail.voltage * _VOLTS, rail.current * _AMPS
        values = {"voltage": volts, "current": amps, "power": volts * amps}[self.quantity]
        result: npt.NDArray[np.bool_] = values > self.level
        return result


class _Pending:
    """Changes not yet on the grid: (sample, tick, number); the tick orders those within one sample."""

    def __init__(self) -> None:
        self._parts: list[tuple[I64, I64, I64]] = []

    def add(self, samples: I64, ticks: I64, numbers: I64) -> None:
        if len(samples):
            self._parts.append((samples, ticks, numbers))

    def take(self, end: int) -> tuple[I64, I64]:
        """(sample, number) of changes before sample `end`, in order of their ticks."""
        empty = np.empty(0, np.int64)
        if not self._parts:
            return empty, empty
        samples, ticks, numbers = (np.concatenate(column) for column in zip(*self._parts))
        due = samples < end
        left = ~due
        self._parts = [(samples[left], ticks[left], numbers[left])] if left.any() else []
        order = np.lexsort((ticks[due], samples[due]))
        return samples[due][order], numbers[due][order]


class _Level:
    """A pin, or LinkState: a sample shows the last change up to it."""

    def __init__(self, bit: int, initial: int) -> None:
        self.bit, self.value, self.pending = bit, initial, _Pending()

    def runs(self, end: int) -> tuple[I64, I64, int]:
        """(samples, the values from there on, the value before)."""
        before = self.value
        samples, values = self.pending.take(end)
        if len(samples):
            last = np.append(samples[1:] != samples[:-1], True)
            samples, values = samples[last], values[last]
            self.value = int(values[-1])
        return samples, values << self.bit, before << self.bit


class _Count(_Level):
    """High while anything that has begun has not ended."""

    def runs(self, end: int) -> tuple[I64, I64, int]:
        before = self.value
        samples, changes = self.pending.take(end)
        counts = before + np.cumsum(changes)
        if len(samples):
            last = np.append(samples[1:] != samples[:-1], True)
            samples, counts = samples[last], counts[last]
            self.value = int(counts[-1])
        return samples, (counts > 0).astype(np.int64) << self.bit, int(before > 0) << self.bit


class Timeline:
    """Sample k is at ``start_tick + k * period_ticks``. `initial` is the word of pins at the start."""

    def __init__(self, start_tick: int, period_ticks: int, thresholds: Sequence[Threshold], initial: int) -> None:
        self.start_tick, self.period_ticks = start_tick, period_ticks
        self.late = 0
        """Number of strobes and data spans (mostly with the doorbell of a slow command) that arrived too late for their sample."""
        self._thresholds = list(thresholds)
        self._end = 0
        self._pins = {event: _Level(bit, initial >> bit & mask) for name, (event, mask) in _PINS.items() for bit in [PROBES.index(name)]}
        self._masks = dict(_PINS.values())
        self._counts = {name: _Count(PROBES.index(name), 0) for name in ("DOORBELL", "FETCH", "DATA", "CQE")}
        self._above = [_Level(len(PROBES) + index, 0) for index in range(len(self._thresholds))]
        self._last_above = [0] * len(self._thresholds)

    def sample(self, ticks: I64) -> I64:
        """Index of the first sample at or after each tick."""
        found: I64 = -((self.start_tick - ticks) // self.period_ticks)
        return found

    def add(self, batch: Batch) -> None:
        """Take in a batch."""
        if batch.events is not None:
            kinds = batch.events.columns["type"]
            for event, level in self._pins.items():
                mine = kinds == int(event)
                ticks = batch.events.tick[mine]
                values = batch.events.columns["arg8"][mine].astype(np.int64) & self._masks[event]
                level.pending.add(np.maximum(self.sample(ticks), self._end), ticks, values)
        if batch.commands is not None:
            self._add_commands(batch.commands)
        if batch.rail is not None:
            self._add_rail(batch.rail)

    def _add_commands(self, commands: CommandRecords) -> None:
        cqe = commands.cqe_tick

        def before(name: str) -> tuple[I64, npt.NDArray[np.bool_]]:
            age = commands.columns[f"{name}_before"]
            return cqe - age.astype(np.int64), age < spec.UNKNOWN32 - 1  # the value below it is a lower bound

        for name in ("DOORBELL", "FETCH"):
            ticks, known = before(name.lower())
            self._strobe(name, ticks[known])
        self._strobe("CQE", cqe[commands.columns["flags"] & int(spec.CommandFlag.ABORTED) == 0])
        (first, first_known), (last, last_known) = before("first_data"), before("last_data")
        both = first_known & last_known
        self._span("DATA", self.sample(first[both]), self.sample(last[both]) + 1)

    def _strobe(self, name: str, ticks: I64) -> None:
        samples = self.sample(ticks)
        self._span(name, samples, samples + 1)

    def _span(self, name: str, first: I64, end: I64) -> None:
        """High from sample `first` until before sample `end`. Anything that ended before the very first sample does not count as late."""
        self.late += int(np.count_nonzero((np.maximum(first, 0) < self._end) & (end > 0)))
        shown = end > self._end
        begun, ended = np.maximum(first[shown], self._end), end[shown]
        pending = self._counts[name].pending
        pending.add(begun, begun, np.ones(len(begun), np.int64))
        pending.add(ended, ended, -np.ones(len(ended), np.int64))

    def _add_rail(self, rail: RailRecords) -> None:
        if not self._thresholds:
            return
        counts = rail.columns["count"].astype(np.int64)
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        interval = rail.columns["interval_ticks"].astype(np.int64)
        ticks = np.repeat(rail.first_tick, counts) + within * np.repeat(interval, counts)
        for index, (threshold, level) in enumerate(zip(self._thresholds, self._above)):
            above = threshold.above(rail).astype(np.int64)
            changed = np.diff(above, prepend=self._last_above[index]) != 0
            if len(above):
                self._last_above[index] = int(above[-1])
            level.pending.add(np.maximum(self.sample(ticks[changed]), self._end), ticks[changed], above[changed])

    def advance(self, tick: int) -> tuple[I64, U32, int]:
        """Samples before `tick` not yet returned, as runs: (first sample of each, its word, end of the last)."""
        end = int(self.sample(np.array([tick], np.int64))[0])
        if end <= self._end:
            return np.empty(0, np.int64), np.empty(0, np.uint32), self._end
        parts = [level.runs(end) for level in (*self._pins.values(), *self._counts.values(), *self._above)]
        starts = np.unique(np.concatenate([[self._end], *(samples for samples, _, _ in parts)]).astype(np.int64))
        words = np.zeros(len(starts), np.int64)
        for samples, values, initial in parts:
            words |= np.concatenate(([initial], values))[np.searchsorted(samples, starts, side="right")]
        self._end = end
        new = np.append(True, words[1:] != words[:-1])
        return starts[new], words[new].astype(np.uint32), end
