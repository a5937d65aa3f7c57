"""Identifies this host package: its version, and its code."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from . import __version__


@cache
def described(package: Path = Path(__file__).parent) -> str:
    """Return the version with a hash: ``0.2.0 (sha256 0123456789ab)``.

    The hash covers the names and contents of all modules of the package, in order of name. It distinguishes results of edited code from
    results of the released code.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{__version__} (sha256 {digest.hexdigest()[:12]})"
