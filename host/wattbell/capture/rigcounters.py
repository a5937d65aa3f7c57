"""Check the rig's own counters of loss (STATUS): every increase without another report is a gap, and so is a decrease.

Counters run from power-on, modulo 2**32 (docs/wire-format.md). A run is judged by the differences between its STATUS blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from wattbell_spec import wire as spec

from ..wire.decode import Batch, Gap

_SOURCES = {
    "lost_tlps": (spec.LossSource.TLP_DOWN, spec.LossSource.TLP_UP),
    "lost_commands": (spec.LossSource.SLOTS,),
    "lost_records": (spec.LossSource.RECORDS,),
    "lost_events": (spec.LossSource.EVENTS,),
    "lost_samples": (spec.LossSource.RAIL,),
    "lost_pages": (spec.LossSource.PAGES,),
    "malformed": (),
    "unmatched": (),
}
"""LOSS events that account for each counter, too."""
_KINDS = {
    "lost_commands": spec.BlockContent.COMMANDS,
    "lost_records": spec.BlockContent.COMMANDS,
    "lost_events": spec.BlockContent.EVENTS,
    "lost_samples": spec.BlockContent.RAIL,
}
"""Kind of the records that each counter counts. For the other counters, nobody knows which records are missing."""
_DROPPED_TOO = ("lost_records", "lost_samples")
"""Counters of records that the next block of their kind says to be dropped."""
_WRAP = 1 << 32


@dataclass
class _Account:
    """One counter: its growth, and the losses that other reports explain."""

    counted: int = 0
    events: int = 0
    marked: int = 0
    """Records covered by gaps of this counter."""
    explained_tick: int = 0
    """The last STATUS at which nothing was unexplained."""


class RigCounters:
    """Follows the STATUS blocks and LOSS events of one run. ``dropped``: drops that blocks reported before the run, by kind."""

    def __init__(self, dropped: Mapping[str, int]) -> None:
        self.before: dict[str, int] = {}
        """Counters in the run's first STATUS: losses between power-on and the run."""
        self._accounts = {name: _Account() for name in _SOURCES}
        self._dropped_before = dict(dropped)
        self._dropped = dict(dropped)
        self._last: dict[str, int] | None = None
        self._last_tick = 0
        self._by_source = {int(source): name for name, sources in _SOURCES.items() for source in sources}

    @property
    def total(self) -> dict[str, int]:
        """Largest growth of each counter so far."""
        return {name: account.counted for name, account in self._accounts.items()}

    def add(self, batch: Batch, dropped: Mapping[str, int]) -> list[Gap]:
        """Take note of a batch, and of the drops that blocks report so far; return the gaps that are certain."""
        self._dropped = dict(dropped)
        if batch.events is not None:
            columns = batch.events.columns
            for index in np.flatnonzero(columns["type"] == spec.EventType.LOSS).tolist():
                name = self._by_source.get(int(columns["arg8"][index]))
                if name is not None:
                    self._accounts[name].events += int(columns["arg32"][index])
        gaps: list[Gap] = []
        if batch.status is not None:
            for index in np.argsort(batch.status.tick, kind="stable").tolist():
                values = {name: int(batch.status.columns[name][index]) for name in _SOURCES}
                gaps += self._status(int(batch.status.tick[index]), values)
        return gaps

    def finish(self) -> list[Gap]:
        """Return gaps for the losses still unexplained at the end of the run."""
        return [gap for name in _SOURCES for gap in self._unexplained(name)]

    def _status(self, tick: int, values: dict[str, int]) -> list[Gap]:
        if self._last is None:
            self._last, self._last_tick = values, tick
            # while a host enumerates, the tracker knows no queue, so nothing matches
            self.before = {name: count for name, count in values.items() if count and name != "unmatched"}
            for account in self._accounts.values():
                account.explained_tick = tick
        if tick < self._last_tick:
            return []  # it came late: the counters of a later one include its own
        # events had a period to report the losses that the STATUS before this one counted
        gaps = [gap for name in _SOURCES for gap in self._unexplained(name)]
        for name, value in values.items():
            before = self._last[name]
            grown = (value - before) % _WRAP
            if grown < _WRAP // 2:
                self._accounts[name].counted += grown
            else:
                reason = f"the rig's counter {name} went back from {before} to {value}"
                gaps.append(Gap(_KINDS.get(name), self._last_tick, tick, -1, reason))
        self._last, self._last_tick = values, tick
        return gaps

    def _unexplained(self, name: str) -> list[Gap]:
        """Return a gap for losses counted up to the last STATUS and explained by no other report."""
        account, kind = self._accounts[name], _KINDS.get(name)
        dropped = 0 if kind is None else self._dropped.get(kind.name, 0) - self._dropped_before.get(kind.name, 0)
        told = max(account.events, dropped if name in _DROPPED_TOO else 0) + account.marked
        missing, since = account.counted - told, account.explained_tick
        account.explained_tick = self._last_tick
        if missing <= 0:
            return []
        account.marked += missing
        if name == "unmatched":
            reason = f"{missing} TLPs of the drive match no command, so data or commands may be missing"
        else:
            reason = f"lost in the rig by its counter {name} ({missing}), and told nowhere else"
        return [Gap(kind, since, self._last_tick, missing if kind is not None else -1, reason)]
