"""Reading a descriptor that carries the stream: a tty, or anything else that can be waited for (a pipe, a socket).

Linux hands out at most 4095 bytes of a tty at a time and wakes the reader for each piece, so each wake-up is followed
by a short sleep in which more arrives; it is the longer the slower the stream is.
"""

from __future__ import annotations

import os
import select
import time

from ..errors import RigError

WAIT_S = 0.05
"""Longest wait for the first byte."""
_SHORTEST_S, _LONGEST_S = 0.0001, 0.002
_TTY_FULL = 4095
_FEW = 1024
"""Bytes met after a sleep that make the next one longer. A full tty makes it shorter: more than that waits in the
kernel, may not be there yet at the next read, and stalls the sender soon (a pty takes some 12 000 bytes)."""


class Source:
    """Fills buffers from a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._sleep_s = _LONGEST_S

    def read_into(self, buffer: memoryview) -> int:
        """Bytes put at the start of `buffer`: all that has come; 0 when nothing came for :data:`WAIT_S`.

        Raises RigError at the end of the stream, when the line is cut, and when the descriptor was closed; bytes that
        came before are returned first.
        """
        got, size = 0, len(buffer)
        try:
            if not select.select([self.descriptor], [], [], WAIT_S)[0]:
                return 0
            time.sleep(self._sleep_s)
            while got < size:
                piece = os.readv(self.descriptor, [buffer[got:]])
                if not piece:
                    raise OSError("end of file")
                got += piece
                if piece < _TTY_FULL:
                    break
        except BlockingIOError:
            pass
        except (OSError, ValueError) as error:  # ValueError: a descriptor of -1, the port was closed
            if not got:
                raise RigError(f"The rig was lost ({error}).") from None
        if got < _FEW:
            self._sleep_s = min(2 * self._sleep_s, _LONGEST_S)
        elif got >= _TTY_FULL:
            self._sleep_s = max(self._sleep_s / 2, _SHORTEST_S)
        return got
