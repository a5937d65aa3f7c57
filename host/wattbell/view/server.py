"""The server behind ``wattbell view``: answers one browser of one user on 127.0.0.1.

Everything is below a path of 32 random characters: another user of the machine, who sees the port, gets 404. The Host header must be
ours, so that no page of the web reaches it through a name that it points at 127.0.0.1. The page may load nothing from elsewhere (CSP).
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from importlib import resources

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import RigError, UsageError, WattbellError
from .plain import error as told
from .routes import routes
from .shown import Shown

HOST = "127.0.0.1"
_SECURITY = {
    "content-security-policy": "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'self'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
_OF_UPLOT = ("uPlot.iife.js", "uPlot.min.css")


class Guard:
    """Lets requests to this host by its own name through, and adds the headers of security to every answer."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app, self._hosts = app, {host.encode() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                assert isinstance(headers, list)
                headers.extend((name.encode(), value.encode()) for name, value in _SECURITY.items())
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = dict(scope["headers"]).get(b"host", b"").split(b":")[0]
        if asked not in self._hosts:
            answer = told(403, "This server answers to 127.0.0.1 and localhost alone.")
            await answer(scope, receive, send_guarded)  # type: ignore[arg-type]
            return
        await self._app(scope, receive, send_guarded)  # type: ignore[arg-type]


def make_app(shown: Sequence[Shown], token: str, hosts: Sequence[str] = (HOST, "localhost")) -> ASGIApp:
    """The application that shows captures below ``/token/``."""
    paths = [
        Route(f"/{token}/", _file("index.html")),
        Route(f"/{token}/static/{{name:path}}", _static),
        Route(f"/{token}/licences", _licences),
        *routes(shown, f"/{token}/api"),
    ]
    handlers = {WattbellError: _told, HTTPException: _refused, Exception: _bug}
    return Guard(Starlette(routes=paths, exception_handlers=handlers), hosts)


def _told(_: Request, error: Exception) -> Response:
    return told(400 if isinstance(error, UsageError) else 500, str(error))


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return told(error.status_code, error.detail)


def _bug(_: Request, error: Exception) -> Response:
    return told(500, f"bug: {type(error).__name__}: {error}")


def _file(name: str) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        return _page_file(name)

    return answer


def _page_file(name: str) -> Response:
    package, folder = ("uplot", "static") if name in _OF_UPLOT else (__package__, "page")
    known = {entry.name: entry for entry in resources.files(package).joinpath(folder).iterdir() if entry.is_file()}
    suffix = name[name.rfind(".") :] if "." in name else ""
    if name not in known or suffix not in _TYPES:
        raise HTTPException(404, "There is no such file.")
    return Response(known[name].read_bytes(), media_type=_TYPES[suffix])


def _static(request: Request) -> Response:
    return _page_file(request.path_params["name"])


def _licences(_: Request) -> Response:
    from importlib.metadata import distribution

    about = distribution("uplot-python")
    texts = [f"uplot-python {about.version}"]
    texts += [file.read_text() for file in about.files or [] if "licen" in file.name.lower()]
    library = resources.files("uplot").joinpath("static/uPlot.iife.js").read_text()
    texts += ["uPlot, which it carries", library[: library.index("*/") + 2]]
    return Response("\n\n".join(texts) + "\n", media_type="text/plain; charset=utf-8")


class ViewServer:
    """A server on a port of its own. ``url`` is where the page is; :meth:`serve` runs until :meth:`stop`, or Ctrl-C."""

    def __init__(self, shown: Sequence[Shown], port: int = 0) -> None:
        """Raises RigError when the port is taken."""
        self.token = secrets.token_urlsafe(24)
        # The protocol is named, because asyncio turns Nagle's algorithm off only where it is: else each answer takes 40 ms longer.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
            self._socket.listen()  # from here on a browser waits for an answer
        except OSError as error:
            self._socket.close()
            raise RigError(f"Port {port} of {HOST} cannot be used ({error.strerror}); choose another with --port, or none.") from None
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://{HOST}:{self.port}/{self.token}/"
        debug = bool(os.environ.get("WATTBELL_DEBUG"))  # else the page gets the error in a line
        level = "error" if debug else "critical"
        config = uvicorn.Config(make_app(shown, self.token), log_level=level, access_log=False, lifespan="off", server_header=False)
        self._server = uvicorn.Server(config)

    def serve(self) -> None:
        """Answer until stopped."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Callable from any thread."""
        self._server.should_exit = True
