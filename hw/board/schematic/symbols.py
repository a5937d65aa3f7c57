"""Symbols of KiCad's libraries and of our own: their drawing, and where their pins end."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from ..library.symbols import library_text
from .sexpr import Node, Word, children, first, parse

__all__ = ["CHECKOUT", "KICAD_SHARE", "Pin", "Symbol", "SymbolError", "symbol"]

CHECKOUT = Path(__file__).resolve().parents[3]
KICAD_SHARE = CHECKOUT / "build" / "kicad" / "root" / "usr" / "share" / "kicad"
DRAWN = CHECKOUT / "hw" / "board" / "kicad"


class SymbolError(ValueError):
    """Reports a missing library or symbol, and what to do."""


@dataclass(frozen=True)
class Pin:
    """A pin of a symbol. ``x``, ``y``: its outer end in mm, y up; ``angle``: from there to the body, degrees counterclockwise."""

    number: str
    name: str
    kind: str
    """KiCad's electrical type: ``power_in``, ``passive``, ..."""
    x: float
    y: float
    angle: int
    unit: int
    """Unit of the pin; 0: every unit."""


@dataclass(frozen=True)
class Symbol:
    """A symbol with its base worked in."""

    lib_id: str
    node: list[Node]
    """The ``(symbol ...)``, named by lib_id as in a schematic's ``lib_symbols``."""
    pins: tuple[Pin, ...]
    units: int
    power: bool


_SYMBOL = re.compile(r'^(?:\t|  )\(symbol "((?:[^"\\]|\\.)*)"', re.MULTILINE)
"""Start of a symbol in a library as KiCad and we write it: one level deep, on its own line."""


@lru_cache(maxsize=64)
def _library(name: str) -> dict[str, str]:
    """Return the text of each symbol: libraries are megabytes, and a design needs little of them."""
    if name == "wattbell":
        return _texts(library_text())
    path = KICAD_SHARE / "symbols" / f"{name}.kicad_sym"
    if not path.is_file():
        raise SymbolError(f"symbol library {name} is not at {path}: run 'tools/kicad.sh kicad-cli version' once, which makes KiCad's root")
    return _texts(path.read_text())


def _texts(library: str) -> dict[str, str]:
    starts = [(match.start(), match[1]) for match in _SYMBOL.finditer(library)]
    ends = [start for start, _ in starts[1:]] + [library.rindex(")")]
    return {name: library[start:end] for (start, name), end in zip(starts, ends, strict=True)}


@cache
def _drawn() -> dict[str, list[Node]]:
    """Return the symbols by lib_id in the committed schematic. They are enough without KiCad."""
    found: dict[str, list[Node]] = {}
    for path in sorted(DRAWN.glob("*.kicad_sch")):
        for library in children(parse(path.read_text()), "lib_symbols"):
            found |= {str(child[1]): child for child in children(library, "symbol")}
    return found


def _named(node: list[Node], old: str, new: str, lib_id: str) -> list[Node]:
    """Return a copy of a symbol under another name; its units carry the name without the library."""
    made = copy.deepcopy(node)
    made[1] = lib_id
    for unit in children(made, "symbol"):
        unit[1] = new + str(unit[1])[len(old) :]
    return made


def _flat(library: str, name: str) -> list[Node]:
    """Return a symbol's own list with its base worked in: the base's drawing, its own properties."""
    symbols = _library(library)
    if name not in symbols:
        raise SymbolError(f"there is no symbol {name} in library {library}")
    node = parse(symbols[name])
    extends = first(node, "extends")
    if extends is None:
        return _named(node, name, name, f"{library}:{name}")
    base = str(extends[1])
    made = _named(_flat(library, base), base, name, f"{library}:{name}")
    own = {str(p[1]): p for p in children(node, "property")}
    made[:] = [own.pop(str(c[1]), c) if isinstance(c, list) and c and c[0] == "property" else c for c in made]
    made[2:2] = own.values()
    return made


def _pins(node: list[Node]) -> tuple[tuple[Pin, ...], int]:
    pins: list[Pin] = []
    units = 1
    for part in children(node, "symbol"):
        unit, style = (int(n) for n in str(part[1]).rsplit("_", 2)[1:])
        units = max(units, unit)
        if style > 1:  # the other way to draw a gate (De Morgan)
            continue
        for pin in children(part, "pin"):
            at, name, number = first(pin, "at"), first(pin, "name"), first(pin, "number")
            assert at is not None and name is not None and number is not None
            x, y, angle = float(str(at[1])), float(str(at[2])), round(float(str(at[3]))) if len(at) > 3 else 0
            pins.append(Pin(str(number[1]), str(name[1]), str(pin[1]), x, y, angle % 360, unit))
    return tuple(pins), units


@lru_cache(maxsize=512)
def symbol(lib_id: str) -> Symbol:
    """Return a symbol by ``library:name``; ``wattbell`` is our own library. Raises SymbolError."""
    library, _, name = lib_id.partition(":")
    node = _flat(library, name) if library == "wattbell" or KICAD_SHARE.is_dir() or lib_id not in _drawn() else _drawn()[lib_id]
    pins, units = _pins(node)
    return Symbol(lib_id, node, pins, units, first(node, Word("power")) is not None)
