"""A client before it has the rig: its first line must be SCPI or the token, and nothing that a browser sends."""

from __future__ import annotations

import hmac
import re
import socket

from .line import CLEAR, ControlLine

_HTTP = re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|PRI) |\S+ .*HTTP/\d")
"""Request lines of HTTP/0.9 to 2; WebSockets begin with one, too."""
_TEXT = frozenset(range(0x20, 0x7F)) | frozenset(b"\t\r") | {CLEAR}
"""Bytes allowed in a line of SCPI. A TLS hello begins with 16h, STUN with 0; no text does."""
WRONG_TOKEN = '-203,"Command protected;the first line must be the token that wattbell bridge printed"'


class Refused(Exception):
    """A refusal. ``reason``: for the user of the bridge; ``answer``: one line for the client, empty for none."""

    def __init__(self, reason: str, answer: str = "") -> None:
        super().__init__(reason)
        self.reason, self.answer = reason, answer


class Entrance:
    """Reads a client's first line. The rig does not notice the client before that line is in order."""

    def __init__(self, client: socket.socket, peer: str, token: str | None) -> None:
        """``token``: None lets every client in that speaks text."""
        self.client, self.peer = client, peer
        self._token = token
        self._data = b""

    def fileno(self) -> int:
        """File descriptor, for select."""
        return self.client.fileno()

    def read(self) -> bytes | None:
        """Read once select says that data is there.

        Return the bytes meant for the rig, None while the line is incomplete. Raises Refused.
        """
        try:
            data = self.client.recv(4096)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            raise Refused("it left without a line")
        self._data += data
        line, newline, rest = self._data.partition(b"\n")
        if not _TEXT.issuperset(line):
            raise Refused("it does not speak SCPI (TLS?)")
        if _HTTP.match(line):
            raise Refused("it speaks HTTP: a web page tried to reach the rig")
        complete = bool(newline) or len(line) > ControlLine.LONGEST
        if self._token is None:
            return self._data if complete else None
        if not complete:
            return None
        if not hmac.compare_digest(line.strip(b" \t\r" + bytes([CLEAR])), self._token.encode()):
            raise Refused("its first line was not the token", WRONG_TOKEN)
        return rest
