"""The power tree, out of the netlist: source, input, voltage and loads of each rail.

``power.toml`` has the data that a netlist lacks: currents, limits, references. Voltages of negative rails are magnitudes here.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .netlist import Design, DesignError, Part
from .schematic.symbols import symbol
from .values import number

__all__ = [
    "NO_LIMIT_V",
    "RailSupply",
    "SupplyLoad",
    "ToleranceRange",
    "Tree",
    "between",
    "divided",
    "inverted",
    "load",
    "pins_named",
    "supply_pins",
    "tolerance",
]

NO_LIMIT_V = 99.0
"""Limit in V of a rail without a limiting load."""
PASSING = ("fuse", "switch", "bead", "diode")
"""Kinds that pass their input on, less a drop."""
LED_V = 1.9
"""Forward voltage of a green light at 1 to 3 mA, from memory."""


@dataclass(frozen=True)
class ToleranceRange:
    """Least, nominal and largest."""

    low: float
    nominal: float
    high: float


def divided(reference: float, tolerance_: float, top: tuple[float, float], bottom: tuple[float, float]) -> ToleranceRange:
    """Return the voltage at the top of a divider with its middle held at a reference. Resistors are (ohm, tolerance).

    V = Vref (1 + top / bottom), SLVSDV6C equation 4.
    """

    def at(error: float) -> float:
        return reference * (1 + error * tolerance_) * (1 + top[0] * (1 + error * top[1]) / (bottom[0] * (1 - error * bottom[1])))

    return ToleranceRange(at(-1), at(0), at(1))


def inverted(reference: float, tolerance_: float, output: tuple[float, float], from_reference: tuple[float, float]) -> ToleranceRange:
    """Return the magnitude of a negative output with a divider to the reference, and the middle held at 0 V.

    |V| = Vref R(output) / R(reference), SLVS493B equation 2.
    """

    def at(error: float) -> float:
        ratio = output[0] * (1 + error * output[1]) / (from_reference[0] * (1 - error * from_reference[1]))
        return reference * (1 + error * tolerance_) * ratio

    return ToleranceRange(at(-1), at(0), at(1))


def tolerance(part: Part) -> float:
    """Return the tolerance of a resistor: 1 %, or 0.1 % for thin film."""
    return 0.001 if part.bom.endswith("-thin") else 0.01


def load() -> dict[str, Any]:
    """``power.toml``."""
    return tomllib.loads((Path(__file__).parent / "power.toml").read_text())


def pins_named(part: Part, name: str) -> list[str]:
    """Nets of the pins of a name; without those that are not connected."""
    return [net for pin in symbol(part.symbol).pins if pin.name == name and (net := part.pins[pin.number])] or [
        net for number, net in part.pins.items() if number == name and net
    ]


def supply_pins(part: Part) -> Iterator[tuple[str, str]]:
    """(name, net) of the pins of a circuit that KiCad's symbol calls power, but ground."""
    for pin in symbol(part.symbol).pins:
        net = part.pins[pin.number]
        if net not in ("", "GND") and pin.kind in ("power_in", "power_out"):
            yield pin.name, net


def between(ours: Design, kind: str, one: str, other: str) -> list[Part]:
    """Return the parts of ``Device:kind`` with their two ends on two nets."""
    on = {ref for ref, _ in ours.nets[one].pins} if one in ours.nets else set()
    return [part for ref in sorted(on) if (part := ours.parts[ref]).symbol == f"Device:{kind}" and set(part.pins.values()) == {one, other}]


@dataclass(frozen=True)
class RailSupply:
    """The source that makes a rail out of another net."""

    part: Part
    spec: dict[str, Any]
    kind: str
    input: str
    output: str
    feedback: str = ""

    def figure(self, name: str, otherwise: float = 0.0) -> float:
        """Return a figure of the table."""
        return float(self.spec[name]["value"]) if name in self.spec else otherwise


@dataclass(frozen=True)
class SupplyLoad:
    """One supply of one circuit."""

    part: Part
    pins: str
    net: str
    typical: float
    most: float
    low: float = 0.0
    high: float = NO_LIMIT_V


