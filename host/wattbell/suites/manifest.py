"""Suites as data: a folder with ``manifest.toml`` and fio job files."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..errors import UsageError
from .jobs import sections
from .traces import COMPOSITIONS
from .units import LARGEST, size_bytes

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
QUANTITIES = ("iops", "mb_per_s", "mean_latency_s")
"""In which a steady state can be reached."""
DATA = Path(__file__).parent / "data"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""Of a test, a session, a job file: they become names of files."""

Seconds = Annotated[float, Meta(ge=0, le=1e8)]
Positive = Annotated[float, Meta(gt=0, le=1e8)]
Count = Annotated[int, Meta(ge=0, le=100_000)]
AtLeastOne = Annotated[int, Meta(ge=1, le=100_000)]


class Fill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sequential write of ``span`` (share of the namespace) in blocks of ``bs``, ``times`` times, before a test."""

    span: Annotated[float, Meta(gt=0, le=1)] = 1.0
    bs: str = "128k"
    times: Annotated[int, Meta(ge=1, le=100)] = 1


class Test(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One test of a suite. Times in seconds, sizes in bytes; every key of the manifest, with its default.

    ``conditions``: what the drive holds before the test; each gives a result of its own. ``more_conditions``: conditions that
    run only when asked for. ``session``: tests of one session share a drive, in order. ``test_data``: bytes written before the
    test (condition test-data). ``purge`` and ``fill``: preconditioning that is run, not assumed (in condition full: how much of
    the drive is full, and a model is set to it). ``rest_s``: how long the drive is left alone before a test in condition full;
    without it, it has just been filled. ``duty``: after each section of the job file the drive rests for
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
    test_data: Annotated[int, Meta(ge=0, le=LARGEST)] = 0
    purge: bool = False
    fill: Fill | None = None
    rest_s: Seconds = 0.0
    jobs: str = ""
    trace: str = ""
    trace_idle_cut_s: Seconds = 0.025
    duty: Annotated[float, Meta(gt=0, le=1)] | None = None
    idle_max_s: Seconds = 600.0
    idle_s: Seconds = 0.0
    idle_min_s: Seconds = 0.0
    repeat: AtLeastOne = 1
    repeat_min: AtLeastOne = 1
    apst: bool = False
    aspm: str = "off"
    score_over: tuple[AtLeastOne, ...] = ()
    score_last_s: Seconds = 0.0
    steady_from_s: Seconds = 0.0
    series_s: Positive = 1.0
    series_gb: Positive = 1.0
    rounds_max: Count = 0
    rounds_first: Count = 0
    track: tuple[str, ...] = ()
    quantity: str = ""
    rail_interval_s: Annotated[float, Meta(gt=0, le=1)] = 1e-3
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


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    test: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=1000)]
    name: str | None = None
    title: str = ""
    session: str = ""


def load_suite(name: str | Path) -> Suite:
    """A suite by name, or from a folder with a ``manifest.toml``. UsageError when it is not there or makes no sense."""
    try:
        folder = Path(name)
        if not (folder / "manifest.toml").is_file():
            folder = DATA / str(name)
        path = folder / "manifest.toml"
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not TOML ({error}).") from None
    except (OSError, ValueError):
        raise UsageError(f"There is no suite {name}; known: {', '.join(suite_names())}.") from None
    return parse_manifest(read_toml(content, path), folder)


def read_toml(content: str, path: Path) -> dict[str, Any]:
    """The tables of a TOML file; UsageError, with the file's path, when it is none."""
    try:
        return tomllib.loads(content)
    except RecursionError:
        raise UsageError(f"{path}: its tables are nested too deeply.") from None
    except ValueError as error:  # TOMLDecodeError is one; so is a date that is none
        raise UsageError(f"{path}: not TOML ({error}).") from None


