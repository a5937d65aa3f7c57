"""A picture of a stretch of a capture."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from wattbell_spec.wire import CommandFlag

from ..capture import Capture
from ..capture.rail import RailReader
from ..errors import CaptureError, UsageError
from ..measure.depth import depth_steps
from ..measure.phases import Phase
from ..measure.table import lba_sizes, load_commands
from ..origin import origin_of_capture
from ..present.capture import series
from ..present.capture.lanes import ROWS, chosen, lanes
from ..present.chart import PhaseStretch, TimeLine
from .frames import START
from .span import Bounds

_POINTS = 1800
"""Intervals of a row: about two a pixel of the picture."""
_USUAL = ("power", "throughput", "queue-depth", "latency")
_COLUMNS = ("start_tick", "doorbell_tick", "fetch_tick", "cqe_tick", "nbytes", "opcode", "qid", "status", "flags")


@dataclass(frozen=True, eq=False)
class Plot:
    """A picture. In a notebook it shows itself; ``figure`` is matplotlib's, to be changed at will."""

    figure: Any

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it; ``path`` ends in .png, .svg or .pdf. Raises CaptureError when it cannot be written there."""
        target = Path(path)
        if target.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise UsageError(f"{target.name} is neither .png nor .svg nor .pdf: give it one of these endings.")
        try:
            self.figure.savefig(target, dpi=160, facecolor="white")
        except OSError as error:
            raise CaptureError(f"The picture cannot be written to {target} ({error.strerror or error}); choose another place.") from None
        return target

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.figure.savefig(out, format="png", dpi=110, facecolor="white")
        return out.getvalue()


def draw(
    capture: Capture,
    bounds: Bounds,
    phases: Sequence[Phase],
    reader: RailReader | None,
    span: tuple[int, int],
    rows: Sequence[str] | None,
    title: str | None,
) -> Plot:
    """The rows of ``span`` (ticks), each as far as there is something to draw."""
    if isinstance(rows, str):
        rows = [rows]
    unknown = [row for row in rows or () if row not in ROWS]
    if unknown:
        raise UsageError(f"There is no row {unknown[0]!r}: choose of {', '.join(ROWS)}.")
    first, last = span
    t0_s, t1_s = bounds.seconds(first), bounds.seconds(last)
    rail = {}
    if reader is not None:
        begin, end = reader.sample_at(first), reader.sample_at(last)
        if begin < end:
            rail = series.rail(reader, bounds.first_tick, bounds.tick_s, begin, end, _POINTS)
    lazy = capture.commands.filter((pl.col("cqe_tick") >= first) & START.lt(last) & (pl.col("qid") > 0))
    flying = load_commands(lazy, lba_sizes(capture.meta)[0], _COLUMNS)
    known = flying.take(~flying.has(CommandFlag.NO_SQE))
    steps = depth_steps(known.start_tick, np.maximum(known.cqe_tick, known.start_tick))
    # bins so short that a zoom shows single commands, and so long that a bin is more than a line
    bins = series.load_bins(first, last, bounds.tick_s, _POINTS // 3, shortest_s=1e-6)
    ended = series.completed(flying.take(flying.cqe_tick < last))
    made = lanes(rail, ended, steps, bins, bounds.tick_s, t0_s, "doorbell")
    have = [lane.key for lane in made]
    missing = [row for row in rows or () if row not in have]
    if missing or not made:
        there = f"It has {', '.join(have)}." if have else "It has nothing to draw."
        what = f"The capture has no {missing[0]}" if missing else "There is nothing to draw"
        raise UsageError(f"{what} from {t0_s:g} s to {t1_s:g} s. {there}")
    shown = chosen(made, rows if rows is not None else [row for row in _USUAL if row in have] or have)
    stretches = [PhaseStretch(p.number, p.name, bounds.seconds(p.first_tick), bounds.seconds(p.last_tick)) for p in phases]
    lost = capture.gaps.filter((pl.col("last_tick") >= first) & (pl.col("first_tick") <= last)).select("first_tick", "last_tick").collect()
    gaps = [(bounds.seconds(a), bounds.seconds(b)) for a, b in lost.rows()]
    whole = TimeLine(shown, t1_s, stretches, gaps, t0_s)
    from ..present.pictures import stacked  # takes a second, for matplotlib

    name = str((capture.meta.get("drive") or {}).get("model") or capture.path.name) if title is None else title
    return Plot(stacked(whole, name, origin_of_capture(capture.meta).warning))
