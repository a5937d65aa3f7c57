"""Deadlines: ticks at which a timer fires."""

from __future__ import annotations

from functools import reduce

from amaranth import Mux, Value

__all__ = ["earliest", "reached"]


def reached(now: Value, tick: Value, bits: int = 32) -> Value:
    """Whether `now` is `tick` or later, of two that are less than 2**(bits - 1) ticks apart (2.1 s): their low bits tell. Shorter than
    a comparison of 64 bits, and so is what stands in a register for it alone."""
    return ~(now[:bits] - tick[:bits])[bits - 1]


def earliest(ticks: list[Value]) -> Value:
    """The smallest of some 64-bit ticks."""
    return reduce(lambda a, b: Mux(a < b, a, b), ticks)
