"""The account of loss: records missing in a window, from the gaps table and the LOSS events.

Every figure takes its ``lost`` from here, a lower bound. A missing block held at least one record of any kind. It therefore counts as one
under every figure that its record might have changed; so does a gap of unknown size. ``lost`` is 0 only if nothing is known to be missing.
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
    """Records missing in a window. ``rig``: by the source of loss that the rig reported."""

    commands: int
    rail_samples: int
    missing_blocks: int
    gaps_of_unknown_size: int
    rig: dict[str, int]


@dataclass(frozen=True)
class WindowLoss:
    """Losses of a window.

    commands, rail_samples: records known to be missing
    missing_blocks: blocks of unknown kind
    unknown_gaps: gaps of unknown size
    by_source: losses in the window that the rig itself reported
    hidden_commands, hidden_samples: blocks, gaps and sources that may hide commands or samples counted nowhere else
    """

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
        """Return the counts as the result shows them."""
        return {
            "commands": self.commands,
            "rail_samples": self.rail_samples,
            "missing_blocks": self.missing_blocks,
            "gaps_of_unknown_size": self.unknown_gaps,
            "rig": self.by_source,
        }


class LossBook:
    """Answers for any window which records are missing.

    first_tick, last_tick: of the whole recording. A window that reaches to either end takes the losses beyond that end too.
    reach: returns the ticks that the longest command of the capture took; called only if there are gaps

    A command belongs to the window in which it began, and is sent when it has ended. A gap up to ``reach`` behind a window may hide its
    commands.
    """

    def __init__(self, gaps: pl.DataFrame, events: pl.DataFrame, first_tick: int, last_tick: int, reach: Callable[[], int]) -> None:
        self._gaps = gaps
        self._events = events.filter(pl.col("type") == int(EventType.LOSS)).select("tick", "arg8", "arg32")
        self._first, self._last = first_tick, last_tick
        self._nothing = not len(self._gaps) and not len(self._events)
        self._reach = 0 if self._nothing else max(reach(), 0)

    def between(self, first_tick: int, last_tick: int) -> WindowLoss:
        """The loss of ``[first_tick, last_tick)``; a gap counts in every window it touches."""
        if self._nothing:
            return WindowLoss()
        low = -math.inf if first_tick <= self._first else first_tick
        high = math.inf if last_tick >= self._last else last_tick
        touching = self._gaps.filter((pl.col("first_tick") < high + self._reach) & (pl.col("last_tick") >= low))
        commands = samples = blocks = unknown = hidden_commands = hidden_samples = 0
        others: dict[str, int] = {}
        for kind, begin, records in touching.select("kind", "first_tick", "count").iter_rows():
            known = max(int(records), 0)
            if begin >= high:  # only commands that began in the window can be missing here
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
        for name, records in others.items():  # the rig reports the same loss in both ways, or in one
            by_source[name] = max(by_source.get(name, 0), records)
        return WindowLoss(commands, samples, blocks, unknown, by_source, hidden_commands, hidden_samples)
