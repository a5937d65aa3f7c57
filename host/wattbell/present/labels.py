"""Places for the texts beside the points of a chart: no text on another, on a point, or outside the axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_STEPS = (7.0, 12.0, 18.0, 26.0, 36.0, 48.0, 62.0)
"""Distances of a text from its point that are tried, nearest first, in points (1/72 inch)."""
_TURNS = 16
"""Directions that are tried at each distance."""
_AWAY = 0.35
"""Cost of each point (1/72 inch) of distance."""
_LINE = 10.0
"""Cost of each line that a text lies on."""
LED = 18.0
"""From this distance on a thin line leads from the text to its point."""


class Box(NamedTuple):
    """A rectangle: left, bottom, right, top, in one unit of length."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        """Whether the two have area in common."""
        return self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top

    def holds(self, other: Box) -> bool:
        """Whether ``other`` lies within."""
        return self.left <= other.left and other.right <= self.right and self.bottom <= other.bottom and other.top <= self.top

    def crossed(self, a: tuple[float, float], b: tuple[float, float]) -> bool:
        """Whether the line from ``a`` to ``b`` has a part in here (Liang and Barsky)."""
        low, high = 0.0, 1.0
        dx, dy = b[0] - a[0], b[1] - a[1]
        for slope, room in ((-dx, a[0] - self.left), (dx, self.right - a[0]), (-dy, a[1] - self.bottom), (dy, self.top - a[1])):
            if slope == 0:
                if room < 0:
                    return False
            elif slope < 0:
                low = max(low, room / slope)
            else:
                high = min(high, room / slope)
        return low < high


class Wanted(NamedTuple):
    """A text of ``width`` x ``height`` that belongs to the point at ``x``, ``y``. ``first``: the direction to be preferred, in radians."""

    x: float
    y: float
    width: float
    height: float
    first: float


class Place(NamedTuple):
    """Where a text stands, and whether a line leads from there to its point."""

    box: Box
    led: bool


def _candidates(text: Wanted) -> Iterator[tuple[float, Box, bool]]:
    """Boxes around the point, each with its cost."""
    for step in _STEPS:
        for k in range(_TURNS):
            turn = (k + 1) // 2 * (1 if k % 2 else -1) * math.tau / _TURNS  # the preferred direction, then those beside it
            c, s = math.cos(text.first + turn), math.sin(text.first + turn)
            # the box touches a circle of radius `step` from outside, with the edge or the corner that faces the point
            left = text.x + step * c - text.width * (1 - c) / 2
            bottom = text.y + step * s - text.height * (1 - s) / 2
            box = Box(left, bottom, left + text.width, bottom + text.height)
            yield _AWAY * (step - _STEPS[0]) + 0.3 * abs(turn), box, step >= LED


def place(
    texts: Sequence[Wanted], points: Sequence[Box], lines: Sequence[tuple[tuple[float, float], tuple[float, float]]], room: Box
) -> list[Place | None]:
    """A place for each text, those first in ``texts`` served first; None where there is no room left.

    All in points (1/72 inch). No place meets another, one of ``points`` (the markers) or the edge of ``room``. ``lines`` are avoided
    where that costs little. A text that is further away has its leading line, which crosses no other text.
    """
    taken: list[Box] = []
    leads: list[tuple[tuple[float, float], tuple[float, float]]] = []
    out: list[Place | None] = []
    for text in texts:
        best: tuple[float, Place] | None = None
        for cost, box, led in _candidates(text):
            if best is not None and cost >= best[0]:
                continue
            if not room.holds(box) or any(map(box.meets, taken)) or any(map(box.meets, points)):
                continue
            if any(box.crossed(*lead) for lead in leads):
                continue
            here = lead_of(text, box)
            if led and any(other.crossed(*here) for other in taken):
                continue
            cost += _LINE * sum(box.crossed(*line) for line in lines)
            if best is None or cost < best[0]:
                best = cost, Place(box, led)
        out.append(best and best[1])
        if best is not None:
            taken.append(best[1].box)
            if best[1].led:
                leads.append(lead_of(text, best[1].box))
    return out


def lead_of(text: Wanted, box: Box) -> tuple[tuple[float, float], tuple[float, float]]:
    """The line from a text's point to the nearest spot of its box."""
    near = (min(max(text.x, box.left), box.right), min(max(text.y, box.bottom), box.top))
    return (text.x, text.y), near
