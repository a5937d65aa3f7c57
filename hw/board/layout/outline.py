"""The board's outline, holes and areas that stay free, from outline.toml."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..library.footprints import tables
from .frame import XY

__all__ = ["Arc", "Hole", "StraightEdge", "edge_origin", "edges", "holes", "inside", "load", "polygon", "socket_origin"]

PATH = Path(__file__).with_name("outline.toml")


@dataclass(frozen=True)
class StraightEdge:
    start: XY
    end: XY


@dataclass(frozen=True)
class Arc:
    start: XY
    middle: XY
    end: XY


@dataclass(frozen=True)
class Hole:
    name: str
    at: XY
    drill: float
    keep_out: float
    """Radius, mm."""


@cache
def load() -> dict[str, Any]:
    """The file."""
    return tomllib.loads(PATH.read_text())


def edge_origin() -> XY:
    """Return the place of the edge's footprint: its tongue ends at 0."""
    return (0.0, load()["tongue"]["length"])


def socket_origin() -> XY:
    """Return the place of the socket's footprint: its odd row is towards the edge."""
    return (0.0, load()["socket"]["odd_row"] + tables()["M2_M_socket"]["odd_row"])


def holes() -> list[Hole]:
    """Holes for the drives' spacers and the feet."""
    data = load()
    start = data["socket"]["odd_row"] + data["socket"]["card_edge"]
    drive, feet = data["drive"], data["feet"]
    found = [Hole(f"H{n}", (0.0, start + length), drive["hole"], drive["keep_out"]) for n, length in enumerate(drive["lengths"], 1)]
    return found + [Hole(f"H{n}", (x, y), feet["hole"], feet["keep_out"]) for n, (x, y) in enumerate(feet["at"], len(found) + 1)]


def edges(notches: Iterable[tuple[float, float]] = ()) -> list[StraightEdge | Arc]:
    """Return the outline, one closed line. ``notches``: (low, high) on the left side where a footprint brings its own piece of the edge."""
    data = load()
    tongue, body = data["tongue"], data["body"]
    t, length, fillet = tongue["half_width"], tongue["length"], tongue["fillet"]
    n = data["neck"]["half_width"]
    (x0, x1), (y0, y1), c = body["x"], body["y"], body["corner"]
    low, high = tongue["key"]
    deep, radius = tongue["key_depth"], (high - low) / 2
    r = fillet * (1 - math.sqrt(0.5))
    made: list[StraightEdge | Arc] = []

    def path(*points: XY) -> None:
        made.extend(StraightEdge(a, b) for a, b in zip(points[:-1], points[1:]))

    def corner(start: XY, middle: XY, end: XY) -> None:
        made.append(Arc(start, middle, end))

    # from the key to the right, up, around and back
    path((high, deep), (high, 0.0), (t, 0.0), (t, length - fillet))
    corner((t, length - fillet), (t + r, length - r), (t + fillet, length))
    path((t + fillet, length), (n, length), (n, y0), (x1 - c, y0))
    k = c * (1 - math.sqrt(0.5))
    corner((x1 - c, y0), (x1 - k, y0 + k), (x1, y0 + c))
    path((x1, y0 + c), (x1, y1 - c))
    corner((x1, y1 - c), (x1 - k, y1 - k), (x1 - c, y1))
    path((x1 - c, y1), (x0 + c, y1))
    corner((x0 + c, y1), (x0 + k, y1 - k), (x0, y1 - c))
    top = y1 - c
    for bottom, upper in sorted(notches, reverse=True):
        path((x0, top), (x0, upper))
        top = bottom
    path((x0, top), (x0, y0 + c))
    corner((x0, y0 + c), (x0 + k, y0 + k), (x0 + c, y0))
    path((x0 + c, y0), (-n, y0), (-n, length), (-t - fillet, length))
    corner((-t - fillet, length), (-t - r, length - r), (-t, length - fillet))
    path((-t, length - fillet), (-t, 0.0), (low, 0.0), (low, deep))
    corner((low, deep), ((low + high) / 2, deep + radius), (high, deep))
    return made


def polygon(shrink: float = 0.0, tongue: bool = False) -> list[XY]:
    """Corners for planes, counterclockwise, ``shrink`` mm inside; with the tongue (around the key) or without."""
    data = load()
    n = data["neck"]["half_width"] - shrink
    (x0, x1), (y0, y1) = data["body"]["x"], data["body"]["y"]
    x0, x1, y0, y1 = x0 + shrink, x1 - shrink, y0 + shrink, y1 - shrink
    low = data["tongue"]["length"] + shrink
    body = [(n, low), (n, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0), (-n, y0), (-n, low)]
    if not tongue:
        return body
    t, end = data["tongue"]["half_width"] - shrink, 0.8  # the edge is bevelled
    left, right = data["tongue"]["key"]
    deep = data["tongue"]["key_depth"] + (right - left) / 2 + shrink
    left, right = left - shrink, right + shrink
    return [*body, (-t, low), (-t, end), (left, end), (left, deep), (right, deep), (right, end), (t, end), (t, low)]


def inside(box: Sequence[float], margin: float = 0.0) -> bool:
    """Whether x0, y0, x1, y1 lies on the board beyond the tongue."""
    data = load()
    x0, y0, x1, y1 = box
    (bx0, bx1), (by0, by1) = data["body"]["x"], data["body"]["y"]
    n, low = data["neck"]["half_width"], data["tongue"]["length"]
    in_body = bx0 + margin <= x0 and x1 <= bx1 - margin and by0 + margin <= y0 and y1 <= by1 - margin
    in_middle = -n + margin <= x0 and x1 <= n - margin and low + margin <= y0 and y1 <= by1 - margin
    return bool(in_body or in_middle)
