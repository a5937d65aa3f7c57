"""Deadlines: ticks at which a timer fires."""

from __future__ import annotations

from functools import reduce

from amaranth import Mux, Value

__all__ = ["earliest"]


def earliest(ticks: list[Value]) -> Value:
    """The smallest of some 64-bit ticks."""
    return reduce(lambda a, b: Mux(a < b, a, b), ticks)
