"""Writes sheets as KiCad's schematic files. The same sheets give the same bytes: identifiers are uuid5 of names."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..netlist import DesignError
from .sexpr import Node, Word, dump
from .sheet import STEP_MM, PlacedUnit, Point, Sheet, Wire, is_power
from .symbols import symbol

__all__ = ["PROJECT", "files", "net_names", "symbol_path"]

PROJECT = "wattbell"
_SPACE = uuid.UUID("8a7c1f5e-0d2b-5f34-9c1a-57a77be11000")
_FONT_MM = 1.27
_PAPER_MM = {"A4": (297.0, 210.0), "A3": (420.0, 297.0), "A2": (594.0, 420.0)}


def _w(*words: Node) -> list[Node]:
    """Return a list with a bare first word."""
    return [Word(str(words[0])), *words[1:]]


def _uuid(*name: object) -> list[Node]:
    return _w("uuid", _id(*name))


def _id(*name: object) -> str:
    return str(uuid.uuid5(_SPACE, "/".join(map(str, name))))


def symbol_path(sheet: str, ref: str) -> str:
    """How the board's file names a part of the schematic: by its sheet and its first unit."""
    return f"/{_id('sheet', sheet)}/{_id(f'{ref}/1')}"


def net_names(sheets: Sequence[Sheet]) -> dict[str, str]:
    """KiCad's name of each net: one that is on a single sheet carries the sheet's."""
    on: Counter[str] = Counter(net for page in sheets for net in page.nets())
    return {net: net if is_power(net) or on[net] > 1 else f"/{page.name}/{net}" for page in sheets for net in page.nets()}


def _at(point: Point, angle: int | None = None) -> list[Node]:
    place: list[Node] = [Word("at"), round(point[0] * STEP_MM, 4), round(point[1] * STEP_MM, 4)]
    return place if angle is None else [*place, angle]


def _effects(size: float = _FONT_MM, justify: str = "", hide: bool = False) -> list[Node]:
    node = _w("effects", _w("font", _w("size", size, size)))
    if justify:
        node.append([Word("justify"), *(Word(w) for w in justify.split())])
    if hide:
        node.append(_w("hide", Word("yes")))
    return node


def _property(name: str, value: str, at: Point, hide: bool = False, justify: str = "", angle: int = 0) -> list[Node]:
    return _w("property", name, value, _at(at, angle), _effects(justify=justify, hide=hide))


def _line(*points: tuple[float, float]) -> list[Node]:
    """A thin line through points of a symbol."""
    drawn: list[Node] = [Word("pts"), *(_w("xy", x, y) for x, y in points)]
    return _w("polyline", drawn, _w("stroke", _w("width", 0.0), _w("type", Word("default"))), _w("fill", _w("type", Word("none"))))


def _yes(value: bool) -> Word:
    return Word("yes" if value else "no")


def _power_symbol(net: str) -> list[Node]:
    """Return a power symbol for any net: a bar above a stem for sources, below for negative rails, KiCad's arrows for GND."""
    lib_id = f"wattbell_power:{net}"
    up = 1 if net[:1] == "+" else -1
    if net == "GND":
        drawing = [_line((0.0, 0.0), (0.0, -1.27)), _line((-1.27, -1.27), (1.27, -1.27), (0.0, -2.54), (-1.27, -1.27))]
    else:
        drawing = [_line((0.0, 0.0), (0.0, 2.54 * up)), _line((-0.762, 2.54 * up), (0.762, 2.54 * up))]
    pin = _w(
        "pin",
        Word("power_in"),
        Word("line"),
        _w("at", 0.0, 0.0, 90 if up > 0 else 270),
        _w("length", 0.0),
        _w("name", net, _effects()),
        _w("number", "1", _effects()),
    )
    return _w(
        "symbol",
        lib_id,
        _w("power"),
        _w("pin_numbers", _w("hide", Word("yes"))),
        _w("pin_names", _w("offset", 0.0), _w("hide", Word("yes"))),
        _w("exclude_from_sim", Word("no")),
        _w("in_bom", Word("yes")),
        _w("on_board", Word("yes")),
        _property("Reference", "#PWR", (0.0, -2.0 * up), hide=True),
        _property("Value", net, (0.0, 1.4 * up)),
        _property("Footprint", "", (0.0, 0.0), hide=True),
        _property("Datasheet", "", (0.0, 0.0), hide=True),
        _w("symbol", f"{net}_0_1", *drawing),
        _w("symbol", f"{net}_1_1", pin),
    )


