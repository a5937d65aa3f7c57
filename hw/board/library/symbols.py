"""Our own symbols: boxes with pins, from symbols/*.toml, into the project's library.

A table is a symbol. ``left``, ``right``, ``top``, ``bottom``: its pins in order, ``"number name type"``, "" for a gap of one step; a
list of such tables as ``units`` for a symbol of several. Types are KiCad's (``passive``, ``input``, ``output``, ``power_in``, ...).
A unit that is only ``resistor = ["8", "1"]`` is drawn as one, standing, its first pin up.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ..netlist import DesignError
from ..schematic.sexpr import Node, Word, dump

__all__ = ["library_text"]

_STEP = 2.54
_KINDS = {
    "input",
    "output",
    "bidirectional",
    "tri_state",
    "passive",
    "free",
    "unspecified",
    "power_in",
    "power_out",
    "open_collector",
    "open_emitter",
    "no_connect",
}
_FIELDS = {"left", "right", "top", "bottom", "units", "resistor", "reference", "description", "datasheet", "width", "hide_names"}


def _w(*words: Node) -> list[Node]:
    return [Word(str(words[0])), *words[1:]]


def _effects(size: float = 1.27, hide: bool = False) -> list[Node]:
    node = _w("effects", _w("font", _w("size", size, size)))
    return [*node, _w("hide", Word("yes"))] if hide else node


def _property(name: str, value: str, x: float, y: float, hide: bool) -> list[Node]:
    return _w("property", name, value, _w("at", x, y, 0), _effects(hide=hide))


def _pin(symbol: str, text: str, x: float, y: float, angle: int, length: float = _STEP) -> list[Node]:
    words = text.split()
    if len(words) != 3 or words[2] not in _KINDS:
        raise DesignError(f"symbol {symbol}: pin '{text}' is not 'number name type' with one of KiCad's types")
    number, name, kind = words
    return _w(
        "pin",
        Word(kind),
        Word("line"),
        _w("at", round(x, 3), round(y, 3), angle),
        _w("length", length),
        _w("name", name, _effects()),
        _w("number", number, _effects()),
    )


def _rectangle(half_x: float, half_y: float, fill: str) -> list[Node]:
    stroke = _w("stroke", _w("width", 0.254), _w("type", Word("default")))
    return _w("rectangle", _w("start", -half_x, half_y), _w("end", half_x, -half_y), stroke, _w("fill", _w("type", Word(fill))))


def _resistor(name: str, unit: int, pins: list[str]) -> tuple[list[Node], float, float]:
    """Return a resistor like KiCad's ``Device:R``: 7.62 mm from end to end."""
    ends = [_pin(name, f"{number} ~ passive", 0.0, y, angle, 1.27) for number, y, angle in zip(pins, (3.81, -3.81), (270, 90), strict=True)]
    return [Word("symbol"), f"{name}_{unit}_1", _rectangle(1.016, 2.54, "none"), *ends], 1.016, 2.54


def _unit(name: str, unit: int, table: dict[str, Any]) -> tuple[list[Node], float, float]:
    """Return a unit's drawing, and half its width and height."""
    if "resistor" in table:
        return _resistor(name, unit, table["resistor"])
    sides = {side: list(table.get(side, [])) for side in ("left", "right", "top", "bottom")}
    rows, columns = max(len(sides["left"]), len(sides["right"]), 1), max(len(sides["top"]), len(sides["bottom"]), 0)
    longest = [max((len(p.split()[1]) for p in sides[s] if p), default=0) for s in ("left", "right")]
    steps = max(table.get("width", 0), columns + 3, round(sum(longest) * 0.45) + 2, 3)
    steps += steps % 2
    tall = rows + 1 + (rows + 1) % 2 + (2 if columns else 0)
    half_x, half_y = steps / 2 * _STEP, tall / 2 * _STEP
    body: list[Node] = [_rectangle(half_x, half_y, "background")]
    top = half_y - (2 if columns else 1) * _STEP
    left_of = -(columns // 2) * _STEP
    for n, text in enumerate(sides["left"]):
        if text:
            body.append(_pin(name, text, -half_x - _STEP, top - n * _STEP, 0))
    for n, text in enumerate(sides["right"]):
        if text:
            body.append(_pin(name, text, half_x + _STEP, top - n * _STEP, 180))
    for n, text in enumerate(sides["top"]):
        if text:
            body.append(_pin(name, text, left_of + n * _STEP, half_y + _STEP, 270))
    for n, text in enumerate(sides["bottom"]):
        if text:
            body.append(_pin(name, text, left_of + n * _STEP, -half_y - _STEP, 90))
    return [Word("symbol"), f"{name}_{unit}_1", *body], half_x, half_y


def _symbol(name: str, table: dict[str, Any]) -> list[Node]:
    if unknown := set(table) - _FIELDS:
        raise DesignError(f"symbol {name}: unknown {', '.join(sorted(unknown))}; there are {', '.join(sorted(_FIELDS))}")
    units = table.get("units") or [table]
    drawn = [_unit(name, n, unit) for n, unit in enumerate(units, 1)]
    half_x, half_y = max(d[1] for d in drawn), max(d[2] for d in drawn)
    names = [_w("pin_names", _w("offset", 0.508))] if not table.get("hide_names") else [_w("pin_names", _w("hide", Word("yes")))]
    return _w(
        "symbol",
        name,
        *names,
        _w("exclude_from_sim", Word("no")),
        _w("in_bom", Word("yes")),
        _w("on_board", Word("yes")),
        _property("Reference", table.get("reference", "U"), -half_x, half_y + 1.27, False),
        _property("Value", name, -half_x, -half_y - 1.27, False),
        _property("Footprint", "", 0.0, 0.0, True),
        _property("Datasheet", table.get("datasheet", ""), 0.0, 0.0, True),
        _property("Description", table.get("description", ""), 0.0, 0.0, True),
        *(d[0] for d in drawn),
    )


def library_text(folder: Path | None = None) -> str:
    """Return the library file of all tables in a folder (ours by default). Raises DesignError for a pin that cannot be read."""
    tables: dict[str, dict[str, Any]] = {}
    for path in sorted((folder or Path(__file__).parent / "symbols").glob("*.toml")):
        for name, table in tomllib.loads(path.read_text()).items():
            if name in tables:
                raise DesignError(f"symbol {name} is in two files, one of them {path.name}")
            tables[name] = table
    body = [_symbol(name, tables[name]) for name in sorted(tables)]
    return (
        dump(_w("kicad_symbol_lib", _w("version", Word("20241209")), _w("generator", "wattbell"), _w("generator_version", "9.0"), *body))
        + "\n"
    )
