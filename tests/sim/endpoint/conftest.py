"""The wheel ``wattbell_ssd``, built from the libraries of ``make sim``, and unpacked."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tools import wheels


@pytest.fixture(scope="session")
def ssd_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel."""
    return wheels.model_wheel(tmp_path_factory.mktemp("ssd-wheel"))


@pytest.fixture(scope="session")
def ssd_folder(ssd_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for PYTHONPATH with the package."""
    folder = tmp_path_factory.mktemp("ssd-package")
    with zipfile.ZipFile(ssd_wheel) as file:
        file.extractall(folder)
    return folder
