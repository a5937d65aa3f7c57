"""Ways along the tracks of a net: length and resistance from pad to pad."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from dataclasses import dataclass

from ..layout.frame import XY
from ..pcb import Pcb, PcbPad, PcbTrack
from .stackup import Stackup

__all__ = ["Routes", "Way"]

NEAR = 2e-3
"""Ends this near to each other are one, mm."""
PLATING = 0.018
"""mm of copper in a barrel."""

Node = tuple[str, int, int]


@dataclass(frozen=True)
class Way:
    """``millimetres`` of tracks; the ``vias`` that it passes have no length here."""

    millimetres: float
    ohm: float
    vias: int


def _key(layer: str, at: XY) -> Node:
    return layer, round(at[0] / NEAR), round(at[1] / NEAR)


def _on(track: PcbTrack, at: XY) -> bool:
    """Whether a point lies on a track's middle line, within its ends."""
    (ax, ay), (bx, by) = track.start, track.end
    far = track.length
    if not far:
        return False
    along = ((at[0] - ax) * (bx - ax) + (at[1] - ay) * (by - ay)) / far
    across = abs((at[0] - ax) * (by - ay) - (at[1] - ay) * (bx - ax)) / far
    return across <= NEAR and NEAR < along < far - NEAR


class Routes:
    """Graph of a net's tracks, vias, and pads that join their ends. Where a track ends on another, that one is cut. No planes."""

    def __init__(self, board: Pcb, net: str, stack: Stackup) -> None:
        tracks = [track for track in board.tracks if track.net == net]
        vias = [via for via in board.vias if via.net == net]
        ends = {(track.layer, point) for track in tracks for point in (track.start, track.end)}
        ends |= {(track.layer, via.at) for via in vias for track in tracks}
        self._edges: dict[Node, list[tuple[Node, float, float, bool]]] = defaultdict(list)
        self._places: dict[Node, XY] = {}
        for track in tracks:
            inner = sorted(
                (point for layer, point in ends if layer == track.layer and _on(track, point)), key=lambda p: math.dist(track.start, p)
            )
            points = [track.start, *inner, track.end]
            sheet = stack.conductivity * stack.layer(track.layer).thickness * track.width * 1e-3
            for a, b in zip(points[:-1], points[1:]):
                far = math.dist(a, b)
                self._join(_key(track.layer, a), a, _key(track.layer, b), b, far, far * 1e-3 / sheet, False)
        layers = [layer.name for layer in stack.layers if layer.kind == "copper"]
        for via in vias:
            for upper, lower in zip(layers[:-1], layers[1:]):
                length = abs(stack.layer(upper).top - stack.layer(lower).top)
                ohm = length / (stack.conductivity * math.pi * (via.drill - PLATING) * PLATING * 1e-6)
                self._join(_key(upper, via.at), via.at, _key(lower, via.at), via.at, 0.0, ohm, True)
        for pad in (pad for pad in board.pads if pad.net == net):
            middle, *others = [*self._within(pad), None]
            for node in others:
                if middle is not None and node is not None:  # two tracks that end in one pad are joined by it
                    a, b = self._places[middle], self._places[node]
                    self._join(middle, a, node, b, math.dist(a, b), 0.0, False)

    def _join(self, a: Node, at: XY, b: Node, bt: XY, far: float, ohm: float, down: bool) -> None:
        self._places[a], self._places[b] = at, bt
        self._edges[a].append((b, far, ohm, down))
        self._edges[b].append((a, far, ohm, down))

    def _within(self, pad: PcbPad) -> list[Node]:
        """Return the nodes with their place in a pad."""
        found = []
        for node, at in self._places.items():
            if node[0] in pad.layers and _inside(at, pad):
                found.append(node)
        return found

    def between(self, start: PcbPad, end: PcbPad) -> Way | None:
        """Return the shortest way; None without one. Distances within pads do not count."""
        goal = set(self._within(end))
        known: dict[Node, float] = dict.fromkeys(self._within(start), 0.0)
        before: dict[Node, tuple[Node, float, float, bool]] = {}
        queue = [(0.0, node) for node in known]
        done: set[Node] = set()
        while queue:
            far, node = heapq.heappop(queue)
            if node in goal:
                return self._back(node, before)
            if node in done:
                continue
            done.add(node)
            for other, more, ohm, down in self._edges[node]:
                if far + more < known.get(other, math.inf):
                    known[other], before[other] = far + more, (node, more, ohm, down)
                    heapq.heappush(queue, (far + more, other))
        return None

    def _back(self, node: Node, before: dict[Node, tuple[Node, float, float, bool]]) -> Way:
        total, ohm, drilled = 0.0, 0.0, set()
        while node in before:
            node, more, part, down = before[node]
            total, ohm = total + more, ohm + part
            if down:
                drilled.add(node[1:])
        return Way(total, ohm, len(drilled))


def _inside(at: XY, pad: PcbPad) -> bool:
    signs = []
    for (ax, ay), (bx, by) in zip(pad.corners, pad.corners[1:] + pad.corners[:1]):
        signs.append((bx - ax) * (at[1] - ay) - (by - ay) * (at[0] - ax))
    return all(s >= -1e-6 for s in signs) or all(s <= 1e-6 for s in signs)
