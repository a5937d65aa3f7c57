"""Energy of classes of commands from phases that mix them in different ways: least squares over the phases of a capture.

The energy that a phase drew above idle is known to 0.1 %, whatever its commands were. The cost of each class is not. Short times within a
phase do not separate the classes. A write is over long before its data is in flash, and a loaded drive's power hardly follows its commands
(``docs/energy.md`` has figures). Phases do differ. So each phase is one equation for its energy above idle. The terms are the counts of its
classes times their energies, and the controller's power times the time with anything in flight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit  # Student's t; scipy.stats has the same and takes half a second to import

from wattbell.analysis.energybins import POWERS_W
from wattbell.measure.figure import K

Float = npt.NDArray[np.float64]

CONDITION_LIMIT = 300.0
"""Directions of the design, columns scaled to unit length, that are weaker than the strongest by more than this are not seen."""
_UNSEEN = 1e-3
"""Part of a combination that may lie in such directions."""
SPARE = 3
"""Phases needed beyond the number of directions, to judge the model by."""
MOST_SPREAD = 0.05
"""Relative spread of the residuals beyond which the phases do not follow one model, and no class is separated."""
WIDEST = 0.5
"""Relative half-width (95 %) beyond which a class is not separated from another."""
_OWN_PHASE, _LEAST_FREE = 0.99, 1e-3
"""Leverage from which on the other phases do not determine a phase; and the least remainder assumed for a phase."""
_LEAST_PART = 1e-4
"""Share of a phase's energy. A smaller part cannot be distinguished from zero."""
_FIRST_W = 0.1
"""First guess of the controller's power, and"""
_ROUNDS = 4
"""how often that is mended."""


@dataclass(frozen=True)
class PhaseLoad:
    """One equation.

    counts, shared_s: commands of each class, and their equal shares of the time with anything in flight, by name of the class
    above_j: energy above idle, k = 2 ``u_j``
    after_s: time the controller was on with nothing in flight, for each of ``POWERS_W``
    after_parts: share of each class in ``after_s``, adding up to 1
    earlier_j: k = 2 of the energy that may be work left by earlier phases; infinite if the phase does not show it
    """

    counts: dict[str, int]
    shared_s: dict[str, float]
    above_j: float
    u_j: float
    after_s: Float | None = None
    after_parts: dict[str, float] = field(default_factory=dict)
    earlier_j: float = 0.0

    @property
    def usable(self) -> bool:
        """Whether every term is known, and the energy is positive."""
        return self.above_j > 0 and math.isfinite(self.earlier_j) and not (self.after_s is not None and bool(np.isnan(self.after_s).any()))

    def with_after(self, power_w: float) -> PhaseLoad:
        """The same, time after commands shared out, with a controller that draws ``power_w``."""
        if self.after_s is None:
            return self
        after = float(np.interp(math.log(max(power_w, POWERS_W[0])), np.log(POWERS_W), self.after_s))
        shared = {name: own + after * self.after_parts.get(name, 0.0) for name, own in self.shared_s.items()}
        return PhaseLoad(self.counts, shared, self.above_j, self.u_j, earlier_j=self.earlier_j)


@dataclass(frozen=True)
class Fit:
    """The result of a fit.

    names: the classes; the last coefficient is the controller's power in W, the others joule a command
    seen: orthonormal directions of the scaled design that the phases determine
    quantile: 97.5 % of Student's t
    spread: relative error of a phase's energy as the other phases predict it
    """

    names: list[str]
    scale: Float
    theta: Float
    covariance: Float
    seen: Float
    quantile: float
    spread: float
    phases: int

    @property
    def controller_w(self) -> float:
        """Power in W that the controller draws while it is on."""
        return float(self.theta[-1] / self.scale[-1])

    def combination(self, weights: Float, part: float = 1.0) -> tuple[float, float]:
        """Return value and half-width (95 %) of ``weights @ coefficients`` in one phase; infinite if the phases do not determine it.

        part: share of the phase's energy that the combination has

        A phase is off by ``spread``, whatever it mixes. The errors of its classes are taken as independent, and their sum must not depend
        on how finely commands are divided into classes. The variance of a class therefore goes with its part of the energy. A tenth of the
        energy has three times the relative error.
        """
        scaled = weights / self.scale
        inside = self.seen @ (self.seen.T @ scaled)
        value = float(scaled @ self.theta)
        if np.linalg.norm(scaled - inside) > _UNSEEN * np.linalg.norm(scaled):
            return value, math.inf
        variance = max(0.0, float(scaled @ self.covariance @ scaled))
        own = self.spread * value / math.sqrt(min(max(part, _LEAST_PART), 1.0))
        return value, self.quantile * math.hypot(math.sqrt(variance), own)

    def weights(self, load: PhaseLoad, names: Sequence[str]) -> Float:
        """The combination that is the mean energy of the commands of these classes in a phase."""
        total = sum(load.counts[name] for name in names)
        out = np.array([load.counts[name] / total if name in names else 0.0 for name in self.names] + [0.0])
        out[-1] = sum(load.shared_s[name] for name in names) / total
        return out


