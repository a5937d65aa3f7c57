"""A serial device on a pty: what emulators of meters have in common."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import threading
import time
import tty


class PtyDevice:
    """Runs :meth:`loop` in a thread. ``port``: the name of the pty. Use as a context manager."""

    def __init__(self) -> None:
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self.received = b""
        self.gone = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self.gone.is_set():
                if select.select([self._master], [], [], 0.002)[0]:
                    data = os.read(self._master, 4096)
                    self.received += data
                    self.command(data)
                self.loop(time.monotonic())
        except OSError:
            pass  # the other end was closed
        finally:
            os.close(self._master)

    def command(self, data: bytes) -> None:
        """Bytes came from the host."""
        raise NotImplementedError

    def loop(self, now: float) -> None:
        """Called every 2 ms or so."""

    def send(self, data: bytes) -> None:
        """To the host; blocks while it does not read."""
        while data:
            data = data[os.write(self._master, data) :]

    def unplug(self) -> None:
        """From within the thread: the port vanishes, once the host has read the bytes sent (the kernel throws unread bytes away)."""
        quiet_since = time.monotonic()
        # On a busy machine the line discipline takes bytes over late. Until then FIONREAD does not count them. A meter counts as stopped
        # after 3 s, so the port has to vanish before.
        while time.monotonic() - quiet_since < 1.5 and not self.gone.wait(0.002):
            if any(fcntl.ioctl(self._slave, termios.FIONREAD, struct.pack("i", 0))):
                quiet_since = time.monotonic()
        self.gone.set()

    def __enter__(self) -> PtyDevice:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gone.set()
        self._thread.join(timeout=5)
        os.close(self._slave)
