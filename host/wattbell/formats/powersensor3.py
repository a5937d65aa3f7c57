"""PowerSensor3: the dump file of its host library.

``marker time dt_micro device_timestamp current0 voltage0 power0 ... power_total``, by spaces; unused pairs are left out. ``time`` (s) is
the host's, when it read the sample, with six digits (or UTC with microseconds). ``device_timestamp`` is the device's own microsecond modulo
1024 (``PowerSensor.cc``). Samples are placed by the device's time. A loss of more than a millisecond shows only in the host's time, as a
lasting delay. The delay counts as whole turns of the device's counter, if the host's time resolves that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..errors import CaptureError
from .fileformat import file_format
from .grid import SampleGrid
from .ranges import POWERSENSOR3
from .rows import waveform
from .text import F64, Head, Rows, TextColumns, header
from .waveform import About, Utc, Waveform, WaveformOptions, choose_rail

NAME, TITLE = "powersensor3", "PowerSensor3 dump"
TAKES = frozenset({"rail"})
_BEGIN = ["marker", "time", "dt_micro", "device_timestamp"]
_TURN_US = 1024
_LOSS_US = 900.0
_WINDOW_ROWS = 4000
"""0.2 s: a delay of the host that lasts longer than this is a loss."""
_EPOCH_S = 1e9
"""A host's time above this is UTC: 2001."""


def matches(head: Head) -> bool:
    """Whether the first line is the library's."""
    return bool(head.lines) and head.lines[0].split()[:4] == _BEGIN


def _is_marker(line: str) -> bool:
    """Whether it is a marker on a line of its own, ``M A`` or ``M start stop tag "name"``, as the library writes (``mark``) or wrote before
    1d2c7f2 (``writeMarker``)."""
    return line.startswith("M ")


@file_format(NAME, TITLE, matches, TAKES)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
    """Raises CaptureError with the line."""
    (path,) = paths
    _, found = header(path, " ")
    if found[:4] != _BEGIN:
        raise CaptureError(f"{path}, line 1: it does not begin with {' '.join(_BEGIN)}.")
    pairs = [match[1] for name in found if (match := re.fullmatch(r"current(\d+)", name)) and f"voltage{match[1]}" in found]
    wanted = None if options.rail is None else options.rail.removeprefix("pair").strip()
    pair = choose_rail(path, pairs, wanted)
    places = [found.index(name) for name in ("time", "device_timestamp", f"voltage{pair}", f"current{pair}")]
    table = TextColumns(path, places, len(found), " ", foreign=_is_marker)
    first: list[float] = []

    def values(rows: Rows) -> tuple[F64, F64]:
        return rows.columns[2], rows.columns[3]

    def seconds() -> Callable[[Rows], F64]:
        clock = _DeviceClock(path)

        def stamps(rows: Rows) -> F64:
            if not first:
                first.append(float(rows.columns[0][0]))
            return clock.seconds(rows)

        return stamps

    def about(_grid: SampleGrid, _table: TextColumns) -> About:
        utc = Utc(np.zeros(1, np.int64), np.array([round(first[0] * 1e9)], np.int64)) if first[0] > _EPOCH_S else None
        return About(TITLE, "PowerSensor3", 0, 0, 0, utc=utc, range_=POWERSENSOR3, conditions={"rail": f"pair {pair}"})

    return waveform(table, seconds, values, about)


class _DeviceClock:
    """The device's time in one count, out of its remainder of 1024 us."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first_us: float | None = None
        """The host's time at the first row."""
        self._stamp = self._host_us = self._now_us = 0.0
        self._lag_us: float | None = None
        """Least delay of the host behind the device in the rows before."""

    def seconds(self, rows: Rows) -> F64:
        """Return the times of further rows in s. Raises CaptureError with the line."""
        host, stamp = rows.columns[0] * 1e6, rows.columns[1]
        bad = ~((stamp >= 0) & (stamp < _TURN_US) & np.isfinite(host))
        if bad.any():
            at = int(np.argmax(bad))
            raise CaptureError(
                f"{self._path}, line {rows.line_of(at)}: device_timestamp {stamp[at]:g} is not within 0 .. 1023, or no time."
            )
        if self._first_us is None:
            self._first_us, self._stamp, self._host_us = float(host[0]), float(stamp[0]), float(host[0])
        steps = np.diff(stamp, prepend=self._stamp) % _TURN_US
        waits = np.diff(host, prepend=self._host_us)
        delay = (host - self._first_us) - (self._now_us + np.cumsum(steps))
        limit = max(_LOSS_US, 2 * _resolution_us(float(host[-1])))
        for begin in range(0, len(steps), _WINDOW_ROWS):
            window = slice(begin, begin + _WINDOW_ROWS)
            least = float(delay[window].min())
            if self._lag_us is not None and least - self._lag_us > limit:
                turns = round((least - self._lag_us) / _TURN_US)
                at = begin + int(np.argmax(waits[window]))
                steps[at] += turns * _TURN_US
                delay[at:] -= turns * _TURN_US
                least = float(delay[window].min())
            self._lag_us = least
        found = self._now_us + np.cumsum(steps)
        self._stamp, self._host_us, self._now_us = float(stamp[-1]), float(host[-1]), float(found[-1])
        seconds: F64 = found * 1e-6
        return seconds


def _resolution_us(host_us: float) -> float:
    """Return the resolution in us of the host's time in the file: six significant digits, or a microsecond of UTC."""
    seconds = abs(host_us) * 1e-6
    return 1.0 if seconds > _EPOCH_S or seconds < 1.0 else 10.0 ** (math.floor(math.log10(seconds)) + 1)
