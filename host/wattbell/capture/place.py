"""The folder of a capture being written: newly made, or swapped in for another capture once that is safe."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from .. import durable, permissions
from ..errors import CaptureError
from . import journal, meta
from .room import writing


class CapturePlace:
    """The folder to write into. A capture to be replaced stays untouched until :meth:`commit`.

    Raises CaptureError in these cases:

    - the folder holds anything (a capture: unless `overwrite`)
    - the capture is being recorded or rebuilt
    - a file belongs to another user
    - the umask would shut this process out of its own files
    """

    def __init__(self, path: Path, overwrite: bool) -> None:
        self.final = path
        self.path = path
        """Folder to write to now."""
        self._lock: int | None = None
        if reason := permissions.shuts_out_owner():
            raise CaptureError(f"{path} cannot be recorded: {reason}")
        try:
            replaces = os.path.lexists(path) and (not path.is_dir() or any(path.iterdir()))
            if replaces:
                self._refuse(overwrite)
                self.path = path.absolute().with_name(f".{path.absolute().name[:200]}.new")
            elif path.exists() and path.stat().st_uid != os.geteuid():  # who may put links there, under names to come
                raise CaptureError(f"{path} belongs to {permissions.owner_of(path)}, who could change the recording; choose a new name.")
            if self.path != path and self.path.exists():  # left by a recorder that died before any data came
                _unlock(_lock_of(self.path))
                shutil.rmtree(self.path)
            durable.make_folder(self.path)
        except OSError as error:
            _unlock(self._lock)
            raise CaptureError(f"{path} cannot be created ({error.strerror}); choose another place.") from None
        except CaptureError:
            _unlock(self._lock)
            raise

    def _refuse(self, overwrite: bool) -> None:
        if not overwrite:
            raise CaptureError(f"{self.final} exists already; choose another name, or add --force to replace it.")
        if not (self.final / meta.NAME).exists():
            raise CaptureError(f"{self.final} exists and is not a capture, so --force leaves it alone; choose another.")
        if os.geteuid() not in (0, self.final.stat().st_uid):
            owner = permissions.owner_of(self.final)
            raise CaptureError(f"{self.final} belongs to {owner}, and --force replaces only your own; choose another name.")
        self._lock = _lock_of(self.final)

    @property
    def committed(self) -> bool:
        """Whether the folder has its final name."""
        return self.path == self.final

    def commit(self) -> Path:
        """Give the folder its final name; the capture that had it is deleted, once the disk has the new one under that name. Returns the
        folder to write to from now on."""
        if self.committed:
            return self.path
        old = self.path
        with writing(self.final):
            durable.flush_tree(self.path)
            durable.exchange(self.path, self.final)
            durable.flush(old.parent)
        self.path = self.final
        shutil.rmtree(old, ignore_errors=True)
        self._unlock()
        return self.path

    def give_up(self) -> None:
        """Remove a folder that never got its final name; the capture it was to replace stays."""
        if not self.committed:
            shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def undo(self) -> None:
        """Remove the folder: nothing has been recorded into it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _unlock(self) -> None:
        _unlock(self._lock)
        self._lock = None


def _lock_of(directory: Path) -> int | None:
    """Take the lock of a capture's journal; None when it has no journal. Raises CaptureError when its recorder is alive."""
    try:
        descriptor = os.open(directory / journal.NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise CaptureError(
            f"{directory} is being recorded (or rebuilt) by another program; stop that with Ctrl-C, or choose another name."
        ) from None
    return descriptor


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
