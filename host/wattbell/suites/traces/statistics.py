"""Statistics of a trace in the terms in which the ATSB traces are published."""

from __future__ import annotations

from typing import TypedDict

import polars as pl


class TraceStatistics(TypedDict, total=False):
    """Statistics of a trace; without reads and writes only the first six. ``sizes``, ``depth``: share of the I/Os by bytes and by depth."""

    ios: int
    duration_s: float
    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    sizes: dict[int, float]
    sequential: float
    depth: dict[int, float]
    mean_depth: float


def statistics(entries: pl.DataFrame) -> TraceStatistics:
    """Return counts, bytes, size mix, sequential share and depth of the entries of a trace (columns of ``iolog.SCHEMA``).

    sequential: share of reads and writes that begin where the previous one of their direction ended
    depth: share of I/Os by their place among those with the same time stamp. This is the depth at issue on a drive that is done before the
        next stamp.
    """
    io = entries.filter(pl.col("action").is_in(["read", "write"]))
    n = len(io)
    lengths = [io.filter(pl.col("action") == action)["length"].cast(pl.Int128) for action in ("read", "write")]
    out: TraceStatistics = {
        "ios": n,
        "duration_s": (int(entries["t_us"].max() or 0)) * 1e-6,  # type: ignore[arg-type]
        "reads": len(lengths[0]),
        "read_bytes": int(lengths[0].sum()),
        "writes": len(lengths[1]),
        "write_bytes": int(lengths[1].sum()),
    }
    if not n:
        return out
    sizes = io.group_by("length").len().sort("length")
    out["sizes"] = {int(size): count / n for size, count in sizes.iter_rows()}
    follows = (pl.col("offset") == (pl.col("offset") + pl.col("length")).shift(1).over("action")).sum()
    out["sequential"] = int(io.select(follows).item()) / n
    place = io.with_columns(pl.int_range(1, pl.len() + 1).over(pl.col("t_us").rle_id()).alias("depth"))
    depths = place.group_by("depth").len().sort("depth")
    out["depth"] = {int(depth): count / n for depth, count in depths.iter_rows()}
    out["mean_depth"] = sum(d * share for d, share in out["depth"].items())
    return out
