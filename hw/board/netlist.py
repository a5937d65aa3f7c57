"""Parts and nets of the board, as the sheets give them. The schematic draws them, the layout places them, and the checks read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["NET_CLASSES", "Design", "DesignError", "Net", "Part"]

NET_CLASSES = ("Default", "PCIe", "LVDS", "USB", "Power", "Kelvin", "Analog")
"""Net classes. ``PCIe`` is differential with 85 ohm, ``LVDS`` with 100, ``USB`` with 90."""


class DesignError(ValueError):
    """Reports that the sheets contradict each other, and where."""


@dataclass(frozen=True)
class Part:
    """One part as the schematic names it."""

    ref: str
    """Reference. Its number shows its sheet: connectors 1.., tap 100.., fpga 200.., clocks 300.., usb 400.., config 500.., sideband
    600.., trigger 700.., frontend 1000.., loadswitch 1100.., selftest 1200.., power 1300..
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
    """Net of each pin by its number; "" marks a pin that is deliberately not connected."""
    builds: str = "TP"
    """Builds that have the part: T (tap), P (power), both, or "" (none)."""
    note: str = ""
    place: str = ""
    """Hint for the layout: ``at U200.K7`` (decoupling of that pin), ``lane0 host``."""


@dataclass(frozen=True)
class Net:
    """One net; ``pins`` are pairs of reference and pin number."""

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
        """Make a design from parts. ``netclasses``: class of each net outside Default.

        Raises DesignError for a reference used twice, an unknown class, and a class of a net without parts.
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
