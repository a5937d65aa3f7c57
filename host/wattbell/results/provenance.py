"""Evidence of a run beside its results: job files and captures. An interrupted session does not belong to it."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path

from .. import door
from ..suites.results import INTERRUPTED

JOB_PATTERNS = ("*.fio", "*.iolog", "manifest.toml", "plan.toml", "plan-*.toml")


def job_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every job file, trace and manifest below ``folder``, by relative path; links out of the folder are left out."""
    found: dict[str, str] = {}
    inside = folder.resolve()
    for pattern in JOB_PATTERNS:
        for path in sorted(folder.rglob(pattern)):
            if path.is_file() and path.resolve().is_relative_to(inside) and not _interrupted(path, folder):
                with door.open_file(path, door.LOG) as file:
                    found[path.relative_to(folder).as_posix()] = file_digest(file, "sha256").hexdigest()
    return found


def capture_of(folder: Path) -> Path | None:
    """The first capture directory at or below ``folder``."""
    for meta in sorted(folder.rglob("meta.json"), key=lambda p: (len(p.parts), p)):
        if not _interrupted(meta, folder):
            return meta.parent
    return None


def _interrupted(path: Path, folder: Path) -> bool:
    """Return whether a file lies in the capture of an interrupted session. Such a session's test was run again."""
    return any(INTERRUPTED.fullmatch(part) for part in path.relative_to(folder).parts[:-1])
