"""QIS (Quarch Instrument Server) with one module: the text protocol that quarchpy speaks, and the XML of a V3 header as QIS writes it.

A reply ends with CR LF and the cursor ``>``. ``stream text all`` gives the stripes that are buffered, then ``eof``.
"""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Callable

HEADER = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<header><version>V3</version><mode>Single Rate</mode><devicePeriod>{period}us</devicePeriod><mainPeriod>{period}us</mainPeriod>
<legacyVersion>5</legacyVersion><legacyFormat>15</legacyFormat><legacyAverage>0</legacyAverage><channels>{channels}</channels></header>"""
CHANNEL = "<channel><name>{}</name><group>{}</group><units>{}</units><maxTValue>16384</maxTValue><dataPosition>{}</dataPosition></channel>"
CHANNELS = [("12V", "voltage", "mV"), ("12V", "current", "uA"), ("3.3V", "voltage", "mV"), ("3.3V", "current", "uA")]


class Qis:
    """Stripe n is ``n x period`` us, then the channels; ``current_ua(n)``. Stripes in ``lost`` are not sent."""

    def __init__(self, current_ua: Callable[[int], int], period_us: int = 100) -> None:
        self.current_ua, self.period_us = current_ua, period_us
        self.lost: set[int] = set()
        self.ends: int | None = None
        """The server is gone before this stripe."""
        self.overruns: int | None = None
        self.halves_rate: int | None = None
        self.commands: list[str] = []
        self.state, self.next, self.started = "Stopped", 0, 0.0
        self.headers_missing = 2
        self._lock = threading.Lock()
        self._clients: list[socket.socket] = []
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                outer._clients.append(self.connection)
                self.wfile.write(b"Welcome to QIS\r\n>")
                for line in self.rfile:
                    with outer._lock:
                        reply = outer.reply(line.decode().strip())
                    if reply is None:
                        outer.vanish()
                        return
                    self.wfile.write(reply.encode() + b"\r\n>")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # the client is gone

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def reply(self, line: str) -> str | None:
        if line == "$list":
            return "1) USB::QTL2312-01-017"
        device, _, command = line.partition(" ")
        assert device == "USB::QTL2312-01-017", line
        self.commands.append(command)
        if command == "rec stream":
            self.state, self.next, self.started = "Running", 0, time.monotonic()
            return "OK"
        if command == "rec stop":
            self.state = "Stopped"
            return "OK"
        if command == "stream?":
            return f"{self.state}\r\nStripes Buffered: 0 of 1000000"
        if command == "stream text header":
            if self.headers_missing:
                self.headers_missing -= 1
                return "Header Not Available"
            channels = "".join(CHANNEL.format(*channel, place) for place, channel in enumerate(CHANNELS))
            return HEADER.format(period=self.period_us, channels=channels)
        if command == "stream text all":
            return self.stripes()
        return "OK"

    def stripes(self) -> str | None:
        due = int((time.monotonic() - self.started) * 1e6 / self.period_us)
        stop = min([due, self.next + 5000, *(at for at in (self.ends, self.overruns) if at is not None)])
        if self.next == self.ends:
            return None
        if self.next == self.overruns:
            self.state = "Overrun"
        lines = []
        for n in range(self.next, stop):
            if n in self.lost:
                continue
            at = n * self.period_us
            if self.halves_rate is not None and n > self.halves_rate:
                at = self.halves_rate * self.period_us + (n - self.halves_rate) * self.period_us // 2
            lines.append(f"{at} 12000 7 3300 {self.current_ua(n)}")
        self.next = max(self.next, stop)
        return "\r\n".join([*lines, "eof"])

    def vanish(self) -> None:
        for client in self._clients:
            client.close()

    def __enter__(self) -> Qis:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
