"""A sheet of the schematic as Python: parts at places, wires within a circuit, labels between circuits.

Places are in steps of 2.54 mm from the top left corner of the page, y downwards. Halves are the finest, since KiCad's grid is 1.27 mm.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..netlist import DesignError, Part
from .symbols import Pin, Symbol, symbol

__all__ = ["STEP_MM", "Box", "Flag", "Label", "PlacedUnit", "Point", "Sheet", "Text", "Wire", "is_power"]

STEP_MM = 2.54
Point: TypeAlias = tuple[float, float]


def is_power(net: str) -> bool:
    """Whether a net is drawn as a power symbol, not as a label."""
    return net == "GND" or net[:1] in "+-"


@dataclass(frozen=True)
class PlacedUnit:
    """One unit of a part on the page."""

    part: Part
    symbol: Symbol
    at: Point
    rotation: int = 0
    mirror: str = ""
    unit: int = 1
    value_at: Point | None = None
    """Place of its reference (the value one line below), relative to ``at``; None: the symbol's own."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """More fields, such as KiCad's ``Sim.*``."""

    def end(self, pin: Pin) -> Point:
        """Return the end of a pin on the page."""
        x, y = self._turned(pin.x, pin.y)
        return (self.at[0] + x / STEP_MM, self.at[1] + y / STEP_MM)

    def outward(self, pin: Pin) -> tuple[int, int]:
        """The way from the body out along a pin: (1, 0) is to the right, (0, 1) down."""
        dx, dy = {0: (-1, 0), 90: (0, -1), 180: (1, 0), 270: (0, 1)}[pin.angle]
        x, y = self._turned(dx, dy)
        return (round(x), round(y))

    def _turned(self, x: float, y: float) -> tuple[float, float]:
        for _ in range(self.rotation // 90):
            x, y = -y, x
        y = -y
        if self.mirror == "x":
            y = -y
        elif self.mirror == "y":
            x = -x
        return x, y

    def pins(self) -> Iterator[Pin]:
        """The pins of this unit. KiCad draws common pins (unit 0) with every unit; here they count with the first."""
        for pin in self.symbol.pins:
            if pin.unit == self.unit or (pin.unit == 0 and self.unit == 1):
                yield pin


@dataclass(frozen=True)
class Wire:
    """A straight piece between two points."""

    start: Point
    end: Point


@dataclass(frozen=True)
class Label:
    """A net's name at a point of a wire; text runs to ``away``."""

    net: str
    at: Point
    away: tuple[int, int]


@dataclass(frozen=True)
class Flag:
    """Makes KiCad's check accept that a net is fed from outside its knowledge (PWR_FLAG)."""

    net: str
    at: Point


@dataclass(frozen=True)
class Text:
    """A note on the page."""

    text: str
    at: Point
    size_mm: float = 1.27


@dataclass(frozen=True)
class Box:
    """A dashed frame around what belongs together, with a title."""

    title: str
    corner: Point
    opposite: Point


