"""The FPGA's balls: a via for each ball of a supply, between the balls, outwards."""

from __future__ import annotations

from dataclasses import dataclass

from ..netlist import Design
from ..schematic.sheet import is_power
from .frame import XY
from .land import Placed

__all__ = ["PITCH", "VIA", "EscapeVia", "ball_vias"]

PITCH = 0.8
VIA = (0.4, 0.2)
"""Pad and drill, mm."""


@dataclass(frozen=True)
class EscapeVia:
    """Via through all layers."""

    net: str
    at: XY
    ball: XY
    """The pad it is joined to, by a track on the part's side."""


def ball_vias(design: Design, fpga: Placed) -> list[EscapeVia]:
    """Return a via for each ball on a supply.

    It is half a pitch away from the middle on both axes, so that a cross stays free for tracks.
    """
    pins = design.parts[fpga.ref].pins
    found = []
    for pad in fpga.pads():
        net = pins.get(pad.number, "")
        if not net or not is_power(net):
            continue
        dx = PITCH / 2 if pad.at[0] > fpga.at[0] else -PITCH / 2
        dy = PITCH / 2 if pad.at[1] > fpga.at[1] else -PITCH / 2
        found.append(EscapeVia(net, (round(pad.at[0] + dx, 4), round(pad.at[1] + dy, 4)), pad.at))
    return found