def parse_manifest(raw: Mapping[str, Any], folder: Path) -> Suite:
    """The suite that a manifest describes; UsageError names the test and key that are wrong."""
    where = folder / "manifest.toml"
    try:
        manifest = msgspec.convert(raw, _Manifest)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {_told(error)}.") from None
    name = manifest.name if manifest.name is not None else folder.resolve().name
    for key, text in (("name", name), ("title", manifest.title)):
        if not text.isprintable() or len(text) > 200 or (key == "name" and not text.strip()):
            raise UsageError(f"{where}: {key} must be up to 200 printable characters.")
    tests = tuple(_test(entry, where, manifest.session) for entry in manifest.test)
    seen: set[str] = set()
    for test in tests:
        if test.id in seen:
            raise UsageError(f"{where}: two tests are called {test.id}.")
        seen.add(test.id)
        if test.jobs:
            _check_jobs(test, folder, f"{where}: test {test.id}")
    return Suite(name, manifest.title, folder, tests, _digest(folder))


def _check_jobs(test: Test, folder: Path, name: str) -> None:
    """The job file lies in the suite's folder, and holds nothing but what a suite may set."""
    if not _NAME.fullmatch(test.jobs) or not test.jobs.endswith(".fio"):
        raise UsageError(f"{name}: jobs = {_shown(test.jobs)} is no name of a .fio file beside the manifest.")
    path = folder / test.jobs
    if not path.is_file():
        raise UsageError(f"{name}: there is no file {test.jobs} beside the manifest.")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{name}: {test.jobs} is a link to {path.resolve()}, outside the suite's folder.")
    try:
        jobs = sections(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text ({error}).") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    missing = set(test.track) - {job.name for job in jobs}
    if missing:
        raise UsageError(f"{name}: track names {', '.join(map(_shown, sorted(missing)))}, which {test.jobs} has not.")


def _told(error: msgspec.ValidationError) -> str:
    """``key: what is wrong`` of msgspec's ``What is wrong - at `$.key```."""
    what, _, key = str(error).partition(" - at `$")
    key = key.strip("`.")
    return f"{key}: {what}" if key else what


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text[:60])


def _test(entry: dict[str, Any], where: Path, session: str) -> Test:
    name = f"{where}: test {_shown(str(entry.get('id', '?')))}"
    values = dict(entry)
    try:
        if isinstance(values.get("test_data"), str):
            values["test_data"] = size_bytes(values["test_data"])
        values.setdefault("session", session or values.get("id", ""))
        test = msgspec.convert(values, Test)
        if test.fill is not None and size_bytes(test.fill.bs) == 0:
            raise ValueError("fill.bs must not be 0")
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: {_told(error)}.") from None
    except ValueError as error:
        raise UsageError(f"{name}: {error}.") from None
    problem = _problem(test)
    if problem:
        raise UsageError(f"{name}: {problem}.")
    return test


def _problem(test: Test) -> str | None:
    for key, text in (("id", test.id), ("session", test.session)):
        if not _NAME.fullmatch(text):
            return f"{key} = {_shown(text)}: a name has up to 100 letters, digits and ._- only, and does not begin with a dot"
    if not test.name.isprintable() or len(test.name) > 200:
        return "name must be up to 200 printable characters"
    if test.kind not in KINDS:
        return f"kind {_shown(test.kind)} is none of {', '.join(KINDS)}"
    if not test.conditions or set(test.conditions + test.more_conditions) - set(CONDITIONS):
        return f"conditions must be some of {', '.join(CONDITIONS)}"
    if test.aspm not in ("off", "l1", "l1.2"):
        return f"aspm {_shown(test.aspm)} is none of off, l1, l1.2"
    if test.kind == "trace" and test.trace not in COMPOSITIONS:
        return f"a trace test needs `trace`, one of {', '.join(COMPOSITIONS)}"
    if test.kind not in ("idle", "wake", "trace") and not test.jobs:
        return f"a test of kind {test.kind} needs `jobs`"
    if test.kind == "rounds" and not (test.rounds_max and test.track and test.quantity in QUANTITIES):
        return f"a test of kind rounds needs `rounds_max`, `track` and a `quantity` of {', '.join(QUANTITIES)}"
    return None


def _digest(folder: Path) -> str:
    """sha256 over names and contents of the manifest and the job files, in order of name."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.fio"), folder / "manifest.toml"]):
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return f"sha256:{digest.hexdigest()}"
