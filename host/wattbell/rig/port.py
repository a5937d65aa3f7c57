"""A rig: its data port (the stream) and its control port (SCPI)."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from dataclasses import replace
from pathlib import Path

import serial

from .. import door
from ..errors import RigError, UsageError
from . import discovery
from .delay import front_end_delay
from .discovery import RigPort
from .scpi import TIMEOUT_S, VIRTUAL_TIMEOUT_S, ScpiConnection
from .stream import WAIT_S, DescriptorReader

_STATE = re.compile(r"\bstate=(\w+)\b")
"""Key in the answer to STAT:RIG?: READY, RUN, STOPPING."""
_UNKNOWN_HEADER, _CAPTURING_ALREADY = "-113", "-213"
"""SCPI error numbers."""
_STOPS_WITHIN_S = 5.0
"""Longest time in s for a stop. The rig needs 66 us, for which it holds its records back, and then the time to read the rest."""


def _control_of(port: RigPort) -> ScpiConnection:
    """Open a rig's control port. Raises RigError."""
    return ScpiConnection(port.control, VIRTUAL_TIMEOUT_S if port.virtual else TIMEOUT_S)


class Rig:
    """An open rig. Use as a context manager."""

    def __init__(self, port: RigPort) -> None:
        self.port = port
        self.control = _control_of(port)
        self._source: DescriptorReader | None = None
        self._configured: list[str] = []
        self.stranger: str | None = None
        """Serial number of another rig that answers on the ports now, or answered last."""
        self.strangers: list[str] = []
        """All that ever did."""
        try:
            self.identity = self.control.identity()
            if "virtual" in self.identity["model"].lower():  # a virtual rig behind a serial line describes itself only here
                self.port = replace(port, virtual=True)
            self.data = _open_data(port.data)
        except BaseException:
            self.control.close()
            raise

    @classmethod
    def open(cls, serial_number: str | None = None) -> Rig:
        """Open the rig with this serial number, or the only one."""
        return cls(discovery.find(serial_number))

    def start(self) -> bool:
        """Start capturing; return False when the rig was capturing already (error -213), in which case it goes on.

        Raises RigError for a virtual rig at the end of its trace. Each run has its own identifier in every block, if the firmware supports
        it. A rig that is about to stop is waited for. If it does not get there because nobody reads its data, it counts as capturing.
        """
        if discovery.process_status(self.port).get("state") == "DONE":
            raise RigError(f"Rig {self.port.serial} has played its trace to the end; start it again.")
        try:
            self.control.command(f"SENS:RUN {secrets.randbelow((1 << 32) - 1) + 1}")
        except RigError as error:
            if _UNKNOWN_HEADER not in str(error):
                raise
        deadline = time.monotonic() + _STOPS_WITHIN_S
        while True:
            try:
                self.control.command("INIT")
            except RigError as error:
                if _CAPTURING_ALREADY not in str(error):
                    raise
                if not self._stops_by(deadline):
                    return False
            else:
                return True

    def _stops_by(self, deadline: float) -> bool:
        """Wait for the end of a stop that is under way; False when none is, or it has not ended by then."""
        while (state := _STATE.search(self.status())) and state[1] == "STOPPING" and time.monotonic() < deadline:
            time.sleep(0.001)
        return state is not None and state[1] == "READY" and time.monotonic() < deadline

    def is_capturing(self) -> bool:
        """Whether it is capturing now."""
        state = _STATE.search(self.status())
        return state is not None and state[1] in ("RUN", "STOPPING")

    def stop(self) -> None:
        """Stop capturing; the rig sends its open blocks, then a STATUS block with run 0."""
        self.control.command("ABOR")

    def set_decimation(self, factor: int) -> None:
        """ADC conversions per rail sample, 1 .. 4096."""
        self.configure(f"SENS:SWE:DEC {factor}")

    def set_interval(self, seconds: float) -> None:
        """Time between ADC conversions."""
        self.configure(f"SENS:SWE:TINT {seconds:.9g}")

    def configure(self, command: str) -> None:
        """Send a SCPI command that sets something, and remember it for :meth:`configure_again`."""
        self.control.command(command)
        self._configured.append(command)

    def attach(self, path: Path) -> None:
        """Send the SCPI lines of a late-attach file; empty lines and those that begin with # are left out."""
        try:
            lines = door.read_text(path, door.SETTINGS).splitlines()
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
        for line in lines:
            if line.strip() and not line.lstrip().startswith("#"):
                self.configure(line.strip())

    def configure_again(self) -> None:
        """Repeat every command given to :meth:`configure`: a rig that lost its supply has forgotten them."""
        for command in self._configured:
            self.control.command(command)

    def mark(self, value: int) -> None:
        """Put a MARKER event with source CONTROL into the stream."""
        self.control.command(f"MARK {value}")

    @property
    def description(self) -> dict[str, str]:
        """``rig`` of ``meta.json``."""
        return {**self.identity, "data_port": self.port.data}

    def conditions(self) -> dict[str, object]:
        """The ``conditions`` of ``meta.json``, which apply to every figure of a capture from this rig."""
        return {**self.port.conditions(), **front_end_delay(self.control)}

    def status(self) -> str:
        """Return the rig's report on itself."""
        return self.control.query("STAT:RIG?")

    def broke_off(self) -> str | None:
        """Why a virtual rig could not play its trace to the end; None if it can, and for a real rig."""
        reason = discovery.process_status(self.port).get("failure")
        return str(reason) if reason else None

    def read_into(self, buffer: memoryview) -> int:
        """Read arrived data of the stream into the start of `buffer`; return the byte count, 0 when nothing arrived for 50 ms.

        Raises RigError when the line is cut. The descriptor that PySerial opened is read directly. ``Serial.read`` would discard its bytes
        when the line is cut, and with them the end of the stream.
        """
        try:
            descriptor = self.data.fileno()
        except (OSError, ValueError) as error:  # PySerial's own error: the port was closed
            raise RigError(f"The rig was lost ({error}).") from None
        if self._source is None or self._source.descriptor != descriptor:
            self._source = DescriptorReader(descriptor)
        return self._source.read_into(buffer)

    def reopen(self) -> bool:
        """Reopen the ports after a cut, once the rig with the same serial number is back. Another one on them is left alone."""
        self.close()
        try:
            port = discovery.find(self.port.serial)
            data = _open_data(port.data)
        except RigError:
            return False
        try:
            control = _control_of(port)
        except RigError:
            data.close()
            return False
        self.control = control
        if self.sender() != self.identity["serial"]:  # ports have no serial number of their own where they are given by their names
            data.close()
            control.close()
            return False
        self.port, self.data = port, data
        return True

    def sender(self) -> str | None:
        """Return the serial number of the rig on the ports; None if none answers."""
        try:
            serial_number = self.control.identity()["serial"]
        except RigError:
            return None
        self.stranger = None if serial_number == self.identity["serial"] else serial_number
        if self.stranger is not None and self.stranger not in self.strangers:
            self.strangers.append(self.stranger)
        return serial_number

    def close(self) -> None:
        """Close both ports."""
        for port in (self.data, self.control):
            with contextlib.suppress(OSError):
                port.close()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_data(device: str) -> serial.Serial:
    try:
        # a pty and a CDC-ACM port accept any rate; DTR and RTS are left alone, since a pty has none
        return serial.Serial(device, 115200, timeout=WAIT_S, exclusive=True)
    except (OSError, ValueError) as error:
        raise RigError(f"{device} cannot be opened ({error}); is another program recording from this rig?") from None
