"""Whether two maps of the same two clocks, found in different ways, can both be right."""

from __future__ import annotations

import numpy as np

from .map import ClockMap


def apart_s(one: ClockMap, other: ClockMap) -> float:
    """Return the largest difference of two maps within their common span, in s. Raises ValueError without a common span."""
    first, last = max(one.first_ns, other.first_ns), min(one.last_ns, other.last_ns)
    if last < first:
        raise ValueError(f"{one.method} and {other.method} have no instant in common")
    ends = np.array((first, last), np.int64)  # both are straight: nowhere are they further apart than at an end
    return float(np.abs(one.to_reference(ends) - other.to_reference(ends)).max()) * 1e-9


def contradiction(one: ClockMap, other: ClockMap) -> str | None:
    """Return why two maps with separate bounds contradict each other; None if their bounds meet."""
    apart = apart_s(one, other)
    if apart <= one.bound_s + other.bound_s:
        return None
    return (
        f"{one.method} (+-{one.bound_s * 1e6:.3g} us) and {other.method} (+-{other.bound_s * 1e6:.3g} us) differ by {apart * 1e6:.3g} us: "
        "one of the two clocks was not what it was taken for"
    )
