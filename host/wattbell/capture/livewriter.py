"""Keeps the live summary (:mod:`.live`) of a capture during recording.

Input is collected, and added to the bins ten times a second. The cost, a share of a core, thus depends little on the size of the pieces. A
disk that refuses the summary ends the summary, never the recording.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from wattbell_spec import nvme
from wattbell_spec import wire as spec

from . import live
from .live import FACTOR, I64, LATENCY_BINS, LATENCY_LEVELS, LATENCY_SLOTS, LEVELS, SIGNALS, SLOTS, Latest, Records
from .rail import F32

PERIOD_NS = 100_000_000
_MOST_SAMPLES, _MOST_COMMANDS = 1 << 20, 1 << 18
"""Most rail samples and commands collected before they are added to the bins."""
_ROOM = 64
"""Factor of the summary's size that must be free on the disk, else no summary is kept."""
_OLD_BINS = 1000
"""Bins before the first record: a later record may be about an earlier time."""
_READ, _WRITE = nvme.io("read"), nvme.io("write")
_COLUMNS = ("cqe_tick", "doorbell_tick", "opcode", "qid", "blocks", "flags")
_DENSE = 1 << 16
_SETTLED_TICKS = 2 * spec.FLUSH_TICKS
_NOTES = 5


class BinRing:
    """The last bins of one width, in a ring."""

    def __init__(self, kind: np.dtype[Any], slots: int, offset: int | None = None) -> None:
        """`offset`: of the level in the file; None: only in memory."""
        self.records = np.zeros(slots, kind)
        self.slots, self.offset = slots, offset
        self.newest = -1
        self._blank = live.blank(1)[0] if kind is live.RECORD else np.zeros((), kind)
        self._dirty: list[I64] = []

    def take(self, bins: I64) -> tuple[I64, slice]:
        """Return slots for bins in ascending order, and the slice of the bins that have slots.

        A slot that held another bin is made blank. The bins outside the slice are older than all kept bins.
        """
        self.newest = max(self.newest, int(bins[-1]))
        kept = slice(int(np.searchsorted(bins, self.newest - self.slots + 1)), None)
        bins = bins[kept]
        slots: I64 = bins % self.slots
        stale = self.records["bin"][slots] != bins + 1
        if stale.any():
            self.records[slots[stale]] = self._blank
            self.records["bin"][slots[stale]] = bins[stale] + 1
        if self.offset is not None and len(slots):
            self._dirty.append(slots)
        return slots, kept

    def write(self, fd: int) -> None:
        """Write the changed slots to the file. Raises OSError."""
        if not self._dirty or self.offset is None:
            return
        slots = np.unique(np.concatenate(self._dirty))
        self._dirty.clear()
        size = self.records.itemsize
        for part in np.split(slots, np.flatnonzero(np.diff(slots) != 1) + 1):
            first, stop = int(part[0]), int(part[-1]) + 1
            os.pwrite(fd, self.records[first:stop].tobytes(), self.offset + first * size)

    def window(self, first: int, stop: int) -> Records:
        """Bins ``first`` .. ``stop - 1``, blank where nothing is known."""
        wanted = np.arange(first, stop)
        found = self.records[wanted % self.slots]
        found[found["bin"] != wanted + 1] = self._blank
        return found


