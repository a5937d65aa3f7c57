"""Checks of balls against the gateware's pinout, both ways; of the banks' supplies; and of the capacitors at each circuit's
supplies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amaranth.build import DiffPairs, Pins, Resource, Subsignal
from wattbell_gateware.boards.ecp5.platform import Ecp5TapPlatform

from ..check import Check
from ..design import design
from ..netlist import Design
from ..schematic.symbols import symbol

__all__ = ["balls", "banks", "decoupled", "platform_balls", "quick", "supplies", "volts"]

FPGA = "U200"
LVCMOS33 = "+3V3"
ONLY_BOARD = re.compile(r"flash_|fpga_|jtag_")
"""Nets at balls of the configuration, for which the gateware has no names."""


def quick() -> Iterator[Check]:
    """Run all checks; none needs KiCad."""
    yield balls(design(), platform_balls())
    yield banks(design())
    yield decoupled(design())
    yield supplies(design())


def platform_balls() -> dict[str, str]:
    """Return the net of each ball by the names of the gateware's resources: ``ulpi_data0``, ``LANE0_P``."""
    found: dict[str, str] = {}

    def add(name: str, io: Pins | DiffPairs) -> None:
        if isinstance(io, DiffPairs):
            (p,), (n,) = io.p.names, io.n.names
            lane = name.startswith("lane")
            stem = name.upper() if lane else name
            found.update({p: f"{stem}_{'P' if lane else 'p'}", n: f"{stem}_{'N' if lane else 'n'}"})
        elif len(io.names) == 1:
            found[io.names[0]] = name
        else:
            found.update({ball: f"{name}{n}" for n, ball in enumerate(io.names)})

    for resource in Ecp5TapPlatform.resources:
        assert isinstance(resource, Resource)
        numbered = resource.name in ("lane", "dcu_reference", "led")
        stem = f"{resource.name}{resource.number}" if numbered else resource.name
        for io in resource.ios:
            if isinstance(io, Subsignal):
                add(f"{stem}_{io.name}", io.ios[0])
            elif isinstance(io, Pins | DiffPairs):
                add(stem, io)
    return found


def balls(ours: Design, theirs: dict[str, str]) -> Check:
    """Check that the net on a ball is the gateware's name of the ball, and the other way round."""
    pins = {pin.number: pin for pin in symbol(ours.parts[FPGA].symbol).pins}
    supply = {"GND", *(net for net in ours.nets if net[:1] in "+-")}
    have = {ball: net for ball, net in ours.parts[FPGA].pins.items() if net and net not in supply and not ONLY_BOARD.match(net)}
    wrong = [
        f"{ball}: board '{have.get(ball, '')}', gateware '{theirs.get(ball, '')}'"
        for ball in sorted(have.keys() | theirs.keys())
        if have.get(ball) != theirs.get(ball)
    ]
    wrong += [f"{ball} is no ball of the part" for ball in theirs if ball not in pins]
    return Check(
        "balls as gateware's platform", f"{len(theirs) - len(wrong)} of {len(theirs)}", "all, both ways", not wrong, "\n".join(wrong)
    )


def banks(ours: Design) -> Check:
    """Check that every bank with a used ball has 3.3 V: the gateware drives LVCMOS33 everywhere."""
    pins = symbol(ours.parts[FPGA].symbol).pins
    supply = {pin.unit: ours.parts[FPGA].pins[pin.number] for pin in pins if pin.name.startswith("VCCIO")}
    used = {pin.unit for pin in pins if pin.unit in supply and pin.kind == "bidirectional" and ours.parts[FPGA].pins[pin.number]}
    wrong = [f"unit {unit} of the symbol has {supply[unit]}" for unit in sorted(used) if supply[unit] != LVCMOS33]
    return Check("banks' supplies for LVCMOS33", f"{len(used) - len(wrong)} of {len(used)}", "all", not wrong, "\n".join(wrong))


VOLTS = {"VCC": 1.2, "VCCA": 1.2, "VCCH": 1.2, "VCCAUX": 2.5, "VCCAUXA": 2.5, "VCCIO": 3.3, "GND": 0.0}
"""Voltage of a ball by the beginning of its name: LFE5UM5G, FPGA-DS-02012 table 3.2 (second-hand); VCCIO for LVCMOS33."""
STRAPS = {"CFG_0": 0.0, "CFG_1": 3.3, "CFG_2": 0.0}
"""Straps for CFG[2:0] = 010: the FPGA configures itself from SPI flash (FPGA-TN-02039)."""
PORT = {"TDO": "jtag_tdo", "TDI": "jtag_tdi", "TCK": "jtag_tck", "TMS": "jtag_tms", "CCLK": "flash_clk"}


def supplies(ours: Design) -> Check:
    """Check every supply and configuration ball, by its name in KiCad's symbol: its voltage, its strap, its place in JTAG."""
    have = ours.parts[FPGA].pins
    wrong: list[str] = []
    count = 0
    for pin in symbol(ours.parts[FPGA].symbol).pins:
        stem = max((name for name in VOLTS if pin.name.startswith(name)), key=len, default="")
        want = STRAPS.get(pin.name, VOLTS.get(stem))
        net = have[pin.number]
        if want is not None:
            count += 1
            if volts(net) != want:
                wrong.append(f"{pin.number} ({pin.name}) wants {want} V and is on '{net}'")
        elif pin.name in PORT:
            count += 1
            if net != PORT[pin.name]:
                wrong.append(f"{pin.number} ({pin.name}) is on '{net}'")
    return Check("supply and configuration balls", f"{count - len(wrong)} of {count}", "all", not wrong, "\n".join(wrong))


def volts(net: str) -> float | None:
    """Return the voltage in a supply's name: ``+1V2_CORE`` 1.2, ``GND`` 0; None for a net that is no supply."""
    named = re.match(r"([+-])(\d+)V(\d*)", net)
    if named is None:
        return 0.0 if net == "GND" else None
    return float(f"{named[1]}{named[2]}.{named[3] or 0}")


def decoupled(ours: Design) -> Check:
    """Check that every supply pin has its own capacitor (``at U1.5``), or shares its net with a pin of the same part that has one."""
    placed = {
        (part.place, net)
        for part in ours.parts.values()
        if part.symbol == "Device:C" and "GND" in part.pins.values()
        for net in part.pins.values()
    }
    # the pin with which a converter switches its coil is a power output to KiCad, but no supply
    switched = {net for part in ours.parts.values() if part.symbol == "Device:L" for net in part.pins.values() if net[:1] not in "+-"}
    wrong: list[str] = []
    count = 0
    for part in ours.parts.values():
        if part.ref[0] not in "UY":
            continue
        supplies: dict[str, list[str]] = {}
        for pin in symbol(part.symbol).pins:
            net = part.pins[pin.number]
            if pin.kind in ("power_in", "power_out") and net not in {"", "GND", *switched}:
                supplies.setdefault(net, []).append(pin.number)
        for net, numbers in supplies.items():
            count += 1
            every = [number for number, on in part.pins.items() if on == net]
            if not any((f"at {part.ref}.{number}", net) in placed for number in every):
                wrong.append(f"{part.ref}: no capacitor at {net} (pin {', '.join(numbers)})")
    return Check("supplies with a capacitor", f"{count - len(wrong)} of {count}", "all", not wrong, "\n".join(wrong))
