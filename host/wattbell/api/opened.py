"""An open capture: its contents as frames, its figures, its picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from types import TracebackType

import polars as pl

from ..analysis import figures_of
from ..analysis.result import Analysis
from ..capture import Capture, open_capture
from ..capture.rail import RailReader
from ..errors import CaptureError, UsageError
from ..jsondata import JsonObject
from ..measure.phases import Phase, find_phases
from ..measure.rail import no_rail_reason
from . import frames
from .card import card
from .plot import Plot, draw
from .span import Bounds, window


def open(path: str | os.PathLike[str], *, verify: bool = True) -> OpenCapture:
    """Open the capture directory ``path``. If its recorder died, the capture is first rebuilt from its journal.

    verify: compare each file with its hash before it is first read (about 0.7 GB/s)

    Raises CaptureError when there is no capture, it is damaged beyond that, or it is still being recorded.
    """
    return OpenCapture(open_capture(os.fspath(path), verify=verify))


class OpenCapture:
    """An open capture. Nothing is read before it is asked for. Times are seconds from the begin of the capture, as in reports."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        """The reader below: the tables as they are stored (docs/capture.md), the waveform by sample, ``meta.json``."""

    # -- about it ----------------------------------------------------------------------------------------------------

    @property
    def meta(self) -> JsonObject:
        """``meta.json`` as a dict."""
        return self.capture.meta

    @cached_property
    def bounds(self) -> Bounds:
        """First and last tick of everything recorded: ``t_s`` counts from the first."""
        edges: list[int] = []
        start, end = self.capture.commands.select(frames.START.min().alias("start"), pl.col("cqe_tick").max()).collect().row(0)
        if start is not None:
            edges += [start, end]
        if self._no_rail is None:
            reader = self._reader()
            edges += [reader.first_tick, reader.tick_of(len(reader) - 1)]
        tick = pl.col("tick")
        first, last = self.capture.events.select(tick.min().alias("first"), tick.max().alias("last")).collect().row(0)
        if first is not None:
            edges += [first, last]
        begin, end = (min(edges), max(edges) + 1) if edges else (0, 0)
        return Bounds(begin, end, self.capture.tick_ps * 1e-12)

    @property
    def duration_s(self) -> float:
        """Length of the capture."""
        return self.bounds.duration_s

    @cached_property
    def _no_rail(self) -> str | None:
        return no_rail_reason(self.capture)

    def _reader(self) -> RailReader:
        reader = self.capture.rail
        if reader is None:
            raise CaptureError(f"{self.capture.path} has no rail: {self._no_rail or 'no samples'}.")
        return reader

    @cached_property
    def _phases(self) -> Sequence[Phase]:
        events = self.capture.events.collect().sort("tick", maintain_order=True)
        return find_phases(events, self.meta.get("workload") or {}, self.bounds.last_tick)

    # -- contents --------------------------------------------------------------------------------------------------------

    def rail(
        self, t0: float | None = None, t1: float | None = None, *, phase: str | int | None = None, points: int | None = None
    ) -> pl.DataFrame:
        """Return the rail from ``t0`` to ``t1`` (seconds from the begin; by default everything), or during a phase by its name or number.

        Columns are ``t_s``, ``voltage_v``, ``current_a``, ``power_w``; a row a sample, null for a missing sample. With ``points`` there is
        a row for each of at most so many intervals of equal length (the last may be shorter). A row is at the interval's middle. It has the
        mean of its samples, and ``voltage_min_v``, ``voltage_max_v`` and so on beside it. These rows come from the file's summaries: a day
        takes as long as a second.

        Raises CaptureError if the capture has no rail, UsageError if there is no such time or phase.
        """
        if points is not None and (isinstance(points, bool) or not isinstance(points, int) or points < 1):
            raise UsageError(f"points is {points!r}: give a number from 1 on, or leave it out for every sample.")
        reader = self._reader()
        first, last = self._window(t0, t1, phase)
        if points is None:
            return frames.rail_samples(reader, self.bounds, first, last)
        return frames.rail_points(reader, self.bounds, first, last, points)

    @cached_property
    def commands(self) -> pl.LazyFrame:
        """Return one row a command, in order of arrival, as a lazy frame.

        The columns of ``commands.parquet`` follow these:

        t_s: doorbell, else SQE fetch, else CQE
        latency_s: from there to the CQE; null if the start was not seen, or the command never completed
        opcode_name, is_admin, status_name: of the opcode, the queue and the status
        bytes: of the transfer

        In-band markers are left out, as in every figure; they are in ``capture.commands``.
        """
        return frames.commands(self.capture, self.bounds)

    @cached_property
    def events(self) -> pl.DataFrame:
        """One row an event, in order of time: ``t_s``, ``name``, then the columns of ``events.parquet``."""
        return frames.events(self.capture, self.bounds)

    @cached_property
    def gaps(self) -> pl.DataFrame:
        """Return one row a gap: ``t0_s``, ``t1_s``, ``kind`` of the missing data, ``count``, ``reason``."""
        return frames.gaps(self.capture, self.bounds)

    @cached_property
    def phases(self) -> pl.DataFrame:
        """One row a phase, in order of time: ``number``, ``name``, ``kind``, ``t0_s``, ``t1_s``, ``duration_s``, ticks, ``notes``."""
        return frames.phases(self._phases, self.bounds)

    @cached_property
    def figures(self) -> Analysis:
        """Return all figures of ``wattbell analyze``, as a typed dict (docs/methodology.md). Reads all commands, once.

        Each figure is a :class:`~wattbell.measure.figure.Figure` with its uncertainty.
        """
        return figures_of(self.capture)

    # -- picture ---------------------------------------------------------------------------------------------------------

    def plot(
        self,
        t0: float | None = None,
        t1: float | None = None,
        *,
        phase: str | int | None = None,
        rows: Sequence[str] | None = None,
        title: str | None = None,
    ) -> Plot:
        """Draw a picture of ``t0`` to ``t1``, or of a phase. A notebook shows it by itself, ``.save("a.png")`` (or .svg, .pdf) writes it.

        rows: from ``power``, ``voltage``, ``current``, ``throughput``, ``iops``, ``queue-depth``, ``latency``, from the top. By default
            power, throughput, queue depth and latency, as far as the capture has them.

        Raises UsageError for a row that the capture does not have.
        """
        first, last = self._window(t0, t1, phase)
        reader = self._reader() if self._no_rail is None else None
        return draw(self.capture, self.bounds, self._phases, reader, (first, last), rows, title)

    def _window(self, t0: float | None, t1: float | None, phase: str | int | None) -> tuple[int, int]:
        return window(self.bounds, self._phases if phase is not None else (), t0, t1, phase)

    # -- how it shows itself, and its end ----------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<wattbell.OpenCapture {str(self.capture.path)!r}: {self.capture.state}>"

    def _repr_html_(self) -> str:
        return card(self.capture, self.bounds, self._phases)

    def close(self) -> None:
        """Close the waveform's file. (Nothing else stays open.)"""
        if "rail" in self.capture.__dict__ and self.capture.rail is not None:
            self.capture.rail.close()

    def __enter__(self) -> OpenCapture:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
