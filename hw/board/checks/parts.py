"""Checks of the values of resistors, capacitors and coils against ``rules.toml``, which has to cover all of them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from ..check import Check
from ..design import design
from ..netlist import Design, Part
from ..powertree import Tree, load, supply_pins
from ..schematic.symbols import symbol
from ..values import number

__all__ = ["held", "quick", "rules", "values"]

KINDS = {"Device:R": "R", "Device:C": "C", "Device:L": "L"}
BY_DECKS = ("frontend", "selftest")
"""Sheets with hw/afe's values, which the decks check."""


def quick() -> Iterator[Check]:
    """Run all checks; none needs KiCad."""
    yield values(design(), rules())
    yield held(design(), rules(), Tree(design(), load()))


@cache
def rules() -> list[dict[str, Any]]:
    """Read ``rules.toml``."""
    found: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent.parent / "rules.toml").read_text())["rule"]
    return found


def _fits(part: Part, rule: dict[str, Any]) -> bool:
    if KINDS.get(part.symbol) != rule["kind"]:
        return False
    one, other = part.pins.values()
    a, b = rule["between"]
    return (fnmatchcase(one, a) and fnmatchcase(other, b)) or (fnmatchcase(other, a) and fnmatchcase(one, b))


def _ruled(ours: Design, every: list[dict[str, Any]]) -> dict[int, list[Part]]:
    """Return the parts of each rule, by its place in the table. The first fitting rule counts."""
    found: dict[int, list[Part]] = {n: [] for n in range(len(every))}
    for part in ours.parts.values():
        for n, rule in enumerate(every):
            if _fits(part, rule):
                found[n].append(part)
                break
    return found


def values(ours: Design, every: list[dict[str, Any]]) -> Check:
    """Check that each rule has its stated number of parts, and that their values are within it."""
    wrong: list[str] = []
    count = 0
    for n, parts in _ruled(ours, every).items():
        rule = every[n]
        if len(parts) != rule["number"]:
            wrong.append(f"{rule['what']}: {len(parts)} parts, wanted {rule['number']}")
        for part in parts:
            count += 1
            have = number(part.value)
            if not rule["least"] * (1 - 1e-9) <= have <= rule["most"] * (1 + 1e-9):
                wrong.append(f"{part.ref} is {part.value}; {rule['what']}: {rule['least']:g} to {rule['most']:g}")
    return Check("values by what they are for", f"{count} parts, {len(wrong)} wrong", "0", not wrong, "\n".join(wrong))


def held(ours: Design, every: list[dict[str, Any]], tree: Tree) -> Check:
    """Check that some check covers every value."""
    known = {part.ref for parts in _ruled(ours, every).values() for part in parts}
    worked_out = {link.feedback for link in tree.links.values()} - {""}
    worked_out |= {"sense_5v", "cc_threshold"}
    for link in tree.links.values():
        for name in ("monitor", "enable"):
            if "enable_v" in link.spec and name in link.spec:
                worked_out |= {link.part.pins[n] for n in _numbers(link.part, link.spec[name])}
    supplies = {*tree.links, *tree.table["outside"]}
    wrong: list[str] = []
    count = 0
    for part in ours.parts.values():
        if part.symbol not in KINDS or part.sheet in BY_DECKS:
            continue
        count += 1
        nets = set(part.pins.values())
        own_supply = part.symbol == "Device:C" and "GND" in nets and part.place.partition(" ")[0] in ("at", "near")
        if (
            part.ref in known
            or nets & worked_out
            or part.place.startswith("tap ")
            or (own_supply and (nets & supplies or _supply(ours, part)))
        ):
            continue
        wrong.append(f"{part.ref} ({part.value}) between {' and '.join(sorted(nets))}")
    return Check("values that no check looks at", str(len(wrong)), f"0 of {count}", not wrong, "\n".join(wrong))


def _numbers(part: Part, name: str) -> list[str]:
    return [pin.number for pin in symbol(part.symbol).pins if pin.name == name]


def _supply(ours: Design, part: Part) -> bool:
    """Return whether a capacitor's other net is a supply pin of its circuit, such as a transceiver's own 1.8 V."""
    whose = ours.parts.get(part.place.split()[1].partition(".")[0])
    return whose is not None and any(net in part.pins.values() for _, net in supply_pins(whose))
