"""The width of tables that a command prints in the process of a test."""

from __future__ import annotations

import pytest
from wattbell.cli import console


def print_wide(monkeypatch: pytest.MonkeyPatch, columns: int = 200) -> None:
    """Let commands print ``columns`` columns, also where the console was made before, by another test of the worker."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(console.out, "_width", columns)
