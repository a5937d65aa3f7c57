"""The rail's copper, read from the board's file: drop against M.2's allowance, current in contacts, warming; the shunt's sense lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from afe.parts import load as afe_parts

from ..check import Check
from ..kicadcli import filled
from ..layout.board import FILE
from ..netlist import DesignError
from ..pcb import Pcb, read
from ..signal import copper, laid
from ..signal.stackup import Stackup, load

__all__ = ["CURRENTS_A", "RailCopper", "drops", "quick", "rail", "sense", "slow"]

CURRENTS_A = (3.0, 4.0)
FILLS_AGREE = 0.15
"""How far the resistance by our own fill of the planes may be off the one by KiCad's."""
SENSE_OHM = 1.0
"""Most that a sense line may have: with the first pair's bias current it makes nanovolts, and 1 ohm at 5 pF is nothing."""
SENSED = {"kelvin_p": "2", "kelvin_n": "3"}
"""Sense line, and the shunt's pin that it begins at."""


@dataclass(frozen=True)
class RailCopper:
    """Resistances in ohm from the host's contacts to the drive's and back, and the current at the narrowest copper."""

    found: dict[str, laid.CopperPath]
    contacts: float
    """Resistance of the drive's socket, 3.3 V pins in parallel and ground pins in parallel."""
    parts: float
    """Load switch and shunt."""

    @property
    def copper(self) -> dict[str, float]:
        return {name: stretch.resistance for name, stretch in self.found.items()}

    @property
    def total(self) -> float:
        return sum(self.copper.values()) + self.contacts + self.parts


def rail(board: Pcb, stack: Stackup, data: dict[str, Any]) -> RailCopper | str:
    """All stretches, or why there is no way."""
    figures = {key: f["value"] for key, f in data["figures"].items()}
    found = {}
    for name, one in laid.stretches(board, stack, data).items():
        if isinstance(one, str):
            return f"{name}: {one}"
        found[name] = one
    contacts = figures["contact_ohm"] * (1 / len(copper.PINS) + 1 / figures["ground_pins"])
    return RailCopper(found, contacts, figures["load_switch_ohm"] + figures["shunt_ohm"])


def quick() -> Iterator[Check]:
    """Needs no KiCad: the planes are filled here."""
    board, stack, data = read(FILE), load(), copper.load()
    yield from drops(rail(board, stack, data), data)
    yield sense(board, stack)


def slow() -> Iterator[Check]:
    """Check the planes as KiCad fills them."""
    stack, data = load(), copper.load()
    ours, theirs = rail(read(FILE), stack, data), rail(read(filled(FILE)), stack, data)
    if isinstance(ours, str) or isinstance(theirs, str):
        yield Check("rail, our fill of the planes against KiCad's", "no way", "joined", False, f"{ours}; {theirs}")
        return
    off = {name: ours.copper[name] / theirs.copper[name] - 1 for name in ours.copper}
    name = max(off, key=lambda one: abs(off[one]))
    yield Check(
        "rail, our fill of the planes against KiCad's", f"{off[name]:+.1%} ({name})", f"{FILLS_AGREE:.0%}", abs(off[name]) <= FILLS_AGREE
    )


def drops(found: RailCopper | str, data: dict[str, Any]) -> Iterator[Check]:
    """Rows of one rail."""
    figures = {key: f["value"] for key, f in data["figures"].items()}
    if isinstance(found, str):
        yield Check("rail, copper from edge to socket", "not joined", "joined", False, found)
        return
    allowed = figures["allowance_v"]
    detail = ", ".join(f"{part} {ohm * 1e3:.2f} mohm" for part, ohm in found.copper.items())
    yield Check("rail, copper from edge to socket and back", f"{sum(found.copper.values()) * 1e3:.1f} mohm", "joined", True, detail)
    rail_part = afe_parts()[0]["rail"]
    for name, parts, most in (
        ("edge to shunt", ("host", "switched"), rail_part.copper_before),
        ("shunt to socket and back", ("drive", "ground"), rail_part.copper_behind),
    ):
        ohm = sum(found.copper[part] for part in parts)
        yield Check(f"rail, copper as hw/afe has it, {name}", f"{ohm * 1e3:.1f} mohm", f"{most * 1e3:.0f} mohm", ohm <= most, detail)
    for current in CURRENTS_A:
        drop = current * found.total
        yield Check(f"rail, drop at {current:.0f} A", f"{drop * 1e3:.0f} mV", f"{allowed * 1e3:.0f} mV", drop < allowed, detail)
    each, most = CURRENTS_A[0] * max(found.found[part].worst_pin for part in ("host", "drive")), figures["contact_a"]
    yield Check("rail, fullest contact at 3 A", f"{each:.2f} A", f"{most} A", each <= most, "contacts of 20 mohm")
    limit = figures["rise_k"]
    name, worst = max(found.found.items(), key=lambda item: item[1].hottest_k)
    warm = worst.hottest_k
    yield Check("rail, warmest copper at 3 A", f"{warm:.0f} K ({name})", f"{limit:.0f} K", warm <= limit, f"{worst.neck}; IPC-2221")
    name, worst = max(found.found.items(), key=lambda item: item[1].via_k)
    amps, warm = CURRENTS_A[0] * worst.via_share, worst.via_k
    yield Check("rail, warmest via at 3 A", f"{warm:.0f} K ({name})", f"{limit:.0f} K", warm <= limit, f"{amps:.2f} A in one; IPC-2221")


def sense(board: Pcb, stack: Stackup) -> Check:
    """Follow the copper from the shunt's sense pads to every input that hangs on them."""
    name, limit = "shunt's sense lines, longest way", f"{SENSE_OHM:g} ohm, all drawn"
    worst = laid.Sense(0.0, 0.0, "")
    try:
        for net, pin in SENSED.items():
            pads = [pad for pad in board.pads if pad.net == net and pad.ref != "R1000"]
            start = board.pad("R1000", pin)
            if start.net != net:
                raise DesignError(f"R1000.{pin} is on {start.net}, not on {net}")
            worst = max(worst, laid.sense(board, stack, net, start, pads), key=lambda one: one.ohm)
    except DesignError as error:
        return Check(name, "not drawn", limit, False, str(error))
    return Check(name, f"{worst.ohm:.2f} ohm, {worst.millimetres:.0f} mm ({worst.to})", limit, worst.ohm <= SENSE_OHM)