def fit(loads: Sequence[PhaseLoad]) -> Fit | None:
    """Fit the phases; None if they are too few. Each equation is divided by its phase's energy, since errors of the model grow with it."""
    loads = [load for load in loads if load.above_j > 0]
    names = sorted({name for load in loads for name in load.counts})
    if len(loads) < SPARE + 2:
        return None
    rows = [[load.counts.get(name, 0) / load.above_j for name in names] + [sum(load.shared_s.values()) / load.above_j] for load in loads]
    design = np.array(rows, np.float64)
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0] = 1.0
    _, singular, directions = np.linalg.svd(design / scale, full_matrices=False)
    seen = directions[singular > singular[0] / CONDITION_LIMIT].T
    free = len(loads) - seen.shape[1]
    if free < SPARE:
        return None
    reduced = (design / scale) @ seen
    solution, *_ = np.linalg.lstsq(reduced, np.ones(len(loads)), rcond=None)
    # The error of each phase as the other phases predict it. A phase that has a class for itself is fitted exactly: no information.
    bread = np.linalg.inv(reduced.T @ reduced)
    leverage = np.einsum("ij,jk,ik->i", reduced, bread, reduced)
    left_out = (1.0 - reduced @ solution) / np.maximum(1.0 - leverage, _LEAST_FREE)
    told = leverage < _OWN_PHASE
    if not told.any():
        return None
    variance = float(np.mean(left_out[told] ** 2))
    earlier = np.array([load.earlier_j / K / load.above_j for load in loads])
    covariance = seen @ bread @ (reduced.T * (left_out**2 + earlier**2)) @ reduced @ bread @ seen.T  # HC3
    theta, spread = seen @ solution, math.sqrt(variance)
    return Fit(names, scale, theta, covariance, seen, float(stdtrit(free, 0.975)), spread, len(loads))


def settle(loads: Sequence[PhaseLoad]) -> Fit | None:
    """Fit the loads with the time that the controller was on with nothing in flight; None if :func:`fit` gives None.

    That time depends on the controller's power, which is a result of :func:`fit`. On and idle are far apart, so a few rounds settle both.
    """
    found, power = None, _FIRST_W
    for _ in range(_ROUNDS):
        found = fit([load.with_after(power) for load in loads])
        if found is None:
            break
        power = found.controller_w
    return found


@dataclass(frozen=True)
class SeparatedClasses:
    """Classes that the phases tell apart from all others of a phase: joule a command, half-width (95 %)."""

    names: tuple[str, ...]
    joules: float
    half_width: float


def tell_apart(found: Fit, load: PhaseLoad) -> list[SeparatedClasses]:
    """Return the classes of a phase, merged until the half-width of each is at most half its value.

    The worst class is merged with the class that makes the pair known best. One class of all commands may remain.
    """

    def told(group: tuple[str, ...]) -> SeparatedClasses:
        weights, count = found.weights(load, group), sum(load.counts[name] for name in group)
        part = found.combination(weights)[0] * count / load.above_j
        return SeparatedClasses(group, *found.combination(weights, part))

    def badness(one: SeparatedClasses) -> float:
        return math.inf if one.joules <= 0 else one.half_width / one.joules

    each = [told((name,)) for name in load.counts]
    while len(each) > 1:
        worst = max(each, key=badness)
        if badness(worst) <= WIDEST:
            break
        others = [one for one in each if one is not worst]
        partner = min(others, key=lambda one: badness(told(one.names + worst.names)))
        each = [one for one in others if one is not partner] + [told(partner.names + worst.names)]
    return each
