"""Places of all parts: fixed ones from placement.toml and the scripted copper, all others by rule.

A part of two pins goes as close as it can to the pads that it is joined with; a part for a pin (``at U1.5``) goes to that pin. Any other
part goes near the middle of its connections. Courtyards do not overlap. Everything lies on the board and in a region of its sheet. A part
without room is not placed, and counted.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..netlist import Design, Part
from . import coupled, outline, pairs
from .escape import ball_vias
from .frame import XY
from .land import Pad, Placed, library
from .pairs import scripted
from .placement import PATH, fixed, table
from .track import Track

__all__ = ["FOUND", "Layout", "found_text", "layout", "stored"]

FOUND = Path(__file__).with_name("places.tsv")
SPACE = 0.05
"""mm between courtyards."""
EDGE = 0.5
"""mm between a courtyard and the board's edge, for parts placed by rule."""
STEP = 0.25
NEAR = 14.0
"""mm from its pin at which the search for a place ends."""
Box = tuple[float, float, float, float]


def _overlap(a: Box, b: Box, space: float = SPACE) -> bool:
    return a[0] < b[2] + space and b[0] < a[2] + space and a[1] < b[3] + space and b[1] < a[3] + space


def _pieces(track: Track) -> Iterator[Box]:
    """Boxes around a track that keep parts off it; a slanted one in pieces of 1 mm."""
    (x0, y0), (x1, y1) = track.start, track.end
    count = math.ceil(math.dist(track.start, track.end)) if x0 != x1 and y0 != y1 else 1
    for n in range(count):
        ax, bx, ay, by = (a + (b - a) * k / count for a, b in ((x0, x1), (y0, y1)) for k in (n, n + 1))
        yield min(ax, bx) - 0.3, min(ay, by) - 0.3, max(ax, bx) + 0.3, max(ay, by) + 0.3


def _cells(box: Box, size: float = 4.0) -> Iterator[tuple[int, int]]:
    """Yield the squares of a coarse raster that a box with its distance touches, so that only near boxes are compared."""
    for i in range(math.floor((box[0] - SPACE) / size), math.floor((box[2] + SPACE) / size) + 1):
        for j in range(math.floor((box[1] - SPACE) / size), math.floor((box[3] + SPACE) / size) + 1):
            yield i, j


@dataclass
class Layout:
    """Parts at their places, and those without one with the reason."""

    placed: dict[str, Placed] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    """Those that a table or a script has placed."""

    def pads(self) -> Iterator[Pad]:
        """Every pad and hole."""
        for part in self.placed.values():
            yield from part.pads()


