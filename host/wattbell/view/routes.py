"""The paths of the page's questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..export import FORMATS
from . import answers, energy, exporting, finding, recording, statistics
from .asked import Asked
from .plain import answer
from .shown import Shown

_HANDLERS: dict[str, Callable[[Asked], Any]] = {
    "capture": answers.capture,
    "rail": answers.rail,
    "load": answers.load,
    "commands": answers.commands,
    "events": answers.events,
    "levels": answers.levels,
    "gaps": answers.gaps,
    "span": statistics.span,
    "histogram": statistics.histogram,
    "figures": energy.figures,
    "energy": energy.energy,
    "find": finding.find,
    "export": exporting.export,
    "latest": recording.latest,
}
_LIVE: dict[str, Callable[[Asked], Any]] = {"capture": recording.capture, "rail": recording.rail, "load": recording.load}
"""The same of a capture that is being recorded."""


def routes(shown: Sequence[Shown], prefix: str) -> list[Route]:
    """The routes below ``prefix``. Starlette runs each in a thread of its pool."""

    def captures(_: Request) -> Response:
        return answer([{"k": k, "name": one.name, "state": one.state} for k, one in enumerate(shown)])

    def formats(_: Request) -> Response:
        return answer([{"name": name, "title": form.title} for name, form in FORMATS.items()])

    def about(name: str, handler: Callable[[Asked], Any]) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            asked = Asked(request, shown)
            found = _LIVE[name](asked) if name in _LIVE and asked.shown.live is not None else handler(asked)
            return found if isinstance(found, Response) else answer(found)

        return respond

    made = [Route(f"{prefix}/{{k}}/{name}", about(name, handler)) for name, handler in _HANDLERS.items()]
    return [Route(f"{prefix}/captures", captures), Route(f"{prefix}/formats", formats), *made]
