"""Scripted pairs beside the lanes: the reference clock of the host's deserialisers, and USB.

The other deserialisers' oscillator is 3 mm from its balls, too short for a pair to matter.
"""

from __future__ import annotations

from ..netlist import Design
from ..signal.stackup import Pair, load
from .frame import XY
from .land import Placed
from .track import Copper, Via, beside

__all__ = ["copper"]

VIA_PITCH = 0.33
"""Half the distance of a pair's two vias."""
CLOCK_VIA_X = -23.2
CLOCK_Y = 32.56
"""Height of the clock on the back: below the tap's pair of the next channel."""


def copper(design: Design, placed: dict[str, Placed]) -> Copper:
    """Return all tracks and vias whose parts are placed."""
    pairs, made = load().pairs, Copper()
    if {"Y301", "C310", "C311", "U200"} <= placed.keys():
        _clock(made, pairs["lvds"], design, placed)
    if {"J400", "U401", "U400"} <= placed.keys():
        _usb(made, pairs["usb"], placed)
    return made


def _shape(pair: Pair) -> tuple[float, float]:
    """Return half the distance of the legs' middles, and the width, in mm."""
    return (pair.width + pair.gap) / 2 * 1e3, pair.width * 1e3


def _clock(made: Copper, pair: Pair, design: Design, placed: dict[str, Placed]) -> None:
    """Draw the clock: oscillator and capacitors on the back, to the right below the first tap's pair, up, and to the row of balls
    at the edge.
    """
    half, width = _shape(pair)
    oscillator, fpga = placed["Y301"], placed["U200"]
    for leg, pin, ref, sign in (("p", "4", "C310", 1.0), ("n", "5", "C311", -1.0)):
        start, cap = oscillator.pad(pin).at, placed[ref]
        made.line(f"osc0_{leg}", "B.Cu", [start, (start[0] + 0.6, cap.pad("1").at[1]), cap.pad("1").at], width)
        net = f"dcu_reference0_{leg}"
        out, via = cap.pad("2").at, (CLOCK_VIA_X, CLOCK_Y + sign * VIA_PITCH)
        run = [(out[0] + 0.5, CLOCK_Y + sign * half), (CLOCK_VIA_X - 0.5, CLOCK_Y + sign * half)]
        made.line(net, "B.Cu", [out, *run, via], width)
        made.vias.append(Via(net, via))
        ball = fpga.pad(next(number for number, on in design.parts["U200"].pins.items() if on == net)).at
        other = fpga.pad(
            next(number for number, on in design.parts["U200"].pins.items() if on == f"dcu_reference0_{'n' if leg == 'p' else 'p'}")
        ).at
        there = (ball[0] + other[0]) / 2
        middle = [(CLOCK_VIA_X + 0.3, CLOCK_Y), (CLOCK_VIA_X + 0.5, CLOCK_Y)]
        rise = there - middle[1][0]
        middle += [(there, CLOCK_Y + rise), (there, ball[1] - 0.8)]
        made.line(net, "F.Cu", [via, *beside(middle, sign * half), (ball[0], ball[1] - 0.4), ball], width)


def _usb(made: Copper, pair: Pair, placed: dict[str, Placed]) -> None:
    """Draw USB from the connector through the clamps to the transceiver, all on the upper side.

    The plug may be inserted either way, so each line has two contacts, interleaved with the other line's. One line joins its two
    contacts on the inside, the other on the outside. The transceiver has its two pins in the opposite order. One leg therefore
    passes under the clamps' body, inside the other leg.
    """
    half, width = _shape(pair)
    plug, clamp, phy = placed["J400"], placed["U401"], placed["U400"]
    right = max(pad.at[0] + pad.size[0] / 2 for pad in plug.pads() if pad.number == "A6")
    left = min(pad.at[0] - pad.size[0] / 2 for pad in plug.pads() if pad.number == "A6")

    def contact(number: str, x: float) -> XY:
        return x, plug.pad(number).at[1]

    # plus: its contacts are joined beside the board's edge, and it leaves by the lower contact; minus: joined on the other side
    dp, dm = "usb_con_dp", "usb_con_dm"
    made.line(
        dp, "F.Cu", [contact("A6", left + 0.2), contact("A6", left - 0.25), contact("B6", left - 0.25), contact("B6", left + 0.2)], width
    )
    out = right + 0.47
    made.line(
        dm,
        "F.Cu",
        [contact("B7", right - 0.2), contact("B7", out - 0.2), (out, plug.pad("B7").at[1] - 0.2), (out, plug.pad("A7").at[1])],
        width,
    )
    level = (plug.pad("A7").at[1] + plug.pad("B6").at[1]) / 2
    up = clamp.pad("1").at[0] - 1.7
    middle = [(out + 0.3, level), (up - 0.26, level), (up, level + 0.26), (up, level + 1.2)]
    minus, plus = beside(middle, half), beside(middle, -half)
    one = clamp.pad("1")
    made.line(
        dp,
        "F.Cu",
        [contact("B6", right - 0.2), contact("B6", out), *plus, (plus[-1][0] + one.at[1] - plus[-1][1], one.at[1]), one.at],
        width,
    )
    over, inside = one.at[1] + 0.65, (one.at[0] + clamp.pad("6").at[0]) / 2
    three = clamp.pad("3").at
    made.line(
        dm,
        "F.Cu",
        [
            contact("A7", right - 0.2),
            contact("A7", out),
            *minus,
            (minus[-1][0], over - 0.4),
            (minus[-1][0] + 0.4, over),
            (inside - 0.3, over),
            (inside, over - 0.3),
            (inside, three[1] + 0.3),
            (inside - 0.3, three[1]),
            three,
        ],
        width,
    )
    # to the transceiver: plus is now the left leg, seen along the way
    middle_y = (clamp.pad("6").at[1] + clamp.pad("4").at[1]) / 2
    begin = clamp.pad("6").at[0] + 1.26
    end = (phy.pad("13").at[0] + phy.pad("14").at[0]) / 2
    turn = begin + 3.1
    middle = [(begin + 0.9, middle_y), (turn, middle_y), (end, middle_y - (end - turn)), (end, phy.pad("13").at[1] + 1.05)]
    for net, sign, first, last in (("usb_dp", 1.0, "6", "13"), ("usb_dm", -1.0, "4", "14")):
        pin, goal = clamp.pad(first).at, phy.pad(last).at
        run = beside(middle, sign * half)
        made.line(net, "F.Cu", [pin, (run[0][0] - abs(pin[1] - run[0][1]), pin[1]), *run, (goal[0], goal[1] + 0.7), goal], width)