class Sheet:
    """One page. ``number`` is its place in the set; parts get the sheet's name."""

    def __init__(self, name: str, title: str, number: int, paper: str = "A3", comments: Sequence[str] = ()) -> None:
        self.name, self.title, self.number, self.paper, self.comments = name, title, number, paper, tuple(comments)
        self.places: list[PlacedUnit] = []
        self.wires: list[Wire] = []
        self.labels: list[Label] = []
        self.flags: list[Flag] = []
        self.texts: list[Text] = []
        self.boxes: list[Box] = []
        self.netclasses: dict[str, str] = {}
        self._wired: set[tuple[str, str]] = set()

    def part(
        self,
        ref: str,
        lib_id: str,
        at: Point,
        pins: Mapping[str, str],
        *,
        value: str,
        footprint: str,
        bom: str,
        rotation: int = 0,
        mirror: str = "",
        unit: int = 1,
        builds: str = "TP",
        note: str = "",
        place: str = "",
        value_at: Point | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> PlacedUnit:
        """Put a part (its first unit drawn) on the page. ``pins``: net of every pin of the whole part by number, "" for none.

        A pin gets a short wire with the net's label or power symbol at its end, or a no-connect cross. A pin with a wire (`wire`) gets
        neither. Raises DesignError for a pin that is left out or unknown.
        """
        drawn = symbol(lib_id)
        numbers = {pin.number for pin in drawn.pins}
        if numbers != set(pins):
            missing, unknown = sorted(numbers - set(pins)), sorted(set(pins) - numbers)
            raise DesignError(f"{ref} ({lib_id}): pins without a net {missing}, pins that the symbol has not {unknown}")
        if mirror and rotation % 180:
            raise DesignError(f"{ref}: a symbol is turned by 90 degrees or mirrored, not both")
        made = Part(ref, lib_id, footprint, value, bom, self.name, dict(pins), builds, note, place)
        placed = PlacedUnit(made, drawn, at, rotation % 360, mirror, unit, value_at, dict(fields or {}))
        self.places.append(placed)
        return placed

    def unit(
        self, of: str | PlacedUnit, unit: int, at: Point, *, rotation: int = 0, mirror: str = "", value_at: Point | None = None
    ) -> PlacedUnit:
        """Put another unit of a part on the page.

        The part is on this page, by reference, or on another sheet, by its place there.
        """
        base = self._first(of) if isinstance(of, str) else of
        placed = PlacedUnit(base.part, base.symbol, at, rotation % 360, mirror, unit, value_at, base.fields)
        self.places.append(placed)
        return placed

    def pin(self, name: str) -> Point:
        """Return the end of a pin, by ``R1.2``. A number that several pins share has one place."""
        _, pin, place = self._pin(name)
        return place.end(pin)

    def wire(self, *points: str | Point) -> None:
        """A wire through pins (``R1.2``) and points; between two that are on no common line it goes along x first, then y."""
        ends: list[Point] = []
        for point in points:
            if isinstance(point, str):
                ref, pin, place = self._pin(point)
                self._wired.add((ref, pin.number))
                point = place.end(pin)
            if ends and ends[-1][0] != point[0] and ends[-1][1] != point[1]:
                ends.append((point[0], ends[-1][1]))
            ends.append(point)
        self.wires.extend(Wire(a, b) for a, b in zip(ends, ends[1:], strict=False) if a != b)

    def label(self, net: str, at: str | Point, away: tuple[int, int] = (1, 0)) -> None:
        """Name the wire at a point, with a label or a power symbol."""
        self.labels.append(Label(net, self.pin(at) if isinstance(at, str) else at, away))

    def rail(self, net: str, pins: Sequence[str], length: float = 1.0) -> None:
        """Join pins that look the same way by a line across their short wires, with one label or power symbol at its first end.

        Raises DesignError where they do not stand on one line.
        """
        ends: list[Point] = []
        for name in pins:
            _, pin, place = self._pin(name)
            (x, y), (dx, dy) = place.end(pin), place.outward(pin)
            away = (dx, dy)
            ends.append((x + dx * length, y + dy * length))
            self.wire(name, ends[-1])
        if len({x for x, _ in ends}) > 1 and len({y for _, y in ends}) > 1:
            raise DesignError(f"sheet {self.name}: {', '.join(pins)} do not stand on one line")
        ends.sort()
        for a, b in itertools.pairwise(ends):  # in pieces: KiCad joins where ends meet
            if a != b:
                self.wires.append(Wire(a, b))
        self.labels.append(Label(net, ends[0], away))

    def flag(self, net: str, at: Point) -> None:
        """A PWR_FLAG with the net's power symbol or label, where a net is fed by something that KiCad does not take for a source."""
        self.flags.append(Flag(net, at))

    def text(self, text: str, at: Point, size_mm: float = 1.27) -> None:
        """A note, its upper left corner at a point."""
        self.texts.append(Text(text, at, size_mm))

    def box(self, title: str, corner: Point, opposite: Point) -> None:
        """A frame with a title."""
        self.boxes.append(Box(title, corner, opposite))

    def netclass(self, name: str, nets: Iterable[str]) -> None:
        """Give nets a class."""
        self.netclasses |= dict.fromkeys(nets, name)

    def stubs(self) -> Iterator[tuple[PlacedUnit, Pin, str]]:
        """Pins that no wire reaches: (place, pin, net). One for pins at one point (a symbol's stacked ones)."""
        seen = {place.end(pin) for place in self.places for pin in place.pins() if (place.part.ref, pin.number) in self._wired}
        for place in self.places:
            for pin in place.pins():
                if place.end(pin) in seen:
                    continue
                seen.add(place.end(pin))
                yield place, pin, place.part.pins[pin.number]

    def parts(self) -> list[Part]:
        """Return every part of the sheet once; a part with units elsewhere counts on its first unit's sheet."""
        return list({place.part.ref: place.part for place in self.places if place.part.sheet == self.name}.values())

    def nets(self) -> set[str]:
        """Names of all nets on the page."""
        return {net for place in self.places for pin in place.pins() if (net := place.part.pins[pin.number])}

    def _first(self, ref: str) -> PlacedUnit:
        for place in self.places:
            if place.part.ref == ref:
                return place
        raise DesignError(f"{ref} is not on sheet {self.name}")

    def _pin(self, name: str) -> tuple[str, Pin, PlacedUnit]:
        ref, _, number = name.partition(".")
        for place in self.places:
            if place.part.ref == ref:
                for pin in place.pins():
                    if pin.number == number:
                        return ref, pin, place
        self._first(ref)
        raise DesignError(f"{ref} has no pin {number} in the units that are on sheet {self.name}")
