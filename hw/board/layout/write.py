"""Writes the board as KiCad's file. The same design gives the same bytes."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..netlist import Design
from ..schematic.sexpr import Node, Word, dump
from ..schematic.sheet import Sheet
from ..schematic.write import net_names, symbol_path
from ..signal.stackup import Stackup, load
from . import outline
from .frame import COPPER, uid, w, xy
from .land import Placed
from .notes import fabrication
from .place import Layout
from .track import Copper

__all__ = ["board_text"]

ZONES = Path(__file__).with_name("zones.toml")
_NUMBERS = dict(zip(COPPER, (0, 4, 6, 8, 10, 12, 14, 2), strict=True))
_OTHERS = (
    (9, "F.Adhes", "F.Adhesive"),
    (11, "B.Adhes", "B.Adhesive"),
    (13, "F.Paste", ""),
    (15, "B.Paste", ""),
    (5, "F.SilkS", "F.Silkscreen"),
    (7, "B.SilkS", "B.Silkscreen"),
    (1, "F.Mask", ""),
    (3, "B.Mask", ""),
    (17, "Dwgs.User", "User.Drawings"),
    (19, "Cmts.User", "User.Comments"),
    (25, "Edge.Cuts", ""),
    (27, "Margin", ""),
    (31, "F.CrtYd", "F.Courtyard"),
    (29, "B.CrtYd", "B.Courtyard"),
    (35, "F.Fab", ""),
    (33, "B.Fab", ""),
)


def _stack(stack: Stackup) -> list[Node]:
    """``(stackup ...)`` with masks."""
    body: list[Node] = [w("layer", "F.SilkS", w("type", "Top Silk Screen")), w("layer", "F.Paste", w("type", "Top Solder Paste"))]
    mask = (
        w("thickness", round(stack.mask_copper * 1e3, 4)),
        w("epsilon_r", stack.mask_epsilon),
        w("loss_tangent", stack.mask_loss_tangent),
    )
    body.append(w("layer", "F.Mask", w("type", "Top Solder Mask"), *mask))
    count = 0
    for layer in stack.layers:
        thick = w("thickness", round(layer.thickness * 1e3, 4))
        if layer.kind == "copper":
            body.append(w("layer", layer.name, w("type", "copper"), thick))
        else:
            count += 1
            material = (w("material", "FR4"), w("epsilon_r", layer.epsilon), w("loss_tangent", layer.loss_tangent))
            body.append(w("layer", f"dielectric {count}", w("type", layer.kind), thick, *material))
    body.append(w("layer", "B.Mask", w("type", "Bottom Solder Mask"), *mask))
    body += [w("layer", "B.Paste", w("type", "Bottom Solder Paste")), w("layer", "B.SilkS", w("type", "Bottom Silk Screen"))]
    body += [w("copper_finish", "ENIG"), w("dielectric_constraints", Word("yes")), w("edge_connector", Word("bevelled"))]
    return w("stackup", *body)


def _line(kind: str, points: Iterable[tuple[str, Sequence[float]]], layer: str, width: float, name: str) -> list[Node]:
    ends = [xy(key, (at[0], at[1])) for key, at in points]
    return w(kind, *ends, w("stroke", w("width", width), w("type", Word("solid"))), w("layer", layer), uid(name))


def _outline(notches: Sequence[tuple[float, float]]) -> list[list[Node]]:
    made = []
    for n, piece in enumerate(outline.edges(notches)):
        if isinstance(piece, outline.StraightEdge):
            made.append(_line("gr_line", (("start", piece.start), ("end", piece.end)), "Edge.Cuts", 0.1, f"edge/{n}"))
        else:
            points = (("start", piece.start), ("mid", piece.middle), ("end", piece.end))
            made.append(_line("gr_arc", points, "Edge.Cuts", 0.1, f"edge/{n}"))
    return made


def _holes() -> list[list[Node]]:
    """Spacers' and feet's holes: footprints that the schematic does not have."""
    made: list[list[Node]] = []
    for hole in outline.holes():
        pad = w(
            "pad",
            "",
            Word("np_thru_hole"),
            Word("circle"),
            w("at", 0, 0),
            w("size", hole.drill, hole.drill),
            w("drill", hole.drill),
            [Word("layers"), "*.Cu", "*.Mask"],
            uid(hole.name, "pad"),
        )
        texts = [
            w(
                "property",
                key,
                value,
                w("at", 0, 0, 0),
                w("layer", "F.Fab"),
                w("hide", Word("yes")),
                uid(hole.name, key),
                w("effects", w("font", w("size", 1.0, 1.0), w("thickness", 0.15))),
            )
            for key, value in (("Reference", hole.name), ("Value", f"hole {hole.drill} mm"))
        ]
        circle = w(
            "fp_circle",
            w("center", 0, 0),
            w("end", hole.keep_out - 0.25, 0),
            w("stroke", w("width", 0.05), w("type", Word("solid"))),
            w("fill", Word("no")),
            w("layer", "F.CrtYd"),
            uid(hole.name, "courtyard"),
        )
        attr: list[Node] = [Word("attr"), Word("board_only"), Word("exclude_from_pos_files"), Word("exclude_from_bom")]
        made.append(
            [
                Word("footprint"),
                "wattbell:hole",
                w("layer", "F.Cu"),
                uid("hole", hole.name),
                xy("at", hole.at),
                attr,
                *texts,
                circle,
                pad,
            ]
        )
    return made


def _notes() -> list[Node]:
    """The fabrication drawing's text, right of the board."""
    font = w("font", w("size", 1.5, 1.5), w("thickness", 0.15))
    text = "\n".join(fabrication())
    place = w("at", 148, 44, 0)  # on the page, not on the board
    justify = w("justify", Word("left"), Word("top"))
    return w("gr_text", text, place, w("layer", "Dwgs.User"), uid("notes"), w("effects", font, justify))


