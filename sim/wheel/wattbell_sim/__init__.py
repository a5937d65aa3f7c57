"""The simulator's programs, the Verilated gateware, profiles and plans, where they are installed without a checkout.

The ``wattbell`` command finds them here by the name of this package; it never imports it. ``python -m wattbell_sim`` prints the folder.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NoReturn

FOLDER = Path(__file__).resolve().parent
"""Has ``bin``, ``rtl``, ``profiles``, ``plans`` and ``afe``."""


def _start(program: str) -> NoReturn:
    """Become this program, unless the ``wattbell`` beside it is of another version."""
    ours = version(__name__)
    try:
        theirs = version("wattbell")
    except PackageNotFoundError:
        theirs = ours
    if theirs != ours:
        sys.exit(f"error: wattbell is of version {theirs}, and {__name__} of {ours}: `pip install` the two wheels of one version.")
    path = FOLDER / "bin" / program
    os.execv(path, [program, *sys.argv[1:]])


def rig() -> NoReturn:
    """Start ``wattbell-rig``."""
    _start("wattbell-rig")


def ssd() -> NoReturn:
    """Start ``wattbell-ssd``."""
    _start("wattbell-ssd")
