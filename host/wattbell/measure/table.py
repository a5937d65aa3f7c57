"""The commands of a capture as arrays: one typed table that every figure is computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec import columns
from wattbell_spec.nvme import LBA_OPCODES, io
from wattbell_spec.wire import CommandFlag

from ..capture.marking import BY_FEATURE, Marking

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

NONE = np.iinfo(np.int64).min
"""A tick that was not observed."""
DEFAULT_LBA_SIZE = 512
PIECE_ROWS = 1 << 17
"""Commands in one piece of a table: its columns fit in the cache, and the next piece reuses the memory of derived arrays."""
SIZED_OPCODES = (*LBA_OPCODES, io("dsm"))
"""I/O opcodes with a number of logical blocks in their record."""

INSTANTS = tuple(instant.column for instant in columns.INSTANTS)
"""The seven instants of a command, in the order in which they happen."""
_LEFT_OUT = ("nsid", "blocks", "instant_u_ns", "length_checked")
"""Columns of the capture that no figure takes from the arrays."""
_AS_STORED = tuple(column for column in columns.COMMANDS if column.name not in (*INSTANTS, *_LEFT_OUT))
_COLUMNS = ("start_tick", *INSTANTS, "nbytes", *(column.name for column in _AS_STORED))


class Commands:
    """``n`` commands sorted by ``start_tick``; every attribute is an array of length n.

    Ticks are int64, ``NONE`` where not observed. ``start_tick`` is the doorbell, else the fetch, else the CQE. ``nbytes`` is blocks x LBA
    size for opcodes that have a block count, else 0. The others are columns of ``commands.parquet``. A subset reads a column from the
    whole only on demand: a figure needs three or four columns, and a capture may have 10^7 rows.
    """

    start_tick: Int64
    doorbell_tick: Int64
    fetch_tick: Int64
    first_data_tick: Int64
    last_data_tick: Int64
    cqe_tick: Int64
    msix_tick: Int64
    cq_head_tick: Int64
    nbytes: Int64
    slba: npt.NDArray[np.uint64]
    opcode: npt.NDArray[np.uint8]
    qid: npt.NDArray[np.uint8]
    cid: npt.NDArray[np.uint16]
    status: npt.NDArray[np.uint16]
    flags: npt.NDArray[np.uint8]
    saturated: npt.NDArray[np.uint8]
    source: npt.NDArray[np.uint8]

    def __init__(self, columns: Mapping[str, Any], parent: Commands | None = None, where: Int64 | slice | None = None) -> None:
        self._parent, self._where = parent, where
        for name, values in columns.items():
            setattr(self, name, values)

    def __getattr__(self, name: str) -> Any:
        if name not in _COLUMNS or self._parent is None:
            raise AttributeError(name)
        values = getattr(self._parent, name)[self._where]
        setattr(self, name, values)
        return values

    def __len__(self) -> int:
        if isinstance(self._where, np.ndarray):
            return len(self._where)
        return len(self.start_tick)

    def take(self, where: Bool | Int64 | slice) -> Commands:
        """The commands at ``where`` (mask, indices or slice)."""
        if isinstance(where, slice):
            return Commands({}, self, where)
        if where.dtype == np.bool_:
            if where.all():
                return self
            where = np.flatnonzero(where)
        return Commands({}, self, np.asarray(where, np.int64))

    def pieces(self) -> Iterator[Commands]:
        """The same in order, ``PIECE_ROWS`` at a time. A column that only pieces are asked for is never in memory as a whole."""
        for low in range(0, len(self), PIECE_ROWS):
            part = slice(low, low + PIECE_ROWS)
            if isinstance(self._where, np.ndarray):
                assert self._parent is not None
                known = {name: values[part] for name, values in vars(self).items() if name in _COLUMNS}
                yield Commands(known, self._parent, self._where[part])
            else:
                yield self.take(part)

    def between(self, first_tick: int, last_tick: int) -> Commands:
        """Return the commands that start in ``[first_tick, last_tick)``; a view, no copy."""
        low = int(np.searchsorted(self.start_tick, first_tick, side="left"))
        high = int(np.searchsorted(self.start_tick, last_tick, side="left"))
        return self.take(slice(low, high))

    def has(self, flag: CommandFlag) -> Bool:
        """Mask of the commands that carry ``flag``."""
        found: Bool = (self.flags & np.uint8(flag)) != 0
        return found


def is_one_of(opcode: npt.NDArray[np.uint8], wanted: Sequence[int]) -> Bool:
    """``np.isin`` for a few opcodes; ten times as fast."""
    found = np.zeros(len(opcode), np.bool_)
    for one in wanted:
        found |= opcode == one
    return found


def lba_sizes(meta: Mapping[str, Any]) -> tuple[dict[int, int], list[str]]:
    """Return the LBA size in bytes by namespace from ``meta["drive"]["namespaces"]``, and notes on assumptions.

    Accepts a list of ``{"nsid", "lba_size_bytes"}`` or a mapping of NSID to such. Namespace 0 in the answer is the default for namespaces
    that Identify never described.
    """
    namespaces = (meta.get("drive") or {}).get("namespaces") or []
    if isinstance(namespaces, Mapping):
        namespaces = [{"nsid": int(nsid), **dict(entry)} for nsid, entry in namespaces.items()]
    sizes = {int(entry.get("nsid", 1)): int(entry["lba_size_bytes"]) for entry in namespaces if entry.get("lba_size_bytes")}
    notes = []
    if not sizes:
        notes.append(f"no Identify Namespace was seen on the wire: bytes assume {DEFAULT_LBA_SIZE} bytes a logical block")
    distinct = set(sizes.values())
    default = distinct.pop() if len(distinct) == 1 else DEFAULT_LBA_SIZE
    return {0: default, **sizes}, notes


def _made_of(sizes: Mapping[int, int]) -> dict[str, pl.Expr]:
    """Return for each column of :class:`Commands` its expression in columns of ``commands.parquet`` (docs/capture.md)."""
    start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick").alias("start_tick")
    sized = pl.col("opcode").is_in(SIZED_OPCODES) & (pl.col("qid") > 0)
    not_known = (pl.col("flags") & int(CommandFlag.NO_SQE)) != 0
    lba = pl.lit(sizes[0], dtype=pl.Int64)
    for nsid, size in sizes.items():
        if nsid and size != sizes[0]:
            lba = pl.when(pl.col("nsid") == nsid).then(pl.lit(size, dtype=pl.Int64)).otherwise(lba)
    nbytes = pl.when(sized & ~not_known).then(pl.col("blocks").cast(pl.Int64) * lba).otherwise(0).alias("nbytes")
    return {
        "start_tick": start.cast(pl.Int64),
        **{name: pl.col(name).fill_null(NONE).cast(pl.Int64) for name in INSTANTS},
        "nbytes": nbytes,
        **{column.name: pl.col(column.name).fill_null(0).cast(getattr(pl, f"UInt{column.bits}")) for column in _AS_STORED},
    }


def load_commands(frame: pl.LazyFrame | pl.DataFrame, sizes: Mapping[int, int], columns: Sequence[str] = _COLUMNS) -> Commands:
    """Return the table from ``commands.parquet`` (columns as in docs/capture.md). Marker commands are included.

    columns: the needed columns of :class:`Commands` (``start_tick`` among them); a long capture has 10^8 rows
    """
    made = _made_of(sizes)
    data = frame.lazy().select(*(made[name] for name in columns)).collect()
    # Each column is released once it is in order: all columns twice would be the most memory that an analysis needs.
    order = np.argsort(data["start_tick"].to_numpy(), kind="stable")
    found: dict[str, Any] = {}
    for name in columns:
        found[name] = data.drop_in_place(name).to_numpy()[order]
    return Commands(found)


def load_apart(frame: pl.LazyFrame, sizes: Mapping[int, int], marking: Marking) -> tuple[Commands, Commands]:
    """(all but the in-band markers, the markers). Of a whole capture: each column is read by itself, so that nothing is in memory twice."""
    made = _made_of(sizes)

    def column(name: str) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = frame.select(made[name]).collect()[made[name].meta.output_name()].to_numpy()
        return values

    start = column("start_tick")
    order = np.argsort(start, kind="stable")
    mask = marking.mask(column("qid"), column("opcode"), column("slba")) & ((column("flags") & np.uint8(CommandFlag.NO_SQE)) == 0)
    inside = mask[order]
    orders = (order[~inside], order[inside]) if inside.any() else (order, order[:0])
    del order, mask, inside
    parts: tuple[dict[str, Any], ...] = tuple({"start_tick": start.take(where)} for where in orders)
    del start
    for name in _COLUMNS[1:]:
        values = column(name)
        for part, where in zip(parts, orders, strict=True):
            part[name] = values.take(where)
            if name in ("doorbell_tick", "fetch_tick") and np.array_equal(part[name], part["start_tick"]):
                part[name] = part["start_tick"]
    return Commands(parts[0]), Commands(parts[1])


def is_marker(commands: Commands, marking: Marking = BY_FEATURE) -> Bool:
    """Mask of the in-band markers. They belong to no figure."""
    mask: Bool = marking.mask(commands.qid, commands.opcode, commands.slba) & ~commands.has(CommandFlag.NO_SQE)
    return mask
