"""Record of a long draw: its finished blocks, so that the draw goes on where it ended.

A line of JSON is a block. The file's name has a digest of rig, generator and judge: another one of them begins another file.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

from tests.sim.rig.rig_process import ROOT, find
from tests.traffic.judge import Verdict
from tests.traffic.session import BLOCK, Draw, Table

SOURCES = ("tests/traffic", "spec", "host/wattbell/wire")
"""Folders of the Python code that draws, decodes and judges."""


def digest(fidelity: str) -> str:
    """Digest of the rig and of the Python code of a draw."""
    files = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py")) if not path.name.startswith("test_")]
    files.append(find("wattbell-rig"))
    if fidelity == "rtl":
        files.append(ROOT / "build/rtl/lib_x4_word.so")
    together = hashlib.sha256()
    for path in files:
        together.update(hashlib.sha256(path.read_bytes()).digest())
    return together.hexdigest()[:12]


class Record:
    """File of a draw in `folder`. ``plan.seed`` None: the file's, or one by chance.

    ``done``: tables of its blocks.
    """

    def __init__(self, folder: Path, plan: Draw, seed: int | None) -> None:
        name = "-".join((plan.fidelity, str(plan.size), *plan.kinds, *(() if seed is None else (f"seed{seed}",)), digest(plan.fidelity)))
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.jsonl"
        self.done: dict[int, Table] = {}
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        if lines:
            self.seed = int(json.loads(lines[0])["seed"])
            for line in lines[1:]:
                try:
                    block = json.loads(line)
                except ValueError:  # a line that was being written when the draw ended
                    continue
                self.done[block["block"]] = _table(block)
        else:
            self.seed = random.SystemRandom().randrange(1 << 40) if seed is None else seed
            self._append({"seed": self.seed, "block": BLOCK})

    def count(self, number: int, table: Table) -> None:
        """Add a block."""
        self._append({"block": number, **_fields(table)})

    def _append(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write("\n" * _unfinished(self.path) + json.dumps(line) + "\n")


def _unfinished(path: Path) -> bool:
    data = path.read_bytes()
    return bool(data) and not data.endswith(b"\n")


def _fields(table: Table) -> dict[str, Any]:
    rows = {name: _counts(verdict) for name, verdict in table.rows.items()}
    rest = {field.name: getattr(table, field.name) for field in fields(table) if field.name not in ("rows", "supported")}
    return {"rows": rows, "supported": _counts(table.supported), **rest}


def _counts(verdict: Verdict) -> dict[str, Any]:
    return {name: value for name, value in vars(verdict).items() if value and name != "faults"}


def _table(block: dict[str, Any]) -> Table:
    rest = {name: value for name, value in block.items() if name not in ("block", "rows", "supported")}
    return Table({name: _verdict(counts) for name, counts in block["rows"].items()}, supported=_verdict(block["supported"]), **rest)


def _verdict(counts: dict[str, Any]) -> Verdict:
    return Verdict(**{**counts, "names": Counter(counts.get("names", {}))})
