"""Map the clock of a waveform onto a clock of the host.

There are three ways. ``utc`` uses the waveform's own times of day. ``offset`` uses the begin of the work as the user states it. ``edges``,
the default, uses the edges that the work makes in the power. Each way gives a bounded map from the host's ns to ns after the waveform's
first sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from ..clocks.edges import match_edges
from ..clocks.map import ClockMap
from ..errors import CaptureError, ClockError, UsageError
from ..formats import Waveform
from .load import WorkTimes
from .profile import profile

MOST_DRIFT = 200e-6
"""Largest relative drift between two clocks with crystals of 100 ppm each."""
NEAR_S = 15.0
"""Distance in s within which a waveform with times of day is sought first: two clocks that nobody keeps may differ so much."""
_PLACES = 60_000
"""In how many steps a range of offsets is gone through at most (:func:`~..clocks.edges.match_edges`)."""
_LEAST_STEPS = 4
Way = Literal["edges", "utc", "offset"]
_APART = "WARNING: by their times of day the two files are of different runs, or a clock is wrong, by, s"


@dataclass(frozen=True)
class Align:
    """The user's wishes for the alignment.

    u_s: limit of the error in s, as the user states it, for ``utc`` and ``offset``
    offset_s: s from the first sample of the waveform to the begin of the first work
    """

    way: Way = "edges"
    u_s: float | None = None
    offset_s: float = 0.0


@dataclass(frozen=True)
class Aligned:
    """An alignment.

    clock: from the host's ns to the waveform's
    details: further facts for ``conditions``, as words and numbers
    """

    clock: ClockMap
    load: WorkTimes
    details: dict[str, float | str] = field(default_factory=dict)

    @property
    def begin_s(self) -> float:
        """Begin of the first work, in s after the first sample of the waveform."""
        return float(self.clock.to_reference(self.load.first_ns)) * 1e-9

    def to_json(self) -> dict[str, float | str]:
        """Return the form for ``conditions`` of ``meta.json``."""
        return {
            "clock": self.load.clock,
            "against": self.load.what,
            "method": self.clock.method,
            "work_begins_s": self.begin_s,
            "drift": self.clock.drift,
            "bound_s": self.clock.bound_s,
            **self.details,
        }

    def sentence(self) -> str:
        """The outcome in words."""
        more = "".join(f"; {name} {value if isinstance(value, str) else f'{value:.3g}'}" for name, value in self.details.items())
        return (
            f"clocks of the waveform and of {self.load.what} aligned by {self.clock.method}: the work begins at {self.begin_s:.6f} s of "
            f"the waveform, drift {self.clock.drift * 1e6:+.2f} ppm, bound {self.clock.bound_s * 1e3:.3g} ms{more}"
        )


def align(waveform: Waveform, load: WorkTimes, wanted: Align) -> Aligned:
    """Return the map of a load's clock onto the waveform's clock. Raises CaptureError with advice if the two cannot be aligned."""
    if wanted.way == "utc":
        return _by_utc(waveform, load, wanted)
    if wanted.way == "offset":
        return _by_offset(load, wanted)
    return _by_edges(waveform, load)


def _by_utc(waveform: Waveform, load: WorkTimes, wanted: Align) -> Aligned:
    utc = waveform.about.utc
    if wanted.u_s is None:
        raise UsageError("--align utc: say how well the two clocks agreed, as --align-u 0.01 (seconds); no file does.")
    if utc is None:
        raise CaptureError("the waveform holds no time of day; align it by edges (the default) or with --offset.")
    if load.clock != "utc":
        raise CaptureError(f"{load.what} counts by {load.clock}, not by the time of day; align by edges (the default) or with --offset.")
    waveform_ns = np.rint(utc.index * (waveform.about.interval_s * 1e9)).astype(np.int64)
    middle = len(utc.ns) // 2
    at_utc, at_waveform = int(utc.ns[middle]), int(waveform_ns[middle])
    x, y = (utc.ns - at_utc).astype(np.float64), (waveform_ns - at_waveform).astype(np.float64)
    drift = level = 0.0
    if len(x) > 2 and float(np.ptp(x)) > 1e9:
        slope, level = np.polyfit(x, y, 1)
        drift = float(slope) - 1.0
        if abs(drift) > MOST_DRIFT:
            drift, level = 0.0, float(np.mean(y - x))
    scatter_s = float(np.max(np.abs(y - x * (1 + drift) - level))) * 1e-9
    fixed = drift != 0.0
    reach_s = _reach_s(load, at_utc)
    bound_s = wanted.u_s + scatter_s + (0.0 if fixed else MOST_DRIFT * reach_s)
    clock = ClockMap(at_utc, at_waveform + round(level), drift, bound_s, "the time of day in the file", load.first_ns, load.last_ns)
    return Aligned(clock, load, {"scatter of the times of day, s": scatter_s, "stated, s": wanted.u_s})


def _by_offset(load: WorkTimes, wanted: Align) -> Aligned:
    if wanted.u_s is None:
        raise UsageError(f"--offset {wanted.offset_s:g}: state how well you know it, as --offset {wanted.offset_s:g},0.005 (seconds).")
    bound_s = wanted.u_s + MOST_DRIFT * _reach_s(load, load.first_ns)
    clock = ClockMap(load.first_ns, round(wanted.offset_s * 1e9), 0.0, bound_s, "the stated offset", load.first_ns, load.last_ns)
    return Aligned(clock, load, {"stated, s": wanted.u_s, "drift assumed below, ppm": MOST_DRIFT * 1e6})


def _reach_s(load: WorkTimes, from_ns: int) -> float:
    """Longest way from an instant to one of a load."""
    return max(abs(load.first_ns - from_ns), abs(load.last_ns - from_ns)) * 1e-9


def _by_edges(waveform: Waveform, load: WorkTimes) -> Aligned:
    """Find the work in the power. If both files have times of day, search near those first; then search everywhere."""
    about = waveform.about
    time_s, power_w = profile(waveform)
    length_s = about.span * about.interval_s
    middle_ns = (load.first_ns + load.last_ns) // 2
    # (host ns that lies at the waveform's first sample if the offset is 0, how far from it the offset is looked for)
    anywhere = middle_ns - round(length_s / 2 * 1e9), (length_s + (load.last_ns - load.first_ns) * 1e-9) / 2
    tries = [anywhere]
    begin_ns: int | None = None
    if about.utc is not None and load.clock == "utc":
        begin_ns = int(about.utc.ns[0]) - round(int(about.utc.index[0]) * about.interval_s * 1e9)
        if anywhere[1] > NEAR_S:
            tries.insert(0, (begin_ns, NEAR_S))
    failure: ClockError | None = None
    for origin_ns, reach_s in tries:
        least_s = _LEAST_STEPS * 2 * reach_s / _PLACES
        spans = [((a - origin_ns) * 1e-9, (b - origin_ns) * 1e-9, load.edge_u_ns * 1e-9) for a, b in load.apart(least_s)]
        try:
            found = match_edges(time_s, power_w, spans, offset_limit_s=reach_s, drift_limit=MOST_DRIFT)
        except ClockError as error:
            failure = error
            continue
        back = found.inverse()
        moved = replace(back, source_ns=back.source_ns + origin_ns, first_ns=back.first_ns + origin_ns, last_ns=back.last_ns + origin_ns)
        details: dict[str, float | str] = {"no other place fits within, s": reach_s}
        if begin_ns is not None:
            apart_s = (load.first_ns - begin_ns - float(moved.to_reference(load.first_ns))) * 1e-9
            if abs(apart_s) > NEAR_S:
                details[_APART] = round(apart_s, 1)
        return Aligned(moved, load, details)
    raise CaptureError(
        f"{load.what} cannot be found in the waveform by the edges of its power: {failure} Or say where the work begins in the waveform, "
        f"as --offset S,U{', or use its times of day: --align utc --align-u U' if begin_ns is not None else ''}."
    )
