"""The board as a whole: places, copper, and the text of its file. Needs KiCad's footprints."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..design import KICAD, TITLE, design, sheets
from ..schematic.write import PROJECT
from . import coupled, pairs, rail, routes
from .escape import ball_vias
from .place import FOUND, Layout, found_text, layout
from .track import Copper, Via
from .write import board_text

__all__ = ["FILE", "board_file", "copper", "keep_places", "placed", "scripted_copper"]

FILE = KICAD / f"{PROJECT}.kicad_pcb"


@cache
def placed() -> Layout:
    """Return the places of the parts."""
    return layout(design())


def scripted_copper() -> Copper:
    """Tracks and vias that are drawn by script: pairs, and the vias of the FPGA's supplies."""
    made = pairs.copper(design(), placed().placed)
    made.add(coupled.copper(design(), placed().placed))
    for via in ball_vias(design(), placed().placed["U200"]):
        made.line(via.net, "F.Cu", [via.ball, via.at], 0.2)
        made.vias.append(Via(via.net, via.at))
    made.add(rail.vias(design(), placed().placed, made))
    return made


def copper() -> Copper:
    """All tracks and vias."""
    made = scripted_copper()
    made.add(routes.kept(design(), placed().placed))
    return made


def keep_places() -> None:
    """Write down where parts were put by rule, so that they stay there."""
    FOUND.write_text(found_text(placed()))


def board_file() -> dict[Path, str]:
    """The board's file by its path beside the project."""
    return {FILE.relative_to(KICAD): board_text(design(), sheets(), placed(), copper(), TITLE)}
