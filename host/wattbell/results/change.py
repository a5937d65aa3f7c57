"""The change of one figure from side A to side B, with the spread between runs told from the spread between samples of a drive.

The mixed model of a figure's logarithm is ``ln y = side + sample + sample x side + run``, with the last three random. The logarithm makes
each a share of the figure. The samples are independent of one another, the runs of one sample are not. So the test of the change is over
samples, not over runs:

| samples | one value each | test |
|---|---|---|
| the same on both sides, several | change of the sample's mean | Student's t on the changes, samples - 1 degrees of freedom |
| others on each side | mean of the sample's runs | Welch's t on the means |
| one, the same on both sides | a run | Welch's t on the runs; it holds for this sample alone |

With as many runs of each sample, the mixed model gives the same by restricted maximum likelihood, if its variances are above zero
(Searle, Casella, McCulloch: Variance Components, 1992, chapter 4). The tests stay valid where that fit stops at a variance of zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import chdtri, stdtr, stdtrit

from .spread import LEAST_RUNS

LEAST_PAIRS = 2
"""Least samples that ran on both sides. The t-test of changes is exact from two on; Welch's test is not (:data:`.spread.LEAST_RUNS`)."""
MOST_MORE = 1000
"""Most runs or samples that the advice names."""
_FEW_RUNS = 20
"""More runs than these are not asked for where more samples decide."""
Design = Literal["one sample", "same samples", "other samples"]
Logs = Mapping[str, Sequence[float]]
"""The logarithms of a figure's runs, by sample."""


class Inseparable(ValueError):
    """The runs cannot tell a change from spread. The message says why, and what would."""


@dataclass(frozen=True)
class Component:
    """A standard deviation, as a share of the figure. ``value``: the estimate, 0 if none is seen; ``at_most``: the upper limit that holds
    in 95 % of cases."""

    value: float
    at_most: float


@dataclass(frozen=True)
class Unit:
    """One side's units of the test, or the changes of the same samples. ``n``: how many; ``variance``: of one; ``of_runs``: the part of
    ``variance`` that comes from the spread between runs, 0 where it is not known; ``runs``: runs behind one."""

    n: int
    variance: float
    of_runs: float
    runs: float


@dataclass(frozen=True)
class SampledChange:
    """The change from A to B. ``value``: ln(B / A); ``between_runs``, ``between_samples``: None if unknown, with the reason in ``unknown``.

    ``between_samples`` is of the change where the samples are the same on both sides, else of the figure.
    """

    value: float
    design: Design
    units: tuple[Unit, ...]
    between_runs: Component | None
    between_samples: Component | None
    unknown: str = ""

    @property
    def se(self) -> float:
        """Standard error of ``value``."""
        return _se(self.units)

    @property
    def df(self) -> float:
        """Degrees of freedom of ``se``: Welch and Satterthwaite's."""
        return _df(self.units)

    def half_width(self, level: float) -> float:
        """Half the interval that holds the change but for ``level`` on each side."""
        return float(stdtrit(self.df, 1 - level)) * self.se

    def p_beyond(self, distance: float, instrument: float) -> float:
        """Chance of an estimate this far on the right side of a limit if the true change lies on its other side.

        distance : from the limit to the estimate; above 0 on the right side
        instrument : the largest error of the instrument, added in squares
        """
        if distance <= instrument or not distance > 0:
            return 1.0
        left = math.sqrt(distance**2 - instrument**2)
        return float(stdtr(self.df, -left / self.se)) if self.se else 0.0

    def more(self, distance: float, instrument: float, level: float) -> str:
        """Return how many more runs or samples would decide, if change and spread stayed as they are; in words.

        distance : from the estimate to the limit
        """
        if distance <= instrument:
            return "each run is too uncertain: longer runs may help, more runs do not"

        def decides(units: Sequence[Unit]) -> bool:
            return math.hypot(float(stdtrit(_df(units), 1 - level)) * _se(units), instrument) <= distance

        if self.design != "one sample" and self.between_runs is not None:
            found = _least(lambda more: decides([_with_runs(unit, more) for unit in self.units]), _FEW_RUNS)
            if found is not None:
                return f"about {found} more {'run' if found == 1 else 'runs'} of each sample on each side"
        found = _least(lambda more: decides([Unit(u.n + more, u.variance, u.of_runs, u.runs) for u in self.units]), MOST_MORE)
        if found is None:
            return f"the change lies too close to the gate: {MOST_MORE} more would not decide"
        what = "run" if self.design == "one sample" else "sample"
        where = "" if self.design == "same samples" else " on each side"
        return f"about {found} more {what if found == 1 else what + 's'}{where}"


