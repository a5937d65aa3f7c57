"""Account of a run by the rig's own reports: its beginning, its end, and the number of commands between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from wattbell_spec import wire as spec

from ..wire.decode import Batch, Gap

_COUNTERS = ("commands", "lost_records")


@dataclass
class _Status:
    tick: int
    run: int
    commands: int
    lost_records: int


class RunAccount:
    """One run of the rig, as far as it was received: all batches of one epoch, in order.

    Both the first and the last block of a run are STATUS blocks, the last with run 0 and the final counters. The RUN events lie between. So
    sequence numbers cover everything between the two STATUS blocks, and data outside them was not received.
    """

    def __init__(self) -> None:
        self.run: int | None = None
        """1 once the rig has reported capturing, 0 once it has reported stopping; by tick, not by arrival."""
        self.has_run = False
        """True once the rig has reported capturing."""
        self._said_at = -1
        self._began: int | None = None
        self._stopped: int | None = None
        self._first: _Status | None = None
        self._last: _Status | None = None
        self._commands = 0
        self._first_tick: int | None = None
        self._last_tick = 0

    def add(self, batch: Batch) -> None:
        """Take note of a batch."""
        if batch.commands:
            self._commands += len(batch.commands)
        if batch.events:
            columns, tick = batch.events.columns, batch.events.tick
            for index in np.flatnonzero(columns["type"] == spec.EventType.RUN).tolist():
                self._say(int(tick[index]), int(columns["arg8"][index]), by_event=True)
        if batch.status:
            columns, tick = batch.status.columns, batch.status.tick
            for index in range(len(tick)):
                found = _Status(int(tick[index]), int(columns["run"][index]), *(int(columns[name][index]) for name in _COUNTERS))
                self._first = self._first or found
                if self._last is None or found.tick >= self._last.tick:
                    self._last = found
                self._say(found.tick, found.run, by_event=False)
        ticks = _first_ticks(batch)
        if ticks:
            self._first_tick = min([self._first_tick, *ticks] if self._first_tick is not None else ticks)
        self._last_tick = max(self._last_tick, batch.last_tick)

    def _say(self, tick: int, run: int, *, by_event: bool) -> None:
        self.has_run = self.has_run or run != 0
        if by_event and run and self._began is None:
            self._began = tick
        if by_event and not run:
            self._stopped = tick
        if tick > self._said_at or (tick == self._said_at and by_event):
            self._said_at, self.run = tick, run

    @property
    def began(self) -> bool:
        """Whether its first block was received."""
        return self._began is not None and self._first is not None and self._first.run != 0 and self._first.tick <= self._began

    @property
    def ended(self) -> bool:
        """Whether its last block was received."""
        return self._stopped is not None and self._last is not None and not self._last.run and self._last.tick >= self._stopped

    def head_gap(self, *, attached_late: bool = False) -> Gap | None:
        """The gap before the first block received, unless that was the run's first."""
        if self.began:
            return None
        reason = "the rig was capturing before the recording began" if attached_late else "the beginning was not received"
        return self._around(self._first_tick or 0, reason)

    def tail_gap(self) -> Gap | None:
        """The gap after the last block received, unless that was the run's last."""
        return None if self.ended else self._around(self._last_tick, "the end was not received")

    def count_gap(self) -> Gap | None:
        """Return a gap over a run, received from beginning to end, if the rig counted more or fewer commands than came."""
        missing = self._uncounted() if self.began and self.ended else 0
        if not missing:
            return None
        assert self._first is not None
        assert self._last is not None
        count, reason = -1, "more commands came than the rig counted"
        if missing > 0:
            count, reason = missing, "the rig counted more commands than came"
        return Gap(spec.BlockContent.COMMANDS, self._first.tick, self._last.tick + spec.FLUSH_TICKS, count, reason)

    def _uncounted(self) -> int:
        assert self._first is not None
        assert self._last is not None
        made = self._last.commands - self._first.commands
        lost = (self._last.lost_records - self._first.lost_records) % (1 << 32)
        return made - lost - self._commands

    @staticmethod
    def _around(tick: int, reason: str) -> Gap:
        return Gap(None, max(tick - spec.FLUSH_TICKS, 0), max(tick, 0) + spec.FLUSH_TICKS, -1, reason)


def _first_ticks(batch: Batch) -> list[int]:
    """The first tick of each kind of record in a batch."""
    columns = []
    if batch.commands:
        columns.append(batch.commands.cqe_tick)
    if batch.rail:
        columns.append(batch.rail.first_tick)
    columns += [part.tick for part in (batch.events, batch.status, batch.links) if part]
    return [int(column.min()) for column in columns if len(column)]
