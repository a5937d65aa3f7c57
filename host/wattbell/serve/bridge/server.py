"""The network side of the bridge: one client at a time.

Lines of two clients never mix: a client is served only after the rig has answered everything the previous one asked.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

from ...errors import RigError, UsageError
from ...rig.discovery import RigPort
from .entrance import Entrance, Refused
from .line import ControlLine
from .session import ClientSession

DEFAULT_PORT = 5025
"""IANA's port for SCPI over a raw socket (scpi-raw)."""
_NOT_ALLOWED = '-203,"Command protected;start wattbell bridge with --allow-power to move power or calibration"'
_REFUSED_S = 2.0
_MOST_ENTERING = 32
"""Clients that have not sent a whole line. Of more, the oldest is closed."""


class Bridge:
    """Listens as soon as it is made; :meth:`serve` does the work until :meth:`stop`.

    find: called for each client, so a rig may be unplugged and come back between two clients. The control port is held only while a client
        is connected.
    say: gets a line for each client that is served, leaves or is refused
    token: first line of every client, None for none
    allow_power: whether clients may move the drive's power and the calibration
    """

    def __init__(
        self,
        find: Callable[[], RigPort],
        host: str,
        port: int,
        say: Callable[[str], None],
        *,
        token: str | None,
        allow_power: bool = False,
    ) -> None:
        self._find, self._say = find, say
        self._token, self._allow_power = token, allow_power
        try:
            self._listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except (OSError, OverflowError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            raise UsageError(f"{host}:{port} cannot be listened on ({reason}); choose another with --listen.") from None
        self._listener.setblocking(False)
        self._wake_out, self._wake_in = socket.socketpair()
        self._refused: dict[socket.socket, float] = {}
        self._entering: list[Entrance] = []
        self._admitted: list[tuple[Entrance, bytes]] = []
        """Clients in order, with their data for the rig. They wait while the session before them ends."""
        self._session: ClientSession | None = None

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
            waiting = [one.client for one in (*self._entering, *(entrance for entrance, _ in self._admitted))]
            for ours in (self._listener, self._wake_in, self._wake_out, *self._refused, *waiting):
                ours.close()

    def _step(self) -> bool:
        """Wait once and handle the events; return whether to go on."""
        session = self._session
        refused = {client.fileno(): client for client in self._refused}
        entering = {one.fileno(): one for one in self._entering}
        reads = [self._wake_in.fileno(), self._listener.fileno(), *refused, *entering, *(session.reads() if session else [])]
        deadlines = [*self._refused.values(), *([session.deadline] if session and session.deadline else [])]
        wait_s = max(0.0, min(deadlines) - time.monotonic() + 0.01) if deadlines else None
        ready = set(select.select(reads, session.writes() if session else [], [], wait_s)[0])
        if session:
            self._move(session, ready)
        if self._listener.fileno() in ready:
            self._accept()
        for descriptor, one in entering.items():
            if descriptor in ready and one in self._entering:
                self._enter(one)
        while self._admitted and not (self._session and not self._session.talking):
            self._begin(*self._admitted.pop(0))
        for descriptor, client in refused.items():
            if time.monotonic() > self._refused[client] or (descriptor in ready and _ended(client)):
                del self._refused[client]
                client.close()
        return self._wake_in.fileno() not in ready

    def _move(self, session: ClientSession, ready: set[int]) -> None:
        try:
            if not session.move(ready):
                return
            if session.refused:
                self._say(f"{session.peer} was refused: a command of it needs --allow-power")
                self._refuse_client_of(session, _NOT_ALLOWED)
            else:
                self._say(f"{session.peer} is gone")
        except RigError as error:
            self._say(f"{session.peer}: {error}")
            self._refuse_client_of(session, f'-241,"Hardware missing;{error}"')
        session.close()
        self._session = None

    def _refuse_client_of(self, session: ClientSession, text: str) -> None:
        client, session.client = session.client, None
        if client:
            self._refuse(client, text)

    def _accept(self) -> None:
        try:
            client, address = self._listener.accept()
        except OSError:  # it had gone before it was accepted
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._entering.append(Entrance(client, f"{address[0]}:{address[1]}", self._token))
        if len(self._entering) > _MOST_ENTERING:
            self._entering.pop(0).client.close()

    def _enter(self, one: Entrance) -> None:
        try:
            data = one.read()
        except Refused as refused:
            self._entering.remove(one)
            self._say(f"{one.peer} was refused: {refused.reason}")
            if refused.answer:
                self._refuse(one.client, refused.answer)
            else:
                one.client.close()
            return
        if data is not None:
            self._entering.remove(one)
            self._admitted.append((one, data))

    def _begin(self, one: Entrance, data: bytes) -> None:
        if self._session:
            self._say(f"{one.peer} was refused: {self._session.peer} has the rig")
            self._refuse(one.client, f'-200,"Execution error;{self._session.peer} has the rig, and it takes one client at a time"')
            return
        try:
            port = self._find()
            self._session = ClientSession(one.client, one.peer, ControlLine(port.control, self._allow_power))
        except RigError as error:
            self._say(f"{one.peer} was refused: {error}")
            self._refuse(one.client, f'-241,"Hardware missing;{error}"')
            return
        self._say(f"{one.peer} has rig {port.serial}")
        self._session.put(data)

    def _refuse(self, client: socket.socket, text: str) -> None:
        """Send one line, then close. Data from the client is still read, because closing with unread data would discard our line."""
        try:
            client.send(text.encode("ascii", "replace") + b"\n")
            client.shutdown(socket.SHUT_WR)
        except OSError:
            client.close()
            return
        self._refused[client] = time.monotonic() + _REFUSED_S


def _ended(client: socket.socket) -> bool:
    """Read data from a refused client; return whether it has closed."""
    try:
        return not client.recv(4096)
    except BlockingIOError:
        return False
    except OSError:
        return True
