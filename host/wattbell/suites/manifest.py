"""Suites as data: a folder with ``manifest.toml`` and fio job files."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .units import size_bytes

KINDS = (
    "burst",
    "queue-depths",
    "mixes",
    "fill",
    "consistency",
    "rounds",
    "idle",
    "wake",
    "trace",
    "operational-states",
    "non-operational-states",
)
CONDITIONS = ("test-data", "full", "empty")
DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Fill:
    """Sequential write of ``span`` (share of the namespace) in blocks of ``bs``, ``times`` times, before a test."""

    span: float = 1.0
    bs: str = "128k"
    times: int = 1


@dataclass(frozen=True)
class Test:
    """One test of a suite. Times in seconds, sizes in bytes; every key of the manifest, with its default.

    ``conditions``: what the drive holds before the test; each gives a result of its own. ``more_conditions``: conditions that
    run only when asked for. ``session``: tests of one
    session share a drive, in order. ``test_data``: bytes written before the test (condition test-data). ``purge`` and
    ``fill``: preconditioning that is run, not assumed. ``duty``: after each section of the job file the drive rests for
    busy time x (1 - duty) / duty, at most ``idle_max_s``. ``idle_min_s`` and ``repeat_min``: what ``--scale`` may not go
    below. ``score_over``: queue depths of the score. ``track`` and ``quantity``: sections and quantity in which a
    steady state must be reached. ``default``: false runs the test only when it is asked for by name.
    """

    __test__ = False  # not a test of ours

    id: str
    name: str
    kind: str
    conditions: tuple[str, ...]
    more_conditions: tuple[str, ...] = ()
    session: str = ""
    test_data: int = 0
    purge: bool = False
    fill: Fill | None = None
    jobs: str = ""
    trace: str = ""
    trace_idle_cut_s: float = 0.025
    duty: float | None = None
    idle_max_s: float = 600.0
    idle_s: float = 0.0
    idle_min_s: float = 0.0
    repeat: int = 1
    repeat_min: int = 1
    apst: bool = False
    aspm: str = "off"
    score_over: tuple[int, ...] = ()
    score_last_s: float = 0.0
    steady_from_s: float = 0.0
    series_s: float = 1.0
    series_gb: float = 1.0
    rounds_max: int = 0
    rounds_first: int = 0
    track: tuple[str, ...] = ()
    quantity: str = ""
    rail_interval_s: float = 1e-3
    default: bool = True


@dataclass(frozen=True)
class Suite:
    """A suite: ``folder`` holds the manifest and the job files; ``digest`` is ``sha256:...`` of all of them."""

    name: str
    title: str
    folder: Path
    tests: tuple[Test, ...]
    digest: str

    def test(self, test_id: str) -> Test:
        """The test of that id; UsageError with the list of ids when there is none."""
        for test in self.tests:
            if test.id == test_id:
                return test
        known = ", ".join(t.id for t in self.tests)
        raise UsageError(f"{self.name} has no test {test_id}; its tests: {known}.")


def suite_names() -> list[str]:
    """Names of the suites in the package."""
    return sorted(path.parent.name for path in DATA.glob("*/manifest.toml"))


def load_suite(name: str | Path) -> Suite:
    """A suite by name, or from a folder with a ``manifest.toml``. UsageError when it is not there or makes no sense."""
    folder = Path(name)
    if not (folder / "manifest.toml").is_file():
        folder = DATA / str(name)
    path = folder / "manifest.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UsageError(f"There is no suite {name}; known: {', '.join(suite_names())}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML ({error}).") from None
    return parse_manifest(raw, folder)


def parse_manifest(raw: Mapping[str, Any], folder: Path) -> Suite:
    """The suite that a manifest describes; UsageError names the test and key that are wrong."""
    where = folder / "manifest.toml"
    unknown = set(raw) - {"name", "title", "session", "test"}
    if unknown:
        raise UsageError(f"{where}: unknown key {', '.join(sorted(unknown))}.")
    entries = raw.get("test")
    if not isinstance(entries, list) or not entries or not all(isinstance(e, Mapping) for e in entries):
        raise UsageError(f"{where}: it needs at least one [[test]].")
    tests = tuple(_test(entry, where, str(raw.get("session", ""))) for entry in entries)
    seen: set[str] = set()
    for test in tests:
        if test.id in seen:
            raise UsageError(f"{where}: two tests are called {test.id}.")
        seen.add(test.id)
        if test.jobs and not (folder / test.jobs).is_file():
            raise UsageError(f"{where}: test {test.id}: there is no file {test.jobs} beside the manifest.")
    return Suite(str(raw.get("name", folder.name)), str(raw.get("title", "")), folder, tests, _digest(folder))


def _test(entry: Mapping[str, Any], where: Path, session: str) -> Test:
    name = f"{where}: test {entry.get('id', '?')}"
    known = {f.name for f in fields(Test)}
    unknown = set(entry) - known
    if unknown:
        raise UsageError(f"{name}: unknown key {', '.join(sorted(unknown))}.")
    values = dict(entry)
    for key in ("conditions", "more_conditions", "score_over", "track"):
        if key in values:
            values[key] = tuple(values[key])
    try:
        if isinstance(values.get("test_data"), str):
            values["test_data"] = size_bytes(values["test_data"])
        if "fill" in values:
            values["fill"] = Fill(**values["fill"])
        values.setdefault("session", session or values.get("id", ""))
        test = Test(**values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: {error}.") from None
    problem = _problem(test)
    if problem:
        raise UsageError(f"{name}: {problem}.")
    return test


def _problem(test: Test) -> str | None:
    if test.kind not in KINDS:
        return f"kind {test.kind} is none of {', '.join(KINDS)}"
    if not test.conditions or set(test.conditions + test.more_conditions) - set(CONDITIONS):
        return f"conditions must be some of {', '.join(CONDITIONS)}"
    if test.aspm not in ("off", "l1", "l1.2"):
        return f"aspm {test.aspm} is none of off, l1, l1.2"
    if test.duty is not None and not 0 < test.duty <= 1:
        return f"duty = {test.duty} is not between 0 and 1"
    if test.kind == "trace" and not test.trace:
        return "a trace test needs `trace`"
    if test.kind not in ("idle", "wake", "trace") and not test.jobs:
        return f"a test of kind {test.kind} needs `jobs`"
    if test.fill is not None and not (0 < test.fill.span <= 1 and test.fill.times >= 1):
        return "fill.span must be above 0 and at most 1, fill.times at least 1"
    return None


def _digest(folder: Path) -> str:
    """sha256 over names and contents of the manifest and the job files, in order of name."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.fio"), folder / "manifest.toml"]):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return f"sha256:{digest.hexdigest()}"
