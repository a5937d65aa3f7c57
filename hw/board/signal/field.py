"""Quasi-static field of a cross-section of traces by finite elements (scikit-fem): capacitance, inductance, skin resistance.

A cross-section is made of rectangles: dielectrics by their permittivity, conductors held at a voltage. The mesh is a grid of quadratic
elements. It has lines on every edge, graded towards the corners of the conductors. A pair is solved as its right half: the plane of
symmetry is at 0 V in the odd mode and a wall without flux in the even one. Capacitance is twice the energy at 1 V. Finite elements give too
much, by less than 0.3 % here: ``tests/hw/board/test_field.py`` compares with Cohn's exact stripline and with Hammerstad and Jensen's
microstrip.

Not modelled: the slanting flanks of an etched trace, the weave of the glass, a plane's edge, mode conversion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from skfem import Basis, BilinearForm, ElementQuad2, MeshQuad, condense, solve
from skfem.helpers import dot, grad

__all__ = [
    "EPSILON_0",
    "MU_0",
    "SPEED_OF_LIGHT",
    "Conductor",
    "CrossSection",
    "Dielectric",
    "LineConstants",
    "capacitance",
    "coupling",
    "line",
    "skin_factor",
]

EPSILON_0 = 8.8541878128e-12
MU_0 = 4e-7 * np.pi
SPEED_OF_LIGHT = 299792458.0


@dataclass(frozen=True)
class Dielectric:
    """A rectangle, in m; later ones of a section cover earlier ones."""

    x0: float
    x1: float
    y0: float
    y1: float
    epsilon: float
    name: str = ""


@dataclass(frozen=True)
class Conductor:
    """A rectangle in m; ``volts`` is 0 for grounds."""

    x0: float
    x1: float
    y0: float
    y1: float
    volts: float = 0.0

    def recessed(self, by: float) -> Conductor:
        """All faces moved inwards."""
        return replace(self, x0=self.x0 + by, x1=self.x1 - by, y0=self.y0 + by, y1=self.y1 - by)


@dataclass(frozen=True)
class CrossSection:
    """The section between x0 and x1, y0 and y1. ``left`` is "odd" (0 V) or "even" (no flux); the right and upper walls are without flux."""

    x0: float
    x1: float
    y0: float
    y1: float
    dielectrics: tuple[Dielectric, ...]
    conductors: tuple[Conductor, ...]
    left: str = "even"

    def air(self) -> CrossSection:
        return replace(self, dielectrics=())

    def recessed(self, by: float) -> CrossSection:
        """Return the cross-section with all conductors smaller; walls at which they end stay in place."""
        walls = (self.x0, self.x1, self.y0, self.y1)

        def shrink(c: Conductor) -> Conductor:
            small = c.recessed(by)
            return replace(
                small,
                x0=c.x0 if c.x0 <= walls[0] else small.x0,
                x1=c.x1 if c.x1 >= walls[1] else small.x1,
                y0=c.y0 if c.y0 <= walls[2] else small.y0,
                y1=c.y1 if c.y1 >= walls[3] else small.y1,
            )

        return replace(self, conductors=tuple(map(shrink, self.conductors)))


@dataclass(frozen=True)
class LineConstants:
    """A line per metre, of one trace of the mode.

    capacitance: F/m
    inductance: H/m, outside the metal
    shares: share of the field's energy in each named dielectric
    skin: resistance in ohm/m of smooth copper over its surface resistance in ohm (1/m)
    """

    capacitance: float
    inductance: float
    shares: dict[str, float]
    skin: float

    @property
    def impedance(self) -> float:
        """Impedance of one trace in this mode; a pair's differential impedance is twice the odd mode's."""
        return float(np.sqrt(self.inductance / self.capacitance))

    @property
    def epsilon_effective(self) -> float:
        return self.capacitance * self.inductance * SPEED_OF_LIGHT**2


def _grid(edges: list[float], corners: list[float], finest: float, ratio: float) -> np.ndarray:
    """Points from the first edge to the last, all edges among them, steps growing by ``ratio`` away from every corner."""
    edges = sorted(set(edges))
    points = [edges[0]]
    sharp = np.array(sorted(corners)) if corners else np.array([edges[0]])
    for low, high in zip(edges, edges[1:]):
        if high - low < 1e-9:
            continue

        def size(x: float) -> float:
            return float(finest + (ratio - 1) * np.min(np.abs(sharp - x)))

        inner = [low]
        while inner[-1] < high:
            inner.append(inner[-1] + min(size(inner[-1]), size(min(high, inner[-1] + size(inner[-1])))))
        # Squeezed to end on the edge.
        scaled = low + (np.array(inner) - low) * (high - low) / (inner[-1] - low)
        points.extend(scaled[1:])
    return np.array(points)


@BilinearForm
def _energy(u, v, w):  # type: ignore[no-untyped-def]
    return w["epsilon"] * dot(grad(u), grad(v))


def capacitance(section: CrossSection, finest: float = 1.5e-6, ratio: float = 1.35) -> tuple[float, dict[str, float]]:
    """Twice the energy at the conductors' voltages, in F/m (of the half that is solved), and the shares of named dielectrics."""
    xs, ys = [section.x0, section.x1], [section.y0, section.y1]
    corner_x, corner_y = [], []
    for c in section.conductors:
        xs += [x for x in (c.x0, c.x1) if section.x0 < x < section.x1]
        ys += [y for y in (c.y0, c.y1) if section.y0 < y < section.y1]
        corner_x += [x for x in (c.x0, c.x1) if section.x0 < x < section.x1]
        corner_y += [y for y in (c.y0, c.y1) if section.y0 < y < section.y1]
    for d in section.dielectrics:
        xs += [x for x in (d.x0, d.x1) if section.x0 < x < section.x1]
        ys += [y for y in (d.y0, d.y1) if section.y0 < y < section.y1]
    mesh = MeshQuad.init_tensor(_grid(xs, corner_x, finest, ratio), _grid(ys, corner_y, finest, ratio))
    middles = mesh.p[:, mesh.t].mean(axis=1)
    epsilon = np.ones(mesh.nelements)
    owner = np.full(mesh.nelements, -1)
    for n, d in enumerate(section.dielectrics):
        inside = (middles[0] > d.x0) & (middles[0] < d.x1) & (middles[1] > d.y0) & (middles[1] < d.y1)
        epsilon[inside], owner[inside] = d.epsilon, n
    basis = Basis(mesh, ElementQuad2())
    at = basis.doflocs
    fixed = np.zeros(at.shape[1], dtype=bool)
    u = np.zeros(at.shape[1])
    metal = np.zeros(mesh.nelements, dtype=bool)
    slack = 1e-12
    if section.left == "odd":
        fixed |= at[0] <= section.x0 + slack
    for c in section.conductors:
        inside = (at[0] >= c.x0 - slack) & (at[0] <= c.x1 + slack) & (at[1] >= c.y0 - slack) & (at[1] <= c.y1 + slack)
        fixed |= inside
        u[inside] = c.volts
        metal |= (middles[0] > c.x0) & (middles[0] < c.x1) & (middles[1] > c.y0) & (middles[1] < c.y1)
    weights = np.repeat(epsilon[:, None], basis.dx.shape[1], axis=1)
    matrix = _energy.assemble(basis, epsilon=weights)
    u = solve(*condense(matrix, np.zeros_like(u), x=u, D=np.flatnonzero(fixed)))
    field = basis.interpolate(u).grad
    density = (field[0] ** 2 + field[1] ** 2) * weights * basis.dx
    per_element = density.sum(axis=1)
    total = per_element.sum()
    shares: dict[str, float] = {}
    for n, d in enumerate(section.dielectrics):
        if d.name:
            shares[d.name] = shares.get(d.name, 0.0) + float(per_element[owner == n].sum() / total)
    return float(EPSILON_0 * total), shares


