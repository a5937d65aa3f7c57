"""Which admin command of a capture is a marker: a value that the host put into the stream of commands itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from wattbell_spec.nvme import admin, feature
from wattbell_spec.wire import CommandFlag, EventType, MarkerSource

KEY = "marker"
"""Key of ``conditions`` in meta.json; absent if markers are Get Features D0h."""


@dataclass(frozen=True)
class Marking:
    """``opcode`` of an admin command and bits 7:0 of its CDW10 (FID, CNS) that no other command of a run has; CDW11 is the value."""

    opcode: int
    selector: int

    @property
    def by_the_rig(self) -> bool:
        """Whether a rig makes a MARKER event of the command. The recorder does so for any other command."""
        return self == BY_FEATURE

    def to_json(self) -> dict[str, int]:
        """``conditions.marker``."""
        return asdict(self)

    def spans(self, commands: pa.Table) -> list[tuple[int, int, int]]:
        """(tick, tick of the CQE, value) of each in rows of ``commands.parquet``, in order. The first tick is where a rig would put it: the
        doorbell's, or the fetch's if that was not seen, or the CQE's."""
        data = pl.from_arrow(commands)
        assert isinstance(data, pl.DataFrame)
        mine = (pl.col("qid") == 0) & (pl.col("opcode") == self.opcode) & ((pl.col("slba") & 0xFF) == self.selector)
        known = (pl.col("flags") & int(CommandFlag.NO_SQE)) == 0
        tick = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
        found = data.filter(mine & known).select(tick.alias("tick"), "cqe_tick", "blocks").sort("tick")
        return [(int(t), int(end), int(value)) for t, end, value in found.iter_rows()]

    def found(self, commands: pa.Table) -> list[tuple[int, int]]:
        """(tick, value) of each: :meth:`spans`."""
        return [(tick, value) for tick, _, value in self.spans(commands)]

    def mask(self, qid: np.ndarray[Any, Any], opcode: np.ndarray[Any, Any], cdw10: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The same of columns: which of the commands are markers."""
        found: np.ndarray[Any, Any] = (qid == 0) & (opcode == self.opcode) & ((cdw10 & np.uint64(0xFF)) == self.selector)
        return found


BY_FEATURE = Marking(admin("get_features"), feature("marker"))


def marking_of(meta: Mapping[str, Any]) -> Marking:
    """Return the marking of a capture from its ``meta.json``."""
    told = (meta.get("conditions") or {}).get(KEY)
    return Marking(int(told["opcode"]), int(told["selector"])) if told else BY_FEATURE


START, END = 1, 2
"""Bits 7:0 of the value of a marker that bounds a phase; the bits above are the phase's number."""


class PhaseSpan(NamedTuple):
    """A phase by its markers; ``note``: fault of the markers, or empty."""

    number: int
    first_tick: int
    last_tick: int
    note: str


def phase_spans(markers: Iterable[tuple[int, int]], last_tick: int) -> list[PhaseSpan]:
    """The phases between in-band markers (tick, value) in order of time. A start without an end lasts until the next start or
    ``last_tick``; an end without a start is ignored. A number that comes again gives another phase of that number."""
    found: list[PhaseSpan] = []
    begun: tuple[int, int] | None = None
    for tick, value in markers:
        number, edge = value >> 8, value & 0xFF
        if edge == START:
            if begun is not None:
                found.append(PhaseSpan(*begun, tick, "no end marker: cut at the next start"))
            begun = (number, tick)
        elif edge == END and begun is not None and begun[0] == number:
            found.append(PhaseSpan(*begun, tick, ""))
            begun = None
    if begun is not None:
        found.append(PhaseSpan(*begun, max(last_tick, begun[1]), "no end marker: lasts to the end of the capture"))
    return found


def event_rows(markers: list[tuple[int, int]]) -> dict[str, list[Any]]:
    """Rows of ``events.parquet`` for markers."""
    count = len(markers)
    return {
        "tick": [tick for tick, _ in markers],
        "type": [int(EventType.MARKER)] * count,
        "name": [EventType.MARKER.name.lower()] * count,
        "arg8": [int(MarkerSource.IN_BAND)] * count,
        "arg16": [0] * count,
        "arg32": [value for _, value in markers],
    }


__all__ = ["BY_FEATURE", "END", "KEY", "START", "Marking", "PhaseSpan", "event_rows", "marking_of", "phase_spans"]
