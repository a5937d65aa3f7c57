"""Arrow schemas of the tables of a capture (docs/capture.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import pyarrow as pa
from wattbell_spec import columns
from wattbell_spec import wire as spec
from wattbell_spec.columns import StoredColumn

from ..origin import origin_of_capture

FORMAT_VERSION = 1


class SeenBy(IntEnum):
    """Source of a command's instants: ``source`` of ``commands.parquet``."""

    TAP = 0
    TRACEPOINT = 1
    BLKTRACE = 2
    FIO_LOG = 3


def _kind(bits: int, signed: bool = False) -> pa.DataType:
    return getattr(pa, f"{'' if signed else 'u'}int{bits}")()


def _stored(columns: Iterable[StoredColumn]) -> pa.Schema:
    return pa.schema([pa.field(column.name, _kind(column.bits, column.signed), nullable=column.nullable) for column in columns])


COMMANDS = _stored(columns.COMMANDS)
LATER_COLUMNS = {
    "commands": tuple(column.name for column in columns.COMMANDS if column.later),
    "status": ("hmb_read_bytes", "hmb_written_bytes", "hmb_reads", "hmb_writes", "unmatched_reads"),
}
"""Columns that older captures lack, by table: 0 there."""
RARELY_VARY = tuple(column.name for column in columns.COMMANDS if column.steady)
"""Columns of `commands` that mostly repeat the previous value."""
RAIL_BLOCKS = _stored(columns.RAIL_BLOCKS)

RAIL_RANGES = pa.schema([("tick", pa.int64()), ("range", pa.uint8()), ("settling_nj", pa.uint32())])

EVENTS = pa.schema(
    [
        ("tick", pa.int64()),
        ("type", pa.uint8()),
        ("name", pa.string()),
        ("arg8", pa.uint8()),
        ("arg16", pa.uint16()),
        ("arg32", pa.uint32()),
    ]
)

TLPS = pa.schema([("tick", pa.int64()), ("direction", pa.uint8()), ("flags", pa.uint8()), ("bytes", pa.binary())])

GAPS = pa.schema(
    [
        ("kind", pa.string()),
        ("first_tick", pa.int64()),
        ("last_tick", pa.int64()),
        ("count", pa.int64()),
        ("reason", pa.string()),
    ]
)

STATUS = pa.schema([("tick", pa.int64())] + [(f.name, _kind(f.bits)) for f in spec.STATUS])
LINK = pa.schema([("tick", pa.int64())] + [(f.name, _kind(f.bits)) for f in spec.LINK])

TABLES = {
    "commands": COMMANDS,
    "rail_blocks": RAIL_BLOCKS,
    "events": EVENTS,
    "tlps": TLPS,
    "gaps": GAPS,
    "status": STATUS,
    "link": LINK,
}
"""Schema of each table, by its name (``NAME.parquet``)."""

BESIDE = {"host_commands": COMMANDS, "rail_ranges": RAIL_RANGES}
"""Tables that a capture may have besides (docs/capture.md): commands in ticks of their own clock, ns of the host's; changes of a meter's
range."""

EVENT_NAMES = {int(event): event.name.lower() for event in spec.EventType}
LOSS_NAMES = {int(source): source.name.lower() for source in spec.LossSource}
ANY_KIND = "ANY"
"""`kind` of a gap in which blocks of unknown kind are missing. Other gaps carry the name of a wire Kind."""

_UNITS = {
    **{column.name: column.unit for column in (*columns.COMMANDS, *columns.RAIL_BLOCKS) if column.unit},
    "tick": "tick",
    "last_tick": "tick",
    "latency_ticks": "tick",
    "bytes": "byte",
}


def metadata(table: str, meta: Mapping[str, Any], names: Iterable[str] | None = None) -> dict[str, str]:
    """Return the key-value metadata of a table's Parquet file, which describes the file to a reader without the capture.

    meta: contents of ``meta.json``. A capture from before captures had an ``id`` gives an empty one.
    names: columns, if they differ from a capture's
    """
    units = {name: _UNITS[name] for name in names or (TABLES | BESIDE)[table].names if name in _UNITS}
    return {
        "wattbell.capture": str(meta.get("id") or ""),
        "wattbell.table": table,
        "wattbell.format": str(FORMAT_VERSION),
        "wattbell.tick_ps": str(meta["clock"]["tick_ps"]),
        "wattbell.units": json.dumps(units),
        "wattbell.origin": origin_of_capture(meta).value,
    }
