"""Records a rig into a capture until it stops."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

from ..errors import CaptureError, RigError
from ..rig.meanwhile import command_while_reading
from ..rig.port import Rig
from ..rig.reader import Later, LineState, StreamReader
from .live import Latest
from .memory import keep_freed_memory
from .room import memory_error
from .writer import CaptureWriter

_DRAIN_S, _DRAIN_LONGEST_S = 5.0, 60.0
"""After a stop: the longest silence, and the longest wait while blocks still come (over a slow line, or from a simulation that lags)."""
_POLL_S = 0.1
_DISCARD_BYTES = 1 << 16
RIG_STOPPED, USER_STOPPED = "the rig stopped", "stopped by the user"
"""Two of the reasons for which :func:`record` ends."""
BROKE_OFF = "the trace broke off, and what lay behind that was not played"
"""Note in the capture of a virtual rig that could not read its trace any further."""


@dataclass(frozen=True)
class Progress:
    """Progress of a recording."""

    seconds: float
    """Time by the rig's clock since the first block."""
    stream_bytes: int
    commands: int
    samples: int
    waiting: bool
    """True while the rig is unplugged, or another one is in its place."""
    lossless: bool
    latest: Latest | None = None
    """The figures of this moment."""


@dataclass(frozen=True)
class RecordingLimits:
    """When to stop, apart from the rig's own stop. Seconds by the rig's clock."""

    duration_s: float | None = None
    until_marker: int | None = None


def record(
    rig: Rig,
    writer: CaptureWriter,
    limits: RecordingLimits = RecordingLimits(),
    *,
    start: bool = True,
    progress: Callable[[Progress], None] | None = None,
    watch: Callable[[], str | None] | None = None,
    stop: threading.Event | None = None,
) -> str:
    """Record until the rig stops, a limit is reached, or SIGINT or SIGTERM; return the reason, in words.

    In the main thread, signals are handled here. The first ends the recording at the next piece of data. A second interrupts at once, and
    the capture is then rebuilt from its journal when opened. `stop` ends the recording from another thread as a signal would. `watch` is
    called while the line is cut; it returns why the rig will not come back, which ends the recording.

    After an unplug the recording resumes when the rig is back, with a gap for the time between. Another rig on its ports is left alone, and
    its data is left out. The caller's ``with`` closes the capture. `writer` has a journal. Raises CaptureError when the disk refuses a
    write or memory runs out. The rig is then stopped, and the journal is kept.
    """
    keep_freed_memory()
    session = _Session(rig, writer, limits, progress, watch, stop)
    with stop_on_signals(session.stop):
        try:
            return session.run(start)
        except MemoryError:
            raise memory_error(writer.path) from None


