"""``meta.json``: read, written atomically."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import CaptureError
from . import schema

Meta = dict[str, Any]
NAME = "meta.json"

UNITS = {
    "tick": "clock.tick_ps picoseconds",
    "voltage": "V",
    "current": "A",
    "power": "W",
    "energy_raw": "1e-11 W x ADC conversion period",
}


def new() -> Meta:
    """A meta with every key present."""
    return {
        "format": schema.FORMAT_VERSION,
        "state": "recording",
        "rig": {},
        "clock": {"tick_ps": 1000, "utc_anchor": None},
        "units": dict(UNITS),
        "rail": {"first_tick": None, "interval_ticks": None, "samples": 0, "adc_period_ticks": None},
        "loss": {},
        "drive": None,
        "conditions": {"virtual": None, "profile": None, "timing": None, "notes": []},
        "workload": {"phases": []},
        "software": software(),
    }


def software() -> dict[str, str]:
    """Versions of what wrote the capture."""
    found = {"python": platform.python_version(), "platform": sys.platform}
    for name in ("wattbell", "numpy", "pyarrow", "pyjls", "pyserial", "polars"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    if found["wattbell"] == "unknown":
        from .. import __version__

        found["wattbell"] = __version__
    return found


def save(directory: Path, meta: Meta) -> None:
    """Replace ``meta.json`` in one step: a reader or a crash sees the old or the new one, never a part."""
    temporary = directory / f"{NAME}.tmp"
    with open(temporary, "w", encoding="utf-8") as out:
        json.dump(meta, out, indent=1, allow_nan=False)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, directory / NAME)


def load(directory: Path) -> Meta:
    """Read ``meta.json`` of a capture. Raises CaptureError when it is missing, damaged, or of another format."""
    path = directory / NAME
    if not directory.is_dir():
        raise CaptureError(f"{directory} is not a directory; give the capture directory that `wattbell record` wrote.")
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CaptureError(f"{directory} is not a capture: it has no {NAME}.") from None
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path} cannot be read ({error}); restore it from a copy of the capture.") from None
    if not isinstance(meta, dict) or "format" not in meta:
        raise CaptureError(f"{path} is not the meta.json of a capture.")
    if meta["format"] != schema.FORMAT_VERSION:
        raise CaptureError(
            f"{directory} has capture format {meta['format']}; this wattbell reads {schema.FORMAT_VERSION}. "
            "Use the wattbell version that wrote it."
        )
    return meta
