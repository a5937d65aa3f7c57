"""The drive's own power in SMART / Health Information: log page 02h, as `nvme get-log --log-id=2 --raw-binary` writes it.

Source: NVM Express Base Specification 2.3, SMART / Health Information: Operational Lifetime Energy Consumed and Interval Power Measurement.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from wattbell_spec.nvme import HEALTH

from .logfile import read_log_page
from .powerlog import Reading, reading

__all__ = ["HealthLog", "parse", "read"]

_BYTES = 512
_POWER = struct.Struct("<QI")
_AT = 232


@dataclass(frozen=True)
class HealthLog:
    """One reading of the page.

    energy_wh : energy over the drive's life in whole watt-hours, rounded up; None where the drive reports none.
    latest : power of the latest interval of one second; None where the drive reports none.
    """

    energy_wh: int | None
    latest: Reading | None


def read(path: Path) -> HealthLog:
    """Return the page in a file. Raises UsageError when the file cannot be read or is no such page."""
    return read_log_page(path, parse, "a SMART / Health Information log page", HEALTH, str(_BYTES))


def parse(page: bytes) -> HealthLog:
    """Return the page's content. Raises ValueError with the contradiction when the bytes are no such page."""
    if len(page) != _BYTES:
        raise ValueError(f"it has {len(page)} bytes, not {_BYTES}")
    energy_wh, latest = _POWER.unpack_from(page, _AT)
    return HealthLog(energy_wh or None, reading(latest) if latest else None)
