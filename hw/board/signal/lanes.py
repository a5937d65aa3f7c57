"""The pairs as laid on the board: length and skew of each, the share with the field solver's geometry, the planes below."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from ..layout.frame import XY
from ..netlist import Design, DesignError
from ..pcb import Pcb, PcbPad, PcbTrack
from ..raster import Grid, copper
from ..sheets.connectors import LINKED, STRAIGHT
from ..sheets.tap import CHANNELS
from .routes import Routes, Way
from .stackup import Pair, Stackup

__all__ = ["PS_PER_MM", "Leg", "PairRoute", "lines", "others", "return_vias", "uncoupled", "unreferenced"]

PS_PER_MM = 6.1
"""Delay of a pair on an outer layer of this stack-up; for skew alone."""
SAMPLE = 0.1
"""mm between the points of a pair that are looked at."""
SAME = 0.01
"""Distance of the middles that still counts as the pair's own, mm."""


@dataclass(frozen=True)
class Leg:
    """``millimetres`` of tracks, with their vias and nets."""

    millimetres: float
    vias: int
    nets: tuple[str, ...]


@dataclass(frozen=True)
class PairRoute:
    """A pair between two parts. ``missing``: why it has no length."""

    name: str
    pair: str
    legs: dict[str, Leg] = field(default_factory=dict)
    missing: str = ""

    @property
    def millimetres(self) -> float:
        """The longer leg."""
        return max(leg.millimetres for leg in self.legs.values())

    @property
    def skew(self) -> float:
        """mm."""
        return abs(self.legs["P"].millimetres - self.legs["N"].millimetres)


def lines(ours: Design, board: Pcb, stack: Stackup) -> list[PairRoute]:
    """Every pair of lanes and clock from edge to socket; of the tapped ones, from resistors to amplifier, and from there to the FPGA."""
    made = _Lines(ours, board, stack)
    found = []
    for table in (STRAIGHT, LINKED):
        for net in table.values():
            if net.endswith("_P"):
                found.append(made.line(net[:-2], "pcie", {leg: ("J1", f"{net[:-1]}{leg}", "J2") for leg in "PN"}))
    for n, (source, _, target) in enumerate(CHANNELS):
        amplifier, resistors = f"U{100 + n}", {leg: f"R{100 + 10 * n + k}" for k, leg in enumerate("PN")}
        ends = {leg: (ref, made.other(ref, f"{source}_{leg}"), amplifier) for leg, ref in resistors.items()}
        found.append(made.line(f"{source}, tap to amplifier", "tap", ends))
        ends = {leg: (amplifier, made.before(f"{target}_{leg}", amplifier), "U200") for leg in "PN"}
        found.append(made.line(f"{source}, amplifier to FPGA", "lvds", ends))
    return found


def others(ours: Design, board: Pcb, stack: Stackup) -> list[PairRoute]:
    """Return the lines of coupled.py: USB in two stretches, and the reference clock of the host's deserialisers."""
    made = _Lines(ours, board, stack)
    legs = {"P": "p", "N": "m"}
    return [
        made.line("USB, connector to clamps", "usb", {leg: ("J400", f"usb_con_d{end}", "U401") for leg, end in legs.items()}),
        made.line("USB, clamps to transceiver", "usb", {leg: ("U401", f"usb_d{end}", "U400") for leg, end in legs.items()}),
        made.line("reference clock", "lvds", {leg: ("Y301", f"osc0_{leg.lower()}", "U200") for leg in "PN"}),
    ]


