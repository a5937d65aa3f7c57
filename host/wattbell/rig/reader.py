"""Reads the stream in its own thread, so that the port keeps being emptied while the recorder decodes and writes."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from ..errors import RigError, WattbellError

_FLUSH_S = 0.1
_BUFFER_BYTES = 4 << 20
"""What USB high speed delivers in 0.1 s: large journal writes cost a fraction of small ones."""
_ROOM = 1 << 13
_RETRY_S = 0.2


class Line(Enum):
    """Line state, queued between the data."""

    CUT = "cut"
    BACK = "back"


class Readable(Protocol):
    """What a reader needs from a rig."""

    def read_into(self, buffer: memoryview) -> int:
        """See :meth:`wattbell.rig.port.Rig.read_into`."""

    def reopen(self) -> bool:
        """See :meth:`wattbell.rig.port.Rig.reopen`."""


class StreamReader:
    """Reads until stopped; journals and passes on the data of 0.1 s, or 4 MiB.

    ``items`` holds memoryviews of bytes (to be returned by :meth:`release`), :class:`Line` values, and the exception that
    ended the thread, if any. After a cut, the rig is looked for by its serial number until it is back.
    """

    def __init__(self, rig: Readable, journal: Callable[[memoryview], None]) -> None:
        self.items: queue.Queue[memoryview | Line | WattbellError] = queue.Queue()
        self._free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        self._rig, self._journal = rig, journal
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wattbell-reader", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; what it had read is in the queue."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._read_until_cut()
                if self._stop.is_set():
                    break
                self.items.put(Line.CUT)
                while not self._rig.reopen():
                    if self._stop.wait(_RETRY_S):
                        return
                self.items.put(Line.BACK)
        except WattbellError as error:
            self.items.put(error)

    def release(self, data: memoryview) -> None:
        """Return the memory of an item. Optional, but allocating afresh costs more."""
        buffer = data.obj
        data.release()
        if isinstance(buffer, bytearray):
            self._free.put(buffer)

    def _buffer(self) -> memoryview:
        try:
            return memoryview(self._free.get_nowait())
        except queue.Empty:
            return memoryview(bytearray(_BUFFER_BYTES))

    def _read_until_cut(self) -> None:
        buffer, size, flush_at = self._buffer(), 0, 0.0
        try:
            while not self._stop.is_set():
                got = self._rig.read_into(buffer[size:])
                now = time.monotonic()
                if got and not size:
                    flush_at = now + _FLUSH_S
                size += got
                if size and (size + _ROOM > _BUFFER_BYTES or now >= flush_at):
                    self._hand_over(buffer[:size])
                    buffer, size = self._buffer(), 0
        except RigError:
            pass
        if size:
            self._hand_over(buffer[:size])

    def _hand_over(self, data: memoryview) -> None:
        self._journal(data)
        self.items.put(data)
