"""The native firmware, built once, and its rig for each test."""

from __future__ import annotations

import pytest

from tests.firmware.rig import ON_CORE, Rig, make


@pytest.fixture(scope="session")
def firmware() -> None:
    """Builds the library."""
    make("core" if ON_CORE else "native")


@pytest.fixture
def rig(firmware: None) -> Rig:
    """A rig without analog errors, just switched on."""
    return Rig()
