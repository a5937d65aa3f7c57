"""The workload of a virtual rig in a capture: its phases and its files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from .. import door
from ..capture.metamodel import PhaseAbout
from ..errors import UsageError
from ..jsondata import JsonObject

_SUFFIXES = (".json", ".csv", ".fio", ".idle", ".toml", ".txt")


@dataclass
class Workload:
    """Description and files of a workload, as a capture keeps them."""

    description: JsonObject
    files: list[Path] = field(default_factory=list)

    def store(self, capture: Path) -> None:
        """Copy the files into the capture."""
        folder = capture / "workload"
        folder.mkdir(exist_ok=True)
        for path in self.files:
            if path.is_file() and path.resolve().parent != folder.resolve():
                shutil.copy2(path, folder / path.name)


def workload_files(folder: Path | None) -> list[Path]:
    """The files of a workload folder that a capture keeps."""
    if folder is None:
        return []
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; give the folder in which the workload left its files.")
    return sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)


def read_phases(path: Path | None) -> list[JsonObject] | None:
    """Phases from a JSON file: a list, or an object with ``phases``; None when there is no file."""
    if path is None:
        return None
    try:
        found = msgspec.json.decode(door.read_bytes(path, door.DOCUMENT))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON ({error}).") from None
    return checked_phases(found.get("phases") if isinstance(found, dict) else found, path)


def checked_phases(found: Any, path: Path) -> list[JsonObject]:
    """Phases that a capture may hold: one that could not be opened again must not be recorded. Raises UsageError for others, found in
    ``path``.
    """
    try:
        msgspec.convert(found, list[PhaseAbout])
    except (ValueError, RecursionError) as error:
        text = f'{path} holds no phases, a list of objects such as {{"phase": 1, "name": "randread"}}: {error}.'
        raise UsageError(text) from None
    return list(found)
