"""The pairs drawn by script: lanes and clock from the edge to the drive's socket, links of lanes 2 and 3, the tap up to the FPGA.

All contacts of the lanes are in the row of the edge that is straight in front of the socket's row. So a pair is a straight line in its
middle. The tap's resistors are beside the pair, one on each leg. Their first pads lie on the leg itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..library.footprints import m2_x, tables
from ..netlist import Design
from ..sheets.connectors import LINKED, STRAIGHT
from ..sheets.tap import CHANNELS
from ..signal.stackup import Pair, load
from . import outline
from .land import Placed
from .placement import fixed
from .track import Copper, Via, beside

__all__ = ["LANES", "Lane", "amplifier", "copper", "lanes", "scripted"]

NECK = 0.6
"""mm over which a pair narrows from the contacts' pitch to its own."""
LINK_Y = 18.0
SPREAD = 0.36
"""Half the distance of a pair's two links or capacitors: their courtyards just do not touch."""
TAP_Y = {"HOST": 17.2, "DRIVE": 19.2}
"""Height of the tap's resistors; neighbours keep out of each other's way."""
TAP_PAD = 0.62
"""From the pair's middle to the resistor's: the first pad then ends where the leg does on the inside."""
LANE_Y = {"HOST_TX0": 18.9, "DRIVE_TX0": 20.9, "HOST_TX1": 21.8, "DRIVE_TX1": 22.7}
"""Height at which a tapped pair runs to the left, on the back."""
VIA_Y = 24.0
CAP_Y = 24.9


@dataclass(frozen=True)
class Lane:
    """A pair from edge to socket. ``p``, ``n``: contacts."""

    name: str
    p: int
    n: int
    linked: bool

    @property
    def middle(self) -> float:
        return (m2_x(self.p) + m2_x(self.n)) / 2


def lanes() -> list[Lane]:
    """Every pair of the lanes and the clock, from the pinout of the sheet."""
    found = {}
    for table, linked in ((STRAIGHT, False), (LINKED, True)):
        for pin, net in table.items():
            if net.endswith("_P"):
                other = next(number for number, name in table.items() if name == net[:-1] + "N")
                found[net[:-2]] = Lane(net[:-2], int(pin), int(other), linked)
    return list(found.values())


LANES = tuple(lanes())


def _side(lane: Lane, leg: str) -> float:
    """-1 for the left leg, seen with the edge towards the viewer."""
    own, other = (lane.p, lane.n) if leg == "P" else (lane.n, lane.p)
    return math.copysign(1.0, m2_x(own) - m2_x(other))


def amplifier(channel: int) -> str:
    """Reference of a channel's amplifier."""
    return f"U{100 + channel}"


def scripted(design: Design) -> dict[str, Placed]:
    """Places of the parts that belong to the drawn pairs."""
    data = fixed()
    found = {
        "J1": Placed("J1", "wattbell:M2_M_edge", outline.edge_origin()),
        "J2": Placed("J2", "wattbell:M2_M_socket", outline.socket_origin()),
    }
    parts = design.parts
    by_name = {lane.name: lane for lane in LANES}
    link = {part.pins["1"]: ref for ref, part in parts.items() if part.place.startswith("link ")}
    for lane in LANES:
        if lane.linked:
            for leg in "PN":
                ref = link[f"{lane.name}_{leg}"]
                found[ref] = Placed(ref, parts[ref].footprint, (lane.middle + _side(lane, leg) * SPREAD, LINK_Y), 90.0)
    for n, (source, _, _) in enumerate(CHANNELS):
        lane = by_name[source]
        y = TAP_Y[source.split("_")[0]]
        place = data.get(amplifier(n))
        for step, leg in enumerate("PN"):
            side = _side(lane, leg)
            r = f"R{100 + 10 * n + step}"
            found[r] = Placed(r, parts[r].footprint, (lane.middle + side * TAP_PAD, y), 180.0 if side < 0 else 0.0)
            if place is None:
                continue
            x_in, x_out, top = place.at[0] + 0.5, place.at[0] + 0.0, place.at[1] + 2.85
            c_in, c_out = f"C{100 + 10 * n + step}", f"C{102 + 10 * n + step}"
            found[c_in] = Placed(c_in, parts[c_in].footprint, (x_in + (-SPREAD if leg == "P" else SPREAD), CAP_Y), 90.0)
            found[c_out] = Placed(c_out, parts[c_out].footprint, (x_out + (SPREAD if leg == "N" else -SPREAD), top), 90.0)
    return found


def copper(design: Design, placed: dict[str, Placed]) -> Copper:
    """Return all tracks and vias, as far as the parts are placed."""
    stack = load()
    made = Copper()
    socket = outline.load()["socket"]["odd_row"] - tables()["M2_M_socket"]["pad"][1] / 2
    edge = tables()["M2_M_edge"]
    finger = edge["odd_from_edge"] + edge["odd_length"] / 2
    for lane in LANES:
        _straight(made, lane, stack.pairs["pcie"], finger, socket)
    for n, (source, behind, target) in enumerate(CHANNELS):
        if amplifier(n) in placed:
            lane = next(one for one in LANES if one.name == source)
            _tap(made, n, lane, behind, target, stack.pairs["tap"], placed, design)
    return made


