"""Comparison with the truth that the SSD model left (virtual rig only)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wattbell.analysis.context import Context


def compare(context: Context, result: Mapping[str, Any], workload: Path) -> dict[str, Any] | None:
    """None where the workload left no truth."""
    if not (workload / "truth.json").is_file():
        return None
    return {"context": context.first_tick, "schema": result["schema"]}
