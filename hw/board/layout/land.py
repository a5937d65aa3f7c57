"""A part's footprint: read from its library, turned, put on a side, and asked for its pads and its courtyard."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ..checks.footprints import footprint_path
from ..schematic.sexpr import Node, Word, children, first, parse
from .frame import XY, kicad_xy, uid

__all__ = ["Pad", "Placed", "library"]

_SMALL = re.compile(r"[RCL]_0(201|402|603)_")
"""Parts without room for their reference on the silkscreen: it is in the assembly drawing alone."""
_POINTS = {"start", "end", "mid", "center", "at", "xy"}


@cache
def library(name: str) -> list[Node] | None:
    """The ``(footprint ...)`` of ``Library:Name``; None where there is none."""
    path = footprint_path(name)
    return parse(path.read_text()) if path.is_file() else None


@dataclass(frozen=True)
class _Own:
    """A pad in its footprint's own coordinates, y down."""

    number: str
    at: XY
    size: XY
    angle: float
    layers: tuple[str, ...]
    drill: float
    round: bool


@cache
def _pads(name: str) -> tuple[_Own, ...]:
    node = library(name)
    assert node is not None
    found = []
    for pad in children(node, "pad"):
        at, size, layers, drill = first(pad, "at"), first(pad, "size"), first(pad, "layers"), first(pad, "drill")
        assert at is not None and size is not None and layers is not None
        copper = tuple(str(layer) for layer in layers[1:] if str(layer).endswith(".Cu"))
        plated = str(pad[2]) != "np_thru_hole"
        if plated and not copper:
            continue
        x, y, width, height = (_float(value) for value in (*at[1:3], *size[1:3]))
        if str(pad[3]) == "custom":  # the box around anchor and drawing
            xs, ys = [-width / 2, width / 2], [-height / 2, height / 2]
            for point in _walk(pad, "xy"):
                xs.append(_float(point[1]))
                ys.append(_float(point[2]))
            x, y = x + (min(xs) + max(xs)) / 2, y + (min(ys) + max(ys)) / 2
            width, height = max(xs) - min(xs), max(ys) - min(ys)
        bore = max((_float(value) for value in (drill or [])[1:] if re.fullmatch(r"[\d.]+", str(value))), default=0.0)
        angle = _float(at[3]) if len(at) > 3 else 0.0
        found.append(_Own(str(pad[1]), (x, y), (width, height), angle, copper if plated else (), bore, str(pad[3]) == "circle"))
    return tuple(found)


@cache
def _courtyard(name: str) -> tuple[float, float, float, float] | None:
    node = library(name)
    assert node is not None
    points: list[XY] = []
    for kind in ("fp_line", "fp_rect", "fp_poly", "fp_arc", "fp_circle"):
        for item in children(node, kind):
            layer = first(item, "layer")
            if layer is None or str(layer[1]) != "F.CrtYd":
                continue
            found = [(_float(p[1]), _float(p[2])) for end in ("start", "mid", "end", "center") for p in children(item, end)]
            found += [(_float(p[1]), _float(p[2])) for p in _walk(item, "xy")]
            if kind == "fp_circle":
                (ex, ey), (cx, cy) = found[0], found[-1]
                r = math.hypot(ex - cx, ey - cy)
                found = [(cx - r, cy - r), (cx + r, cy + r)]
            points += found
    if not points:
        return None
    return min(p[0] for p in points), min(p[1] for p in points), max(p[0] for p in points), max(p[1] for p in points)


def _float(node: Node) -> float:
    return float(str(node))


@dataclass(frozen=True)
class Pad:
    """A pad as it lies on the board."""

    ref: str
    number: str
    at: XY
    size: XY
    """Width and height of the box around it, along the board's axes, mm."""
    layers: tuple[str, ...]
    """Copper layers."""
    drill: float
    round: bool


