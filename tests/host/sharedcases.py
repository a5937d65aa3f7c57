"""Files of other people's tools with the right answer: ``../shared/cases/host/cases.tar.xz``, which a stranger's clone does not have."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).parents[3] / "shared/cases/host/cases.tar.xz"


def unpacked_cases(folder: Path, *beginnings: str) -> Path:
    """Unpack ``_base`` and the cases with names that begin so, each into a folder of its own. Skips the test where no ``../shared``
    exists."""
    if not ARCHIVE.parents[2].is_dir():
        pytest.skip(f"{ARCHIVE.parents[2]} is not there: this is no work place of the project")
    with tarfile.open(ARCHIVE) as archive:  # by hand: Python 3.11.2 of Debian 12 has no extractall(filter=)
        for member in archive:
            name = member.name.removeprefix("./")
            content = archive.extractfile(member) if member.isfile() and name.startswith(("_base", *beginnings)) else None
            if content is not None:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content.read())
    return folder
