"""Our own footprints, from footprints.toml, into the project's library. Coordinates as KiCad's: mm, y down."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..netlist import DesignError
from ..schematic.sexpr import Node, Word, dump

__all__ = ["footprint_files", "m2_x", "tables"]

PATH = Path(__file__).with_name("footprints.toml")
_FRONT = ("F.Cu", "F.Paste", "F.Mask")


def m2_x(number: int, pitch: float = 0.5) -> float:
    """Middle of a contact of M.2, mm right of the connector's middle, seen from above with the card's edge towards the viewer.

    Odd contacts are the upper side's; the two rows are half a pitch apart (PCIe M.2 1.0, card edge).
    """
    return 9.25 - pitch / 2 * (number - 1)


def _w(*words: Node) -> list[Node]:
    return [Word(str(words[0])), *words[1:]]


def _layers(names: Sequence[str]) -> list[Node]:
    return [Word("layers"), *names]


def _pad(number: str, at: tuple[float, float], size: Sequence[float], layers: Sequence[str] = _FRONT, kind: str = "smd") -> list[Node]:
    place = _w("at", round(at[0], 4), round(at[1], 4))
    return _w("pad", number, Word(kind), Word("roundrect"), place, _w("size", *size), _layers(layers), _w("roundrect_rratio", 0.2))


def _hole(at: tuple[float, float], drill: float) -> list[Node]:
    size = _w("size", drill, drill)
    return _w("pad", "", Word("np_thru_hole"), Word("circle"), _w("at", *at), size, _w("drill", drill), _layers(("*.Cu", "*.Mask")))


def _box(corners: Sequence[float], layer: str, width: float) -> list[Node]:
    x0, y0, x1, y1 = (float(c) for c in corners)
    stroke = _w("stroke", _w("width", width), _w("type", Word("solid")))
    return _w("fp_rect", _w("start", x0, y0), _w("end", x1, y1), stroke, _w("fill", Word("no")), _w("layer", layer))


def _dot(at: tuple[float, float], layer: str) -> list[Node]:
    """Draw a dot beside pin 1."""
    stroke = _w("stroke", _w("width", 0.2), _w("type", Word("solid")))
    end = _w("end", at[0] + 0.1, at[1])
    return _w("fp_circle", _w("center", *at), end, stroke, _w("fill", Word("yes")), _w("layer", layer))


def _text(name: str, value: str, y: float, layer: str) -> list[Node]:
    font = _w("font", _w("size", 0.8, 0.8), _w("thickness", 0.12))
    return _w("property", name, value, _w("at", 0, y, 0), _w("layer", layer), _w("effects", font))


def _footprint(
    name: str, table: dict[str, Any], attributes: Sequence[str], corners: Sequence[float], body: Sequence[list[Node]]
) -> list[Node]:
    """Return a footprint. ``corners``: box with the texts outside."""
    return [
        *_w("footprint", name, _w("version", Word("20241229")), _w("generator", "wattbell"), _w("generator_version", "9.0")),
        _w("layer", "F.Cu"),
        _w("descr", table["description"]),
        _text("Reference", "REF**", corners[1] - 0.8, "F.SilkS"),
        _text("Value", name, corners[3] + 0.8, "F.Fab"),
        [Word("attr"), *(Word(a) for a in attributes)],
        *body,
    ]


def _grown(corners: Sequence[float], by: float) -> list[float]:
    return [corners[0] - by, corners[1] - by, corners[2] + by, corners[3] + by]


def _numbers(table: dict[str, Any]) -> list[int]:
    """Contacts that the key leaves."""
    low, high = table["key"]
    return [n for n in range(1, 76) if not low <= n <= high]


def _m2_edge(name: str, table: dict[str, Any]) -> list[Node]:
    pads = []
    for n in _numbers(table):
        row, side = ("odd", "F") if n % 2 else ("even", "B")
        y = table["tongue"] - table[f"{row}_from_edge"]
        size = (table["width"], table[f"{row}_length"])
        # no paste: "connect" is KiCad's word for an edge contact
        pads.append(_pad(str(n), (m2_x(n, table["pitch"]), y), size, (f"{side}.Cu", f"{side}.Mask"), "connect"))
    around = [-9.925, 0.0, 9.925, table["tongue"]]
    drawn = [_box(around, f"{side}.CrtYd", 0.05) for side in "FB"]
    return _footprint(name, table, ("exclude_from_pos_files", "exclude_from_bom"), around, [*pads, *drawn])


def _m2_socket(name: str, table: dict[str, Any]) -> list[Node]:
    pads = [_pad(str(n), (m2_x(n, table["pitch"]), table["odd_row" if n % 2 else "even_row"]), table["pad"]) for n in _numbers(table)]
    pads += [_pad("", (x, y), table["tab"]) for x, y in table["tabs"]]
    pads += [_hole((x, 0.0), drill) for x, drill in table["pegs"]]
    body = table["body"]
    reach = max(abs(row) for row in (table["odd_row"],)) + table["pad"][1] / 2
    around = [body[0], table["even_row"] - table["pad"][1] / 2, body[2], max(body[3], reach)]
    drawn = [_box(body, "F.Fab", 0.1), _box(_grown(around, 0.25), "F.CrtYd", 0.05), _dot((m2_x(1), around[3] + 0.5), "F.SilkS")]
    return _footprint(name, table, ("smd",), _grown(around, 0.25), [*pads, *drawn])


def _four_pads(name: str, table: dict[str, Any]) -> list[Node]:
    (wide, high), (x, y) = table["overall"], table["pad"]
    dx, dy = (wide - x) / 2, (high - y) / 2
    pads = [_pad(n, at, table["pad"]) for n, at in (("1", (-dx, -dy)), ("2", (-dx, dy)), ("3", (dx, dy)), ("4", (dx, -dy)))]
    half = [side / 2 for side in table["body"]]
    around = [-wide / 2, -high / 2, wide / 2, high / 2]
    drawn = [_box([-half[0], -half[1], *half], "F.Fab", 0.1), _box(_grown(around, 0.25), "F.CrtYd", 0.05)]
    drawn.append(_dot((-wide / 2 - 0.5, -dy), "F.SilkS"))
    return _footprint(name, table, ("smd",), _grown(around, 0.25), [*pads, *drawn])


_KINDS: dict[str, Callable[[str, dict[str, Any]], list[Node]]] = {"m2_edge": _m2_edge, "m2_socket": _m2_socket, "four_pads": _four_pads}


@cache
def tables() -> dict[str, dict[str, Any]]:
    """Every footprint's table by its name. Raises DesignError where one names no source or a kind that is not there."""
    data = tomllib.loads(PATH.read_text())
    sources = data.pop("sources")
    for name, table in data.items():
        if table.get("source") not in sources:
            raise DesignError(f"footprint {name}: no source '{table.get('source')}' in {PATH.name}")
        if table["kind"] not in _KINDS:
            raise DesignError(f"footprint {name}: kind '{table['kind']}'; there are {', '.join(_KINDS)}")
    return data


def footprint_files() -> dict[Path, str]:
    """Every footprint's file by its path beside the project."""
    made = {name: _KINDS[table["kind"]](name, table) for name, table in tables().items()}
    return {Path("lib/wattbell.pretty") / f"{name}.kicad_mod": dump(node) + "\n" for name, node in made.items()}
