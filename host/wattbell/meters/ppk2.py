"""Nordic Power Profiler Kit II, through ``ppk2-api``.

The library opens the port, reads the calibration and turns words into microamperes, with the filter of Nordic's own program behind a change
of range. What it throws away is read here, by the layout of ``serialDevice.ts`` in pc-nrfconnect-ppk: a word of a sample has the range in
bits 14 to 16 and a number modulo 64 in bits 18 to 23, which tells of lost samples.
"""

from __future__ import annotations

import logging
import math
import os
import select
from typing import Any

import numpy as np
import numpy.typing as npt
import serial
from serial.tools import list_ports
from wattbell_spec.wire import RailFlag

from ..capture.source import blocks
from ..clock import host_ns
from ..errors import RigError, UsageError
from .arrivals import Arrivals, ArrivingMeter, Earliest
from .meter import ERRORS, ClockPair, MeterAbout, options, stated
from .numbered import Numbered, Run
from .volts import VOLTS, gain_with

USAGE = "ppk2:PORT,volts=V[,volts_u=U][,mode=ampere|source]"
_INTERVAL_NS = 10_000
_TURN = 64
_WORD = 4
_MOST_A = 1.0
_ADC_END = (1 << 14) - 1
_HIGHEST_RANGE = 4
GAIN = 0.15
"""Of the highest range; 10 % in the others."""
OFFSET_A = 50e-6
"""The resolution from 6 mA up; that of the highest range, 1 mA above 60 mA, is less than its gain error."""
TIMEBASE = 50e-6
ACCURACY = (
    "Nordic, PPK2 user guide: typical, not guaranteed, 15 % above 60 mA, 10 % below; offset its resolution above 6 mA; timebase assumed"
)
_QUIET_S, _MOST_DRAINED = 0.1, 1 << 22
_TRIES = 3
"""The library waits half a second for the calibration, and wants it in one piece."""
_ALIGNED = 0.5
"""Share of words whose number follows the one before, below which a word does not begin where it was thought to."""
_LOOK = 256
"""Words that are looked at for that."""
_MOST_GARBAGE = 400_000
"""Bytes: a second's."""


def _mode(text: str) -> str:
    if text not in ("ampere", "source"):
        raise ValueError
    return text


def open_meter(rest: str) -> Ppk2:
    """See :data:`USAGE`."""
    port, given = options(rest, USAGE, {"mode": _mode, **VOLTS, **ERRORS})
    if not port:
        raise UsageError(f"--meter ppk2: give its port, {USAGE}; see `ls /dev/serial/by-id`.")
    try:
        volts, gain, told = gain_with(GAIN, given)
    except UsageError as error:
        raise UsageError(f"--meter ppk2: {error}") from None
    if not 0.8 <= volts <= 5:
        raise UsageError(f"--meter ppk2: volts={volts:g}: a PPK2 works from 0.8 to 5 V.")
    return Ppk2(port, volts, gain, told, given)


