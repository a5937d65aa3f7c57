"""Place of the board on KiCad's page, and helpers of all files of the layout."""

from __future__ import annotations

import uuid
from typing import TypeAlias

from ..schematic.sexpr import Node, Word

__all__ = ["COPPER", "ORIGIN", "XY", "kicad_xy", "uid", "w", "xy"]

XY: TypeAlias = tuple[float, float]
ORIGIN: XY = (100.0, 190.0)
"""The middle of the tongue's end on the page."""
COPPER = ("F.Cu", "In1.Cu", "In2.Cu", "In3.Cu", "In4.Cu", "In5.Cu", "In6.Cu", "B.Cu")
_SPACE = uuid.UUID("5b2ad1d8-6c0c-5a3e-8f3e-57a77be11001")


def kicad_xy(at: XY) -> XY:
    """Return a place on KiCad's page, in mm, y down."""
    return round(ORIGIN[0] + at[0], 4), round(ORIGIN[1] - at[1], 4)


def w(*words: Node) -> list[Node]:
    """Return a list with a bare first word."""
    return [Word(str(words[0])), *words[1:]]


def xy(name: str, at: XY) -> list[Node]:
    """Return ``(name x y)`` on KiCad's page."""
    return w(name, *kicad_xy(at))


def uid(*name: object) -> list[Node]:
    """Return an identifier that depends only on a name."""
    return w("uuid", str(uuid.uuid5(_SPACE, "/".join(map(str, name)))))
