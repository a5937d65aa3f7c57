"""Gateware tests: the shared Verilator harness is importable, and Amaranth's warnings are errors."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _amaranth_warnings_are_errors():
    from amaranth.hdl import UnusedElaboratable

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("error", UnusedElaboratable)
        yield
