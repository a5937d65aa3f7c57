"""Resistance of the rail's copper: sheets on a raster, joined by vias; drops, current in contacts, density.

Each copper cell of ``STEP`` is a node; neighbours are joined by the sheet's conductance, layers by the vias' barrels. Pads are held at a
voltage each. ``tests/hw/board/test_copper.py`` holds it to strips, to a corner's 0.559 squares and to vias in parallel.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.linalg import spsolve

from .stackup import Stackup

__all__ = ["PATH", "PINS", "Solution", "Via", "barrel", "load", "rail", "rise", "solve"]

PATH = Path(__file__).with_name("copper.toml")
STEP = 0.1
"""mm"""
PINS = (2, 4, 12, 14, 16, 18, 70, 72, 74)
"""3.3 V of M.2 key M, all in one row."""

Rectangle = tuple[float, float, float, float]
Via = tuple[str, str, float, float, float]
"""Two layers, x and y in mm, resistance in ohm."""


@dataclass(frozen=True)
class Solution:
    resistance: float
    """ohm, between the two terminals."""
    row_current: dict[str, np.ndarray]
    """Share of the current that crosses each line of constant y, by layer."""
    row_width: dict[str, np.ndarray]
    """Copper on that line, mm."""
    pad_shares: list[float]
    """Share of the current in each rectangle of the second terminal, or of the first if that has several."""


def pin_x(number: int) -> float:
    """Middle of a contact of the even row, mm from the connector's middle: 0.5 mm pitch, both rows half a pitch apart."""
    return 9.0 - 0.25 * (number - 2)


def barrel(length: float, drill: float, plating: float, conductivity: float) -> float:
    """A via's resistance, ohm; lengths in m."""
    return length / (conductivity * math.pi * (drill - plating) * plating)


def solve(
    sheets: dict[str, list[Rectangle]],
    conductance: dict[str, float],
    vias: list[Via],
    start: tuple[str, list[Rectangle]],
    end: tuple[str, list[Rectangle]],
    step: float = STEP,
    contact: float = 0.0,
) -> Solution:
    """``conductance`` of a square of each layer, in S. Raises ``ValueError`` where a terminal lies on no copper, or copper does not join
    the two. ``contact``: ohm between each pad and its terminal, where a terminal has several pads."""
    everything = [r for rectangles in sheets.values() for r in rectangles] + start[1] + end[1]
    x0, y0 = min(r[0] for r in everything), min(r[1] for r in everything)
    columns = round((max(r[2] for r in everything) - x0) / step)
    rows = round((max(r[3] for r in everything) - y0) / step)
    middle_x, middle_y = x0 + (np.arange(columns) + 0.5) * step, y0 + (np.arange(rows) + 0.5) * step

    def inside(rectangles: list[Rectangle]) -> np.ndarray:
        mask = np.zeros((rows, columns), dtype=bool)
        for a, b, c, d in rectangles:
            mask |= ((middle_y > b) & (middle_y < d))[:, None] & ((middle_x > a) & (middle_x < c))[None, :]
        return mask

    index: dict[str, np.ndarray] = {}
    count = 0
    for name, rectangles in sheets.items():
        mask = inside(rectangles)
        for layer, pads in (start, end):
            if layer == name:
                mask |= inside(pads)
        numbers = np.full(mask.shape, -1)
        numbers[mask] = count + np.arange(mask.sum())
        index[name] = numbers
        count += int(mask.sum())
    ends: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for name, numbers in index.items():
        for a, b in ((numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])):
            both = (a >= 0) & (b >= 0)
            ends.append((a[both], b[both], np.full(int(both.sum()), conductance[name])))
    for first, second, x, y, ohm in vias:
        i, j = int((y - y0) / step), int((x - x0) / step)
        a, b = index[first][i, j], index[second][i, j]
        if a < 0 or b < 0:
            raise ValueError(f"via at {x}, {y}: no copper on {first if a < 0 else second}")
        ends.append((np.array([a]), np.array([b]), np.array([1 / ohm])))
    pads = []
    for (layer, rectangles), value in ((start, 1.0), (end, 0.0)):
        for rectangle in rectangles:
            cells = index[layer][inside([rectangle])]
            cells = cells[cells >= 0]
            if not len(cells):
                raise ValueError(f"terminal {rectangle} on {layer}: no copper")
            if contact and len(rectangles) > 1:
                # The contact touches the whole pad: a node of its own, joined to every cell.
                ends.append((np.full(len(cells), count), cells, np.full(len(cells), 1 / (contact * len(cells)))))
                cells = np.array([count])
                count += 1
            pads.append((value, cells))
    left, right, g = (np.concatenate(x) for x in zip(*ends))
    values = np.concatenate([g, g, -g, -g])
    at = np.concatenate([left, right, left, right]), np.concatenate([left, right, right, left])
    matrix = csr_matrix(coo_matrix((values, at), (count, count)))
    volts = np.zeros(count)
    fixed = np.zeros(count, dtype=bool)
    for value, cells in pads:
        volts[cells], fixed[cells] = value, True
    free = np.flatnonzero(~fixed)
    volts[free] = spsolve(matrix[free][:, free], -matrix[free][:, np.flatnonzero(fixed)] @ volts[fixed])
    into = matrix @ volts
    currents = [(value, float(into[cells].sum())) for value, cells in pads]
    total = sum(c for value, c in currents if value == 1.0)
    if not np.all(np.isfinite(volts)) or total <= 1e-9 * max(conductance.values()):
        raise ValueError("the two terminals are not joined by copper")
    several = 1.0 if len(start[1]) > 1 else 0.0
    row_current, row_width = {}, {}
    for name, numbers in index.items():
        a, b = numbers[:-1], numbers[1:]
        both = (a >= 0) & (b >= 0)
        flow = np.where(both, (volts[np.maximum(a, 0)] - volts[np.maximum(b, 0)]) * conductance[name], 0.0)
        row_current[name] = np.abs(flow).sum(axis=1) / total
        row_width[name] = both.sum(axis=1) * step
    return Solution(1 / total, row_current, row_width, [abs(c) / total for value, c in currents if value == several])


