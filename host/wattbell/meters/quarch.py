"""Quarch power modules, through ``quarchpy`` and a running QIS (Quarch Instrument Server), which speaks lines of text over TCP.

QIS buffers the stream of a module. The command "stream text all" returns the new stripes, one a line: the time in us or ns, then the
channels that the header names. Times are multiples of the module's period, so missing stripes are missing on the grid.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..clocks.host import host_ns
from ..errors import CaptureError, RigError, UsageError
from ..formats.quarch import rails_of
from ..formats.ranges import QUARCH, LeftOut
from ..formats.waveform import WaveformPiece, believable, choose_rail, samples
from .arrivals import Arrivals, ArrivingMeter, Earliest
from .meter import ERRORS, ClockPair, MeterAbout, meter, options, stated

USAGE = "quarch:MODULE[@HOST[:PORT]],gain=G,offset=A[,rail=NAME][,average=N]"
_PORT = 9722
_NS = {"us": 1000, "ns": 1}
_TIMEBASE = 100e-6
_HEADER_TRIES, _HEADER_WAIT_S = 20, 0.1
_POLL_S = 0.02
_PERIOD = re.compile(r"^(\d+)\s*(ns|us|ms|s)$", re.IGNORECASE)
_UNIT_NS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}


@meter("Quarch power module, through QIS", USAGE, extra="quarch", needs=("quarchpy",))
def open_meter(rest: str) -> Quarch:
    """See :data:`USAGE`."""
    address, given = options(rest, USAGE, {"rail": str, "average": str, **ERRORS})
    module, _, where = address.partition("@")
    host, _, port = where.partition(":")
    if not module or (port and not port.isdigit()):
        raise UsageError(f"--meter quarch: give the module, {USAGE}, such as quarch:USB:QTL2312-01-017; QIS lists them.")
    if "gain" not in given or "offset" not in given:
        raise UsageError(
            "--meter quarch: say how accurate the module is, from its data sheet: gain= of the power (voltage and current together) and "
            "offset= of the current in A."
        )
    return Quarch(module, host or "127.0.0.1", int(port or _PORT), given)


class Quarch(ArrivingMeter[str]):
    """A module that QIS has."""

    def __init__(self, module: str, host: str, port: int, given: dict[str, Any]) -> None:
        from quarchpy.connection_specific.connection_QIS import QisInterface

        super().__init__()
        self._left_out = LeftOut(QUARCH)
        log = logging.getLogger("quarchpy")
        for handler in [one for one in log.handlers if not isinstance(one, logging.FileHandler)]:
            log.removeHandler(handler)  # it prints every fault, which is an error here already, to the terminal
        self._what = f"The module {module}"
        self._module = module
        try:
            self._qis: Any = QisInterface(host, port, connectionMessage=False)
        except Exception as error:  # the library raises bare Exceptions
            raise RigError(f"QIS at {host}:{port} cannot be reached ({_reason(error)}); start it (python -m quarchpy.run qis).") from None
        try:
            self._about, self._columns = self._open(given)
        except BaseException:
            self._close()
            raise
        self._began_ns = 0
        self._first: ClockPair | None = None
        self._last = -1
        self._pairs = Earliest(1.0)

    def _open(self, given: dict[str, Any]) -> tuple[MeterAbout, tuple[int, int, int, float, float, float]]:
        listed = [line.partition(") ")[2] or line for line in self._library(self._qis.get_device_list)]
        names = [name.replace("::", ":") for name in listed]
        if self._module.replace("::", ":") not in names:
            raise RigError(f"QIS does not have the module {self._module}; it lists {', '.join(listed) or 'none'}.")
        self._module = listed[names.index(self._module.replace("::", ":"))]
        if "average" in given:
            self._command(f"record:averaging {given['average']}")
        self._command("record:trigger:mode manual")
        self._command("rec stream")
        header, period = self._header()
        self._command("rec stop")
        fields = [name.strip() for name in header.split(",")]
        unit = fields[0].lower().removeprefix("time").strip()
        match = _PERIOD.match(period.strip())
        if unit not in _NS or match is None:
            raise RigError(f"{self._what} streams {header[:60]!r} every {period[:20]!r}: its firmware or QIS is too old; update them.")
        interval_ns = int(match[1]) * _UNIT_NS[match[2].lower()]
        try:
            rails = rails_of(self._what, fields)
            rail = choose_rail(
                self._what, [name for name, parts in rails.items() if {"current", "voltage"} <= set(parts)], given.get("rail")
            )
        except CaptureError as error:
            raise RigError(str(error).replace("--rail", "rail=")) from None
        (volts, volt), (amperes, ampere) = rails[rail]["voltage"], rails[rail]["current"]
        about = MeterAbout(
            model="Quarch power module",
            serial=self._module,
            firmware="",
            tick_ps=1000,
            interval_ticks=interval_ns,
            has_voltage=True,
            gain=float(given["gain"]),
            offset_a=float(given["offset"]),
            timebase=_TIMEBASE,
            accuracy="stated by the user from its data sheet; timebase assumed",
            conditions={"rail": rail},
            notes=(f"Quarch: rail {rail}, every {period}",),
        )
        timebase = {name: given[name] for name in ("timebase",) if name in given}
        return stated(about, timebase), (len(fields), volts, amperes, volt, ampere, _NS[unit])

    def _library(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call the library and return its result. Raises RigError for any Exception of the library."""
        try:
            return call(*arguments)
        except Exception as error:
            raise RigError(f"{self._what} or QIS is gone ({_reason(error)}). What it had sent is kept.") from None

    def _command(self, command: str) -> None:
        told = self._library(self._qis.send_command, command, self._module)
        if "OK" not in told:
            raise RigError(f"{self._what} answers {told[:60]!r} to {command}.")

    def _header(self) -> tuple[str, str]:
        for _ in range(_HEADER_TRIES):
            period = self._library(self._qis.stream_header_average, self._module)
            if "Not Available" not in period:
                return self._library(self._qis.stream_header_format, self._module), period
            time.sleep(_HEADER_WAIT_S)
        raise RigError(f"{self._what} does not say what it streams; is it switched on?")

    @property
    def about(self) -> MeterAbout:
        """See :class:`~.meter.Meter`."""
        return self._about

    def start(self) -> None:
        """See :class:`~.meter.Meter`."""

        def read() -> str:
            status, text = self._library(self._qis.stream_get_stripes_text, self._qis.streamSock, self._module)
            if "overrun" in status and not text:
                raise RigError(f"{self._what}: its buffer overran, since this host was too slow; give average=. What it had sent is kept.")
            if "stopped" in status and not text and not self._stopped:
                raise RigError(f"{self._what} was stopped by somebody else. What it had sent is kept.")
            if not text:
                time.sleep(_POLL_S)
            return str(text)

        self._began_ns = host_ns()
        self._command("rec stream")
        self._arrivals = Arrivals(self._what, read)

    def _feed(self, arrival_ns: int, piece: str) -> None:
        width, volts, amperes, volt, ampere, unit_ns = self._columns
        try:
            found = np.array(piece.split(), np.float64)
            rows = found.reshape(-1, width)
        except ValueError:
            raise RigError(f"{self._what} sends {piece[:60]!r}, and not {width} numbers a line. What it had sent is kept.") from None
        interval = self._about.interval_ticks
        at_ns = rows[:, 0] * unit_ns
        index = np.rint(at_ns / interval).astype(np.int64)
        if not len(index):
            return
        off = np.abs(at_ns - index * interval).max()
        steps = np.diff(index, prepend=self._last)
        if off > interval / 4 or (steps < 1).any():
            raise RigError(
                f"{self._what} changed its rate while it measured (stripes at {rows[0, 0]:.0f}...); begin again. What it had sent is kept."
            )
        self._last = int(index[-1])
        taken = WaveformPiece(index, (rows[:, volts] * volt).astype(np.float32), (rows[:, amperes] * ampere).astype(np.float32))
        made = samples(believable(taken, self._left_out, stated_volts=False), interval)
        if self._first is None:
            self._first = ClockPair(self._began_ns, arrival_ns, int(index[0]) * interval)
        self._pairs.add(arrival_ns, self._last * interval)
        if made is not None:
            self._out.append(made)

    def _end(self) -> None:
        """Stop the module, after which the stripes still in QIS are read."""
        self._command("rec stop")
        time.sleep(5 * _POLL_S)
        assert self._arrivals is not None, "start() comes first"
        self._arrivals.close()

    def clock_pairs(self) -> list[ClockPair]:
        """The first stripe was taken after the command to stream; of the others only their arrival is known."""
        return ([self._first] if self._first else []) + self._pairs.pairs()

    def remarks(self) -> list[str]:
        """See :class:`~.meter.Meter`."""
        return [f"Quarch: {note}" for note in self._left_out.notes()]

    def _close(self) -> None:
        self._qis.disconnect()
        self._qis.streamSock.close()


def _reason(error: Exception) -> str:
    return (str(getattr(error, "strerror", None) or error) or type(error).__name__).splitlines()[0][:120]
