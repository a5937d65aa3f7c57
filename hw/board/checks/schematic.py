"""The schematic: KiCad's own rules, KiCad's netlist compared with ours, and the committed files with the generated ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..check import Check
from ..design import KICAD, design, project_files
from ..kicadcli import erc, netlist
from ..netlist import Design
from ..schematic.write import PROJECT

__all__ = ["quick", "same_files", "same_nets", "slow"]


def quick() -> Iterator[Check]:
    """Check without KiCad."""
    yield same_files(KICAD)


def slow() -> Iterator[Check]:
    """Check with KiCad."""
    schematic = KICAD / f"{PROJECT}.kicad_sch"
    found = erc(schematic)
    errors = [f"{kind}: {where}" for severity, kind, where in found if severity == "error"]
    warnings = [f"{kind}: {where}" for severity, kind, where in found if severity != "error"]
    yield Check("ERC, errors", str(len(errors)), "0", not errors, "\n".join(errors[:20]))
    yield Check("ERC, warnings", str(len(warnings)), "0", not warnings, "\n".join(warnings[:20]))
    yield same_nets(design(), netlist(schematic))


def same_files(folder: Path) -> Check:
    """Check that committed files equal the sheets' output, byte by byte."""
    made = project_files()
    other = [str(path) for path, text in made.items() if not (folder / path).is_file() or (folder / path).read_text() != text]
    known = {str(path) for path in made}
    stray = [str(p.relative_to(folder)) for p in folder.glob("*.kicad_sch") if str(p.relative_to(folder)) not in known]
    detail = "; ".join([*(f"{name} differs" for name in other), *(f"{name} is no sheet's" for name in stray)])
    return Check("generated files as committed", f"{len(made) - len(other)} of {len(made)}", "all", not other and not stray, detail)


def same_nets(ours: Design, theirs: dict[str, frozenset[tuple[str, str]]]) -> Check:
    """KiCad reads the nets out of the drawing that the sheets meant, pin by pin, both ways."""
    wanted = {name: net.pins for name, net in ours.nets.items()}
    wrong = [
        f"{name}: only meant {sorted(wanted.get(name, frozenset()) - theirs.get(name, frozenset()))}, "
        f"only drawn {sorted(theirs.get(name, frozenset()) - wanted.get(name, frozenset()))}"
        for name in sorted(wanted.keys() | theirs.keys())
        if wanted.get(name) != theirs.get(name)
    ]
    return Check(
        "nets of KiCad's netlist as meant", f"{len(wanted) - len(wrong)} of {len(wanted)}", "all", not wrong, "\n".join(wrong[:20])
    )
