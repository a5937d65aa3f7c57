"""Delay of a rig's current paths, from pulses of its own test load (DIAGnostic:LOAD) seen through its stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from wattbell_spec.wire import LOAD_OFF_MARK, LOAD_ON_MARK, EventType, MarkerSource

from ...clocks.rigtick import TickReading, ask_tick
from ...errors import CalibrationError, RigError
from ...wire.decode import StreamDecoder
from ...wire.records import RailRecords
from .. import Rig
from ..delay import DESIGN_DELAY_S
from ..meanwhile import command_while_reading
from .delay import Delay, Edge, edge_delay
from .listen import batches, follow
from .readings import clipped

__all__ = ["PULSES", "PathDelay", "PulseStream", "calibrate_delays"]

PULSES = 1000
"""Pulses per path: 1000 edges on and 1000 off."""
SETTLE_S = 40e-6
"""Settling time of a step: twenty time constants of the paths."""
PULSE_S = 2 * 148e-6
"""Longest duration of a pulse, on and off (docs/registers.md, LOAD_PULSES)."""
PLAUSIBLE_S = 250e-9
"""Largest plausible deviation of a board's delay from its design: ten standard deviations. Even a drive with very little capacitance delays
an edge by more (docs/accuracy.md: 578 ns of 20 uF)."""
COVERAGE = 2.0
_TICK_S = 1e-9
_SETTINGS = ("SENS:SWE:DEC", "SENS:SWE:TINT", "SENS:CURR:RANG", "SENS:CURR:RANG:AUTO")
_PATHS = {"current": ("COAR", "4"), "fine": ("FINE", "0.1")}


@dataclass(frozen=True)
class PathDelay:
    """A path's delay and its uncertainty (k = 2), in s, and the separate results of the edges on and off."""

    delay_s: float
    u_s: float
    on: Delay
    off: Delay


