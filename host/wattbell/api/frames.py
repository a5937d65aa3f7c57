"""The contents of a capture as Polars frames, in seconds from its begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from wattbell_spec.wire import CommandFlag

from ..analysis.names import admin_name, io_name, status_name
from ..capture import Capture
from ..capture.marking import marking_of
from ..capture.rail import SIGNALS, RailReader
from ..measure.phases import Phase
from ..measure.table import SIZED_OPCODES, lba_sizes
from ..present.capture.series import rail_statistics
from .span import Bounds

START = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
_SUFFIX = {"voltage": "v", "current": "a", "power": "w"}
_STATUSES = 1 << 11


def rail_samples(reader: RailReader, bounds: Bounds, first_tick: int, last_tick: int) -> pl.DataFrame:
    """Every sample in ``[first_tick, last_tick)``; null where none was received."""
    begin, end = reader.sample_at(first_tick), reader.sample_at(last_tick)
    part = reader.read(begin, end)
    ticks = reader.first_tick - bounds.first_tick + np.arange(begin, end, dtype=np.int64) * reader.interval_ticks
    columns = {f"{name}_{_SUFFIX[name]}": getattr(part, name) for _, name, _ in SIGNALS}
    return pl.DataFrame({"t_s": ticks * bounds.tick_s, **columns}, nan_to_null=True)


def rail_points(reader: RailReader, bounds: Bounds, first_tick: int, last_tick: int, points: int) -> pl.DataFrame:
    """Mean, least and greatest in at most ``points`` intervals of ``[first_tick, last_tick)``. ``t_s``: the middle of each; null where all
    of an interval is missing."""
    found = rail_statistics(reader, reader.sample_at(first_tick), reader.sample_at(last_tick), points)
    middle = reader.first_tick - bounds.first_tick + (found.edges[:-1] + found.edges[1:] - 1) / 2 * reader.interval_ticks
    columns: dict[str, Any] = {"t_s": middle * bounds.tick_s}
    for name, unit in _SUFFIX.items():
        table = found.rows[name]
        columns |= {f"{name}_{unit}": table[:, 0], f"{name}_min_{unit}": table[:, 2], f"{name}_max_{unit}": table[:, 3]}
    return pl.DataFrame(columns, nan_to_null=True)


def commands(capture: Capture, bounds: Bounds) -> pl.LazyFrame:
    """All commands but the in-band markers, with ``t_s``, ``latency_s``, names and ``bytes`` before the stored columns."""
    marking = marking_of(capture.meta)
    flags, qid = pl.col("flags"), pl.col("qid")
    known = (flags & int(CommandFlag.NO_SQE)) == 0
    marker = (qid == 0) & (pl.col("opcode") == marking.opcode) & ((pl.col("slba") & 0xFF) == marking.selector) & known
    timed = known & ((flags & int(CommandFlag.ABORTED)) == 0) & (pl.col("doorbell_tick").is_not_null() | pl.col("fetch_tick").is_not_null())
    names = {code: io_name(code) for code in range(256)} | {256 + code: admin_name(code) for code in range(256)}
    opcode = pl.col("opcode").cast(pl.UInt16) + pl.when(qid == 0).then(pl.lit(256, pl.UInt16)).otherwise(pl.lit(0, pl.UInt16))
    sizes, _ = lba_sizes(capture.meta)
    lba = pl.col("nsid").replace_strict({n: s for n, s in sizes.items() if n}, default=sizes[0], return_dtype=pl.Int64)
    sized = known & (qid > 0) & pl.col("opcode").is_in(SIZED_OPCODES)
    return (
        capture.commands.filter(~marker)
        .with_columns(
            t_s=(START - bounds.first_tick).cast(pl.Float64) * bounds.tick_s,
            latency_s=pl.when(timed).then((pl.col("cqe_tick") - START).cast(pl.Float64) * bounds.tick_s),
            opcode_name=pl.when(known).then(opcode.replace_strict(names, return_dtype=pl.String)).otherwise(pl.lit("unknown")),
            is_admin=qid == 0,
            status_name=(pl.col("status") % _STATUSES).replace_strict(
                {code: status_name(code) for code in range(_STATUSES)}, return_dtype=pl.String
            ),
            bytes=pl.when(sized).then(pl.col("blocks").cast(pl.Int64) * lba).otherwise(0),
        )
        .select("t_s", "latency_s", "opcode_name", "is_admin", "status_name", "bytes", pl.exclude(_FIRST))
    )


_FIRST = ("t_s", "latency_s", "opcode_name", "is_admin", "status_name", "bytes")


def events(capture: Capture, bounds: Bounds) -> pl.DataFrame:
    """All events, in order of time."""
    frame: pl.DataFrame = capture.events.sort("tick", maintain_order=True).collect()
    return frame.select(((pl.col("tick") - bounds.first_tick) * bounds.tick_s).alias("t_s"), "name", pl.exclude("name"))


def gaps(capture: Capture, bounds: Bounds) -> pl.DataFrame:
    """Return the gaps in order of time."""
    frame: pl.DataFrame = capture.gaps.sort("first_tick", maintain_order=True).collect()
    times = [((pl.col(c) - bounds.first_tick) * bounds.tick_s).alias(a) for c, a in (("first_tick", "t0_s"), ("last_tick", "t1_s"))]
    return frame.select(*times, "kind", "count", "reason", "first_tick", "last_tick")


def phases(found: Sequence[Phase], bounds: Bounds) -> pl.DataFrame:
    """The phases, in order of time."""
    schema = {
        "number": pl.Int64,
        "name": pl.String,
        "kind": pl.String,
        "t0_s": pl.Float64,
        "t1_s": pl.Float64,
        "duration_s": pl.Float64,
        "first_tick": pl.Int64,
        "last_tick": pl.Int64,
        "notes": pl.String,
    }
    rows = []
    for p in found:
        t0_s, t1_s = bounds.seconds(p.first_tick), bounds.seconds(p.last_tick)
        rows.append((p.number, p.name, p.kind, t0_s, t1_s, t1_s - t0_s, p.first_tick, p.last_tick, "; ".join(p.notes)))
    return pl.DataFrame(rows, schema=schema, orient="row")
