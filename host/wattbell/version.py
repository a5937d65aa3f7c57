"""Which host package this is: its version, and the code itself."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from . import __version__


@cache
def described(package: Path = Path(__file__).parent) -> str:
    """``0.1.0 (sha256 0123456789ab)``: the version, and the beginning of a hash over names and contents of all modules of the
    package in order of name. Results of edited code are thus told from those of the code as released."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{__version__} (sha256 {digest.hexdigest()[:12]})"