class PulseStream:
    """Collects a stream that contains the pulses of one path."""

    def __init__(self) -> None:
        self._decoder = StreamDecoder()
        self._ticks: list[npt.NDArray[np.int64]] = []
        self._current: list[npt.NDArray[np.int32]] = []
        self._marks: dict[int, list[int]] = {LOAD_ON_MARK: [], LOAD_OFF_MARK: []}
        self._flags = 0
        self.last_s = 0.0
        """Time of the last sample, by the rig's clock."""

    @property
    def edges(self) -> int:
        """Number of edges marked so far."""
        return sum(map(len, self._marks.values()))

    @property
    def looked_at_s(self) -> float:
        """Time up to which samples are needed for the edges marked so far."""
        return max((tick for ticks in self._marks.values() for tick in ticks), default=0) * _TICK_S + 3 * SETTLE_S

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream. Raises CalibrationError when some are missing."""
        for batch in batches(self._decoder, data):
            if batch.rail is not None:
                self._take(batch.rail)
            if batch.events is not None:
                columns = batch.events.columns
                marks = (columns["type"] == EventType.MARKER) & (columns["arg8"] == MarkerSource.CONTROL)
                for value, found in self._marks.items():
                    found += batch.events.tick[marks & (columns["arg32"] == value)].tolist()

    def _take(self, rail: RailRecords) -> None:
        first = 0
        for block in range(len(rail)):
            count, interval = int(rail.columns["count"][block]), int(rail.columns["interval_ticks"][block])
            ticks = int(rail.first_tick[block]) + interval * np.arange(count, dtype=np.int64)
            self._ticks.append(ticks)
            self._current.append(rail.current[first : first + count].copy())
            self._flags |= int(rail.columns["flags"][block])
            first += count
            self.last_s = float(ticks[-1]) * _TICK_S

    def delay(self) -> PathDelay:
        """Return the delay from the edges. Raises CalibrationError if they do not yield a delay."""
        if clipped(self._flags)[1]:
            raise CalibrationError("The current went beyond the path's scale: only the rig's test load may draw current.")
        ticks, current = np.concatenate(self._ticks), np.concatenate(self._current)
        if len(ticks) < 2 or len(set(np.diff(ticks).tolist())) != 1:
            raise CalibrationError("The samples are not evenly spaced; calibrate again.")
        on, off = (edge_delay(list(_around(ticks, current, marks)), SETTLE_S) for marks in self._marks.values())
        sigma = math.hypot(on.sigma_s, off.sigma_s) / 2
        # A switch may open later than it closes; the true delay is taken to lie anywhere between the two.
        return PathDelay((on.delay_s + off.delay_s) / 2, COVERAGE * math.hypot(sigma, (on.delay_s - off.delay_s) / math.sqrt(12)), on, off)


def _around(ticks: npt.NDArray[np.int64], current: npt.NDArray[np.int32], marks: list[int]) -> Iterator[Edge]:
    """The samples around each edge; time 0 is the edge itself."""
    settle, interval = round(SETTLE_S / _TICK_S), int(ticks[1] - ticks[0])
    for mark in marks:
        low, high = np.searchsorted(ticks, [mark - settle - interval, mark + 2 * settle + 2 * interval])
        if high > low:
            yield Edge(0.0, (int(ticks[low]) - mark) * _TICK_S, interval * _TICK_S, current[low:high].astype(float).tolist())


def calibrate_delays(rig: Rig, empty: Callable[[], None], store: bool, pulses: int = PULSES) -> dict[str, PathDelay]:
    """Measure the delay of each current path of a rig with an empty connector, write it to the rig, and to its EEPROM if ``store``.

    empty: called if PERST# is high, as it is while a drive works; returns once the connector is empty. The rig holds PERST# low meanwhile.

    Returns the results for ``current`` and, for a rig with two current paths, ``fine``. Raises CalibrationError if no delay is found; the
    rig keeps its old values. Raises RigError if the rig does not obey.
    """
    control = rig.control
    if control.query("OUTP:GOOD?") != "1":
        raise CalibrationError("The test load has no supply: the rail is not good, or the output is off (OUTP ON).")
    fine = "FINE" in control.query("*OPT?").strip('"').split(",")
    hold = control.query("OUTP:PERS?") != "1"
    if hold:
        empty()
        control.command("OUTP:PERS ON")
    found = {}
    try:
        with _settings(rig):
            control.command("SENS:SWE:DEC 1;TINT 1E-6")
            for path, (name, upper) in _PATHS.items():
                if path == "fine" and not fine:
                    continue
                if fine:
                    control.command(f"SENS:CURR:RANG {upper}")
                found[path] = _plausible(path, _pulses(rig, name, pulses))
    finally:
        if hold:
            control.command("OUTP:PERS OFF")
    for path, delay in found.items():
        control.command(f"CAL:DEL:{_PATHS[path][0]} {delay.delay_s:.12f},{max(delay.u_s, 1e-12):.12f}")
    if store:
        control.command("CAL:STOR")
    return found


@contextmanager
def _settings(rig: Rig) -> Iterator[None]:
    """Restore the settings changed inside."""
    before = [rig.control.query(f"{name}?") for name in _SETTINGS]
    try:
        yield
    finally:
        for name, value in zip(_SETTINGS, before):  # the range first: setting it turns automatic ranging off
            rig.control.command(f"{name} {value}")


def _plausible(path: str, found: PathDelay) -> PathDelay:
    if abs(found.delay_s - DESIGN_DELAY_S) > PLAUSIBLE_S:
        raise CalibrationError(
            f"The {'fine' if path == 'fine' else 'coarse'} path seems late by {found.delay_s * 1e6:.2f} us; as designed it is "
            f"{DESIGN_DELAY_S * 1e6:g} us. Is the connector empty? The capacitors of a drive smear the edges."
        )
    return found


def _pulses(rig: Rig, name: str, pulses: int) -> PathDelay:
    """Capture this many pulses."""
    stream, view = PulseStream(), memoryview(bytearray(1 << 20))
    began: TickReading

    def complete() -> bool:
        if stream.edges < 2 * pulses and stream.last_s > began.tick * _TICK_S + 1.5 * pulses * PULSE_S + 0.1:
            raise RigError(f"Rig {rig.port.serial} marked {stream.edges} edges of its test load instead of {2 * pulses}.")
        return stream.edges >= 2 * pulses and stream.last_s >= stream.looked_at_s

    def begin() -> None:
        nonlocal began
        rig.control.command(f"DIAG:LOAD {name},{pulses}")
        began = ask_tick(rig.control)  # what was sent by now may lie unread in many buffers

    rig.start()
    try:
        command_while_reading(rig, view, begin, stream.feed)
        follow(rig, view, stream.feed, complete, "the last edge was seen")
    finally:
        command_while_reading(rig, view, rig.stop)
    return stream.delay()
