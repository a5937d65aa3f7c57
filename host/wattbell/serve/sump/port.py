"""The SUMP client's port: a pseudo-terminal made for it, or a serial line."""

from __future__ import annotations

import os
import termios
import tty

import serial

from ...errors import RigError, UsageError

_PIECE = 4096


class Port:
    """A terminal as non-blocking bytes in both directions. `far` is the client's end of a pseudo-terminal, held open so that clients may
    come and go."""

    def __init__(self, descriptor: int, name: str, far: int | None = None, line: serial.Serial | None = None) -> None:
        self.name = name
        self._descriptor, self._far, self._line = descriptor, far, line
        os.set_blocking(descriptor, False)

    def fileno(self) -> int:
        """File descriptor, for select."""
        return self._descriptor

    def read(self) -> bytes:
        """Read the data that has arrived, once select says so. Raises RigError when the line is cut."""
        try:
            data = os.read(self._descriptor, _PIECE)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self._lost(error) from None
        if not data:
            raise self._lost(OSError("end of file"))
        return data

    def _lost(self, error: OSError) -> RigError:
        return RigError(f"the line to the client, {self.name}, was lost ({error.strerror or error})")

    def write(self, data: bytearray) -> None:
        """Send as much of `data` as possible, removing it from the front. Raises RigError when the line is cut."""
        try:
            del data[: os.write(self._descriptor, data[:_PIECE])]
        except BlockingIOError:
            pass
        except OSError as error:
            raise self._lost(error) from None

    def discard(self) -> None:
        """Discard data that the client has not read."""
        if self._far is not None:
            termios.tcflush(self._far, termios.TCIFLUSH)
        else:
            termios.tcflush(self._descriptor, termios.TCOFLUSH)

    def close(self) -> None:
        """Close it."""
        if self._line is not None:
            self._line.close()
            return
        os.close(self._descriptor)
        if self._far is not None:
            os.close(self._far)


def open_pty() -> Port:
    """A new pseudo-terminal, named by the client's end, which only this user may open (else group tty may write to it)."""
    near, far = os.openpty()
    os.fchmod(far, 0o600)
    tty.setraw(far)
    return Port(near, os.ttyname(far), far=far)


def open_tty(path: str) -> Port:
    """The serial line that leads to the client. Raises UsageError when it cannot be opened."""
    try:
        line = serial.Serial(path, 115200, timeout=0, exclusive=True)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise UsageError(f"--port {path} cannot be opened ({reason}).") from None
    return Port(line.fileno(), path, line=line)
