"""``python -m board.layout.route``: finds ways for every net that no script draws, and keeps them in routes.tsv.

A pad of a net with a plane gets a via within it; other nets become trees. A net without a free way may cross others' tracks at a price;
those are taken up and routed again. The result is data, because it takes minutes and because a found way should stay. A net's lines count
only as long as its pads do not move (``kept``).
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import math
import random
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..design import design
from ..netlist import Design
from ..schematic.symbols import CHECKOUT
from . import outline
from .board import placed, scripted_copper
from .escape import VIA
from .frame import XY
from .land import Pad, Placed
from .routes import FOUND, kept, signature
from .track import Copper, Track, Via

SOURCE = Path(__file__).with_name("router.c")
ZONES = Path(__file__).with_name("zones.toml")
STEP = 0.1
CLEARANCE = 0.105
"""Clearance between found copper: 0.1 mm, and the approach of a diagonal's steps to a point of the grid."""
CLEARANCE_FIXED = 0.117
"""Clearance to copper beside the grid: sqrt((0.06 + 0.117)^2 - 0.071^2) is 0.1 mm and the half width in the middle of a diagonal."""
WAY_MOST = 3.0
"""How much longer than the straight one a way may be before others are asked to go (and 30 mm)."""
LAYERS = ("F.Cu", "In2.Cu", "In5.Cu", "B.Cu")
"""Those that tracks may use; the others are planes."""
NARROW, WIDE = 0.12, 0.2
VIA_COST = 150
TRIES = 8
"""How often a net may push others aside."""
SEARCH_TRIES = 3
SEARCH_S = 20.0
"""How long one trial of the search may take."""
PLANE_REACH = 600
"""Longest way from a pad to its plane, in tenths of a step: 6 mm."""
RESERVED_MOST = 2.0
"""mm of a track in other nets' areas with which it is still taken over."""
MARGIN = (45.0, 1.0)
"""The grid's origin is at -x, -y of this."""
SIZE = (860, 1490)


@dataclass(eq=False)
class _Net:
    name: str
    number: int
    wide: bool
    plane: np.ndarray | None
    pads: list[Pad] = field(default_factory=list)
    done: Copper = field(default_factory=Copper)
    """Drawn by script."""
    groups: list[list[int]] = field(default_factory=list)
    """Nodes of each piece that pads and scripted copper are."""
    pieces: dict[int, Copper] = field(default_factory=dict)
    """Copper found: for a net with a plane by the piece that it joins to the plane, for others all under 0."""
    open: int = 0
    on_plane: set[int] = field(default_factory=set)
    """Pieces that reach the plane as they are."""

    @property
    def found(self) -> Copper:
        """All of it."""
        made = Copper()
        for piece in self.pieces.values():
            made.add(piece)
        return made


