"""SCPI over a serial port: one command or query per line, answers in order, errors polled."""

from __future__ import annotations

import logging
import re
import threading
import time

import serial

from ..errors import RigError

_LOG = logging.getLogger(__name__)
TIMEOUT_S = 10.0
"""A rig answers in milliseconds."""
VIRTUAL_TIMEOUT_S = 600.0
"""A virtual rig simulates every clock cycle of its controller, and waits for a processor. Its ports close when it ends."""
_IDENTITY = re.compile(r"[A-Za-z][^,\"]*,[^,\"]+,[^,\"]+,[^,\"]+")
"""No other answer has four unquoted parts and begins with a letter."""


class ScpiConnection:
    """A SCPI connection. Errors are raised as RigError in the instrument's own words."""

    def __init__(self, device: str, timeout_s: float = TIMEOUT_S) -> None:
        self.device = device
        self.timeout_s = timeout_s
        try:
            self._port = serial.Serial(device, 115200, timeout=0.1, write_timeout=timeout_s, exclusive=True)
        except (OSError, ValueError) as error:
            raise RigError(f"{device} cannot be opened ({_reason(error)}); is another program using the rig?") from None
        self._rest = b""
        self._lock = threading.RLock()  # the recorder's thread asks, too
        self._port.reset_input_buffer()

    def _send(self, text: str) -> None:
        try:
            _LOG.info("%s < %s", self.device, text)
            self._port.write(text.encode("ascii") + b"\n")
        except (OSError, ValueError) as error:
            raise RigError(f"The rig does not take commands on {self.device} ({_reason(error)}).") from None

    def query(self, text: str) -> str:
        """Send a query and return its answer without the line end. Raises RigError on timeout."""
        with self._lock:
            self._send(text)
            return self._next_line(text)

    def _next_line(self, text: str) -> str:
        deadline = time.monotonic() + self.timeout_s
        while b"\n" not in self._rest:
            try:
                self._rest += self._port.read(max(1, self._port.in_waiting))
            except (OSError, TypeError) as error:
                raise RigError(f"The rig was lost while it was asked {text} ({_reason(error)}).") from None
            if time.monotonic() > deadline and b"\n" not in self._rest:
                raise RigError(f"The rig does not answer {text} within {self.timeout_s:g} s; unplug it and try again.")
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("ascii", "replace").strip()

    def optional(self, text: str) -> str | None:
        """Answer to a query that a rig need not support; None if it does not answer, in which case the resulting error is removed from the
        queue."""
        with self._lock:
            self._send(text)
            answer = self.query("SYST:ERR?")
            if '"' in answer:  # of the error queue: nothing came before it
                return None
            self._next_line("SYST:ERR?")
            return answer

    def command(self, text: str) -> None:
        """Send a command and check that the rig accepted it."""
        with self._lock:
            self._send(text)
            self.check(text)

    def check(self, text: str) -> None:
        """Empty the error queue; raises RigError if it held anything."""
        errors = []
        with self._lock:
            for _ in range(32):
                answer = self.query("SYST:ERR?")
                if answer.split(",")[0].strip() in ("0", "+0"):
                    break
                errors.append(answer)
        if errors:
            raise RigError(f"The rig refused {text}: {'; '.join(errors)}")

    def resume(self) -> None:
        """Consume the answers still owed after an aborted query, so that the next query gets its own."""
        self._send("*IDN?")
        while not _IDENTITY.fullmatch(self._next_line("*IDN?")):
            pass

    def identity(self) -> dict[str, str]:
        """``*IDN?`` as manufacturer, model, serial, firmware."""
        answer = self.query("*IDN?")
        parts = [part.strip() for part in answer.split(",")]
        if len(parts) < 4:
            raise RigError(f"{self.device} answers *IDN? with {answer!r}, which is not a rig's answer.")
        return dict(zip(("manufacturer", "model", "serial", "firmware"), parts, strict=False))

    def close(self) -> None:
        """Close the port."""
        self._port.close()


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
