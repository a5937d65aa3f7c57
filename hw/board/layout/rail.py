"""Vias that are put by rule.

- of the rail's copper
- under exposed pads
- beside pads that carry a supply's current
- of ground at a pair's change of side, at the edge's contacts and along the board's edge
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..netlist import Design
from . import outline
from .frame import XY
from .land import Pad, Placed
from .track import Copper, Track, Via

__all__ = ["EDGE_PITCH", "ZONES", "vias"]

ZONES = Path(__file__).with_name("zones.toml")
CLEARANCE = 0.15
EXPOSED = 1.4
"""A pad with both sides longer than this gets vias within it, mm."""
LONG = 2.2
"""So does a longer one that zones.toml has places in: the load switch's, 0.84 mm wide."""
PITCH = 0.6
RETURN = 1.3
"""mm within which a via of a pair gets one of ground."""
FINGER = 3.1
"""Place of the vias for the ground contacts of the edge, mm from the tongue's end."""
EDGE_INSET, EDGE_PITCH = 1.0, 4.0
"""Ground along the board's edge: its distance from it, and the distance that is tried; mm."""
HEAVY = ("L", "F", "D1305", "D1306", "D400")
"""Parts with pads on a net with a plane that carry all of a supply's current: inductors, beads, the fuse, rectifiers."""
HEAVY_VIAS = 3
HEAVY_WIDTH = 0.4


def vias(design: Design, placed: dict[str, Placed], others: Copper) -> Copper:
    """Return all vias, except for those too near to another net's copper or to a via."""
    pads = [(pad, design.parts[ref].pins.get(pad.number, "")) for ref, part in placed.items() for pad in part.pads()]
    made = _Made(design, placed, pads, others)
    for via in _wanted(pads):
        made.put(via)
    _returns(made)
    _fingers(made)
    _heavy(made)
    for places in _rim():
        if not any(made.put(Via("GND", at), more=0.1) for at in places):
            any(made.put(Via("GND", at)) for at in places)
    return made.copper


class _Made:
    """The copper so far, and the copper added."""

    def __init__(self, design: Design, placed: dict[str, Placed], pads: list[tuple[Pad, str]], others: Copper) -> None:
        self.design, self.pads, self.others = design, pads, others
        self.copper = Copper()
        self.near: dict[tuple[int, int], list[tuple[Pad, str]]] = defaultdict(list)
        """Pads by squares of 2 mm that they, with a millimetre around them, lie in."""
        for pad, net in pads:
            reach = (pad.size[0] / 2 + 1.0, pad.size[1] / 2 + 1.0)
            for i in range(math.floor((pad.at[0] - reach[0]) / 2), math.floor((pad.at[0] + reach[0]) / 2) + 1):
                for j in range(math.floor((pad.at[1] - reach[1]) / 2), math.floor((pad.at[1] + reach[1]) / 2) + 1):
                    self.near[(i, j)].append((pad, net))
        jacks = {ref for ref in design.parts if ref.startswith("J70")}
        self.notches = [box for ref in jacks & placed.keys() if (box := placed[ref].courtyard())]
        """Places where a footprint brings its own piece of the edge."""

    def fits(self, via: Via, more: float = 0.0) -> bool:
        """Clear of all by 0.15 mm and ``more``."""
        far = CLEARANCE + more
        if any(x0 < via.at[0] < x1 and y0 < via.at[1] < y1 for x0, y0, x1, y1 in self.notches):
            return False
        cell = (math.floor(via.at[0] / 2), math.floor(via.at[1] / 2))
        if any(_near_pad(via, pad, net, far) for pad, net in self.near[cell]):
            return False
        if any(_near_track(via, track, far) for track in (*self.others.tracks, *self.copper.tracks)):
            return False
        if any(math.dist(via.at, hole.at) < hole.drill / 2 + 0.5 * math.sqrt(2) + via.pad / 2 for hole in outline.holes()):
            return False
        return all(math.dist(via.at, o.at) > 0.5 for o in (*self.others.vias, *self.copper.vias))

    def put(self, via: Via, more: float = 0.0) -> bool:
        """Add it if it fits."""
        if self.fits(via, more):
            self.copper.vias.append(via)
            return True
        return False


def _wanted(pads: list[tuple[Pad, str]]) -> Iterator[Via]:
    """Yield the vias of zones.toml, and of exposed pads on ground."""
    for entry in tomllib.loads(ZONES.read_text())["vias"]:
        for x0, y0, x1, y1, columns, rows in entry["at"]:
            for x in np.linspace(x0, x1, columns):
                for y in np.linspace(y0, y1, rows):
                    yield Via(entry["net"], (round(float(x), 3), round(float(y), 3)))
    drilled = {(pad.ref, pad.number) for pad, _ in pads if pad.drill and pad.layers}
    for pad, net in pads:
        if net == "GND" and min(pad.size) >= EXPOSED and pad.ref[0] == "U" and (pad.ref, pad.number) not in drilled:
            n, m = (int((side - 0.6) / PITCH) for side in pad.size)
            for i in range(n + 1):
                for j in range(m + 1):
                    yield Via(net, (round(pad.at[0] + (i - n / 2) * PITCH, 3), round(pad.at[1] + (j - m / 2) * PITCH, 3)))


