"""The drive's own measurement of its power: log page 25h, as `nvme get-log --log-id=0x25 --raw-binary` writes it.

Sources: NVM Express Base Specification 2.3, 8.1.19; the layout agrees with `nvme_power_meas_log` of nvme-cli 3's libnvme.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattbell_spec.nvme import POWER_MEASUREMENT

from .logfile import read_log_page

HEADER = struct.Struct("<BBHIIHHQHHHHI4xIIQB7x")
"""Bytes 63:0. The fields of :class:`PowerLog` in their order, with sizes and counts between them."""
_DESCRIPTOR = struct.Struct("<II")
SCALES_W = {1: 1e-4, 2: 1e-2}
"""Unit by Power Scale; other scales report no power."""
_MS = (1 << 48) - 1
_NO_ERROR = 100
"""The largest error in percent that a drive can claim; more means that it claims none."""
INTERVAL_S = 1.0
"""Length of an interval power measurement (8.1.19)."""
_LONGEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Reading:
    """A power that the drive reports.

    watts : its value.
    step_w : its resolution.
    """

    watts: float
    step_w: float


@dataclass(frozen=True)
class PowerLog:
    """One reading of the page.

    generation : number of measurements that the host has started, modulo 256.
    enabled : the drive was still measuring.
    contiguous : no interval is missing between the first and the last.
    estimated : the drive may estimate instead of measuring.
    kind : type of power; 0 is the total of the NVM subsystem.
    intervals : number of intervals of one second that were counted.
    stopped_ms : the drive's time stamp of the stop; None while it measures, or without a clock.
    mean, largest : over the intervals; None where the drive reports none.
    largest_ms : the drive's time stamp of the largest; None without one.
    claimed_error : largest error, as a part of the power; None where the drive claims nothing.
    bins : lower edge in W and count of each bin, in order; empty without a histogram.
    above : intervals above the last bin; None where their number overflowed.
    """

    generation: int
    enabled: bool
    contiguous: bool
    estimated: bool
    kind: int
    intervals: int
    stopped_ms: int | None
    mean: Reading | None
    largest: Reading | None
    largest_ms: int | None
    claimed_error: float | None
    bins: Sequence[tuple[float, int]]
    above: int | None


def read(path: Path) -> PowerLog:
    """Return the page in a file. Raises UsageError when the file cannot be read or is no such page."""
    return read_log_page(path, parse, "a whole Power Measurement log page", POWER_MEASUREMENT, "SIZE")


def parse(page: bytes) -> PowerLog:
    """Return the page's content. Raises ValueError with the contradiction when the bytes are no such page."""
    if len(page) < HEADER.size:
        raise ValueError(f"it has {len(page)} bytes of at least {HEADER.size}")
    (
        version,
        generation,
        attributes,
        size,
        intervals,
        count,
        _minutes,
        stop,
        descriptor_bytes,
        width_mw,
        supported,
        _vendor,
        above,
        mean,
        largest,
        largest_at,
        percent,
    ) = HEADER.unpack_from(page)
    if version != 0:
        raise ValueError(f"its version is {version}, and 0 is known")
    if not HEADER.size <= size <= _LONGEST_BYTES:
        raise ValueError(f"it gives its own size as {size} bytes")
    if len(page) < size:
        raise ValueError(f"it gives its own size as {size} bytes and has {len(page)}")
    if count > supported:
        raise ValueError(f"it has {count} bins and supports {supported}")
    if count and (descriptor_bytes < _DESCRIPTOR.size or HEADER.size + count * descriptor_bytes > size):
        raise ValueError(f"{count} bins of {descriptor_bytes} bytes are not within its {size} bytes")
    bins = []
    for k in range(count):
        number, field = _DESCRIPTOR.unpack_from(page, HEADER.size + k * descriptor_bytes)
        edge = reading(field)
        if edge is None or round(edge.watts * 1e4) != k * width_mw * 10:
            raise ValueError(f"bin {k} does not begin at {k * width_mw} mW")
        bins.append((edge.watts, number))
    overflowed = bool(attributes >> 4 & 1)
    if bins and not overflowed and sum(number for _, number in bins) + above != intervals:
        raise ValueError(f"its bins hold {sum(number for _, number in bins) + above} intervals of {intervals}")
    enabled = bool(attributes & 1)
    return PowerLog(
        generation=generation,
        enabled=enabled,
        contiguous=not attributes >> 1 & 1,
        estimated=bool(attributes >> 2 & 1),
        kind=attributes >> 12,
        intervals=intervals,
        stopped_ms=None if enabled else stop & _MS or None,
        mean=reading(mean),
        largest=reading(largest),
        largest_ms=(largest_at & _MS or None) if attributes >> 3 & 1 else None,
        claimed_error=percent * 1e-2 if percent <= _NO_ERROR else None,
        bins=bins,
        above=None if overflowed else above,
    )


def reading(field: int) -> Reading | None:
    """Return a field with a power and its scale; None for a scale that reports no power."""
    step_w = SCALES_W.get(field >> 16 & 3)
    return None if step_w is None else Reading((field & 0xFFFF) * step_w, step_w)
