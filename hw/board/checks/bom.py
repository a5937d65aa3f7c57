"""Checks of the bill of materials against schematic, footprints and hw/afe, both ways; and the parts' cost of a board."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import afe.parts

from ..bom import BUILDS, MANUFACTURE, NOT_BOUGHT, Item, cost, items, load, manufacture_files
from ..check import Check
from ..design import design
from ..netlist import Design, DesignError
from ..powertree import Tree
from ..powertree import load as power

__all__ = ["checks", "committed", "prices", "quick"]

NOT_BOUGHT_HERE = ("filter", "rail", "calibrator")
"""Sections of hw/afe/parts.toml without a part number: the filter's capacitors and resistors have values, which the decks check."""
DERATING = 0.85


def quick() -> Iterator[Check]:
    """Run all checks; none needs KiCad."""
    yield from checks(design(), load(), tomllib.loads((Path(afe.parts.__file__).parent / "parts.toml").read_text()))
    yield committed(design(), MANUFACTURE)
    yield from prices(design())


def checks(ours: Design, table: dict[str, Any], front_end: dict[str, Any]) -> Iterator[Check]:
    """Yield the rows on the table; a single failing row if a key is missing in it."""
    try:
        found = items(ours, table)
    except DesignError as error:
        yield Check("bill of materials, every part", "not whole", "all", False, str(error))
        return
    yield every(ours, table, found)
    yield packages(ours, found)
    yield values(ours, found)
    yield as_front_end(found, front_end)
    yield rated(ours, found)


def every(ours: Design, table: dict[str, Any], found: dict[str, Item]) -> Check:
    """Check that each part of the schematic has a line, and each entry a part."""
    sizes = {re.sub(r"^r-[^-]+-", "", key) for key in found if key.startswith("r-")}
    wrong = [f"[parts.{key}] is of no part" for key in table["parts"] if key not in found]
    wrong += [f"[resistors.{size}] is of no part" for size in table["resistors"] if size not in sizes]
    bought = sum(part.bom != NOT_BOUGHT for part in ours.parts.values())
    alone = sum(item.second.startswith("none: ") for item in found.values())
    figure = f"{bought} parts, {len(found)} lines, {alone} without a second source"
    return Check("bill of materials, every part", figure, "both ways", not wrong, "\n".join(wrong))


def packages(ours: Design, found: dict[str, Item]) -> Check:
    """Check that the bought package is the footprint's."""
    wrong = [
        f"{part.ref}: {part.footprint} is no {item.package} ({item.mpn})"
        for part in ours.parts.values()
        if (item := found.get(part.bom)) and item.package not in part.footprint
    ]
    return Check("bill of materials, packages as footprints", f"{len(wrong)} other", "0", not wrong, "\n".join(wrong))


def values(ours: Design, found: dict[str, Item]) -> Check:
    """Check that a circuit's value begins the bought number, and that no key has two values of resistance or capacitance."""
    wrong: list[str] = []
    by_key: dict[str, set[str]] = {}
    for part in ours.parts.values():
        item = found.get(part.bom)
        if item is None:
            continue
        if part.ref[0] in "UQ" or (part.ref[0] == "D" and re.search(r"\d", part.value)):
            wanted = part.value.split()[0].removesuffix("B") if item.name == "ADR444B" else part.value.split()[0]
            if not item.mpn.startswith(wanted):
                wrong.append(f"{part.ref} is {part.value}; bought is {item.mpn}")
        if part.symbol in ("Device:R", "Device:C", "Device:L"):
            by_key.setdefault(part.bom, set()).add(part.value)
    wrong += [f"{key} is {' and '.join(sorted(have))}" for key, have in by_key.items() if len(have) > 1]
    wrong += [f"{key} is not of {value}" for key, have in by_key.items() for value in have if f"-{value.lower()}-" not in key.lower()]
    return Check("bill of materials, values as drawn", f"{len(wrong)} other", "0", not wrong, "\n".join(wrong))


def as_front_end(found: dict[str, Item], front_end: dict[str, Any]) -> Check:
    """Check that the front end's parts are the parts that hw/afe calculates with, both ways."""
    sections = {name: str(table["part"]) for name, table in front_end.items() if "part" in table and name not in NOT_BOUGHT_HERE}
    wrong = [
        f"{item.key} is called {item.name} in [{item.afe}], which is {sections.get(item.afe, 'no section')}"
        for item in found.values()
        if item.afe and not re.search(rf"(?<![\w-]){re.escape(item.name)}", sections.get(item.afe, ""))
    ]
    wrong += [f"hw/afe's [{name}] ({part}) is in no line" for name, part in sections.items() if name not in {i.afe for i in found.values()}]
    count = sum(bool(item.afe) for item in found.values())
    return Check("bill of materials, front end as hw/afe", f"{count} lines, {len(wrong)} wrong", "both ways", not wrong, "\n".join(wrong))


def rated(ours: Design, found: dict[str, Item]) -> Check:
    """Check that capacitors between known voltages have a rating above them."""
    tree = Tree(ours, power())
    volts = {net: tree.voltage(net).high * (-1 if net.startswith("-") else 1) for net in tree.links} | {"GND": 0.0}
    volts |= {net: float(given["high"]) for net, given in tree.table["outside"].items()}
    volts |= {link.feedback: volts[net] for net, link in tree.links.items() if "set_a" in link.spec}
    wrong: list[str] = []
    count, tightest = 0, 0.0
    for part in ours.parts.values():
        if part.symbol != "Device:C" or not set(part.pins.values()) <= volts.keys():
            continue
        one, other = (volts[net] for net in part.pins.values())
        rating = found[part.bom].volts
        count += 1
        if rating is None:
            wrong.append(f"{part.ref} ({part.bom}) has no rating in bom.toml")
            continue
        tightest = max(tightest, abs(one - other) / rating)
        if abs(one - other) > DERATING * rating:
            wrong.append(f"{part.ref} ({part.bom}) has {abs(one - other):.1f} V and is for {rating} V")
    return Check("capacitors, share of the rated voltage", f"{tightest:.0%} of {count}", f"{DERATING:.0%}", not wrong, "\n".join(wrong))


def committed(ours: Design, folder: Path) -> Check:
    """Check that the committed table is the one that the schematic and ``bom.toml`` make."""
    made = manufacture_files(ours)
    other = [str(path) for path, text in made.items() if not (folder / path).is_file() or (folder / path).read_text() != text]
    return Check("bill of materials as committed", f"{len(made) - len(other)} of {len(made)}", "all", not other, ", ".join(other))


def prices(ours: Design) -> Iterator[Check]:
    """Give the parts' cost of a board: a figure without a limit."""
    figure = "; ".join(f"{build}: {cost(ours, build, 10):.0f} / {cost(ours, build, 100):.0f} USD" for build in BUILDS)
    yield Check("parts of a board at 10 / 100", figure, "estimate", True, "without board, assembly, freight")