class LiveBins:
    """Levels of bins of the rail, the load, and latencies, all fed alike.

    widths: of a bin, in finest bins
    latencies: of a bin in finest bins of latencies, each of :data:`~.live.LATENCY_BINS`
    """

    def __init__(self, widths: Sequence[int], latencies: Sequence[int], levels: list[BinRing], latency_levels: list[BinRing]) -> None:
        self.widths, self.latency_widths = tuple(widths), tuple(latencies)
        self.levels, self.latency_levels = levels, latency_levels

    def add_rail(self, bins: I64, samples: I64, sums: Sequence[npt.NDArray[Any]], lows: Sequence[F32], highs: Sequence[F32]) -> None:
        """Statistics of finest bins in ascending order: voltage, current, power."""
        for width, level in zip(self.widths, self.levels, strict=True):
            wide = bins // width
            starts = _starts(wide)
            slots, kept = level.take(wide[starts])
            if not len(slots):
                continue
            records = level.records
            records["samples"][slots] += np.add.reduceat(samples, starts)[kept]
            for name, total, low, high in zip(SIGNALS, sums, lows, highs, strict=True):
                records[f"{name}_sum"][slots] += np.add.reduceat(total, starts)[kept]
                records[f"{name}_min"][slots] = np.minimum(records[f"{name}_min"][slots], np.minimum.reduceat(low, starts)[kept])
                records[f"{name}_max"][slots] = np.maximum(records[f"{name}_max"][slots], np.maximum.reduceat(high, starts)[kept])

    def add_load(self, bins: I64, columns: dict[str, npt.NDArray[Any]], width_ticks: int) -> None:
        """Load of finest bins in ascending order."""
        for width, level in zip(self.widths, self.levels, strict=True):
            wide = bins // width
            starts = _starts(wide)
            slots, kept = level.take(wide[starts])
            if not len(slots):
                continue
            # commands in flight at the end of a bin stay so to the end of the wider bin
            rest = ((wide + 1) * width - (bins + 1)) * float(width_ticks)
            found = {**columns, "busy": columns["busy"] + columns["begun"] * rest}
            for name, values in found.items():
                level.records[name][slots] += np.add.reduceat(values, starts)[kept]

    def add_latencies(self, bins: I64, counts: npt.NDArray[Any]) -> None:
        """Counts (bins, BUCKETS) of the finest bins of latencies, in ascending order."""
        for width, level in zip(self.latency_widths, self.latency_levels, strict=True):
            wide = bins // width
            starts = _starts(wide)
            slots, kept = level.take(wide[starts])
            if len(slots):
                level.records["counts"][slots] += np.add.reduceat(counts, starts, axis=0)[kept].astype(np.uint32)

    def add_lost(self, first: int, last: int) -> None:
        """A gap of the commands over finest bins."""
        for width, level in zip(self.widths, self.levels, strict=True):
            low, high = first // width, last // width
            slots, _ = level.take(np.arange(max(low, high - level.slots + 1), high + 1))
            level.records["lost"][slots] += 1


def _starts(values: I64) -> I64:
    """Return the begins of runs of equal values; `values` in ascending order."""
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(np.diff(values)) + 1))


def _indexed(values: I64) -> tuple[I64, I64]:
    """Return the same as ``np.unique`` with the inverse, faster for values that lie close together."""
    low, high = int(values.min()), int(values.max())
    if high - low >= _DENSE:
        unique, inverse = np.unique(values, return_inverse=True)
        return unique, inverse
    shifted = values - low
    there = np.bincount(shifted) > 0
    return low + np.flatnonzero(there), (np.cumsum(there) - 1)[shifted]


