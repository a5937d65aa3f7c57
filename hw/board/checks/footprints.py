"""Every part's footprint is there, and its pads have the numbers of the symbol's pins.

Numbers only: that a pin's function sits on the right pad, and that the land fits the maker's drawing, is for a person to compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..check import Check
from ..design import KICAD, design
from ..netlist import Design
from ..schematic.sexpr import children, parse
from ..schematic.symbols import KICAD_SHARE

__all__ = ["footprint_path", "numbers_of_pads", "pads_as_pins", "slow"]


def slow() -> Iterator[Check]:
    """Needs KiCad's footprints."""
    ours = design()
    paths = {name: footprint_path(name) for name in sorted({part.footprint for part in ours.parts.values()})}
    missing = [name for name, path in paths.items() if not path.is_file()]
    yield Check("footprints that are there", f"{len(paths) - len(missing)} of {len(paths)}", "all", not missing, ", ".join(missing))
    yield pads_as_pins(ours, {name: numbers_of_pads(path) for name, path in paths.items() if path.is_file()})


def footprint_path(name: str) -> Path:
    """Where ``Library:Name`` is, KiCad's or ours."""
    library, _, footprint = name.partition(":")
    folder = KICAD / "lib" if library == "wattbell" else KICAD_SHARE / "footprints"
    return folder / f"{library}.pretty" / f"{footprint}.kicad_mod"


def numbers_of_pads(path: Path) -> frozenset[str]:
    """Numbers of a footprint's pads. Pads without one (holes, parts of the stencil) do not count."""
    return frozenset(str(pad[1]) for pad in children(parse(path.read_text()), "pad") if str(pad[1]))


def pads_as_pins(ours: Design, pads: Mapping[str, frozenset[str]]) -> Check:
    """Parts whose footprint is in ``pads``: pins of the symbol and pads, both ways."""
    looked = [part for part in ours.parts.values() if part.footprint in pads]
    wrong = [
        f"{part.ref} ({part.footprint}): pins without a pad {sorted(set(part.pins) - pads[part.footprint])}, "
        f"pads without a pin {sorted(pads[part.footprint] - set(part.pins))}"
        for part in looked
        if set(part.pins) != pads[part.footprint]
    ]
    return Check("pads as pins, by number", f"{len(looked) - len(wrong)} of {len(looked)} parts", "all", not wrong, "\n".join(wrong))
