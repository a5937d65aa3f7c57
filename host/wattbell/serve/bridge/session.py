"""One client of the bridge: bytes both ways to the rig's control port, and a clean end."""

from __future__ import annotations

import socket
import time

from ...errors import RigError
from .line import CLEAR, ControlLine


def _sync(times: int) -> tuple[bytes, bytes]:
    """A query without side effects, and the end of its answer: nobody asks for the version this often in one message."""
    return b";".join([b":SYST:VERS?"] * times) + b"\n", b";".join([b"1999.0"] * times)


SYNC = _sync(3)
SYNC_AFTER_CLEAR = _sync(5)
"""A second one, since the first may still be answered, or have been cut short."""
PATIENCE_S = 10.0
"""How long the rig may take over the last requests of a client that sends no more; then a device clear aborts them."""
_ESTABLISHED = 1
"""TCP_ESTABLISHED of Linux's tcp_states.h."""
_LONGEST = 4096
"""Size of the pieces in which an unterminated answer is passed on."""
UNSENT_BYTES = 1 << 16
"""Maximum number of bytes queued for the client; beyond that the rig is held."""


class ClientSession:
    """Passes bytes until the client sends no more and the rig has answered everything it asked.

    To detect the latter, :data:`SYNC` is asked at the end and its answer kept back. A client that has only stopped sending
    (``nc -N``) still gets every answer.
    """

    def __init__(self, client: socket.socket, peer: str, line: ControlLine) -> None:
        self.client: socket.socket | None = client
        """None once nothing more can be sent to the client."""
        self.peer, self.line = peer, line
        self.deadline: float | None = None
        """Deadline for the answer to SYNC; None while the client may still send."""
        self._sync, self._synced = SYNC, False
        self._unsent = bytearray()
        self._held_back = b""
        self.refused = False
        """Whether it ends because the client sent a message that is not allowed."""

    @property
    def talking(self) -> bool:
        """Whether the client may still send. One that has closed its end may have left data that is not read yet."""
        if self.client is None or self.deadline is not None:
            return False
        return self.client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED

    def reads(self) -> list[int]:
        """Descriptors to wait on for reading."""
        rig = [self.line.fileno()] if len(self._unsent) < UNSENT_BYTES and not self._synced else []
        client = [self.client.fileno()] if self.client and self.deadline is None and not self.line.full else []
        return rig + client

    def writes(self) -> list[int]:
        """Descriptors to wait on for writing."""
        rig = [self.line.fileno()] if self.line.has_waiting else []
        return rig + ([self.client.fileno()] if self.client and self._unsent else [])

    def move(self, readable: set[int]) -> bool:
        """Move whatever can be moved; returns whether the session is over. Raises RigError when the rig is lost or stays stuck."""
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
            self.put(data)
        else:
            self._finish()

    def put(self, data: bytes) -> None:
        """Pass on the client's data. A message that is not allowed ends the session once the rig has answered the earlier messages."""
        if not self.line.put(data):
            self.refused = True
            self._finish()

    def _finish(self) -> None:
        if self.deadline is None:
            self.line.end_client()
            self.line.put(self._sync[0])
            self.deadline = time.monotonic() + PATIENCE_S

    def _from_rig(self, data: bytes) -> None:
        if self.deadline is None:
            # Whole lines, even if they arrive in pieces: sigrok takes whatever one read returns for the whole answer.
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
        """The client accepts nothing more."""
        if self.client:
            self.client.close()
            self.client = None
        self._unsent.clear()

    def close(self) -> None:
        """Close both sides."""
        self.line.close()
        self.drop_client()