def _power_library(nets: Sequence[str]) -> str:
    """The power symbols as a library, so that a person who edits the schematic finds them."""
    bodies = [_power_symbol(net) for net in nets]
    for net, body in zip(nets, bodies, strict=True):
        body[1] = net
    return (
        dump(_w("kicad_symbol_lib", _w("version", Word("20241209")), _w("generator", "wattbell"), _w("generator_version", "9.0"), *bodies))
        + "\n"
    )


def _table(kind: str, rows: Sequence[tuple[str, str]]) -> str:
    """A project's library table."""
    entries = [_w("lib", _w("name", name), _w("type", "KiCad"), _w("uri", uri), _w("options", ""), _w("descr", "")) for name, uri in rows]
    return dump(_w(kind, _w("version", 7), *entries)) + "\n"


def _angle(away: tuple[int, int]) -> tuple[int, str]:
    """A label's angle, and which end of its text is at the point."""
    return {(1, 0): (0, "left"), (-1, 0): (180, "right"), (0, -1): (90, "left"), (0, 1): (270, "right")}[away]


class _Writer:
    """One sheet on its way into a file."""

    def __init__(self, sheet: Sheet, shared: set[str], path: str) -> None:
        self.sheet, self.shared, self.path = sheet, shared, path
        self.out: list[Node] = []
        self.libs: dict[str, list[Node]] = {}
        self.count: Counter[str] = Counter()

    def name(self, kind: str) -> str:
        """Return a name that stays while the earlier ones of its kind stay."""
        self.count[kind] += 1
        return f"{self.sheet.name}/{kind}/{self.count[kind]}"

    def wire(self, wire: Wire) -> None:
        """A piece of wire."""
        points = [_w("xy", round(x * STEP_MM, 4), round(y * STEP_MM, 4)) for x, y in (wire.start, wire.end)]
        stroke = _w("stroke", _w("width", 0.0), _w("type", Word("default")))
        self.out.append(_w("wire", [Word("pts"), *points], stroke, _uuid(self.name("wire"))))

    def label(self, net: str, at: Point, away: tuple[int, int]) -> None:
        """A net's name: a power symbol, a label for all sheets, or one for this sheet."""
        if is_power(net):
            self.power(net, at, away)
            return
        kind = "global_label" if net in self.shared else "label"
        angle, justify = _angle(away)
        shape = [_w("shape", Word("passive"))] if kind == "global_label" else []
        self.out.append(_w(kind, net, *shape, _at(at, angle), _effects(justify=justify), _uuid(self.name("label"))))

    def power(self, net: str, at: Point, away: tuple[int, int]) -> None:
        """Draw a power symbol with its stem in the given direction."""
        lib_id = f"wattbell_power:{net}"
        self.libs.setdefault(lib_id, _power_symbol(net))
        down = net == "GND" or net[:1] == "-"
        natural = (0, 1) if down else (0, -1)
        turns = 0
        turned = natural
        while turned != away:  # counterclockwise on a page where y runs down
            turned = (turned[1], -turned[0])
            turns += 90
        reference = self.name("#PWR")
        far = 2.0 if net == "GND" else 1.5
        value_at = (at[0] + away[0] * far, at[1] + away[1] * far)
        justify = {(1, 0): "left", (-1, 0): "right"}.get(away, "")
        if turns == 90:  # a quarter turn of the symbol turns the sides of its texts round
            justify = {"left": "right", "right": "left"}.get(justify, "")
        self.symbol_node(
            lib_id,
            at,
            turns,
            "",
            1,
            f"#PWR{self.sheet.number:02d}{self.count['#PWR']:03d}",
            reference,
            [("Value", net, value_at, False, justify)],
            {"1": ""},
            fitted=True,
            in_bom=True,
        )

    def flag(self, net: str, at: Point) -> None:
        """A PWR_FLAG and the net's own symbol at one place."""
        lib_id = "power:PWR_FLAG"
        self.libs.setdefault(lib_id, symbol(lib_id).node)
        reference = self.name("#FLG")
        self.symbol_node(
            lib_id,
            at,
            0,
            "",
            1,
            f"#FLG{self.sheet.number:02d}{self.count['#FLG']:03d}",
            reference,
            [("Value", "PWR_FLAG", (at[0], at[1] - 1.5), False, "")],
            {"1": ""},
            fitted=True,
            in_bom=True,
        )
        below = (at[0], at[1] + 1)
        self.wire(Wire(at, below))
        self.label(net, below, (0, 1) if net == "GND" or net[:1] == "-" or not is_power(net) else (1, 0))

    def symbol_node(
        self,
        lib_id: str,
        at: Point,
        rotation: int,
        mirror: str,
        unit: int,
        ref: str,
        name: str,
        fields: Sequence[tuple[str, str, Point, bool, str]],
        pins: Iterable[str],
        *,
        fitted: bool,
        in_bom: bool,
        simulated: bool = False,
    ) -> None:
        """A ``(symbol ...)``."""
        node = _w("symbol", _w("lib_id", lib_id), _at(at, rotation))
        if mirror:
            node.append(_w("mirror", Word(mirror)))
        node += [
            _w("unit", unit),
            _w("exclude_from_sim", _yes(not simulated)),
            _w("in_bom", _yes(in_bom)),
            _w("on_board", _yes(True)),
            _w("dnp", _yes(not fitted)),
            _uuid(name),
        ]
        if all(field[0] != "Reference" for field in fields):
            node.append(_property("Reference", ref, at, hide=True))
        for key, value, place, hidden, justify in fields:
            # a field turns with its symbol; upright text needs the angle against it
            node.append(_property(key, value, place, hide=hidden, justify=justify, angle=90 if rotation % 180 else 0))
        node += [_w("pin", number, _uuid(name, number)) for number in pins]
        instance = _w("path", self.path, _w("reference", ref), _w("unit", unit))
        node.append(_w("instances", _w("project", PROJECT, instance)))
        self.out.append(node)

    def place(self, place: PlacedUnit) -> None:
        """A part's unit, with its reference and value where they can be read."""
        part = place.part
        self.libs.setdefault(part.symbol, place.symbol.node)
        fields = list(self._texts(place))
        hidden = [
            ("Footprint", part.footprint),
            ("Datasheet", ""),
            ("Description", part.note),
            ("BOM", part.bom),
            ("Builds", part.builds or "none"),
        ]
        hidden += [(key, value) for key, value in sorted(place.fields.items())]
        fields += [(key, value, place.at, True, "") for key, value in hidden]
        numbers = sorted({pin.number for pin in place.symbol.pins})
        simulated = any(key.startswith("Sim.") for key in place.fields)
        self.symbol_node(
            part.symbol,
            place.at,
            place.rotation,
            place.mirror,
            place.unit,
            part.ref,
            f"{part.ref}/{place.unit}",
            fields,
            numbers,
            fitted=bool(part.builds),
            in_bom=True,
            simulated=simulated,
        )

    def _texts(self, place: PlacedUnit) -> Iterable[tuple[str, str, Point, bool, str]]:
        """Yield reference and value at their places: right of an upright two-pin part, above one that lies, above the box of any other."""
        part, (x, y) = place.part, place.at
        value = part.value if part.builds in ("TP", "") else f"{part.value} [{part.builds}]"
        ref = f"{part.ref}"
        if place.value_at is not None:
            x, y = x + place.value_at[0], y + place.value_at[1]
            yield "Reference", ref, (x, y), False, "left"
            yield "Value", value, (x, y + 0.7), False, "left"
            return
        ends = [place.end(pin) for pin in place.pins()]
        # a quarter turn of the symbol turns the sides of its texts round
        before, behind = ("left", "right") if place.rotation == 90 else ("right", "left")
        if len(ends) == 2 and ends[0][0] == ends[1][0]:
            yield "Reference", ref, (x + 0.8, y - 0.4), False, behind
            yield "Value", value, (x + 0.8, y + 0.4), False, behind
        elif len(ends) == 2:
            yield "Reference", ref, (x - 0.3, y - 0.9), False, before
            yield "Value", value, (x + 0.3, y - 0.9), False, behind
        else:
            upward = any(place.outward(pin) == (0, -1) for pin in place.pins())
            top = min((e[1] for e in ends), default=y) - (3.2 if upward else 1.7)
            left = min((e[0] for e in ends), default=x)
            yield "Reference", ref, (left + 1, top - 0.8), False, "left"
            yield "Value", value, (left + 1, top - 0.1), False, "left"

    def junctions(self, ends: list[Point]) -> None:
        """A dot where three or more ends meet, or an end meets the middle of a wire."""
        count = Counter(ends)
        wires = self.sheet.wires
        for at in sorted(set(ends)):
            through = sum(_within(at, wire) for wire in wires)
            if count[at] + 2 * through >= 3:
                self.out.append(
                    _w("junction", _at(at), _w("diameter", 0), _w("color", 0, 0, 0, 0), _uuid(self.sheet.name, "junction", *at))
                )

    def node(self) -> list[Node]:
        """The whole file."""
        sheet = self.sheet
        ends: list[Point] = [end for wire in sheet.wires for end in (wire.start, wire.end)]
        for place in sheet.places:
            self.place(place)
            ends += {place.end(pin) for pin in place.pins()}
        for place, pin, net in sheet.stubs():
            start, (dx, dy) = place.end(pin), place.outward(pin)
            if not net:
                self.out.append(_w("no_connect", _at(start), _uuid(sheet.name, "nc", place.part.ref, pin.number)))
                continue
            end = (start[0] + dx, start[1] + dy)
            self.wire(Wire(start, end))
            self.label(net, end, (dx, dy))
        for wire in sheet.wires:
            for piece in _pieces(wire, ends):
                self.wire(piece)
        for label in sheet.labels:
            self.label(label.net, label.at, label.away)
        for flag in sheet.flags:
            self.flag(flag.net, flag.at)
        self.junctions(ends)
        for box in sheet.boxes:
            shape = _w(
                "rectangle",
                _w("start", *_at(box.corner)[1:]),
                _w("end", *_at(box.opposite)[1:]),
                _w("stroke", _w("width", 0.15), _w("type", Word("dash"))),
                _w("fill", _w("type", Word("none"))),
                _uuid(sheet.name, "box", box.title),
            )
            self.out.append(shape)
            self.out.append(
                _w(
                    "text",
                    box.title,
                    _w("exclude_from_sim", Word("no")),
                    _at((box.corner[0] + 0.5, box.corner[1] - 0.3), 0),
                    _effects(1.8, "left bottom"),
                    _uuid(sheet.name, "title", box.title),
                )
            )
        for text in sheet.texts:
            self.out.append(
                _w(
                    "text",
                    text.text,
                    _w("exclude_from_sim", Word("no")),
                    _at(text.at, 0),
                    _effects(text.size_mm, "left top"),
                    _uuid(self.name("text")),
                )
            )
        return _file(sheet.name, sheet.paper, sheet.title, sheet.comments, self.libs, self.out)


