"""The drive's own latency monitor: OCP's log page C3h, as `nvme get-log --log-id=0xc3 --log-len=512 --raw-binary` writes it.

Sources: OCP Datacenter NVMe SSD Specification 2.0, 4.8.9 and appendix C; the layout agrees with `ssd_latency_monitor_log` of nvme-cli's
plugin `ocp`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from wattbell_spec.nvme import OCP_LATENCY_MONITOR_LOG

from .logfile import read_log_page

Kind = Literal["read", "write", "deallocate"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BUCKETS = 4
BYTES = 512
_GUID = bytes.fromhex("927ac08cd0846c9c7043e6d4585ed485")
_GUID_AT = 496
_STEP_S, _WINDOW_S, _TIMER_S = 5e-3, 0.1, 300.0
"""Units of the thresholds, of the minimum window and of the bucket timer."""
_COUNTERS_AT, _STAMPS_AT, _LATENCIES_AT, _UNITS_AT = 32, 96, 192, 216
SATURATED = 0xFFFF_FFFF
"""A counter that stays here may have missed commands."""
_NO_STAMP = 0xFFFF_FFFF_FFFF_FFFF
_MS = (1 << 48) - 1


@dataclass(frozen=True)
class Entry:
    """One bucket of one kind of command.

    count : commands.
    latency_s : latency of one command; None where the drive reports none. Its resolution is 1 ms.
    stamp_ms : the drive's time at its completion; None where the drive reports none.
    by_host : the stamp is of the clock that the host has set, and not of the power-on hours.
    largest : latency and stamp are of the largest latency, and not of the first command.
    """

    count: int
    latency_s: float | None
    stamp_ms: int | None
    by_host: bool
    largest: bool


@dataclass(frozen=True)
class LatencyLog:
    """One reading of the page.

    thresholds_s : lower edge of each bucket; the last bucket has no upper edge.
    window_s : least time between two updates of latency and stamp in the mode *largest*.
    moved_after_s : the counters are moved away and cleared after so long; None: never.
    entries : by bucket and kind.
    """

    thresholds_s: tuple[float, ...]
    window_s: float
    moved_after_s: float | None
    entries: Mapping[tuple[int, Kind], Entry]


def read(path: Path) -> LatencyLog:
    """Return the page in a file. Raises UsageError when the file cannot be read or is no such page."""
    return read_log_page(path, parse, "a latency monitor log page", OCP_LATENCY_MONITOR_LOG, str(BYTES))


def parse(page: bytes) -> LatencyLog:
    """Return the page's content. Raises ValueError with the contradiction when the bytes are no such page, or the monitor is off."""
    if len(page) < BYTES:
        raise ValueError(f"it has {len(page)} bytes of {BYTES}")
    if page[_GUID_AT : _GUID_AT + len(_GUID)] != _GUID:
        raise ValueError("its GUID is another page's")
    if not page[0] & 1:
        raise ValueError("the monitor is disabled")
    (after,) = struct.unpack_from("<H", page, 4)
    thresholds = tuple((code + 1) * _STEP_S for code in page[6:10])
    if sorted(set(thresholds)) != list(thresholds):
        raise ValueError(f"its thresholds do not ascend: {', '.join(f'{one * 1e3:g} ms' for one in thresholds)}")
    modes, units = (struct.unpack_from("<H", page, at)[0] for at in (10, _UNITS_AT))
    entries: dict[tuple[int, Kind], Entry] = {}
    for bucket in range(BUCKETS):
        for k, kind in enumerate(KINDS):
            bit = 3 * bucket + k
            # counters ascend by bucket, with the kinds behind a reserved word; stamps and latencies descend
            place = 3 * (BUCKETS - 1 - bucket) + 2 - k
            (count,) = struct.unpack_from("<I", page, _COUNTERS_AT + 16 * bucket + 4 * (3 - k))
            (stamp,) = struct.unpack_from("<Q", page, _STAMPS_AT + 8 * place)
            (latency_ms,) = struct.unpack_from("<H", page, _LATENCIES_AT + 2 * place)
            entries[bucket, kind] = Entry(
                count=count,
                latency_s=latency_ms * 1e-3 or None,
                stamp_ms=None if stamp == _NO_STAMP else stamp & _MS,
                by_host=bool(units >> bit & 1),
                largest=bool(modes >> bit & 1),
            )
    return LatencyLog(thresholds, page[12] * _WINDOW_S, after * _TIMER_S or None, entries)
