"""Numbers on the command line: finite, and in the range in which they mean something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

from ..errors import UsageError

Number = TypeVar("Number", int, float)

LONGEST_S = 1e9
"""More than thirty years: no time on a command line is longer."""
LARGEST_SEED = 2**63 - 1
"""What every program that takes a seed can read."""


def between(low: float, high: float, unit: str = "") -> Callable[[typer.CallbackParam, Number | None], Number | None]:
    """A callback of an option whose value lies in ``[low, high]``; UsageError with the option's name where it does not.

    Typer's own ``min`` and ``max`` let NaN pass.
    """

    def check(param: typer.CallbackParam, value: Number | None) -> Number | None:
        if value is not None and not low <= value <= high:
            span = f"{low:.12g} to {high:.12g}{f' {unit}' if unit else ''}"
            raise UsageError(f"{param.opts[-1]} {_short(value)}: give a number from {span}.")
        return value

    return check


def _short(value: float) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:20]}..."


seconds = between(0.0, LONGEST_S, "s")
"""A time from 0 on."""
instant = between(-LONGEST_S, LONGEST_S, "s")
"""A time, before 0 too."""
share = between(1e-9, 1.0)
"""A factor that shortens."""
seed = between(0, LARGEST_SEED)
interval = between(1e-9, 10.0, "s")
"""Of the ADC."""
