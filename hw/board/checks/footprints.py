"""Checks of the footprints: every part has one, its pads have the numbers of the symbol's pins, and the M.2 fingers are where
KiCad's are.

The other footprints are compared by numbers only. A person has to check that a pin's function is on the right pad, and that the
land fits the maker's drawing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..check import Check
from ..design import KICAD, design
from ..netlist import Design
from ..schematic.sexpr import children, first, parse
from ..schematic.symbols import KICAD_SHARE

__all__ = ["Land", "fingers_as", "footprint_path", "lands", "numbers_of_pads", "pads_as_pins", "slow"]

Land = tuple[float, float, float, float, str]
"""Land of a pad: x, y, width, height in mm, and the copper layer, as in the footprint."""
OTHERS_EDGE = "Connector_PCBEdge:M.2_2280-xx-M"


def slow() -> Iterator[Check]:
    """Run the checks; they need KiCad's footprints."""
    ours = design()
    paths = {name: footprint_path(name) for name in sorted({part.footprint for part in ours.parts.values()})}
    missing = [name for name, path in paths.items() if not path.is_file()]
    yield Check("footprints that are there", f"{len(paths) - len(missing)} of {len(paths)}", "all", not missing, ", ".join(missing))
    yield pads_as_pins(ours, {name: numbers_of_pads(path) for name, path in paths.items() if path.is_file()})
    yield fingers_as(lands(footprint_path("wattbell:M2_M_edge")), lands(footprint_path(OTHERS_EDGE)))


def footprint_path(name: str) -> Path:
    """Return the file of ``Library:Name``, KiCad's or ours."""
    library, _, footprint = name.partition(":")
    folder = KICAD / "lib" if library == "wattbell" else KICAD_SHARE / "footprints"
    return folder / f"{library}.pretty" / f"{footprint}.kicad_mod"


def numbers_of_pads(path: Path) -> frozenset[str]:
    """Return the numbers of a footprint's pads. Pads without a number (holes, parts of the stencil) do not count."""
    return frozenset(str(pad[1]) for pad in children(parse(path.read_text()), "pad") if str(pad[1]))


def lands(path: Path) -> dict[str, Land]:
    """Return the pads by number; the last of several with one number."""
    found: dict[str, Land] = {}
    for pad in children(parse(path.read_text()), "pad"):
        at, size, layers = first(pad, "at"), first(pad, "size"), first(pad, "layers")
        assert at is not None and size is not None and layers is not None
        x, y, width, height = (float(str(value)) for value in (*at[1:3], *size[1:3]))
        found[str(pad[1])] = (x, y, width, height, next(str(layer) for layer in layers[1:] if str(layer).endswith("Cu")))
    return found


def fingers_as(ours: Mapping[str, Land], theirs: Mapping[str, Land]) -> Check:
    """Check that every finger of the edge is where KiCad's own card edge has it, to 1 um."""

    def near(one: Land | None, other: Land | None) -> bool:
        if one is None or other is None or one[4] != other[4]:
            return False
        return all(abs(a - b) < 1e-3 for a, b in zip(one[:4], other[:4], strict=True))

    wrong = [
        f"{n}: {ours.get(n)}, KiCad's {theirs.get(n)}" for n in sorted(ours.keys() | theirs.keys()) if not near(ours.get(n), theirs.get(n))
    ]
    return Check("M.2 fingers as KiCad's edge", f"{len(theirs) - len(wrong)} of {len(theirs)}", "all", not wrong, "\n".join(wrong))


def pads_as_pins(ours: Design, pads: Mapping[str, frozenset[str]]) -> Check:
    """Compare the symbol's pins with the pads, both ways, for parts with a footprint in ``pads``."""
    looked = [part for part in ours.parts.values() if part.footprint in pads]
    wrong = [
        f"{part.ref} ({part.footprint}): pins without a pad {sorted(set(part.pins) - pads[part.footprint])}, "
        f"pads without a pin {sorted(pads[part.footprint] - set(part.pins))}"
        for part in looked
        if set(part.pins) != pads[part.footprint]
    ]
    return Check("pads as pins, by number", f"{len(looked) - len(wrong)} of {len(looked)} parts", "all", not wrong, "\n".join(wrong))
