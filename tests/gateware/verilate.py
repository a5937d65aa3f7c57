"""Verilator, and its options for models that run long."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

MODEL = (
    *("-O3", "--output-split", "20000", "--no-assert"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
    *("--x-assign", "fast", "--x-initial", "fast"),
)
"""For Verilator. Its warnings are `make lint`'s."""
COMPILER = "clang++" if shutil.which("clang++") else "g++"
"""Clang takes half as long for Verilator's output."""
MAKE = (f"CXX={COMPILER}", f"LINK={COMPILER}", "OPT_FAST=-O1", "OPT_SLOW=-O0")
"""For Verilator's makefiles: build time matters more than speed."""


def find_verilator() -> str:
    """Return the path of Verilator. Raises AssertionError if it is missing."""
    found = shutil.which("verilator", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found, "no `verilator` beside this python: run tools/setup-verilator.sh"
    return found