def load(path: Path = PATH) -> dict[str, Any]:
    """The file. Raises ``ValueError`` for a figure without a source."""
    data = tomllib.loads(path.read_text())
    for key, figure in data["figures"].items():
        if figure["source"] not in data["sources"]:
            raise ValueError(f"{path.name}: {key}: no source {figure['source']!r}")
    return data


def rail(stack: Stackup, data: dict[str, Any], part: str, contact: float = 0.0) -> Solution:
    """One of the three stretches of the rail, "host", "switched", "drive"."""
    entry, figures = data[part], {key: f["value"] for key, f in data["figures"].items()}
    layers = {key: key.replace("_", ".") for key in entry if key.endswith("_Cu")}
    conductance = {key: stack.conductivity * stack.layer(name).thickness for key, name in layers.items()}
    vias: list[Via] = []
    for x0, y0, x1, y1, columns, rows in entry["vias"]:
        for x in np.linspace(x0, x1, int(columns)):
            for y in np.linspace(y0, y1, int(rows)):
                # The barrel joins whichever outer sheet has copper there with the inner one.
                for key in layers:
                    if key != "In4_Cu" and any(a < x < c and b < y < d for a, b, c, d in entry[key]):
                        outer, inner = stack.layer(layers[key]), stack.layer("In4.Cu")
                        length = abs(outer.top - inner.top)
                        ohm = barrel(length, figures["drill_mm"] * 1e-3, figures["plating_mm"] * 1e-3, stack.conductivity)
                        vias.append((key, "In4_Cu", float(x), float(y), ohm))
    ends = []
    for terminal in (entry["from"], entry["to"]):
        kind, layer, *where = terminal
        if kind == "pins":
            low, high = where
            ends.append((layer, [(pin_x(n) - 0.15, low, pin_x(n) + 0.15, high) for n in PINS]))
        else:
            ends.append((layer, [tuple(where)]))
    return solve({key: [tuple(r) for r in entry[key]] for key in layers}, conductance, vias, ends[0], ends[1], contact=contact)


def rise(current: float, area_mm2: float, inner: bool) -> float:
    """Kelvin that a conductor of ``area_mm2`` warms by: IPC-2221, I = k dT^0.44 A^0.725 with A in square mils."""
    k = 0.024 if inner else 0.048
    return float((current / (k * (area_mm2 / 6.4516e-4) ** 0.725)) ** (1 / 0.44))