class _Placer:
    def __init__(self, design: Design, table: dict[str, Any]) -> None:
        self.design, self.table = design, table
        self.layout = Layout()
        self.boxes: dict[tuple[bool, int, int], list[Box]] = defaultdict(list)
        self.pads: dict[str, list[tuple[str, XY]]] = {}
        data = outline.load()
        start = data["socket"]["odd_row"] + data["socket"]["card_edge"]
        half = data["drive"]["half_width"]
        self.drive: Box = (-half, start, half, start + max(data["drive"]["lengths"]) + data["drive"]["keep_out"])
        for hole in outline.holes():
            r = hole.keep_out
            box = (hole.at[0] - r, hole.at[1] - r, hole.at[0] + r, hole.at[1] + r)
            for back in (False, True):
                self.block(back, box)
        self.block(False, self.drive)
        self.vias: list[tuple[str, XY]] = []

    def block(self, back: bool, box: Box) -> None:
        """Nothing else may lie here."""
        for cell in _cells(box):
            self.boxes[(back, *cell)].append(box)

    def put(self, part: Placed) -> None:
        """Take a place as given."""
        self.layout.placed[part.ref] = part
        box = part.courtyard()
        pads = list(part.pads())
        if box is not None:
            both = any(pad.drill for pad in pads)
            for back in (False, True):
                if both or back == part.back:
                    self.block(back, box)
        nets = self.design.parts[part.ref].pins
        for pad in pads:
            net = nets.get(pad.number, "")
            if net:
                self.pads.setdefault(net, []).append((part.ref, pad.at))

    def room(self, box: Box, back: bool, regions: Iterable[Box]) -> bool:
        """Whether a courtyard lies in a region and on the board, and nothing is in its way."""
        if not any(r[0] <= box[0] and r[1] <= box[1] and box[2] <= r[2] and box[3] <= r[3] for r in regions):
            return False
        if not outline.inside(box, EDGE):
            return False
        return not any(_overlap(box, other) for cell in _cells(box) for other in self.boxes.get((back, *cell), ()))

    def trials(self, part: Part, places: Iterable[XY], regions: dict[bool, list[Box]]) -> Iterator[Placed]:
        """Free places among those given, in every angle and on every side that the regions have."""
        ways = []
        for back in regions:
            for angle in (0.0, 90.0, 180.0, 270.0):
                box = Placed(part.ref, part.footprint, (0.0, 0.0), angle, back).courtyard()
                if box is not None:
                    ways.append((back, angle, box))
        for x, y in places:
            for back, angle, own in ways:
                if self.room((x + own[0], y + own[1], x + own[2], y + own[3]), back, regions[back]):
                    trial = Placed(part.ref, part.footprint, (x, y), angle, back)
                    if not back or self._clear_of_vias(trial):
                        yield trial

    def _clear_of_vias(self, part: Placed) -> bool:
        """Whether pads on the back keep 0.1 mm from the balls' vias (and do not lie on one of their own net)."""
        if not self.vias:
            return True
        nets = self.design.parts[part.ref].pins
        for pad in part.pads():
            net = nets.get(pad.number, "")
            for name, (x, y) in self.vias:
                dx = max(abs(x - pad.at[0]) - pad.size[0] / 2, 0.0)
                dy = max(abs(y - pad.at[1]) - pad.size[1] / 2, 0.0)
                if math.hypot(dx, dy) < (0.2 if net == name else 0.31):
                    return False
        return True

    def regions(self, part: Part) -> dict[bool, list[Box]]:
        """Return the regions for its sheet's parts, by side."""
        found: dict[bool, list[Box]] = {}
        for x0, y0, x1, y1, side in self.table["regions"].get(part.sheet, []):
            found.setdefault(side == "B", []).append((x0, y0, x1, y1))
        return found

    def targets(self, part: Part) -> list[tuple[str, XY]]:
        """(pin, place that it should be near); the pin it is for alone, where it is for one."""
        named = re.match(r"(at|near) ([A-Z]+\d+)(?:\.(\w+))?$", part.place)
        if named and named[2] in self.layout.placed:
            other = self.layout.placed[named[2]]
            if named[3]:
                net = self.design.parts[named[2]].pins.get(named[3], "")
                pin = next((n for n, on in part.pins.items() if on == net), "")
                return [(pin or next(iter(part.pins)), other.pad(named[3]).at)]
            joined = [(pin, at) for pin, net in part.pins.items() if net != "GND" for ref, at in self.pads.get(net, []) if ref == named[2]]
            return joined[:4] or [(next(iter(part.pins)), other.at)]
        found = []
        for pin, net in part.pins.items():
            on = self.pads.get(net, []) if net and net != "GND" and not net.startswith("+") else []
            if on and len(on) <= 12:
                found.append((pin, min((at for _, at in on), key=lambda at: (at[1], at[0]))) if len(on) == 1 else (pin, on[-1][1]))
        return found

    def around(self, middle: XY, reach: float) -> Iterator[XY]:
        """Places around one, the nearest first."""
        n = int(reach / STEP)
        grid = [(i * STEP, j * STEP) for i in range(-n, n + 1) for j in range(-n, n + 1) if math.hypot(i, j) <= n]
        grid.sort(key=lambda d: (round(d[0] ** 2 + d[1] ** 2, 6), d[1], d[0]))
        for dx, dy in grid:
            yield round(middle[0] + dx, 3), round(middle[1] + dy, 3)

    def auto(self, part: Part) -> bool:
        """Find a place; whether there was one."""
        targets = self.targets(part)
        regions = self.regions(part)
        boxes = [box for side in regions.values() for box in side]
        if not boxes:
            self.layout.missing[part.ref] = f"sheet {part.sheet} has no region in {PATH.name}"
            return False
        x0, y0, x1, y1 = boxes[0]
        middle = ((x0 + x1) / 2, (y0 + y1) / 2)
        if targets:
            middle = (sum(at[0] for _, at in targets) / len(targets), sum(at[1] for _, at in targets) / len(targets))
        # where the search begins: the nearest place within a region
        starts = [(min(max(middle[0], b[0]), b[2]), min(max(middle[1], b[1]), b[3])) for b in boxes]
        start = min(starts, key=lambda at: (math.dist(at, middle), at))
        best: tuple[float, Placed] | None = None
        seen = 0
        for reach in (NEAR, max(math.hypot(b[2] - b[0], b[3] - b[1]) for b in boxes) + 40.0):
            for trial in self.trials(part, self.around(start, reach), regions):
                away = math.dist(trial.at, start)
                if best is not None and away > math.dist(best[1].at, start) + 3.0:
                    break
                cost = self.cost(trial, targets, middle)
                if best is None or cost < best[0] - 1e-9:
                    best = (cost, trial)
                seen += 1
                if seen > 80:
                    break
            if best is not None:
                break
        if best is None:
            self.layout.missing[part.ref] = "no room"
            return False
        self.put(best[1])
        return True

    def cost(self, trial: Placed, targets: list[tuple[str, XY]], middle: XY) -> float:
        """Return the mean distance from its pads to their targets; without targets, its distance from `middle`."""
        if not targets:
            return math.dist(trial.at, middle)
        pads = {pad.number: pad.at for pad in trial.pads()}
        return sum(math.dist(pads[pin], at) for pin, at in targets if pin in pads) / len(targets)


