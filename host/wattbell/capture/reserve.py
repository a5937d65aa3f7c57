"""Reserves disk space for a file that a library writes, before the library gets the data.

The library of ``rail.jls`` continues after a failed write, past the end of its buffers. So it is given nothing that the disk might
not take.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from pathlib import Path

from .room import free_bytes

_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE from Linux's falloc.h: allocates blocks but leaves the file's size as it is."""
_STEP = 32 << 20
_NOT_HERE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class Reserve:
    """Reserved space for a growing file. Raises OSError (ENOSPC, EFBIG, EDQUOT) when there is none."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY)
        self._end = 0
        self._knows = True
        self._closed = False

    def require(self, end: int) -> None:
        """Make sure that the file may grow to `end` bytes."""
        if end <= self._end:
            return
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit not in (-1, resource.RLIM_INFINITY) and end > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        more = end + _STEP if limit in (-1, resource.RLIM_INFINITY) else min(end + _STEP, limit)
        if self._knows and not self._take(more):
            more = end
            self._knows = self._take(end, last=True)
        if not self._knows:
            more = end
            if free_bytes(self._fd) < end - os.fstat(self._fd).st_size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._end = more

    def _take(self, end: int, *, last: bool = False) -> bool:
        """True when the disk has reserved the space; False when it has none, or (with `last`) does not support it."""
        if not hasattr(_libc, "fallocate"):
            return False
        if _libc.fallocate(self._fd, _KEEP_SIZE, ctypes.c_int64(self._end), ctypes.c_int64(end - self._end)) == 0:
            return True
        number = ctypes.get_errno()
        if last and number not in _NOT_HERE:
            raise OSError(number, os.strerror(number))
        return False

    def close(self) -> None:
        """Give back the unused reserve of the file."""
        if not self._closed:
            self._closed = True
            try:
                os.ftruncate(self._fd, os.fstat(self._fd).st_size)
            finally:
                os.close(self._fd)


_libc = ctypes.CDLL(None, use_errno=True)