class LiveSummary:
    """Takes the records of a recording and keeps figures, in the capture's folder and for the recorder itself."""

    def __init__(self, directory: Path, tick_ps: int, lba_size_bytes: int | None) -> None:
        self.path = directory / live.NAME
        self.tick_ps = tick_ps
        self.lba_size_bytes = lba_size_bytes
        self.left_s: float | None = None
        """To be set: the time until the recording ends by itself."""
        self.waiting = False
        """To be set: the line to the instrument is cut."""
        self.lost: Callable[[], Sequence[str]] = tuple
        """Returns the losses so far, in words."""
        self.namespace: Callable[[dict[str, int | None]], int | None] = lambda _row: None
        """Asked for the size of a logical block, with the row of an Identify Namespace."""
        self.on_flush: list[Callable[[bool], None]] = []
        """Called whenever the bins are up to date; with True once they are for the last time."""
        self.origin: int | None = None
        self.width = max(1, round(live.WIDTH_S * 1e12 / tick_ps))
        self.latest: Latest | None = None
        self.last_tick = 0
        self.interval_ticks = 0
        """Ticks between samples of the rail; 0 before the first sample."""
        self._first_tick: int | None = None
        self._sums = {"energy": 0.0, "charge": 0.0, "read": 0.0, "written": 0.0}
        self._commands = self._samples = self._missing_ticks = 0
        self._rail: list[tuple[int, int, list[tuple[F32, F32, F32]]]] = []  # runs: first tick, samples, parts
        self._rail_end = -1
        self._waiting_samples = 0
        self._tables: list[pa.Table] = []
        self._waiting_commands = 0
        self._identifies: list[dict[str, int | None]] = []
        self._gaps: list[tuple[int, int]] = []
        self._next = 0
        self._sequence = 0
        self._kept = LiveBins(
            [FACTOR**i for i in range(LEVELS)],
            [FACTOR**i for i in range(LATENCY_LEVELS)],
            [BinRing(live.RECORD, SLOTS, live.offset_of(i)) for i in range(LEVELS)],
            [BinRing(live.LATENCIES, LATENCY_SLOTS, live.latency_offset_of(i)) for i in range(LATENCY_LEVELS)],
        )
        self._views = [self._kept]
        self._fd = self._open()

    def _open(self) -> int:
        try:
            about = os.statvfs(self.path.parent)
            if about.f_bavail * about.f_frsize < _ROOM * live.latency_offset_of(LATENCY_LEVELS):
                return -1
            self.path.unlink(missing_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError:
            return -1
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write_header(fd)
        except OSError:
            os.close(fd)
            return -1
        return fd

    def also(self, view: LiveBins) -> None:
        """Feed another set of bins too, from now on."""
        self._views.append(view)

    def moved_to(self, directory: Path) -> None:
        """The capture's folder was renamed."""
        self.path = directory / live.NAME

    # -- input --------------------------------------------------------------------------------------------------------

    def add_rail(self, first_tick: int, interval_ticks: int, voltage: F32, current: F32, power: F32) -> None:
        """Add samples on the waveform's grid, no older than earlier samples; float32 in V, A, W."""
        self.interval_ticks = interval_ticks
        count = len(power)
        if self._rail_end >= 0:
            self._missing_ticks += max(0, first_tick - self._rail_end)
        if self._rail and first_tick == self._rail_end:
            at, before, parts = self._rail[-1]
            parts.append((voltage, current, power))
            self._rail[-1] = (at, before + count, parts)
        else:
            self._rail.append((first_tick, count, [(voltage, current, power)]))
        self._rail_end = first_tick + count * interval_ticks
        self._waiting_samples += count
        if self._waiting_samples >= _MOST_SAMPLES:
            self.flush()

    def add_commands(self, table: pa.Table) -> None:
        """Rows of ``commands.parquet``."""
        if table.num_rows:
            self._tables.append(table.select(_COLUMNS))
            if self.lba_size_bytes is None:
                self._look_for_identify(table)
            self._waiting_commands += table.num_rows
            if self._waiting_commands >= _MOST_COMMANDS:
                self.flush()

    def add_gap(self, first_tick: int, last_tick: int) -> None:
        """Commands may be missing there."""
        self._gaps.append((first_tick, last_tick))

    def look(self, last_tick: int) -> None:
        """Add collected input to the bins, if due; to be called at least ten times a second. ``last_tick``: of all input."""
        self.last_tick = max(self.last_tick, last_tick)
        if time.monotonic_ns() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Add collected input to the bins, and call the listeners."""
        self._next = time.monotonic_ns() + PERIOD_NS
        self._find_lba_size()
        commands = self._take_commands()
        if self.origin is None:
            self._begin(commands)
        if self.origin is None:
            return
        self._add_rail()
        if commands is not None:
            self._add_commands(*commands)
        for first, last in self._gaps:
            low, high = (max(0, (tick - self.origin) // self.width) for tick in (first, last))
            for view in self._views:
                view.add_lost(low, max(low, high))
        self._gaps.clear()
        self.latest = self._figures()
        self._save()
        for tell in self.on_flush:
            tell(False)

    def _begin(self, commands: tuple[I64, ...] | None) -> None:
        first = [tick for tick, _, _ in self._rail[:1]]
        if commands is not None and len(commands[0]):
            first.append(int(commands[0].min()))
            seen = commands[1][commands[1] >= 0]
            first += [int(seen.min())] if len(seen) else []
        if first:
            self._first_tick = min(first)
            # the first bin is the rail's first sample's, if there is a rail: commands that began before lie in earlier bins
            at = self._rail[0][0] if self._rail and self._rail[0][0] - min(first) < _OLD_BINS * self.width else min(first)
            behind = max(0, at - min(first))
            self.origin = at - -(-behind // self.width) * self.width

    # -- the rail --------------------------------------------------------------------------------------------------------

    def _add_rail(self) -> None:
        if not self._rail:
            return
        assert self.origin is not None
        runs, self._rail, self._waiting_samples = self._rail, [], 0
        parts = [part for _, _, found in runs for part in found]
        voltage, current, power = (np.concatenate([part[i] for part in parts]) if len(parts) > 1 else parts[0][i] for i in range(3))
        starts, bins, at = [], [], 0
        for first_tick, count, _ in runs:
            since = first_tick - self.origin
            low, high = since // self.width, (since + (count - 1) * self.interval_ticks) // self.width
            edges = np.arange(low + 1, high + 1, dtype=np.int64)
            behind = -((since - edges * self.width) // self.interval_ticks)  # the first sample at or behind each edge
            new = np.concatenate((np.zeros(1, np.int64), behind))
            there = np.concatenate((np.diff(new) > 0, new[-1:] < count))  # a bin shorter than the interval may hold none
            starts.append(at + new[there])
            bins.append(np.concatenate((np.array([low], np.int64), edges))[there])
            at += count
        start, which = np.concatenate(starts), np.concatenate(bins)
        signals: tuple[F32, ...] = (voltage, current, power)
        samples = np.diff(np.concatenate((start, [at])))
        sums: list[npt.NDArray[Any]] = [np.add.reduceat(values, start).astype(np.float64) for values in signals]
        if not np.isfinite(sums[2]).all():  # a meter that has no value for some samples
            known = np.isfinite(voltage) & np.isfinite(current)
            index = np.repeat(np.arange(len(start)), samples)[known]
            signals = tuple(values[known] for values in signals)
            if not len(index):
                return
            start = _starts(index)
            which, samples = which[index[start]], np.diff(np.concatenate((start, [len(index)])))
            sums = [np.add.reduceat(values, start).astype(np.float64) for values in signals]
        lows, highs = ([end.reduceat(values, start) for values in signals] for end in (np.minimum, np.maximum))
        interval_s = self.interval_ticks * self.tick_ps * 1e-12
        self._sums["energy"] += float(sums[2].sum()) * interval_s
        self._sums["charge"] += float(sums[1].sum()) * interval_s
        self._samples += int(samples.sum())
        self.last_tick = max(self.last_tick, self._rail_end - self.interval_ticks)
        inside = slice(int(np.searchsorted(which, 0)), None)
        if not len(which[inside]):
            return
        # of two runs the last bin of one may be the first of the next
        kept = [[part[inside] for part in found] for found in (sums, lows, highs)]
        for view in self._views:
            view.add_rail(which[inside], samples[inside], *kept)

    # -- the commands ----------------------------------------------------------------------------------------------------

    def _take_commands(self) -> tuple[I64, ...] | None:
        """CQE, doorbell (-1: not seen), opcode, blocks (0: not known) of the I/O queues' commands."""
        if not self._tables:
            return None
        table, self._tables, self._waiting_commands = pa.concat_tables(self._tables).combine_chunks(), [], 0
        cqe, opcode, qid, flags = (table.column(name).to_numpy() for name in ("cqe_tick", "opcode", "qid", "flags"))
        doorbell = pc.fill_null(table.column("doorbell_tick"), -1).to_numpy()
        blocks = table.column("blocks").to_numpy()
        mine = qid > 0
        if not mine.all():
            cqe, doorbell, opcode, blocks, flags = (column[mine] for column in (cqe, doorbell, opcode, blocks, flags))
        unknown = (flags & np.uint8(spec.CommandFlag.NO_SQE)) != 0
        if unknown.any():
            blocks = np.where(unknown, 0, blocks)
        return cqe, doorbell, opcode, blocks

    def _add_commands(self, cqe: I64, doorbell: I64, opcode: I64, blocks: I64) -> None:
        assert self.origin is not None
        if not len(cqe):
            return
        self._commands += len(cqe)
        self.last_tick = max(self.last_tick, int(cqe.max()))
        weights = {name: np.where(opcode == code, blocks, 0).astype(np.float64) for name, code in (("read", _READ), ("written", _WRITE))}
        for name, values in weights.items():
            self._sums[name] += float(values.sum())
        ended = cqe - self.origin
        known = (doorbell >= 0) & (doorbell <= cqe)
        begun = doorbell - self.origin
        # begins and ends before the first bin count in the first bin
        ended, begun = np.maximum(ended, 0), np.maximum(begun, 0)
        whole = known.all()
        if not whole:
            begun = begun[known]
        closed = ended if whole else ended[known]
        bins, index = _indexed(np.concatenate((ended, begun)) // self.width)
        at_end, at_begin = index[: len(ended)], index[len(ended) :]
        at_close = at_end if whole else at_end[known]
        count = len(bins)
        ends = (bins + 1) * self.width
        columns: dict[str, npt.NDArray[Any]] = {
            "commands": np.bincount(at_end, minlength=count),
            "begun": np.bincount(at_begin, minlength=count) - np.bincount(at_close, minlength=count),
            "busy": np.bincount(at_begin, ends[at_begin] - begun, count) - np.bincount(at_close, ends[at_close] - closed, count),
        }
        for name, values in weights.items():
            columns[name] = np.bincount(at_end, values, count)
        latency = (cqe - doorbell)[known]
        bucket = _bucket(latency)
        wide, place = _indexed(closed // (self.width * LATENCY_BINS)) if len(closed) else (np.zeros(0, np.int64), closed)
        for view in self._views:
            view.add_load(bins, columns, self.width)
        for first in range(0, len(wide), LATENCY_SLOTS):
            stop = min(first + LATENCY_SLOTS, len(wide))
            here = slice(None) if stop - first == len(wide) else (place >= first) & (place < stop)
            flat = (place[here] - first) * live.BUCKETS + bucket[here]
            counts = np.bincount(flat, minlength=(stop - first) * live.BUCKETS).reshape(-1, live.BUCKETS)
            for view in self._views:
                view.add_latencies(wide[first:stop], counts)

    def _look_for_identify(self, table: pa.Table) -> None:
        """Remember the Identify Namespace commands of the admin queue: their data tell the size of a logical block."""
        qid = table.column("qid").to_numpy()
        admin = np.flatnonzero(qid == 0)
        if not len(admin) or len(self._identifies) >= _NOTES:
            return
        for row in table.take(pa.array(admin)).to_pylist():
            if row["opcode"] == nvme.admin("identify") and row["status"] == 0 and (row["slba"] or 0) & 0xFF == 0:
                self._identifies = [*self._identifies[-_NOTES:], row]

    def _find_lba_size(self) -> None:
        if self.lba_size_bytes is None:
            for row in self._identifies:
                found = self.namespace(row)
                if found:
                    self.lba_size_bytes = found
                    self._identifies.clear()
                    return

    # -- the figures -----------------------------------------------------------------------------------------------------

    def _figures(self) -> Latest:
        assert self.origin is not None and self._first_tick is not None
        tick_s = self.tick_ps * 1e-12
        tenth = self.width * LATENCY_BINS
        settled = max(self.last_tick - _SETTLED_TICKS * spec.TICK_PS // self.tick_ps - self.origin, 0) // tenth
        stop = max(settled, 1)
        interval = max(1, -(-self.interval_ticks // tenth))
        first = max(0, stop - max(10, interval))
        levels, latencies = self._kept.levels[2], self._kept.latency_levels[0]
        records = levels.window(first, stop)
        seen = max(1, min(stop * tenth, self.last_tick - self.origin) - first * tenth) * tick_s
        samples = int(records["samples"].sum())
        mean = {name: float(records[f"{name}_sum"].sum()) / samples if samples else None for name in SIGNALS}
        lba = self.lba_size_bytes or live.ASSUMED_LBA
        later = int(levels.window(stop, levels.newest + 1)["begun"].sum())
        counts = latencies.window(first, stop)["counts"].sum(axis=0, dtype=np.int64)
        return Latest(
            tick=self.last_tick,
            seconds=(self.last_tick - self._first_tick) * tick_s,
            w=mean["power"],
            a=mean["current"],
            v=mean["voltage"],
            read_mb_per_s=float(records["read"].sum()) * lba / seen / 1e6,
            write_mb_per_s=float(records["written"].sum()) * lba / seen / 1e6,
            iops=int(records["commands"].sum()) / seen,
            depth=float(live.depth_of(records, later, tenth).mean()),
            p99_s=live.without_nan(live.quantile_ticks(counts, 0.99) * tick_s),
            energy_j=self._sums["energy"],
            charge_c=self._sums["charge"],
            missing_s=self._missing_ticks * tick_s,
            read_bytes=self._sums["read"] * lba,
            written_bytes=self._sums["written"] * lba,
            commands=self._commands,
            samples=self._samples,
            lost=tuple(self.lost()),
            left_s=self.left_s,
            waiting=self.waiting,
            lba_size_known=self.lba_size_bytes is not None,
        )

    # -- the file --------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._fd < 0:
            return
        try:
            self._sequence += 1  # odd: it is being written
            os.pwrite(self._fd, live.START.pack(live.MAGIC, self._sequence, 0), 0)
            for level in (*self._kept.levels, *self._kept.latency_levels):
                level.write(self._fd)
            self._sequence += 1
            self._write_header(self._fd)
        except OSError:  # the disk is full: looking ends here
            self.remove()

    def _write_header(self, fd: int) -> None:
        about: dict[str, Any] = {
            "tick_ps": self.tick_ps,
            "origin": self.origin,
            "width": self.width,
            "interval": self.interval_ticks,
            "last": self.last_tick,
            "lba_size_bytes": self.lba_size_bytes or live.ASSUMED_LBA,
            "latest": live.as_json(self.latest),
        }
        data = json.dumps(about, allow_nan=False).encode()
        if len(data) > live.HEADER - live.START.size:
            about["latest"] = {**(live.as_json(self.latest) or {}), "lost": ["too much to be told here"]}
            data = json.dumps(about, allow_nan=False).encode()
        os.pwrite(fd, data, live.START.size)
        os.pwrite(fd, live.START.pack(live.MAGIC, self._sequence, len(data)), 0)

    def finish(self) -> None:
        """Write the last figures. The file stays until :meth:`remove`, so that viewers wait there until the capture can be opened."""
        self.flush()
        for tell in self.on_flush:
            tell(True)

    def remove(self) -> None:
        """Remove the file; idempotent. The figures go on."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1


def _bucket(latency: I64) -> I64:
    """Return the buckets of latencies in ticks.

    The exponent of a float32 gives the octave, the first bits of the mantissa the place within it, made logarithmic.
    """
    bits = np.clip(latency, 1, None).astype(np.float32).view(np.uint32)
    place = _MANTISSA[bits >> np.uint32(15) & np.uint32(255)]
    bucket: I64 = ((bits >> np.uint32(23)).astype(np.int64) - 127) * live.OCTAVE + place
    return np.minimum(bucket, live.BUCKETS - 1)


_MANTISSA = np.floor(np.log2(1 + (np.arange(256) + 0.5) / 256) * live.OCTAVE).astype(np.int64)