def _straight(made: Copper, lane: Lane, pair: Pair, finger: float, socket: float) -> None:
    """Finger, narrow pair, pad; in the middle of lanes 2 and 3 the links."""
    half, width = (pair.width + pair.gap) / 2 * 1e3, pair.width * 1e3
    for leg, contact in (("P", lane.p), ("N", lane.n)):
        x, near = m2_x(contact), lane.middle + _side(lane, leg) * half
        net = f"{lane.name}_{leg}"
        start, end = (
            [(x, finger - 0.2), (x, finger + 0.1), (near, finger + 0.1 + NECK)],
            [(near, socket - 0.1 - NECK), (x, socket - 0.1), (x, socket + 0.2)],
        )
        if not lane.linked:
            made.line(net, "F.Cu", start + end, width)
            continue
        wide = lane.middle + _side(lane, leg) * SPREAD
        for name, piece in (
            (net, [*start, (near, LINK_Y - 0.9), (wide, LINK_Y - 0.6), (wide, LINK_Y - 0.32)]),
            (f"{net}_D", [(wide, LINK_Y + 0.32), (wide, LINK_Y + 0.6), (near, LINK_Y + 0.9), *end]),
        ):
            made.line(name, "F.Cu", piece, width)


def _tap(made: Copper, n: int, lane: Lane, behind: str, target: str, pair: Pair, placed: dict[str, Placed], design: Design) -> None:
    """Lead the tap from the resistors down to the back, to the left, up to the capacitors, through the amplifier, to the FPGA."""
    half, width = (pair.width + pair.gap) / 2 * 1e3, pair.width * 1e3
    u = placed[amplifier(n)]
    x_in = u.at[0] + 0.5
    y = TAP_Y[lane.name.split("_")[0]] + 0.65
    level = LANE_Y[lane.name]
    turn = 0.8
    middle = [
        (lane.middle, y + 0.5),
        (lane.middle, level - turn),
        (lane.middle - turn, level),
        (x_in + turn, level),
        (x_in, level + turn),
        (x_in, VIA_Y - 0.4),
    ]
    if middle[1][1] < middle[0][1]:  # straight into the bend
        middle[0] = (lane.middle, level - turn - 0.1)
    for leg, sign in (("P", 1.0), ("N", -1.0)):
        net = f"{behind}_{leg}"
        r = placed[f"R{100 + 10 * n + 'PN'.index(leg)}"].pad("2").at
        c = placed[f"C{100 + 10 * n + 'PN'.index(leg)}"].pad("1").at
        down, up = (r[0], y), (x_in - sign * SPREAD, VIA_Y)
        made.line(net, "F.Cu", [r, down], width)
        made.vias += [Via(net, down), Via(net, up)]
        made.line(net, "B.Cu", [down, *beside(middle, sign * half), up], width)
        made.line(net, "F.Cu", [up, c], width)
        c2 = placed[f"C{100 + 10 * n + 'PN'.index(leg)}"].pad("2").at
        pin = u.pad("7" if leg == "P" else "8").at
        made.line(f"{behind}_AC_{leg}", "F.Cu", [c2, (c2[0], c2[1] + 0.25), (pin[0], pin[1] - 0.5), pin], width)
    _to_fpga(made, n, behind, target, pair, placed, design)


def _to_fpga(made: Copper, n: int, behind: str, target: str, pair: Pair, placed: dict[str, Placed], design: Design) -> None:
    """Amplifier, capacitors, the deserialiser's balls. Where a pair has to pass another one it does so on the back."""
    half, width = (pair.width + pair.gap) / 2 * 1e3, pair.width * 1e3
    u, fpga = placed[amplifier(n)], placed["U200"]
    balls = {leg: next(pin for pin, net in design.parts["U200"].pins.items() if net == f"{target}_{leg}") for leg in "PN"}
    ends = {leg: fpga.pad(ball).at for leg, ball in balls.items()}
    there = (ends["P"][0] + ends["N"][0]) / 2
    start = u.at[1] + 3.9
    across = abs(there - u.at[0])
    level = ends["P"][1] - 1.0
    back = across > 5.0
    bend = start + (0.9 if back else 0.3)
    middle = [(u.at[0], start), (u.at[0], bend), (there, bend + across), (there, level)]
    if bend + across > level - 0.1:  # no room for one slope: along between two bends
        side = 1.0 if there > u.at[0] else -1.0
        slope = (level - 0.3 - bend) / 2
        middle = [(u.at[0], start), (u.at[0], bend), (u.at[0] + side * slope, bend + slope), (there - side * slope, bend + slope)]
        middle += [(there, bend + 2 * slope), (there, level)]
    for leg, sign in (("P", 1.0), ("N", -1.0)):
        cap = placed[f"C{102 + 10 * n + 'PN'.index(leg)}"]
        pin = u.pad("15" if leg == "P" else "14").at
        made.line(f"{behind}_OUT_{leg}", "F.Cu", [pin, (pin[0], pin[1] + 0.5), cap.pad("1").at], width)
        net, out, run = f"{target}_{leg}", cap.pad("2").at, beside(middle, sign * half)
        if not back:
            made.line(net, "F.Cu", [out, *run, (ends[leg][0], ends[leg][1] - 0.4), ends[leg]], width)
            continue
        down, up = (out[0], start), (there - sign * SPREAD, level)
        made.line(net, "F.Cu", [out, down], width)
        made.vias += [Via(net, down), Via(net, up)]
        made.line(net, "B.Cu", [down, *run[1:-1], up], width)
        made.line(net, "F.Cu", [up, (ends[leg][0], ends[leg][1] - 0.3), ends[leg]], width)
