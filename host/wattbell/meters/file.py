"""Follow a file that another program appends to: rows in one of the formats of :mod:`..formats`.

The rows in the file at the start give its format and its grid, and are left out; samples are the rows behind them. A line counts once its
end is there. A time stamp places it, as in a finished file.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from .. import door, temporary
from ..capture.source import RailSource, Samples
from ..errors import CaptureError, RigError, UsageError
from ..formats import FORMATS, open_files
from ..formats.detect import detect
from ..formats.waveform import Growing, NamedColumn, Volts, Waveform, WaveformOptions, WaveformPiece, samples
from .arrivals import Arrivals, Earliest
from .meter import ERRORS, ClockPair, MeterAbout, meter, options, stated
from .volts import TOLERANCE, VOLTS, gain_with

USAGE = "file:PATH,gain=G,offset=A[,format=NAME][,time|current|voltage|power=COLUMN:UNIT][,rail=NAME][,interval=S][,volts=V][,volts_u=U]"
_FINISHED = {
    "jls": "its library writes the index when it closes the file, and cuts what is read before",
    "sigrok": "it is a ZIP archive, whose directory is written at the end",
    "ppk2-session": "it is a ZIP archive, whose directory is written at the end",
    "otii": "a channel is one file, exported when the recording is over",
}
"""Formats that do not grow, and why."""
_BEGINNING = 1 << 20
"""Bytes that tell the grid."""
_FEW, _ENOUGH = 3, 100
"""Lines without which there is no grid, and with which nothing is waited for."""
_WAIT_S, _LONG_S = 2.0, 20.0
_POLL_S = 0.02
_SLOW_S = 10.0
"""Programs write in blocks: silence for less than this is none."""
_CLOSE = 1e-4
_TIMEBASE = 100e-6
"""Relative error of the time base, assumed for an instrument without published figures."""


def _column(text: str) -> NamedColumn:
    name, colon, unit = text.rpartition(":")
    return NamedColumn(name, unit) if colon else NamedColumn(text)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e4:
        raise ValueError
    return value


@meter("a CSV file that another program appends to", USAGE)
def open_meter(rest: str) -> File:
    """See :data:`USAGE`."""
    roles = ("time", "current", "voltage", "power")
    known: dict[str, Callable[[str], object]] = {"format": str, "rail": str, "interval": _positive, **dict.fromkeys(roles, _column)}
    path, given = options(rest, USAGE, {**known, **VOLTS, **ERRORS})
    if not path:
        raise UsageError(f"--meter file: give the file, {USAGE}.")
    if "gain" not in given or "offset" not in given:
        raise UsageError(
            "--meter file: say how accurate its instrument is: gain= of the power (voltage and current together, such as 0.003) and "
            "offset= of the current in A (such as 0.002)."
        )
    columns = {role: given[role] for role in roles if role in given}
    return File(Path(path), columns, given)


class File:
    """An open file that grows."""

    def __init__(self, path: Path, columns: dict[str, Any], given: dict[str, Any]) -> None:
        self._path = path
        self._what = f"The file {path}"
        value = given.get("volts")
        volts = None if value is None else Volts(value, given.get("volts_u", TOLERANCE * value))
        asked = WaveformOptions(rail=given.get("rail"), volts=volts, columns=columns, interval_s=given.get("interval"))
        try:
            title, waveform = self._begin(asked, given.get("format", "csv" if columns else None))
        except CaptureError as error:
            raise RigError(str(error)) from None
        if waveform.grow is None:
            raise RigError(
                f"{path}: its times lie on no grid, and cannot be placed while it grows; record without a meter, and import it when it is "
                "finished (wattbell import)."
            )
        about = waveform.about
        gain, told = float(given["gain"]), "stated by the user"
        if about.volts is not None:
            _, gain, told_volts = gain_with(gain, given)
            told += f"; {told_volts}"
        timebase = _TIMEBASE
        if about.grid_s > _CLOSE * about.interval_s:
            timebase += 2 * about.grid_s / (about.span * about.interval_s)
        self._about = stated(
            MeterAbout(
                model=about.instrument if about.instrument != "unknown" else title,
                serial=about.serial or path.name,
                firmware=about.firmware,
                tick_ps=about.tick_ps,
                interval_ticks=about.interval_ticks,
                has_voltage=about.volts is None,
                gain=gain,
                offset_a=float(given["offset"]),
                timebase=timebase,
                accuracy=told,
                placement_u_s=about.grid_s,
                conditions=about.conditions,
                notes=(f"read from {path.name} ({title}) while it grew", *about.notes),
            ),
            {name: given[name] for name in ("timebase",) if name in given},
        )
        self._growing: Growing = waveform.grow(path)
        self._arrivals: Arrivals[WaveformPiece] | None = None
        self._old = 0
        """Place of the last row that was there before the start."""
        self._pairs = Earliest(about.tick_ps / 1000)
        self._stopped = False
        self._failed: RigError | None = None

    def _begin(self, asked: WaveformOptions, name: str | None) -> tuple[str, Waveform]:
        """The format's title, and the beginning of the file as a file of its own. Waits for some rows."""
        end = time.monotonic() + _LONG_S
        patience = time.monotonic() + _WAIT_S
        while True:
            whole = self._whole_lines()
            lines = whole.count(b"\n")
            if lines >= _ENOUGH or (lines > _FEW and time.monotonic() > patience) or b"\0" in whole[:4096]:
                break
            if time.monotonic() > end:
                raise CaptureError(f"{self._path} has {lines} lines and does not grow; start the program that writes it first.")
            time.sleep(_POLL_S)
        with temporary.folder() as folder:
            copy = folder / self._path.name
            copy.write_bytes(whole)
            try:
                kind = FORMATS[name] if name is not None and name in FORMATS else detect(copy)
                if kind.name in _FINISHED:
                    raise CaptureError(
                        f"{copy}: {kind.title} cannot be read while it grows ({_FINISHED[kind.name]}); record without a meter, and import "
                        "it when it is finished (wattbell import)."
                    )
                _, waveform = open_files([copy], asked, name)
            except (CaptureError, UsageError) as error:
                raise type(error)(_as_options(str(error).replace(str(copy), str(self._path)))) from None
        return kind.title, waveform

    def _whole_lines(self) -> bytes:
        try:
            with door.open_file(self._path, door.LOG) as file:
                data = file.read(_BEGINNING)
        except OSError as error:
            raise CaptureError(f"{self._path} cannot be read ({error.strerror}).") from None
        if b"\0" in data[:4096]:
            return data
        return data[: data.rfind(b"\n") + 1]

    @property
    def about(self) -> MeterAbout:
        """See :class:`~.meter.Meter`."""
        return self._about

    def start(self) -> None:
        """See :class:`~.meter.Meter`."""
        pieces = self._growing.read
        try:
            while (piece := next(pieces)) is not None:
                self._old = int(piece.index[-1])
        except CaptureError as error:
            raise RigError(str(error)) from None

        def read() -> WaveformPiece | None:
            try:
                piece = next(pieces)
            except CaptureError as error:
                raise RigError(f"{error} What came before is kept.") from None
            if piece is None:
                time.sleep(_POLL_S)
            return piece

        self._arrivals = Arrivals(self._what, read, _SLOW_S)

    def read(self, timeout_s: float) -> list[RailSource]:
        """See :class:`~.meter.Meter`."""
        assert self._arrivals is not None, "start() comes first"
        out: list[RailSource] = []
        for arrival_ns, piece in self._arrivals.take(timeout_s, ending=self._stopped):
            index = piece.index - self._old - 1
            made: Samples | None = samples(WaveformPiece(index, piece.voltage_v, piece.current_a), self._about.interval_ticks)
            if made is not None:
                out.append(made)
                self._pairs.add(arrival_ns, int(index[-1]) * self._about.interval_ticks)
        return out

    def stop(self) -> None:
        """See :class:`~.meter.Meter`."""
        if self._arrivals is not None and not self._stopped:
            self._stopped = True
            self._arrivals.close()

    def clock_pairs(self) -> list[ClockPair]:
        """Return pairs of the arrival of rows. Their program may have held rows back for long."""
        return self._pairs.pairs()

    def remarks(self) -> list[str]:
        """See :class:`~.meter.Meter`."""
        return self._growing.remarks()

    def __enter__(self) -> File:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _as_options(text: str) -> str:
    """An error of a reader, which speaks of the options of ``wattbell import``."""
    text = text.replace("--volts 3.3,0.05", "volts=3.3,volts_u=0.05").replace("--column ", "")
    return re.sub(r"--(format|rail|interval|volts)[ ]", r"\1=", text)
