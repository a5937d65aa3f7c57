"""From wire columns to the tables of a capture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from wattbell_spec import units
from wattbell_spec import wire as spec
from wattbell_spec.columns import AGES, FACTS

from ..wire.decode import Batch, Gap
from ..wire.records import CommandRecords, EventRecords, RailRecords, Statuses, Tlps
from . import schema
from .rail import F32
from .source import Accumulator, RailSource

_VOLT = np.float32(units.VOLTAGE_LSB_V)
_AMPERE = np.float32(units.CURRENT_LSB_A)


def nullable(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None) -> pa.Array:
    """An Arrow array over `values` without a copy; `valid` None when there are no nulls."""
    kind = pa.from_numpy_dtype(values.dtype)
    data = pa.py_buffer(np.ascontiguousarray(values))
    if valid is None or valid.all():
        return pa.Array.from_buffers(kind, len(values), [None, data], 0)
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bitmap, data])


@dataclass(frozen=True)
class StreamCommands:
    """Command records of the rig's stream, as a :class:`~.source.CommandSource`. ``tick_offset``: from its ticks to the capture's."""

    commands: CommandRecords
    tick_offset: int = 0

    def table(self) -> pa.Table:
        """Ages become ticks; an unknown age is null, a saturated one sets its bit."""
        cqe = self.commands.cqe_tick + self.tick_offset if self.tick_offset else self.commands.cqe_tick
        columns = self.commands.columns
        made = {column.name: nullable(columns[column.field], None) for column in FACTS if column.name != "nsid"}
        saturated = np.zeros(len(cqe), np.uint8)
        for bit, instant in enumerate(AGES):
            age = columns[instant.age]
            unknown = spec.UNKNOWN32 if instant.sign < 0 else spec.UNKNOWN24
            tick = np.subtract(cqe, age, dtype=np.int64) if instant.sign < 0 else np.add(cqe, age, dtype=np.int64)
            valid = None
            if age.max() >= unknown - 1:  # the value below `unknown` means saturated
                valid = age != unknown
                saturated |= (age == unknown - 1).astype(np.uint8) << np.uint8(bit)
            made[instant.column] = nullable(tick, valid)
        nsid = columns["nsid"].astype(np.uint32)
        nsid_valid = None
        if nsid.max() >= spec.NSID_LARGE:
            nsid_valid = nsid != spec.NSID_LARGE
            nsid[nsid == spec.NSID_BROADCAST] = 0xFFFFFFFF
        made |= {
            "cqe_tick": nullable(cqe, None),
            "nsid": nullable(nsid, nsid_valid),
            "saturated": nullable(saturated, None),
            "source": nullable(np.full(len(cqe), schema.SeenBy.TAP, np.uint8), None),
            "instant_u_ns": nullable(np.zeros(len(cqe), np.uint32), None),
        }
        return pa.Table.from_arrays([made[name] for name in schema.COMMANDS.names], schema=schema.COMMANDS)


@dataclass(frozen=True)
class StreamRail:
    """Rail blocks of the rig's stream, as a :class:`~.source.RailSource`. ``tick_offset``: from its ticks to the capture's."""

    rail: RailRecords
    tick_offset: int = 0

    @property
    def first_tick(self) -> npt.NDArray[np.int64]:
        return self.rail.first_tick + self.tick_offset

    @property
    def interval_ticks(self) -> npt.NDArray[np.uint32]:
        return self.rail.columns["interval_ticks"]

    @property
    def count(self) -> npt.NDArray[np.uint16]:
        return self.rail.columns["count"]

    @property
    def flags(self) -> npt.NDArray[np.uint16]:
        return self.rail.columns["flags"]

    @property
    def dropped(self) -> npt.NDArray[np.uint32]:
        return self.rail.dropped

    @property
    def voltage_v(self) -> F32:
        return self.rail.voltage.astype(np.float32) * _VOLT

    @property
    def current_a(self) -> F32:
        return self.rail.current.astype(np.float32) * _AMPERE

    @property
    def ranges(self) -> None:
        """None: the error model covers all ranges of the rig."""

    @property
    def accumulator(self) -> Accumulator:
        columns = self.rail.columns
        return Accumulator(columns["adc_index"], columns["energy"], columns["energy_high"])


def rail_blocks_table(source: RailSource, sample_ids: npt.NDArray[np.int64], epoch: int = 0) -> pa.Table:
    """``rail_blocks.parquet`` rows. `epoch` is the number of restarts of the source before them: accumulators of two do not compare."""
    first_tick, sums = source.first_tick, source.accumulator
    if sums is None:
        n = len(first_tick)
        sums = Accumulator(np.zeros(n, np.uint64), np.zeros(n, np.int64), np.zeros(n, np.int32))
    return pa.table(
        [
            nullable(first_tick, None),
            nullable(source.interval_ticks, None),
            nullable(source.count, None),
            nullable(source.flags, None),
            nullable(sums.conversions, None),
            nullable(sums.energy_low, None),
            nullable(sums.energy_high, None),
            nullable(sample_ids, None),
            nullable(source.dropped, None),
            nullable(np.full(len(first_tick), epoch, np.uint32), None),
        ],
        schema=schema.RAIL_BLOCKS,
    )


_OF_THE_TAP = (spec.EventType.QUEUE_CREATED, spec.EventType.QUEUE_DELETED, spec.EventType.BAR0, spec.EventType.POWER_STATE)


def without_tap(batch: Batch) -> Batch:
    """Return the batch without the records of a bus tap: commands, TLPs, in-band markers, queues, power states, and their losses."""
    events = batch.events
    if events is not None:
        kind, source = events.columns["type"], events.columns["arg8"]
        seen = np.isin(kind, _OF_THE_TAP) | ((kind == spec.EventType.MARKER) & (source != spec.MarkerSource.CONTROL))
        if seen.any():
            events = EventRecords(events.tick[~seen], {name: column[~seen] for name, column in events.columns.items()})
    gaps = [gap for gap in batch.gaps if gap.kind not in (spec.BlockContent.COMMANDS, spec.BlockContent.TLP)]
    return replace(batch, commands=None, tlps=None, events=events if events is not None and len(events.tick) else None, gaps=gaps)


def events_table(events: EventRecords, tick_offset: int = 0) -> pa.Table:
    """``events.parquet`` rows; a type unknown to this version is named ``type_N``."""
    types = events.columns["type"]
    names = [schema.EVENT_NAMES.get(t, f"type_{t}") for t in types.tolist()]
    return pa.table(
        [
            nullable(events.tick + tick_offset, None),
            nullable(types, None),
            pa.array(names, pa.string()),
            nullable(events.columns["arg8"], None),
            nullable(events.columns["arg16"], None),
            nullable(events.columns["arg32"], None),
        ],
        schema=schema.EVENTS,
    )


def tlps_table(tlps: Tlps, tick_offset: int = 0) -> pa.Table:
    """``tlps.parquet`` rows."""
    return pa.table(
        [
            pa.array([tick + tick_offset for tick in tlps.tick], pa.int64()),
            pa.array(tlps.direction, pa.uint8()),
            pa.array(tlps.flags, pa.uint8()),
            pa.array(tlps.data, pa.binary()),
        ],
        schema=schema.TLPS,
    )


def gaps_table(gaps: list[Gap], tick_offset: int = 0) -> pa.Table:
    """``gaps.parquet`` rows."""
    return pa.table(
        {
            "kind": [gap.kind.name if gap.kind else schema.ANY_KIND for gap in gaps],
            "first_tick": [gap.first_tick + tick_offset for gap in gaps],
            "last_tick": [gap.last_tick + tick_offset for gap in gaps],
            "count": [gap.count for gap in gaps],
            "reason": [gap.reason for gap in gaps],
        },
        schema=schema.GAPS,
    )


def status_table(status: Statuses, tick_offset: int = 0) -> pa.Table:
    """``status.parquet`` rows."""
    arrays = [nullable(status.tick + tick_offset, None)]
    arrays += [nullable(status.columns[f.name], None) for f in spec.STATUS]
    return pa.table(arrays, schema=schema.STATUS)


def link_table(links: Statuses, tick_offset: int = 0) -> pa.Table:
    """``link.parquet`` rows."""
    arrays = [nullable(links.tick + tick_offset, None)]
    arrays += [nullable(links.columns[f.name], None) for f in spec.LINK]
    return pa.table(arrays, schema=schema.LINK)


def tables(batch: Batch, tick_offset: int = 0) -> dict[str, pa.Table]:
    """Return the rows of a batch for each table that it has rows for, but those of the rail and of gaps."""
    found: dict[str, pa.Table] = {}
    if batch.commands:
        found["commands"] = StreamCommands(batch.commands, tick_offset).table()
    if batch.events:
        found["events"] = events_table(batch.events, tick_offset)
    if batch.tlps:
        found["tlps"] = tlps_table(batch.tlps, tick_offset)
    if batch.status:
        found["status"] = status_table(batch.status, tick_offset)
    if batch.links:
        found["link"] = link_table(batch.links, tick_offset)
    return found
