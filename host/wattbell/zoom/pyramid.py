"""The pyramid of a capture's commands, in ``commands.pyramid`` beside ``commands.parquet``: the data for a picture of very many commands.

An Arrow file of one row, a list a column, mapped into memory. It belongs to no capture's hashes. It is made of ``commands.parquet`` at the
first look, and made anew when it does not fit. If it cannot be written, it is held in memory.

Load and latencies are kept in levels of bins, each four times as wide as the level below, and by tiles of bins. A level has a tile only for
many commands. Without a tile, the rows are few and are read.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import door, durable, permissions
from ..capture import Capture
from . import build as builder
from .bins import CommandBins
from .build import DENSITY_LEVEL, DENSITY_TILE, FACTOR, LOAD_TILE, Zones
from .core import CoreReader
from .latencies import CELLS

Int64 = npt.NDArray[np.int64]
NAME = "commands.pyramid"
COMMANDS = "commands.parquet"
"""Source of the pyramid; the pyramid gets its readers."""
VERSION = 2
SMALL = 200_000
"""Captures with fewer commands have no file: theirs is made in less than half a second."""
_LOAD = {"bin": "i8", "count": "u4", "read": "i8", "write": "i8", "depth_ticks": "i8", "depth_max": "u4", "depth_end": "u4"}
_ZONES = {
    "row": "i8",
    "rows": "i8",
    "start_min": "i8",
    "start_max": "i8",
    "cqe_min": "i8",
    "cqe_max": "i8",
    "latency_max": "i8",
    "idle_max": "i8",
    "classes": "u8",
    "failed": "u1",
}
_SEGMENTS = ("segment", "class", "count", "good", "bytes", "timed", "latency_min", "latency_max")
_LATENCIES = {"segment": "u4", "class": "u2", "bucket": "u2", "count": "u4"}
_LONG = ("row", "start", "cqe", "io", "good", "read", "write")
_DTYPES = {
    **{f"load_{name}": kind for name, kind in _LOAD.items()},
    "density_key": "i8",
    "density_count": "u4",
    **{f"zone_{name}": kind for name, kind in _ZONES.items()},
    **{f"segment_{name}": "i8" for name in _SEGMENTS},
    **{f"latency_{name}": kind for name, kind in _LATENCIES.items()},
    **{f"long_{name}": "i8" for name in _LONG},
}


@dataclass(frozen=True)
class PyramidLevels:
    """Place of each level in the arrays: ``begins[k]`` its first, ``ends[k]`` behind its last."""

    begins: dict[int, int]
    ends: dict[int, int]


class Pyramid:
    """The content of the file, or of a file that could not be written. Ticks are int64."""

    def __init__(self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        self._arrays = arrays
        self.finest_width = int(header["finest_width"])
        self.rows = int(header["rows"])
        self.classes: list[tuple[int, int]] = [(int(key), int(count)) for key, count in header["classes"]]
        """(``class_key``, number of commands) by class number."""
        self.bounds: tuple[int, int] | None = tuple(header["bounds"]) if header["bounds"] else None
        """First start and last end of any command."""
        self.load_levels = _levels(header["load_levels"])
        self.density_levels = _levels(header["density_levels"])
        columns = {name: arrays[f"zone_{name}"] for name in _ZONES}
        self.zones = Zones(**{**columns, "failed": columns["failed"].view(np.bool_)})
        self.long = np.stack([arrays[f"long_{name}"] for name in _LONG], axis=1)
        """(n, 7): row, start, CQE, of an I/O queue, without error, bytes read and written, of those in flight for more than a second."""

    def width(self, level: int) -> int:
        """Ticks of a bin of a level."""
        return int(self.finest_width * FACTOR**level)

    # -- load ------------------------------------------------------------------------------------------------------

    def load_level(self, width: int) -> int | None:
        """Return the coarsest level with bins no wider than that; None below the finest."""
        return _coarsest(self.load_levels, self.finest_width, width, 0)

    def load_parts(self, level: int, low: int, high: int) -> Iterator[tuple[int, int, CommandBins | None]]:
        """Yield ticks ``[low, high)`` as consecutive parts (first, last, bins): tiles that the level has, and None if rows must be read.

        Bins belong to the part's tiles, from the tile's first on.
        """
        tile = self.width(level) * LOAD_TILE
        begin, end = self.load_levels.begins.get(level, 0), self.load_levels.ends.get(level, 0)
        numbers = self._arrays["load_bin"][begin:end]
        for first, last, kept in _runs(numbers, LOAD_TILE, low // tile, -(-high // tile)):
            ticks = max(first * tile, low), min(last * tile, high)
            if not kept:
                yield *ticks, None
                continue
            a, b = np.searchsorted(numbers, [first * LOAD_TILE, last * LOAD_TILE]) + begin
            yield *ticks, CommandBins(*(self._arrays[f"load_{field.name}"][a:b].astype(np.int64) for field in fields(CommandBins)))

    # -- latencies -------------------------------------------------------------------------------------------------

    def density_level(self, width: int) -> int | None:
        """Return the level for latencies, as :meth:`load_level`."""
        return _coarsest(self.density_levels, self.finest_width, width, DENSITY_LEVEL)

    def density_parts(self, level: int, low: int, high: int) -> Iterator[tuple[int, int, tuple[Int64, Int64] | None]]:
        """Yield parts as :meth:`load_parts`, with (keys, counts); a key is ``bin * CELLS + group * BUCKETS + bucket``."""
        tile = self.width(level) * DENSITY_TILE
        begin, end = self.density_levels.begins.get(level, 0), self.density_levels.ends.get(level, 0)
        keys = self._arrays["density_key"][begin:end]
        for first, last, kept in _runs(keys, DENSITY_TILE * CELLS, low // tile, -(-high // tile)):
            ticks = max(first * tile, low), min(last * tile, high)
            if not kept:
                yield *ticks, None
                continue
            a, b = np.searchsorted(keys, [first * DENSITY_TILE * CELLS, last * DENSITY_TILE * CELLS])
            yield *ticks, (keys[a:b], self._arrays["density_count"][begin + a : begin + b].astype(np.int64))

    # -- by class --------------------------------------------------------------------------------------------------

    def segments(self) -> dict[str, Int64]:
        """``segment``, ``class``, ``count``, ``good``, ``bytes``, ``timed``, ``latency_min``, ``latency_max``: a row for each class
        of each segment."""
        return {name: self._arrays[f"segment_{name}"] for name in _SEGMENTS}

    def segment_rows(self, numbers: Int64) -> int:
        """Commands of some segments."""
        return int(self._arrays["segment_count"][np.isin(self._arrays["segment_segment"], numbers)].sum())

    def latencies(self, first: int, last: int) -> dict[str, Int64]:
        """``class``, ``bucket``, ``count`` of segments ``first`` .. ``last - 1``."""
        low, high = np.searchsorted(self._arrays["latency_segment"], [first, last])
        return {name: self._arrays[f"latency_{name}"][low:high].astype(np.int64) for name in ("class", "bucket", "count")}


def _levels(found: list[list[int]]) -> PyramidLevels:
    return PyramidLevels({int(k): int(a) for k, a, _ in found}, {int(k): int(b) for k, _, b in found})


def _coarsest(levels: PyramidLevels, finest: int, width: int, lowest: int) -> int | None:
    level = lowest
    if width < finest * FACTOR**level:
        return None
    highest = max(levels.begins, default=lowest)
    while level < highest and finest * FACTOR ** (level + 1) <= width:
        level += 1
    return level


def _runs(numbers: Int64, a_tile: int, first: int, last: int) -> Iterator[tuple[int, int, bool]]:
    """Tiles ``first`` .. ``last - 1`` as runs (first, last, whether ``numbers`` has them)."""
    at = first
    while at < last:
        place = int(np.searchsorted(numbers, at * a_tile))
        if place == len(numbers):
            yield at, last, False
            return
        found = int(numbers[place]) // a_tile
        if found > at:
            yield at, min(found, last), False
            at = found
            continue
        end = at + 1
        while end < last:
            place = int(np.searchsorted(numbers, end * a_tile))
            if place == len(numbers) or int(numbers[place]) // a_tile > end:
                break
            end += 1
        yield at, end, True
        at = end


def open_pyramid(capture: Capture, reader: CoreReader, tick_s: float, progress: Callable[[int, int], None] | None = None) -> Pyramid:
    """The pyramid of a capture: its file's, or made now and written there if it is worth that. ``progress``: done, in all, while made."""
    path = capture.path / NAME
    key = _key(capture, reader)
    if reader.rows >= SMALL:
        with suppress(OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            return _read(path, key)
    made = builder.build(reader, tick_s, progress)
    header, arrays = _laid_out(made, key)
    del made
    if reader.rows < SMALL:
        return Pyramid(header, arrays)
    try:
        _write(path, header, arrays)
    except OSError:  # a capture that may only be read, or a full disk
        return Pyramid(header, arrays)
    arrays.clear()
    return _read(path, key)


def _key(capture: Capture, reader: CoreReader) -> dict[str, Any]:
    """Return the properties of the source that a pyramid must match."""
    path = capture.path / COMMANDS
    stated = (capture.meta.get("files") or {}).get(path.name)
    about = path.stat()
    made_of = stated["sha256"] if stated else f"{about.st_mtime_ns}"
    return {"version": VERSION, "commands": made_of, "bytes": about.st_size, "rows": reader.rows}


def _laid_out(made: builder.Made, key: dict[str, Any]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    load = sorted(made.load, key=lambda part: part[0])  # stable: a level's parts stay in order of time
    density = sorted(made.density, key=lambda part: part[0])

    def joined(parts: Iterable[npt.NDArray[Any]], kind: str) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, kind), *(part.astype(kind) for part in parts)])

    arrays = {f"load_{name}": joined((getattr(part, name) for _, part in load), kind) for name, kind in _LOAD.items()}
    arrays["density_key"] = joined((keys for _, keys, _ in density), _DTYPES["density_key"])
    arrays["density_count"] = joined((counts for _, _, counts in density), _DTYPES["density_count"])
    arrays |= {f"zone_{name}": getattr(made.zones, name) for name in _ZONES}
    arrays |= {f"segment_{name}": made.segments[:, i] for i, name in enumerate(_SEGMENTS)}
    arrays |= {f"latency_{name}": made.latencies[:, i] for i, name in enumerate(_LATENCIES)}
    arrays |= {f"long_{name}": made.long[:, i] for i, name in enumerate(_LONG)}
    header = {
        **key,
        "finest_width": made.finest_width,
        "classes": made.classes,
        "bounds": made.bounds,
        "load_levels": _extents([(level, len(part)) for level, part in load]),
        "density_levels": _extents([(level, len(keys)) for level, keys, _ in density]),
    }
    return header, {name: np.ascontiguousarray(arrays[name]).astype(kind, copy=False) for name, kind in _DTYPES.items()}


