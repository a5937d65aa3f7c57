"""Fixtures for third-party programs: a rig's terminal and a bridge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.terminal import Bridged, Terminal
from tests.firmware.rig import ON_CORE, Rig, make


@pytest.fixture(scope="session")
def firmware() -> None:
    """Build the firmware: native, or for the soft core (WATTBELL_FIRMWARE=core, as for tests/firmware)."""
    make("core" if ON_CORE else "native")


@pytest.fixture
def terminal(firmware: None) -> Terminal:
    """Start a rig just after power-on, without analog errors: 3.3 V, 0.5 A."""
    return Terminal(Rig())


@pytest.fixture
def bridged(terminal: Terminal) -> Iterator[Bridged]:
    """Start a bridge on that rig."""
    one = Bridged(terminal.control)
    yield one
    one.stop()