def _zones(numbers: dict[str, int], names: dict[str, str]) -> list[list[Node]]:
    made = []
    for n, zone in enumerate(tomllib.loads(ZONES.read_text())["zone"]):
        net = zone["net"]
        if net not in numbers:
            continue
        whole = {"board": False, "board and tongue": True}
        corners = outline.polygon(0.3, whole[zone["at"]]) if isinstance(zone["at"], str) else zone["at"]
        points: list[Node] = [Word("pts"), *(xy("xy", (x, y)) for x, y in corners)]
        for layer in zone["layers"]:
            made.append(
                w(
                    "zone",
                    w("net", numbers[net]),
                    w("net_name", names[net]),
                    w("layer", layer),
                    uid("zone", n, layer),
                    w("name", f"{net} {layer}"),
                    w("hatch", Word("edge"), 0.5),
                    w("priority", zone.get("priority", 0)),
                    w("connect_pads", *([Word("yes")] if zone.get("solid") else []), w("clearance", zone.get("clearance", 0.15))),
                    w("min_thickness", 0.12),
                    w("fill", Word("yes"), w("thermal_gap", 0.2), w("thermal_bridge_width", 0.2), w("island_removal_mode", 0)),
                    w("polygon", points),
                )
            )
    return made


def _keep_outs() -> list[list[Node]]:
    """No copper around the holes, and where zones.toml says."""
    made = []
    for hole in outline.holes():
        r = hole.drill / 2 + 0.5
        x, y = hole.at
        corners = [(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)]
        made.append(_rule_area(hole.name, corners, COPPER, "not_allowed"))
    made += [_rule_area(free["name"], free["at"], free["layers"], "allowed") for free in tomllib.loads(ZONES.read_text()).get("free", [])]
    return made


def _rule_area(name: str, corners: Sequence[tuple[float, float]], layers: Sequence[str], tracks: str) -> list[Node]:
    """No planes here; tracks and vias as said."""
    points: list[Node] = [Word("pts"), *(xy("xy", at) for at in corners)]
    return w(
        "zone",
        w("net", 0),
        w("net_name", ""),
        [Word("layers"), *layers],
        uid("keep-out", name),
        w("name", name),
        w("hatch", Word("edge"), 0.5),
        w("connect_pads", w("clearance", 0)),
        w("min_thickness", 0.12),
        w(
            "keepout",
            w("tracks", Word(tracks)),
            w("vias", Word(tracks)),
            w("pads", Word("allowed")),
            w("copperpour", Word("not_allowed")),
            w("footprints", Word("allowed")),
        ),
        w("fill", w("thermal_gap", 0.2), w("thermal_bridge_width", 0.2)),
        w("polygon", points),
    )