def _extents(parts: list[tuple[int, int]]) -> list[list[int]]:
    """[level, first, behind the last] of each level, from the lengths of its consecutive parts."""
    found: dict[int, list[int]] = {}
    at = 0
    for level, length in parts:
        found.setdefault(level, [level, at, at])[2] = at + length
        at += length
    return list(found.values())


def _write(path: Path, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
    """All or nothing, and never through a link that a stranger's capture may have in its place."""
    columns = [pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), pa.array(array)) for array in arrays.values()]
    schema = pa.schema(
        [pa.field(name, column.type) for name, column in zip(arrays, columns, strict=True)], {"wattbell": json.dumps(header)}
    )
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{NAME}.", delete=False) as out:
        try:
            with pa.ipc.new_file(out, schema) as writer:
                writer.write_batch(pa.record_batch(columns, schema=schema))
            out.close()
            permissions.inherit(Path(out.name), path.with_name(COMMANDS))
            durable.replace(Path(out.name), path)
        except BaseException:
            os.unlink(out.name)
            raise


def _read(path: Path, key: dict[str, Any]) -> Pyramid:
    """Raises ValueError, KeyError, OSError or ArrowException for a file that does not fit or is damaged."""
    file = pa.ipc.open_file(pa.memory_map(str(door.check(path, door.RECORDING))))
    header = json.loads(file.schema.metadata[b"wattbell"])
    if any(header[name] != value for name, value in key.items()):
        raise ValueError("made of another commands.parquet, or by another version")
    batch = file.get_batch(0)
    arrays = {name: batch.column(name).values.to_numpy(zero_copy_only=True) for name in _DTYPES}
    if any(arrays[name].dtype != np.dtype(kind) for name, kind in _DTYPES.items()) or int(arrays["zone_rows"].sum()) != key["rows"]:
        raise ValueError("not as it is written")
    return Pyramid(header, arrays)
