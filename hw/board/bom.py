"""The bill of materials: what to buy for each key of the schematic (``bom.toml``), and the table for who orders."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .netlist import Design, DesignError, Part
from .values import number

__all__ = ["BUILDS", "MANUFACTURE", "NOT_BOUGHT", "Item", "cost", "items", "lines", "load", "maker_codes", "manufacture_files"]

MANUFACTURE = Path(__file__).parent / "manufacture"
"""Folder of the files for the board's manufacturer."""
BUILDS = ("T", "P")
NOT_BOUGHT = "none"
"""Key of parts that are copper only: the edge, test points."""
ESTIMATE = "estimate, from memory, 2025"
_FIELDS = {"maker", "mpn", "second", "alone", "package", "usd_10", "usd_100", "price", "checked", "volts", "afe", "name"}


@dataclass(frozen=True)
class Item:
    """The article bought for one key."""

    key: str
    maker: str
    mpn: str
    second: str
    """Maker and number, or "none: " and the reason."""
    package: str
    usd_10: float
    usd_100: float
    price: str
    volts: float | None
    afe: str
    name: str


@dataclass(frozen=True)
class BomLine:
    """One line of the table."""

    item: Item
    value: str
    parts: tuple[Part, ...]

    def quantity(self, build: str) -> int:
        """How many a board of a build has."""
        return sum(build in part.builds for part in self.parts)


@cache
def load() -> dict[str, Any]:
    """``bom.toml``."""
    return tomllib.loads((Path(__file__).parent / "bom.toml").read_text())


def maker_codes(text: str) -> dict[str, str]:
    """A resistor's value in the codes of the makers: ``100k`` is Yageo's 100K, Vishay's 100K, Panasonic's 104."""
    ohm = number(text)
    plain = text.upper()
    yageo = plain if re.search("[RKM]", plain) else f"{plain}R"
    letter, scale = next((pair for pair in (("M", 1e6), ("K", 1e3)) if ohm >= pair[1]), ("R", 1.0))
    whole = f"{ohm / scale:.3g}"
    whole, _, fraction = whole.partition(".")
    vishay = f"{whole}{letter}{fraction}".ljust(4, "0")[:4] if ohm else "0000"
    panasonic = yageo
    if ohm >= 10:
        digits, exponent = f"{ohm:.2e}".split("e")
        kept = digits.replace(".", "")
        few = kept.endswith("0")
        panasonic = f"{kept[:2] if few else kept}{int(exponent) - (1 if few else 2)}"
    return {"yageo": yageo, "vishay": vishay, "panasonic": panasonic}


def _entry(key: str, table: dict[str, Any]) -> Item:
    if unknown := set(table) - _FIELDS:
        raise DesignError(f"bom.toml, {key}: unknown {', '.join(sorted(unknown))}; there are {', '.join(sorted(_FIELDS))}")
    if ("second" in table) == ("alone" in table):
        raise DesignError(f"bom.toml, {key}: either a second source or the reason why there is none ('alone')")
    missing = {"maker", "mpn", "package", "usd_10", "usd_100"} - set(table)
    if missing:
        raise DesignError(f"bom.toml, {key}: {', '.join(sorted(missing))} missing")
    second = table["second"] if "second" in table else f"none: {table['alone']}"
    return Item(
        key,
        table["maker"],
        table["mpn"],
        second,
        table["package"],
        table["usd_10"],
        table["usd_100"],
        table.get("price", ESTIMATE),
        table.get("volts"),
        table.get("afe", ""),
        table.get("name", ""),
    )


def _resistor(part: Part, table: dict[str, Any]) -> Item:
    size = part.bom.removeprefix(f"r-{part.value.lower()}-")
    if size not in table["resistors"]:
        raise DesignError(f"{part.ref}: bom.toml has nothing for '{part.bom}', and no resistors of '{size}'")
    series = dict(table["resistors"][size])
    mpn, second = series.pop("zero", ("", ""))
    if number(part.value) == 0 and not mpn:
        raise DesignError(f"{part.ref}: bom.toml has no 0 ohm of '{size}'")
    codes = maker_codes(part.value)
    if number(part.value):
        mpn, second = series["mpn"].format(**codes), series["second"].format(**codes)
    return _entry(part.bom, series | {"mpn": mpn, "second": second})


def items(ours: Design, table: dict[str, Any] | None = None) -> dict[str, Item]:
    """Return the articles for the keys of the schematic. Raises DesignError for a key that is missing in ``bom.toml``."""
    table = table or load()
    found: dict[str, Item] = {}
    for part in ours.parts.values():
        if part.bom == NOT_BOUGHT or part.bom in found:
            continue
        if part.bom in table["parts"]:
            found[part.bom] = _entry(part.bom, table["parts"][part.bom])
        elif part.bom.startswith("r-"):
            found[part.bom] = _resistor(part, table)
        else:
            raise DesignError(f"{part.ref}: bom.toml has nothing for '{part.bom}'")
    return found


def lines(ours: Design, table: dict[str, Any] | None = None) -> Iterator[BomLine]:
    """The table's lines by key, each with its parts in order."""
    for key, item in sorted(items(ours, table).items()):
        parts = sorted((part for part in ours.parts.values() if part.bom == key), key=_by_number)
        yield BomLine(item, " / ".join(sorted({part.value for part in parts})), tuple(parts))


def _by_number(part: Part) -> tuple[str, int]:
    return part.ref.rstrip("0123456789"), int(re.sub(r"\D", "", part.ref))


def cost(ours: Design, build: str, boards: int) -> float:
    """Parts of one board in USD, when so many are made (10 or 100). Without board, assembly, freight, taxes."""
    return sum(line.quantity(build) * (line.item.usd_10 if boards == 10 else line.item.usd_100) for line in lines(ours))


def manufacture_files(ours: Design) -> dict[Path, str]:
    """Files of ``manufacture/`` by their path there."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["key", "value", "package", "build T", "build P", "maker", "number", "second source", "USD at 10", "USD at 100", "price", "parts"]
    )
    for line in lines(ours):
        item = line.item
        where = " ".join(part.ref + ("" if part.builds == "TP" else f"[{part.builds or 'none'}]") for part in line.parts)
        row = [item.key, line.value, item.package, *(line.quantity(build) for build in BUILDS), item.maker, item.mpn, item.second]
        writer.writerow([*row, f"{item.usd_10:g}", f"{item.usd_100:g}", item.price, where])
    return {Path("bom.csv"): out.getvalue()}
