"""The content of the board, read back from KiCad's file: pads, tracks, vias, zones.

Units are mm; x right of the tongue's middle, y from its end inwards. Nothing here knows how the file was made: the checks of geometry see
the board that a fab would get.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .layout.frame import COPPER, ORIGIN, XY
from .netlist import DesignError
from .schematic.sexpr import Node, children, first, parse

__all__ = ["COPPER", "Pcb", "PcbPad", "PcbTrack", "PcbVia", "Zone", "read"]


@dataclass(frozen=True)
class PcbPad:
    """``corners``: of the rectangle around it, turned as it is."""

    ref: str
    number: str
    net: str
    layers: tuple[str, ...]
    at: XY
    size: XY
    corners: tuple[XY, ...]
    drill: float


@dataclass(frozen=True)
class PcbTrack:
    net: str
    layer: str
    start: XY
    end: XY
    width: float

    @property
    def length(self) -> float:
        return math.dist(self.start, self.end)


@dataclass(frozen=True)
class PcbVia:
    """Via through all layers."""

    net: str
    at: XY
    size: float
    drill: float


@dataclass(frozen=True)
class Zone:
    """A zone on one layer. ``net`` is empty for a zone that keeps copper away. ``filled``: KiCad's fill, if the file has one."""

    net: str
    layer: str
    outline: tuple[XY, ...]
    priority: int
    clearance: float
    solid: bool
    """Pads are joined without thermal reliefs."""
    gap: float
    bridge: float
    filled: tuple[tuple[XY, ...], ...]


@dataclass
class Pcb:
    pads: list[PcbPad] = field(default_factory=list)
    tracks: list[PcbTrack] = field(default_factory=list)
    vias: list[PcbVia] = field(default_factory=list)
    zones: list[Zone] = field(default_factory=list)
    parts: dict[str, tuple[XY, str]] = field(default_factory=dict)
    """Place and side of each part."""

    def pad(self, ref: str, number: str) -> PcbPad:
        """Raises DesignError where there is none."""
        for one in self.pads:
            if (one.ref, one.number) == (ref, number):
                return one
        raise DesignError(f"the board has no pad {ref}.{number}")

    def pads_on(self, ref: str, net: str) -> list[PcbPad]:
        """Return the pads of a part that are on a net."""
        return [pad for pad in self.pads if pad.ref == ref and pad.net == net and pad.layers]


def read(source: Path | str) -> Pcb:
    """Read a board's file, or its text. Raises ``ValueError`` for any other."""
    node = parse(source.read_text() if isinstance(source, Path) else source)
    names = {str(net[1]): _plain(str(net[2])) for net in children(node, "net")}
    board = Pcb()
    for footprint in children(node, "footprint"):
        ref = next((str(p[2]) for p in children(footprint, "property") if p[1] == "Reference"), "")
        x, y, angle = _place(footprint)
        board.parts[ref] = (_own((x, y)), str((first(footprint, "layer") or ["", ""])[1])[:1])
        board.pads += [_pad(pad, ref, (x, y), angle) for pad in children(footprint, "pad")]
    for item in children(node, "segment"):
        start, end, width, layer, net = (first(item, name) for name in ("start", "end", "width", "layer", "net"))
        assert start and end and width and layer and net
        board.tracks.append(PcbTrack(names[str(net[1])], str(layer[1]), _xy(start), _xy(end), _f(width[1])))
    for item in children(node, "via"):
        at, size, drill, net = (first(item, name) for name in ("at", "size", "drill", "net"))
        assert at and size and drill and net
        board.vias.append(PcbVia(names[str(net[1])], _xy(at), _f(size[1]), _f(drill[1])))
    for item in children(node, "zone"):
        board.zones += _zones(item)
    return board


def _plain(name: str) -> str:
    """A net's name without the sheet that it is local to."""
    return name.rsplit("/", 1)[-1]


def _f(value: Node) -> float:
    return float(str(value))


def _own(at: XY) -> XY:
    return round(at[0] - ORIGIN[0], 4), round(ORIGIN[1] - at[1], 4)


def _xy(node: list[Node]) -> XY:
    return _own((_f(node[1]), _f(node[2])))


def _place(node: list[Node]) -> tuple[float, float, float]:
    at = first(node, "at")
    assert at is not None
    return _f(at[1]), _f(at[2]), _f(at[3]) if len(at) > 3 else 0.0


def _turned(x: float, y: float, angle: float) -> XY:
    """Turn counterclockwise as seen on KiCad's page, where y goes down."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return x * c + y * s, -x * s + y * c


def _pad(node: list[Node], ref: str, origin: XY, angle: float) -> PcbPad:
    x, y, own = _place(node)
    dx, dy = _turned(x, y, angle)
    at = origin[0] + dx, origin[1] + dy
    size, layers, net, drill = (first(node, name) for name in ("size", "layers", "net", "drill"))
    assert size is not None and layers is not None
    width, height = _f(size[1]), _f(size[2])
    box = [(-width / 2, -height / 2), (width / 2, -height / 2), (width / 2, height / 2), (-width / 2, height / 2)]
    if str(node[3]) == "custom":
        points = list(_points(node))
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        box = [(min(xs), min(ys)), (max(xs), min(ys)), (max(xs), max(ys)), (min(xs), max(ys))] if points else box
    corners = []
    for bx, by in box:
        ex, ey = _turned(bx, by, own)  # a pad's angle in the file has its footprint's in it
        corners.append(_own((at[0] + ex, at[1] + ey)))
    on = [str(layer) for layer in layers[1:]]
    copper = COPPER if "*.Cu" in on else tuple(layer for layer in COPPER if layer in on)
    if str(node[2]) == "np_thru_hole":
        copper = ()
    bore = next((_f(value) for value in (drill or [])[1:] if str(value).replace(".", "").isdigit()), 0.0)
    return PcbPad(ref, str(node[1]), _plain(str(net[2])) if net else "", copper, _own(at), (width, height), tuple(corners), bore)


def _points(node: Node) -> Iterator[XY]:
    if isinstance(node, list):
        if node and node[0] == "xy":
            yield _f(node[1]), _f(node[2])
        for child in node:
            yield from _points(child)


def _polygon(node: list[Node] | None) -> tuple[XY, ...]:
    return tuple(_own(point) for point in _points(node)) if node is not None else ()


def _zones(node: list[Node]) -> Iterator[Zone]:
    keepout = first(node, "keepout")
    if keepout is not None and str((first(keepout, "copperpour") or ["", "allowed"])[1]) == "allowed":
        return
    name, priority, pads, fill = (first(node, key) for key in ("net_name", "priority", "connect_pads", "fill"))
    clearance = first(pads, "clearance") if pads else None
    gap, bridge = (first(fill, key) if fill else None for key in ("thermal_gap", "thermal_bridge_width"))
    one = first(node, "layer") or first(node, "layers")
    assert one is not None
    for layer in one[1:]:
        filled = tuple(
            _polygon(part) for part in children(node, "filled_polygon") if str((first(part, "layer") or ["", ""])[1]) == str(layer)
        )
        yield Zone(
            "" if keepout is not None else _plain(str(name[1]) if name else ""),
            str(layer),
            _polygon(first(node, "polygon")),
            int(str(priority[1])) if priority else 0,
            _f(clearance[1]) if clearance else 0.0,
            bool(pads and "yes" in [str(word) for word in pads[1:] if isinstance(word, str)]),
            _f(gap[1]) if gap else 0.0,
            _f(bridge[1]) if bridge else 0.0,
            filled,
        )