class _Router:
    """The C part, with places in mm."""

    def __init__(self) -> None:
        library = CHECKOUT / "build" / "board" / "router.so"
        library.parent.mkdir(parents=True, exist_ok=True)
        if not library.is_file() or library.stat().st_mtime < SOURCE.stat().st_mtime:
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-lm"], check=True)
        self.c = ctypes.CDLL(str(library))
        self.c.router_copper.argtypes = [ctypes.c_int, ctypes.c_int, *[ctypes.c_double] * 8, ctypes.c_int]
        self.c.router_init.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_double]
        if self.c.router_init(*SIZE, STEP):
            raise MemoryError("the router's grid")
        self.cells = SIZE[0] * SIZE[1]
        self.path = np.zeros(200000, dtype=np.int32)

    def window(self, box: tuple[float, float, float, float] | None) -> None:
        """Paint and clear only within a box from now on; None: everywhere."""
        if box is None:
            self.c.router_window(0, 0, *SIZE)
        else:
            i0, j0, i1, j1 = (round((v + MARGIN[k % 2]) / STEP) for k, v in enumerate(box))
            self.c.router_window(i0 - 8, j0 - 8, i1 + 8, j1 + 8)

    def fits(self, net: _Net, copper: Copper) -> bool:
        """Whether found copper is clear of all that stays."""
        checks = [(2, _copper_nodes(self, Copper([], copper.vias)))]
        for wide in (False, True):
            checks.append((int(wide), _copper_nodes(self, Copper([t for t in copper.tracks if (t.width > NARROW) == wide], []))))
        for kind, nodes in checks:
            data = np.array(nodes, dtype=np.int32)
            if len(data) and not self.c.router_fits(net.number, kind, data.ctypes.data_as(ctypes.c_void_p), len(data)):
                return False
            if kind < 2 and len(data):
                inside = self.c.router_in_reserved(net.number, data.ctypes.data_as(ctypes.c_void_p), len(data))
                if inside * STEP > RESERVED_MOST:
                    return False
        return True

    def reserve(self, layer: str, mask: np.ndarray, net: int) -> None:
        """An area of a net's copper, that others' tracks go around where they can."""
        data = np.ascontiguousarray(mask, dtype=np.uint8)
        self.c.router_reserve(LAYERS.index(layer), data.ctypes.data_as(ctypes.c_void_p), net)

    def copper(self, fixed: bool, layers: int, a: XY, b: XY, half: XY, bow: float, clearance: float, net: int) -> None:
        """Copper on layers (bits), as the C part has it."""
        (x0, y0), (x1, y1) = ((x + MARGIN[0], y + MARGIN[1]) for x, y in (a, b))
        self.c.router_copper(int(fixed), layers, x0, y0, x1, y1, *half, bow, clearance, net)

    def no_via(self, fixed: bool, at: XY, half: XY, reach: float) -> None:
        """No via of anybody's as near as this to a box."""
        place = (ctypes.c_double(at[0] + MARGIN[0]), ctypes.c_double(at[1] + MARGIN[1]))
        self.c.router_no_via(int(fixed), *place, ctypes.c_double(half[0]), ctypes.c_double(half[1]), ctypes.c_double(reach))

    def node(self, at: XY, layer: int) -> int:
        """The node nearest to a place."""
        i, j = round((at[0] + MARGIN[0]) / STEP), round((at[1] + MARGIN[1]) / STEP)
        return layer * self.cells + j * SIZE[0] + i

    def place(self, node: int) -> tuple[int, XY]:
        """Layer and place of a node."""
        layer, cell = divmod(node, self.cells)
        j, i = divmod(cell, SIZE[0])
        return layer, (round(i * STEP - MARGIN[0], 4), round(j * STEP - MARGIN[1], 4))

    def places(self, nodes: list[int]) -> np.ndarray:
        """The same of many: a row of layer, x and y each."""
        layers, cells = np.divmod(np.array(nodes), self.cells)
        j, i = np.divmod(cells, SIZE[0])
        return np.column_stack((layers, i * STEP - MARGIN[0], j * STEP - MARGIN[1]))

    def route(
        self, net: _Net, starts: Iterable[int], ends: Iterable[int], plane: np.ndarray | None, rip: int, most: int, wide: bool | None = None
    ) -> list[int]:
        """A way, from its start; empty if there is none."""
        s, e = np.array(sorted(set(starts)), dtype=np.int32), np.array(sorted(set(ends)), dtype=np.int32)
        mask = plane.ctypes.data_as(ctypes.c_void_p) if plane is not None else None
        length = self.c.router_route(
            net.number,
            int(net.wide if wide is None else wide),
            s.ctypes.data_as(ctypes.c_void_p),
            len(s),
            e.ctypes.data_as(ctypes.c_void_p),
            len(e),
            mask,
            15,
            VIA_COST,
            rip,
            most,
            self.path.ctypes.data_as(ctypes.c_void_p),
            len(self.path),
        )
        return [int(n) for n in self.path[:length][::-1]]

    def crossed(self, net: _Net, path: list[int]) -> None:
        """Raise the price of the cells where a way crosses others' tracks."""
        nodes = np.array(path, dtype=np.int32)
        self.c.router_crossed(net.number, int(net.wide), nodes.ctypes.data_as(ctypes.c_void_p), len(nodes))


def _bits(layers: Iterable[str]) -> int:
    return sum(1 << n for n, name in enumerate(LAYERS) if name in layers)


def _inside(corners: list[XY]) -> np.ndarray:
    """Cells inside a polygon, as bytes."""
    x = np.arange(SIZE[0]) * STEP - MARGIN[0]
    y = (np.arange(SIZE[1]) * STEP - MARGIN[1])[:, None]
    inside = np.zeros((SIZE[1], SIZE[0]), dtype=bool)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1]):
        if y0 == y1:
            continue
        inside ^= ((y0 <= y) != (y1 <= y)) & (x < x0 + (y - y0) / (y1 - y0) * (x1 - x0))
    return inside


