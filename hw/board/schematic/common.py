"""Parts that many sheets use, so that they look alike everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .sheet import Point, Sheet

__all__ = ["capacitor", "resistor", "supply_capacitors", "two_pins"]

R_FOOTPRINTS = {
    "0201": "Resistor_SMD:R_0201_0603Metric",
    "0402": "Resistor_SMD:R_0402_1005Metric",
    "0603": "Resistor_SMD:R_0603_1608Metric",
    "2512": "Resistor_SMD:R_2512_6332Metric",
}
C_FOOTPRINTS = {
    "0201": "Capacitor_SMD:C_0201_0603Metric",
    "0402": "Capacitor_SMD:C_0402_1005Metric",
    "0603": "Capacitor_SMD:C_0603_1608Metric",
    "0805": "Capacitor_SMD:C_0805_2012Metric",
    "1206": "Capacitor_SMD:C_1206_3216Metric",
}
SIZES = {"100n": "0402", "1u": "0402", "2u2": "0402", "4u7": "0402", "10u": "0603", "22u": "0805", "47u": "1206"}


def resistor(
    page: Sheet, ref: str, at: Point, nets: tuple[str, str], value: str, *, size: str = "0402", grade: str = "", **how: Any
) -> None:
    """Add a resistor of 1 % with `two_pins`. ``grade`` "-thin": thin film of 0.1 %."""
    two_pins(page, ref, at, nets, value, R_FOOTPRINTS[size], f"r-{value.lower()}-{size}{grade}", **how)


def capacitor(page: Sheet, ref: str, at: Point, nets: tuple[str, str], value: str, *, size: str = "", grade: str = "", **how: Any) -> None:
    """Add a ceramic capacitor with `two_pins`. ``size`` in inches as the field writes it; by default from its value.

    ``grade`` "-c0g": C0G of 1 %.
    """
    size = size or SIZES.get(value, "0402")
    two_pins(page, ref, at, nets, value, C_FOOTPRINTS[size], f"c-{value}-{size}{grade}", **how)


def two_pins(
    page: Sheet,
    ref: str,
    at: Point,
    nets: tuple[str, str],
    value: str,
    footprint: str,
    bom: str,
    *,
    lying: bool = False,
    builds: str = "TP",
    place: str = "",
) -> None:
    """Add a part of KiCad's symbol by its reference's first letter: standing with its first pin up, or lying with its first pin
    left.
    """
    pins = {"1": nets[0], "2": nets[1]}
    turn = 90 if lying else 0
    page.part(ref, f"Device:{ref[0]}", at, pins, rotation=turn, value=value, footprint=footprint, bom=bom, builds=builds, place=place)


def supply_capacitors(
    page: Sheet,
    first: int,
    at: Point,
    net: str,
    wanted: Sequence[tuple[str, str]],
    *,
    small: str = "",
    step: float = 7,
    builds: str = "TP",
) -> None:
    """Add a row of capacitors between a supply and ground: (value, place of each). ``small``: unusual size of the 100 nF capacitors."""
    refs = [f"C{first + n}" for n in range(len(wanted))]
    for n, (ref, (value, place)) in enumerate(zip(refs, wanted, strict=True)):
        size = small if value == "100n" else ""
        capacitor(page, ref, (at[0] + step * n, at[1]), (net, "GND"), value, size=size, place=place, builds=builds)
    page.rail(net, [f"{ref}.1" for ref in refs])
    page.rail("GND", [f"{ref}.2" for ref in refs])
