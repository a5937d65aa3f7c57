"""``stream.wbs``: the raw stream, written at once, so that a killed recorder loses nothing that had arrived.

The disk has each byte within :data:`~wattbell.durable.SYNC_S` and the time of one flush; a power cut loses no older one.

The journal is locked while a recorder lives; a free lock on an unfinished capture means that the recorder died.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from .. import door
from ..durable import Syncer, flush
from ..errors import CaptureError
from .room import writing

NAME = "stream.wbs"


class Journal:
    """Appends with ``os.write``: bytes survive kill -9 at once, and a power cut after :data:`~wattbell.durable.SYNC_S`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self.bytes = 0
        with writing(self.path):
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._fd).st_size:
                raise BlockingIOError
        except OSError:
            os.close(self._fd)
            raise CaptureError(f"{directory} is being recorded by another program; choose another name.") from None
        with writing(self.path):
            flush(directory)
        self._syncer = Syncer(self._fd)

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`. Raises CaptureError when the disk is full, or accepts no larger file."""
        view = memoryview(data)
        while view:
            with writing(self.path):
                written = os.write(self._fd, view)
                self._syncer.written()
            self.bytes += written
            view = view[written:]

    def read(self, offset: int, size: int) -> bytes:
        """Return appended bytes from an offset on. Raises CaptureError when the disk does not give them back."""
        with writing(self.path):
            found = b""
            while len(found) < size:
                piece = os.pread(self._fd, size - len(found), offset + len(found))
                if not piece:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                found += piece
        return found

    def moved_to(self, directory: Path) -> None:
        """The capture's folder was renamed."""
        self.path = directory / NAME

    def close(self, *, remove: bool) -> None:
        """Unlock, and remove if asked to; idempotent."""
        if self._fd < 0:
            return
        self._syncer.close()
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = -1


class JournalReader:
    """Reads the journal of a dead recorder. Raises CaptureError when the recorder is alive."""

    def __init__(self, directory: Path) -> None:
        path = directory / NAME
        try:
            self._file = door.open_file(path, door.RECORDING)
        except FileNotFoundError:
            raise CaptureError(f"{directory} was not finished and its journal {NAME} is missing: nothing can be rebuilt.") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise CaptureError(f"{directory} is still being recorded (or rebuilt); stop the recorder with Ctrl-C, or wait.") from None

    def chunks(self, boundaries: list[int], size: int = 1 << 20) -> Iterator[tuple[bytes, bool]]:
        """Pieces of the journal; the flag says that the line was cut just before this piece."""
        position = 0
        for end in [*sorted(boundaries), None]:
            first = position > 0
            while True:
                wanted = size if end is None else min(size, end - position)
                data = self._file.read(wanted) if wanted else b""
                if not data:
                    break
                position += len(data)
                yield data, first
                first = False

    def close(self) -> None:
        """Unlock."""
        self._file.close()
