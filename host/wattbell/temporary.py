"""Temporary folders that do not stay: :func:`folder`. Folders of a killed process are removed when the next process makes one."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "wattbell-temporary-"
_OURS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a folder in TMPDIR with mode 0700, removed with all it holds at the end of the block.

    The process that uses the folder holds a lock on it (flock), which ends with the process however the process ends. First, folders of
    this user with a free lock are removed. Raises OSError if none can be made.
    """
    _remove_abandoned()
    made: list[Path] = []
    locks: list[int] = []
    try:  # from the start: a signal may interrupt the making
        yield _locked(made, locks)
    finally:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        for lock in locks:
            os.close(lock)


def _locked(made: list[Path], locks: list[int]) -> Path:
    """Make a folder and lock it; `made` names it before it exists, and `locks` has its lock."""
    while True:
        path = Path(tempfile.gettempdir(), f"{_PREFIX}{secrets.token_hex(8)}")
        made.append(path)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            made.remove(path)  # of somebody else
            continue
        # another process may take the folder for abandoned before it has its lock
        with suppress(FileNotFoundError):
            locks.append(os.open(path, _OURS))
            fcntl.flock(locks[-1], fcntl.LOCK_EX)
            if path.exists():
                return path
            os.close(locks.pop())


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(path, _OURS)
        except OSError:  # of another user, a link, or gone
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