def _planes() -> tuple[dict[str, np.ndarray], dict[str, list[tuple[str, np.ndarray]]]]:
    """Return, by net, the plane on an inner layer, and the areas on outer layers except for the pour of ground."""
    inner: dict[str, np.ndarray] = {}
    outer: dict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)
    zones = tomllib.loads(ZONES.read_text())["zone"]
    for zone in zones:
        whole = isinstance(zone["at"], str)
        mask = _inside([(float(x), float(y)) for x, y in (outline.polygon(0.6) if whole else zone["at"])])
        for layer in zone["layers"]:
            if layer in ("F.Cu", "B.Cu"):
                if not whole:
                    outer[zone["net"]].append((layer, mask))
            elif not whole or layer in ("In1.Cu", "In3.Cu", "In6.Cu"):
                higher = [z for z in zones if layer in z["layers"] and z.get("priority", 0) > zone.get("priority", 0)]
                own = mask.copy()
                for other in higher if not whole else []:
                    own &= ~_inside([(float(x), float(y)) for x, y in other["at"]])
                inner[zone["net"]] = inner.get(zone["net"], np.zeros_like(mask)) | own
    return inner, outer


def _all_nets(ours: Design, placed: dict[str, Placed], drawn: Copper, inner: dict[str, np.ndarray]) -> dict[str, _Net]:
    nets = {}
    wide = {net.name for net in ours.nets.values() if net.name[0] in "+-" or net.netclass == "Power"}
    for number, name in enumerate(sorted(ours.nets), 1):
        plane = inner.get(name)
        data = np.ascontiguousarray(plane, dtype=np.uint8) if plane is not None else None
        nets[name] = _Net(name, number, name in wide and name != "GND", data)
    for ref, part in placed.items():
        pins = ours.parts[ref].pins
        for pad in part.pads():
            if pins.get(pad.number):
                nets[pins[pad.number]].pads.append(pad)
    for track in drawn.tracks:
        nets[track.net].done.tracks.append(track)
    for via in drawn.vias:
        nets[via.net].done.vias.append(via)
    return nets


def _fixed(router: _Router, ours: Design, placed: dict[str, Placed], nets: dict[str, _Net], drawn: Copper) -> None:
    """Everything that stays: pads, holes, scripted copper, the board's edge."""
    nobody = itertools.count(100000)
    pairs = {net.name for net in ours.nets.values() if net.netclass in ("PCIe", "LVDS", "USB")}
    for ref, part in placed.items():
        pins = ours.parts[ref].pins
        for pad in part.pads():
            net = pins.get(pad.number, "")
            number = nets[net].number if net else next(nobody)
            every = bool(pad.drill) or not pad.layers
            half = (0.0, 0.0) if pad.round else (pad.size[0] / 2, pad.size[1] / 2)
            bow = pad.size[0] / 2 if pad.round else 0.0
            router.copper(
                True, 15 if every else _bits(pad.layers), pad.at, pad.at, half, bow, CLEARANCE_FIXED if pad.layers else 0.2, number
            )
            if min(pad.size) < 1.2 or every:  # no via in a small pad
                router.no_via(True, pad.at, half, bow + 0.25)
    for track in drawn.tracks:
        clearance = 0.25 if track.net in pairs and track.layer == "F.Cu" else CLEARANCE_FIXED
        router.copper(True, _bits([track.layer]), track.start, track.end, (0.0, 0.0), track.width / 2, clearance, nets[track.net].number)
    for via in drawn.vias:
        router.copper(True, 15, via.at, via.at, (0.0, 0.0), via.pad / 2, CLEARANCE_FIXED, nets[via.net].number)
        router.no_via(True, via.at, (0.0, 0.0), 0.42)
    for hole in outline.holes():
        square = hole.drill / 2 + 0.5  # the area without copper is one
        router.copper(True, 15, hole.at, hole.at, (square, square), 0.0, 0.05, next(nobody))
    board = ~_inside(outline.polygon(0.45, True))
    data = np.ascontiguousarray(board, dtype=np.uint8)
    router.c.router_outside(data.ctypes.data_as(ctypes.c_void_p))


