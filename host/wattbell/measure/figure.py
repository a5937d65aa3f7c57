"""The one shape of a number: a value with its expanded uncertainty, its unit, and the count of records missing under it.

``u`` has the coverage factor ``K`` = 2 (about 95 %); None if no honest number can be given. ``lost`` is a lower bound of the records
missing under the figure, 0 only if nothing is known to be missing (:mod:`.loss`). ``docs/accuracy.md`` derives every term.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

K = 2
"""Coverage factor of every ``u``."""
PARTLY = "the rail was not recorded during all of the window: mean and energy are of the covered part"
"""``note`` in the conditions of such figures."""
Conditions = Mapping[str, str | float]


@dataclass(frozen=True)
class Figure:
    """A figure. ``value`` and ``u`` are in ``unit``; infinite values and NaN become None.

    ``conditions`` must be shown beside the number. A figure without a value gives the reason there, under ``absent``.
    """

    value: float | None = None
    u: float | None = None
    unit: str = ""
    lost: int = 0
    conditions: Conditions = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.value is None or not math.isfinite(self.value):
            object.__setattr__(self, "value", None)
            object.__setattr__(self, "u", None)
        elif self.u is not None and not math.isfinite(self.u):
            object.__setattr__(self, "u", None)

    @property
    def known(self) -> float:
        """The value of a figure that has one. Raises ValueError when it has none."""
        if self.value is None:
            raise ValueError(f"a figure without a value: {self.conditions.get('absent', 'no reason given')}")
        return self.value


@dataclass(frozen=True)
class Known(Figure):
    """A figure that has a value, as all have that are read from results. Raises ValueError when it has none."""

    value: float = math.nan

    def __post_init__(self) -> None:
        super().__post_init__()
        self.known  # noqa: B018 - raises


def absent(reason: str, unit: str = "", lost: int = 0) -> Figure:
    """A figure that cannot be given, and why. Never zero."""
    return Figure(None, None, unit, lost, {"absent": reason})


def ratio(top: Figure, bottom: Figure, unit: str = "", factor: float = 1.0, **conditions: str | float) -> Figure:
    """``factor * top / bottom``; relative uncertainties add in squares (the two come from different instruments of the rig: the clock
    and the rail). Absent when either is missing or the divisor is not positive; without ``u`` when either has none.

    A rail that was recorded in part (:data:`PARTLY`) gives no energy for all of the bytes, and a mean power of unknown error for the rest.
    """
    lost = top.lost + bottom.lost
    if top.value is None or bottom.value is None or bottom.value <= 0:
        return absent("numerator or denominator missing or not positive", unit, lost)
    partly = [figure.unit for figure in (top, bottom) if figure.conditions.get("note") == PARTLY]
    if "J" in partly:
        return absent("the rail was not recorded during all of the window", unit, lost)
    value = factor * top.value / bottom.value
    if partly:
        return Figure(value, None, unit, lost, {**conditions, "note": PARTLY})
    if top.u is None or bottom.u is None:
        return Figure(value, None, unit, lost, conditions)
    parts = [u / figure.known for figure, u in ((top, top.u), (bottom, bottom.u)) if figure.value]
    return Figure(value, abs(value) * math.hypot(*parts), unit, lost, conditions)


def difference(a: Figure, b: Figure, besides: float = 0.0) -> Figure:
    """Return ``b - a``, both of one unit.

    Uncertainties add in squares, as for two unrelated measurements. If both were made with one front end, both share its error, and the
    interval is too wide. ``besides``: an error that is added in any case. The result has no value if either lacks one, and no ``u`` if
    either lacks one.
    """
    lost = a.lost + b.lost
    if a.value is None or b.value is None:
        return absent("one of the two is missing", a.unit, lost)
    u = None if a.u is None or b.u is None else math.hypot(a.u, b.u) + besides
    return Figure(b.value - a.value, u, a.unit, lost)


def mean(items: Sequence[Figure]) -> Figure:
    """Return the mean of figures; without a value if any figure lacks one.

    Their uncertainties come mostly from one front end and one clock. They count as fully correlated: the result has the mean of the ``u``.
    """
    unit = items[0].unit if items else ""
    lost = sum(item.lost for item in items)
    values = [item.value for item in items if item.value is not None]
    if not values or len(values) < len(items):
        return absent("one of several figures is missing", unit, lost)
    us = [item.u for item in items if item.u is not None]
    return Figure(sum(values) / len(values), sum(us) / len(us) if len(us) == len(items) else None, unit, lost)


def total(items: Sequence[Figure]) -> Figure:
    """Sum of figures, uncertainties added as in :func:`mean`."""
    found = mean(items)
    n = len(items)
    if found.value is None:
        return found
    return Figure(found.value * n, None if found.u is None else found.u * n, found.unit, found.lost)
