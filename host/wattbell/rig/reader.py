"""Reads the stream in a thread of its own, so that the port is emptied while the recorder decodes and writes."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from enum import Enum

from ..errors import RigError, WattbellError
from .port import Rig

_FLUSH_S = 0.1
_FLUSH_BYTES = 1 << 20
_RETRY_S = 0.2


class Line(Enum):
    """State of the line, in the queue between the data."""

    CUT = "cut"
    BACK = "back"


class StreamReader:
    """Reads until stopped; journals at once, hands over pieces of up to 1 MiB or 0.1 s.

    ``items`` holds bytes, :class:`Line` values, and an exception when the thread ended by one. After a cut the rig is
    looked for by its serial number until it is back.
    """

    def __init__(self, rig: Rig, journal: Callable[[bytes], None]) -> None:
        self.items: queue.Queue[bytes | Line | WattbellError] = queue.Queue()
        self._rig, self._journal = rig, journal
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wattbell-reader", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what it had read is in the queue."""
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

    def _read_until_cut(self) -> None:
        parts: list[bytes] = []
        size, flush_at = 0, 0.0
        try:
            while not self._stop.is_set():
                data = self._rig.read()
                now = time.monotonic()
                if data:
                    if not parts:
                        flush_at = now + _FLUSH_S
                    parts.append(data)
                    size += len(data)
                if parts and (size >= _FLUSH_BYTES or now >= flush_at):
                    self._hand_over(parts)
                    parts, size = [], 0
        except RigError:
            pass
        if parts:
            self._hand_over(parts)

    def _hand_over(self, parts: list[bytes]) -> None:
        data = b"".join(parts)
        self._journal(data)
        self.items.put(data)
