"""One row of the table that ``python -m board`` prints."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Check"]


@dataclass(frozen=True)
class Check:
    """What was looked at, the figure found, the limit it is held to, and whether it holds. ``detail`` says where it does not."""

    name: str
    figure: str
    limit: str
    passed: bool
    detail: str = ""
