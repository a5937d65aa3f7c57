"""Arrow schemas of the tables of a capture (docs/capture.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import pyarrow as pa
from wattbell_spec import wire as spec

from ..origin import origin_of_capture

FORMAT_VERSION = 1


class SeenBy(IntEnum):
    """Source of a command's instants: ``source`` of ``commands.parquet``."""

    TAP = 0
    TRACEPOINT = 1
    BLKTRACE = 2
    FIO_LOG = 3


COMMANDS = pa.schema(
    [
        pa.field("cqe_tick", pa.int64(), nullable=False),
        ("doorbell_tick", pa.int64()),
        ("fetch_tick", pa.int64()),
        ("first_data_tick", pa.int64()),
        ("last_data_tick", pa.int64()),
        ("msix_tick", pa.int64()),
        ("cq_head_tick", pa.int64()),
        pa.field("opcode", pa.uint8(), nullable=False),
        pa.field("qid", pa.uint8(), nullable=False),
        pa.field("cid", pa.uint16(), nullable=False),
        pa.field("status", pa.uint16(), nullable=False),
        ("nsid", pa.uint32()),
        pa.field("slba", pa.uint64(), nullable=False),
        pa.field("blocks", pa.uint32(), nullable=False),
        pa.field("flags", pa.uint8(), nullable=False),
        pa.field("saturated", pa.uint8(), nullable=False),
        pa.field("source", pa.uint8(), nullable=False),
        pa.field("instant_u_ns", pa.uint32(), nullable=False),
        pa.field("length_checked", pa.uint8(), nullable=False),
    ]
)
LATER_COLUMNS = {"commands": ("source", "instant_u_ns", "length_checked")}
"""Columns that older captures lack, by table: 0 there."""
RARELY_VARY = ("status", "nsid", "blocks", "flags", "saturated", "source", "instant_u_ns", "length_checked")
"""Columns of `commands` that mostly repeat the previous value."""
AGES_BEFORE = ("doorbell", "fetch", "first_data", "last_data")
"""Ages in wire order; bit i of `saturated` belongs to age i, these first, then AGES_AFTER."""
AGES_AFTER = ("msix", "cq_head")

RAIL_BLOCKS = pa.schema(
    [
        ("first_tick", pa.int64()),
        ("interval_ticks", pa.uint32()),
        ("count", pa.uint16()),
        ("flags", pa.uint16()),
        ("adc_index", pa.uint64()),
        ("energy_raw", pa.int64()),
        ("energy_high", pa.int32()),
        ("sample_id", pa.int64()),
        ("dropped", pa.uint32()),
        ("epoch", pa.uint32()),
    ]
)

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

_UNSIGNED = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
STATUS = pa.schema([("tick", pa.int64())] + [(f.name, _UNSIGNED[f.bits]) for f in spec.STATUS])
LINK = pa.schema([("tick", pa.int64())] + [(f.name, _UNSIGNED[f.bits]) for f in spec.LINK])

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
    "interval_ticks": "tick",
    "latency_ticks": "tick",
    "slba": "logical block",
    "blocks": "logical block",
    "bytes": "byte",
    "instant_u_ns": "ns",
    "energy_raw": "1e-11 W x ADC conversion period",
    "energy_high": "2^64 of energy_raw",
}


def metadata(table: str, meta: Mapping[str, Any], columns: Iterable[str] | None = None) -> dict[str, str]:
    """Return the key-value metadata of a table's Parquet file, which describes the file to a reader without the capture.

    meta: contents of ``meta.json``. A capture from before captures had an ``id`` gives an empty one.
    columns: names, if they differ from a capture's
    """
    names = list(columns or (TABLES | BESIDE)[table].names)
    units = {name: "tick" for name in names if name == "tick" or name.endswith("_tick")}
    units |= {name: unit for name, unit in _UNITS.items() if name in names}
    return {
        "wattbell.capture": str(meta.get("id") or ""),
        "wattbell.table": table,
        "wattbell.format": str(FORMAT_VERSION),
        "wattbell.tick_ps": str(meta["clock"]["tick_ps"]),
        "wattbell.units": json.dumps(units),
        "wattbell.origin": origin_of_capture(meta).value,
    }