@dataclass
class Tree:
    """Rails, links and loads of a design. Raises DesignError where a regulator's circuit is not whole."""

    ours: Design
    table: dict[str, Any]
    links: dict[str, RailSupply] = field(init=False)
    """Links by the net that they make."""
    loads: dict[str, list[SupplyLoad]] = field(init=False)
    unknown: list[str] = field(init=False)
    """Circuits that the table has no figures for."""
    _low: dict[str, float] = field(init=False)
    """Least voltages found so far."""

    def __post_init__(self) -> None:
        self.links = {}
        for part in self.ours.parts.values():
            for link in self._links(part):
                if link.output in self.links:
                    raise DesignError(f"{link.output} is made by {self.links[link.output].part.ref} and by {part.ref}")
                self.links[link.output] = link
        self.loads, self.unknown = defaultdict(list), []
        self._low = {}
        # lights last: their current depends on the rail's voltage, and so a little on all other currents
        for part in sorted(self.ours.parts.values(), key=lambda one: one.symbol == "Device:LED"):
            for found in list(self._loads(part)):
                self.loads[found.net].append(found)
        for _ in range(6):  # drops hang on currents, those on voltages: it settles in three
            self._low |= {net: self.voltage(net).low for net in self.links}

    @property
    def usb_input(self) -> str:
        return str(self.table["usb"]["input"])

    def figure(self, *keys: str) -> float:
        """A figure of the table."""
        node: Any = self.table
        for key in keys:
            node = node[key]
        return float(node["value"])

    def _other_end(self, kind: str, net: str, what: str) -> str:
        found = [part for ref, _ in self.ours.nets[net].pins if (part := self.ours.parts[ref]).symbol == f"Device:{kind}"]
        if len(found) != 1:
            raise DesignError(f"{net}: {what} wants one {kind} there, and has {len(found)}")
        (other,) = set(found[0].pins.values()) - {net}
        return other

    def _links(self, part: Part) -> Iterator[RailSupply]:
        spec = self.table["regulator"].get(part.bom)
        if spec is None:
            return
        kind = str(spec["kind"])
        (inlet, *_) = pins_named(part, spec["input"])
        if kind == "split":
            for side in ("positive", "negative"):
                (switch, *_) = pins_named(part, spec[side]["switch"])
                (feedback,) = pins_named(part, spec[side]["feedback"])
                rail = self._other_end("D_Schottky", switch, part.ref)
                yield RailSupply(part, spec, side, inlet, rail, feedback)
            return
        (outlet, *_) = pins_named(part, spec["output"])
        if kind == "buck":
            outlet = self._other_end("L", outlet, part.ref)
        held = pins_named(part, spec.get("feedback") or spec.get("set") or "?")
        yield RailSupply(part, spec, kind, inlet, outlet, held[0] if held else "")

    def _loads(self, part: Part) -> Iterator[SupplyLoad]:
        if part.symbol == "Device:LED":
            anode = part.pins["2"]
            for ref, _ in sorted(self.ours.nets[anode].pins):
                resistor = self.ours.parts[ref]
                for rail in set(resistor.pins.values()) & self.links.keys():
                    current = (self.nominal(rail) - LED_V) / number(resistor.value)
                    yield SupplyLoad(part, "A", rail, current, current)
            return
        if part.ref[0] not in "UY":
            return
        table = self.table["load"].get(part.bom, {})
        regulator = part.bom in self.table["regulator"]
        seen: set[tuple[str, str]] = set()
        for name, net in supply_pins(part):
            stem = max((key for key in table if name.startswith(key)), key=len, default="")
            if (stem, net) in seen:
                continue
            seen.add((stem, net))
            if stem:
                f = table[stem]
                yield SupplyLoad(part, stem, net, f["typ"], f["max"], f["low"], f["high"])
            elif not regulator and net[:1] in "+-":
                self.unknown.append(f"{part.ref} ({part.bom}), {name}")

    def resistor(self, one: str, other: str) -> tuple[float, float]:
        """(ohm, tolerance) of the one resistor between two nets. Raises DesignError for none or several."""
        found = between(self.ours, "R", one, other)
        if len(found) != 1:
            raise DesignError(f"between {one} and {other} is wanted one resistor, and there are {len(found)}")
        return number(found[0].value), tolerance(found[0])

    def nominal(self, net: str) -> float:
        """Volt."""
        return self.voltage(net).nominal

    def voltage(self, net: str) -> ToleranceRange:
        """Return the voltage of a rail.

        It includes tolerances of reference and resistors, and the drop in switches and beads at the largest current.
        """
        if net in self.table["outside"]:
            given = self.table["outside"][net]
            return ToleranceRange(given["low"], 3.3, given["high"])
        if net == self.usb_input:
            return ToleranceRange(self.figure("usb", "low_v"), 5.0, self.figure("usb", "high_v"))
        link = self.links[net]
        if link.kind in PASSING:
            before = self.voltage(link.input)
            fixed = link.figure("drop_v")
            drop = [fixed + link.figure("ohm") * amount for amount in (self.current(net)[1], self.current(net)[0])]
            return ToleranceRange(before.low - drop[0], before.nominal - drop[1], before.high)
        error = link.figure("reference_tolerance")
        if link.kind in ("buck", "positive"):
            return divided(link.figure("reference_v"), error, self.resistor(net, link.feedback), self.resistor(link.feedback, "GND"))
        if link.kind == "negative":
            (reference,) = pins_named(link.part, link.spec["negative"]["reference"])
            ends = self.resistor(net, link.feedback), self.resistor(link.feedback, reference)
            return inverted(link.figure("reference_v"), error, *ends)
        if "set_a" in link.spec:
            ohm, spread = self.resistor(link.feedback, "GND")
            volt, spread = link.figure("set_a") * ohm, spread + error
            return ToleranceRange(volt * (1 - spread), volt, volt * (1 + spread))
        volt = link.figure("fixed_v")
        return ToleranceRange(volt * (1 - error), volt, volt * (1 + error))

    def current(self, net: str) -> tuple[float, float]:
        """(typical, most) in ampere that is taken from a net."""
        typical = sum(found.typical for found in self.loads.get(net, []))
        most = sum(found.most for found in self.loads.get(net, []))
        for link in self.links.values():
            if link.input == net:
                t, m = self.taken(link)
                typical, most = typical + t, most + m
        return typical, most

    def taken(self, link: RailSupply) -> tuple[float, float]:
        """(typical, most) in ampere that a link takes at its input."""
        typical, most = self.current(link.output)
        if link.kind in ("buck", "positive", "negative"):
            out, efficiency = self.voltage(link.output), link.figure("efficiency")
            low = self._low.get(link.input, self.figure("usb", "low_v"))
            return typical * out.nominal / efficiency / 5.0, most * out.high / efficiency / low
        quiescent = link.figure("quiescent_a")
        return typical + quiescent, most + quiescent

    def loss(self, link: RailSupply) -> float:
        """W that a link's part turns into heat at the largest current. Of a split supply both halves."""
        if link.kind in ("positive", "negative"):
            both = [other for other in self.links.values() if other.part.ref == link.part.ref]
        else:
            both = [link]
        watt = 0.0
        for one in both:
            most, out = self.current(one.output)[1], self.voltage(one.output)
            if one.kind in ("buck", "positive", "negative"):
                watt += most * out.high * (1 / one.figure("efficiency") - 1)
            elif one.kind == "linear":
                inlet = self.voltage(one.input).high
                watt += most * (inlet - out.low) + one.figure("quiescent_a") * inlet
            else:
                watt += most**2 * one.figure("ohm") + most * one.figure("drop_v")
        return watt

    def limits(self, net: str) -> tuple[float, float]:
        """Return the range in V that all loads of a rail together allow."""
        on = self.loads.get(net, [])
        return max((found.low for found in on), default=0.0), min((found.high for found in on), default=NO_LIMIT_V)

    def capacitance(self, net: str) -> float:
        """F between a net and ground."""
        return sum(number(part.value) for part in between(self.ours, "C", net, "GND"))
