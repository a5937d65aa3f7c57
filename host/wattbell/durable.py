"""Files that survive a power cut: each is on the disk before the name that makes it valid, and before its predecessor is removed.

A file system may write a new name long before the contents behind it. :func:`flush` waits for the disk; the other functions order flushes,
renames and removals.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SYNC_S = 0.5
"""How often :class:`Syncer` forces its file to the disk."""
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
"""Errors of a kernel or file system that cannot exchange two names."""


def flush(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():  # some network file systems flush no folders
            raise
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Flush every plain file and folder below ``folder``, and ``folder`` itself. Links are left alone. Raises OSError."""
    for place, _folders, files in os.walk(folder, topdown=False):
        for name in files:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                flush(path)
        flush(Path(place))


def make_folder(path: Path) -> None:
    """Make a folder and those above it, each with its name on the disk. Raises OSError."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        flush(each.parent)


def replace(made: Path, path: Path) -> None:
    """Give the finished file ``made`` the name ``path``: a power cut leaves the old file or the new one.

    Raises OSError, also if ``path`` is a device or a pipe, which would be gone.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "it is there, and is no plain file", str(path))
    flush(made)
    os.replace(made, path)
    flush(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a file to write. The file gets the name ``path`` when the block ends well and is removed when it does not.

    The name lies in a folder of its own, beside ``path``, and keeps the suffix. A file that is not plain (``/dev/stdout``, a named pipe) is
    written directly; behind a link its target is replaced. Raises OSError.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:100]}."))
    try:
        made = folder / path.name
        yield made
        replace(made, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def exchange(one: Path, other: Path) -> None:
    """Swap two names of one file system in a single step, where the file system can; else by three renames. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "renameat2"):
        if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
            return
        number = ctypes.get_errno()
        if number not in _UNSUPPORTED:
            raise OSError(number, os.strerror(number), str(one))
    aside = other.with_name(f"{other.name}.old")
    os.rename(other, aside)
    os.rename(one, other)
    os.rename(aside, one)


class Syncer:
    """Forces a file that grows to the disk every :data:`SYNC_S` s, in a thread of its own: a slow disk holds up nobody who records.

    ``descriptor`` stays the caller's, who closes it after :meth:`close`.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._over = threading.Event()
        self._unsynced = False
        self._failed: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="syncer", daemon=True)
        self._thread.start()

    def written(self) -> None:
        """The file has grown. Raises the OSError of an earlier sync: some file systems find only then that they are full or broken."""
        self._unsynced = True
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        while not self._over.wait(SYNC_S):
            if self._unsynced:
                self._unsynced = False
                try:
                    os.fdatasync(self._descriptor)
                except OSError as error:
                    self._failed = error

    def close(self) -> None:
        """End the thread; idempotent."""
        self._over.set()
        self._thread.join()


def flush_all(paths: Iterable[Path]) -> None:
    """Flush each of several files or folders. Raises OSError."""
    for path in paths:
        flush(path)
