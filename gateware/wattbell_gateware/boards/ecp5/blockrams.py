"""Placement of an ECP5's block RAMs, better than nextpnr's, which puts each where it finds room and leaves it in its row.

The part has its block RAMs in four rows, 12 to 24 tiles apart. nextpnr's placers first solve for unrestricted positions. Then they
look for the nearest free place, one block RAM after the other. By the log of its `static` placer, this adds two thirds to the
length of all wires in this design. Later refinement moves cells by a few tiles, so never from row to row.

This module reads a whole placement. Block RAMs change places while this shortens the wires at their pins; all other cells stay. A
second placement then holds the block RAMs there, and everything else follows them.

A wire's length is half the circumference of the smallest rectangle around its pins, in tiles.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Improved", "block_rams", "hold", "improve", "read_places", "write_places"]

KIND = "DP16KD"
CLOCKS = ("CLKA", "CLKB")
"""Pins with global wires."""
MOST_PINS = 2000
"""Most pins of a wire that counts. Wires with more are resets and similar: global, or everywhere."""
ROUNDS = 40
LEAST = 1.0
"""Tiles that a move must save at least."""


@dataclass(frozen=True)
class Improved:
    """Better places of the block RAMs.

    - ``bels``: block RAM -> its place.
    - ``before``, ``after``: length of the wires at block RAMs, in tiles.
    """

    bels: dict[str, str]
    before: float
    after: float


def improve(netlist: Mapping, seed: int = 1) -> Improved:
    """Return better places for the block RAMs of ``netlist``, a placed module as nextpnr's ``--write`` gives it.

    Raises ValueError if no block RAM has a place. The places are all rows that have a block RAM in the placement, times all columns
    that have one.
    """
    return _Search(netlist, random.Random(seed)).run()


def block_rams(netlist: Mapping) -> set[str]:
    """Return the names of the block RAMs of a module."""
    return {name for name, cell in netlist["cells"].items() if cell["type"] == KIND}


def read_places(path: Path) -> dict[str, str]:
    """Read a file of :func:`write_places`; return block RAM -> its place. Raises ValueError with the file's name for other content."""
    try:
        places = json.loads(path.read_text())
        if not all(re.fullmatch(r"X\d+/Y\d+/EBR\d+", bel) for bel in places.values()) or len({*places.values()}) != len(places):
            raise ValueError("not a different place X../Y../EBR.. for each block RAM")
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
    return places


def write_places(path: Path, places: Mapping[str, str]) -> None:
    """Write the places, one a line, in the order of their names."""
    path.write_text(json.dumps(dict(sorted(places.items())), indent=1) + "\n")


def hold(netlist: Mapping, bels: Mapping[str, str]) -> None:
    """Make nextpnr keep the block RAMs of an unplaced module at the places in ``bels``. Block RAMs without an entry stay free."""
    for name, bel in bels.items():
        if name in netlist["cells"]:
            netlist["cells"][name]["attributes"]["BEL"] = bel


def _at(bel: str) -> tuple[int, int, str]:
    found = re.fullmatch(r"X(\d+)/Y(\d+)/(\S+)", bel)
    assert found, f"{bel} is no place of nextpnr"
    return int(found[1]), int(found[2]), found[3]


