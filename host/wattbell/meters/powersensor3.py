"""PowerSensor3 by its serial protocol, as its firmware 1.6.1 has it (device/PowerSensor/PowerSensor.ino of nlesc-recruit/PowerSensor3).

A set of samples is nine pairs of bytes, ``1iiiaaaa 0mbbbbbb``: sensor i, level ``aaaabbbbbb`` of 1023. The first pair has i = 7 and m = 1:
its "level" is the microsecond of the set modulo 1024. Sensors 2k and 2k+1 are current and voltage of pair k, m in sensor 0 answers the
command ``M``. A value is ``(3.3 level / 1023 - vref) / sensitivity``.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import serial
from wattbell_spec.wire import RailFlag

from ..capture.source import RailSource
from ..clocks.host import host_ns
from ..errors import RigError, UsageError
from ..formats.ranges import POWERSENSOR3, LeftOut
from .arrivals import Arrivals, ArrivingMeter, reader
from .believed import believed
from .meter import ERRORS, ClockPair, MeterAbout, meter, options, stated

USAGE = "powersensor3:PORT[,pair=N]"
SENSORS = 8
_SENSOR = struct.Struct("<16s16sff?")
"""Type, name of the pair, vref (V), sensitivity (V/A; of a voltage sensor V/V), in use."""
_SCALE_V, _MOST_LEVEL = 3.3, 1023
_SET = np.array([15, *range(SENSORS)], np.int64)
"""The sensors of a set's pairs; 8 more for the m of the time stamp."""
_WRAP_US = 1024
_INTERVAL_NS = {"F411": 50_000.0, "F401": 1200e3 / 21, "F407": 616e3 / 21}
"""Interval in ns between sets, by microcontroller.

- F401, F411: 8 channels x 25 ADC clocks, averaged 6 times, at 24 MHz (F411) or 21 MHz (F401), a quarter of the bus clock
- F407: two ADCs, 4 x 154 ADC clocks at 21 MHz, without averaging
"""
_TIMEBASE = 50e-6
"""The crystal's limit. No figure is published for the boards; this one is common for such crystals."""
_GAIN = 0.02
_JITTER_US = 4.0
"""Jitter in us of a set's time stamp, a whole number of us taken in an interrupt."""
_ASK_NS = 1_000_000_000
_UNANSWERED_S = 60.0
"""Longest wait for an answer, in s of the meter's clock.

An answer is lost with its set, and the next question waits for it. A computer that lags by less than this does not take one answer for the
next.
"""
_SETTLE_SETS, _MOST_HELD = 10_000, 100_000
"""Sets in a row, or sets in all, after which the sets held behind a gap are placed: their arrivals give the gap's length."""
_LATER_US = 500.0
"""An arrival is never earlier than usual, but often later: the guess of a gap's length is too great rather than too small."""
_ANSWER_S, _QUIET_S = 2.0, 0.1

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@meter("PowerSensor3 on a serial port", USAGE)
def open_meter(rest: str) -> PowerSensor3:
    """See :data:`USAGE`."""
    port, given = options(rest, USAGE, {"pair": int, **ERRORS})
    if not port:
        raise UsageError(f"--meter powersensor3: give its port, {USAGE}; see `ls /dev/ttyACM*`.")
    pair = given.get("pair")
    assert pair is None or isinstance(pair, int)
    return PowerSensor3(port, pair, given)


@dataclass(frozen=True)
class Sensor:
    """One of the eight, as the device's EEPROM has it."""

    kind: str
    pair_name: str
    vref: float
    sensitivity: float
    in_use: bool

    def value(self, level: F64) -> F64:
        """Return a value in A or V."""
        return (_SCALE_V * level / _MOST_LEVEL - self.vref) / self.sensitivity


@dataclass
class _Sets:
    """Sets of samples in a row: microseconds modulo 1024, levels of the pair, whether an ``M`` is answered."""

    stamp_us: I64
    current: I64
    voltage: I64
    marked: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.stamp_us)

    def part(self, start: int, stop: int | None = None) -> _Sets:
        return _Sets(self.stamp_us[start:stop], self.current[start:stop], self.voltage[start:stop], self.marked[start:stop])


@dataclass
class _Gap:
    """A gap of unknown length, and the sets behind it up to the next gap."""

    last_us: int
    """Time stamp of the last set before it."""
    first_us: int
    parts: list[tuple[int, _Sets]] = field(default_factory=list)
    """Sets behind the gap, with the host ns of their arrival."""

    @property
    def count(self) -> int:
        return sum(len(sets) for _, sets in self.parts)

    def fitting(self, most: int, interval_us: float) -> I64:
        """How many sets may be missing by the time stamps, in ascending order; at least one answer, and up to `most`."""
        lost = np.arange(1, max(most, _WRAP_US) + _WRAP_US)
        off = (self.last_us + (lost + 1) * interval_us - self.first_us + _WRAP_US / 2) % _WRAP_US - _WRAP_US / 2
        fits = np.abs(off) <= _JITTER_US
        return lost[fits] if fits.any() else lost


