"""Files of other people's tools with the right answer: ``../shared/cases/host/cases.tar.xz``, which a stranger's clone does not have."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).parents[4] / "shared/cases/host/cases.tar.xz"


def unpacked_cases(folder: Path, *beginnings: str) -> Path:
    """The folders of the cases whose names begin so, and ``_base``. Skips the test only where there is no ``../shared`` at all."""
    if not ARCHIVE.parents[2].is_dir():
        pytest.skip(f"{ARCHIVE.parents[2]} is not there: this is no work place of the project")
    with tarfile.open(ARCHIVE) as archive:
        wanted = [member for member in archive if member.name.removeprefix("./").startswith(("_base", *beginnings))]
        archive.extractall(folder, wanted, filter="data")
    return folder
