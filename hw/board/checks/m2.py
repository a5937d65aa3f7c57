"""Check of the M.2 connectors pin by pin against KiCad's own symbol of a key M socket, which others drew from the specification."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..check import Check
from ..design import design
from ..netlist import Design
from ..schematic.symbols import symbol

__all__ = ["pins_as", "slow"]

OTHERS = "Connector:Bus_M.2_Socket_M"
SIDEBANDS = {
    "~{CLKREQ}": "CLKREQ_N",
    "~{PEWAKE}": "PEWAKE_N",
    "DEVSLP": "DEVSLP",
    "SUSCLK": "SUSCLK",
    "DAS/~{DSS}/~{LED1}": "LED1_N",
    "PEDET": "CONFIG_1",
    "REFCLKp": "REFCLK_P",
    "REFCLKn": "REFCLK_N",
    "GND": "GND",
}
NEWER = {"40": "SMB_CLK", "42": "SMB_DATA", "44": "ALERT_N"}
"""SMBus pins since revision 1.1 of the specification; the library's symbol has no connection there."""


def wanted(number: str, name: str, host: bool) -> str:
    """Return the net of a pin of KiCad's symbol on our edge (host's side) or socket (drive's side)."""
    if number in NEWER:
        return NEWER[number]
    if lane := re.match(r"(PET|PER)([pn])(\d)", name):
        sender, leg, n = {"PET": "HOST_TX", "PER": "DRIVE_TX"}[lane[1]], lane[2].upper(), int(lane[3])
        return f"{sender}{n}_{leg}" + ("" if host or n < 2 else "_D")
    if name == "3.3V":
        return "+3V3_HOST" if host else "+3V3_DRIVE"
    if name == "~{PERST}":
        return "PERST_HOST_N" if host else "PERST_DRIVE_N"
    return SIDEBANDS.get(name, "")


def slow() -> Iterator[Check]:
    """Run the check; it needs KiCad's library."""
    pins = {pin.number: pin.name for pin in symbol(OTHERS).pins}
    yield pins_as(design(), pins)


def pins_as(ours: Design, pins: Mapping[str, str]) -> Check:
    """Check every pin of both connectors."""
    wrong: list[str] = []
    for ref, host in (("J1", True), ("J2", False)):
        have = ours.parts[ref].pins
        for number in sorted(pins.keys() | have.keys(), key=int):
            want = wanted(number, pins.get(number, "?"), host)
            if have.get(number) != want:
                wrong.append(f"{ref}.{number} is '{have.get(number)}' and should be '{want}'")
    return Check(
        "M.2 pins as KiCad's symbol has them", f"{2 * len(pins) - len(wrong)} of {2 * len(pins)}", "all", not wrong, "\n".join(wrong)
    )