class Ppk2(ArrivingMeter[bytes]):
    """An open PPK2. In the mode ``source`` it feeds the drive, and goes on to when it is closed."""

    def __init__(self, port: str, volts: float, gain: float, told: str, given: dict[str, Any]) -> None:
        from ppk2_api.ppk2_api import PPK2_API

        super().__init__()
        self._what = f"The PPK2 at {port}"
        self._volts = volts
        mode = given.get("mode", "ampere")
        try:
            self._api = PPK2_API(port, timeout=1, write_timeout=1, exclusive=True)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise RigError(f"{port} cannot be opened ({reason}); check the name, that you may use it, and that nobody else does.") from None
        self._port: serial.Serial = self._api.ser
        try:
            settings = self._settings()
            self._set(mode, settings)
        except OSError as error:
            self._port.close()
            raise RigError(f"{self._what} was lost while it was asked for its settings ({error.strerror or error}).") from None
        except BaseException:
            self._port.close()
            raise
        usb = next((found for found in list_ports.comports() if found.device == port), None)
        calibrated = settings.get("Calibrated") != "0"
        notes = [
            f"PPK2: it measures no voltage; {told}",
            "PPK2: where samples were lost, how many is known modulo 64 (0.64 ms) and else from their arrival",
        ]
        if not calibrated:
            notes.append("PPK2: it says of itself that it is not calibrated")
        self._flags = 0 if calibrated else int(RailFlag.UNCALIBRATED)
        self._about = stated(
            MeterAbout(
                model=f"Nordic PPK2 ({mode})",
                serial=(usb.serial_number if usb else None) or port,
                firmware=f"HW {settings.get('HW')}",
                tick_ps=1000,
                interval_ticks=_INTERVAL_NS,
                has_voltage=False,
                gain=gain,
                offset_a=OFFSET_A,
                timebase=TIMEBASE,
                accuracy=f"{ACCURACY}; {told}",
                notes=tuple(notes),
            ),
            given,
        )
        self._numbered = Numbered(_TURN, _INTERVAL_NS)
        self._bytes = b""
        self._garbage = 0
        self._began_ns = 0
        self._first: ClockPair | None = None
        self._pairs = Earliest(1.0)
        self._range: int | None = None
        self._changes = 0

    # -- opening -------------------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, str]:
        api = self._api
        api.stop_measuring()  # a host that died may have left it sending
        self._drain()
        # names that the library is to pick from the answer besides its own
        api.modifiers |= {"VDD": None, "mode": None}
        read = None
        for _ in range(_TRIES):
            try:
                read = api.get_modifiers()
            except (UnicodeDecodeError, ValueError):
                read = None
            if read:
                break
            self._drain()
        if not read:
            raise RigError(f"{self._what} does not tell its calibration; is it a PPK2, and is this the first of its two ports?")
        for name in ("R", "GS", "GI", "O", "S", "I", "UG"):
            for number, value in api.modifiers[name].items():
                if not math.isfinite(value) or (name == "R" and value == 0):
                    raise RigError(f"{self._what} has no usable calibration ({name}{number} is {value}); restore it first.")
        return {name: str(value) for name, value in api.modifiers.items() if isinstance(value, str)}

    def _drain(self) -> None:
        drained = 0
        while select.select([self._port.fileno()], [], [], _QUIET_S)[0]:
            data = os.read(self._port.fileno(), 1 << 16)
            if not data:
                raise OSError("hung up")
            drained += len(data)
            if drained > _MOST_DRAINED:
                raise RigError(f"{self._what} does not stop sending when it is told to; is it a PPK2? Unplug it and try again.")

    def _set(self, mode: str, settings: dict[str, str]) -> None:
        """Only what is not so already: each of these may interrupt the drive's supply."""
        api = self._api
        api.current_vdd = round(self._volts * 1000)
        if settings.get("mode") != {"ampere": "1", "source": "2"}[mode]:
            (api.use_ampere_meter if mode == "ampere" else api.use_source_meter)()
        if mode == "source" and settings.get("VDD") != str(api.current_vdd):
            api.set_source_voltage(api.current_vdd)
        api.toggle_DUT_power("ON")

    # -- the meter -----------------------------------------------------------------------------------------------------

    @property
    def about(self) -> MeterAbout:
        """See :class:`~.meter.Meter`."""
        return self._about

    def start(self) -> None:
        """See :class:`~.meter.Meter`."""
        descriptor = self._port.fileno()

        def read() -> bytes:
            if not select.select([descriptor], [], [], 0.1)[0]:
                return b""
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise OSError("hung up")
            return data

        self._arrivals = Arrivals(self._what, read)
        self._began_ns = host_ns()
        self._api.start_measuring()

    def _release(self) -> None:
        self._convert(host_ns())
        self._emit(self._numbered.release())

    def _end(self) -> None:
        logging.getLogger().addFilter(_no_word_of_it)
        try:
            self._api.stop_measuring()
        finally:
            logging.getLogger().removeFilter(_no_word_of_it)

    def _close(self) -> None:
        self._port.close()

    def clock_pairs(self) -> list[ClockPair]:
        """The first sample was taken after the command to start; of the others only their arrival is known."""
        return ([self._first] if self._first else []) + self._pairs.pairs()

    def remarks(self) -> list[str]:
        """See :class:`~.meter.Meter`."""
        found = []
        if self._changes:
            found.append(f"PPK2: it changed its range {self._changes} times; 4 samples behind each are smoothed by Nordic's filter")
        if unseen := self._numbered.unseen():
            found.append(
                f"PPK2: about {unseen} samples more are missing, in multiples of 64 that their numbers do not show: from some instant on "
                "all arrived later by as much"
            )
        if self._garbage:
            found.append(f"PPK2: {self._garbage} bytes that were no samples are left out")
        return found

    # -- from bytes to samples -----------------------------------------------------------------------------------------

    def _feed(self, arrival_ns: int, piece: bytes) -> None:
        self._bytes += piece
        if len(self._bytes) >= _LOOK * _WORD:
            self._bytes = self._aligned(self._bytes)
            self._convert(arrival_ns)

    def _convert(self, arrival_ns: int) -> None:
        whole = len(self._bytes) // _WORD * _WORD
        if not whole:
            return
        raw, self._bytes = self._bytes[:whole], self._bytes[whole:]
        words = np.frombuffer(raw, "<u4")
        self._emit(self._numbered.feed(arrival_ns, _numbers(words), words))

    def _aligned(self, data: bytes) -> bytes:
        """`data` from where a word begins. Raises RigError when there is none for a second."""
        begins = [float(np.mean(np.diff(_numbers(np.frombuffer(data, "<u4", _LOOK - 1, first))) % _TURN == 1)) for first in range(_WORD)]
        if begins[0] >= _ALIGNED:
            return data
        best = int(np.argmax(begins))
        if begins[best] < _ALIGNED:
            self._garbage += len(data)
            if self._garbage > _MOST_GARBAGE:
                raise RigError(f"{self._what} sends what are no samples; unplug it and begin again. What it had sent is kept.")
            return b""
        self._garbage += best
        return data[best:]

    def _emit(self, runs: list[Run]) -> None:
        for run in runs:
            microamperes, _ = self._api.get_samples(run.words.tobytes())
            amperes = np.asarray(microamperes, np.float64) * 1e-6
            ranges = run.words >> 14 & 7
            clipped = (amperes > _MOST_A) | ((run.words & _ADC_END == _ADC_END) & (ranges >= _HIGHEST_RANGE))
            self._changes += int(np.count_nonzero(np.diff(ranges))) + (self._range is not None and self._range != int(ranges[0]))
            self._range = int(ranges[-1])
            flags = self._flags | (int(RailFlag.OVERLOAD_I) if clipped.any() else 0)
            volts = np.full(len(run), self._volts, np.float32)
            first_tick = run.index * _INTERVAL_NS
            self._out.append(blocks(first_tick, _INTERVAL_NS, volts, amperes.astype(np.float32), flags=flags))
            if self._first is None:
                self._first = ClockPair(self._began_ns, run.arrival_ns, run.index * _INTERVAL_NS)
            self._pairs.add(run.arrival_ns, (run.index + len(run) - 1) * _INTERVAL_NS)


def _numbers(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    return (words >> 18 & (_TURN - 1)).astype(np.int64)


def _no_word_of_it(record: logging.LogRecord) -> bool:
    """The library tells of a port that is gone in a log that the user would see beside our own error."""
    return "serial port" not in record.getMessage()
