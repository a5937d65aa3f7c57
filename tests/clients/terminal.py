"""The firmware behind a pseudo-terminal, and `wattbell bridge` on it."""

from __future__ import annotations

import os
import threading
import tty

from wattbell.rig.discovery import find
from wattbell.serve.bridge import Bridge

from tests.firmware.rig import Rig
from tests.patience import PATIENCE_S


class Terminal(threading.Thread):
    """A rig's control port as a serial device; ``rig`` may be used from elsewhere while ``lock`` is held."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(daemon=True)
        self.rig, self.lock = rig, threading.Lock()
        self.seen = b""
        self.dumb = False
        """Takes bytes and ignores them, like a rig that hangs."""
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.control = os.ttyname(self._slave)
        self.start()

    def run(self) -> None:
        try:
            while data := os.read(self._master, 4096):
                self.seen += data
                if not self.dumb:
                    with self.lock:
                        self.rig.send(data)
                        self.rig.settle()
                        answer = self.rig.read()
                    while answer:
                        answer = answer[os.write(self._master, answer) :]
        except OSError:
            pass  # unplugged

    def unplug(self) -> None:
        """Remove the device, as on USB: a program with it open gets a hangup."""
        os.close(self._slave)
        # the thread is blocked in read(2), which keeps the master open: wake it up
        other = os.open(self.control, os.O_RDWR | os.O_NOCTTY)
        master, self._master = self._master, -1
        os.write(other, b"\n")
        os.close(other)
        os.close(master)

    def do(self, text: str) -> None:
        """Send a line that must succeed."""
        with self.lock:
            self.rig.do(text)


class Bridged(threading.Thread):
    """A running bridge, in the state of `wattbell bridge` after it has parsed its arguments."""

    def __init__(self, control: str, token: str | None = None, allow_power: bool = False) -> None:
        super().__init__(daemon=True)
        self.said: list[str] = []
        self.token = token
        rig = f"{control},{control}"
        self.server = Bridge(lambda: find(rig), "127.0.0.1", 0, self.said.append, token=token, allow_power=allow_power)
        self.address = self.server.address
        self.start()

    def run(self) -> None:
        self.server.serve()

    def stop(self) -> None:
        """End the bridge and its client, unless already done."""
        if self.is_alive():
            self.server.stop()
        self.join(PATIENCE_S)
        assert not self.is_alive()
