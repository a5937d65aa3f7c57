"""A suite of one test, for the tests of its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wattbell.suites.manifest import parse_manifest
from wattbell.suites.suite import Suite, Test


def suite(tmp_path: Path, kind: str, job: str = "", **keys: Any) -> tuple[Suite, Test]:
    """Test ``t`` of this kind in condition ``empty``, with ``job`` as its job file and whatever else the manifest says of it."""
    folder = tmp_path / "suite"
    folder.mkdir(exist_ok=True)
    (folder / "manifest.toml").write_text("")
    (folder / "j.fio").write_text(job)
    entry = {"id": "t", "name": "T", "kind": kind, "conditions": ["empty"], **({"jobs": "j.fio"} if job else {}), **keys}
    made = parse_manifest({"name": "s", "test": [entry]}, folder)
    return made, made.tests[0]
