"""What is missing in a window, from the gaps table and the LOSS events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from wattbell.wire.spec import EventType, LossSource

LOSS_TEXT = {
    "tlp_down": "TLPs from host to drive",
    "tlp_up": "TLPs from drive to host",
    "slots": "commands for which no slot was free",
    "queues": "queues beyond its table",
    "pages": "data pages evicted while in use",
    "records": "command records",
    "events": "events",
    "rail": "rail samples",
    "raw": "bytes of raw TLPs",
    "tags": "read requests or completions it could not match",
}
"""What the sources of LOSS events lost, in words."""


@dataclass(frozen=True)
class Loss:
    """``commands``: command records known to be missing; ``unknown_gaps``: gaps that may hide more, of any kind that
    carries commands; ``by_source``: what the rig itself said it lost in the window."""

    commands: int = 0
    rail_samples: int = 0
    unknown_gaps: int = 0
    by_source: dict[str, int] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        return bool(self.commands or self.rail_samples or self.unknown_gaps or self.by_source)

    def to_json(self) -> dict[str, Any]:
        return {
            "commands": self.commands,
            "rail_samples": self.rail_samples,
            "gaps_of_unknown_size": self.unknown_gaps,
            "rig": self.by_source,
        }


class LossBook:
    """Answers for any window what is missing in it."""

    def __init__(self, gaps: pl.DataFrame, events: pl.DataFrame) -> None:
        self._gaps = gaps
        self._events = events.filter(pl.col("type") == int(EventType.LOSS)).select("tick", "arg8", "arg32")

    def between(self, first_tick: int, last_tick: int) -> Loss:
        """The loss of ``[first_tick, last_tick)``; a gap counts in every window it touches."""
        touching = self._gaps.filter((pl.col("first_tick") < last_tick) & (pl.col("last_tick") >= first_tick))
        known = touching.filter(pl.col("count") > 0)
        commands = int(known.filter(pl.col("kind") == "COMMANDS")["count"].sum())
        rail = int(known.filter(pl.col("kind") == "RAIL")["count"].sum())
        unknown = touching.filter((pl.col("count") < 0) & ~pl.col("kind").is_in(["RAIL", "EVENTS", "TLP", "STATUS"]))
        by_source: dict[str, int] = {}
        inside = self._events.filter((pl.col("tick") >= first_tick) & (pl.col("tick") < last_tick))
        for source, count in inside.select("arg8", "arg32").iter_rows():
            name = LossSource(source).name.lower() if source in set(LossSource) else f"source_{source}"
            by_source[name] = by_source.get(name, 0) + int(count)
        commands += sum(n for name, n in by_source.items() if name == "slots")
        return Loss(commands, rail, len(unknown), by_source)
