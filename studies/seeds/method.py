"""Reads a suite's method from its own manifest and job files, to check statements about the method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wattbell import door
from wattbell.errors import UsageError
from wattbell.suites.jobs import JobSection, sections
from wattbell.suites.manifest import load_suite
from wattbell.suites.units import size_bytes

SUITE = "anandtech-2018"


def asked(method: Mapping[str, Any]) -> Any:
    """Return the value a statement asks for: an option of the job file, a sum of its values, depths, mixes, or a key of the manifest.

    Raises UsageError when there is no such suite, test or job file.
    """
    suite = load_suite(str(method.get("suite", SUITE)))
    test = suite.test(str(method["test"]))
    if "manifest" in method:
        value: Any = test
        for key in str(method["manifest"]).split("."):
            value = getattr(value, key, None)
        return list(value) if isinstance(value, tuple) else value
    jobs = sections(door.read_text(suite.folder / test.jobs, door.SETTINGS))
    if "option" in method:
        found = {job.options.get(str(method["option"])) for job in jobs}
        return found.pop() if len(found) == 1 else sorted(map(str, found))
    if "total" in method:
        return sum(size_bytes(job.options[str(method["total"])]) for job in jobs)
    if method.get("depths"):
        return list(dict.fromkeys(job.depth for job in jobs))
    if method.get("write_shares"):
        return list(dict.fromkeys(_share(job) for job in jobs))
    raise UsageError(f"A method statement needs one of manifest, option, total, depths, write_shares: {dict(method)}.")


def _share(job: JobSection) -> float:
    return round(job.write_share, 6)


def same(found: Any, wanted: Any) -> bool:
    """Equality, with sizes compared as bytes (``16g`` is 17179869184)."""
    return bool(_plain(found) == _plain(wanted))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return size_bytes(value)
        except ValueError:
            return value
    return value
