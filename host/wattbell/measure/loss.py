"""The account of loss: what is missing in a window, from the gaps table and the LOSS events.

Every figure takes its ``lost`` from here. It is a lower bound: a block that is missing held one record at least, of whatever kind,
and so counts as one under every figure that a record of it might have changed; so does a gap of unknown size. It is 0 only where
nothing is known to be missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

import polars as pl
from wattbell_spec.wire import EventType, LossSource

HIDES_COMMANDS = ("ANY", "COMMANDS", "EVENTS")
"""Kinds of gaps that may hide commands: a lost event may be the mark of a phase or a LOSS."""
_HIDES_RAIL = ("ANY", "RAIL")
_RAIL_SOURCES = ("rail", "events")
_OTHER_SOURCES = ("rail", "raw")
"""Sources of LOSS events that no figure of commands depends on."""
_OTHER_RECORDS = {"EVENTS": "events", "TLP": "raw_tlps", "STATUS": "status", "LINK": "link"}
"""Names of the records of a gap that are neither commands nor samples."""


class LossCounts(TypedDict):
    """What is missing in a window. ``rig``: by what the rig itself said it lost."""

    commands: int
    rail_samples: int
    missing_blocks: int
    gaps_of_unknown_size: int
    rig: dict[str, int]


@dataclass(frozen=True)
class Loss:
    """``commands``, ``rail_samples``: records known to be missing. ``missing_blocks``: blocks of unknown kind. ``unknown_gaps``: gaps
    whose size is not known. ``by_source``: what the rig itself said it lost in the window. ``hidden_commands``, ``hidden_samples``:
    how many of the blocks, gaps and sources may hide commands or samples that are in no other number."""

    commands: int = 0
    rail_samples: int = 0
    missing_blocks: int = 0
    unknown_gaps: int = 0
    by_source: dict[str, int] = field(default_factory=dict)
    hidden_commands: int = 0
    hidden_samples: int = 0

    @property
    def any(self) -> bool:
        return bool(self.commands or self.rail_samples or self.missing_blocks or self.unknown_gaps or self.by_source)

    @property
    def under_commands(self) -> int:
        """``lost`` of a figure made of commands: a lower bound, 0 only where nothing is known to be missing."""
        return self.commands + self.hidden_commands

    @property
    def under_rail(self) -> int:
        """``lost`` of a figure made of the rail."""
        return self.rail_samples + self.hidden_samples

    def to_json(self) -> LossCounts:
        """As it stands in the result."""
        return {
            "commands": self.commands,
            "rail_samples": self.rail_samples,
            "missing_blocks": self.missing_blocks,
            "gaps_of_unknown_size": self.unknown_gaps,
            "rig": self.by_source,
        }


class LossBook:
    """Answers for any window what is missing in it.

    ``first_tick``, ``last_tick``: of all that was recorded. A window that reaches to either end takes what is missing beyond it too.
    ``reach``: gives the ticks that the longest command of the capture took. A command belongs to the window it began in, and is sent
    when it has ended: a gap that lies up to that far behind a window may hide commands of it. Asked only where there are gaps.
    """

    def __init__(self, gaps: pl.DataFrame, events: pl.DataFrame, first_tick: int, last_tick: int, reach: Callable[[], int]) -> None:
        self._gaps = gaps
        self._events = events.filter(pl.col("type") == int(EventType.LOSS)).select("tick", "arg8", "arg32")
        self._first, self._last = first_tick, last_tick
        self._nothing = not len(self._gaps) and not len(self._events)
        self._reach = 0 if self._nothing else max(reach(), 0)

    def between(self, first_tick: int, last_tick: int) -> Loss:
        """The loss of ``[first_tick, last_tick)``; a gap counts in every window it touches."""
        if self._nothing:
            return Loss()
        low = -math.inf if first_tick <= self._first else first_tick
        high = math.inf if last_tick >= self._last else last_tick
        touching = self._gaps.filter((pl.col("first_tick") < high + self._reach) & (pl.col("last_tick") >= low))
        commands = samples = blocks = unknown = hidden_commands = hidden_samples = 0
        others: dict[str, int] = {}
        for kind, begin, records in touching.select("kind", "first_tick", "count").iter_rows():
            known = max(int(records), 0)
            if begin >= high:  # only what began in the window can be missing here
                hidden_commands += max(known, 1) if kind in ("ANY", "COMMANDS") else 0
                continue
            blocks += known if kind == "ANY" else 0
            unknown += records < 0
            if kind == "COMMANDS" and known:
                commands += known
            elif kind == "RAIL" and known:
                samples += known
            elif kind in _OTHER_RECORDS and known:
                others[_OTHER_RECORDS[kind]] = others.get(_OTHER_RECORDS[kind], 0) + known
            if kind in HIDES_COMMANDS and not (kind == "COMMANDS" and known):
                hidden_commands += max(known, 1)
            if kind in _HIDES_RAIL and not (kind == "RAIL" and known):
                hidden_samples += max(known, 1)
        by_source: dict[str, int] = {}
        inside = self._events.filter((pl.col("tick") >= low) & (pl.col("tick") < high))
        for source, records in inside.select("arg8", "arg32").iter_rows():
            name = LossSource(source).name.lower() if source in set(LossSource) else f"source_{source}"
            by_source[name] = by_source.get(name, 0) + int(records)
        commands += by_source.get("slots", 0)
        hidden_commands += sum(n for name, n in by_source.items() if name not in (*_OTHER_SOURCES, "slots"))
        hidden_samples += sum(by_source.get(name, 0) for name in _RAIL_SOURCES)
        for name, records in others.items():  # the rig tells of the same loss in both ways, or in one
            by_source[name] = max(by_source.get(name, 0), records)
        return Loss(commands, samples, blocks, unknown, by_source, hidden_commands, hidden_samples)
