"""Reads the stream from a descriptor: a tty, or another descriptor that can be waited on (a pipe, a socket).

Linux returns at most 4095 bytes of a tty at a time and wakes the reader for each piece. So a short sleep follows each wake-up, in which
more arrives; the slower the stream, the longer the sleep.
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
"""Bytes found after a sleep below which the next sleep is longer.

A full tty makes it shorter. More data is then waiting in the kernel, may not be available at the next read, and soon stalls the sender (a
pty holds some 12 000 bytes).
"""


class DescriptorReader:
    """Fills buffers from a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._sleep_s = _LONGEST_S

    def read_into(self, buffer: memoryview) -> int:
        """Read everything that has arrived into the start of `buffer`; return the byte count, 0 when nothing came for :data:`WAIT_S`.

        Raises RigError at the end of the stream, when the line is cut, and when the descriptor was closed. Earlier bytes are returned
        first.
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
        except (OSError, ValueError) as error:  # ValueError: the descriptor is -1, the port was closed
            if not got:
                raise RigError(f"The rig was lost ({error}).") from None
        if got < _FEW:
            self._sleep_s = min(2 * self._sleep_s, _LONGEST_S)
        elif got >= _TTY_FULL:
            self._sleep_s = max(self._sleep_s / 2, _SHORTEST_S)
        return got
