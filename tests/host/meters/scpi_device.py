"""An instrument that answers SCPI on a TCP socket, or on a serial port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from tests.host.meters.line import PtyDevice

Answers = dict[str, Callable[[], str]]


class Instrument:
    """Answers a line that it knows, and says nothing to another, as instruments do."""

    def __init__(self, answers: Answers, identity: str = "EXAMPLE,PS-3305,MY0815,1.02") -> None:
        self.answers: Answers = {"*IDN?": lambda: identity, **answers}
        self.asked: list[str] = []
        self.delay_s = 0.0
        self.falls_silent: int | None = None
        """After so many questions."""

    def answer(self, line: str) -> str | None:
        self.asked.append(line)
        time.sleep(self.delay_s)
        if self.falls_silent is not None and len(self.asked) > self.falls_silent:
            return None
        known = self.answers.get(line.strip().upper())
        return known() if known else None


class TcpInstrument:
    """``address``: HOST:PORT. Use as a context manager."""

    def __init__(self, instrument: Instrument) -> None:
        self.instrument = instrument
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:" + str(self._listener.getsockname()[1])
        self.hangs_up: int | None = None
        """After so many questions."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while True:
                client, _ = self._listener.accept()
                with client, client.makefile("rw", newline="") as lines:
                    self._serve(lines)
        except OSError:
            pass  # closed by the test

    def _serve(self, lines) -> None:  # type: ignore[no-untyped-def]
        try:
            for line in lines:
                if self.hangs_up is not None and len(self.instrument.asked) >= self.hangs_up:
                    return
                told = self.instrument.answer(line.rstrip("\r\n"))
                if told is not None:
                    lines.write(told + "\n")
                    lines.flush()
        except OSError:
            pass  # the client is gone

    def __enter__(self) -> TcpInstrument:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=5)


class SerialInstrument(PtyDevice):
    """The same on a pty."""

    def __init__(self, instrument: Instrument) -> None:
        super().__init__()
        self.instrument = instrument
        self._partial = b""

    def command(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            told = self.instrument.answer(line.decode().rstrip("\r"))
            if told is not None:
                self.send(told.encode() + b"\r\n")
