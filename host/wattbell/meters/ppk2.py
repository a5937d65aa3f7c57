"""Nordic Power Profiler Kit II, through ``ppk2-api``.

The library opens the port, reads the calibration and converts words to microamperes. Behind a change of range it applies the filter of
Nordic's own program. The library discards two fields of a word, which are read here. The range is in bits 14 to 16. Bits 18 to 23 have a
number modulo 64, which reveals lost samples. Source of the layout: ``serialDevice.ts`` in pc-nrfconnect-ppk.
"""

from __future__ import annotations

import logging
import math
import os
import select
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import serial
from serial.tools import list_ports
from wattbell_spec.wire import RailFlag

from ..capture.source import Ranges
from ..clocks.host import host_ns
from ..errors import RigError, UsageError
from ..formats.ranges import PPK2, LeftOut
from .arrivals import Arrivals, ArrivingMeter, Earliest, reader
from .believed import believed
from .meter import ERRORS, ClockPair, MeterAbout, meter, options, stated
from .numbered import Numbered, SampleRun
from .volts import VOLTS, gain_with
from .words import Words

USAGE = "ppk2:PORT,volts=V[,volts_u=U][,mode=ampere|source]"
_INTERVAL_NS = 10_000
_TURN = 64
_ADC_END = (1 << 14) - 1
_HIGHEST_RANGE = 4
GAIN = 0.15
"""Relative gain error of the highest range; the others have 10 %."""
OFFSET_A = 50e-6
"""Resolution in A of the range below the highest. The highest begins at 60 mA, where its resolution of 1 mA is less than its gain error."""
RANGES = tuple((gain, steps * 1e-6) for gain, steps in ((0.1, 0.2), (0.1, 0.5), (0.1, 5.0), (0.1, 50.0), (GAIN, 1000.0)))
"""Accuracy and resolution (A) of each range (Nordic, PPK2 user guide, measurement resolution; typical)."""
_FILTERED = 4
"""Samples behind a change of range that Nordic's filter replaces by means of those before."""
_CLOSEST = 8
"""Samples between two changes that are noted: of those that follow each other more closely, the highest range is taken to be in force."""
TIMEBASE = 50e-6
ACCURACY = (
    "Nordic, PPK2 user guide: typical, not guaranteed, 15 % above 60 mA, 10 % below; offset its resolution above 6 mA; timebase assumed"
)
_QUIET_S, _MOST_DRAINED = 0.1, 1 << 22
_TRIES = 3
"""The library waits half a second for the calibration, and wants it in one piece."""
_TOGETHER = 1024
"""Bytes that are looked at together."""
_SLOW_NS = 2_000_000_000
"""Delay in ns, compared with the beginning, above which the meter takes too few samples, though their numbers are consecutive."""
_MOST_GARBAGE = 400_000
"""Bytes: a second's."""


def _mode(text: str) -> str:
    if text not in ("ampere", "source"):
        raise ValueError
    return text


