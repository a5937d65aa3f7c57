"""The live summary: the contents so far of a capture in progress, for anyone who watches.

``live.bin`` is in the capture's folder while its recorder lives. Only the recorder (:mod:`.livewriter`) writes the file. Any number of
processes may read it at any time (:class:`LiveReader`). It is no part of the finished capture.

Time is cut into bins on one grid, ``origin + i * width`` ticks. There are :data:`LEVELS` levels of bins. The finest bins are 1 ms, and each
level has bins :data:`FACTOR` times as wide as the level before. A level keeps its last :data:`SLOTS` bins, in slot ``i % SLOTS``. The
file's size is thus bounded (22 MB, with holes where nothing was written). The last 16 s are there by the ms, and the last 19 days by 100 s.
Latencies are counted in :data:`BUCKETS` logarithmic buckets (4.4 % wide) in levels by themselves.

The header (:data:`HEADER` bytes) begins with a magic, a sequence number (odd while the recorder writes) and the length of a JSON document.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import door
from ..errors import CaptureError

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Records = npt.NDArray[np.void]

NAME = "live.bin"
FACTOR, LEVELS, SLOTS = 10, 6, 1 << 14
LATENCY_LEVELS, LATENCY_SLOTS = 5, 1 << 10
LATENCY_BINS = 100
"""Bins of the finest level in one of the finest level of latencies."""
OCTAVE = 16
"""Buckets of latency in a factor of two."""
BUCKETS = 32 * OCTAVE
WIDTH_S = 1e-3
"""Width in s of a bin of the finest level."""
ASSUMED_LBA = 512
"""Bytes of a logical block where no Identify was seen."""
FEWEST = 100
"""Commands that a p99 stands on at least."""
HEADER = 4096
START = struct.Struct("<8sQI")
MAGIC = b"WBLIVE\x00\x01"
_PATIENCE, _RETRY_S = 200, 0.001

SIGNALS = ("voltage", "current", "power")
RECORD = np.dtype(
    [
        ("bin", "<i8"),
        ("samples", "<i8"),
        ("commands", "<i8"),
        ("begun", "<i8"),
        ("lost", "<i8"),
        ("read", "<f8"),
        ("written", "<f8"),
        ("busy", "<f8"),
        *((f"{name}_sum", "<f8") for name in SIGNALS),
        *((f"{name}_{end}", "<f4") for name in SIGNALS for end in ("min", "max")),
    ]
)
"""A bin.

