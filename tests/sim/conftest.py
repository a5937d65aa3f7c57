"""The simulator's programs, built before the tests by ``make sim``: no test builds one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_BUILT = Path(__file__).resolve().parents[2] / "sim/target/release"


@pytest.fixture(scope="session")
def sim_program() -> Callable[[str], Path]:
    """Return ``sim_program("wattbell-ssd")``, the path of a built program; a missing program fails the test."""

    def found(name: str) -> Path:
        path = Path(os.environ.get("WATTBELL_SIM_BIN", _BUILT)) / name
        assert path.is_file(), f"{path} is not built: run `make sim`"
        return path

    return found