def _within(at: Point, wire: Wire) -> bool:
    """Whether a point is on a wire and not at its ends."""
    (x0, y0), (x1, y1) = wire.start, wire.end
    if at in (wire.start, wire.end):
        return False
    return (x0 == x1 == at[0] and min(y0, y1) < at[1] < max(y0, y1)) or (y0 == y1 == at[1] and min(x0, x1) < at[0] < max(x0, x1))


def _pieces(wire: Wire, ends: Sequence[Point]) -> list[Wire]:
    """A wire cut where other ends meet it: KiCad would do so itself, and draws only the first piece then."""
    cuts = sorted({wire.start, wire.end, *(end for end in ends if _within(end, wire))}, reverse=wire.start > wire.end)
    return [Wire(a, b) for a, b in itertools.pairwise(cuts)]


def _file(name: str, paper: str, title: str, comments: Sequence[str], libs: dict[str, list[Node]], body: list[Node]) -> list[Node]:
    block = _w("title_block", _w("title", title), _w("rev", "0"), _w("company", "Wattbell"))
    block += [_w("comment", n, text) for n, text in enumerate(comments, 1)]
    return _w(
        "kicad_sch",
        _w("version", Word("20250114")),
        _w("generator", "wattbell"),
        _w("generator_version", "9.0"),
        _uuid("file", name),
        _w("paper", paper),
        block,
        [Word("lib_symbols"), *(libs[key] for key in sorted(libs))],
        *body,
    )


