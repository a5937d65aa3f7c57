"""What a run rests on, found beside its results: job files and captures."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path

from .. import door

JOB_PATTERNS = ("*.fio", "*.iolog", "manifest.toml", "plan.toml", "plan-*.toml")


def job_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every job file, trace and manifest below ``folder``, by path relative to it; links that lead out of it are left out."""
    found: dict[str, str] = {}
    inside = folder.resolve()
    for pattern in JOB_PATTERNS:
        for path in sorted(folder.rglob(pattern)):
            if path.is_file() and path.resolve().is_relative_to(inside):
                with door.open_file(path, door.LOG) as file:
                    found[path.relative_to(folder).as_posix()] = file_digest(file, "sha256").hexdigest()
    return found


def capture_of(folder: Path) -> Path | None:
    """The first capture directory at or below ``folder``."""
    for meta in sorted(folder.rglob("meta.json"), key=lambda p: (len(p.parts), p)):
        return meta.parent
    return None
