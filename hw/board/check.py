"""One row of the table that ``python -m board`` prints."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Check"]


@dataclass(frozen=True)
class Check:
    """A check: its subject, the figure found, the limit, and whether the figure is within. ``detail`` names the failures."""

    name: str
    figure: str
    limit: str
    passed: bool
    detail: str = ""
