"""Net classes and design rules from stackup.toml and fab.toml: the fab's limits and the pairs' needs."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from ..netlist import Design
from ..signal.stackup import load

__all__ = ["board_settings", "class_rules", "dru", "fab", "net_settings"]

PATH = Path(__file__).with_name("fab.toml")


@cache
def fab() -> dict[str, Any]:
    """Return the fab's limits and our widths, in mm."""
    return tomllib.loads(PATH.read_text())


def class_rules(name: str) -> dict[str, float]:
    """Return width, clearance, via pad and drill of a class, and width and gap of a pair, in mm."""
    table = fab()["class"]
    rules = table["Default"] | table.get(name, {})
    if "pair" in rules:
        pair = load().pairs[rules["pair"]]
        width, gap = round(pair.width * 1e3, 4), round(pair.gap * 1e3, 4)
        return {**rules, "width": width, "pair_width": width, "pair_gap": gap}
    return {**rules, "pair_width": rules["width"], "pair_gap": rules["clearance"]}


def net_settings(design: Design, names: dict[str, str]) -> dict[str, Any]:
    """Return ``net_settings`` of the project file. ``names``: KiCad's name of each net."""
    classes = []
    for n, name in enumerate(("Default", *sorted({net.netclass for net in design.nets.values()} - {"Default"}))):
        rules = class_rules(name)
        classes.append(
            {
                "name": name,
                "priority": 2147483647 if name == "Default" else n - 1,
                "clearance": rules["clearance"],
                "track_width": rules["width"],
                "via_diameter": rules["via"],
                "via_drill": rules["drill"],
                "diff_pair_width": rules["pair_width"],
                "diff_pair_gap": rules["pair_gap"],
                "diff_pair_via_gap": 0.25,
                "microvia_diameter": 0.3,
                "microvia_drill": 0.1,
                "bus_width": 12,
                "wire_width": 6,
                "line_style": 0,
                "pcb_color": "rgba(0, 0, 0, 0.000)",
                "schematic_color": "rgba(0, 0, 0, 0.000)",
            }
        )
    patterns = [{"netclass": net.netclass, "pattern": names[net.name]} for net in design.nets.values() if net.netclass != "Default"]
    return {"classes": classes, "meta": {"version": 4}, "net_colors": None, "netclass_assignments": None, "netclass_patterns": patterns}


def board_settings() -> dict[str, Any]:
    """Return ``board`` of the project file: the fab's least figures, and the severities."""
    least = fab()["least"]
    rules = {
        "min_clearance": least["clearance"],
        "min_track_width": least["track"],
        "min_via_diameter": least["via"],
        "min_through_hole_diameter": least["drill"],
        "min_via_annular_width": least["annular"],
        "min_hole_to_hole": least["hole_to_hole"],
        "min_hole_clearance": least["hole_clearance"],
        "min_copper_edge_clearance": least["edge"],
        "min_resolved_spokes": 1,
        "min_text_height": 0.6,
        "min_text_thickness": 0.08,
        "min_silk_clearance": 0.0,
        "solder_mask_to_copper_clearance": 0.0,
        "use_height_for_length_calcs": True,
    }
    severities = fab()["severity"]
    return {"design_settings": {"meta": {"version": 2}, "rules": rules, "rule_severities": severities, "defaults": {}}}


def dru() -> str:
    """Return the file of rules that a class cannot express."""
    parts = ["(version 1)"]
    for rule in fab()["rule"]:
        constraint = "\n".join(f"  (constraint {line})" for line in rule["constraints"])
        layer = f"\n  (layer {rule['layer']})" if "layer" in rule else ""
        parts.append(f'# {rule["why"]}\n(rule "{rule["name"]}"{layer}\n{constraint}\n  (condition "{rule["when"]}"))')
    return "\n\n".join(parts) + "\n"
