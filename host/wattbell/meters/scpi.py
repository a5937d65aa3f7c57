"""Any supply or multimeter that answers SCPI, through PyVISA and its backend in Python: over TCP, serial port or USBTMC.

The instrument is asked again and again. Each reading was taken between the question and the answer. The host's clock is the meter's
clock: tick i x interval is that long after the start. A question is sent so that its reading is due at the middle of a place on the grid. A
reading goes to the place with the nearest middle, and a place without a reading is missing. The rate in the capture is therefore the rate
that was kept. Nobody knows voltage and current between two readings.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from ..capture.source import RailSource, blocks
from ..clocks.host import host_ns
from ..errors import RigError, UsageError
from ..formats.ranges import NO_NUMBER, RAIL, LeftOut, without_sentinels
from .arrivals import Arrivals
from .meter import ERRORS, ClockPair, MeterAbout, meter, options, stated
from .volts import VOLTS, gain_with

USAGE = "scpi:ADDRESS,gain=G,offset=A[,dialect=NAME][,channel=N][,every=S][,baud=N][,volts=V][,volts_u=U]"
_ANSWER_S = 2.0
_TRIED = 6
"""Readings that are taken to see how long one takes."""
_STEPS = (1.0, 2.0, 5.0)
_SLACK = 1.3
"""Ratio of the chosen interval to the longest of those readings."""
_SHORTEST_S, _LONGEST_S = 1e-3, 60.0
_RATE = 100e-6
"""Relative error of the host's oscillator: assumed."""


@dataclass(frozen=True)
class Dialect:
    """Questions for voltage (V) and current (A); ``both``: one question is answered with voltage, current and more."""

    what: str
    voltage: str | None
    current: str | None
    both: str | None = None

    def questions(self, channel: int) -> str:
        """Name the questions for the user."""
        return ", ".join(text.format(channel) for text in (self.voltage, self.current, self.both) if text)


DIALECTS = {
    "measure": Dialect("SCPI's own: most supplies", "MEAS:VOLT?", "MEAS:CURR?"),
    "dc": Dialect("SCPI's own, with DC", "MEAS:VOLT:DC?", "MEAS:CURR:DC?"),
    "channel": Dialect("supplies of several outputs: Rigol, Siglent", "MEAS:VOLT? CH{}", "MEAS:CURR? CH{}"),
    "list": Dialect("supplies of several outputs: Keysight", "MEAS:VOLT? (@{})", "MEAS:CURR? (@{})"),
    "all": Dialect("one answer with all: Rigol", None, None, "MEAS:ALL? CH{}"),
    "fetch": Dialect("what measures by itself: the last figures", "FETC:VOLT?", "FETC:CURR?"),
    "read": Dialect("a multimeter that is set to current: READ?", None, "READ?"),
    "fetch-current": Dialect("a multimeter that is set to current and triggers itself: FETC?", None, "FETC?"),
}


def _dialect(text: str) -> str:
    if text not in DIALECTS:
        raise ValueError
    return text


def _every(text: str) -> float:
    value = float(text)
    if not _SHORTEST_S <= value <= _LONGEST_S:
        raise ValueError
    return value


@meter(
    "supply or multimeter that speaks SCPI; slow",
    USAGE,
    extra="scpi",
    needs=(
        "pyvisa",
        "pyvisa_py",
    ),
)
def open_meter(rest: str) -> ScpiInstrument:
    """See :data:`USAGE`. ADDRESS: a VISA resource, HOST:PORT or a serial port's name."""
    known: dict[str, Callable[[str], object]] = {"dialect": _dialect, "channel": int, "every": _every, "baud": int, **VOLTS, **ERRORS}
    address, given = options(rest, USAGE, known)
    if not address:
        raise UsageError(f"--meter scpi: give its address, {USAGE}: TCPIP0::192.0.2.5::5025::SOCKET, 192.0.2.5:5025 or /dev/ttyUSB0.")
    if "gain" not in given or "offset" not in given:
        raise UsageError(
            "--meter scpi: say how accurate it is, from its data sheet: gain= of the power (voltage and current together, such as 0.003) "
            "and offset= of the current in A (such as 0.002)."
        )
    return ScpiInstrument(address, given)


def resource(address: str) -> str:
    """The VISA resource of an address."""
    if "::" in address:
        return address
    if address.startswith("/"):
        return f"ASRL{address}::INSTR"
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        return f"TCPIP0::{host}::{port}::SOCKET"
    raise UsageError(f"--meter scpi: {address} is no VISA resource, no HOST:PORT and no serial port.")


