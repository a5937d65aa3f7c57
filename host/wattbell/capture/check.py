"""Checks whether a capture is as it was recorded: every file against its hash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pyarrow as pa

from .. import door
from ..errors import CaptureError
from ..jsondata import JsonObject
from . import hashes, meta, schema
from .journal import NAME as JOURNAL
from .journal import JournalReader
from .rail import NAME as RAIL
from .reader import Capture

Progress = Callable[[int, int], None]
"""Progress callback: bytes done, bytes in total."""
_OPTIONAL = ("link",)
"""Tables that older captures lack."""
_SAMPLES = 1 << 20
_OLDER = "written before there were hashes"


class Health(StrEnum):
    """Verdict on a file."""

    whole = "whole"
    damaged = "damaged"
    missing = "missing"
    no_hash = "no hash"


class Remedy(StrEnum):
    """Possible actions of ``wattbell check --repair`` on a damaged file."""

    rebuild = "rebuilt from the journal"
    set_aside = "set aside, and its records counted as lost"
    mark = "taken as it stands, with a note in it"
    none = "nothing"


@dataclass(frozen=True)
class FileHealth:
    """One file of the capture, by its relative path; ``detail`` describes the damage."""

    name: str
    health: Health
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.health in (Health.damaged, Health.missing)


@dataclass(frozen=True)
class Checkup:
    """Result of :func:`check`."""

    path: Path
    description: meta.Meta | None
    """``meta.json``; None when it cannot be read."""
    files: list[FileHealth] = field(default_factory=list)

    aside: tuple[str, ...] = ()
    """Damaged files that a repair has set aside."""

    @property
    def state(self) -> str | None:
        return None if self.description is None else str(self.description["state"])

    @property
    def unfinished(self) -> bool:
        """Whether its recorder died."""
        return self.state == "recording"

    @property
    def sealed(self) -> bool:
        """False for a capture written before there were hashes (and for an unfinished one)."""
        return self.description is not None and "files" in self.description

    @property
    def damaged(self) -> list[FileHealth]:
        return [file for file in self.files if file.bad]

    @property
    def whole(self) -> bool:
        """Whether nothing is known to be damaged."""
        return not self.damaged and not self.unfinished

    @property
    def journal(self) -> bool:
        """Whether the journal is there and not known to be damaged."""
        return any(file.name == JOURNAL and not file.bad for file in self.files)

    def remedy(self, file: FileHealth) -> Remedy:
        """Return the possible action on a damaged file."""
        if file.name == meta.NAME and self.description is not None:
            return Remedy.mark
        if file.name == meta.NAME:
            return Remedy.rebuild if self.journal else Remedy.none
        recorded = not file.name.startswith(f"{hashes.WORKLOAD}/") and file.name != JOURNAL
        if recorded and self.journal:
            return Remedy.rebuild
        return Remedy.none if self.description is None else Remedy.set_aside

    def to_json(self) -> JsonObject:
        """Return the result for programs."""
        return {
            "capture": str(self.path),
            "state": self.state,
            "whole": self.whole,
            "hashes": self.sealed,
            "unfinished": self.unfinished,
            "set_aside": list(self.aside),
            "files": [
                {
                    "file": file.name,
                    "health": file.health.value,
                    "detail": file.detail,
                    **({"remedy": self.remedy(file).name} if file.bad else {}),
                }
                for file in self.files
            ],
        }


def check(path: str | Path, progress: Progress | None = None) -> Checkup:
    """Compare every file of a capture with its hash. Without hashes, files are read through instead, which detects truncation but not every
    bit.

    Nothing is changed. Raises CaptureError when there is no capture, it is of another format, or it is being recorded.
    """
    directory = Path(path)
    if not directory.is_dir() or not (directory / meta.NAME).exists():
        meta.read(directory)  # raises with the reason
    about, description = _meta(directory)
    if description is not None and description["state"] == "recording":
        JournalReader(directory).close()  # CaptureError when the recorder is alive, or there is nothing to rebuild from
        size = hashes.size_of(directory, JOURNAL)
        return Checkup(directory, description, [about, FileHealth(JOURNAL, Health.no_hash, f"{size} bytes to rebuild the capture from")])
    stated: Mapping[str, hashes.Sum] = (description or {}).get("files") or {}
    present = set(hashes.names(directory))
    wanted = [f"{table}.parquet" for table in schema.TABLES if table not in _OPTIONAL]
    if description is not None and description["rail"].get("samples"):
        wanted.append(RAIL)
    names = list(dict.fromkeys([*stated, *wanted, *sorted(present)]))
    total = sum(hashes.size_of(directory, name) or 0 for name in names)
    done = 0
    found = [about]
    for name in names:
        size = hashes.size_of(directory, name)
        if size is None:
            found.append(FileHealth(name, Health.missing))
            continue
        began = done
        tell = (lambda here, began=began: progress(began + here, total)) if progress else None
        entry = _against(directory, name, size, stated[name], tell) if name in stated else _readable(directory, name, description)
        found.append(entry)
        done += size
        if progress:
            progress(done, total)
    aside = sorted(path.relative_to(directory).as_posix() for path in directory.rglob(f"*{hashes.ASIDE}"))
    return Checkup(directory, description, found, tuple(aside))


def _meta(directory: Path) -> tuple[FileHealth, meta.Meta | None]:
    try:
        data, description = meta.read(directory)
    except meta.OtherFormat:
        raise
    except CaptureError as error:
        return FileHealth(meta.NAME, Health.damaged, str(error)), None
    if not meta.intact(data, description):
        return FileHealth(meta.NAME, Health.damaged, "changed since it was written: its own checksum differs"), description
    if "self" in description:
        return FileHealth(meta.NAME, Health.whole), description
    return FileHealth(meta.NAME, Health.no_hash, _OLDER), description


def _against(directory: Path, name: str, size: int, stated: hashes.Sum, progress: Callable[[int], object] | None) -> FileHealth:
    if size != stated["bytes"]:
        return FileHealth(name, Health.damaged, f"{size} bytes of {stated['bytes']}")
    try:
        same = hashes.of_file(directory / name, progress) == {key: stated[key] for key in ("bytes", "sha256")}
    except OSError as error:
        return FileHealth(name, Health.damaged, f"cannot be read ({error.strerror})")
    return FileHealth(name, Health.whole) if same else FileHealth(name, Health.damaged, "its SHA-256 differs")


def _readable(directory: Path, name: str, description: meta.Meta | None) -> FileHealth:
    """Tell whether a file without a hash can be read from end to end."""
    detail = _OLDER if description is not None and "files" not in description else "not among the hashes in meta.json"
    try:
        if name.endswith(".parquet"):
            with door.parquet_file(directory / name) as file:
                for _ in file.iter_batches(1 << 18):
                    pass
        elif name == RAIL and description is not None:
            rail = Capture(directory, description, verify=False).rail
            for start in range(0, len(rail) if rail else 0, _SAMPLES):
                assert rail is not None
                rail.power(start, start + _SAMPLES)
    except (OSError, ValueError, pa.ArrowException, CaptureError) as error:
        return FileHealth(name, Health.damaged, f"cannot be read ({(str(error).splitlines() or ['damaged'])[0]})")
    return FileHealth(name, Health.no_hash, detail)
