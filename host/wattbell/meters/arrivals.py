"""Read a port in a thread, and note the host's time of each piece.

The thread empties the kernel's buffer in time. The loop of the meters that read from a port is here too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from ..capture.source import RailSource
from ..clocks.host import host_ns
from ..errors import RigError
from .meter import ClockPair

T = TypeVar("T")
Raw = TypeVar("Raw", bytes, str)
_MOST_PIECES = 1 << 14
"""Most pieces read ahead: some minutes. Beyond these the port is left alone, and the meter counts its losses."""
_AT_ONCE = 128
"""Most pieces that :meth:`Arrivals.take` returns at once. On a slow computer, the caller thus handles them before it takes the meter for
silent.
"""
_SILENCE_NS = 3_000_000_000
"""A meter that measures and sends nothing for this long has stopped."""
_ONE_WAIT_NS = 200_000_000
"""Most time that one `read` in vain adds to the silence. A longer wait is the computer's fault, and the meter need not be silent."""
_A_SECOND_NS = 1_000_000_000


def reader(descriptor: int) -> Callable[[], bytes]:
    """Return a function that waits up to 100 ms for bytes of a port and returns them. It raises OSError when the port hangs up."""

    def read() -> bytes:
        if not select.select([descriptor], [], [], 0.1)[0]:
            return b""
        data = os.read(descriptor, 1 << 16)
        if not data:
            raise OSError("hung up")
        return data

    return read


