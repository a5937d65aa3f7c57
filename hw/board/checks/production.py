"""The files for who makes the board, against the board's own file and the design: layers, holes, nets of the pads, places of the parts."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..bom import BUILDS, NOT_BOUGHT
from ..check import Check
from ..design import design
from ..kicadcli import WORK
from ..layout.board import FILE
from ..layout.frame import kicad_xy
from ..netlist import Design
from ..pcb import Pcb, read
from ..production import committed, digests, make

__all__ = ["as_committed", "drilled", "layers", "nets", "placed", "slow"]

NEAR = 0.002
"""mm by which a place may differ, because of rounding in files."""


def slow() -> Iterator[Check]:
    """Check what needs KiCad."""
    folder = WORK / "board-files"
    made = make(folder, pictures=False)
    board, ours = read(FILE), design()
    yield as_committed(digests(made), committed())
    yield layers(made)
    yield drilled(sum(holes(made[name].read_text()) for name in made if name.endswith(".drl")), board)
    yield nets(next(path for name, path in made.items() if name.endswith(".ipc")).read_text(), ours)
    for build in BUILDS:
        yield placed(made[f"positions-{build}.csv"], board, ours, build)


def as_committed(found: Mapping[str, str], known: Mapping[str, str]) -> Check:
    """Compare the content of the files made now, by digest."""
    other = sorted(name for name in found.keys() | known.keys() if found.get(name) != known.get(name))
    figure = f"{len(found) - len([name for name in other if name in found])} of {len(known)}"
    return Check("files for the fab, as committed", figure, "all", not other, f"{', '.join(other)}: run 'python -m board --write'")


def layers(made: Mapping[str, Path]) -> Check:
    """Each layer's gerber draws something."""
    gerbers = {name: path.read_text() for name, path in made.items() if name.endswith(".gbr")}
    empty = [name for name, text in gerbers.items() if not re.search(r"D0[13]\*", text)]
    return Check(
        "gerbers with something on them", f"{len(gerbers) - len(empty)} of {len(gerbers)}", "all 15", len(gerbers) == 15 and not empty
    )


def holes(text: str) -> int:
    """Hits of an Excellon file; a slot is one."""
    return sum(bool(re.match(r"X-?[\d.]+Y-?[\d.]+", line)) for line in text.splitlines())


def drilled(found: int, board: Pcb) -> Check:
    """Compare the holes with the vias and drilled pads of the board's file, and its holes without copper."""
    meant = len(board.vias) + sum(pad.drill > 0 for pad in board.pads)
    return Check("holes drilled", str(found), f"{meant}, as the board's file has", found == meant)


def nets(text: str, ours: Design) -> Check:
    """Compare IPC-D-356, which the fab tests with, with the design: pads by part and pin, on nets.

    KiCad cuts long names and numbers them. So the groups of pads are compared, not the names of nets.
    """
    together: dict[str, set[tuple[str, str]]] = {}
    for line in text.splitlines():
        record = re.match(r"3[12]7(.{14})   (\S+)\s*-(\S+)", line)
        if record and record[2] in ours.parts and record[1].strip() != "N/C":
            together.setdefault(record[1].strip(), set()).add((record[2], record[3]))
    meant = {frozenset(net.pins) for net in ours.nets.values()}
    wrong = [f"{name}: {sorted(pins)[:6]}" for name, pins in together.items() if frozenset(pins) not in meant]
    figure = f"{len(together) - len(wrong)} of {len(ours.nets)} nets"
    return Check("IPC-D-356, nets as the design's", figure, "all", not wrong and len(together) == len(ours.nets), "\n".join(wrong[:10]))


def placed(path: Path, board: Pcb, ours: Design, build: str) -> Check:
    """Every bought part of a build once, where the board's file has it, on its side."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    wanted = {ref for ref, part in ours.parts.items() if build in part.builds and part.bom != NOT_BOUGHT}
    wrong = [f"{ref} {count} times" for ref, count in Counter(row["Ref"] for row in rows).items() if count > 1]
    wrong += [f"{ref} is missing" for ref in sorted(wanted - {row["Ref"] for row in rows})]
    for row in rows:
        at, side = board.parts[row["Ref"]]
        x, y = kicad_xy(at)
        if (
            abs(float(row["PosX"]) - x) > NEAR
            or abs(float(row["PosY"]) + y) > NEAR
            or row["Side"][0].upper() != ("T" if side == "F" else "B")
        ):
            wrong.append(f"{row['Ref']}: {row['PosX']}, {row['PosY']}, {row['Side']}")
    return Check(
        f"places of build {build}'s parts",
        f"{len(rows)} of {len(wanted)}",
        "all",
        not wrong and len(rows) == len(wanted),
        "\n".join(wrong[:10]),
    )