class PowerSensor3(ArrivingMeter[bytes]):
    """An open PowerSensor3. Current and voltage of one pair of its sensors."""

    _together = 1 << 14

    def __init__(self, port: str, pair: int | None, given: dict[str, Any]) -> None:
        super().__init__()
        self._what = f"The PowerSensor3 at {port}"
        try:
            self._port = serial.Serial(port, 4_000_000, timeout=_ANSWER_S, write_timeout=_ANSWER_S, exclusive=True)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise RigError(f"{port} cannot be opened ({reason}); check the name, that you may use it, and that nobody else does.") from None
        try:
            self._write(b"T")  # a host that died may have left it sending
            self._drain()
            self._write(b"V")
            firmware = self._port.read_until(b"\n").decode("ascii", "replace").strip()
            if firmware[:4] not in _INTERVAL_NS:
                told = f"answers {firmware[:40]!r}" if firmware else "does not answer"
                raise RigError(f"{self._what} {told}; is it a PowerSensor3 with firmware for {', '.join(_INTERVAL_NS)}?")
            sensors = self._sensors()
        except OSError as error:
            self._port.close()
            raise RigError(f"{self._what} was lost while it was asked for its settings ({error.strerror or error}).") from None
        except BaseException:
            self._port.close()
            raise
        try:
            pair = _choose(sensors, pair)
        except UsageError:
            self._port.close()
            raise
        self._pair, self._current, self._voltage = pair, sensors[2 * pair], sensors[2 * pair + 1]
        self._interval_us = _INTERVAL_NS[firmware[:4]] / 1000
        interval_ticks = round(_INTERVAL_NS[firmware[:4]])
        step_a = abs(_SCALE_V / _MOST_LEVEL / self._current.sensitivity)
        rounding = abs(interval_ticks / _INTERVAL_NS[firmware[:4]] - 1)
        self._about = stated(
            MeterAbout(
                model=f"PowerSensor3 {self._current.kind} ({self._current.pair_name})",
                serial=port,
                firmware=firmware,
                tick_ps=1000,
                interval_ticks=interval_ticks,
                has_voltage=True,
                gain=_GAIN,
                offset_a=step_a,
                timebase=_TIMEBASE + rounding,
                accuracy="assumed, not published: 2 % of the sensors' sensitivity, an offset of one step of the 10-bit ADC, crystal 50 ppm",
                notes=(f"PowerSensor3: one step of its ADC is {step_a * 1e3:.3g} mA; its zero (psconfig -a) is the user's to set",),
            ),
            given,
        )
        self._left_out = LeftOut(POWERSENSOR3)
        self._began = False
        self._rest = b""
        self._pairs: list[ClockPair] = []
        self._asked_ns: int | None = None
        self._ask_at_ns = 0
        self._unanswered = 0
        """Sets that came since it was asked."""
        self._next = 0
        """Index on the grid of the next set, if none is lost."""
        self._origin = (0, 0)
        """Index and time stamp of a set since which none was lost."""
        self._last_us: int | None = None
        self._late: deque[tuple[int, float]] = deque()
        """Arrivals of the last two seconds: host ns, and the delay in us behind the set's place on the grid."""
        self._held: list[_Gap] = []
        self._before = 0
        """Index of the next set before those gaps."""

    # -- opening -------------------------------------------------------------------------------------------------------

    def _write(self, command: bytes) -> None:
        self._port.write(command)

    def _drain(self) -> None:
        end = time.monotonic() + _ANSWER_S
        while select.select([self._port.fileno()], [], [], _QUIET_S)[0]:
            if not os.read(self._port.fileno(), 1 << 16):
                raise OSError("hung up")
            if time.monotonic() > end:
                raise RigError(f"{self._what} does not stop sending when it is told to; is it a PowerSensor3? Unplug it and try again.")

    def _sensors(self) -> list[Sensor]:
        self._write(b"R")
        found = []
        for number in range(SENSORS):
            data = self._port.read(_SENSOR.size)
            if len(data) < _SENSOR.size:
                raise RigError(f"{self._what} broke off while it sent the settings of sensor {number}; unplug it and try again.")
            kind, name, vref, sensitivity, in_use = _SENSOR.unpack(data)
            found.append(Sensor(_text(kind), _text(name), vref, sensitivity, in_use))
            self._write(b"s")
        if self._port.read(1) != b"D":
            raise RigError(f"{self._what} did not end the settings of its sensors as expected; unplug it and try again.")
        return found

    # -- the meter -----------------------------------------------------------------------------------------------------

    @property
    def about(self) -> MeterAbout:
        """See :class:`~.meter.Meter`."""
        return self._about

    def start(self) -> None:
        """See :class:`~.meter.Meter`."""
        self._arrivals = Arrivals(self._what, reader(self._port.fileno()))
        self._command(b"S")

    def _command(self, command: bytes) -> None:
        try:
            self._write(command)
        except OSError as error:
            if self._arrivals is None:
                raise RigError(f"{self._what} takes no commands ({error.strerror or error}).") from None
            # the meter is gone; the sets already received are read first, and then the error

    def read(self, timeout_s: float) -> list[RailSource]:
        """See :class:`~.meter.Meter`."""
        assert self._arrivals is not None, "start() comes first"
        if not self._stopped and self._asked_ns is None and host_ns() >= self._ask_at_ns:
            self._asked_ns, self._unanswered = host_ns(), 0
            self._ask_at_ns = self._asked_ns + _ASK_NS
            self._command(b"M")
        return super().read(timeout_s)

    def _end(self) -> None:
        with contextlib.suppress(OSError):  # the meter is gone; the sets already received are read first, and then the error
            self._write(b"T")

    def _close(self) -> None:
        self._port.close()

    def clock_pairs(self) -> list[ClockPair]:
        """Return the pairs of clocks from the answers to ``M``.

        The firmware marks the set that it sends next. That set may have been sampled before the command came, by two intervals at most. A
        set takes one interval and waits for less than another.
        """
        return list(self._pairs)

    def remarks(self) -> list[str]:
        """See :class:`~.meter.Meter`."""
        return [f"PowerSensor3: {note}" for note in self._left_out.notes()]

    # -- from bytes to samples -----------------------------------------------------------------------------------------

    def _feed(self, arrival_ns: int, piece: bytes) -> None:
        sets, self._rest = _parse(self._rest + piece, self._pair)
        if not len(sets):
            return
        if self._last_us is None:
            self._origin = (0, int(sets.stamp_us[0]))
        while len(sets):
            whole = self._until_gap(sets)
            if whole:
                self._place(arrival_ns, sets.part(0, whole))
                sets = sets.part(whole)
            if len(sets):
                if not self._held:
                    self._before = self._next
                assert self._last_us is not None
                first_us = int(sets.stamp_us[0])
                self._held.append(_Gap(self._last_us, first_us))
                self._next, self._origin = 0, (0, first_us)  # counts from the first set behind the gap, until its place is known

    def _until_gap(self, sets: _Sets) -> int:
        """How many sets follow each other without one missing. Raises RigError when they come at another rate."""
        index, stamp_us = self._origin
        expected = stamp_us + (self._next - index + np.arange(len(sets))) * self._interval_us
        off = (sets.stamp_us - expected + _WRAP_US / 2) % _WRAP_US - _WRAP_US / 2
        wrong = np.abs(off) > _JITTER_US
        if not wrong.any():
            return len(sets)
        first = int(np.argmax(wrong))
        before_us = int(sets.stamp_us[first - 1]) if first else self._last_us
        assert before_us is not None  # the first set of all is where it is expected
        step = (sets.stamp_us[first] - before_us) % _WRAP_US
        if abs(step - self._interval_us) <= _JITTER_US:  # nothing is missing here: it crept away
            interval_us = self._interval_us + off[first] / (self._next + first - index)
            raise RigError(
                f"{self._what} sends a set of samples every {interval_us:.2f} us, and not every {self._interval_us:.2f} us as its firmware "
                f"{self._about.firmware} does; it cannot be measured with. What it had sent is kept."
            )
        return first

    def _place(self, arrival_ns: int, sets: _Sets) -> None:
        self._last_us = int(sets.stamp_us[-1])
        if self._held:
            self._held[-1].parts.append((arrival_ns, sets))
            self._next += len(sets)
            if self._held[-1].count >= _SETTLE_SETS or sum(gap.count for gap in self._held) >= _MOST_HELD:
                self._release()
            return
        self._emit(arrival_ns, sets)

    def _emit(self, arrival_ns: int, sets: _Sets) -> None:
        interval = self._about.interval_ticks
        current, voltage = self._current.value(sets.current.astype(np.float64)), self._voltage.value(sets.voltage.astype(np.float64))
        flags = 0
        for levels, flag in ((sets.current, RailFlag.OVERLOAD_I), (sets.voltage, RailFlag.OVERLOAD_V)):
            if ((levels == 0) & (flag is RailFlag.OVERLOAD_I) | (levels == _MOST_LEVEL)).any():
                flags |= int(flag)
        self._out += believed(
            self._next * interval, interval, voltage.astype(np.float32), current.astype(np.float32), self._left_out, flags=flags
        )
        for index in np.flatnonzero(sets.marked).tolist():
            if self._asked_ns is not None:
                slack_ns = int(2 * self._interval_us * 1000)
                self._pairs.append(ClockPair(self._asked_ns - slack_ns, arrival_ns, (self._next + index) * interval))
                self._asked_ns = None
        self._unanswered += len(sets)
        if self._unanswered * self._interval_us > _UNANSWERED_S * 1e6:
            self._asked_ns = None
        self._next += len(sets)
        self._late.append((arrival_ns, arrival_ns / 1000 - (self._next - 1) * self._interval_us))
        while self._late[-1][0] - self._late[0][0] > 2_000_000_000:
            self._late.popleft()

    def _release(self) -> None:
        """Place the sets held behind gaps: late enough for their time stamps and their arrivals.

        A time stamp repeats after 1024 us, so the candidates for the length of a gap are some 41 sets apart. The arrivals behind the gap
        decide between them: no set can come earlier after its sampling than sets usually do.
        """
        held, self._held = self._held, []
        if not held:
            return
        usual_us = min(late for _, late in self._late)
        while held:
            index, guess = self._before, math.inf
            for number, gap in enumerate(held):
                if number:  # as short as possible: any further loss belongs to this gap
                    index += int(gap.fitting(0, self._interval_us)[0])
                for arrival_ns, sets in gap.parts:
                    index += len(sets)
                    guess = min(guess, (arrival_ns / 1000 - _LATER_US - usual_us) / self._interval_us - (index - 1))
            gap, held = held[0], held[1:]
            lost = gap.fitting(max(0, math.ceil(guess)) if gap.parts else 0, self._interval_us)
            self._next = self._before + int(lost[np.argmin(np.abs(lost - guess))])
            self._origin = (self._next, gap.first_us)
            for arrival_ns, sets in gap.parts:
                self._emit(arrival_ns, sets)
            self._before = self._next


