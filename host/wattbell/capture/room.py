"""Disk space: how a failed write is reported, and whether there is enough before much is written."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import CaptureError

MORE_MEMORY = "end other programs, or raise the limit (`ulimit -v`, or MemoryMax of its service)"
_KEPT = "What was recorded so far is kept and is rebuilt when the capture is opened."
_PROBE_BYTES = 1 << 20
_MEMORY_BYTES = 64 << 20
"""More than the library of ``rail.jls`` asks for at a time."""
_FAT_BYTES = (1 << 32) - 1
_ELSEWHERE = "What was recorded so far is kept: copy the capture to such a disk, and it is rebuilt there when it is opened."


def write_error(path: Path, error: OSError) -> CaptureError:
    """The one error for a file of a capture that cannot be written."""
    number = error.errno or errno.EIO
    if number == errno.EIO and _read_only(path):
        number = errno.EROFS  # ext4 gives up its journal, then turns read-only: a flush between the two fails with EIO
    if number == errno.ENOSPC:
        advice = f"free some space. {_KEPT}"
    elif number == errno.EDQUOT:
        advice = f"your quota of this disk is used up: free some space, or have the quota raised. {_KEPT}"
    elif number == errno.EFBIG:
        advice = f"this disk takes no larger file (FAT32 ends at 4 GiB, and a limit may be set): record to another one. {_ELSEWHERE}"
    elif number == errno.ENOMEM:
        advice = f"{MORE_MEMORY}. {_KEPT}"
    elif number == errno.EROFS:
        advice = f"the file system is read-only now, perhaps for a fault of the disk (see `dmesg`); mend that. {_KEPT}"
    else:
        advice = f"see that the disk is well and the folder may be written. {_KEPT}"
    return CaptureError(f"{path} cannot be written ({os.strerror(number)}); {advice}")


def _read_only(path: Path) -> bool:
    """Whether the file system of a file is read-only now; false if nobody can say."""
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def memory_error(path: Path) -> CaptureError:
    """Return the error of a recording that ran out of memory."""
    return write_error(path, OSError(errno.ENOMEM, ""))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn any disk error in this block into a CaptureError about `path`."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from None


def free_bytes(place: Path | int) -> int:
    """Bytes this user may still write at `place` (a path or a descriptor)."""
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def refused_growth(path: Path) -> OSError:
    """Find out why a file did not grow, if the writer did not say: try to make it larger, then to get memory."""
    try:
        size = path.stat().st_size
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            if free_bytes(descriptor) < _PROBE_BYTES:
                return OSError(errno.ENOSPC, "")
            os.posix_fallocate(descriptor, size, _PROBE_BYTES)
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error
    if size + _PROBE_BYTES >= _FAT_BYTES:
        return OSError(errno.EFBIG, "")
    try:
        mmap.mmap(-1, _MEMORY_BYTES).close()
    except OSError as error:
        return error
    return OSError(errno.EIO, "")
