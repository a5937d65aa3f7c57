"""The one shape of a number in ``results.json``: ``{"value", "u", "n_lost"}``, and the arithmetic on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Quantity = dict[str, Any]


def quantity(value: float | None, u: float | None = None, n_lost: int = 0) -> Quantity:
    """A number with its expanded uncertainty (k = 2; None: no honest one can be given) and the records lost under it."""
    if value is not None and not math.isfinite(value):
        value = None
    if u is not None and (value is None or not math.isfinite(u)):
        u = None
    return {"value": value, "u": u, "n_lost": int(n_lost)}


def from_figure(figure: Mapping[str, Any] | None) -> Quantity:
    """The quantity of a figure of :mod:`wattbell.analysis`."""
    if figure is None or figure.get("value") is None:
        return quantity(None, None, int((figure or {}).get("lost") or 0))
    return quantity(float(figure["value"]), figure.get("u"), int(figure.get("lost") or 0))


def ratio(top: Quantity, bottom: Quantity, factor: float = 1.0) -> Quantity:
    """``factor * top / bottom``; relative uncertainties add in squares. No value when the divisor is not positive."""
    lost = top["n_lost"] + bottom["n_lost"]
    if top["value"] is None or not bottom["value"] or bottom["value"] <= 0:
        return quantity(None, None, lost)
    value = factor * top["value"] / bottom["value"]
    parts = [q["u"] / q["value"] for q in (top, bottom) if q["u"] is not None and q["value"]]
    return quantity(value, abs(value) * math.hypot(*parts) if parts else None, lost)


def mean(items: Sequence[Quantity]) -> Quantity:
    """Mean of quantities. Their uncertainties come mostly from one front end and one clock, so they are taken as fully
    correlated: the mean of the ``u``. No value when one of them has none."""
    lost = sum(q["n_lost"] for q in items)
    values = [q["value"] for q in items]
    if not values or any(v is None for v in values):
        return quantity(None, None, lost)
    us = [q["u"] for q in items]
    u = None if any(x is None for x in us) else sum(us) / len(us)
    return quantity(sum(values) / len(values), u, lost)


def total(items: Sequence[Quantity]) -> Quantity:
    """Sum of quantities, uncertainties added as in :func:`mean`."""
    found = mean(items)
    n = len(items)
    value, u = found["value"], found["u"]
    return quantity(None if value is None else value * n, None if u is None else u * n, found["n_lost"])
