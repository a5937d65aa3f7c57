"""Builds the pyramid of a capture's commands, row group by row group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .bins import CommandBins, merged, of_events, with_first_of_tiles
from .core import AER, CoreReader, CoreRows
from .latencies import BUCKETS, CELLS, COARSE, FINE, bucket, group

Int64 = npt.NDArray[np.int64]
FACTOR = 4
"""A bin of a level has as many of the level below."""
LOAD_TILE, DENSITY_TILE = 1024, 64
"""Bins that a level has or lacks together."""
LEAST_LOAD, LEAST_DENSITY = 96, 512
"""Commands a bin, as a mean over a tile, for which a level has the tile. Where it lacks one, its commands are few enough to be read."""
MOST_BINS = 1_000_000
"""About as many bins a level at most: captures with more than 10^8 commands have wider ones."""
ZONE = 8192
"""Rows in each stretch with bounds in the pyramid."""
SEGMENT_ROWS = 16 * ZONE
"""Rows (of one row group) with latencies by class in the pyramid."""
FINEST_S = 4e-6
DENSITY_LEVEL = 3
"""The lowest level that has latencies."""
_WIDEST = 1 << 58
"""Ticks; no tile is much wider, however far apart the ticks of a capture are."""
LONG_S = 1.0
"""Commands in flight for longer than this are listed one by one: each would lie over many zones."""


@dataclass
class Zones:
    """Bounds of each stretch of rows, by array.

    start_min, start_max: without the long commands
    latency_max: of commands with a captured start
    idle_max: the longest time without a command in flight behind one of the rows (:func:`idle_behind`)
    classes: bit i for the i-th class (63 for all from the 63rd on)
    failed: any status but success
    """

    row: Int64
    rows: Int64
    start_min: Int64
    start_max: Int64
    cqe_min: Int64
    cqe_max: Int64
    latency_max: Int64
    idle_max: Int64
    classes: npt.NDArray[np.uint64]
    failed: npt.NDArray[np.bool_]


@dataclass
class Made:
    """A pyramid in memory, by arrays (see :mod:`.pyramid`)."""

    finest_width: int
    load: list[tuple[int, CommandBins]]
    """(level, its bins), a level may come several times, in order of time."""
    density: list[tuple[int, Int64, npt.NDArray[np.uint32]]]
    """(level, keys ``bin * CELLS + group * BUCKETS + bucket`` in order, counts)."""
    zones: Zones
    classes: list[tuple[int, int]]
    """(``class_key``, commands) in order of appearance."""
    long: Int64
    """(n, 7): row, start, CQE, of an I/O queue, without error, bytes read, bytes written."""
    segments: Int64
    """(n, 8): segment, class, commands, those without error, bytes, timed ones of these, shortest and longest latency in ticks."""
    latencies: Int64
    """(n, 4): segment, class, bucket of :data:`FINE`, commands."""
    bounds: tuple[int, int] | None


def finest_width(tick_s: float) -> int:
    """Ticks of a bin of level 0: a power of ``FACTOR``."""
    width = 1
    while width * tick_s < FINEST_S:
        width *= FACTOR
    return width


class _Load:
    """A level of bins and those above it."""

    def __init__(self, level: int, width: int, least: int, out: list[tuple[int, CommandBins]]) -> None:
        self._level, self._width, self._least, self._out = level, width, least * LOAD_TILE, out
        self._pending: list[CommandBins] = []
        self._before = 0
        self._above: _Load | None = None

    def push(self, bins: CommandBins, until: int | None) -> None:
        """Bins in order, behind those pushed before. None will come below tick ``until``; None: this was the last."""
        self._pending.append(bins)
        everything = CommandBins.joined(self._pending)
        edge = None if until is None else until // (self._width * LOAD_TILE) * LOAD_TILE
        cut = len(everything) if edge is None else int(np.searchsorted(everything.bin, edge))
        done, rest = everything.take(slice(0, cut)), everything.take(slice(cut, None))
        self._pending = [rest] if len(rest) else []
        if not len(done) and until is not None:
            return
        tile = done.bin // LOAD_TILE
        first = np.flatnonzero(np.concatenate(([True], tile[1:] != tile[:-1]))) if len(done) else np.empty(0, np.int64)
        if len(done):
            enough = np.add.reduceat(done.count, first) >= self._least
            kept = np.repeat(enough, np.diff(np.concatenate((first, [len(done)]))))
            if kept.any():
                filled = with_first_of_tiles(done, self._width, LOAD_TILE, self._before)
                wanted = np.isin(filled.bin // LOAD_TILE, tile[first][enough])
                self._out.append((self._level, filled.take(wanted)))
        upward = merged(done, self._width, FACTOR, self._before)
        if len(done):
            self._before = int(done.depth_end[-1])
        more = len(first) > 1 or bool(self._pending) or until is not None
        if self._above is None and more and self._width * LOAD_TILE < _WIDEST:
            self._above = _Load(self._level + 1, self._width * FACTOR, self._least // LOAD_TILE, self._out)
        if self._above is not None:
            self._above.push(upward, None if edge is None else edge * self._width)


class _Density:
    """The same of counts by bin, group and bucket, as sorted keys."""

    def __init__(self, level: int, width: int, least: int, out: list[tuple[int, Int64, npt.NDArray[np.uint32]]]) -> None:
        self._level, self._width, self._least, self._out = level, width, least * DENSITY_TILE, out
        self._keys, self._counts = np.empty(0, np.int64), np.empty(0, np.int64)
        self._above: _Density | None = None

    def push(self, keys: Int64, counts: Int64, until: int | None) -> None:
        """Keys in any order; several may be the same. None will come of a bin below tick ``until``; None: these were the last."""
        keys, counts = _summed(np.concatenate((self._keys, keys)), np.concatenate((self._counts, counts)))
        edge = None if until is None else until // (self._width * DENSITY_TILE) * DENSITY_TILE
        cut = len(keys) if edge is None else int(np.searchsorted(keys, edge * CELLS))
        self._keys, self._counts = keys[cut:], counts[cut:]
        keys, counts = keys[:cut], counts[:cut]
        if not len(keys) and until is not None:
            return
        tiles = 0
        if len(keys):
            tile = keys // (CELLS * DENSITY_TILE)
            first = np.flatnonzero(np.concatenate(([True], tile[1:] != tile[:-1])))
            tiles = len(first)
            enough = np.add.reduceat(counts, first) >= self._least
            kept = np.repeat(enough, np.diff(np.concatenate((first, [len(keys)]))))
            if kept.any():
                self._out.append((self._level, keys[kept], counts[kept].astype(np.uint32)))  # there are many
        more = tiles > 1 or len(self._keys) > 0 or until is not None
        if self._above is None and more and self._width * DENSITY_TILE < _WIDEST:
            self._above = _Density(self._level + 1, self._width * FACTOR, self._least // DENSITY_TILE, self._out)
        if self._above is not None:
            wider = keys // CELLS // FACTOR * CELLS + keys % CELLS
            self._above.push(wider, counts, None if edge is None else edge * self._width)


def _summed(keys: Int64, counts: Int64) -> tuple[Int64, Int64]:
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[first], np.add.reduceat(counts, first)


@dataclass
class _Sweep:
    """Commands in flight, from intervals that come nearly in the order of their ends."""

    width: int
    ticks: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    delta: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    sums: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((3, 0), np.int64))
    depth: int = 0

    def add(self, start: Int64, end: Int64, count: Int64, read: Int64, write: Int64) -> None:
        """Add intervals, and the sums that count at their ends."""
        nothing = np.zeros((3, len(start)), np.int64)
        self.ticks = np.concatenate((self.ticks, start, end))
        self.delta = np.concatenate((self.delta, np.ones(len(start), np.int64), np.full(len(end), -1)))
        self.sums = np.concatenate((self.sums, nothing, np.stack((count, read, write))), axis=1)

    def done(self, until: int | None) -> CommandBins:
        """Return the final bins below tick ``until`` (an edge of bins), to which nothing more will be added; all
        remaining bins for None.
        """
        now = np.full(len(self.ticks), True) if until is None else self.ticks < until
        ticks, delta, sums = self.ticks[now], self.delta[now], self.sums[:, now]
        self.ticks, self.delta, self.sums = self.ticks[~now], self.delta[~now], self.sums[:, ~now]
        # At a tick ends before starts: a command that follows another is not in flight with it.
        order = np.argsort(ticks * 2 + (delta > 0), kind="stable")
        delta = delta[order]
        count, read, write = sums[:, order]
        bins = of_events(ticks[order], delta, count, read, write, self.width, self.depth)
        self.depth += int(delta.sum())
        return bins


def build(reader: CoreReader, tick_s: float, progress: Callable[[int, int], None] | None = None) -> Made:
    """Build the pyramid in two passes. Memory: a few row groups, and the result. ``progress``: rows done, rows in all."""
    width = finest_width(tick_s)
    long_ticks = round(LONG_S / tick_s)
    load: list[tuple[int, CommandBins]] = []
    density: list[tuple[int, Int64, npt.NDArray[np.uint32]]] = []
    base = _Load(0, width, max(LEAST_LOAD, reader.rows // MOST_BINS), load)
    cells = _Density(DENSITY_LEVEL, width * FACTOR**DENSITY_LEVEL, max(LEAST_DENSITY, reader.rows // MOST_BINS * 4), density)
    sweep = _Sweep(width)
    later, long = _first_pass(reader, long_ticks, progress)
    rows = _Rows(tick_s, long_ticks)
    in_flight = long[long[:, 3] > 0]  # all at once: they are not many
    sweep.add(in_flight[:, 1], in_flight[:, 2], *in_flight[:, 4:7].T)
    piece = 0
    for number in range(len(reader.starts) - 1):
        for core in _pieces(reader, number):
            piece += 1
            rows.add(core, int(later[piece]) if piece < len(later) else None)
            io = core.take(core.io & (core.end - core.start <= long_ticks))
            sweep.add(io.start, io.end, io.good.astype(np.int64), io.read, io.write)
            until = int(later[piece]) // (width * LOAD_TILE) * width * LOAD_TILE if piece < len(later) else None
            base.push(sweep.done(until), until)
            shown = core.timed & ~((core.qid == 0) & (core.opcode == AER))
            cell = group(core.opcode[shown], core.qid[shown]) * BUCKETS + bucket(core.latency[shown], tick_s, COARSE)
            place = core.cqe[shown] // (width * FACTOR**DENSITY_LEVEL) * CELLS + cell
            cells.push(place, np.ones(len(place), np.int64), until)
            if progress:
                progress(reader.rows + core.row + len(core), 2 * reader.rows)
    if not reader.starts[1:]:
        base.push(CommandBins.none(), None)
    return rows.made(width, load, density, long)


def _first_pass(reader: CoreReader, long_ticks: int, progress: Callable[[int, int], None] | None) -> tuple[Int64, Int64]:
    """Return the lowest ticks of the pieces, and the long commands.

    The i-th tick is the lowest of any command of piece i and later pieces, without long commands. The long commands have row, start, end,
    whether of an I/O queue, whether without error, bytes read, bytes written.
    """
    lowest: list[int] = []
    found = [np.empty((0, 7), np.int64)]
    for number in range(len(reader.starts) - 1):
        for core in _pieces(reader, number):
            is_long = core.end - core.start > long_ticks
            lowest.append(min(int(core.cqe.min()), int(np.where(is_long, core.cqe, core.start).min())))
            if is_long.any():
                row = core.row + np.flatnonzero(is_long)
                some = core.take(is_long)
                found.append(np.stack((row, some.start, some.end, some.io, some.good, some.read, some.write), axis=1).astype(np.int64))
        if progress:
            progress(reader.starts[number + 1], 2 * reader.rows)
    return np.minimum.accumulate(np.array(lowest[::-1], np.int64))[::-1], np.concatenate(found)


def _pieces(reader: CoreReader, number: int) -> Iterator[CoreRows]:
    """Yield a row group in parts of a segment each, so that derived arrays stay small."""
    end = reader.starts[number + 1]
    for begin in range(reader.starts[number], end, SEGMENT_ROWS):
        yield reader.read(begin, min(begin + SEGMENT_ROWS, end))


def idle_behind(core: CoreRows, later: int | None, long_ticks: int) -> Int64:
    """Return ticks from each command's end to the next start of any, if all before had ended by then, else 0 or less.

    Commands in flight for more than ``long_ticks`` are ignored. ``later``: the lowest tick of later commands, None if there are none.
    """
    start = np.where(core.latency > long_ticks, core.cqe, core.start)
    ended = np.maximum.accumulate(np.maximum(core.cqe, start))
    following = np.minimum.accumulate(np.append(start[1:], np.iinfo(np.int64).max if later is None else later)[::-1])[::-1]
    found: Int64 = np.where(following == np.iinfo(np.int64).max, 0, following - np.where(following > ended, ended, following))
    return found


class _Rows:
    """Zones, segments and classes, as groups come by."""

    def __init__(self, tick_s: float, long_ticks: int) -> None:
        self._tick_s, self._long_ticks = tick_s, long_ticks
        self._classes: dict[int, int] = {}
        self._zones: list[tuple[int, ...]] = []
        self._segments: list[tuple[int, ...]] = []
        self._latencies: list[Int64] = []
        self._segment = 0
        self._bounds: tuple[int, int] | None = None

    def add(self, core: CoreRows, later: int | None) -> None:
        """The rows of a segment; ``later``: the lowest tick of those behind it."""
        if not len(core):
            return
        low, high = int(core.start.min()), int(core.end.max())
        self._bounds = (min(low, self._bounds[0]), max(high, self._bounds[1])) if self._bounds else (low, high)
        keys = core.class_key
        counts = np.bincount(keys, minlength=512)
        for key in np.flatnonzero(counts).tolist():
            self._classes[key] = self._classes.get(key, 0) + int(counts[key])
        number = np.zeros(512, np.int64)
        number[list(self._classes)] = np.arange(len(self._classes))
        which = number[keys]
        idle = idle_behind(core, later, self._long_ticks)
        for begin in range(0, len(core), ZONE):
            self._zone(core, which, idle, slice(begin, min(begin + ZONE, len(core))))
        self._one_segment(core, which)

    def _zone(self, core: CoreRows, which: Int64, idle: Int64, part: slice) -> None:
        start, cqe, latency = core.start[part], core.cqe[part], core.latency[part]
        short = latency <= self._long_ticks
        lowest = int(start[short].min()) if short.any() else int(cqe.min())
        timed = core.timed[part]
        mask = int(np.bitwise_or.reduce(np.uint64(1) << np.minimum(which[part], 63).astype(np.uint64)))
        longest = int(latency[timed].max()) if timed.any() else 0
        failed = bool((core.status[part] & 0x7FF).any())
        bounds = (lowest, int(start.max()), int(cqe.min()), int(cqe.max()))
        self._zones.append((core.row + part.start, len(start), *bounds, longest, int(idle[part].max()), mask, failed))

    def _one_segment(self, core: CoreRows, which: Int64) -> None:
        for number in np.flatnonzero(np.bincount(which)).tolist():
            mine = core.take(which == number)
            usable = mine.good & mine.timed
            ticks = mine.latency[usable]
            limits = (int(ticks.min()), int(ticks.max())) if len(ticks) else (0, 0)
            moved = int(mine.read.sum() + mine.write.sum())
            self._segments.append((self._segment, number, len(mine), int(mine.good.sum()), moved, len(ticks), *limits))
            if len(ticks):
                counts = np.bincount(bucket(ticks, self._tick_s, FINE))
                places = np.flatnonzero(counts)
                same = np.ones(len(places), np.int64)
                self._latencies.append(np.stack((same * self._segment, same * number, places, counts[places]), axis=1))
        self._segment += 1

    def made(
        self, width: int, load: list[tuple[int, CommandBins]], density: list[tuple[int, Int64, npt.NDArray[np.uint32]]], long: Int64
    ) -> Made:
        """Return the result of the sweep."""
        columns = list(zip(*self._zones, strict=True)) if self._zones else [()] * 10
        kinds = [np.int64] * 8 + [np.uint64, np.bool_]
        zones = Zones(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))
        segments = np.array(self._segments, np.int64).reshape(-1, 8)
        latencies = np.concatenate([np.empty((0, 4), np.int64), *self._latencies])
        return Made(width, load, density, zones, list(self._classes.items()), long, segments, latencies, self._bounds)