def _nodes(router: _Router, pad: Pad) -> list[int]:
    """Nodes that lie on a pad's copper."""
    layers = range(4) if pad.drill else [n for n, name in enumerate(LAYERS) if name in pad.layers]
    w, h = max(pad.size[0] / 2 - 0.04, 0.0), max(pad.size[1] / 2 - 0.04, 0.0)
    nodes = []
    for i in range(math.ceil((pad.at[0] - w) / STEP - 1e-6), math.floor((pad.at[0] + w) / STEP + 1e-6) + 1):
        for j in range(math.ceil((pad.at[1] - h) / STEP - 1e-6), math.floor((pad.at[1] + h) / STEP + 1e-6) + 1):
            at = (i * STEP, j * STEP)
            # corners may be rounded, by a quarter of the shorter side
            radius = min(w, h) if pad.round else min(w, h) / 2
            dx, dy = (max(abs(at[k] - pad.at[k]) - side + radius, 0.0) for k, side in enumerate((w, h)))
            if math.hypot(dx, dy) <= radius + 1e-6:
                nodes += [router.node(at, layer) for layer in layers]
    return nodes or [router.node(pad.at, layer) for layer in layers]


def _copper_nodes(router: _Router, copper: Copper) -> list[int]:
    """Nodes at the ends of tracks and at vias."""
    nodes = []
    for track in copper.tracks:
        if track.layer in LAYERS:
            count = max(1, round(math.dist(track.start, track.end) / STEP))
            for n in range(count + 1):
                at = tuple(a + (b - a) * n / count for a, b in zip(track.start, track.end))
                nodes.append(router.node((at[0], at[1]), LAYERS.index(track.layer)))
    for via in copper.vias:
        nodes += [router.node(via.at, layer) for layer in range(4)]
    return nodes


def _draw(router: _Router, net: _Net, path: list[int], end_via: bool, width: float | None = None) -> Copper:
    """Tracks and vias of a way; ``width``: not the net's own."""
    made = Copper()
    width = width or (WIDE if net.wide else NARROW)
    points = [router.place(node) for node in path]
    start = 0
    for n in range(1, len(points) + 1):
        last = n == len(points)
        if not last and points[n][0] == points[start][0]:
            if n - start >= 2:
                (ax, ay), (bx, by), (cx, cy) = points[n - 2][1], points[n - 1][1], points[n][1]
                if abs((bx - ax) - (cx - bx)) > 1e-6 or abs((by - ay) - (cy - by)) > 1e-6:
                    made.tracks.append(Track(net.name, LAYERS[points[start][0]], points[start][1], points[n - 1][1], width))
                    start = n - 1
            continue
        if points[start][1] != points[n - 1][1]:
            made.tracks.append(Track(net.name, LAYERS[points[start][0]], points[start][1], points[n - 1][1], width))
        if not last:
            made.vias.append(Via(net.name, points[n][1], *VIA))
            start = n
    if end_via:
        made.vias.append(Via(net.name, points[-1][1], *VIA))
    return made


def _show(router: _Router, net: _Net, copper: Copper) -> None:
    for track in copper.tracks:
        router.copper(False, _bits([track.layer]), track.start, track.end, (0.0, 0.0), track.width / 2, CLEARANCE, net.number)
    for via in copper.vias:
        router.copper(False, 15, via.at, via.at, (0.0, 0.0), via.pad / 2, CLEARANCE, net.number)
        router.no_via(False, via.at, (0.0, 0.0), 0.42)


def _groups(router: _Router, net: _Net) -> list[list[int]]:
    """Pieces of a net that scripted copper has joined already: nodes of each."""
    pieces = [set(_nodes(router, pad)) for pad in net.pads]
    drawn = _copper_nodes(router, net.done)
    if not drawn:
        return [sorted(piece) for piece in pieces]
    # scripted copper of a net: tracks that touch are one piece; two pieces that come near a pad are joined by it
    items: list[set[int]] = [set(_copper_nodes(router, Copper([track], []))) for track in net.done.tracks]
    items += [set(_copper_nodes(router, Copper([], [via]))) for via in net.done.vias]
    pieces += items
    merged: list[set[int]] = []
    wide = [piece | {n + d for n in piece for d in (1, -1, SIZE[0], -SIZE[0])} for piece in pieces]
    left = list(range(len(pieces)))
    while left:
        group, queue = set(pieces[left[0]]), [left.pop(0)]
        while queue:
            here = queue.pop()
            near = [k for k in left if not wide[here].isdisjoint(pieces[k])]
            for k in near:
                left.remove(k)
                group |= pieces[k]
                queue.append(k)
        merged.append(group)
    return [sorted(group) for group in merged]


