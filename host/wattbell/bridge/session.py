"""One client of the bridge and the rig's control port: bytes in both directions, and a clean end."""

from __future__ import annotations

import socket
import time

from ..errors import RigError
from .line import CLEAR, ControlLine


def _sync(times: int) -> tuple[bytes, bytes]:
    """A question that changes nothing, and the end of its answer: nobody asks for the version so often in one message."""
    return b";".join([b":SYST:VERS?"] * times) + b"\n", b";".join([b"1999.0"] * times)


SYNC = _sync(3)
SYNC_AFTER_CLEAR = _sync(5)
"""Another one, for the first may still be answered, or have been cut short."""
PATIENCE_S = 10.0
"""How long the rig may still work on what a client asked that sends no more; then device clear ends it."""
_ESTABLISHED = 1
"""TCP_ESTABLISHED of Linux' tcp_states.h."""
_LONGEST = 4096
"""An answer without an end is passed on in pieces of so many bytes."""
UNSENT_BYTES = 1 << 16
"""What waits for the client at most; then the rig is held."""


class Session:
    """Passes bytes until the client sends no more and the rig has answered all that it asked.

    To know the latter, :data:`SYNC` is asked at the end; its answer is kept back. A client that only stopped sending
    (``nc -N``) still gets every answer.
    """

    def __init__(self, client: socket.socket, peer: str, line: ControlLine) -> None:
        self.client: socket.socket | None = client
        """None once nothing can be sent to it."""
        self.peer, self.line = peer, line
        self.deadline: float | None = None
        """By when the rig has to have answered SYNC; None while the client may still send."""
        self._sync, self._synced = SYNC, False
        self._unsent = bytearray()
        self._held_back = b""

    @property
    def talking(self) -> bool:
        """Whether the client may still send. One that has closed its end may have left much that was not read yet."""
        if self.client is None or self.deadline is not None:
            return False
        return self.client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED

    def reads(self) -> list[int]:
        """Descriptors from which something is wanted."""
        rig = [self.line.fileno()] if len(self._unsent) < UNSENT_BYTES and not self._synced else []
        client = [self.client.fileno()] if self.client and self.deadline is None and not self.line.full else []
        return rig + client

    def writes(self) -> list[int]:
        """Descriptors to which something is to go."""
        rig = [self.line.fileno()] if self.line.has_waiting else []
        return rig + ([self.client.fileno()] if self.client and self._unsent else [])

    def move(self, readable: set[int]) -> bool:
        """Let go what can; whether all is over. RigError when the rig was lost or does not come to itself."""
        if self.client and self.deadline is None and self.client.fileno() in readable:
            self._from_client(self.client)
        if self.line.has_waiting:
            self.line.write()
        if self.line.fileno() in readable:
            self._from_rig(self.line.read())
        if self._unsent:
            self._to_client()
        late = self.deadline is not None and time.monotonic() > self.deadline
        if self._synced:
            return late or not self._unsent
        if late:
            self._clear()
        return False

    def _from_client(self, client: socket.socket) -> None:
        try:
            data = client.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
            self.drop_client()
        if data:
            self.line.put(data)
        else:
            self._finish()

    def _finish(self) -> None:
        if self.deadline is None:
            self.line.end_client()
            self.line.put(self._sync[0])
            self.deadline = time.monotonic() + PATIENCE_S

    def _from_rig(self, data: bytes) -> None:
        if self.deadline is None:
            # Whole lines, though they come in pieces: sigrok takes whatever one read gives for the whole answer.
            whole, newline, self._held_back = (self._held_back + data).rpartition(b"\n")
            self._unsent += whole + newline
            if len(self._held_back) > _LONGEST:
                self._unsent += self._held_back
                self._held_back = b""
            return
        *lines, self._held_back = (self._held_back + data).split(b"\n")
        for line in lines:
            if line.rstrip(b"\r").endswith(self._sync[1]):
                self._synced = True
                return
            self._unsent += line + b"\n"

    def _to_client(self) -> None:
        if not self.client:
            self._unsent.clear()
            return
        try:
            del self._unsent[: self.client.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.drop_client()
            self._finish()

    def _clear(self) -> None:
        if self._sync is SYNC_AFTER_CLEAR:
            raise RigError(f"the rig on {self.line.device} does not answer; unplug it and try again")
        self._sync = SYNC_AFTER_CLEAR
        self.line.put(bytes([CLEAR]) + self._sync[0])
        self.deadline = time.monotonic() + PATIENCE_S

    def drop_client(self) -> None:
        """The client takes nothing any more."""
        if self.client:
            self.client.close()
            self.client = None
        self._unsent.clear()

    def close(self) -> None:
        """Close both sides."""
        self.line.close()
        self.drop_client()
