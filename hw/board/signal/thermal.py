"""Temperatures of the board as a thin plate: planes conduct, both faces give heat to the air (scikit-fem).

k t (Laplace of T) = h T - q. No part's own resistance is in it except the FPGA's to the board; no drive above it, no case, no draught.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from skfem import Basis, BilinearForm, ElementQuad1, LinearForm, MeshQuad, solve
from skfem.helpers import dot, grad

from ..layout.frame import XY
from ..raster import Grid

__all__ = ["PATH", "Plate", "around", "load", "plate"]

PATH = Path(__file__).with_name("thermal.toml")
COPPER_W_M_K = 385.0
STEP = 1e-3


@dataclass(frozen=True)
class Plate:
    """Kelvin above the air."""

    basis: Basis
    rise: np.ndarray

    def at(self, x_mm: float, y_mm: float) -> float:
        """Temperature rise at a point of the board."""
        return float((self.basis.probes(np.array([[x_mm], [y_mm]]) * 1e-3) @ self.rise)[0])

    def mean(self, rectangle: list[float]) -> float:
        """Over a rectangle, in mm."""
        x, y = self.basis.doflocs * 1e3
        inside = (x >= rectangle[0]) & (x <= rectangle[2]) & (y >= rectangle[1]) & (y <= rectangle[3])
        return float(self.rise[inside].mean())


@BilinearForm
def _plate(u, v, w):  # type: ignore[no-untyped-def]
    return w["sheet"] * dot(grad(u), grad(v)) + w["film"] * u * v


@LinearForm
def _heat(v, w):  # type: ignore[no-untyped-def]
    return w["flux"] * v


def load(path: Path = PATH) -> dict[str, Any]:
    """The file. Raises ``ValueError`` for a figure without a source."""
    data = tomllib.loads(path.read_text())
    named = [*data["board"].values(), *data["source"], data["shunt"]["gradient_k"]]
    if unknown := [str(f["source"]) for f in named if f["source"] not in data["sources"]]:
        raise ValueError(f"{path.name}: no source {unknown[0]!r}")
    return data


def plate(outline: Sequence[XY], copper_mm: float, film: float, sources: list[tuple[float, list[float]]]) -> Plate:
    """``outline``: corners in mm. ``sources``: watts and rectangles in mm, cut at the outline; ``film`` of one face in W/(m2 K)."""
    xs, ys = [x for x, _ in outline], [y for _, y in outline]
    grid = Grid.over((min(xs), min(ys), max(xs), max(ys)), STEP * 1e3)
    axes = [np.arange(n + 1) * STEP + start * 1e-3 for n, start in ((grid.columns, grid.x0), (grid.rows, grid.y0))]
    whole = MeshQuad.init_tensor(*axes)
    middle = whole.p[:, whole.t].mean(axis=1) * 1e3
    column, row = ((middle - [[grid.x0], [grid.y0]]) / grid.step).astype(int)
    mesh = whole.restrict(np.flatnonzero(grid.polygon(outline)[row, column]))
    basis = Basis(mesh, ElementQuad1())
    x, y = mesh.p[:, mesh.t].mean(axis=1) * 1e3
    flux = np.zeros(mesh.nelements)
    for watts, (x0, y0, x1, y1) in sources:
        inside = (x > x0) & (x < x1) & (y > y0) & (y < y1)
        if not inside.any():
            raise ValueError(f"a source of {watts} W lies beside the board")
        flux[inside] += watts / (inside.sum() * STEP**2)
    matrix = _plate.assemble(basis, sheet=COPPER_W_M_K * copper_mm * 1e-3, film=2 * film)
    return Plate(basis, solve(matrix, _heat.assemble(basis, flux=np.repeat(flux[:, None], basis.dx.shape[1], axis=1))))


def around(at: XY, size: float) -> list[float]:
    """A square of ``size`` mm about a place."""
    return [at[0] - size / 2, at[1] - size / 2, at[0] + size / 2, at[1] + size / 2]
