"""Keeps a recorder's freed memory in the process.

A recording allocates and frees the same hundred arrays each second, megabytes each. The C library returns such memory to the system at
every free and requests it anew. The system then clears every page again, which takes a fifth of a recorder's time.
"""

from __future__ import annotations

import contextlib
import ctypes

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""From glibc's malloc.h."""
_MMAP_BYTES, _KEPT_BYTES, _STEP_BYTES = 1 << 30, 256 << 20, 16 << 20


def keep_freed_memory() -> None:
    """Keep up to 256 MiB of freed memory for reuse, for the rest of the process. Only glibc supports this; elsewhere nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TOP_PAD, _STEP_BYTES)