class Arrivals(Generic[T]):
    """Pieces, such as bytes, and the host ns of each arrival.

    read: waits a moment for a piece and returns it, or None (or no bytes) if none came. Raises OSError when the line is cut, or RigError
        with a message of its own
    what: the meter, as an error message begins
    slow_s: time without a piece, in s, that is no fault
    """

    def __init__(self, what: str, read: Callable[[], T | None], slow_s: float = 0.0) -> None:
        self.what = what
        self._read = read
        self._silence_ns = max(_SILENCE_NS, round(slow_s * 1e9))
        self._queue: queue.Queue[tuple[int, T] | OSError | RigError | MemoryError] = queue.Queue(_MOST_PIECES)
        self._end = threading.Event()
        self._lost: OSError | RigError | MemoryError | None = None
        self._silent_ns = 0
        self._thread = threading.Thread(target=self._run, name="wattbell-meter", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            began_ns = host_ns()
            try:
                data = self._read()
            except (OSError, RigError, MemoryError) as error:
                self._put(error)
                return
            if data:
                self._silent_ns = 0
                self._put((host_ns(), data))
            else:
                self._silent_ns += min(host_ns() - began_ns, _ONE_WAIT_NS)

    def _put(self, item: tuple[int, T] | OSError | RigError | MemoryError) -> None:
        while not self._end.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(item, timeout=0.1)
                return

    def take(self, timeout_s: float, *, ending: bool = False) -> list[tuple[int, T]]:
        """Return the pieces that have arrived, some seconds at most. Waits up to `timeout_s` for the first.

        Raises RigError when the line is cut, or was silent for 3 s (or `slow_s`) unless `ending`. Pieces from before are returned first.
        """
        found: list[tuple[int, T]] = []
        while self._lost is None and len(found) < _AT_ONCE:
            try:
                item = self._queue.get(timeout=0 if found else timeout_s) if timeout_s > 0 and not found else self._queue.get_nowait()
            except queue.Empty:
                break
            if isinstance(item, OSError | RigError | MemoryError):
                self._lost = item
            else:
                found.append(item)
        if found or ending:
            return found
        if isinstance(self._lost, RigError | MemoryError):
            raise self._lost
        if self._lost is not None:
            reason = self._lost.strerror or str(self._lost)
            raise RigError(f"{self.what} is gone ({reason}); check its cable and its supply. What it had sent is kept.")
        if self._silent_ns > self._silence_ns:
            raise RigError(f"{self.what} has stopped sending; unplug it and begin again. What it had sent is kept.")
        return found

    def close(self) -> None:
        """End the thread."""
        self._end.set()
        self._thread.join(timeout=2)


class SendingMeter(ABC, Generic[T]):
    """A meter that sends by itself from its start to its stop. It makes ``_arrivals`` when it starts."""

    def __init__(self) -> None:
        self._arrivals: Arrivals[T] | None = None
        self._failed: RigError | None = None
        self._stopped = False

    @abstractmethod
    def _end(self) -> None:
        """Tell it to stop; called once, not of a meter that failed."""

    @abstractmethod
    def _close(self) -> None:
        """Let go of the port."""

    def stop(self) -> None:
        """See :class:`~.meter.Meter`."""
        if self._arrivals is None or self._stopped:
            return
        self._stopped = True
        if self._failed is None:
            self._end()

    def remarks(self) -> list[str]:
        """See :class:`~.meter.Meter`."""
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.stop()
        except RigError:
            pass  # it is gone already
        finally:
            if self._arrivals is not None:
                self._arrivals.close()
            self._close()


class ArrivingMeter(SendingMeter[Raw]):
    """A meter that sends its samples in pieces. :meth:`_feed` turns each piece into blocks in ``_out``."""

    _together = 0
    """Pieces that wait are joined until they have this length, and fed as one; 0: each by itself."""

    def __init__(self) -> None:
        super().__init__()
        self._out: list[RailSource] = []

    @abstractmethod
    def _feed(self, arrival_ns: int, piece: Raw) -> None:
        """Take a piece. Raises RigError for unknown content."""

    def _release(self) -> None:
        """Put the samples still held back into ``_out``, since nothing follows any more."""

    def read(self, timeout_s: float) -> list[RailSource]:
        """See :class:`~.meter.Meter`."""
        assert self._arrivals is not None, "start() comes first"
        if self._failed is not None:
            raise self._failed
        try:
            pieces = self._arrivals.take(timeout_s, ending=self._stopped)
            for arrival_ns, piece in _joined(pieces, self._together):
                self._feed(arrival_ns, piece)
        except RigError as error:
            self._failed, pieces = error, []
        if self._failed or (self._stopped and not pieces):
            self._release()
        out, self._out = self._out, []
        if self._failed and not out:
            raise self._failed
        return out


def _joined(pieces: list[tuple[int, Raw]], length: int) -> Iterator[tuple[int, Raw]]:
    """Join small pieces that waited together, with the arrival of the last piece, so that a slow computer catches up."""
    held: list[Raw] = []
    size = 0
    for k, (arrival_ns, piece) in enumerate(pieces):
        held.append(piece)
        size += len(piece)
        if size >= length or k == len(pieces) - 1:
            yield arrival_ns, held[0] if len(held) == 1 else piece[:0].join(held)
            held, size = [], 0


class Earliest:
    """Clock pairs of a meter that only sends: of each second the sample that arrived soonest after its tick. Its sampling was no later."""

    def __init__(self, tick_ns: float) -> None:
        """``tick_ns``: of the meter's tick."""
        self._tick_ns = tick_ns
        self._pairs: list[ClockPair] = []
        self._late = 0.0
        self._since_ns: int | None = None

    def add(self, arrival_ns: int, tick: int) -> None:
        """The sample at `tick` was there at `arrival_ns`."""
        late = arrival_ns - tick * self._tick_ns
        pair = ClockPair(None, arrival_ns, tick)
        if self._since_ns is None or arrival_ns - self._since_ns >= _A_SECOND_NS:
            self._since_ns, self._late = arrival_ns, late
            self._pairs.append(pair)
        elif late < self._late:
            self._late = late
            self._pairs[-1] = pair

    def pairs(self) -> list[ClockPair]:
        """Return the pairs in order of time."""
        return list(self._pairs)
