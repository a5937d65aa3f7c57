"""A venv on the wheels, for tests outside the checkout."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tools import wheels


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a venv with the wheels of the monitor and of Wattbell, and the packages of the tests' venv, not the checkout."""
    place = tmp_path_factory.mktemp("venv")
    venv.create(place / "venv", symlinks=True)
    python = place / "venv" / "bin" / "python"
    made = [str(wheels.monitor_wheel(place)), str(wheels.pure_wheel(place))]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", str(python)]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", *made], check=True, timeout=PATIENCE_S)
    (own,) = (place / "venv").glob("lib/python*/site-packages")
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python
