"""Recorders during a session's steps: a rig, with commands and rail in one stream, or a meter, with the rail."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ..capture import CaptureWriter
from ..capture.loadpattern import BEHIND_LIMIT_S, OFFSET_LIMIT_S, Pattern, PatternPower
from ..capture.record import RIG_STOPPED, USER_STOPPED, RecordingLimits, record
from ..capture.source import RailSource
from ..clocks.host import host_ns
from ..clocks.map import ClockMap
from ..errors import ClockError, DriveError, RigError
from ..meters.meter import Meter
from ..meters.record import Recorder
from ..rig import Rig
from ..suites.step import Rest
from .settle import RailWatch, Seen, wait

_STALLED_S = 15.0
"""A marker may come long after its command (a virtual rig's simulation lags); the stream must go on meanwhile."""
_POLL_S = 0.2
_READ_S, _LOOK_S = 0.1, 5.0
_BEHIND_A_PATTERN_S = 0.5
_ANSWERED_S = 3.0
"""Largest delay in s of a meter's first answer behind its first samples. A meter that answers needs no pattern of load."""
_CATCHING_UP_S, _CATCHES_UP_NS = 2.0, 20_000_000
"""A virtual rig that has come nearer by less than this in as long is as near as it comes."""


class Recording(ABC):
    """Records in a thread from :meth:`begin` until :meth:`end`. ``what``: who records, as a sentence begins."""

    what: str

    def __init__(self, writer: CaptureWriter) -> None:
        self.writer = writer
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.reason = ""
        self.rail = RailWatch(int(writer.meta["clock"]["tick_ps"]) * 1e-12)
        writer.on_rail = self._take
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def begin(self) -> None:
        """Start recording."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self.reason = self._record()
        except BaseException as error:  # handed to the main thread, which says it
            self.error = error

    @abstractmethod
    def _record(self) -> str:
        """Record until :attr:`stop` is set, or the recording ends by itself; return why."""

    def _take(self, source: RailSource) -> None:
        self.rail.add(source)

    def check(self) -> None:
        """Raise the error that ended the recording, if any."""
        if self.error is not None:
            raise self.error
        if not self._thread.is_alive():
            raise DriveError(f"The recording ended before the workload did: {self.reason}.")

    def await_marker(self, value: int, within_s: float = math.inf) -> int | None:
        """Tick of a marker once it was seen and the rail up to it; None when the recording ends without it, nothing has come for a
        while, or ``within_s`` of the recorder's clock have come without it."""
        progress = _Progress(lambda: self.writer.last_tick)
        tick_s = int(self.writer.meta["clock"]["tick_ps"]) * 1e-12
        begin: int | None = None
        while (tick := self._seen(value)) is None and self._thread.is_alive() and progress.goes_on():
            self._thread.join(_POLL_S)
            begin = begin or self.writer.last_tick or None
            if begin is not None and (self.writer.last_tick - begin) * tick_s > within_s:
                return self._seen(value)
        return tick

    @abstractmethod
    def _seen(self, value: int) -> int | None:
        """Tick of a marker that was seen and behind which the rail is there."""

    def await_rest(self, begin: int, rest: Rest) -> Seen:
        """Watch the rail behind the marker ``begin`` until it is at rest, or for the longest time; return the observation.

        Raises DriveError when the stream stops.
        """
        tick = self.await_marker(begin)
        self.check()
        if tick is None:
            raise DriveError(self.unseen)
        self.rail.begin(tick)
        progress = _Progress(lambda: self.writer.last_tick)

        def pause() -> None:
            self.check()
            if not progress.goes_on():
                raise DriveError(f"{self.what} has sent nothing for {_STALLED_S:g} s; is it still plugged in?")
            time.sleep(_POLL_S)

        return wait(lambda: self.rail.look(rest, self.writer.last_tick), rest.longest_s, pause)

    @property
    @abstractmethod
    def unseen(self) -> str:
        """Meaning of an unseen marker, in words."""

    def end(self) -> None:
        """Stop, if it has not stopped by itself."""
        self.stop.set()
        if self._thread.ident is not None:
            self._thread.join()


class RigRecording(Recording):
    """A rig's stream: its tap sees the markers."""

    what = "The rig"

    def __init__(self, rig: Rig, writer: CaptureWriter) -> None:
        super().__init__(writer)
        self._rig = rig

    def _record(self) -> str:
        return record(self._rig, self.writer, RecordingLimits(), stop=self.stop)

    def _seen(self, value: int) -> int | None:
        return next((tick for tick, found in reversed(self.writer.markers) if found == value), None)

    @property
    def unseen(self) -> str:
        return "The rig's stream does not show what the drive is sent: is this rig at this drive?"


class MeterRecording(Recording):
    """A meter's rail. ``marked_ns``: when, by the host's clock, the host's log of commands saw a marker; None if it has not.

    The meter's clock is placed by its earliest arrivals until the session is over: late by no more than the quickest of its data took.
    """

    def __init__(self, meter: Meter, writer: CaptureWriter, marked_ns: Callable[[int], int | None]) -> None:
        super().__init__(writer)
        self.meter, self.what = meter, f"The meter ({meter.about.model})"
        self.recorder = Recorder(meter, writer)
        self._marked_ns = marked_ns
        self._tick_ps = meter.about.tick_ps
        self._late_ns: int | None = None
        self._answers_by_s: float | None = None
        self.waveform = PatternPower(self._tick_ps)
        self.watched = False
        """Whether new samples also go into :attr:`waveform`."""

    def _record(self) -> str:
        self.meter.start()
        while not self.stop.is_set():
            if self.recorder.ended:
                return RIG_STOPPED
            if self.recorder.take(_READ_S) and self.recorder.last_tick > 0:
                late = host_ns() - self._ns(self.recorder.last_tick)
                self._late_ns = late if self._late_ns is None else min(self._late_ns, late)
        self.recorder.end()
        return USER_STOPPED

    def _ns(self, tick: int) -> int:
        return tick * self._tick_ps // 1000

    def tick_at(self, ns: int) -> int | None:
        """Return the approximate tick at an instant of the host's clock, never too early. None before the first sample."""
        return None if self._late_ns is None else (ns - self._late_ns) * 1000 // self._tick_ps

    def _take(self, source: RailSource) -> None:
        interval = self.meter.about.interval_ticks
        if (source.interval_ticks != interval).any():
            now = next(int(n) for n in source.interval_ticks if n != interval)
            raise RigError(f"{self.what} changed its sample interval from {interval} to {now} ticks; what it had sent is kept.")
        super()._take(source)
        if self.watched:
            self.waveform.add(source)

    @property
    def virtual(self) -> bool:
        """Whether the meter is a virtual rig with a simulated counter.

        It may be behind the drive that it follows, and first catches up with the time before the session.
        """
        return bool(self.meter.about.conditions.get("virtual"))

    @property
    def asked(self) -> bool:
        """Whether the meter reports its counter between two instants of the host's clock."""
        return not self.virtual and any(pair.before_ns is not None for pair in self.meter.clock_pairs())

    def await_data(self) -> None:
        """Wait for the first samples, then a while for readings of the meter's clock; for a virtual rig, until it comes no nearer."""
        progress = _Progress(lambda: self.recorder.last_tick)
        before: int | None = None
        while self._thread.is_alive() and progress.goes_on():
            late, since = self._late_ns, time.monotonic()
            if late is not None and (not self.virtual or (before is not None and before - late < _CATCHES_UP_NS)):
                break
            before = late
            while time.monotonic() - since < (_CATCHING_UP_S if self.virtual else _READ_S) and self._thread.is_alive():
                self._thread.join(_READ_S)
        if self._answers_by_s is None:
            self._answers_by_s = time.monotonic() + _ANSWERED_S
        while not self.virtual and not self.asked and self._thread.is_alive() and time.monotonic() < self._answers_by_s:
            self._thread.join(_READ_S)

    def aligned(self, played: Sequence[Pattern], covers_ns: tuple[int, int] | None = None) -> ClockMap:
        """The meter's clock on the host's, by patterns of load. Raises ClockError when the waveform does not show them (yet, of a virtual
        rig: :meth:`await_pattern`).
        """
        return self.waveform.align(played, self.late_ns, BEHIND_LIMIT_S if self.virtual else OFFSET_LIMIT_S, covers_ns)

    def await_pattern(self, played: Sequence[Pattern]) -> None:
        """Wait until a virtual rig, however far behind, has shown all of the patterns, or can no more."""
        progress = _Progress(lambda: self.recorder.last_tick)
        most = self.recorder.last_tick + round(BEHIND_LIMIT_S * 1e12) // self._tick_ps
        over_ns = int(played[-1][-1].end_ns.max()) + round(_BEHIND_A_PATTERN_S * 1e9)
        while self._thread.is_alive() and progress.goes_on() and self.recorder.last_tick < most:
            try:
                clock = self.aligned(played)
            except ClockError:
                self._thread.join(_LOOK_S)
                continue
            if clock.inverse().to_reference(over_ns) <= self._ns(self.recorder.last_tick):
                return
            self._thread.join(_LOOK_S)

    @property
    def late_or_none_ns(self) -> int | None:
        """:attr:`late_ns`, None before the first arrival."""
        return self._late_ns

    @property
    def late_ns(self) -> int:
        """Approximate difference of the host's clock and the meter's in ns, by the earliest arrival, so at least the true value.

        Raises ClockError before the first arrival.
        """
        if self._late_ns is None:
            raise ClockError(f"{self.what} has sent nothing.")
        return self._late_ns

    def await_marker(self, value: int, within_s: float = math.inf) -> int | None:
        """Wait as the base class does. The host's log shows a marker within a moment, however late the rail is."""
        since = time.monotonic()
        while self._marked_ns(value) is None and self._thread.is_alive():
            if time.monotonic() - since > _STALLED_S:
                raise DriveError(f"The host's log of commands does not show marker {value:#x}, which the drive was sent.")
            self._thread.join(_POLL_S)
        return super().await_marker(value, within_s)

    def _seen(self, value: int) -> int | None:
        ns = self._marked_ns(value)
        return None if ns is None else self.passed(ns)

    def passed(self, ns: int) -> int | None:
        """The tick of an instant of the host's clock, once the rail has come so far."""
        tick = self.tick_at(ns)
        return tick if tick is not None and self.recorder.last_tick >= tick else None

    @property
    def unseen(self) -> str:
        return f"{self.what} has sent nothing for a while, or the host's log of commands does not show what the drive is sent."


class _Progress:
    """Watches whether a number keeps changing."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self._seen, self._since = number(), time.monotonic()

    def goes_on(self) -> bool:
        """False when it has not changed for ``_STALLED_S``."""
        now = self._number()
        if now != self._seen:
            self._seen, self._since = now, time.monotonic()
        return time.monotonic() - self._since < _STALLED_S


__all__ = ["MeterRecording", "Recording", "RigRecording"]