@dataclass(frozen=True)
class Placed:
    """A footprint at a place. ``angle``: degrees counterclockwise seen from above, as KiCad shows it, of either side."""

    ref: str
    footprint: str
    at: XY
    angle: float = 0.0
    back: bool = False

    def point(self, x: float, y: float) -> XY:
        """A point of the footprint (its own mm, y down) on the board."""
        if self.back:
            y = -y
        turn = math.radians(self.angle)
        dx = x * math.cos(turn) + y * math.sin(turn)
        dy = -x * math.sin(turn) + y * math.cos(turn)
        return (round(self.at[0] + dx, 4), round(self.at[1] - dy, 4))

    def layer(self, name: str) -> str:
        """A footprint's layer on the side that the part is on."""
        if self.back and name[:2] in ("F.", "B."):
            return ("B." if name[0] == "F" else "F.") + name[2:]
        return name

    def pads(self) -> Iterator[Pad]:
        """Pads with copper, and holes (no layers)."""
        for own in _pads(self.footprint):
            width, height = own.size
            if round(self.angle + own.angle) % 180 == 90:
                width, height = height, width
            layers = tuple(self.layer(name) for name in own.layers)
            yield Pad(self.ref, own.number, self.point(*own.at), (width, height), layers, own.drill, own.round)

    def pad(self, number: str) -> Pad:
        """The pad of a number; of several the first. Raises KeyError."""
        for pad in self.pads():
            if pad.number == number:
                return pad
        raise KeyError(f"{self.ref} ({self.footprint}) has no pad {number}")

    def courtyard(self) -> tuple[float, float, float, float] | None:
        """x0, y0, x1, y1 of its courtyard on the board; None where it has none."""
        own = _courtyard(self.footprint)
        if own is None:
            return None
        points = [self.point(x, y) for x in (own[0], own[2]) for y in (own[1], own[3])]
        return min(p[0] for p in points), min(p[1] for p in points), max(p[0] for p in points), max(p[1] for p in points)

    def node(self, nets: dict[str, list[Node]], fields: dict[str, str], extra: list[list[Node]], attributes: tuple[str, ...]) -> list[Node]:
        """Node ``(footprint ...)`` of the board's file.

        ``nets``: ``(net number name)`` of each pad; ``fields``: reference, value and further properties; ``extra``: path and sheet;
        ``attributes``: added to the footprint's own.
        """
        source = library(self.footprint)
        assert source is not None
        made: list[Node] = [Word("footprint"), self.footprint, [Word("layer"), self.layer("F.Cu")], uid("footprint", self.ref)]
        made.append([Word("at"), *kicad_xy(self.at), float(self.angle)])
        placed: set[str] = set()
        attr: list[Node] = [Word("attr"), Word("smd")]
        body: list[list[Node]] = []
        for child in source[2:]:
            if not isinstance(child, list):
                continue
            kind = str(child[0])
            if kind in ("descr", "tags"):
                made.append(child)
            elif kind == "attr":
                attr = child
            elif kind == "property":
                key = str(child[1])
                if key in placed or key not in fields:
                    continue
                placed.add(key)
                item = self._moved(child, f"property/{key}")
                item[2] = fields[key]
                if key == "Reference" and _SMALL.search(self.footprint):
                    item.insert(-1, [Word("hide"), Word("yes")])
                body.append(item)
            elif kind.startswith("fp_") or kind == "pad":
                item = self._moved(child, f"{kind}/{len(body)}")
                if kind == "pad" and str(child[1]) in nets:
                    item.append(nets[str(child[1])])
                body.append(item)
            elif kind == "model":
                body.append(child)
        for key, value in fields.items():
            if key not in placed:
                hidden: list[Node] = [Word("property"), key, value, [Word("at"), 0, 0, 0.0], [Word("layer"), self.layer("F.Fab")]]
                font: list[Node] = [Word("font"), [Word("size"), 1.0, 1.0], [Word("thickness"), 0.15]]
                body.append([*hidden, [Word("hide"), Word("yes")], uid(self.ref, "property", key), [Word("effects"), font]])
        known = [str(word) for word in attr[1:] if word != "exclude_from_bom"]  # that is the schematic's to say
        attr = [Word("attr"), *(Word(a) for a in known), *(Word(a) for a in attributes if a not in known)]
        return [*made, *extra, attr, *body]

    def _moved(self, item: list[Node], name: str) -> list[Node]:
        """A child with the side's layers and coordinates, turned where KiCad wants absolute angles, with a fixed identifier."""
        made = copy.deepcopy(item)
        made[:] = [child for child in made if not (isinstance(child, list) and child and child[0] in ("uuid", "tstamp"))]
        if self.back:
            self._mirror(made)
        at = first(made, "at")
        if at is not None and str(item[0]) in ("pad", "property", "fp_text"):
            own = _float(at[3]) if len(at) > 3 else 0.0
            angle = (self.angle - own if self.back else self.angle + own) % 360
            at[3:] = [float(angle)]
        made.append(uid(self.ref, name))
        return made

    def _mirror(self, node: list[Node]) -> None:
        for child in node:
            if not isinstance(child, list) or not child:
                continue
            head = str(child[0])
            if head in _POINTS and len(child) >= 3:
                child[2] = -_float(child[2])
            elif head in ("layer", "layers"):
                child[1:] = [self.layer(str(name)) if not isinstance(name, list) else name for name in child[1:]]
                child[1:] = [str(name) for name in child[1:]]
            elif head == "chamfer":
                child[1:] = [Word(str(n).replace("top", "@").replace("bottom", "top").replace("@", "bottom")) for n in child[1:]]
            elif head == "effects":
                justify = first(child, "justify")
                if justify is None:
                    child.append([Word("justify"), Word("mirror")])
                elif Word("mirror") not in justify:
                    justify.append(Word("mirror"))
            else:
                self._mirror(child)


def _walk(node: list[Node], name: str) -> Iterator[list[Node]]:
    """Every list of that name at any depth."""
    for child in node:
        if isinstance(child, list) and child:
            if child[0] == name:
                yield child
            else:
                yield from _walk(child, name)