def _returns(made: _Made) -> None:
    """A via of ground near every via of a pair: the nearest place, as far from the pair's own tracks as there is room for."""
    pairs = {net.name for net in made.design.nets.values() if net.netclass in ("PCIe", "LVDS")}
    around = [
        (r * math.cos(a), r * math.sin(a)) for r in np.arange(0.6, RETURN + 0.01, 0.1) for a in np.arange(0, 2 * math.pi, math.pi / 12)
    ]
    for via in [one for one in made.others.vias if one.net in pairs]:
        if any(v.net == "GND" and math.dist(v.at, via.at) <= RETURN for v in (*made.others.vias, *made.copper.vias)):
            continue
        places = [(round(via.at[0] + dx, 2), round(via.at[1] + dy, 2)) for dx, dy in around]
        for more in (0.15, 0.05, 0.0):
            if any(made.put(Via("GND", at), more) for at in places):
                break


def _fingers(made: _Made) -> None:
    """The edge's ground contacts on the upper side, which lie between pairs: straight down to In3."""
    for pad, net in made.pads:
        if net == "GND" and pad.ref == "J1" and "F.Cu" in pad.layers:
            at = (pad.at[0], FINGER)
            if made.put(Via(net, at)):
                made.copper.line(net, "F.Cu", [(pad.at[0], pad.at[1]), at], 0.2)


def _heavy(made: _Made) -> None:
    """Several vias beside a pad that carries much: on the side where most find room."""
    planes: dict[str, list[list[XY]]] = {}
    for zone in tomllib.loads(ZONES.read_text())["zone"]:
        if zone["layers"][0].startswith("In") and not isinstance(zone["at"], str):
            planes.setdefault(zone["net"], []).append([(float(x), float(y)) for x, y in zone["at"]])
    for pad, net in made.pads:
        if not pad.ref.startswith(HEAVY) or not any(_within(pad.at, corners) for corners in planes.get(net, [])):
            continue
        best: list[tuple[Via, XY]] = []
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            half, along = (pad.size[0] / 2, pad.size[1]) if dx else (pad.size[1] / 2, pad.size[0])
            count = max(HEAVY_VIAS, int(along / PITCH))
            found = []
            for k in range(count):
                shift = (k - (count - 1) / 2) * PITCH
                out, inner = half + 0.3, half - 0.2
                at = (round(pad.at[0] + dx * out + dy * shift, 3), round(pad.at[1] + dy * out + dx * shift, 3))
                limit = max(along / 2 - 0.2, 0.0)
                held = max(-limit, min(limit, shift))
                start = (round(pad.at[0] + dx * inner + dy * held, 3), round(pad.at[1] + dy * inner + dx * held, 3))
                around = [(at[0] + 0.3 * a, at[1] + 0.3 * b) for a in (-1, 1) for b in (-1, 1)]
                on_plane = any(all(_within(one, corners) for one in around) for corners in planes[net])
                if on_plane and made.fits(Via(net, at)):
                    found.append((Via(net, at), start))
            if len(found) > len(best):
                best = found
        for via, start in best[:6]:
            if made.put(via):
                layer = next(layer for layer in pad.layers)
                made.copper.line(net, layer, [start, via.at], HEAVY_WIDTH)


def _rim() -> Iterator[list[XY]]:
    """Places along the edge of the board beyond the tongue, each with others beside it."""
    corners = outline.polygon(EDGE_INSET)
    for (x0, y0), (x1, y1) in zip(corners, [*corners[1:], corners[0]]):
        far = math.dist((x0, y0), (x1, y1))
        ux, uy = (x1 - x0) / far, (y1 - y0) / far
        count = max(1, math.ceil(far / EDGE_PITCH))
        for k in range(count):
            at = (x0 + (x1 - x0) * k / count, y0 + (y1 - y0) * k / count)
            yield [
                (round(at[0] + along * ux - inwards * uy, 3), round(at[1] + along * uy + inwards * ux, 3))
                for inwards in (0.0, 0.6, 1.2)
                for along in (0.0, 0.6, -0.6, 1.2, -1.2, 1.8, -1.8)
                if outline.inside((at[0] + along * ux - inwards * uy, at[1] + along * uy + inwards * ux) * 2, 0.7)
            ]


def _within(at: XY, corners: list[XY]) -> bool:
    """Whether a place lies in a polygon."""
    inside = False
    for (x0, y0), (x1, y1) in zip(corners, [*corners[1:], corners[0]]):
        if (y0 > at[1]) != (y1 > at[1]) and at[0] < x0 + (at[1] - y0) / (y1 - y0) * (x1 - x0):
            inside = not inside
    return inside


def _near_pad(via: Via, pad: Pad, net: str, clearance: float) -> bool:
    dx = max(abs(via.at[0] - pad.at[0]) - pad.size[0] / 2, 0.0)
    dy = max(abs(via.at[1] - pad.at[1]) - pad.size[1] / 2, 0.0)
    far = math.hypot(dx, dy)
    if net == via.net:
        small = min(pad.size) < EXPOSED and not (pad.ref[0] == "U" and max(pad.size) > LONG)
        return (small and far < via.pad / 2 + 0.05) or bool(pad.drill and far < 0.3)
    return far < via.pad / 2 + clearance


def _near_track(via: Via, track: Track, clearance: float) -> bool:
    if track.net == via.net:
        return False
    (ax, ay), (bx, by), (px, py) = track.start, track.end, via.at
    reach = via.pad / 2 + track.width / 2 + clearance
    if not (min(ax, bx) - reach < px < max(ax, bx) + reach and min(ay, by) - reach < py < max(ay, by) + reach):
        return False
    dx, dy = bx - ax, by - ay
    t = min(1.0, max(0.0, ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy)))
    return math.hypot(px - ax - t * dx, py - ay - t * dy) < reach
