"""The network side of the bridge: one client at a time.

Lines of two clients never mix: a client is served only after the rig has answered everything the previous one asked.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

from ..errors import RigError, UsageError
from ..rig.discovery import RigPort
from .line import ControlLine
from .session import Session

DEFAULT_PORT = 5025
"""IANA's port for SCPI over a raw socket (scpi-raw)."""
_REFUSED_S = 2.0


class Bridge:
    """Listens as soon as it is made; :meth:`serve` does the work until :meth:`stop`.

    ``find`` is called for each client, so a rig may be unplugged and come back between two of them. The control port is held
    only while a client is connected. ``say`` gets a line for each client that connects, leaves or is refused.
    """

    def __init__(self, find: Callable[[], RigPort], host: str, port: int, say: Callable[[str], None]) -> None:
        self._find, self._say = find, say
        try:
            self._listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except (OSError, OverflowError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            raise UsageError(f"{host}:{port} cannot be listened on ({reason}); choose another with --listen.") from None
        self._listener.setblocking(False)
        self._wake_out, self._wake_in = socket.socketpair()
        self._refused: dict[socket.socket, float] = {}
        self._session: Session | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Address it listens on."""
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def stop(self) -> None:
        """Make :meth:`serve` return; callable from any thread."""
        self._wake_out.send(b"x")

    def serve(self) -> None:
        """Serve clients until stopped."""
        try:
            while self._step():
                pass
        finally:
            if self._session:
                self._session.close()
            for ours in (self._listener, self._wake_in, self._wake_out, *self._refused):
                ours.close()

    def _step(self) -> bool:
        """Wait once and handle what came; returns whether to go on."""
        session = self._session
        refused = {client.fileno(): client for client in self._refused}
        # a client that connects while the previous session is ending waits
        listener = [] if session and not session.talking else [self._listener.fileno()]
        reads = [self._wake_in.fileno(), *listener, *refused, *(session.reads() if session else [])]
        deadlines = [*self._refused.values(), *([session.deadline] if session and session.deadline else [])]
        wait_s = max(0.0, min(deadlines) - time.monotonic() + 0.01) if deadlines else None
        ready = set(select.select(reads, session.writes() if session else [], [], wait_s)[0])
        if session:
            self._move(session, ready)
        if self._listener.fileno() in ready and (not self._session or self._session.talking):
            self._accept()
        for descriptor, client in refused.items():
            if time.monotonic() > self._refused[client] or (descriptor in ready and _ended(client)):
                del self._refused[client]
                client.close()
        return self._wake_in.fileno() not in ready

    def _move(self, session: Session, ready: set[int]) -> None:
        try:
            if not session.move(ready):
                return
            self._say(f"{session.peer} is gone")
        except RigError as error:
            self._say(f"{session.peer}: {error}")
            client, session.client = session.client, None
            if client:
                self._refuse(client, f'-241,"Hardware missing;{error}"')
        session.close()
        self._session = None

    def _accept(self) -> None:
        try:
            client, address = self._listener.accept()
        except OSError:  # it had gone before it was accepted
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = f"{address[0]}:{address[1]}"
        if self._session:
            self._say(f"{peer} was refused: {self._session.peer} has the rig")
            self._refuse(client, f'-200,"Execution error;{self._session.peer} has the rig, and it takes one client at a time"')
            return
        try:
            port = self._find()
            self._session = Session(client, peer, ControlLine(port.control))
            self._say(f"{peer} has rig {port.serial}")
        except RigError as error:
            self._say(f"{peer} was refused: {error}")
            self._refuse(client, f'-241,"Hardware missing;{error}"')

    def _refuse(self, client: socket.socket, text: str) -> None:
        """Send one line, then close. What the client sends meanwhile is read, because closing with unread data would discard our line."""
        try:
            client.send(text.encode("ascii", "replace") + b"\n")
            client.shutdown(socket.SHUT_WR)
        except OSError:
            client.close()
            return
        self._refused[client] = time.monotonic() + _REFUSED_S


def _ended(client: socket.socket) -> bool:
    """Read what a refused client sent; returns whether it has closed."""
    try:
        return not client.recv(4096)
    except BlockingIOError:
        return False
    except OSError:
        return True
