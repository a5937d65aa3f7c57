"""Copper that is drawn: tracks, vias, pairs along a middle line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .frame import XY

__all__ = ["Copper", "Track", "Via", "beside", "length"]


@dataclass(frozen=True)
class Track:
    """A straight piece."""

    net: str
    layer: str
    start: XY
    end: XY
    width: float


@dataclass(frozen=True)
class Via:
    """Via through all layers; pad and drill in mm."""

    net: str
    at: XY
    pad: float = 0.4
    drill: float = 0.2


@dataclass
class Copper:
    """Tracks and vias of some nets."""

    tracks: list[Track] = field(default_factory=list)
    vias: list[Via] = field(default_factory=list)

    def line(self, net: str, layer: str, points: Sequence[XY], width: float) -> None:
        """Straight pieces through points; pieces without length are left out."""
        rounded = [(round(x, 4), round(y, 4)) for x, y in points]
        self.tracks += [Track(net, layer, a, b, width) for a, b in zip(rounded[:-1], rounded[1:]) if a != b]

    def add(self, other: Copper) -> None:
        """Take another's in."""
        self.tracks += other.tracks
        self.vias += other.vias


def beside(middle: Sequence[XY], offset: float) -> list[XY]:
    """A line that runs beside another, ``offset`` mm to its left (seen along it)."""
    found: list[XY] = []
    for n, (x, y) in enumerate(middle):
        before = _way(middle[n - 1], middle[n]) if n else None
        behind = _way(middle[n], middle[n + 1]) if n + 1 < len(middle) else None
        if before is None or behind is None:
            dx, dy = before or behind or (0.0, 0.0)
            found.append((x - offset * dy, y + offset * dx))
            continue
        nx, ny = -(before[1] + behind[1]), before[0] + behind[0]
        scale = offset / max(1e-9, (nx * -before[1] + ny * before[0]))
        found.append((x + nx * scale, y + ny * scale))
    return found


def _way(a: XY, b: XY) -> tuple[float, float]:
    far = math.dist(a, b)
    return ((b[0] - a[0]) / far, (b[1] - a[1]) / far)


def length(points: Sequence[XY]) -> float:
    """mm along points."""
    return sum(math.dist(a, b) for a, b in zip(points[:-1], points[1:]))
