"""Classes of commands for energy: opcode and size, and sequential or random if both occur. Their queue depth is reported beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from wattbell.analysis.names import io_name, size_text
from wattbell.measure.depth import depth_of
from wattbell.measure.table import DEFAULT_LBA_SIZE, PIECE_ROWS, SIZED_OPCODES, Commands

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

MAX_CLASSES = 12
"""More are not kept apart: the smallest are taken together by opcode."""
_MOST_SIZES = 4
"""Sizes of an opcode that have classes of their own; where there are more, classes are powers of two."""
_STREAMS = 16
"""Commands back within which a sequential command has its predecessor: several jobs at once put commands between."""
_SMALLEST_SHARE = 0.02
"""Share of an opcode and size. A rarer pattern is the beginning of streams, or chance, and no class."""
_SIZE_BITS = 48


@dataclass(frozen=True)
class CommandClass:
    """``pattern``: ``sequential``, ``random``, or both as shares. ``depth``: commands in flight at the doorbell, 10th and 90th
    percentile."""

    name: str
    members: Bool
    count: int
    pattern: str
    depth: str


def is_sequential(commands: Commands, lba_bytes: int = DEFAULT_LBA_SIZE) -> Bool:
    """Commands that begin where one of the 16 before, of the same opcode, ended."""
    out = np.zeros(len(commands), np.bool_)
    for low in range(0, len(commands), PIECE_ROWS):
        first = max(0, low - _STREAMS)
        piece = commands.take(slice(first, low + PIECE_ROWS))
        blocks = (piece.nbytes // lba_bytes).astype(np.uint64)
        end = piece.slba + blocks
        found = np.zeros(len(piece), np.bool_)
        for back in range(1, min(_STREAMS, len(piece) - 1) + 1):
            found[back:] |= (piece.slba[back:] == end[:-back]) & (piece.opcode[back:] == piece.opcode[:-back])
        out[low : low + PIECE_ROWS] = (found & (blocks > 0))[low - first :]
    return out


def classify(commands: Commands, depth: npt.NDArray[np.int32] | None = None, lba_bytes: int = DEFAULT_LBA_SIZE) -> list[CommandClass]:
    """The classes of I/O commands sorted by start, largest first; every command is in one. ``depth``: ``at_start`` of
    :func:`~wattbell.measure.depth.depth_of` them, if it is known already."""
    size = np.minimum(commands.nbytes, (1 << _SIZE_BITS) - 1)
    coarse = np.zeros(len(commands), np.bool_)
    for opcode in np.flatnonzero(np.bincount(commands.opcode)).tolist():
        mine = commands.opcode == opcode
        if pl.Series(size[mine]).n_unique() > _MOST_SIZES:
            coarse |= mine
    if coarse.any():
        size = np.where(coarse & (size > 0), 1 << np.ceil(np.log2(np.maximum(size, 1))).astype(np.int64), size)
    keys = commands.opcode.astype(np.int64) << _SIZE_BITS | size
    sequential = is_sequential(commands, lba_bytes)
    if depth is None:
        depth = depth_of(commands).at_start
    counted = pl.Series("key", keys).value_counts(name="n").sort(("n", "key"), descending=(True, False))
    parts: list[tuple[str, Bool]] = []
    for key, n in counted.iter_rows():
        mine = keys == key
        opcode, nbytes = key >> _SIZE_BITS, key & ((1 << _SIZE_BITS) - 1)
        about = "up to " if nbytes and bool((coarse & mine).any()) else ""
        name = f"{io_name(opcode)} {about}{size_text(nbytes)}" if nbytes else io_name(opcode)
        share = float(sequential[mine].mean()) if opcode in SIZED_OPCODES else 0.0
        if _SMALLEST_SHARE < share < 1 - _SMALLEST_SHARE and n > 100:
            parts += [(f"{name}, random", mine & ~sequential), (f"{name}, sequential", mine & sequential)]
        else:
            parts.append((name, mine))
    kept, rest = parts[:MAX_CLASSES], parts[MAX_CLASSES:]
    if rest:
        others: dict[str, Bool] = {}
        for name, mine in rest:
            other = f"{name.split()[0]}, other sizes"
            others[other] = others.get(other, np.zeros(len(commands), np.bool_)) | mine
        kept += list(others.items())
    return [CommandClass(name, mine, int(np.count_nonzero(mine)), _pattern(sequential[mine]), _depth(depth[mine])) for name, mine in kept]


def _pattern(sequential: Bool) -> str:
    share = float(sequential.mean())
    if share <= _SMALLEST_SHARE:
        return "random"
    return "sequential" if share >= 1 - _SMALLEST_SHARE else f"{100 * share:.0f} % sequential"


def _depth(depth: npt.NDArray[np.int32]) -> str:
    low, high = (int(x) for x in np.percentile(depth, (10, 90), method="nearest"))
    return str(low) if low == high else f"{low} to {high}"
