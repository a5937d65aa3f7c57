"""The rig's side of the bridge: non-blocking bytes to and from a control port."""

from __future__ import annotations

import contextlib
import os
import termios

import serial

from ...errors import RigError
from .protected import is_protected

ROOM_BYTES = 1 << 16
"""Maximum number of bytes queued for the rig; beyond that, TCP backpressure holds the client."""
CLEAR = 0x03
"""Device clear (docs/scpi.md): aborts the command in progress and discards queued commands."""


class ControlLine:
    """An open control port that sends whole lines.

    A line longer than the rig accepts is cut just past the limit, so that the rig still rejects it (-363 in its error queue). Forwarding a
    megabyte without a newline would lock everybody else out for minutes.
    """

    LONGEST = 512
    """Longest message the rig accepts, in bytes (docs/scpi.md)."""

    def __init__(self, device: str, allow_power: bool) -> None:
        """``allow_power``: whether messages pass that move the drive's power or the calibration. Raises RigError when the port cannot be
        opened or another program has it."""
        try:
            self._port = serial.Serial(device, 115200, timeout=0, exclusive=True)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            raise RigError(f"{device} cannot be opened ({reason}); is another program using the rig?") from None
        self.device = device
        self._allow_power = allow_power
        self._partial = b""
        self._waiting = bytearray()

    def fileno(self) -> int:
        """File descriptor, for select."""
        return int(self._port.fileno())

    @property
    def full(self) -> bool:
        """Whether the queue is full for now."""
        return len(self._waiting) >= ROOM_BYTES

    @property
    def has_waiting(self) -> bool:
        """Whether :meth:`write` has anything to send."""
        return bool(self._waiting)

    def put(self, data: bytes) -> bool:
        """Queue data from a client. A device clear overtakes all unsent data.

        Returns False at the first message that is not allowed: that message and everything behind it are dropped.
        """
        _, clear, tail = data.rpartition(bytes([CLEAR]))
        if clear:
            self._waiting[:] = clear
            self._partial = b""
            data = tail
        *lines, rest = (self._partial + data).split(b"\n")
        for line in lines:
            if not self._allow_power and is_protected(line):
                self._partial = b""
                return False
            self._waiting += line[: self.LONGEST + 1] + b"\n"
        self._partial = rest[: self.LONGEST + 1]
        return True

    def end_client(self) -> None:
        """Drop the unfinished line of a client that has gone."""
        self._partial = b""

    def write(self) -> None:
        """Send as much as the port takes. Raises RigError when the line is cut."""
        try:
            sent = os.write(self.fileno(), self._waiting)
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            raise _lost(self.device, error) from None
        del self._waiting[:sent]

    def read(self) -> bytes:
        """Read the data that has arrived, once select says so. Raises RigError when the line is cut."""
        try:
            data = os.read(self.fileno(), 4096)
        except BlockingIOError:
            return b""
        except (OSError, ValueError) as error:
            raise _lost(self.device, error) from None
        if not data:
            raise _lost(self.device, OSError("end of file"))
        return data

    def close(self) -> None:
        """Close the port and discard data that the rig has not taken."""
        with contextlib.suppress(OSError, termios.error):  # the line was cut
            self._port.reset_output_buffer()
        with contextlib.suppress(OSError):
            self._port.close()


def _lost(device: str, error: Exception) -> RigError:
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return RigError(f"the rig on {device} was lost ({reason}); plug it in again")
