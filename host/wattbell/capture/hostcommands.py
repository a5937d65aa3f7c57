"""The commands of a host log, on the host's clock or on a capture's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from wattbell_spec.nvme import admin, feature
from wattbell_spec.wire import EventType, MarkerSource

from ..clocks.map import ClockMap
from ..wire.decode import Gap
from .schema import COMMANDS, SeenBy
from .writer import CaptureWriter

Int64 = npt.NDArray[np.int64]
_TICKS = tuple(name for name in COMMANDS.names if name.endswith("_tick"))


@dataclass(frozen=True)
class PlacedCommands:
    """Commands and markers on the clock of a capture; a :class:`~wattbell.capture.CommandSource`."""

    commands: pa.Table
    """Rows of ``commands.parquet`` in order of their completion, in ticks of the capture."""
    markers: list[tuple[int, int]]
    """(tick, value)."""
    gaps: list[Gap]

    def table(self) -> pa.Table:
        """The commands, as a CommandSource provides them."""
        return self.commands

    def event_rows(self) -> dict[str, list[Any]]:
        """Return rows of ``events.parquet`` in order of time, as our rig makes them of the same commands.

        A MARKER is at the start of Get Features, a POWER_STATE at the completion of Set Features.
        """
        rows = [(tick, EventType.MARKER, int(MarkerSource.IN_BAND), value) for tick, value in self.markers]
        columns = {name: self.commands[name].to_numpy() for name in ("qid", "opcode", "slba", "status", "blocks", "cqe_tick", "source")}
        # a log of the block layer has no Set Features
        setting = (columns["qid"] == 0) & (columns["opcode"] == admin("set_features")) & (columns["source"] == SeenBy.TRACEPOINT)
        setting &= ((columns["slba"] & np.uint64(0xFF)) == feature("power_management")) & (columns["status"] == 0)
        for at in np.flatnonzero(setting).tolist():
            rows.append((int(columns["cqe_tick"][at]), EventType.POWER_STATE, int(columns["blocks"][at]) & 0xFF, 0))
        rows.sort(key=lambda row: row[0])
        return {
            "tick": [row[0] for row in rows],
            "type": [int(row[1]) for row in rows],
            "name": [row[1].name.lower() for row in rows],
            "arg8": [row[2] for row in rows],
            "arg16": [0] * len(rows),
            "arg32": [row[3] for row in rows],
        }

    def put(self, writer: CaptureWriter) -> None:
        """Append commands and events to a capture that has no tap."""
        writer.add_command_source(self)
        events = self.event_rows()
        if events["tick"]:
            writer.add_rows("events", events)
            writer.markers += self.markers
        for gap in self.gaps:
            writer.add_gap(gap)


@dataclass(frozen=True)
class HostCommands:
    """Commands as the host saw them.

    table: rows of ``commands.parquet`` in order of their completion, but with ticks in host ns. ``doorbell_tick`` is the start as the
        driver (or fio) saw it, ``cqe_tick`` the completion. Columns that only a tap knows are null.
    markers: (ns, value) of every in-band marker in the log, at its start
    lost: holes of the log, with ticks as in ``table``
    source: recorder of the commands
    notes: sentences that a reader must know
    clock: clock of the ns: ``mono_raw`` (CLOCK_MONOTONIC_RAW of this host) if they can be compared with anything else
    until_ns: for a part, the instant up to which this and earlier parts are complete; None if nobody knows
    """

    table: pa.Table
    markers: list[tuple[int, int]] = field(default_factory=list)
    lost: list[Gap] = field(default_factory=list)
    source: SeenBy = SeenBy.TRACEPOINT
    notes: list[str] = field(default_factory=list)
    clock: str = "mono_raw"
    until_ns: int | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def onto(self, clock: ClockMap, tick_ps: int) -> PlacedCommands:
        """The same on the clock that ``clock`` maps host ns onto, in ticks of ``tick_ps``: the tick in which each instant lies."""

        def tick(ns: npt.ArrayLike) -> Int64:
            return ticks_of(clock.to_reference(ns), tick_ps)

        table = self.table
        for name in _TICKS:
            column = table[name].combine_chunks()
            if column.null_count == len(column):
                continue
            missing = column.is_null().to_numpy(zero_copy_only=False)
            values = tick(column.fill_null(0).to_numpy(zero_copy_only=False))
            made = pa.array(values, pa.int64(), mask=missing if missing.any() else None)
            table = table.set_column(table.schema.get_field_index(name), COMMANDS.field(name), made)
        markers = [(int(tick(ns)), value) for ns, value in self.markers]
        gaps = [Gap(gap.kind, int(tick(gap.first_tick)), int(tick(gap.last_tick)), gap.count, gap.reason) for gap in self.lost]
        return PlacedCommands(table, markers, gaps)


def ticks_of(ns: Int64, tick_ps: int) -> Int64:
    """The ticks in which instants in ns lie; exact where ns x 1000 would not fit 64 bits."""
    whole, rest = np.divmod(ns, np.int64(tick_ps))
    return np.asarray(whole * 1000 + rest * 1000 // tick_ps, np.int64)


def command_table(columns: Mapping[str, Any], source: SeenBy, instant_u_ns: int) -> pa.Table:
    """Return rows of ``commands.parquet`` from numpy columns, in order of completion.

    Columns not given are null if nullable, else 0. Masked values of a column are null.
    """
    count = len(columns["cqe_tick"])
    order = np.argsort(columns["cqe_tick"], kind="stable")
    given = {"source": np.full(count, source, np.uint8), "instant_u_ns": np.full(count, instant_u_ns, np.uint32), **columns}
    arrays = []
    for column in COMMANDS:
        values = given.get(column.name)
        if values is None:
            arrays.append(pa.nulls(count, column.type) if column.nullable else pa.array(np.zeros(count, np.int64)).cast(column.type))
        else:
            arrays.append(pa.array(np.ma.asanyarray(values)[order]).cast(column.type))
    return pa.table(arrays, schema=COMMANDS)


def joined(parts: Sequence[HostCommands]) -> HostCommands:
    """Several logs of one clock and source as one. Raises ValueError for none."""
    if not parts:
        raise ValueError("no host log to join")
    table = pa.concat_tables([part.table for part in parts]).sort_by("cqe_tick")
    notes = list(dict.fromkeys(note for part in parts for note in part.notes))
    return HostCommands(
        table,
        sorted(marker for part in parts for marker in part.markers),
        [gap for part in parts for gap in part.lost],
        parts[0].source,
        notes,
        parts[0].clock,
    )
