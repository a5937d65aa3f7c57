"""Answers a SUMP client on a port. An armed capture runs in a thread of its own, since a client waits only 20 ms for an answer."""

from __future__ import annotations

import copy
import os
import select
from collections.abc import Callable

from ... import __version__
from ...errors import UsageError
from ...probes import PROBES
from ...rig import Rig
from . import protocol
from .acquisition import Acquisition, CaptureOptions
from .port import Port
from .timeline import MOST_THRESHOLDS

_ANSWERS_BYTES = 1 << 16
"""Maximum number of bytes queued for a client that does not read, not counting a window."""


class Server:
    """Serves one port until :meth:`stop`. `open_rig` returns the rig each time a capture begins; `say` gets a line for whatever the user
    must know: captures that failed, and flaws of those that did not."""

    def __init__(self, port: Port, open_rig: Callable[[], Rig], options: CaptureOptions, say: Callable[[str], None]) -> None:
        if len(options.thresholds) > MOST_THRESHOLDS:
            raise UsageError(f"There is room for {MOST_THRESHOLDS} levels, not for {len(options.thresholds)}.")
        self._port, self._open, self._options, self._say = port, open_rig, options, say
        self.channels = (*PROBES, *(threshold.name for threshold in options.thresholds))
        """Channel names by number."""
        self._parser, self._settings = protocol.Parser(), protocol.ArmSettings()
        self._capture: Acquisition | None = None
        self._next: protocol.ArmSettings | None = None
        self._out = bytearray()
        self._held = False
        self._ready: tuple[Acquisition, bytes] | None = None
        self._over = False
        self._wake_out, self._wake_in = os.pipe()
        self._stopping = False

    def stop(self) -> None:
        """Make :meth:`serve` return; callable from any thread."""
        self._stopping = True
        os.write(self._wake_in, b"x")

    def serve(self) -> None:
        """Serve until stopped."""
        try:
            while not self._stopping:
                port = self._port.fileno()
                reads, writes, _ = select.select([port, self._wake_out], [port] if self._out and not self._held else [], [])
                if self._wake_out in reads:
                    os.read(self._wake_out, 4096)
                    self._take_window()
                    self._begin_next()
                if port in reads:
                    for command, argument in self._parser.feed(self._port.read()):
                        self._obey(command, argument)
                if writes and self._out:
                    self._port.write(self._out)
        finally:
            self._abort()
            if self._capture:
                self._capture.join()

    def _obey(self, command: int, argument: int) -> None:
        if command == protocol.RESET:
            self._reset()
        elif command == protocol.ARM:
            self._arm()
        elif command == protocol.ID:
            self._answer(protocol.IDENTITY)
        elif command == protocol.METADATA:
            self._answer(protocol.metadata(__version__, len(self.channels)))
        elif command in (protocol.XON, protocol.XOFF):
            self._held = command == protocol.XOFF
        else:
            self._settings.apply(command, argument)  # unknown commands are ignored, as a device does

    def _answer(self, data: bytes) -> None:
        if len(self._out) < _ANSWERS_BYTES:
            self._out += data

    def _reset(self) -> None:
        """Drop the capture in progress, its samples and the trigger; rate, size and flags stay."""
        self._abort()
        if self._out:
            self._out.clear()
            self._port.discard()
        self._held = False
        self._settings.stages.clear()

    def _abort(self) -> None:
        if self._capture:
            self._capture.abort()
        self._ready = self._next = None

    def _arm(self) -> None:
        """The newest ARM wins. There is one capture and one thread at a time: the one being replaced must release the rig first."""
        self._abort()
        self._next = copy.deepcopy(self._settings)
        self._begin_next()

    def _begin_next(self) -> None:
        if self._capture and self._over:
            self._capture.join()
            self._capture = None
        if self._next is None or self._capture:
            return

        def done(data: bytes) -> None:
            self._ready = (capture, data)
            os.write(self._wake_in, b"w")

        def over() -> None:
            self._over = True
            os.write(self._wake_in, b"o")

        capture = Acquisition(self._open, self._next, self._options, done, self._say, over)
        self._capture, self._next, self._over = capture, None, False
        capture.start()

    def _take_window(self) -> None:
        ready, self._ready = self._ready, None
        if not ready or ready[0].aborted:
            return
        if len(self._out) < _ANSWERS_BYTES:
            self._out += ready[1]
        else:
            self._say("the client does not read what it is sent: a capture was dropped")