def _root(
    sheets: Sequence[Sheet], title: str, comments: Sequence[str], blocks: dict[str, tuple[Point, Point]], texts: list[Node]
) -> list[Node]:
    body: list[Node] = list(texts)
    root = _id("file", PROJECT)
    for sheet in sheets:
        at, size = blocks[sheet.name]
        body.append(
            _w(
                "sheet",
                _at(at),
                _w("size", round(size[0] * STEP_MM, 4), round(size[1] * STEP_MM, 4)),
                _w("exclude_from_sim", Word("no")),
                _w("in_bom", Word("yes")),
                _w("on_board", Word("yes")),
                _w("dnp", Word("no")),
                _w("stroke", _w("width", 0.1524), _w("type", Word("solid"))),
                _w("fill", _w("color", 0, 0, 0, 0.0)),
                _uuid("sheet", sheet.name),
                _property("Sheetname", sheet.name, (at[0], at[1] - 0.3), justify="left bottom"),
                _property("Sheetfile", f"{sheet.name}.kicad_sch", (at[0], at[1] + size[1] + 0.3), justify="left top"),
                _w("instances", _w("project", PROJECT, _w("path", f"/{root}", _w("page", str(sheet.number))))),
            )
        )
    body.append(_w("sheet_instances", _w("path", "/", _w("page", "1"))))
    return _file(PROJECT, "A3", title, comments, {}, body)


