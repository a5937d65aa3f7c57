"""Who may read and write the files that are made: the umask, and the mode and owner of a file that takes another's place."""

from __future__ import annotations

import os
import pwd
import re
import stat
from contextlib import suppress
from pathlib import Path

_OWNER = stat.S_IRWXU
_READ_WRITE = 0o666


def umask() -> int:
    """The mode bits that this process takes away from new files. Linux is asked without changing it, as another thread may make a file."""
    with suppress(OSError):
        found = re.search(rb"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_bytes(), re.MULTILINE)
        if found:
            return int(found[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def shuts_out_owner() -> str | None:
    """Return why this process could not use its own new files and folders, with advice; None if it can."""
    mask = umask()
    if not mask & _OWNER:
        return None
    return f"umask {mask:04o} keeps new files from their own owner; set another (umask 022, or 077 to keep all others out) and start again."


def owner_of(path: Path) -> str:
    """The name of a file's owner, or the number where there is no name. Raises OSError."""
    number = path.stat().st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def inherit(made: Path, before: Path) -> None:
    """Give the new file ``made`` no more readers than the file ``before``, whose place or contents it takes, and for root the same owner.

    Nothing happens if ``before`` is no plain file, or the file system has no modes.
    """
    with suppress(OSError):
        about = before.lstat()
        if not stat.S_ISREG(about.st_mode):
            return
        if os.geteuid() == 0:
            os.chown(made, about.st_uid, about.st_gid, follow_symlinks=False)
        os.chmod(made, about.st_mode & _READ_WRITE)
