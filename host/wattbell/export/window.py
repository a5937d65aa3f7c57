"""A time window of a capture, and the data that overlaps it. Nothing else of a long capture is held in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.wire import EventType

from wattbell.analysis.names import ADMIN_OPCODES, IO_OPCODES
from wattbell.capture import Capture
from wattbell.capture.marking import marking_of
from wattbell.capture.rail import RailReader
from wattbell.errors import UsageError
from wattbell.measure.phases import Phase, find_phases
from wattbell.measure.rail import no_rail_reason
from wattbell.measure.table import SIZED_OPCODES, Commands, is_marker, lba_sizes, load_commands

Int64 = npt.NDArray[np.int64]
_START = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
"""Start of a command, as a column of ``commands.parquet``."""


@dataclass(frozen=True)
class ExportWindow:
    """Ticks ``[first_tick, last_tick)``; ``zero_tick`` is time 0: the first tick of the capture."""

    first_tick: int
    last_tick: int
    zero_tick: int
    tick_s: float

    @property
    def seconds(self) -> float:
        return (self.last_tick - self.first_tick) * self.tick_s


def extent(capture: Capture) -> tuple[int, int]:
    """``[first, last)``, the ticks of all that a capture holds; (0, 0) of one that holds nothing."""
    edges: list[int] = []
    rows = capture.commands.select(_START.min().alias("first"), pl.col("cqe_tick").max().alias("last")).collect(engine="streaming")
    edges += [int(tick) for tick in rows.row(0) if tick is not None]
    events = capture.events.select(pl.col("tick").min().alias("first"), pl.col("tick").max().alias("last")).collect()
    edges += [int(tick) for tick in events.row(0) if tick is not None]
    rail = capture.rail if no_rail_reason(capture) is None else None
    if rail is not None:
        edges += [rail.first_tick, rail.tick_of(len(rail) - 1)]
    return (min(edges), max(edges) + 1) if edges else (0, 0)


def resolve(capture: Capture, start_s: float | None, stop_s: float | None) -> ExportWindow:
    """Return the window from ``start_s`` to ``stop_s``, clipped to the capture. Raises UsageError if it does not overlap the capture.

    The times are seconds from the capture's first tick, as on the report's time axis; None is the capture's own end.
    """
    tick_s = capture.tick_ps * 1e-12
    zero, end = extent(capture)
    first = zero if start_s is None else max(zero, zero + round(start_s / tick_s))
    last = end if stop_s is None else min(end, zero + round(stop_s / tick_s))
    if last <= first:
        length = (end - zero) * tick_s
        raise UsageError(
            f"Nothing lies between {start_s or 0:g} s and {length if stop_s is None else stop_s:g} s: "
            f"the capture is {length:.6g} s long, counted from its first tick."
        )
    return ExportWindow(first, last, zero, tick_s)


def of_ticks(capture: Capture, begin_tick: int, end_tick: int) -> ExportWindow:
    """Return the window ``[begin_tick, end_tick)``, clipped to the capture. Raises UsageError if it does not overlap the capture."""
    zero, end = extent(capture)
    first, last = max(begin_tick, zero), min(end_tick, end)
    if last <= first:
        raise UsageError(f"Nothing lies between the ticks {begin_tick} and {end_tick}: the capture has {zero} to {end}.")
    return ExportWindow(first, last, zero, capture.tick_ps * 1e-12)


class Selection:
    """The data of a capture that overlaps a window; each part is read on first use."""

    def __init__(self, capture: Capture, window: ExportWindow) -> None:
        self.capture, self.window = capture, window
        self.tick_s = window.tick_s

    @cached_property
    def rail(self) -> RailReader | None:
        """The waveform of the whole capture; None without one, or if it is dead."""
        return self.capture.rail if no_rail_reason(self.capture) is None else None

    def samples(self) -> tuple[int, int]:
        """Samples of the rail within the window: (first, behind the last)."""
        if self.rail is None:
            return 0, 0
        return self.rail.sample_at(self.window.first_tick), self.rail.sample_at(self.window.last_tick)

    @property
    def begun_inside(self) -> pl.LazyFrame:
        """Rows of ``commands.parquet`` that begin within the window, in order of their starts."""
        return self._rows(_START.ge(self.window.first_tick) & _START.lt(self.window.last_tick))

    @property
    def overlapping_rows(self) -> pl.LazyFrame:
        """Rows of ``commands.parquet`` in flight at any instant of the window, in order of their starts."""
        return self._rows((pl.col("cqe_tick") >= self.window.first_tick) & _START.lt(self.window.last_tick))

    def _rows(self, where: pl.Expr) -> pl.LazyFrame:
        return self.capture.commands.filter(where).sort(_START, maintain_order=True)

    @cached_property
    def overlapping(self) -> Commands:
        """The same as arrays, markers included."""
        return load_commands(self.overlapping_rows, lba_sizes(self.capture.meta)[0])

    @cached_property
    def markers(self) -> npt.NDArray[np.bool_]:
        """Mask of the in-band markers in :attr:`overlapping`."""
        return is_marker(self.overlapping, marking_of(self.capture.meta))

    @cached_property
    def all_events(self) -> pl.DataFrame:
        """Events up to the end of the capture, in order of time: levels hold from before the window, phases end behind it."""
        frame: pl.DataFrame = self.capture.events.sort("tick", maintain_order=True).collect()
        return frame

    @property
    def events(self) -> pl.DataFrame:
        """Events within the window."""
        return self.all_events.filter((pl.col("tick") >= self.window.first_tick) & (pl.col("tick") < self.window.last_tick))

    @cached_property
    def phases(self) -> list[Phase]:
        """Phases that overlap the window."""
        found = find_phases(self.all_events, self.capture.meta.get("workload") or {}, self.window.last_tick)
        return [phase for phase in found if phase.first_tick < self.window.last_tick and phase.last_tick > self.window.first_tick]

    @cached_property
    def gaps(self) -> pl.DataFrame:
        """Gaps that overlap the window."""
        frame: pl.DataFrame = self.capture.gaps.filter(
            (pl.col("first_tick") < self.window.last_tick) & (pl.col("last_tick") >= self.window.first_tick)
        ).collect()
        return frame


def track(events: pl.DataFrame, kind: EventType, mask: int, initial: int) -> tuple[Int64, npt.NDArray[np.uint16]]:
    """Return (ticks of changes, value before the first and after each) of a level; a pin had the other level before its first change.

    initial: value if nothing was recorded
    """
    rows = events.filter(pl.col("type") == int(kind))
    values = (rows["arg8"].to_numpy() & mask).astype(np.uint16)
    before = np.uint16(initial) if not len(values) or mask != 1 else np.uint16(1 - values[0])
    return rows["tick"].cast(pl.Int64).to_numpy(), np.concatenate(([before], values)).astype(np.uint16)


LEVELS = {"CLKREQ#": (EventType.CLKREQ, 1, 0), "PERST#": (EventType.PERST, 1, 1), "LINK": (EventType.LINK, 7, 0)}
"""For :func:`track`. Without a record: link in use (CLKREQ# low), drive out of reset (PERST# high), link state unknown."""


def command_name() -> pl.Expr:
    """Name of a command's opcode, from ``qid`` and ``opcode``; null for one that NVMe does not name."""
    io = pl.col("opcode").replace_strict(IO_OPCODES, default=None, return_dtype=pl.String)
    admin = pl.col("opcode").replace_strict(ADMIN_OPCODES, default=None, return_dtype=pl.String)
    return pl.when(pl.col("qid") > 0).then(io).otherwise(admin)


def command_bytes(capture: Capture) -> pl.Expr:
    """Bytes of a command: blocks times the LBA size of its namespace; 0 of one that moves none."""
    sizes, _ = lba_sizes(capture.meta)
    lba = pl.lit(sizes[0], dtype=pl.Int64)
    for nsid, size in sizes.items():
        if nsid:
            lba = pl.when(pl.col("nsid") == nsid).then(pl.lit(size, dtype=pl.Int64)).otherwise(lba)
    sized = (pl.col("qid") > 0) & pl.col("opcode").is_in(SIZED_OPCODES)
    return pl.when(sized).then(pl.col("blocks").cast(pl.Int64) * lba).otherwise(0)