def _least(decides: Callable[[int], bool], most: int) -> int | None:
    """Return the least number from 1 to ``most`` from which on ``decides``; None without one. Halves the range."""
    if not decides(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


def _se(units: Sequence[Unit]) -> float:
    return math.sqrt(sum(unit.variance / unit.n for unit in units))


def _df(units: Sequence[Unit]) -> float:
    parts = [(unit.variance / unit.n, unit.n - 1) for unit in units]
    whole = sum(part for part, _ in parts)
    if not whole:
        return float(sum(n for _, n in parts))
    return float(whole**2 / sum(part**2 / n for part, n in parts))


def _with_runs(unit: Unit, more: int) -> Unit:
    runs = unit.of_runs * unit.runs / (unit.runs + more)
    return Unit(unit.n, max(unit.variance - unit.of_runs, 0.0) + runs, runs, unit.runs + more)


def design_of(a: Sequence[str], b: Sequence[str]) -> Design:
    """Return which test the samples of both sides allow. Raises Inseparable when no test is."""
    mine, theirs = set(a), set(b)
    if mine == theirs:
        return "one sample" if len(mine) == 1 else "same samples"
    if mine & theirs:
        lone = ", ".join(sorted(mine ^ theirs))
        raise Inseparable(f"some samples are on one side alone ({lone}): leave their runs out, or give no sample to both sides")
    if min(len(mine), len(theirs)) < LEAST_RUNS:
        text = f"the sides are of other samples, {len(mine)} and {len(theirs)}: a change cannot be told from a sample's own difference"
        raise Inseparable(f"{text}. Run the same samples on both sides, or at least {LEAST_RUNS} on each")
    return "other samples"


def change(a: Logs, b: Logs) -> SampledChange:
    """Return the change of the logarithms ``b`` against ``a``. Raises Inseparable when the runs cannot tell it from spread."""
    design = design_of(list(a), list(b))
    runs_variance, runs_df = _within([*a.values(), *b.values()])
    if design == "one sample":
        sides = [np.asarray(values, float) for side in (a, b) for values in side.values()]
        least = min(map(len, sides))
        if least < LEAST_RUNS:
            few = "one run a side" if least == 1 else f"{least} runs a side"
            raise Inseparable(f"{few} of one sample: the spread between runs is unknown, it takes {LEAST_RUNS} runs a side")
        units = tuple(Unit(len(side), float(side.var(ddof=1)), 0.0, 1.0) for side in sides)
        value = float(sides[1].mean() - sides[0].mean())
        return SampledChange(
            value, design, units, _component(runs_variance, runs_df), None, "one sample: the spread between samples is unknown"
        )
    means = [{name: float(np.mean(values)) for name, values in side.items()} for side in (a, b)]
    shares = [{name: 1 / len(values) for name, values in side.items()} for side in (a, b)]
    if design == "same samples":
        apart = [means[1][name] - means[0][name] for name in means[0]]
        each = [apart]
        per_run = [float(np.mean([shares[0][name] + shares[1][name] for name in means[0]]))]
        value = float(np.mean(apart))
    else:
        each = [list(side.values()) for side in means]
        per_run = [float(np.mean(list(side.values()))) for side in shares]
        value = float(np.mean(each[1]) - np.mean(each[0]))
    of_runs = runs_variance or 0.0
    sides_of_runs = 2 if design == "same samples" else 1
    units = tuple(
        Unit(len(values), float(np.var(values, ddof=1)), of_runs * share, sides_of_runs / share)
        for values, share in zip(each, per_run, strict=True)
    )
    if runs_variance is None:
        text = "one run of each sample: the spread between runs cannot be told from the spread between samples"
        return SampledChange(value, design, units, None, None, text)
    return SampledChange(value, design, units, _component(runs_variance, runs_df), _between(units))


def _within(each: Sequence[Sequence[float]]) -> tuple[float | None, int]:
    """Return the pooled variance of the runs of each sample on each side, and its degrees of freedom; None without repeats."""
    df = sum(len(values) - 1 for values in each)
    if not df:
        return None, 0
    return float(sum(np.var(values) * len(values) for values in each) / df), df


def _component(variance: float | None, df: float) -> Component | None:
    return None if variance is None else Component(math.sqrt(variance), math.sqrt(variance * df / float(chdtri(df, 0.95))))


def _between(units: Sequence[Unit]) -> Component:
    """The spread between samples: the spread of their values, without the part of the runs.

    The upper limit leaves the runs' part in, so it is rather too high, and never 0 for runs that differ.
    """
    df = sum(unit.n - 1 for unit in units)
    whole = sum(unit.variance * (unit.n - 1) for unit in units) / df
    of_runs = sum(unit.of_runs * (unit.n - 1) for unit in units) / df
    return Component(math.sqrt(max(whole - of_runs, 0.0)), math.sqrt(whole * df / float(chdtri(df, 0.95))))
