"""The straight line between two clocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ClockMap:
    """Maps instants of one clock (source) onto another (reference), both in integer ns of any origin.

    ``source_ns`` and ``reference_ns`` coincide; from there the reference gains ``drift`` ns in a ns of the source. ``bound_s``: limit of
    the error of :meth:`to_reference` within ``[first_ns, last_ns]`` of the source, in s of the reference. Outside of that span nothing
    is said. ``method``: how it was found, in a few words for the user.
    """

    source_ns: int
    reference_ns: int
    drift: float
    bound_s: float
    method: str
    first_ns: int
    last_ns: int

    def __post_init__(self) -> None:
        if not abs(self.drift) < 1:
            raise ValueError(f"a drift of {self.drift!r}: clocks that run in the same direction at about the same rate have less than 1")
        if not self.bound_s >= 0:
            raise ValueError(f"a bound of {self.bound_s!r} s")
        if self.last_ns < self.first_ns:
            raise ValueError("a span that ends before it begins")

    @property
    def offset_ns(self) -> int:
        """Reference less source, where they coincide."""
        return self.reference_ns - self.source_ns

    def to_reference(self, source_ns: npt.ArrayLike) -> Int64:
        """Instants of the source (ns, any shape) on the reference clock, to the nearest ns."""
        since = np.asarray(source_ns, np.int64) - self.source_ns
        # Only the difference that the drift makes is a float: at 500 ppm it is exact to 1 ns for 200 days.
        return np.asarray(self.reference_ns + since + np.rint(since * self.drift).astype(np.int64), np.int64)

    def covers(self, first_ns: int, last_ns: int) -> bool:
        """Whether the bound holds in all of ``[first_ns, last_ns]`` of the source."""
        return self.first_ns <= first_ns and last_ns <= self.last_ns

    def inverse(self) -> ClockMap:
        """The map from the reference onto the source."""
        first, last = (int(ns) for ns in self.to_reference(np.array((self.first_ns, self.last_ns))))
        return ClockMap(
            self.reference_ns,
            self.source_ns,
            -self.drift / (1 + self.drift),
            self.bound_s / (1 + self.drift),
            self.method,
            first,
            last,
        )

    def then(self, further: ClockMap) -> ClockMap:
        """Return the map from this source onto the reference of ``further``, a map that begins at this reference.

        Bounds add up; the span is the common one. Raises ValueError without a common span.
        """
        back = self.inverse()
        low, high = (int(ns) for ns in back.to_reference(np.array((further.first_ns, further.last_ns))))
        first, last = max(self.first_ns, low), min(self.last_ns, high)
        if last < first:
            raise ValueError(f"the spans of two clock maps ({self.method}; {further.method}) have no instant in common")
        # A point in the middle of the span, so that the drift does not turn the point's rounding over a long way.
        middle = (first + last) // 2
        at = int(further.to_reference(self.to_reference(middle)))
        drift = math.fsum((self.drift, further.drift, self.drift * further.drift))
        bound = self.bound_s * (1 + further.drift) + further.bound_s
        return ClockMap(middle, at, drift, bound, f"{self.method}; {further.method}", first, last)
