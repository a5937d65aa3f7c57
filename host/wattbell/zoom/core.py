"""The commands of a capture, reduced to the columns that every question about many commands needs."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from wattbell_spec.nvme import TRANSFER_OPCODES, admin
from wattbell_spec.wire import CommandFlag

from .. import door
from ..capture import Capture
from ..capture.reader import damaged
from ..measure.table import SIZED_OPCODES

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
AER = admin("async_event_request")
START = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
_TO_HOST = 2
"""Bits 1:0 of the opcode of a command with data from the drive to the host."""
PIECE_ROWS = 1 << 16
_KEPT_PIECES = 24


@dataclass(frozen=True)
class CoreRows:
    """Rows ``row`` .. of ``commands.parquet``; arrays of one length.

    ``start``: tick of the doorbell, else of the fetch, else of the CQE; ``cqe``. ``good``: without error, and not aborted; ``timed``: its
    doorbell or its fetch was seen; ``io``: of an I/O queue, its SQE is known. ``read``, ``write``: bytes that it moved, 0 with an error.
    """

    row: int
    start: Int64
    cqe: Int64
    opcode: npt.NDArray[np.uint8]
    qid: npt.NDArray[np.uint8]
    status: npt.NDArray[np.uint16]
    good: Bool
    timed: Bool
    io: Bool
    read: Int64
    write: Int64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def end(self) -> Int64:
        """The CQE, but never before the start."""
        return np.maximum(self.start, self.cqe)

    @property
    def latency(self) -> Int64:
        """Ticks from start to CQE, 0 or more; of use where ``timed``."""
        found: Int64 = np.maximum(self.cqe - self.start, 0)
        return found

    @property
    def class_key(self) -> npt.NDArray[np.int64]:
        """``opcode``, and 256 more for an admin command."""
        return self.opcode.astype(np.int64) + np.where(self.qid == 0, 256, 0)

    def take(self, where: Bool | slice) -> CoreRows:
        """Some of them; ``row`` then is of no use."""
        columns = ("start", "cqe", "opcode", "qid", "status", "good", "timed", "io", "read", "write")
        return CoreRows(self.row, *(getattr(self, name)[where] for name in columns))


def nbytes(sizes: dict[int, int]) -> pl.Expr:
    """Return the bytes of a command by its number of blocks, whether it succeeded or not."""
    lba = pl.lit(sizes[0], dtype=pl.Int64)
    for nsid, size in sizes.items():
        if nsid and size != sizes[0]:
            lba = pl.when(pl.col("nsid") == nsid).then(pl.lit(size, dtype=pl.Int64)).otherwise(lba)
    sized = pl.col("opcode").is_in(SIZED_OPCODES) & (pl.col("qid") > 0) & _known()
    return pl.when(sized).then(pl.col("blocks").cast(pl.Int64) * lba).otherwise(0)


def _known() -> pl.Expr:
    return (pl.col("flags") & int(CommandFlag.NO_SQE)) == 0


class CoreReader:
    """``commands.parquet`` in pieces of one row group; the last few stay in memory. Any thread may read."""

    def __init__(self, capture: Capture, sizes: dict[int, int]) -> None:
        self._frame = capture.commands  # reports a fault of the file
        path = capture.path / "commands.parquet"
        try:
            about = door.parquet_metadata(path)
        except (OSError, pa.ArrowException) as error:
            raise damaged(path, error) from None
        counts = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        self.starts = [0, *np.cumsum(counts).tolist()]
        """First row of each group, and the number of all rows."""
        self.pieces = [row for begin, end in zip(self.starts, self.starts[1:]) for row in range(begin, end, PIECE_ROWS)]
        """First row of each piece."""
        self._bytes = nbytes(sizes)
        self._kept: OrderedDict[int, CoreRows] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def rows(self) -> int:
        """Number of commands."""
        return int(self.starts[-1])

    def rows_of(self, first: int, last: int) -> CoreRows:
        """Rows ``first`` .. ``last - 1``, which lie in one piece."""
        number = bisect_right(self.pieces, first) - 1
        base = self.pieces[number]
        return replace(self._piece(number).take(slice(first - base, last - base)), row=first)

    def _piece(self, number: int) -> CoreRows:
        with self._lock:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        begin = self.pieces[number]
        made = self.read(begin, self.pieces[number + 1] if number + 1 < len(self.pieces) else self.rows)
        with self._lock:
            self._kept[number] = made
            while len(self._kept) > _KEPT_PIECES:
                self._kept.popitem(last=False)
        return made

    def read(self, first: int, last: int) -> CoreRows:
        """Rows ``first`` .. ``last - 1``, read anew and not kept. Raises CaptureError for a damaged file."""
        ended = ((pl.col("status") & 0x7FF) == 0) & ((pl.col("flags") & int(CommandFlag.ABORTED)) == 0)
        moved = pl.when(ended & pl.col("opcode").is_in(TRANSFER_OPCODES)).then(self._bytes).otherwise(0)
        to_host = (pl.col("opcode") & 3) == _TO_HOST
        frame = self._frame.slice(first, last - first).select(
            start=START,
            cqe=pl.col("cqe_tick"),
            opcode=pl.col("opcode"),
            qid=pl.col("qid"),
            status=pl.col("status"),
            good=ended,
            timed=pl.col("doorbell_tick").is_not_null() | pl.col("fetch_tick").is_not_null(),
            io=(pl.col("qid") > 0) & _known(),
            read=pl.when(to_host).then(moved).otherwise(0),
            write=pl.when(to_host).then(0).otherwise(moved),
        )
        data: pl.DataFrame = frame.collect()
        return CoreRows(first, *(data[name].to_numpy() for name in data.columns))
