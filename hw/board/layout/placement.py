"""Read placement.toml: places that are given, and the regions of sheets."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from .land import Placed

PATH = Path(__file__).with_name("placement.toml")


@cache
def table() -> dict[str, Any]:
    """Return the file's tables."""
    return tomllib.loads(PATH.read_text())


def fixed() -> dict[str, Placed]:
    """Return the parts that the file gives a place, without their footprints."""
    return {ref: Placed(ref, "", (x, y), angle, side == "B") for ref, (x, y, angle, side) in table()["fixed"].items()}
