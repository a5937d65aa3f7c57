"""Published facts about the ATSB traces, and assumptions for the rest.

Counts, GB, size mix, share of sequential I/Os and (Light) queue depths: AnandTech, "The Destroyer" (2013) and the Heavy and Light pages of
the 2015 suite. GB are read as decimal. Everything in :class:`Composition` with the comment *assumed* is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024

BELOW_4K = {512: 0.5, 1 * KIB: 0.25, 2 * KIB: 0.25}
"""Assumed: the composition of "< 4 KB"."""
OTHER_SIZES = tuple(k * KIB for k in (5, 6, 7, 10, 12, 20, 24, 40, 48, 56, 80, 96, 112))
"""Assumed: sizes for the I/Os that the published mix leaves out of 100 %; their weights give the published GB."""


@dataclass(frozen=True)
class Composition:
    """The composition of a trace.

    sizes: share by block size in bytes (key 0: below 4 KiB); the rest to 1 has other sizes
    depths: share of I/Os by queue depth at issue, itself included, as ``(lowest, highest, share)``; empty: geometric with ``mean_depth``
        (assumed shape)
    footprint: bytes of the address range (assumed)
    """

    name: str
    reads: int
    writes: int
    read_bytes: float
    write_bytes: float
    sizes: dict[int, float]
    sequential: float
    footprint: int
    mean_depth: float = 0.0
    depths: tuple[tuple[int, int, float], ...] = ()

    @property
    def ios(self) -> int:
        return self.reads + self.writes


_HEAVY_SIZES = {
    0: 0.078,
    4 * KIB: 0.292,
    8 * KIB: 0.035,
    16 * KIB: 0.103,
    32 * KIB: 0.108,
    64 * KIB: 0.041,
    128 * KIB: 0.217,
}
_LIGHT_SIZES = {
    0: 0.062,
    4 * KIB: 0.276,
    8 * KIB: 0.024,
    16 * KIB: 0.08,
    32 * KIB: 0.065,
    64 * KIB: 0.048,
    128 * KIB: 0.264,
}

COMPOSITIONS = {
    "destroyer": Composition(
        name="destroyer",
        reads=38_830_000,
        writes=10_980_000,
        read_bytes=1583.02e9,
        write_bytes=875.62e9,
        sizes=_HEAVY_SIZES,  # assumed: none is published
        sequential=0.67,
        mean_depth=5.5,
        footprint=128 << 30,
    ),
    "heavy": Composition(
        name="heavy",
        reads=2_170_000,
        writes=1_780_000,
        read_bytes=48.63e9,
        write_bytes=106.32e9,
        sizes=_HEAVY_SIZES,
        sequential=0.43,
        mean_depth=4.6,
        footprint=32 << 30,
    ),
    "light": Composition(
        name="light",
        reads=372_630,
        writes=459_709,
        read_bytes=17.97e9,
        write_bytes=23.25e9,
        sizes=_LIGHT_SIZES,
        sequential=0.70,
        footprint=16 << 30,
        depths=(
            (1, 1, 0.734),
            (2, 2, 0.168),
            (3, 3, 0.026),
            (4, 5, 0.023),
            (6, 10, 0.031),
            (11, 20, 0.015),
            (21, 32, 0.002),
            (33, 40, 0.002),  # published: above 32
        ),
    ),
}