def skin_factor(section: CrossSection, by: float = 1e-6) -> float:
    """Wheeler's incremental inductance rule: R = Rs / mu0 * dL/dn when all faces of all metal recede (1/m)."""
    volts = max(abs(c.volts) for c in section.conductors)

    def inductance(s: CrossSection) -> float:
        return EPSILON_0 * MU_0 / (capacitance(s.air())[0] / volts**2)

    return (inductance(section.recessed(by)) - inductance(section)) / by / MU_0


def line(section: CrossSection, skin: bool = True, finest: float = 1.5e-6) -> LineConstants:
    """Return the line with its one conductor at 1 V."""
    filled, shares = capacitance(section, finest)
    empty, _ = capacitance(section.air(), finest)
    return LineConstants(filled, EPSILON_0 * MU_0 / empty, shares, skin_factor(section) if skin else 0.0)


def coupling(section: CrossSection, volts: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """Maxwell's matrix in F/m between modes of a section. ``volts``: for each mode, the voltages of the conductors; by energies of
    sums of modes."""

    def energy(values: tuple[float, ...]) -> float:
        conductors = tuple(replace(c, volts=v) for c, v in zip(section.conductors, values))
        return capacitance(replace(section, conductors=conductors), 3e-6)[0]

    count = len(volts)
    own = [energy(v) for v in volts]
    matrix = np.diag(own)
    for i in range(count):
        for j in range(i):
            both = energy(tuple(a + b for a, b in zip(volts[i], volts[j])))
            matrix[i, j] = matrix[j, i] = (both - own[i] - own[j]) / 2
    return matrix
