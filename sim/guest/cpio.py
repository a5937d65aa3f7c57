"""Writer of cpio archives in the `newc` form that the Linux kernel unpacks as an initramfs.

The fields follow Linux' Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

from typing import BinaryIO

REGULAR, DIRECTORY, SYMLINK, CHARACTER = 0o100000, 0o040000, 0o120000, 0o020000


class Newc:
    """Appends entries to ``file``; ``close`` writes the trailer.

    The owner is root and the mtime 0: the same input gives the same bytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inode = 0

    def _entry(self, name: str, mode: int, data: bytes = b"", rdev: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        raw = name.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *rdev, len(raw), 0)
        head = b"070701" + b"".join(b"%08X" % f for f in fields) + raw
        self._file.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))

    def directory(self, name: str) -> None:
        self._entry(name, DIRECTORY | 0o755)

    def file(self, name: str, data: bytes, permissions: int) -> None:
        self._entry(name, REGULAR | permissions, data)

    def symlink(self, name: str, target: str) -> None:
        self._entry(name, SYMLINK | 0o777, target.encode())

    def device(self, name: str, major: int, minor: int) -> None:
        """Add a character device node."""
        self._entry(name, CHARACTER | 0o600, rdev=(major, minor))

    def close(self) -> None:
        self._entry("TRAILER!!!", 0)