def _route_net(router: _Router, nets: dict[str, _Net], net: _Net, rip: int) -> list[list[int]]:
    """Draw the missing connections of a net; return the ways found (for their crossings). ``net.open``: connections without a way."""
    net.open = 0
    ways = []
    if net.plane is not None:
        missing = _missing(router, net)
        loose = [net.pieces.pop(n) for n in missing if n in net.pieces]  # joined to copper that was taken up
        if loose:
            _again(router, nets, _box(loose))
        for n in missing:
            group = net.groups[n]
            joined = [node for m, other in enumerate(net.groups) if m not in missing or m in net.pieces for node in other]
            way = router.route(net, group, joined, net.plane, rip, PLANE_REACH + 4 * rip)
            if not way and net.name != "GND":  # it may lie far from where its plane is
                way = router.route(net, group, joined, net.plane, rip, 2_000_000) or router.route(net, group, joined, None, rip, 2_000_000)
            thin = not way and net.wide
            if thin:  # between balls, say
                way = router.route(net, group, joined, net.plane, rip, PLANE_REACH + 4 * rip, wide=False)
            if not way:
                net.open += 1
                continue
            net.pieces[n] = _draw(router, net, way, way[-1] not in set(joined), NARROW if thin else None)
            _show(router, net, net.pieces[n])
            ways.append(way)
        return ways
    if not net.groups:
        return ways
    net.pieces = {0: Copper()}
    tree = set(net.groups[0])
    rest = [set(group) for group in net.groups[1:]]
    while rest:
        ends = list(itertools.chain.from_iterable(rest))
        way = router.route(net, tree, ends, None, rip, 2_000_000 if rip else _most(router, tree, ends))
        if not way:
            net.open += len(rest)
            break
        drawn = _draw(router, net, way, False)
        net.pieces[0].add(drawn)
        _show(router, net, drawn)
        ways.append(way)
        hit = next(group for group in rest if way[-1] in group)
        rest.remove(hit)
        tree |= hit | set(way) | set(_copper_nodes(router, drawn))
    return ways


def _missing(router: _Router, net: _Net) -> list[int]:
    """Return the groups of a net with a plane that do not reach it, neither by themselves nor through found copper."""
    assert net.plane is not None
    items = [set(group) for group in net.groups]
    sure = set(net.on_plane)
    for piece in net.pieces.values():
        vias = _copper_nodes(router, Copper([], piece.vias))
        if any(net.plane.flat[node % router.cells] for node in vias):
            sure.add(len(items))
        items.append(set(_copper_nodes(router, piece)))
    owners: dict[int, list[int]] = defaultdict(list)
    for n, item in enumerate(items):
        for node in item:
            owners[node].append(n)
    queue = list(sure)
    while queue:
        near = {n for node in items[queue.pop()] for n in owners[node]} - sure
        sure |= near
        queue += near
    return [n for n in range(len(net.groups)) if n not in sure]


