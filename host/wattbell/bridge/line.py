"""The rig's side of the bridge: a control port as bytes, in both directions, without waiting."""

from __future__ import annotations

import contextlib
import os
import termios

import serial

from ..errors import RigError

ROOM_BYTES = 1 << 16
"""What waits for the rig at most; a client that sends more is held by TCP."""
CLEAR = 0x03
"""Device clear of docs/scpi.md: ends the command under way and throws away what waits."""


class ControlLine:
    """An open control port. Whole lines go out. Of one that is longer than a rig takes only so much does that the rig refuses it as too
    long (-363 in its error queue): passing on a megabyte without a newline would keep everybody else out for minutes."""

    LONGEST = 512
    """Bytes of a message that a rig takes (docs/scpi.md)."""

    def __init__(self, device: str) -> None:
        """RigError when it cannot be opened, or another program has it."""
        try:
            self._port = serial.Serial(device, 115200, timeout=0, exclusive=True)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            raise RigError(f"{device} cannot be opened ({reason}); is another program using the rig?") from None
        self.device = device
        self._partial = b""
        self._waiting = bytearray()

    def fileno(self) -> int:
        """The descriptor, for select."""
        return int(self._port.fileno())

    @property
    def full(self) -> bool:
        """Whether no more should be put in for now."""
        return len(self._waiting) >= ROOM_BYTES

    @property
    def has_waiting(self) -> bool:
        """Whether :meth:`write` has something to do."""
        return bool(self._waiting)

    def put(self, data: bytes) -> None:
        """What a client sent. A device clear overtakes what has not left yet."""
        _, clear, tail = data.rpartition(bytes([CLEAR]))
        if clear:
            self._waiting[:] = clear
            self._partial = b""
            data = tail
        *lines, rest = (self._partial + data).split(b"\n")
        for line in lines:
            self._waiting += line[: self.LONGEST + 1] + b"\n"
        self._partial = rest[: self.LONGEST + 1]

    def end_client(self) -> None:
        """The client is gone: what it had begun of a line is dropped."""
        self._partial = b""

    def write(self) -> None:
        """Send what goes. RigError when the line is cut."""
        try:
            sent = os.write(self.fileno(), self._waiting)
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            raise _lost(self.device, error) from None
        del self._waiting[:sent]

    def read(self) -> bytes:
        """What came, when select has said that something did. RigError when the line is cut."""
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
        """Close the port; what the rig has not taken is thrown away."""
        with contextlib.suppress(OSError, termios.error):  # the line was cut
            self._port.reset_output_buffer()
        with contextlib.suppress(OSError):
            self._port.close()


def _lost(device: str, error: Exception) -> RigError:
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return RigError(f"the rig on {device} was lost ({reason}); plug it in again")