def _copper(copper: Copper, numbers: dict[str, int]) -> list[list[Node]]:
    made = []
    for n, track in enumerate(sorted(copper.tracks, key=lambda t: (t.net, t.layer, t.start, t.end))):
        made.append(
            w(
                "segment",
                xy("start", track.start),
                xy("end", track.end),
                w("width", round(track.width, 4)),
                w("layer", track.layer),
                w("net", numbers[track.net]),
                uid("track", n, track.net),
            )
        )
    for n, via in enumerate(sorted(copper.vias, key=lambda v: (v.net, v.at))):
        made.append(
            w(
                "via",
                xy("at", via.at),
                w("size", via.pad),
                w("drill", via.drill),
                [Word("layers"), "F.Cu", "B.Cu"],
                w("net", numbers[via.net]),
                uid("via", n, via.net),
            )
        )
    return made


def _footprint(design: Design, part: Placed, numbers: dict[str, int], names: dict[str, str], sheet: str) -> list[Node]:
    meant = design.parts[part.ref]
    nets: dict[str, list[Node]] = {pin: w("net", numbers[net], names[net]) for pin, net in meant.pins.items() if net}
    value = meant.value if meant.builds in ("TP", "") else f"{meant.value} [{meant.builds}]"
    fields = {
        "Reference": part.ref,
        "Value": value,
        "Datasheet": "",
        "Description": meant.note,
        "BOM": meant.bom,
        "Builds": meant.builds or "none",
    }
    extra = [w("path", symbol_path(sheet, part.ref)), w("sheetname", f"/{sheet}/"), w("sheetfile", f"{sheet}.kicad_sch")]
    return part.node(nets, fields, extra, () if meant.builds else ("dnp",))


def board_text(design: Design, sheets: Sequence[Sheet], layout: Layout, copper: Copper, title: str) -> str:
    """The file."""
    names = net_names(sheets)
    numbers = {net: n for n, net in enumerate(sorted(design.nets), 1)}
    stack = load()
    notches = [
        (part.at[1] - 1.75, part.at[1] + 1.75)
        for ref, part in layout.placed.items()
        if "MMCX" in part.footprint and design.parts[ref].sheet == "trigger"
    ]
    layers: list[Node] = [[Word(str(_NUMBERS[name])), name, Word("signal")] for name in COPPER]
    layers += [[Word(str(n)), name, Word("user"), *([shown] if shown else [])] for n, name, shown in _OTHERS]
    head: list[Node] = [
        w("version", Word("20241229")),
        w("generator", "wattbell"),
        w("generator_version", "9.0"),
        w("general", w("thickness", round(stack.thickness * 1e3, 4)), w("legacy_teardrops", Word("no"))),
        w("paper", "A3"),
        w("title_block", w("title", title), w("rev", "0"), w("company", "Wattbell")),
        [Word("layers"), *layers],
        w(
            "setup",
            _stack(stack),
            w("pad_to_mask_clearance", 0),
            w("allow_soldermask_bridges_in_footprints", Word("yes")),
            w("tenting", Word("front"), Word("back")),
        ),
        w("net", 0, ""),
        *(w("net", numbers[net], names[net]) for net in sorted(design.nets)),
    ]
    parts = [_footprint(design, part, numbers, names, design.parts[ref].sheet) for ref, part in sorted(layout.placed.items())]
    body = [*parts, *_holes(), *_outline(notches), _notes(), *_copper(copper, numbers), *_zones(numbers, names), *_keep_outs()]
    lines = ["(kicad_pcb", *(_flat(node) for node in [*head, *body] if isinstance(node, list)), ")"]
    return "\n".join(lines) + "\n"


def _flat(node: list[Node]) -> str:
    """A line an item, and a line each child of a footprint: what changes together stands together."""
    if node[0] == "footprint":
        inner = "\n".join(f"\t\t{_one_line(child)}" if isinstance(child, list) else f"\t\t{_one_line([child])[1:-1]}" for child in node[1:])
        return f"\t(footprint\n{inner}\n\t)"
    return f"\t{_one_line(node)}"


def _one_line(node: list[Node]) -> str:
    return " ".join(line.strip() for line in dump(node).splitlines()).replace(" )", ")")
