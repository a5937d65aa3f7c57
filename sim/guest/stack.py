"""Location of the guest stack, and how to start its QEMU.

``fetch.py`` and ``run.py`` share this module. It uses only the standard library: booting the guest needs no installed part of
Wattbell. The stack is a Debian tree that is only unpacked. Its programs run through its own dynamic loader, so nothing is installed
on this machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent


class GuestError(Exception):
    """Reports a fault that the user can correct; the message says what to do."""


def stack_dir() -> Path:
    """Return the folder of the fetched stack: ``WATTBELL_GUEST_DIR``, else ``build/guest`` of the checkout."""
    return Path(os.environ.get("WATTBELL_GUEST_DIR") or CHECKOUT / "build" / "guest")


def die(message: str) -> None:
    """Print one error line and exit with code 1."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


class Stack:
    """The unpacked tree under ``root`` (``tree/``) and the initramfs beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "tree"
        self.initramfs = root / "initramfs.cpio"
        self.libraries = self.tree / "usr/lib/x86_64-linux-gnu"
        self.loader = self.libraries / "ld-linux-x86-64.so.2"

    def run_prefix(self, program: str) -> list[str]:
        """Return the command words that run ``usr/bin/program`` of the tree through the tree's own loader."""
        paths = [self.libraries, *(p for p in self.libraries.glob("*") if p.is_dir() and any(p.glob("*.so*")))]
        return [str(self.loader), "--library-path", ":".join(map(str, paths)), str(self.tree / "usr/bin" / program)]

    def qemu(self) -> list[str]:
        """Return the command words that start the fetched QEMU, with its firmware folders."""
        share = self.tree / "usr/share"
        words = self.run_prefix("qemu-system-x86_64")
        for folder in (share / "qemu", share / "seabios", self.tree / "usr/lib/ipxe/qemu"):
            words += ["-L", str(folder)]
        return words

    def environment(self) -> dict[str, str]:
        """Return the environment for :meth:`qemu`: its modules come from the tree."""
        return {**os.environ, "QEMU_MODULE_DIR": str(self.libraries / "qemu")}

    def kernel(self) -> Path:
        """Return the guest kernel. Raises GuestError if the stack is missing."""
        kernels = sorted((self.tree / "boot").glob("vmlinuz-*"))
        if not kernels:
            raise GuestError(f"no guest kernel under {self.tree}/boot: run `make guest` first")
        return kernels[-1]

    def check(self) -> None:
        """Raise GuestError unless QEMU, kernel and initramfs are there."""
        self.kernel()
        for path in (self.tree / "usr/bin/qemu-system-x86_64", self.loader, self.initramfs):
            if not path.exists():
                raise GuestError(f"{path} is missing: run `make guest` first")
