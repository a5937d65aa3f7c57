"""Numbers on the command line: finite and within a meaningful range."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

from ..errors import UsageError
from .quantities import Unread

Number = TypeVar("Number", int, float)

LONGEST_S = 1e9
"""More than thirty years: the longest time the command line accepts."""
LARGEST_SEED = 2**63 - 1
"""The largest seed that all programs can read."""


def between(low: float, high: float, unit: str = "") -> Callable[[typer.CallbackParam, Number | Unread | None], Number | None]:
    """A callback that requires an option's value to lie in ``[low, high]``; otherwise UsageError with the option's name.

    Typer's own ``min`` and ``max`` let NaN pass.
    """

    def check(param: typer.CallbackParam, value: Number | Unread | None) -> Number | None:
        if isinstance(value, Unread):
            raise UsageError(f"{param.opts[-1]} {_short(value.text)}: give {value.example}.")
        if value is not None and not low <= value <= high:
            span = f"{low:.12g} to {high:.12g}{f' {unit}' if unit else ''}"
            raise UsageError(f"{param.opts[-1]} {_short(value)}: give a number from {span}.")
        return value

    return check


def _short(value: float | str) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:20]}..."


seconds = between(0.0, LONGEST_S, "s")
"""A time of 0 or more."""
instant = between(-LONGEST_S, LONGEST_S, "s")
"""A time that may be negative."""
share = between(1e-9, 1.0)
"""A scale factor of at most 1."""
seed = between(0, LARGEST_SEED)
interval = between(1e-9, 10.0, "s")
"""The ADC's conversion interval."""