class _Search:
    def __init__(self, netlist: Mapping, rng: random.Random) -> None:
        self._rng = rng
        cells = netlist["cells"]
        bels = {name: cell["attributes"]["NEXTPNR_BEL"] for name, cell in cells.items() if "NEXTPNR_BEL" in cell["attributes"]}
        self._names = [name for name in bels if cells[name]["type"] == KIND]
        if not self._names:
            raise ValueError(f"no cell {KIND} has a place: was this written behind the placement?")
        number = {name: i for i, name in enumerate(self._names)}
        taken = [_at(bels[name]) for name in self._names]
        rows, columns = sorted({row for _, row, _ in taken}), sorted({(column, place) for column, _, place in taken})
        self._sites = [f"X{column}/Y{row}/{place}" for row in rows for column, place in columns]
        place = {bel: k for k, bel in enumerate(self._sites)}
        self._where = np.array([_at(bel)[:2] for bel in self._sites], dtype=float)
        self._site = np.array([place[bels[name]] for name in self._names])
        self._holder = {int(site): i for i, site in enumerate(self._site)}

        self._wires: list[list[int]] = [[] for _ in self._names]  # wires of each block RAM
        self._on: list[list[int]] = []  # block RAMs on each wire
        boxes = []  # box of each wire's other pins: left, right, top, bottom
        for pins in _wires(cells, bels):
            here = sorted({number[name] for name in pins if name in number})
            if not here or not 2 <= len(pins) <= MOST_PINS:
                continue
            for i in here:
                self._wires[i].append(len(self._on))
            self._on.append(here)
            others = [_at(bels[name])[:2] for name in pins if name not in number]
            x, y = zip(*others, strict=True) if others else ((), ())
            boxes.append((min(x, default=np.inf), max(x, default=-np.inf), min(y, default=np.inf), max(y, default=-np.inf)))
        self._boxes = np.array(boxes)
        self._near = [{j for wire in wires for j in self._on[wire]} for wires in self._wires]

    def run(self) -> Improved:
        before = best = self._length()
        kept = self._site.copy()
        costs = np.array([self._costs(i) for i in range(len(self._names))])
        for _ in range(ROUNDS):
            order = list(range(len(self._names)))
            self._rng.shuffle(order)
            moves = sum(self._move(i, costs) for i in order)
            # Two block RAMs on one wire may each gain only if the other stays: the length decides.
            if (length := self._length()) < best:
                best, kept = length, self._site.copy()
            elif not moves:
                break
        return Improved({name: self._sites[site] for name, site in zip(self._names, kept, strict=True)}, before, best)

    def _move(self, i: int, costs: np.ndarray) -> bool:
        """Put block RAM `i` where it saves most, and the block RAM there into its place. Return whether it moved."""
        here = int(self._site[i])
        change = costs[i] - costs[i][here]
        for site, j in self._holder.items():
            if j != i:
                change[site] += costs[j][here] - costs[j][site]
        there = int(np.argmin(change))
        if change[there] > -LEAST:
            return False
        changed = {i}
        other = self._holder.pop(there, None)
        del self._holder[here]
        self._site[i], self._holder[there] = there, i
        if other is not None:
            self._site[other], self._holder[here] = here, other
            changed.add(other)
        for k in {k for j in changed for k in self._near[j]} | changed:
            costs[k] = self._costs(k)
        return True

    def _box(self, wire: int, without: int = -1) -> tuple[float, float, float, float]:
        left, right, top, bottom = self._boxes[wire]
        for j in self._on[wire]:
            if j != without:
                x, y = self._where[self._site[j]]
                left, right, top, bottom = min(left, x), max(right, x), min(top, y), max(bottom, y)
        return left, right, top, bottom

    def _costs(self, i: int) -> np.ndarray:
        """Return the length of the wires of block RAM `i` for each place, with all else unchanged."""
        if not self._wires[i]:
            return np.zeros(len(self._sites))
        left, right, top, bottom = np.array([self._box(wire, i) for wire in self._wires[i]]).T
        x, y = self._where[:, :1], self._where[:, 1:]
        return (np.maximum(x, right) - np.minimum(x, left) + np.maximum(y, bottom) - np.minimum(y, top)).sum(axis=1)

    def _length(self) -> float:
        return sum(right - left + bottom - top for left, right, top, bottom in map(self._box, range(len(self._on))))


def _wires(cells: Mapping, bels: Mapping[str, str]) -> list[list[str]]:
    """Return the cells at each wire but clocks, one for each pin."""
    wires: dict[int, list[str]] = {}
    for name in bels:
        cell = cells[name]
        for port, bits in cell["connections"].items():
            if cell["type"] == KIND and port in CLOCKS:
                continue
            for bit in bits:
                if isinstance(bit, int):
                    wires.setdefault(bit, []).append(name)
    return list(wires.values())