@meter("Nordic Power Profiler Kit II, up to 1 A", USAGE, extra="ppk2", needs=("ppk2_api",))
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
                ranges=tuple((math.hypot(of_range, math.sqrt(max(0.0, gain**2 - GAIN**2))), step) for of_range, step in RANGES),
            ),
            given,
        )
        self._numbered = Numbered(_TURN, _INTERVAL_NS)
        self._bytes = b""
        self._words = Words(_numbers, _TURN)
        self._began_ns = 0
        self._first: ClockPair | None = None
        self._pairs = Earliest(1.0)
        self._held: _Converted | None = None
        """The last samples, which the samples of an earlier change of range need. The figures thus do not depend on the size of the pieces.
        """
        self._range: int | None = None
        self._last_a = 0.0
        self._changes = 0
        self._waiting: list[Ranges] = []
        """Changes of range without a sample that could be believed."""
        self._left_out = LeftOut(PPK2)

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
        """Apply only settings that differ from the present ones: each setting may interrupt the drive's supply."""
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
        self._arrivals = Arrivals(self._what, reader(self._port.fileno()))
        self._began_ns = host_ns()
        self._api.start_measuring()

    def _release(self) -> None:
        now_ns = host_ns()
        for words in (self._words.feed(self._bytes), self._words.rest()):
            self._place(now_ns, words)
        self._bytes = b""
        self._emit(self._numbered.release())
        if self._held is not None:
            self._put(self._held, len(self._held.amperes))
            self._held = None

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
        if self._words.left_out:
            found.append(f"PPK2: {self._words.left_out} bytes that were no samples, or stood beside such, are left out")
        found += [f"PPK2: {note}" for note in self._left_out.notes()]
        return found

    # -- from bytes to samples -----------------------------------------------------------------------------------------

    def _feed(self, arrival_ns: int, piece: bytes) -> None:
        self._bytes += piece
        if len(self._bytes) < _TOGETHER:
            return
        words, self._bytes = self._words.feed(self._bytes), b""
        self._place(arrival_ns, words)
        if self._words.in_vain > _MOST_GARBAGE:
            raise RigError(f"{self._what} sends what are no samples; unplug it and begin again. What it had sent is kept.")
        if self._numbered.slow_ns > _SLOW_NS:
            raise RigError(
                f"{self._what} sends fewer samples than {1e9 / _INTERVAL_NS:,.0f} a second, and does not number those that are "
                f"missing: {self._numbered.slow_ns / 1e9:.1f} s of them by now. What it had sent is kept, but its times do not hold."
            )

    def _place(self, arrival_ns: int, words: npt.NDArray[np.uint32]) -> None:
        if len(words):
            self._emit(self._numbered.feed(arrival_ns, _numbers(words), words))

    def _emit(self, runs: list[SampleRun]) -> None:
        for run in runs:
            microamperes, _ = self._api.get_samples(run.words.tobytes())
            amperes = np.asarray(microamperes, np.float64) * 1e-6
            ranges = run.words >> 14 & 7
            clipped = (amperes > PPK2.amperes[1]) | ((run.words & _ADC_END == _ADC_END) & (ranges >= _HIGHEST_RANGE))
            new = _Converted(run.index, amperes, ranges.astype(np.uint8), clipped)
            if self._held is not None and self._held.end != run.index:
                self._put(self._held, len(self._held.amperes))
                self._held = None
            self._held = new if self._held is None else self._held.with_next(new)
            ready = len(self._held.amperes) - _FILTERED
            if ready > 0:
                self._put(self._held, ready)
                self._held = self._held.from_place(ready)
            if self._first is None:
                self._first = ClockPair(self._began_ns, run.arrival_ns, run.index * _INTERVAL_NS)
            self._pairs.add(run.arrival_ns, (run.index + len(run) - 1) * _INTERVAL_NS)

    def _put(self, run: _Converted, count: int) -> None:
        """Hands out the first `count` samples of `run`."""
        first_tick = run.index * _INTERVAL_NS
        changes = self._noted(first_tick, run.ranges[:count], run.amperes)
        flags = self._flags | (int(RailFlag.OVERLOAD_I) if run.clipped[:count].any() else 0)
        volts = np.full(count, self._volts, np.float32)
        self._waiting += [] if changes is None else [changes]
        made = believed(
            first_tick,
            _INTERVAL_NS,
            volts,
            run.amperes[:count].astype(np.float32),
            self._left_out,
            stated_volts=True,
            flags=flags,
            ranges=_all_of(self._waiting),
        )
        if made:
            self._waiting = []
            self._out += made

    def _noted(self, first_tick: int, ranges: npt.NDArray[np.uint8], amperes: npt.NDArray[np.float64]) -> Ranges | None:
        """Return the changes of range in consecutive samples; None if there are none.

        Behind each change, the filter replaces samples. Its values may be off by as much as the current differs around the change. For
        this, `amperes` continues behind `ranges` by as many samples, if they are known.
        """
        begun = self._range is not None
        before = np.concatenate(([255 if self._range is None else self._range], ranges[:-1]))
        amperes = np.concatenate(([self._last_a], amperes))  # sample i is at i + 1
        at = np.flatnonzero(ranges != before).tolist()
        self._changes += len(at) - (not begun)
        self._range, self._last_a = int(ranges[-1]), float(amperes[len(ranges)])
        rows: list[tuple[int, int, float]] = []
        for number, place in enumerate(at):
            settling = 0.0
            if place or begun:
                near = amperes[place : place + _FILTERED + 2]
                settling = _FILTERED * _INTERVAL_NS * self._volts * float(near.max() - near.min())
            if rows and place - rows[-1][0] < _CLOSEST:
                rows[-1] = (rows[-1][0], max(rows[-1][1], int(ranges[place])), rows[-1][2] + settling)
            else:
                rows.append((place, int(ranges[place]), settling))
            last = number + 1 == len(at) or at[number + 1] - rows[-1][0] >= _CLOSEST
            if last and rows[-1][1] != ranges[place]:  # of several changes, it stays in another range than the highest
                rows.append((place, int(ranges[place]), 0.0))
        if not rows:
            return None
        places, numbers, nanojoules = zip(*rows, strict=True)
        most = np.minimum(np.ceil(nanojoules), (1 << 32) - 1).astype(np.uint32)
        return Ranges(first_tick + np.array(places, np.int64) * _INTERVAL_NS, np.array(numbers, np.uint8), most)


def _all_of(changes: list[Ranges]) -> Ranges | None:
    if not changes:
        return None
    return Ranges(*(np.concatenate([getattr(one, name) for one in changes]) for name in ("tick", "number", "settling_nj")))


@dataclass(frozen=True)
class _Converted:
    """Consecutive samples from `index` on."""

    index: int
    amperes: npt.NDArray[np.float64]
    ranges: npt.NDArray[np.uint8]
    clipped: npt.NDArray[np.bool_]

    @property
    def end(self) -> int:
        return self.index + len(self.amperes)

    def with_next(self, other: _Converted) -> _Converted:
        return _Converted(
            self.index,
            np.concatenate((self.amperes, other.amperes)),
            np.concatenate((self.ranges, other.ranges)),
            np.concatenate((self.clipped, other.clipped)),
        )

    def from_place(self, place: int) -> _Converted:
        return _Converted(self.index + place, self.amperes[place:], self.ranges[place:], self.clipped[place:])


def _numbers(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    return (words >> 18 & (_TURN - 1)).astype(np.int64)


def _no_word_of_it(record: logging.LogRecord) -> bool:
    """Drop the library's log of a lost port, which the user would see beside our own error."""
    return "serial port" not in record.getMessage()