def _parse(data: bytes, pair: int) -> tuple[_Sets, bytes]:
    """Whole sets in `data`, and the rest, which may be the beginning of one. Bytes that are in no set are left out."""
    raw = np.frombuffer(data, np.uint8)
    at = np.flatnonzero((raw[:-1] >= 0x80) & (raw[1:] < 0x80))
    high, low = raw[at].astype(np.int64), raw[at + 1].astype(np.int64)
    number = (high >> 4 & 7) | np.where((high >> 4 & 7 == 7) & (low >> 6 & 1 == 1), 8, 0)
    level = (high & 15) << 6 | low & 63
    starts = np.flatnonzero(number == _SET[0])
    whole = starts[starts + len(_SET) <= len(number)]
    if len(whole):
        row = whole[:, None] + np.arange(len(_SET))
        whole = whole[(number[row] == _SET).all(axis=1) & (at[whole + len(_SET) - 1] - at[whole] == 2 * len(_SET) - 2)]
    sets = _Sets(level[whole], level[whole + 1 + 2 * pair], level[whole + 2 + 2 * pair], (low[whole + 1] >> 6 & 1).astype(bool))
    rest_at = len(data)
    if len(starts) and starts[-1] + len(_SET) > len(number):
        rest_at = int(at[starts[-1]])
    elif len(raw) and raw[-1] >= 0x80:
        rest_at = len(data) - 1
    return sets, data[rest_at:][-2 * len(_SET) :]


def _text(field_bytes: bytes) -> str:
    return field_bytes.split(b"\0")[0].decode("ascii", "replace")


def _choose(sensors: list[Sensor], pair: int | None) -> int:
    usable = [k for k in range(SENSORS // 2) if sensors[2 * k].in_use and sensors[2 * k + 1].in_use]
    listed = ", ".join(f"{k} ({sensors[2 * k].pair_name})" for k in usable) or "none"
    if pair is None and len(usable) == 1:
        pair = usable[0]
    if pair not in usable:
        what = "which pair of its sensors is the drive's?" if pair is None else f"its sensors {pair} are not both in use."
        raise UsageError(f"--meter powersensor3: {what} In use: {listed}; give pair=N, and see psconfig -p.")
    for sensor in sensors[2 * pair : 2 * pair + 2]:
        if not (math.isfinite(sensor.vref) and math.isfinite(sensor.sensitivity)) or sensor.sensitivity == 0:
            raise UsageError(f"--meter powersensor3: the sensor {sensor.kind!r} of pair {pair} has no sensitivity; set it with psconfig.")
    return pair
