"""The traces of ``../shared/cases/traffic``, by another author: their truth in the terms of :mod:`.truth`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.traffic.truth import Deed

SHARED = Path(__file__).parents[3] / "shared/cases/traffic/traces.tar.xz"
"""Not part of the repository; tests that need it are left out without it."""
_NAMES = {
    "doorbell": "db_ns",
    "first_data": "first_ns",
    "last_data": "last_ns",
    "cqe": "cqe_ns",
    "interrupt": "msi_ns",
    "head": "head_ns",
    "opcode": "op",
}


def known(path: Path) -> tuple[str, ...]:
    """Return the names of a truth that every row of a ``.truth.json`` has."""
    rows = json.loads(path.read_text())
    return tuple(name for name, key in _NAMES.items() if all(key in row for row in rows))


def _ps(value: int | None) -> int | None:
    return None if value is None else value * 1000


def truth(path: Path) -> list[Deed]:
    """Commands of a ``.truth.json``."""
    deeds = []
    for row in json.loads(path.read_text()):
        deed = Deed(0, row["qid"], row["cid"], row["op"], 0, 0, 0)
        deed.doorbell, deed.cqe = _ps(row["db_ns"]), _ps(row["cqe_ns"])
        deed.first_data, deed.last_data = _ps(row.get("first_ns")), _ps(row.get("last_ns"))
        deed.interrupt, deed.head = _ps(row.get("msi_ns")), _ps(row.get("head_ns"))
        deeds.append(deed)
    return deeds
