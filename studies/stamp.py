"""Stamps of the code that a study runs, so that figures of one table come from one state of the code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from wattbell.virtual import simulator

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "host" / "wattbell"
CODE = (".py", ".toml")


def stamp(what: str, files: Iterable[Path], folders: Iterable[Path]) -> str:
    """Return a hash of ``what``, the model's and the rig's programs, the specification's tables, the files, and the code in the folders."""
    every = [simulator.find_program("wattbell-ssd"), simulator.find_program("wattbell-rig"), *files]
    for folder in (ROOT / "spec" / "wattbell_spec", *folders):
        every += sorted(path for path in folder.rglob("*") if path.suffix in CODE)
    digest = hashlib.sha256(what.encode())
    for path in every:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