def _on_plane(router: _Router, net: _Net, group: list[int], outer: dict[str, list[tuple[str, np.ndarray]]]) -> bool:
    """Whether a piece of a net already has a via, or lies in an area of its own on its layer."""
    cells = {node % router.cells for node in group}
    layers = {node // router.cells for node in group}
    assert net.plane is not None
    if len(layers) == 4 and any(net.plane.flat[cell] for cell in cells):
        return True
    for name, mask in outer.get(net.name, []):
        layer = LAYERS.index(name)
        if any(node // router.cells == layer and mask.flat[node % router.cells] for node in group):
            return True
    return False


def run(minutes: float, seed: int = 1, log: bool = True) -> tuple[dict[str, _Net], int]:
    """Route everything; nets and the number of connections that are left."""
    ours, places, drawn = design(), placed().placed, scripted_copper()
    router = _Router()
    inner, outer = _planes()
    nets = _all_nets(ours, places, drawn, inner)
    _fixed(router, ours, places, nets, drawn)
    for name, areas in outer.items():
        for layer, mask in areas:
            router.reserve(layer, mask, nets[name].number)
    for zone in tomllib.loads(ZONES.read_text())["zone"]:
        if zone.get("reserved"):
            mask = _inside([(float(x), float(y)) for x, y in zone["at"]])
            for layer in set(zone["layers"]) & set(LAYERS):
                router.reserve(layer, mask, nets[zone["net"]].number)

    def spread(net: _Net) -> float:
        xs, ys = [pad.at[0] for pad in net.pads], [pad.at[1] for pad in net.pads]
        return max(xs) - min(xs) + max(ys) - min(ys) if xs else 0.0

    planes = [net for net in nets.values() if net.plane is not None]
    signals = sorted((net for net in nets.values() if net.plane is None and len(net.pads) > 1), key=lambda n: (spread(n), n.name))
    for net in nets.values():
        net.groups = _groups(router, net)
        if net.plane is not None:
            net.on_plane = {n for n, group in enumerate(net.groups) if _on_plane(router, net, group, outer)}
    whole = _warm(router, nets, kept(ours, None))
    queue = [net for net in (*planes, *signals) if net.name not in whole]
    end = time.monotonic() + 60 * minutes
    _settle(router, nets, queue, end, TRIES, log)
    _search(router, nets, end, seed, log)
    for net in nets.values():
        _prune(router, net)
    return nets, sum(net.open for net in nets.values())


def _settle(router: _Router, nets: dict[str, _Net], queue: list[_Net], end: float, most: int, log: bool) -> None:
    """Route the nets in the queue, and those displaced by them. A net may push others aside ``most`` times."""
    tries: dict[str, int] = defaultdict(int)
    while queue and time.monotonic() < end:
        net = queue.pop(0)
        tries[net.name] += 1
        _route_net(router, nets, net, 0)
        if net.open and tries[net.name] <= most:
            # try the open connections once more, across others
            if net.plane is None:
                box = _box([net.found])
                net.pieces = {}
                _again(router, nets, box)
            ways = _route_net(router, nets, net, 40 + 40 * tries[net.name])
            for way in ways:
                router.crossed(net, way)  # makes it dearer to come back
            gone, drawn = [], [_Way(router, way) for way in ways]
            for other in nets.values():
                near = [n for n, piece in other.pieces.items() if other is not net and _touched(drawn, piece)]
                if near:
                    gone += [other.pieces.pop(n) for n in near]
                    if other not in queue:
                        queue.append(other)
            _again(router, nets, _box(gone))
        if log:
            print(f"{net.name}: {len(queue)} to do, {sum(n.open for n in nets.values())} open", file=sys.stderr, flush=True)
    for net in queue:
        _route_net(router, nets, net, 0)


def _touched(ways: list[_Way], piece: Copper) -> bool:
    own = _box([piece]) if ways else None
    return any(way.touches(piece, own) for way in ways)


def _search(router: _Router, nets: dict[str, _Net], end: float, seed: int, log: bool) -> None:
    """Route open nets and some nets near by in another order while a connection is open; keep a result that is no worse."""
    dice = random.Random(seed)
    least = sum(net.open for net in nets.values())
    while least and time.monotonic() < end:
        before = {name: (dict(net.pieces), net.open) for name, net in nets.items()}
        begun = dice.choice([net for net in nets.values() if net.open])
        spots = [pad.at for pad in begun.pads]
        spot, reach = dice.choice(spots), dice.choice((2.0, 4.0, 8.0))
        around = (spot[0] - reach, spot[1] - reach, spot[0] + reach, spot[1] + reach)
        near = [net for net in nets.values() if net is not begun and net.plane is None and _crosses(net.found, around)]
        near = dice.sample(near, min(len(near), dice.randrange(12)))
        queue = [begun, *(net for net in nets.values() if net.open and net is not begun), *near]
        gone = []
        for net in queue:
            if net.plane is None:
                gone += list(net.pieces.values())
                net.pieces = {}
        _again(router, nets, _box(gone))
        _settle(router, nets, queue, min(end, time.monotonic() + SEARCH_S), SEARCH_TRIES, False)
        now = sum(net.open for net in nets.values())
        if log:
            print(f"search: {begun.name} and {len(near)} near it: {now} open, before {least}", file=sys.stderr, flush=True)
        if now <= least:
            least = now
            continue
        for name, (pieces, count) in before.items():
            nets[name].pieces, nets[name].open = pieces, count
        _again(router, nets, EVERYWHERE)


def _crosses(copper: Copper, box: Box) -> bool:
    """Whether any track or via lies in or near a box."""
    tracks = [(*map(min, t.start, t.end), *map(max, t.start, t.end)) for t in copper.tracks]
    return any(not _apart(box, (x0, y0, x1, y1), 0.0) for x0, y0, x1, y1 in [*tracks, *((*v.at, *v.at) for v in copper.vias)])


class _Way:
    """A way's places, to compare with found copper."""

    def __init__(self, router: _Router, way: list[int]) -> None:
        self.points = router.places(way)
        self.vias = self.points[np.flatnonzero(np.diff(self.points[:, 0])) + 1, 1:]
        (x0, y0), (x1, y1) = self.points[:, 1:].min(axis=0), self.points[:, 1:].max(axis=0)
        self.box: Box = (float(x0), float(y0), float(x1), float(y1))

    def touches(self, piece: Copper, own: Box | None) -> bool:
        """Whether found copper, within the box ``own``, lies nearer than it may."""
        if own is None or _apart(own, self.box, 1.0):
            return False
        for track in piece.tracks:
            (x0, y0), (x1, y1) = track.start, track.end
            if _apart((min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)), self.box, 1.0):
                continue
            layer = LAYERS.index(track.layer)
            on = self.points[self.points[:, 0] == layer, 1:]
            if len(on) and _far(track, on) < track.width / 2 + 0.1 + CLEARANCE - 1e-6:
                return True
            if len(self.vias) and _far(track, self.vias) < track.width / 2 + VIA[0] / 2 + CLEARANCE - 1e-6:
                return True
        for via in piece.vias:
            far = np.hypot(self.points[:, 1] - via.at[0], self.points[:, 2] - via.at[1])
            if far.min() < via.pad / 2 + 0.1 + CLEARANCE - 1e-6:
                return True
            if len(self.vias) and np.hypot(*(self.vias - via.at).T).min() < 0.51:
                return True
        return False


def _far(track: Track, points: np.ndarray) -> float:
    """Least distance of points from a track's middle line."""
    a, b = np.array(track.start), np.array(track.end)
    along = b - a
    length2 = float(along @ along)
    t = np.clip((points - a) @ along / length2, 0.0, 1.0) if length2 else np.zeros(len(points))
    return float(np.hypot(*(points - a - t[:, None] * along).T).min())


Box = tuple[float, float, float, float]
EVERYWHERE: Box = (-100.0, -100.0, 200.0, 300.0)


def _box(pieces: Iterable[Copper]) -> Box | None:
    """Around copper; None where there is none."""
    points = [
        at for piece in pieces for at in (*(t.start for t in piece.tracks), *(t.end for t in piece.tracks), *(v.at for v in piece.vias))
    ]
    if not points:
        return None
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return min(xs), min(ys), max(xs), max(ys)


def _apart(a: Box, b: Box, far: float) -> bool:
    return a[0] > b[2] + far or b[0] > a[2] + far or a[1] > b[3] + far or b[1] > a[3] + far


def _again(router: _Router, nets: dict[str, _Net], box: Box | None) -> None:
    """Show the router anew the found copper in and near a box."""
    if box is None:
        return
    router.window(box)
    router.c.router_clear_found()
    for net in nets.values():
        for piece in net.pieces.values():
            own = _box([piece])
            if own is not None and not _apart(own, box, 3.0):
                _show(router, net, piece)
    router.window(None)


def _most(router: _Router, starts: Iterable[int], ends: Iterable[int]) -> int:
    """Longest way that is looked at before others' tracks are asked to go."""
    boxes = []
    for nodes in (starts, ends):
        cells = np.array(list(nodes)) % router.cells
        boxes.append((cells % SIZE[0], cells // SIZE[0]))
    far = sum(max(int(boxes[1][k].min() - boxes[0][k].max()), int(boxes[0][k].min() - boxes[1][k].max()), 0) for k in (0, 1))
    return int(10 * (WAY_MOST * far + 30.0 / STEP))


def _warm(router: _Router, nets: dict[str, _Net], found: Copper) -> set[str]:
    """Take in earlier results that are still right; return the names of the nets that lack nothing."""
    whole = set()
    for name, net in nets.items():
        own = Copper([t for t in found.tracks if t.net == name], [v for v in found.vias if v.net == name])
        pieces = _connected(router, own)
        groups = [set(group) for group in net.groups]
        if net.plane is not None:
            for nodes, piece in pieces:
                hit = [n for n, group in enumerate(groups) if n not in net.on_plane and not group.isdisjoint(nodes)]
                if hit and hit[0] not in net.pieces and router.fits(net, piece):
                    net.pieces[hit[0]] = piece
            if not _missing(router, net):
                whole.add(name)
        else:
            joined = set(groups[0]) if groups else set()
            left, more = [*groups[1:], *(nodes for nodes, _ in pieces)], True
            while more:
                near = [nodes for nodes in left if not joined.isdisjoint(nodes)]
                left = [nodes for nodes in left if joined.isdisjoint(nodes)]
                joined.update(*near)
                more = bool(near)
            if not left and router.fits(net, own):
                net.pieces = {0: own}
                whole.add(name)
        for piece in net.pieces.values():
            _show(router, net, piece)
    return whole


def _connected(router: _Router, copper: Copper) -> list[tuple[set[int], Copper]]:
    """Pieces of one net's copper that hang together, with their nodes."""
    items: list[tuple[set[int], Copper]] = [(set(_copper_nodes(router, Copper([t], []))), Copper([t], [])) for t in copper.tracks]
    items += [(set(_copper_nodes(router, Copper([], [v]))), Copper([], [v])) for v in copper.vias]
    made: list[tuple[set[int], Copper]] = []
    for nodes, item in items:
        near = [one for one in made if not one[0].isdisjoint(nodes)]
        made = [one for one in made if one[0].isdisjoint(nodes)]
        for one in near:
            nodes |= one[0]
            item.add(one[1])
        made.append((nodes, item))
    return made


def _prune(router: _Router, net: _Net) -> None:
    """Take away found tracks that end in nothing and vias that join nothing, the rest of ways that were given up.

    Ground is left out, since it has copper on every layer.
    """
    if net.name == "GND":
        return
    fixed = {node for group in net.groups for node in group}
    while True:
        items: list[tuple[Copper, Track | Via, set[int]]] = []
        for piece in net.pieces.values():
            items += [(piece, t, set(_copper_nodes(router, Copper([t], [])))) for t in piece.tracks]
            items += [(piece, v, set(_copper_nodes(router, Copper([], [v])))) for v in piece.vias]
        count: dict[int, int] = defaultdict(int)
        for _, _, nodes in items:
            for node in nodes:
                count[node] += 1
        loose: list[tuple[Copper, Track | Via]] = []
        for piece, item, nodes in items:
            touched = {node for node in nodes if node in fixed or count[node] > 1}
            if isinstance(item, Track):
                ends = [router.node(at, LAYERS.index(item.layer)) for at in (item.start, item.end)]
                if any(end not in touched for end in ends):
                    loose.append((piece, item))
            elif len({node // router.cells for node in touched}) + (net.plane is not None) < 2:
                loose.append((piece, item))
        if not loose:
            return
        for piece, item in loose:
            if isinstance(item, Track):
                piece.tracks.remove(item)
            else:
                piece.vias.remove(item)


def text(nets: dict[str, _Net], ours: Design, placed: dict[str, Placed]) -> str:
    """The file."""
    rows = ["net\tlayer or via\tx0\ty0\tx1\ty1\twidth"]
    for name, net in sorted(nets.items()):
        if not net.found.tracks and not net.found.vias:
            continue
        rows.append(f"{name}\tpads\t{signature(ours, placed, name)}")
        rows += [f"{name}\t{t.layer}\t{t.start[0]:g}\t{t.start[1]:g}\t{t.end[0]:g}\t{t.end[1]:g}\t{t.width:g}" for t in net.found.tracks]
        rows += [f"{name}\tvia\t{v.at[0]:g}\t{v.at[1]:g}" for v in net.found.vias]
    return "\n".join(rows) + "\n"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="board.layout.route", description="Find ways for the nets that no script draws.")
    parser.add_argument("--minutes", type=float, default=20.0, help="stop then and keep what there is")
    parser.add_argument("--seed", type=int, default=1, help="of the search for what is open after the first round")
    options = parser.parse_args()
    nets, left = run(options.minutes, options.seed)
    FOUND.write_text(text(nets, design(), placed().placed))
    print(f"{left} connections left open: {', '.join(f'{n.name} {n.open}' for n in nets.values() if n.open)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
