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
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve

__all__ = ["PATH", "PINS", "Join", "Solution", "Terminal", "Via", "barrel", "conduct", "load", "rise", "solve"]

PATH = Path(__file__).with_name("copper.toml")
STEP = 0.1
"""Size of a cell, mm."""
PINS = (2, 4, 12, 14, 16, 18, 70, 72, 74)
"""3.3 V of M.2 key M, all in one row."""

Rectangle = tuple[float, float, float, float]
Via = tuple[str, str, float, float, float]
"""Two layers, x and y in mm, resistance in ohm."""
Join = tuple[str, str, int, int, float]
"""Joined cells: two layers, row and column of a cell, resistance in ohm."""
Terminal = tuple[str, np.ndarray]
"""A pad: its layer, and its cells."""


@dataclass(frozen=True)
class Solution:
    resistance: float
    """Resistance between the two terminals, in ohm."""
    row_current: dict[str, np.ndarray]
    """Share of the current that crosses each line of constant y, by layer."""
    row_width: dict[str, np.ndarray]
    """Width of copper on that line, in mm."""
    pad_shares: list[float]
    """Share of the current in each pad of the second terminal, or of the first if that has several."""
    necks: dict[str, list[tuple[float, float]]]
    """Share of the current, and width in mm, of each unbroken piece of copper on each line of either direction; by layer."""
    via_share: float
    """Share of the current in the fullest barrel."""


def barrel(length: float, drill: float, plating: float, conductivity: float) -> float:
    """Return a via's resistance in ohm; lengths in m."""
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
    """Solve conduction between two terminals. ``conductance``: of a square of each layer, in S.

    ``contact``: ohm between each pad and its terminal, for a terminal with several pads. Raises ``ValueError`` if a terminal is on
    no copper, or copper does not join the two.
    """
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

    masks = {}
    for name, rectangles in sheets.items():
        masks[name] = inside(rectangles)
        for layer, pads in (start, end):
            if layer == name:
                masks[name] |= inside(pads)
    joins = [(first, second, int((y - y0) / step), int((x - x0) / step), ohm) for first, second, x, y, ohm in vias]
    held = []
    for layer, rectangles in (start, end):
        for rectangle in rectangles:
            if not (inside([rectangle]) & masks[layer]).any():
                raise ValueError(f"terminal {rectangle} on {layer}: no copper")
        held.append([(layer, inside([rectangle])) for rectangle in rectangles])
    return conduct(masks, conductance, joins, held[0], held[1], step, contact)


def conduct(
    masks: dict[str, np.ndarray],
    conductance: dict[str, float],
    joins: list[Join],
    start: list[Terminal],
    end: list[Terminal],
    step: float = STEP,
    contact: float = 0.0,
) -> Solution:
    """Solve conduction in copper given as cells. A terminal is several pads; ``contact`` as in :func:`solve`.

    Copper without connection to a terminal is left out.
    """
    index: dict[str, np.ndarray] = {}
    count = 0
    for name, mask in masks.items():
        numbers = np.full(mask.shape, -1)
        numbers[mask] = count + np.arange(mask.sum())
        index[name] = numbers
        count += int(mask.sum())
    ends: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for name, numbers in index.items():
        for a, b in ((numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])):
            both = (a >= 0) & (b >= 0)
            ends.append((a[both], b[both], np.full(int(both.sum()), conductance[name])))
    through = []
    for first, second, i, j, ohm in joins:
        a, b = index[first][i, j], index[second][i, j]
        if a < 0 or b < 0:
            raise ValueError(f"via in row {i}, column {j}: no copper on {first if a < 0 else second}")
        through.append((a, b, 1 / ohm))
    if through:
        a, b, g = (np.array(x) for x in zip(*through))
        ends.append((a, b, g))
    pads = []
    for terminal, value in ((start, 1.0), (end, 0.0)):
        for layer, where in terminal:
            cells = index[layer][where]
            cells = cells[cells >= 0]
            if not len(cells):
                raise ValueError(f"a terminal on {layer}: no copper")
            if contact and len(terminal) > 1:
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
    _, island = connected_components(matrix, directed=False)
    free = np.flatnonzero(~fixed & np.isin(island, island[fixed]))
    volts[free] = spsolve(matrix[free][:, free], -matrix[free][:, np.flatnonzero(fixed)] @ volts[fixed])
    into = matrix @ volts
    currents = [(value, float(into[cells].sum())) for value, cells in pads]
    total = sum(c for value, c in currents if value == 1.0)
    if not np.all(np.isfinite(volts)) or total <= 1e-9 * max(conductance.values()):
        raise ValueError("the two terminals are not joined by copper")
    several = 1.0 if len(start) > 1 else 0.0
    row_current, row_width, necks = {}, {}, {}
    for name, numbers in index.items():
        flows = []
        for a, b in ((numbers[:-1], numbers[1:]), (numbers[:, :-1].T, numbers[:, 1:].T)):
            both = (a >= 0) & (b >= 0)
            flows.append((both, np.where(both, (volts[np.maximum(a, 0)] - volts[np.maximum(b, 0)]) * conductance[name], 0.0) / total))
        both, flow = flows[0]
        row_current[name] = np.abs(flow).sum(axis=1)
        row_width[name] = both.sum(axis=1) * step
        necks[name] = [run for one in flows for run in _runs(*one, step)]
    carried = [abs(float(volts[a] - volts[b])) * g / total for a, b, g in through]
    shares = [abs(c) / total for value, c in currents if value == several]
    return Solution(1 / total, row_current, row_width, shares, necks, max(carried, default=0.0))


def _runs(both: np.ndarray, flow: np.ndarray, step: float) -> list[tuple[float, float]]:
    """Return (share of the current, width in mm) of each unbroken piece of copper along each line."""
    found = []
    padded = np.pad(both.astype(np.int8), ((0, 0), (1, 1)))
    change = np.diff(padded, axis=1)
    sums = np.pad(np.cumsum(flow, axis=1), ((0, 0), (1, 0)))
    for row in np.flatnonzero(both.any(axis=1)):
        for low, high in zip(np.flatnonzero(change[row] == 1), np.flatnonzero(change[row] == -1)):
            found.append((abs(float(sums[row, high] - sums[row, low])), float(high - low) * step))
    return found


def load(path: Path = PATH) -> dict[str, Any]:
    """Read the file. Raises ``ValueError`` for a figure without a source."""
    data = tomllib.loads(path.read_text())
    for key, figure in data["figures"].items():
        if figure["source"] not in data["sources"]:
            raise ValueError(f"{path.name}: {key}: no source {figure['source']!r}")
    return data


def rise(current: float, area_mm2: float, inner: bool) -> float:
    """Return the warming in K of a conductor of ``area_mm2``: IPC-2221, I = k dT^0.44 A^0.725 with A in square mils."""
    k = 0.024 if inner else 0.048
    return float((current / (k * (area_mm2 / 6.4516e-4) ** 0.725)) ** (1 / 0.44))
