"""Parts and nets of the board, from the sheets, for the schematic's drawing, the layout's places, and the checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["NET_CLASSES", "Design", "DesignError", "Net", "Part"]

NET_CLASSES = ("Default", "PCIe", "LVDS", "USB", "Power", "Kelvin", "Analog")
"""``PCIe`` is differential of 85 ohm, ``LVDS`` of 100, ``USB`` of 90."""


class DesignError(ValueError):
    """The sheets contradict each other; says where."""


@dataclass(frozen=True)
class Part:
    """One part as the schematic names it."""

    ref: str
    """Reference. Its number gives its sheet:

    - connectors 1.., tap 100.., fpga 200.., clocks 300.., usb 400.., config 500..
    - sideband 600.., trigger 700.., frontend 1000.., loadswitch 1100.., selftest 1200.., power 1300..
    """
    symbol: str
    """Library and name: ``Device:R``, ``wattbell:AD4003``."""
    footprint: str
    """Library and name: ``Resistor_SMD:R_0402_1005Metric``."""
    value: str
    bom: str
    """Key of bom.toml."""
    sheet: str
    pins: Mapping[str, str]
    """Net of each pin by its number; "" is a pin that is deliberately not connected."""
    builds: str = "TP"
    """Builds in which it is fitted: T (tap), P (power), both, or "" (never)."""
    note: str = ""
    place: str = ""
    """For the layout: ``at U200.K7`` (decoupling of that pin), ``lane0 host``."""


@dataclass(frozen=True)
class Net:
    """One net; ``pins`` are (reference, pin number)."""

    name: str
    pins: frozenset[tuple[str, str]]
    netclass: str = "Default"


@dataclass(frozen=True)
class Design:
    """The whole board."""

    parts: dict[str, Part] = field(default_factory=dict)
    nets: dict[str, Net] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Iterable[Part], netclasses: Mapping[str, str]) -> Design:
        """A design of parts. ``netclasses``: class of each net that has another than Default.

        Raises DesignError for a reference used twice, a class that is not one, and a class of a net that no part is on.
        """
        by_ref: dict[str, Part] = {}
        pins: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for part in parts:
            if part.ref in by_ref:
                raise DesignError(f"{part.ref} is on sheet {by_ref[part.ref].sheet} and on {part.sheet}")
            if set(part.builds) - set("TP"):
                raise DesignError(f"{part.ref} is for build '{part.builds}'; there are T and P")
            by_ref[part.ref] = part
            for pin, net in part.pins.items():
                if net:
                    pins[net].add((part.ref, pin))
        for net, netclass in netclasses.items():
            if netclass not in NET_CLASSES:
                raise DesignError(f"net {net} has class '{netclass}'; there are {', '.join(NET_CLASSES)}")
            if net not in pins:
                raise DesignError(f"net {net} has class {netclass} and no part is on it")
        return cls(by_ref, {name: Net(name, frozenset(on), netclasses.get(name, "Default")) for name, on in sorted(pins.items())})
