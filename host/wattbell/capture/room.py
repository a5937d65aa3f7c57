"""Disk space: how a failed write is reported, and whether there is enough before much is written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import CaptureError

_KEPT = "What was recorded so far is kept and is rebuilt when the capture is opened."
_ELSEWHERE = "What was recorded so far is kept: copy the capture to such a disk, and it is rebuilt there when it is opened."


def write_error(path: Path, error: OSError) -> CaptureError:
    """The one error for a file of a capture that cannot be written."""
    number = error.errno or errno.EIO
    if number in (errno.ENOSPC, errno.EDQUOT):
        advice = f"free some space. {_KEPT}"
    elif number == errno.EFBIG:
        advice = f"this disk takes no larger file (FAT32 ends at 4 GiB, and a limit may be set): record to another one. {_ELSEWHERE}"
    else:
        advice = f"see that the disk is well and the folder may be written. {_KEPT}"
    return CaptureError(f"{path} cannot be written ({os.strerror(number)}); {advice}")


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
    """Why a file did not grow, where the writer did not say."""
    full = free_bytes(path.parent) < 1 << 20
    return OSError(errno.ENOSPC if full else errno.EFBIG, "")