@contextlib.contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Make SIGINT and SIGTERM set `stop`, in the main thread; a second signal interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Session:
    def __init__(
        self,
        rig: Rig,
        writer: CaptureWriter,
        limits: RecordingLimits,
        progress: Callable[[Progress], None] | None,
        watch: Callable[[], str | None] | None,
        stop: threading.Event | None,
    ) -> None:
        self.stop = stop or threading.Event()
        self.rig, self.writer, self.limits, self.progress, self.watch = rig, writer, limits, progress, watch
        self.reader = StreamReader(rig, writer.journal_append)
        self.first_tick: int | None = None
        self.waiting = False

    def run(self, start: bool) -> str:
        self.writer.stream.expected = True
        live = self.writer.begin_live()
        live.left_s = self.limits.duration_s
        self.writer.stream.ask_sender(self.rig.sender)
        self.reader.start()
        try:
            if start:
                self.writer.stream.attached_late = not self.rig.start()
            self.writer.commit()
            reason = self._until_end()
        except (CaptureError, MemoryError):
            with contextlib.suppress(RigError, MemoryError, RuntimeError):  # RuntimeError: no thread can be started
                self.reader.stop()
                command_while_reading(self.rig, memoryview(bytearray(_DISCARD_BYTES)), self._stop, lambda _: None)
            raise
        finally:
            self.reader.stop()
            for serial in self.rig.strangers:
                self.writer.note(f"another rig, {serial}, answered in the place of this one: what it sent is left out")
        self._take_rest()
        return reason

    def _until_end(self) -> str:
        while True:
            if self.stop.is_set():
                self._stop_rig()
                return USER_STOPPED
            try:
                item = self.reader.items.get(timeout=_POLL_S)
            except queue.Empty:
                ended = self.watch() if self.waiting and self.watch else None
                if ended:
                    return ended
                self._report()
                continue
            self._take(item)
            self._report()
            account = self.writer.stream.account
            if account.run == 0 and (account.has_run or self.writer.stream.attached_late):
                self._drain()
                return RIG_STOPPED
            reason = self._limit()
            if reason:
                self._stop_rig()
                return reason

    def _take(self, item: memoryview | Later | LineState | BaseException) -> None:
        if isinstance(item, BaseException):
            raise item
        if item is LineState.CUT:
            self.waiting = True
        elif item is LineState.BACK:
            self.waiting = False
            self.writer.reconnected()
            self._resume()
        elif isinstance(item, Later):
            self._decode(self.writer.journalled(item.offset, item.size))
        else:
            self._decode(item)
            self.reader.release(item)

    def _decode(self, data: memoryview | bytes) -> None:
        for batch in self.writer.decode(data):
            if self.first_tick is None and batch.last_tick >= 0:
                self.first_tick = batch.last_tick

    def _resume(self) -> None:
        """A rig that lost its supply with the plug has stopped capturing and forgotten its settings: set them again and restart it."""
        try:
            if not self.rig.is_capturing():
                self.rig.configure_again()
            self.rig.start()
        except RigError as error:
            self.writer.note(f"after the rig came back it refused to start: {error}")

    def _limit(self) -> str | None:
        limits = self.limits
        if limits.until_marker is not None and any(value == limits.until_marker for _, value in self.writer.markers):
            return f"marker {limits.until_marker:#x} was seen"
        if limits.duration_s is not None and self._seconds() >= limits.duration_s:
            return f"{limits.duration_s:g} s are over"
        return None

    def _seconds(self) -> float:
        if self.first_tick is None:
            return 0.0
        return (self.writer.last_tick - self.first_tick) * int(self.writer.meta["clock"]["tick_ps"]) * 1e-12

    def _stop_rig(self) -> None:
        """Stop the rig and drain its remaining data."""
        if self.waiting or self.rig.stranger is not None:
            return
        try:
            self._stop()
        except RigError as error:
            self.writer.note(f"the rig did not confirm the stop: {error}")
            return
        self._drain()

    def _stop(self) -> None:
        """Stop the rig, and no other one."""
        if self.rig.stranger is None:
            self.rig.stop()

    def _drain(self) -> None:
        """Take remaining data, up to the run's last block: data left in the line would be taken for the beginning of the next run."""
        now = time.monotonic()
        longest, deadline = now + _DRAIN_LONGEST_S, now + _DRAIN_S
        while time.monotonic() < min(deadline, longest):
            try:
                self._take(self.reader.items.get(timeout=_POLL_S))
                deadline = time.monotonic() + _DRAIN_S
            except queue.Empty:
                if self.writer.stream.account.ended:
                    return

    def _take_rest(self) -> None:
        while not self.reader.items.empty():
            item = self.reader.items.get()
            if isinstance(item, memoryview):
                self._decode(item)
                self.reader.release(item)
            elif isinstance(item, Later):
                self._decode(self.writer.journalled(item.offset, item.size))

    def _report(self) -> None:
        live = self.writer.begin_live()
        live.waiting = waiting = self.waiting or self.rig.stranger is not None
        if self.limits.duration_s is not None:
            live.left_s = max(0.0, self.limits.duration_s - self._seconds())
        self.writer.look()
        if self.progress is None:
            return
        counts = self.writer.counts()
        self.progress(
            Progress(
                self._seconds(),
                self.writer.stream.decoder.counters.bytes_in,
                counts["commands"],
                counts["samples"],
                waiting,
                self.writer.stream.decoder.counters.lossless,
                live.latest,
            )
        )
