"""An open capture that answers questions over any span of its ticks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from wattbell_spec.wire import EventType

from .. import door
from ..capture import Capture, open_capture
from ..capture.reader import damaged
from ..measure.errormodel import error_model
from ..measure.phases import Phase, find_phases
from ..measure.table import lba_sizes
from .density import Density, density
from .histogram import latency_histogram
from .loadbins import LoadBins, load_bins
from .railpoints import RailPoints, increment_for, rail_points
from .span import ClassSpan, RailSpan, command_span, rail_span
from .table import CommandFilter, ZoomTable

F64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
MOST_MEANS = 500_000
"""Means taken for a histogram, in about half a second."""
Progress = Callable[[int, int], None]
_EVENT_COLUMNS = ("tick", "type", "arg8", "arg16", "arg32")


def open_zoom(path: str | Path, progress: Progress | None = None, making: Progress | None = None) -> Zoom:
    """Open a capture for viewing. Its files are not hashed (a day of samples would take half an hour); `wattbell check` does that.

    progress: bytes done and in all while the capture of a dead recorder is rebuilt
    making: rows while the pyramid is made

    Raises CaptureError as :func:`~wattbell.capture.open_capture`.
    """
    return Zoom(open_capture(path, progress, verify=False), making)


class Zoom:
    """A capture's rail, commands and events over any span, in the capture's ticks. Every method may be called from any thread.

    The rail is late against the bus by the front end's delay (docs/accuracy.md). Here it is moved to the instants at the drive.
    """

    def __init__(self, capture: Capture, making: Progress | None = None) -> None:
        """Makes the pyramid of the commands if there is none that fits."""
        self.capture = capture
        self.tick_s = capture.tick_ps * 1e-12
        sizes, self.notes = lba_sizes(capture.meta)
        self.commands = ZoomTable(capture, sizes, self.tick_s, making)
        self._delay = round(error_model(capture.meta).front_end_delay_s / self.tick_s)
        self._rail = capture.rail
        self._rail_lock = threading.Lock()

    # -- content ---------------------------------------------------------------------------------------------------------

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """First tick of anything recorded, and the tick behind the last, as figures have them; (0, 0) for a capture without
        anything."""
        edges = [*(self.commands.pyramid.bounds or ())]
        if self._rail is not None:
            edges += [self._rail.first_tick, self._rail.tick_of(self._rail.samples - 1)]
        edges += self._event_bounds
        return (min(edges), max(edges) + 1) if edges else (0, 0)

    @cached_property
    def _event_bounds(self) -> list[int]:
        """First and last tick of an event, from the file's statistics; nothing without events."""
        path = self.capture.path / "events.parquet"
        try:
            about = door.parquet_metadata(path)
        except (OSError, pa.ArrowException) as error:
            raise damaged(path, error) from None
        limits: list[int] = []
        for group in range(about.num_row_groups):
            told = about.row_group(group).column(0).statistics
            if told is None or not told.has_min_max:
                first, last = (
                    self.capture.events.select(pl.col("tick").min().alias("first"), pl.col("tick").max().alias("last")).collect().row(0)
                )
                return [int(first), int(last)]
            limits += [int(told.min), int(told.max)]
        return [min(limits), max(limits)] if limits else []

    @cached_property
    def phases(self) -> list[Phase]:
        """Phases in order of time."""
        return find_phases(self.events_of(EventType.MARKER), self.capture.meta.get("workload") or {}, self.bounds[1])

    @cached_property
    def gaps(self) -> pl.DataFrame:
        """``kind``, ``first_tick``, ``last_tick``, ``count`` (-1: not known), ``reason``."""
        return self.capture.gaps.sort("first_tick").collect()

    @property
    def classes(self) -> list[tuple[int, bool, int]]:
        """(opcode, admin, commands) of each class, most first."""
        rows = [(key & 0xFF, key > 0xFF, count) for key, count in self.commands.pyramid.classes]
        return sorted(rows, key=lambda row: (-row[2], row[1], row[0]))

    # -- over a span -----------------------------------------------------------------------------------------------

    def rail(self, begin: int, end: int, points: int) -> RailPoints | None:
        """The rail over ticks ``[begin, end]``; None without one."""
        if self._rail is None:
            return None
        with self._rail_lock:
            return rail_points(self._rail, begin + self._delay, end + self._delay, points).moved(-self._delay)

    def load(self, begin: int, end: int, points: int) -> LoadBins:
        """Commands, bytes and depth over ticks ``[begin, end]``."""
        return load_bins(self.commands, begin, end, points)

    def density(self, begin: int, end: int, wanted: CommandFilter | None = None) -> Density:
        """Latencies over ticks ``[begin, end]``."""
        return density(self.commands, begin, end, self.commands.narrowed(wanted))

    def rows(self, begin: int, end: int, limit: int, wanted: CommandFilter | None = None) -> tuple[int, pl.DataFrame | None]:
        """(number of commands that overlap ticks ``[begin, end]``, the commands in order of their CQE, with ``start_tick``, ``bytes`` and
        ``index``; None if there are more than ``limit``)."""
        wanted = self.commands.narrowed(wanted)
        count = self.commands.count(begin, end, wanted)
        if count > limit:
            return count, None
        found = list(self.commands.rows(begin, end, wanted))
        return count, pl.concat(found).sort("cqe_tick", "index") if found else self.commands.read(0, 0)

    def rail_span(self, begin: int, end: int) -> RailSpan | None:
        """Statistics of the samples at ticks ``[begin, end)``; None without a rail."""
        if self._rail is None:
            return None
        with self._rail_lock:
            return rail_span(self._rail, self.gaps, begin + self._delay, end + self._delay)

    def command_span(self, begin: int, end: int) -> list[ClassSpan]:
        """Statistics by class of the commands with a CQE at ticks ``[begin, end)``."""
        return command_span(self.commands, begin, end)

    @property
    def rail_bounds(self) -> tuple[int, int] | None:
        """Tick of the first sample, and one interval behind the last; None without a rail."""
        if self._rail is None:
            return None
        return self._rail.first_tick - self._delay, self._rail.tick_of(self._rail.samples) - self._delay

    def samples(self, signal: str, begin: int, end: int, most: int) -> tuple[F64, int] | None:
        """Return (values of ``voltage``, ``current`` or ``power`` at ticks ``[begin, end)``, samples for each value); None without a rail.

        Each value is one sample, or if there are more than ``most``, the mean of as many samples as needed.
        """
        if self._rail is None:
            return None
        with self._rail_lock:
            first, last = self._rail.sample_at(begin + self._delay), self._rail.sample_at(end + self._delay)
            if last - first <= most:
                return getattr(self._rail.read(first, last), signal).astype(np.float64), 1
            step = increment_for(last - first, min(most, MOST_MEANS, (last - first) // 128))  # JLS has no summary of fewer
            first, last = -(-first // step) * step, last // step * step
            return self._rail.statistics(signal, first, last, step)[:, 0], step

    def latencies(self, begin: int, end: int, bins: int) -> tuple[F64, Int64]:
        """(edges in s, counts), on a logarithmic scale, of the latencies of commands without error with a CQE at ticks ``[begin, end)``."""
        return latency_histogram(self.commands, begin, end, bins)

    # -- events ----------------------------------------------------------------------------------------------------

    def events_of(self, *kinds: EventType) -> pl.DataFrame:
        """The events of some types in order of time: ``tick``, ``type``, ``arg8``, ``arg16``, ``arg32``. The last few answers are kept."""
        if kinds not in self._events:
            chosen = self.capture.events.filter(pl.col("type").is_in([int(kind) for kind in kinds]))
            self._events[kinds] = chosen.select(*_EVENT_COLUMNS).sort("tick", maintain_order=True).collect()
        return self._events[kinds]

    @cached_property
    def _events(self) -> dict[tuple[EventType, ...], pl.DataFrame]:
        return {}

    def events(self, begin: int, end: int, limit: int) -> tuple[int, pl.DataFrame]:
        """Return (number of events at ticks ``[begin, end]``, the first ``limit`` events as in events.parquet)."""
        inside = self.capture.events.filter(pl.col("tick").is_between(begin, end))
        return int(inside.select(pl.len()).collect().item()), inside.sort("tick", maintain_order=True).head(limit).collect()