class _Lines:
    def __init__(self, ours: Design, board: Pcb, stack: Stackup) -> None:
        self.ours, self.board, self.stack = ours, board, stack

    def other(self, ref: str, net: str) -> str:
        """The net at the other end of a part of two pins. Raises DesignError."""
        ends = [one for one in self.ours.parts[ref].pins.values() if one != net]
        if len(ends) != 1 or len(self.ours.parts[ref].pins) != 2:
            raise DesignError(f"{ref} is not between {net} and one other net")
        return ends[0]

    def before(self, net: str, ref: str) -> str:
        """The net of ``ref`` that reaches ``net`` through a capacitor."""
        for part, _ in sorted(self.ours.nets[net].pins):
            if part[0] == "C":
                there = self.other(part, net)
                if any(one == ref for one, _ in self.ours.nets[there].pins):
                    return there
        raise DesignError(f"no capacitor joins {net} with {ref}")

    def line(self, name: str, pair: str, ends: dict[str, tuple[str, str, str]]) -> PairRoute:
        """``ends``: by leg the part it begins at, its net there, and the part it ends at."""
        legs = {}
        for leg in "PN":
            found = self._leg(*ends[leg])
            if isinstance(found, str):
                return PairRoute(name, pair, missing=f"{leg}: {found}")
            legs[leg] = found
        return PairRoute(name, pair, legs)

    def _leg(self, start: str, net: str, end: str) -> Leg | str:
        """Return the tracks from part to part, through two-pin parts in between."""
        total, vias, nets, here = 0.0, 0, [net], start
        while True:
            pads = self.board.pads_on(here, net)
            goals = self.board.pads_on(end, net)
            if not goals:
                goals = [
                    pad
                    for ref, _ in self.ours.nets[net].pins
                    if ref[0] in "RC" and ref != here and ref not in _stubs(self.ours, net)
                    for pad in self.board.pads_on(ref, net)
                ]
            way, goal = self._nearest(net, pads, goals)
            if way is None or goal is None:
                return f"{net} is not drawn from {here} on"
            total, vias = total + way.millimetres, vias + way.vias
            if goal.ref == end:
                return Leg(total, vias, tuple(nets))
            here, net = goal.ref, self.other(goal.ref, net)
            nets.append(net)

    def _nearest(self, net: str, starts: list[PcbPad], goals: list[PcbPad]) -> tuple[Way | None, PcbPad | None]:
        routes = Routes(self.board, net, self.stack)
        best: tuple[Way | None, PcbPad | None] = None, None
        for start, goal in itertools.product(starts, goals):
            way = routes.between(start, goal)
            if way is not None and (best[0] is None or way.millimetres < best[0].millimetres):
                best = way, goal
        return best


def _stubs(ours: Design, net: str) -> set[str]:
    """Parts of the tap on a lane that goes straight on: they lie beside the way, not in it."""
    tapped = {f"{source}_{leg}" for source, _, _ in CHANNELS for leg in "PN"}
    return {ref for ref, _ in ours.nets[net].pins if ref[0] == "R"} if net in tapped else set()


def _points(track: PcbTrack) -> list[XY]:
    count = max(int(track.length / SAMPLE), 1)
    (ax, ay), (bx, by) = track.start, track.end
    shares = [(n + 0.5) / count for n in range(count)]
    return [(ax + share * (bx - ax), ay + share * (by - ay)) for share in shares]


def _distance(at: XY, track: PcbTrack) -> float:
    a, along = np.array(track.start), np.array(track.end) - np.array(track.start)
    square = float(along @ along)
    t = float(np.clip((np.array(at) - a) @ along / square, 0.0, 1.0)) if square else 0.0
    return float(math.hypot(*(np.array(at) - a - t * along)))


def uncoupled(board: Pcb, line: PairRoute, pair: Pair) -> float:
    """mm of the leg P that has another width than the pair's, or does not lie at its distance from leg N."""
    pitch, far = (pair.width + pair.gap) * 1e3, 0.0
    others = [track for track in board.tracks if track.net in line.legs["N"].nets]
    for track in (track for track in board.tracks if track.net in line.legs["P"].nets):
        beside = [other for other in others if other.layer == track.layer]
        for at in _points(track):
            near = min((_distance(at, other) for other in beside), default=math.inf)
            if abs(near - pitch) > SAME or abs(track.width - pair.width * 1e3) > 1e-3:
                far += track.length / len(_points(track))
    return far


def unreferenced(board: Pcb, found: list[PairRoute]) -> dict[str, float]:
    """mm of each pair's leg P that has no ground on the next layer: the solver's plane is not there."""
    box = (-42.0, 0.0, 12.0, 46.0)
    grid = Grid.over(box, SAMPLE)
    planes = {outer: copper(board, "GND", inner, grid) for outer, inner in (("F.Cu", "In1.Cu"), ("B.Cu", "In6.Cu"))}
    bare = {}
    for line in found:
        far = 0.0
        for track in board.tracks:
            if line.legs and track.net in line.legs["P"].nets:
                for at in _points(track):
                    cell = grid.cell(at)
                    if track.layer not in planes or cell is None or not planes[track.layer][cell]:
                        far += track.length / len(_points(track))
        bare[line.name] = far
    return bare


def return_vias(board: Pcb, found: list[PairRoute], within: float) -> tuple[int, int]:
    """How many vias of the pairs have one of ground within a distance, mm; and how many there are."""
    grounds = [via.at for via in board.vias if via.net == "GND"]
    nets = {net for line in found for leg in line.legs.values() for net in leg.nets}
    own = [via.at for via in board.vias if via.net in nets]
    return sum(any(math.dist(at, other) <= within for other in grounds) for at in own), len(own)
