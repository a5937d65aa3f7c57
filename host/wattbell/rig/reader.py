"""Reads the stream in its own thread, so that the port keeps being emptied while the recorder decodes and writes."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ..errors import RigError

_FLUSH_S = 0.1
_BUFFER_BYTES = 4 << 20
"""Bytes that USB high speed delivers in 0.1 s: large journal writes cost a fraction of small ones."""
_ROOM = 1 << 13
_RETRY_S = 0.2
_MOST_BUFFERS = 16
"""Most buffers with data that nobody has taken yet. Later data is only journalled, since hours of data would fill the memory."""


class LineState(Enum):
    """Line state, queued between the data."""

    CUT = "cut"
    BACK = "back"


@dataclass(frozen=True)
class Later:
    """Bytes of the stream that lie in the journal alone, from byte ``offset`` on: to be read there."""

    offset: int
    size: int


class Readable(Protocol):
    """The interface that a reader needs from a rig."""

    def read_into(self, buffer: memoryview) -> int:
        """See :meth:`wattbell.rig.port.Rig.read_into`."""

    def reopen(self) -> bool:
        """See :meth:`wattbell.rig.port.Rig.reopen`."""


class StreamReader:
    """Reads until stopped; journals and passes on the data of 0.1 s, or 4 MiB.

    ``items`` holds memoryviews of bytes (to be returned by :meth:`release`), :class:`Later` ones, :class:`LineState` values, and the
    exception that ended the thread, if any. After a cut, the rig is looked for by its serial number until it is back.
    """

    def __init__(self, rig: Readable, journal: Callable[[memoryview], None]) -> None:
        self.items: queue.Queue[memoryview | Later | LineState | BaseException] = queue.Queue()
        self._made = 0
        """Number of buffers."""
        self._journalled = 0
        """Bytes."""
        self._free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        self._rig, self._journal = rig, journal
        spare = self._buffer()
        assert spare is not None
        self._spare = spare
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wattbell-reader", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; the data that it had read is in the queue."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._read_until_cut()
                if self._stop.is_set():
                    break
                self.items.put(LineState.CUT)
                while not self._rig.reopen():
                    if self._stop.wait(_RETRY_S):
                        return
                self.items.put(LineState.BACK)
        except BaseException as error:  # also when memory runs out: nobody else reads the port
            self.items.put(error)

    def release(self, data: memoryview) -> None:
        """Return the memory of an item."""
        buffer = data.obj
        data.release()
        if isinstance(buffer, bytearray):
            self._free.put(buffer)

    def _buffer(self) -> memoryview | None:
        """An empty buffer; None if all are full."""
        try:
            return memoryview(self._free.get_nowait())
        except queue.Empty:
            if self._made >= _MOST_BUFFERS:
                return None
            self._made += 1
            return memoryview(bytearray(_BUFFER_BYTES))

    def _read_until_cut(self) -> None:
        buffer, size, flush_at = self._spare, 0, 0.0
        try:
            while not self._stop.is_set():
                got = self._rig.read_into(buffer[size:])
                now = time.monotonic()
                if got and not size:
                    flush_at = now + _FLUSH_S
                size += got
                if size and (size + _ROOM > _BUFFER_BYTES or now >= flush_at):
                    buffer, size = self._hand_over(buffer, size), 0
        except RigError:
            pass
        self._spare = self._hand_over(buffer, size) if size else buffer

    def _hand_over(self, buffer: memoryview, size: int) -> memoryview:
        """Journal and pass on the first ``size`` bytes of a buffer; returns the one to read into next."""
        self._journal(buffer[:size])
        following = self._buffer()
        if following is None:
            self.items.put(Later(self._journalled, size))
        else:
            self.items.put(buffer[:size])
        self._journalled += size
        return buffer if following is None else following
