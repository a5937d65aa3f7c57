"""Estimate of the FPGA's junction and of the temperature difference across the shunt, of intended places and assumed powers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..check import Check
from ..signal import thermal

__all__ = ["quick", "temperatures"]


def quick() -> Iterator[Check]:
    """Needs no KiCad."""
    yield from temperatures(thermal.load())


def temperatures(data: dict[str, Any]) -> Iterator[Check]:
    """Rows of one set of figures."""
    board = {key: figure["value"] for key, figure in data["board"].items()}
    sources = [(s["power"], s["at"]) for s in data["source"]]
    found = thermal.plate(board["width"], board["length"], board["copper_mm"], board["film"], sources)
    fpga = next(s for s in data["source"] if s["name"] == "FPGA")
    junction = board["ambient_c"] + found.mean(fpga["at"]) + fpga["power"] * board["junction_to_board"]
    limit = board["junction_c"]
    figure, bound = f"{junction:.0f} C in air of {board['ambient_c']:.0f} C", f"{limit:.0f} C"
    yield Check("heat, FPGA's junction (estimate)", figure, bound, junction <= limit, "powers assumed")
    first, second = (found.at(*end) for end in data["shunt"]["ends"])
    shown, allowed = abs(second - first), data["shunt"]["gradient_k"]["value"]
    yield Check("heat, difference across the shunt (estimate)", f"{shown:.2f} K", f"{allowed} K", shown <= allowed, "powers assumed")