@dataclass(frozen=True)
class ScpiReading:
    """``voltage`` V, ``current`` A, taken between two instants of the host's clock; NaN where the instrument has no number."""

    before_ns: int
    after_ns: int
    voltage: float
    current: float


class ScpiInstrument:
    """An open instrument."""

    def __init__(self, address: str, given: dict[str, Any]) -> None:
        import pyvisa

        name = resource(address)
        self._what = f"The instrument at {address}"
        self._name = given.get("dialect", "measure")
        self._dialect = DIALECTS[self._name]
        self._channel = given.get("channel", 1)
        self._faults = (pyvisa.errors.Error, OSError)
        measures = self._dialect.voltage is not None or self._dialect.both is not None
        gain, offset_a, told = float(given["gain"]), float(given["offset"]), "stated by the user from its data sheet"
        self._volts: float | None = None
        if measures and "volts" in given:
            raise UsageError(f"--meter scpi: in the dialect {self._name} it measures the voltage itself; leave volts= out.")
        if not measures:
            try:
                self._volts, gain, told_volts = gain_with(gain, given)
            except UsageError as error:
                raise UsageError(f"--meter scpi: in the dialect {self._name} {error}") from None
            told += f"; {told_volts}"
        try:
            opened: Any = pyvisa.ResourceManager("@py").open_resource(
                name, read_termination="\n", write_termination="\n", timeout=int(_ANSWER_S * 1000), open_timeout=int(_ANSWER_S * 1000)
            )
            if name.startswith("ASRL"):
                opened.baud_rate = given.get("baud", 9600)
        except (*self._faults, ValueError) as error:
            raise RigError(f"{address} cannot be opened ({_reason(error)}); check its address, and that nobody else uses it.") from None
        self._visa = opened
        self._arrivals: Arrivals[ScpiReading] | None = None
        try:
            try:
                identity = self._ask("*IDN?")
            except OSError as error:
                raise RigError(f"{address} cannot be opened: {error}; check its address, and that nobody else uses it.") from None
            try:
                taken = [self._reading() for _ in range(_TRIED)]
            except OSError as error:
                raise RigError(f"{self._what}: {error}. Give the dialect= that it speaks: {', '.join(DIALECTS)}.") from None
        except BaseException:
            self._visa.close()
            raise
        longest_s = max(one.after_ns - one.before_ns for one in taken) / 1e9
        self._half_ns = int(np.median([one.after_ns - one.before_ns for one in taken])) // 2
        interval_s = given.get("every") or _round(longest_s * _SLACK)
        # an interval has 32 bits of ticks
        self._tick_ns = 1 if interval_s * 1e9 < 1 << 32 else 1000
        interval_ticks = round(interval_s * 1e9 / self._tick_ns)
        self._interval_ns = interval_ticks * self._tick_ns
        maker, model, serial, firmware = [*(part.strip() for part in identity.split(",")), "", "", "", ""][:4]
        timebase = {name: value for name, value in given.items() if name == "timebase"}
        stale = "FETC" in self._questions()
        self._about = stated(
            MeterAbout(
                model=f"{maker} {model}".strip() or "a SCPI instrument",
                serial=serial or address,
                firmware=firmware,
                tick_ps=1000 * self._tick_ns,
                interval_ticks=interval_ticks,
                has_voltage=measures,
                gain=gain,
                offset_a=offset_a,
                timebase=_RATE,
                accuracy=told,
                placement_u_s=interval_s * (1.5 if stale else 0.5),
                notes=(
                    f"SCPI: asked every {interval_s:g} s ({self._questions()}); a reading took up to {longest_s * 1e3:.3g} ms when it was "
                    "tried. What happens between two readings is not seen: energies hold for loads that are steady over many of them",
                ),
            ),
            timebase,
        )
        self._stale = stale
        self._stopped = False
        self._origin_ns = 0
        self._pairs: list[ClockPair] = []
        self._longest_ns = 0
        self._left_out = LeftOut(RAIL)
        self._failed: RigError | None = None

    # -- asking --------------------------------------------------------------------------------------------------------

    def _questions(self) -> str:
        return self._dialect.questions(self._channel)

    def _ask(self, question: str) -> str:
        """Raises OSError when there is no answer."""
        try:
            return str(self._visa.query(question)).strip()
        except self._faults as error:
            raise OSError(f"no answer to {question} ({_reason(error)})") from None

    def _number(self, text: str, question: str) -> float:
        """Return an answer as a number; NaN for the values that mean no number, infinity or an overload. Raises RigError for other text."""
        if text.strip().strip('"').lower() in NO_NUMBER - {""}:
            return math.nan
        try:
            value = float(text)
        except ValueError:
            raise RigError(f"{self._what} answers {text[:40]!r} to {question}, and no number. What it had told is kept.") from None
        return float(without_sentinels(np.array([value]))[0])

    def _reading(self) -> ScpiReading:
        one = self._dialect
        before_ns = host_ns()
        if one.both is not None:
            question = one.both.format(self._channel)
            parts = self._ask(question).split(",")
            after_ns = host_ns()
            if len(parts) < 2:
                raise RigError(f"{self._what} answers {','.join(parts)[:40]!r} to {question}, and not voltage and current.")
            return ScpiReading(before_ns, after_ns, self._number(parts[0], question), self._number(parts[1], question))
        asked = [text.format(self._channel) if text else None for text in (one.voltage, one.current)]
        told = [self._ask(question) if question else None for question in asked]
        after_ns = host_ns()
        voltage, current = (self._number(text, question or "") if text is not None else self._volts for text, question in zip(told, asked))
        assert voltage is not None and current is not None
        return ScpiReading(before_ns, after_ns, voltage, current)

    # -- the meter -----------------------------------------------------------------------------------------------------

    @property
    def about(self) -> MeterAbout:
        """See :class:`~.meter.Meter`."""
        return self._about

    def start(self) -> None:
        """See :class:`~.meter.Meter`."""
        self._origin_ns = host_ns() + self._half_ns
        place = 0

        def read() -> ScpiReading | None:
            nonlocal place
            wait_ns = self._origin_ns + place * self._interval_ns - self._half_ns - host_ns()
            if wait_ns > 0:
                time.sleep(min(wait_ns / 1e9, 0.1))
                if wait_ns > 100_000_000:
                    return None
            reading = self._reading()
            place = max(place, (host_ns() - self._origin_ns) // self._interval_ns, self._place(reading)) + 1
            return reading

        self._arrivals = Arrivals(self._what, read, 3 * self._interval_ns / 1e9)

    def _place(self, reading: ScpiReading) -> int:
        """Return the place of a reading's middle on the grid."""
        return max(0, round(((reading.before_ns + reading.after_ns) // 2 - self._origin_ns) / self._interval_ns))

    def read(self, timeout_s: float) -> list[RailSource]:
        """See :class:`~.meter.Meter`."""
        assert self._arrivals is not None, "start() comes first"
        out: list[RailSource] = []
        for _, reading in self._arrivals.take(timeout_s, ending=self._stopped):
            at_ns = self._place(reading) * self._interval_ns
            tick = at_ns // self._tick_ns
            self._longest_ns = max(self._longest_ns, reading.after_ns - reading.before_ns)
            volts, amperes = np.array([reading.voltage], np.float32), np.array([reading.current], np.float32)
            if self._left_out.add(volts, amperes, stated_volts=not self._about.has_voltage).all():
                out.append(blocks(tick, self._about.interval_ticks, volts, amperes))
                at_ns += self._origin_ns
                before_ns = None if self._stale else min(reading.before_ns, at_ns)
                self._pairs.append(ClockPair(before_ns, max(reading.after_ns, at_ns), tick))
        return out

    def stop(self) -> None:
        """See :class:`~.meter.Meter`."""
        if self._arrivals is not None and not self._stopped:
            self._stopped = True
            self._arrivals.close()

    def clock_pairs(self) -> list[ClockPair]:
        """Return the pairs of clocks. The meter's clock is the host's: a pair spans a tick and the question and answer of its reading.

        A fetched reading may be older than the question.
        """
        return list(self._pairs)

    def remarks(self) -> list[str]:
        """See :class:`~.meter.Meter`."""
        found = []
        if self._longest_ns:
            found.append(f"SCPI: the longest reading took {self._longest_ns / 1e6:.3g} ms")
        return found + [f"SCPI: {note}" for note in self._left_out.notes()]

    def __enter__(self) -> ScpiInstrument:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        with contextlib.suppress(*self._faults):
            self._visa.close()


def _round(seconds: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(seconds, _SHORTEST_S)))
    return next((step * power for step in _STEPS if step * power >= seconds), 10 * power)


def _reason(error: Exception) -> str:
    abbreviation = getattr(error, "abbreviation", "")
    if abbreviation == "VI_ERROR_TMO":
        return f"within {_ANSWER_S:g} s"
    return str(getattr(error, "strerror", None) or error).splitlines()[0][:120]