bin: its number plus 1 (0: an empty slot)
samples: of the rail; their sums and extremes follow
commands: of I/O queues that ended in the bin
begun: doorbells less completions
busy: ticks that these commands add to the sum of all commands' time in flight within the bin
read, written: logical blocks
lost: gaps of the commands in the bin
"""
LATENCIES = np.dtype([("bin", "<i8"), ("counts", "<u4", (BUCKETS,))])
"""Commands of a bin (of :data:`LATENCY_BINS`) by latency: bucket b counts latencies from 2 ** (b / OCTAVE) ticks on."""


def offset_of(level: int) -> int:
    """Return the offset of a level in the file, in bytes."""
    return HEADER + level * SLOTS * RECORD.itemsize


def latency_offset_of(level: int) -> int:
    """Return the offset of a level of latencies in the file, in bytes."""
    return offset_of(LEVELS) + level * LATENCY_SLOTS * LATENCIES.itemsize


def blank(count: int) -> Records:
    """Return empty bins, without known values."""
    made = np.zeros(count, RECORD)
    for name in SIGNALS:
        made[f"{name}_min"], made[f"{name}_max"] = np.inf, -np.inf
    return made


def grouped(records: Records, group: int) -> Records:
    """Every `group` consecutive bins as one; ``busy`` and ``begun`` are left out (:func:`depth_of`)."""
    if group == 1:
        return records
    count = -(-len(records) // group)
    padded = np.concatenate((records, blank(count * group - len(records)))).reshape(count, group)
    made = blank(count)
    for name in ("samples", "commands", "lost", "read", "written", *(f"{name}_sum" for name in SIGNALS)):
        made[name] = padded[name].sum(axis=1)
    for name in SIGNALS:
        made[f"{name}_min"], made[f"{name}_max"] = padded[f"{name}_min"].min(axis=1), padded[f"{name}_max"].max(axis=1)
    return made


def depth_of(records: Records, later: int, width_ticks: int) -> F64:
    """Mean number of commands in flight in each of consecutive bins; `later`: the sum of ``begun`` of all bins behind them. (Of the
    commands that have ended so far: each has begun as often as it has ended.)"""
    before = -(later + np.cumsum(records["begun"][::-1])[::-1])
    depth: F64 = before + records["busy"] / width_ticks
    return np.maximum(depth, 0.0)


def quantile_ticks(counts: npt.NDArray[Any], p: float, fewest: int = FEWEST) -> float:
    """The quantile `p` of latencies counted in buckets, in ticks, to 2.2 %; NaN of fewer than `fewest`."""
    total = int(counts.sum())
    if total < fewest:
        return float("nan")
    bucket = int(np.searchsorted(np.cumsum(counts, dtype=np.int64), np.ceil(p * total)))
    return float(2 ** ((bucket + 0.5) / OCTAVE))


@dataclass(frozen=True)
class Series:
    """A quantity of the rail in SI units, one value a point; NaN where nothing was received."""

    mean: F64
    min: F64
    max: F64


@dataclass(frozen=True)
class LiveRail:
    """The rail by points of `width_ticks`; ``t``: the tick at the middle of each."""

    width_ticks: int
    t: I64
    voltage: Series
    current: Series
    power: Series


@dataclass(frozen=True)
class LiveLoad:
    """The I/O queues by points of `width_ticks`; ``t``: the tick at the middle of each. Bytes and IOPS are booked at the completion;
    ``depth_mean`` is that from doorbell to CQE, of commands that have ended. ``p99_s``: of the commands that ended in the 0.1 s (or more)
    around the point, NaN of fewer than 100. ``lost``: commands are missing in it, so that the figures are lower limits."""

    width_ticks: int
    t: I64
    read_mb_per_s: F64
    write_mb_per_s: F64
    iops: F64
    depth_mean: F64
    p99_s: F64
    lost: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Latest:
    """The figures of this moment: means over the second before `tick`, sums since the beginning. None: not known (yet)."""

    tick: int
    """Up to where everything has come."""
    seconds: float
    """From the first to the last tick so far."""
    w: float | None
    a: float | None
    v: float | None
    read_mb_per_s: float
    write_mb_per_s: float
    iops: float
    depth: float
    p99_s: float | None
    energy_j: float
    """Energy of the received samples."""
    charge_c: float
    missing_s: float
    """Time in s for which samples of the rail are missing."""
    read_bytes: float
    written_bytes: float
    commands: int
    samples: int
    lost: tuple[str, ...]
    """Losses so far, in words; empty: none."""
    left_s: float | None
    """Until the recording ends by itself."""
    waiting: bool
    """Whether the line to the instrument is cut."""
    lba_size_known: bool
    """False: bytes assume the size of a logical block."""


def without_nan(value: float) -> float | None:
    """None in place of NaN."""
    return value if value == value else None


def being_recorded(directory: str | Path) -> bool:
    """Whether a recorder that keeps a live summary is at work on a capture."""
    try:
        with LiveReader(directory) as reader:
            return reader.recording
    except CaptureError:
        return False


class LiveReader:
    """Reads the live summary of a capture from any process, during recording.

    Ticks are the capture's. Every call reads the present state: some MB at most. Raises CaptureError when there is no summary: the capture
    is finished (open it), or its recorder keeps none.
    """

    def __init__(self, directory: str | Path) -> None:
        path = Path(directory) / NAME
        try:
            with door.open_file(path, door.RECORDING, follow=False) as file:
                self._fd = os.dup(file.fileno())
        except OSError:
            raise CaptureError(
                f"{directory} has no live summary: it is not being recorded now, or its disk was too full for one."
            ) from None
        try:
            self._about: dict[str, Any] = {}
            self._sequence = -1
            self._refresh()
        except BaseException:
            self.close()
            raise

    # -- present state -----------------------------------------------------------------------------------------------

    @property
    def recording(self) -> bool:
        """Whether the recorder is still there; afterwards, open the capture (or rebuild it, if the recorder was killed)."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False

    @property
    def tick_ps(self) -> int:
        """Picoseconds a tick."""
        return int(self._about["tick_ps"])

    @property
    def begin(self) -> int:
        """Tick at which the first bin begins; 0 before the first data."""
        return int(self._about["origin"] or 0)

    @property
    def end(self) -> int:
        """The last tick so far (as of this call)."""
        self._refresh()
        return int(self._about["last"])

    def latest(self) -> Latest | None:
        """The figures of this moment; None before the first data."""
        self._refresh()
        found = self._about.get("latest")
        return None if found is None else Latest(**{**found, "lost": tuple(found["lost"])})

    # -- pictures -----------------------------------------------------------------------------------------------------

    def rail(self, begin: int, end: int, points: int) -> LiveRail:
        """Return voltage, current and power between two ticks, as at most `points` + 1 points, clipped to the known span (perhaps none)."""
        level, group, first, records, _ = self._window(begin, end, points, int(self._about["interval"] or 0))
        width = self._width(level) * group
        made = grouped(records, group)
        with np.errstate(invalid="ignore", divide="ignore"):
            known = made["samples"] > 0
            series = []
            for name in SIGNALS:
                parts = (made[f"{name}_sum"] / made["samples"], made[f"{name}_min"], made[f"{name}_max"])
                series.append(Series(*(np.where(known, part, np.nan).astype(np.float64) for part in parts)))
        return LiveRail(width, self._middles(first, len(made), level, group), *series)

    def load(self, begin: int, end: int, points: int) -> LiveLoad:
        """MB/s by direction, IOPS, depth and p99 between two ticks, as :meth:`rail`."""
        level, group, first, records, later = self._window(begin, end, points, 0)
        width = self._width(level) * group
        made = grouped(records, group)
        second = width * self.tick_ps * 1e-12
        lba = int(self._about["lba_size_bytes"])
        depth = depth_of(records, later, self._width(level))
        if group > 1:
            weights = np.concatenate((depth, np.full(len(made) * group - len(depth), np.nan))).reshape(len(made), group)
            depth = np.nanmean(weights, axis=1)
        t = self._middles(first, len(made), level, group)
        return LiveLoad(
            width,
            t,
            made["read"] * (lba / second / 1e6),
            made["written"] * (lba / second / 1e6),
            made["commands"] / second,
            depth,
            self._p99(t, width),
            made["lost"] > 0,
        )

    # -- the file -----------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Read the header as of now."""
        for _ in range(_PATIENCE):
            data = os.pread(self._fd, HEADER, 0)
            if len(data) >= START.size:
                magic, sequence, length = START.unpack_from(data)
                if magic != MAGIC:
                    raise CaptureError("The live summary is of another version of Wattbell: look with the one that records.")
                if sequence % 2 == 0 and START.size + length <= len(data):
                    self._sequence = sequence
                    self._about = json.loads(data[START.size : START.size + length])
                    return
            time.sleep(_RETRY_S)
        raise CaptureError("The live summary is not whole; its recorder may have been killed while it wrote.")

    def _unchanged(self) -> bool:
        sequence: int = START.unpack_from(os.pread(self._fd, START.size, 0))[1]
        return sequence == self._sequence

    def _width(self, level: int) -> int:
        width: int = self._about["width"] * FACTOR**level
        return width

    def _middles(self, first: int, count: int, level: int, group: int) -> I64:
        width = self._width(level)
        return self.begin + np.arange(first, first + count * group, group, dtype=np.int64) * width + width * group // 2

    def _window(self, begin: int, end: int, points: int, interval: int) -> tuple[int, int, int, Records, int]:
        """Return one moment's (level, bins a point, first bin, bins, sum of ``begun`` behind them).

        interval: least length of a point
        """
        points = max(points, 1)
        for _ in range(_PATIENCE):
            self._refresh()
            last = int(self._about["last"]) - self.begin
            low, high = max(begin - self.begin, 0), min(end - self.begin, last)
            if high < low or self._about["origin"] is None:
                return 0, 1, 0, blank(0), 0
            for level in range(LEVELS):
                width = self._width(level)
                first, newest = low // width, last // width
                count = high // width - first + 1
                if (newest - first < SLOTS and count <= FACTOR * points) or level == LEVELS - 1:
                    break
            group = max(-(-(count - 1) // points), -(-interval // width), 1)
            first -= first % group
            first = max(first, newest - SLOTS + 1)
            stop = max(high // width + 1, first)
            records = self._bins(level, first, newest + 1)
            if self._unchanged():
                break
        inside = stop - first
        return level, group, first, records[:inside], int(records["begun"][inside:].sum())

    def _bins(self, level: int, first: int, stop: int) -> Records:
        """Bins ``first`` .. ``stop - 1`` of a level."""
        return self._slots(RECORD, offset_of(level), SLOTS, first, stop)

    def _slots(self, kind: np.dtype[Any], offset: int, slots: int, first: int, stop: int) -> Records:
        parts = []
        at = first
        while at < stop:
            slot = at % slots
            count = min(stop - at, slots - slot)
            data = os.pread(self._fd, count * kind.itemsize, offset + slot * kind.itemsize)
            data += bytes(count * kind.itemsize - len(data))
            parts.append(np.frombuffer(data, kind))
            at += count
        found = np.concatenate(parts) if parts else np.zeros(0, kind)
        other = found["bin"] != np.arange(first, stop) + 1
        if other.any():
            found[other] = blank(1)[0] if kind is RECORD else np.zeros((), kind)
        return found

    def _p99(self, t: I64, width: int) -> F64:
        """Return the p99 for each point that lies in a bin of latencies with enough commands; NaN for the others."""
        made = np.full(len(t), np.nan)
        if not len(t):
            return made
        last = int(self._about["last"]) - self.begin
        for level in range(LATENCY_LEVELS):
            wide = int(self._about["width"]) * LATENCY_BINS * FACTOR**level
            first = (int(t[0]) - width // 2 - self.begin) // wide
            if last // wide - first < LATENCY_SLOTS and (wide * FACTOR > width or level == LATENCY_LEVELS - 1):
                break
        first = max(first, last // wide - LATENCY_SLOTS + 1, 0)
        stop = min((int(t[-1]) + width // 2 - self.begin) // wide, last // wide) + 1
        found = self._slots(LATENCIES, latency_offset_of(level), LATENCY_SLOTS, first, stop)
        counts, tick_s = found["counts"], self.tick_ps * 1e-12
        sums = np.concatenate((np.zeros((1, BUCKETS), np.int64), np.cumsum(counts, axis=0, dtype=np.int64)))
        lows = np.clip((t - width // 2 - self.begin) // wide - first, 0, len(found))
        highs = np.clip((t + (width - 1) // 2 - self.begin) // wide - first + 1, 0, len(found))
        known: dict[tuple[int, int], float] = {}
        for index, pair in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
            if pair not in known:
                known[pair] = quantile_ticks(sums[pair[1]] - sums[pair[0]], 0.99) * tick_s
            made[index] = known[pair]
        return made

    def close(self) -> None:
        """Release the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> LiveReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def as_json(latest: Latest | None) -> dict[str, Any] | None:
    """Return the figures as JSON for the header."""
    return None if latest is None else asdict(latest)
