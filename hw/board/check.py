"""One row of the table of ``python -m board``."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Check"]


@dataclass(frozen=True)
class Check:
    """Result of a check: its subject, the figure found, the limit, and whether the limit holds. ``detail`` says where it does not."""

    name: str
    figure: str
    limit: str
    passed: bool
    detail: str = ""