def stored() -> dict[str, Placed]:
    """Places that were found by rule earlier: a part stays where it is when others come."""
    if not FOUND.is_file():
        return {}
    lines = (line.split("\t") for line in FOUND.read_text().splitlines()[1:])
    return {ref: Placed(ref, footprint, (float(x), float(y)), float(angle), side == "B") for ref, footprint, x, y, angle, side in lines}


def found_text(lay: Layout) -> str:
    """The file of those places."""
    rows = ["ref\tfootprint\tx\ty\tangle\tside"]
    for ref, at in sorted(lay.placed.items()):
        if ref not in lay.given:
            rows.append(f"{ref}\t{at.footprint}\t{at.at[0]:g}\t{at.at[1]:g}\t{at.angle:g}\t{'B' if at.back else 'F'}")
    return "\n".join(rows) + "\n"


def layout(design: Design) -> Layout:
    """All parts of a design at their places."""
    data = table()
    placer = _Placer(design, data)
    there = {ref: part for ref, part in design.parts.items() if library(part.footprint) is not None}
    placer.layout.missing |= {ref: f"no footprint {part.footprint}" for ref, part in design.parts.items() if ref not in there}
    kept = {ref: at for ref, at in stored().items() if ref in there and at.footprint == there[ref].footprint}
    given = kept | scripted(design) | {ref: replace(at, footprint=there[ref].footprint) for ref, at in fixed().items() if ref in there}
    placer.layout.given = (fixed().keys() | scripted(design).keys()) & there.keys()
    for ref, at in sorted(given.items()):
        if ref in there:
            placer.put(at)
    if "U200" in placer.layout.placed:
        drawn = [track for track in pairs.copper(design, placer.layout.placed).tracks if track.layer == "B.Cu"]
        for track in [*drawn, *coupled.copper(design, placer.layout.placed).tracks]:
            for box in _pieces(track):
                placer.block(track.layer == "B.Cu", box)
        placer.vias = [(via.net, via.at) for via in ball_vias(design, placer.layout.placed["U200"])]
    rest = [part for ref, part in there.items() if ref not in given]
    large = [part for part in rest if len(part.pins) > 2 or part.ref[0] in "UYJQF"]
    large.sort(key=lambda part: (-len(part.pins), part.ref))
    for part in large:
        placer.auto(part)
    small = [part for part in rest if part not in large]

    def order(part: Part) -> tuple[int, float, str]:
        rank = 0 if part.place.startswith("at ") and "." in part.place else 1 if part.place else 2
        return rank, -len(part.pins), part.ref

    small.sort(key=order)
    waiting = small
    while waiting:
        later = [part for part in waiting if not part.place and not placer.targets(part)]
        now = [part for part in waiting if part not in later]
        if not now:
            now, later = later, []
        for part in now:
            placer.auto(part)
        waiting = later
    return placer.layout
