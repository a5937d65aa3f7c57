"""Checks of buses line by line against the makers' pin names, and of clocks against the clock inputs in prjtrellis' database."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.build import Clock, Pins, Resource, Subsignal
from wattbell_gateware.boards.ecp5.platform import Ecp5TapPlatform

from ..check import Check
from ..design import design
from ..netlist import Design
from ..schematic.symbols import symbol

__all__ = ["clock_balls", "clocks", "lines", "quick", "table"]

FPGA = "U200"


def quick() -> Iterator[Check]:
    """Run all checks; none needs KiCad."""
    yield lines(design(), table())
    yield clocks(clock_balls(), table()["functions"])


@cache
def table() -> dict[str, Any]:
    """Read ``lines.toml``."""
    return tomllib.loads((Path(__file__).parent.parent / "lines.toml").read_text())


def _nets(ours: Design, end: str, functions: dict[str, str]) -> set[str]:
    """Return the nets of one end of a line: several if several pins have the name, none if no pin has it."""
    where, _, name = end.partition(": ")
    if where == "net":
        return {name} if name in ours.nets else set()
    part = ours.parts[where]
    if name.startswith("="):
        return {part.pins[ball] for ball, function in functions.items() if function == name[1:]}
    return {part.pins[pin.number] for pin in symbol(part.symbol).pins if name in (pin.name, pin.number)}


def lines(ours: Design, wanted: dict[str, Any]) -> Check:
    """Check that every end of a line is on the line's one net, and no other line is."""
    wrong: list[str] = []
    by_net: dict[str, str] = {}
    for name, ends in wanted["lines"].items():
        found = {end: _nets(ours, end, wanted["functions"]) for end in ends}
        together = set().union(*found.values())
        if len(together) != 1 or any(len(nets) != 1 for nets in found.values()) or "" in together:
            wrong.append(f"{name}: " + ", ".join(f"{end} on '{' '.join(sorted(nets))}'" for end, nets in found.items()))
            continue
        (net,) = together
        if (other := by_net.setdefault(net, name)) != name:
            wrong.append(f"{name} and {other} are one net")
    count = len(wanted["lines"])
    return Check("buses, line by line", f"{count - len(wrong)} of {count}", "all", not wrong, "\n".join(wrong))


def clock_balls() -> dict[str, str]:
    """Return the ball of each clock input of the gateware, by the resource's name, without the deserialisers' references."""
    found: dict[str, str] = {}
    for resource in Ecp5TapPlatform.resources:
        assert isinstance(resource, Resource)
        for io in resource.ios:
            if isinstance(io, Subsignal):
                if any(isinstance(a, Clock) for a in io.ios) or io.clock is not None:
                    (pins,) = (a for a in io.ios if isinstance(a, Pins))
                    found[f"{resource.name}_{io.name}"] = pins.names[0]
            elif isinstance(io, Pins) and resource.clock is not None:
                found[resource.name] = io.names[0]
    return found


def clocks(balls: dict[str, str], functions: dict[str, str]) -> Check:
    """Check that each single-ended clock is on the true pin of a pair, PCLKT, which reaches the global network. Others only do so
    through the fabric.
    """
    wrong = [
        f"{name}: {ball} is {functions.get(ball, 'no clock input')}"
        for name, ball in balls.items()
        if "PCLKT" not in functions.get(ball, "")
    ]
    shown = ", ".join(f"{name} {ball} {functions.get(ball, '-')}" for name, ball in balls.items())
    return Check("clocks on clock inputs (prjtrellis)", shown, "PCLKT", not wrong and len(balls) > 1, "; ".join(wrong))