def files(
    sheets: Sequence[Sheet],
    title: str,
    blocks: dict[str, tuple[Point, Point]],
    comments: Sequence[str] = (),
    notes: Sequence[tuple[str, Point, float]] = (),
) -> dict[Path, str]:
    """Every schematic file by its path beside the project. ``blocks``: place and size of each sheet on the first page; ``notes``: (text,
    place, size in mm) there.

    Raises DesignError for two sheets of one number.
    """
    if len({sheet.number for sheet in sheets} | {1}) != len(sheets) + 1:
        raise DesignError("two sheets have one number (the first page has 1)")
    on: Counter[str] = Counter(net for sheet in sheets for net in sheet.nets())
    shared = {net for net, count in on.items() if count > 1}
    root = _id("file", PROJECT)
    made: dict[Path, str] = {}
    for sheet in sheets:
        node = _Writer(sheet, shared, f"/{root}/{_id('sheet', sheet.name)}").node()
        made[Path(f"{sheet.name}.kicad_sch")] = dump(node) + "\n"
    texts: list[Node] = [
        _w("text", text, _w("exclude_from_sim", Word("no")), _at(at, 0), _effects(size, "left top"), _uuid("note", n))
        for n, (text, at, size) in enumerate(notes)
    ]
    made[Path(f"{PROJECT}.kicad_sch")] = dump(_root(sheets, title, comments, blocks, texts)) + "\n"
    libraries = sorted({place.part.symbol.partition(":")[0] for sheet in sheets for place in sheet.places} | {"power"} - {"wattbell"})
    footprints = sorted({place.part.footprint.partition(":")[0] for sheet in sheets for place in sheet.places} - {"wattbell", ""})
    made[Path("sym-lib-table")] = _table(
        "sym_lib_table",
        [
            *((name, f"${{KICAD9_SYMBOL_DIR}}/{name}.kicad_sym") for name in libraries if name != "wattbell"),
            ("wattbell", "${KIPRJMOD}/lib/wattbell.kicad_sym"),
            ("wattbell_power", "${KIPRJMOD}/lib/wattbell_power.kicad_sym"),
        ],
    )
    made[Path("fp-lib-table")] = _table(
        "fp_lib_table",
        [
            *((name, f"${{KICAD9_FOOTPRINT_DIR}}/{name}.pretty") for name in footprints),
            ("wattbell", "${KIPRJMOD}/lib/wattbell.pretty"),
        ],
    )
    powers = sorted({net for sheet in sheets for net in (*sheet.nets(), *(flag.net for flag in sheet.flags)) if is_power(net)})
    made[Path("lib/wattbell_power.kicad_sym")] = _power_library(powers)
    return made
