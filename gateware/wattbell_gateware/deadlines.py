"""Deadlines: ticks at which a timer fires."""

from __future__ import annotations

from functools import reduce

from amaranth import Mux, Value

__all__ = ["earliest", "reached"]


def reached(now: Value, tick: Value, bits: int = 32) -> Value:
    """Return whether `now` is `tick` or later. The two must be less than 2**(bits - 1) ticks apart (2.1 s), because only their low
    bits are compared.

    The comparison is shorter than one of 64 bits. A register that only serves this comparison needs only `bits` bits.
    """
    return ~(now[:bits] - tick[:bits])[bits - 1]


def earliest(ticks: list[Value]) -> Value:
    """Return the smallest of some 64-bit ticks."""
    return reduce(lambda a, b: Mux(a < b, a, b), ticks)
