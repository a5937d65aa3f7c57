"""What programs that nobody here wrote talk to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "firmware")]

from rig import ON_CORE, Rig, make  # noqa: E402 (tests/firmware)
from terminal import Bridged, Terminal  # noqa: E402


@pytest.fixture(scope="session")
def firmware() -> None:
    """The firmware is there: native, or for the soft core (WATTBELL_FIRMWARE=core, as for tests/firmware)."""
    make("core" if ON_CORE else "native")


@pytest.fixture
def terminal(firmware: None) -> Terminal:
    """A rig just switched on, without analog errors: 3.3 V, 0.5 A."""
    return Terminal(Rig())


@pytest.fixture
def bridged(terminal: Terminal) -> Iterator[Bridged]:
    """A bridge on that rig."""
    one = Bridged(terminal.control)
    yield one
    one.stop()
