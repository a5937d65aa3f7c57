"""Which suites there are, and which tests a suite has: read in a moment, without the modules that check or run a suite.

Completion and suggestions ask here. :mod:`.manifest` reads a suite in full.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from .. import door
from ..jsondata import JsonObject

DATA = Path(__file__).parent / "data"
"""Folder of the suites in the package."""
MANIFEST = "manifest.toml"
CONFORMANCE = "conformance"
"""The suite whose tests are chosen by requirements."""


def suite_names() -> list[str]:
    """Names of the suites in the package."""
    return sorted(path.parent.name for path in DATA.glob(f"*/{MANIFEST}"))


def suite_folder(name: str | Path) -> Path:
    """Folder of a suite that is given by its name or by its folder; it need not exist."""
    folder = Path(name)
    return folder if os.path.lexists(folder / MANIFEST) else DATA / str(name)


def title(name: str | Path) -> str:
    """A suite's title; empty if it has none, or its manifest cannot be read."""
    return str(_manifest(name).get("title", ""))


def test_names(name: str | Path) -> dict[str, str]:
    """Ids of a suite's tests, each with the test's name, in the order of the manifest. Empty where there is no such suite, or its manifest
    cannot be read."""
    try:
        return {str(test["id"]): str(test.get("name") or _lent(test)) for test in _manifest(name)["test"]}
    except (LookupError, TypeError, AttributeError):
        return {}


def _lent(test: JsonObject) -> str:
    """Return the name of a test that belongs to another suite; empty without one."""
    if "of" not in test:
        return ""
    lender = _manifest(DATA / str(test["of"]))
    return next((str(one.get("name", "")) for one in lender["test"] if one["id"] == test["id"]), "")


def _manifest(name: str | Path) -> JsonObject:
    try:
        return tomllib.loads(door.read_text(suite_folder(name) / MANIFEST, door.SETTINGS))
    except (OSError, ValueError, RecursionError):
        return {}
