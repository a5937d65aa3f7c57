"""Estimates of temperatures: the FPGA's junction, the difference across the shunt, the board under the regulators. Places are the
board file's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import powertree
from ..check import Check
from ..design import design
from ..layout.board import FILE
from ..layout.outline import polygon
from ..netlist import DesignError
from ..pcb import Pcb, read
from ..powertree import Tree
from ..signal import thermal

__all__ = ["quick", "temperatures"]

REGULATOR = 4.0
"""Side in mm of the square that a regulator heats."""


def quick() -> Iterator[Check]:
    """Run the estimates; they need no KiCad."""
    yield from temperatures(thermal.load(), read(FILE), losses(Tree(design(), powertree.load())))


def losses(tree: Tree) -> dict[str, float]:
    """Return the loss in W of each part of the power tree on USB, at the largest currents."""
    return {link.part.ref: tree.loss(link) for link in tree.links.values() if link.part.ref[0] == "U"}


def temperatures(data: dict[str, Any], board: Pcb, regulators: dict[str, float]) -> Iterator[Check]:
    """Yield the rows of one board and one set of powers. Raises DesignError for a part that is not on the board."""
    figures = {key: figure["value"] for key, figure in data["board"].items()}
    sources = [(s["power"] / len(s["parts"]), thermal.around(_at(board, ref), s["size"])) for s in data["source"] for ref in s["parts"]]
    sources += [(watt, thermal.around(_at(board, ref), REGULATOR)) for ref, watt in regulators.items()]
    found = thermal.plate(polygon(tongue=True), figures["copper_mm"], figures["film"], sources)
    ambient = figures["ambient_c"]
    fpga = next(s for s in data["source"] if s["name"] == "FPGA")
    under = found.mean(thermal.around(_at(board, fpga["parts"][0]), fpga["size"]))
    junction, limit = ambient + under + fpga["power"] * figures["junction_to_board"], figures["junction_c"]
    figure = f"{junction:.0f} C in air of {ambient:.0f} C"
    yield Check("heat, FPGA's junction (estimate)", figure, f"{limit:.0f} C", junction <= limit, "powers assumed")
    warmest = max(regulators, key=lambda ref: found.at(*_at(board, ref)))
    celsius, most = ambient + found.at(*_at(board, warmest)), figures["board_c"]
    yield Check(
        "heat, board under a regulator (estimate)", f"{celsius:.0f} C ({warmest})", f"{most:.0f} C", celsius <= most, "powers assumed"
    )
    shunt = data["shunt"]
    first, second = (found.at(*board.pad(shunt["part"], number).at) for number in shunt["ends"])
    shown, allowed = abs(second - first), shunt["gradient_k"]["value"]
    yield Check("heat, difference across the shunt (estimate)", f"{shown:.2f} K", f"{allowed} K", shown <= allowed, "powers assumed")
    warm = (first + second) / 2
    yield Check("heat, shunt over the air (estimate)", f"{warm:.0f} K", "60 K", warm <= 60.0, "its own heating in the foil comes on top")


def _at(board: Pcb, ref: str) -> tuple[float, float]:
    if ref not in board.parts:
        raise DesignError(f"{ref} is not on the board: its heat is nowhere")
    return board.parts[ref][0]
