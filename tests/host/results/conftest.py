"""The maker of sample runs, for the tests of this folder."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.host.results import samples as maker


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    """tests/host/results/samples.py."""
    return maker
