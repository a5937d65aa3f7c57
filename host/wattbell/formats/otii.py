"""Otii: the CSV export, one file a channel.

``"Timestamp","Value"``, seconds and SI units. The file's name gives its quantity (``Main current``, ``mc``...), or ``--column
current=FILE`` does. The channels may differ in rate. A sample holds until the next of its channel, and each sample of the current goes with
the voltage (or power) of that time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CaptureError, UsageError
from .fileformat import file_format
from .grid import Placer, SampleGrid, Stamps, fit
from .ranges import OTII
from .text import F64, Head, TextColumns, fields, header, names
from .times import form_of
from .waveform import About, Waveform, WaveformOptions, WaveformPiece, no_volts, ticks, with_power

NAME, TITLE = "otii", "Otii CSV"
TAKES = frozenset({"columns"})
_COLUMNS = ["Timestamp", "Value"]
_ROUNDING = 1e-3
"""Share of an interval by which time stamps are rounded."""
_NAMES = {
    "current": re.compile(r"current|(^|[^a-z])(mc|ac|i)([^a-z]|$)"),
    "voltage": re.compile(r"voltage|(^|[^a-z])(mv|av|u|v)([^a-z]|$)"),
    "power": re.compile(r"power|(^|[^a-z])(mp|ap|p)([^a-z]|$)"),
}


def matches(head: Head) -> bool:
    """Whether the first lines are this program's, with times in seconds. Times of day under the same names are another program's."""
    first = fields(head.lines[1], ",")[:1] if len(head.lines) > 1 else []
    return names(head) == _COLUMNS and not any(form_of(time) for time in first)


@dataclass(frozen=True)
class _Channel:
    table: TextColumns
    grid: SampleGrid

    @property
    def end_s(self) -> float:
        return self.grid.first_s + self.grid.interval_s * self.grid.span

    def pieces(self) -> Iterator[tuple[npt.NDArray[np.int64], F64]]:
        """(place, value) of rows."""
        placer = Placer(self.table.path, self.grid.step_s)
        for rows in self.table.rows():
            yield placer.place(Stamps(rows.line, rows.columns[0], rows.lines)), rows.columns[1]


@file_format(NAME, TITLE, matches, TAKES, several=True)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
    """Raises CaptureError with the line."""
    channels: dict[str, _Channel] = {}
    for path in paths:
        role = _role(path, options)
        if role in channels:
            raise CaptureError(f"{path} and {channels[role].table.path} both hold the {role}; give one of them, or say --column ROLE=FILE.")
        _, found = header(path)
        if found != _COLUMNS:
            raise CaptureError(f"{path}, line 1: the columns are {', '.join(found)[:80]}, not Timestamp and Value as in the other files.")
        table = TextColumns(path, (0, 1), 2)
        channels[role] = _Channel(table, fit(path, (Stamps(rows.line, rows.columns[0], rows.lines) for rows in table.rows())))
    strange = [column.name for column in options.columns.values() if Path(column.name).name not in {path.name for path in paths}]
    if strange and "columns" not in options.for_others:
        raise UsageError(f"--column {strange[0]}: there is no such file among those to import; give the name of one.")
    return _together(channels, options)


def _role(path: Path, options: WaveformOptions) -> str:
    for role, column in options.columns.items():
        if Path(column.name).name == path.name:
            return role
    roles = [role for role, pattern in _NAMES.items() if pattern.search(path.stem.lower())]
    if len(roles) != 1:
        raise CaptureError(
            f"{path}: its name does not tell current, voltage or power; say --column current={path.name} (or voltage, power)."
        )
    return roles[0]


def _together(channels: dict[str, _Channel], options: WaveformOptions) -> Waveform:
    leading = next((role for role in ("current", "power") if role in channels), None)
    if leading is None:
        only = next(iter(channels.values()))
        raise CaptureError(f"{only.table.path}: there is a voltage and neither current nor power; give the file of the current, too.")
    main = channels[leading]
    path = main.table.path
    volts = None if "voltage" in channels else options.volts
    if "voltage" not in channels and volts is None:
        raise no_volts(path, f"there is only {leading}")
    others = {role: channel for role, channel in channels.items() if role != leading}
    for channel in others.values():
        slack = 1.5 * max(channel.grid.interval_s, main.grid.interval_s)
        if abs(channel.grid.first_s - main.grid.first_s) > slack or abs(channel.end_s - main.end_s) > slack:
            raise CaptureError(
                f"{channel.table.path} and {path} differ in length: {channel.grid.rows} and {main.grid.rows} rows, from "
                f"{channel.grid.first_s:.6g} to {channel.end_s:.6g} s and from {main.grid.first_s:.6g} to {main.end_s:.6g} s."
            )
    tick_ps, interval_ticks = ticks(main.grid.interval_s, main.grid.span, path)

    def read() -> Iterator[WaveformPiece]:
        held = {role: _Hold(channel) for role, channel in others.items()}
        for index, values in main.pieces():
            seconds = main.grid.first_s + index * main.grid.interval_s
            got = {role: hold.at(seconds) for role, hold in held.items()}
            got[leading] = values
            voltage = got.get("voltage", np.full(len(index), volts.value if volts else np.nan))
            current = got.get("current", np.zeros(len(index)))
            if "power" in got:
                current = with_power(voltage, current, got["power"])
            yield WaveformPiece(index, voltage.astype(np.float32), current.astype(np.float32))

    off = max(channel.grid.off_s for channel in channels.values())
    notes = [f"{role} every {c.grid.interval_s:.6g} s" for role, c in channels.items() if c.grid.interval_s != main.grid.interval_s]
    if any(c.table.unended for c in channels.values()):
        notes.append("the last line of a file has no end: it is left out, as it may be cut within a number")
    about = About(
        TITLE, "Otii", tick_ps, interval_ticks, main.grid.span, grid_s=min(off, 1.0), volts=volts, range_=OTII, notes=tuple(notes)
    )
    return Waveform(replace(about, conditions={"files": [c.table.path.name for c in channels.values()]}), read)


class _Hold:
    """The value of a channel at an instant: the sample that holds at that time; NaN if it is missing."""

    def __init__(self, channel: _Channel) -> None:
        self._grid = channel.grid
        self._pieces = channel.pieces()
        self._index = np.empty(0, np.int64)
        self._values: F64 = np.empty(0)
        self._ended = False

    def at(self, seconds: npt.NDArray[np.floating[Any]]) -> F64:
        """Return the values at ascending instants, no earlier than in the last call."""
        place = np.floor((seconds - self._grid.first_s) / self._grid.interval_s + _ROUNDING).astype(np.int64)
        while not self._ended and (not len(self._index) or self._index[-1] < place[-1]):
            index, values = next(self._pieces, (None, None))
            if index is None or values is None:
                self._ended = True
            else:
                self._index, self._values = np.concatenate((self._index, index)), np.concatenate((self._values, values))
        keep = int(np.searchsorted(self._index, place[0]))
        self._index, self._values = self._index[keep:], self._values[keep:]
        found = np.minimum(np.searchsorted(self._index, place), max(len(self._index) - 1, 0))
        if not len(self._index):
            return np.full(len(place), np.nan)
        return np.where(self._index[found] == place, self._values[found], np.nan)
