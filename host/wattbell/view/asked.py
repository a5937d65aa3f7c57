"""The parameters of a question of the page, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..zoom import CommandFilter, Zoom
from .shown import Shown

MOST_POINTS = 20_000
_FURTHEST = 1 << 62


class Asked:
    """One question about one capture. A wrong parameter raises HTTPException with a line that says so."""

    def __init__(self, request: Request, shown: Sequence[Shown]) -> None:
        place = request.path_params["k"]
        if not (place.isascii() and place.isdigit() and len(place) < 6 and int(place) < len(shown)):
            raise HTTPException(404, "There is no such capture.")
        self.shown = shown[int(place)]
        self._query = request.query_params

    @property
    def zoom(self) -> Zoom:
        """The capture. Raises HTTPException while it is being recorded."""
        zoom = self.shown.zoom
        if zoom is None:
            raise HTTPException(409, "The capture is being recorded; this can be asked when it has ended.")
        return zoom

    @property
    def origin(self) -> int:
        """Tick that the page counts from."""
        return self.zoom.bounds[0]

    def __contains__(self, name: str) -> bool:
        return name in self._query

    def text(self, name: str) -> str | None:
        """Return a parameter; None if absent or empty."""
        return self._query.get(name) or None

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of some words."""
        found = self._query.get(name)
        if found is None or found not in choices:
            raise HTTPException(422, f"{name} is one of {', '.join(choices)}.")
        return found

    def number(self, name: str) -> float | None:
        """A finite number."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not abs(value) < _FURTHEST:
            raise HTTPException(422, f"{name} is not a number.")
        return value

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number, brought into ``low`` .. ``high``."""
        value = self.number(name)
        return default if value is None else min(max(int(value), low), high)

    def tick(self, name: str) -> int | None:
        """An instant of the page as a tick of the capture."""
        value = self.number(name)
        return None if value is None else self.origin + int(np.floor(value))

    def span_from(self, first: int, last: int, origin: int) -> tuple[int, int]:
        """Return (begin, end) as ticks, end > begin, and at most their distance beyond ``first`` and ``last``.

        Without a request, the span is ``first`` and ``last``, between which there is something to see.
        """
        begin, end = self.number("begin"), self.number("end")
        low = first if begin is None else origin + int(np.floor(begin))
        high = last if end is None else origin + int(np.ceil(end))
        if high < low:
            raise HTTPException(422, "The span ends before it begins.")
        reach = last - first + 1
        low, high = (min(max(tick, first - reach), last + reach) for tick in (low, high))
        return low, max(high, low + 1)

    @property
    def span(self) -> tuple[int, int]:
        """(begin, end) as ticks of the capture."""
        return self.span_from(*self.zoom.bounds, self.origin)

    @property
    def points(self) -> int:
        """How many points the page has room for."""
        return self.integer("points", 1000, 8, MOST_POINTS)

    @property
    def wanted(self) -> CommandFilter:
        """Which commands."""
        whole = {name: self.number(name) for name in ("opcode", "qid", "cid", "status", "slba")}
        admin, above_s = self.number("admin"), self.number("above_s")
        return CommandFilter(
            **{name: None if value is None else int(value) for name, value in whole.items()},
            admin=None if admin is None else bool(admin),
            above_ticks=None if above_s is None else round(above_s / self.zoom.tick_s),
        )
