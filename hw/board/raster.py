"""Copper of a board on a raster: the cells of each layer that belong to a net. Planes are filled by KiCad, or here if the file has no fill.

Our fill is the zone's outline without three areas: other nets' copper with its clearance, zones that come first, and zones that keep copper
away. Bridges join pads of the net where the zone asks for them. A cell counts by its middle, so an edge is off by half a cell at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .layout.frame import XY
from .pcb import Pcb, PcbPad, PcbTrack, PcbVia, Zone

__all__ = ["Grid", "copper"]

Mask = np.ndarray


@dataclass(frozen=True)
class Grid:
    """Cells of ``step`` mm from a corner."""

    x0: float
    y0: float
    columns: int
    rows: int
    step: float

    @classmethod
    def over(cls, box: tuple[float, float, float, float], step: float) -> Grid:
        """Return the grid of a box x0, y0, x1, y1."""
        return cls(box[0], box[1], round((box[2] - box[0]) / step), round((box[3] - box[1]) / step), step)

    @property
    def x(self) -> np.ndarray:
        return self.x0 + (np.arange(self.columns) + 0.5) * self.step

    @property
    def y(self) -> np.ndarray:
        return self.y0 + (np.arange(self.rows) + 0.5) * self.step

    def empty(self) -> Mask:
        return np.zeros((self.rows, self.columns), dtype=bool)

    def cell(self, at: XY) -> tuple[int, int] | None:
        """Row and column of a place; None outside."""
        i, j = int((at[1] - self.y0) // self.step), int((at[0] - self.x0) // self.step)
        return (i, j) if 0 <= i < self.rows and 0 <= j < self.columns else None

    def _window(self, x0: float, y0: float, x1: float, y1: float) -> tuple[slice, slice]:
        def of(low: float, high: float, origin: float, most: int) -> slice:
            return slice(max(int((low - origin) // self.step), 0), min(int((high - origin) // self.step) + 1, most))

        return of(y0, y1, self.y0, self.rows), of(x0, x1, self.x0, self.columns)

    def polygon(self, corners: Sequence[XY]) -> Mask:
        """Inside of a closed line, by the even-odd rule."""
        mask = self.empty()
        if len(corners) < 3:
            return mask
        points = np.array([*corners, corners[0]])
        rows, columns = self._window(*points.min(axis=0), *points.max(axis=0))
        x, y = self.x[columns][None, :], self.y[rows][:, None]
        inside = np.zeros((y.shape[0], x.shape[1]), dtype=bool)
        for (ax, ay), (bx, by) in zip(points[:-1], points[1:]):
            if ay == by:
                continue
            crosses = (ay > y) != (by > y)
            inside ^= crosses & (x < (bx - ax) * (y - ay) / (by - ay) + ax)
        mask[rows, columns] = inside
        return mask

    def near(self, mask: Mask, a: XY, b: XY, radius: float) -> None:
        """Add all within ``radius`` of the way from ``a`` to ``b``."""
        rows, columns = self._window(min(a[0], b[0]) - radius, min(a[1], b[1]) - radius, max(a[0], b[0]) + radius, max(a[1], b[1]) + radius)
        x, y = self.x[columns][None, :], self.y[rows][:, None]
        dx, dy = b[0] - a[0], b[1] - a[1]
        square = dx * dx + dy * dy
        t = np.clip(((x - a[0]) * dx + (y - a[1]) * dy) / square, 0.0, 1.0) if square else 0.0
        mask[rows, columns] |= (x - a[0] - t * dx) ** 2 + (y - a[1] - t * dy) ** 2 <= radius * radius

    def around(self, mask: Mask, corners: Sequence[XY], far: float) -> None:
        """Add a polygon and all within ``far`` around."""
        mask |= self.polygon(corners)
        if far > 0:
            for a, b in zip(corners, [*corners[1:], corners[0]]):
                self.near(mask, a, b, far)


def copper(board: Pcb, net: str, layer: str, grid: Grid) -> Mask:
    """Cells of a net on a layer."""
    mask = grid.empty()
    for zone in board.zones:
        if zone.net == net and zone.layer == layer:
            if zone.filled:
                for part in zone.filled:
                    mask |= grid.polygon(part)
            else:
                mask |= _fill(board, zone, grid)
    for item in _items(board, net, layer):
        _paint(grid, mask, item, 0.0)
    return mask


def _items(board: Pcb, net: str, layer: str) -> list[PcbPad | PcbTrack | PcbVia]:
    found: list[PcbPad | PcbTrack | PcbVia] = [pad for pad in board.pads if pad.net == net and layer in pad.layers]
    found += [track for track in board.tracks if track.net == net and track.layer == layer]
    found += [via for via in board.vias if via.net == net]
    return found


def _paint(grid: Grid, mask: Mask, item: PcbPad | PcbTrack | PcbVia, far: float) -> None:
    if isinstance(item, PcbPad):
        grid.around(mask, item.corners, far)
    elif isinstance(item, PcbTrack):
        grid.near(mask, item.start, item.end, item.width / 2 + far)
    else:
        grid.near(mask, item.at, item.at, item.size / 2 + far)


def _fill(board: Pcb, zone: Zone, grid: Grid) -> Mask:
    mask = grid.polygon(zone.outline)
    away = grid.empty()
    for pad in board.pads:
        if zone.layer in pad.layers and pad.net != zone.net:
            grid.around(away, pad.corners, zone.clearance)
        elif pad.drill and not pad.layers:
            grid.near(away, pad.at, pad.at, pad.drill / 2 + zone.clearance)
    for track in board.tracks:
        if track.layer == zone.layer and track.net != zone.net:
            _paint(grid, away, track, zone.clearance)
    for via in board.vias:
        if via.net != zone.net:
            _paint(grid, away, via, zone.clearance)
    for other in board.zones:
        if other.layer == zone.layer and other is not zone and other.net != zone.net and (not other.net or other.priority > zone.priority):
            grid.around(away, other.outline, zone.clearance if other.net else 0.0)
    mask &= ~away
    if not zone.solid:
        for pad in board.pads:
            if zone.layer in pad.layers and pad.net == zone.net:
                _relief(grid, mask, pad, zone)
    return mask


def _relief(grid: Grid, mask: Mask, pad: PcbPad, zone: Zone) -> None:
    """A gap around a pad, with four bridges from its middle outwards."""
    ring, bridges = grid.empty(), grid.empty()
    grid.around(ring, pad.corners, zone.gap)
    xs, ys = [c[0] for c in pad.corners], [c[1] for c in pad.corners]
    x, y, half = pad.at[0], pad.at[1], zone.bridge / 2
    left, right, low, high = min(xs) - zone.gap, max(xs) + zone.gap, min(ys) - zone.gap, max(ys) + zone.gap
    bridges |= grid.polygon([(left, y - half), (right, y - half), (right, y + half), (left, y + half)])
    bridges |= grid.polygon([(x - half, low), (x + half, low), (x + half, high), (x - half, high)])
    mask &= ~ring | bridges
