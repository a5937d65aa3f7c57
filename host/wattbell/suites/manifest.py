"""Suites as data: a folder with ``manifest.toml`` and fio job files."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from .. import door
from ..errors import UsageError
from ..jsondata import JsonObject
from ..nearest import did_you_mean
from .jobs import sections
from .kinds import KINDS
from .listing import DATA, MANIFEST, suite_folder, suite_names
from .suite import CONDITIONS, Suite, Test
from .units import size_bytes

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""Names of tests, sessions and job files; they become file names."""


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    test: Annotated[list[JsonObject], Meta(min_length=1, max_length=1000)]
    name: str | None = None
    title: str = ""
    session: str = ""


def load_suite(name: str | Path) -> Suite:
    """A suite by name, or from a folder with a ``manifest.toml``. Raises UsageError when it is not there or makes no sense."""
    try:
        folder = suite_folder(name)
        path = folder / MANIFEST
        content = door.read_text(path, door.SETTINGS)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not TOML ({error}).") from None
    except door.FileRefused as error:
        raise UsageError(f"{error.filename} cannot be read ({error.strerror}).") from None
    except (OSError, ValueError):
        known = suite_names()
        raise UsageError(f"There is no suite {name}; known: {', '.join(known)}.{did_you_mean(str(name), known)}") from None
    return parse_manifest(read_toml(content, path), folder)


def read_toml(content: str, path: Path) -> JsonObject:
    """The tables of a TOML file; UsageError, with the file's path, when it is none."""
    try:
        return tomllib.loads(content)
    except RecursionError:
        raise UsageError(f"{path}: its tables are nested too deeply.") from None
    except ValueError as error:  # TOMLDecodeError is one; so is a date that is none
        raise UsageError(f"{path}: not TOML ({error}).") from None


def parse_manifest(raw: Mapping[str, Any], folder: Path) -> Suite:
    """The suite that a manifest describes; UsageError names the test and key that are wrong."""
    where = folder / MANIFEST
    try:
        manifest = msgspec.convert(raw, _Manifest)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {_told(error)}.") from None
    name = manifest.name if manifest.name is not None else folder.resolve().name
    for key, text in (("name", name), ("title", manifest.title)):
        if not text.isprintable() or len(text) > 200 or (key == "name" and not text.strip()):
            raise UsageError(f"{where}: {key} must be up to 200 printable characters.")
    borrowed: dict[str, Suite] = {}
    tests = tuple(_borrow(entry, where, borrowed) if "of" in entry else _test(entry, where, manifest.session) for entry in manifest.test)
    seen: set[str] = set()
    for test in tests:
        if test.id in seen:
            raise UsageError(f"{where}: two tests are called {test.id}.")
        seen.add(test.id)
        if test.jobs and test.id not in borrowed:
            _check_jobs(test, folder, f"{where}: test {test.id}")
    of = {test_id: lender.folder for test_id, lender in borrowed.items()}
    return Suite(name, manifest.title, folder, tests, _digest(folder, *sorted(set(of.values()))), of)


def _borrow(entry: JsonObject, where: Path, borrowed: dict[str, Suite]) -> Test:
    """Return a test of a suite of the package, which ``of`` names, and put that suite into ``borrowed``.

    Only the package's suites lend tests: a stranger's manifest reads no folder but its own.
    """
    name = f"{where}: test {_shown(str(entry.get('id', '?')))}"
    if set(entry) - {"id", "of", "session"} or not all(isinstance(value, str) for value in entry.values()) or "id" not in entry:
        raise UsageError(f"{name}: a test of another suite has the keys id, of and session, and no others.")
    if entry["of"] not in suite_names():
        raise UsageError(f"{name}: of = {_shown(entry['of'])} is no suite of Wattbell: {', '.join(suite_names())}.")
    lender = load_suite(DATA / entry["of"])
    if lender.borrowed:
        raise UsageError(f"{name}: {lender.name} has tests of other suites itself, and lends none.")
    test = lender.test(entry["id"])
    borrowed[test.id] = lender
    test = msgspec.structs.replace(test, session=entry.get("session", test.id))
    if problem := _problem(test):
        raise UsageError(f"{name}: {problem}.")
    return test


def _check_jobs(test: Test, folder: Path, name: str) -> None:
    """Raise UsageError unless the job file lies in the suite's folder, and holds only options that a suite may set."""
    if not _NAME.fullmatch(test.jobs) or not test.jobs.endswith(".fio"):
        raise UsageError(f"{name}: jobs = {_shown(test.jobs)} is not the name of a .fio file beside the manifest.")
    path = folder / test.jobs
    if not path.is_file():
        raise UsageError(f"{name}: there is no file {test.jobs} beside the manifest.")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{name}: {test.jobs} is a link to {path.resolve()}, outside the suite's folder.")
    try:
        jobs = sections(door.read_text(path, door.SETTINGS), str(path))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text file ({error}).") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    missing = set(test.track) - {job.name for job in jobs}
    if missing:
        raise UsageError(f"{name}: track names {', '.join(map(_shown, sorted(missing)))}, which are not in {test.jobs}.")


def _told(error: msgspec.ValidationError) -> str:
    """Return ``key: message`` for msgspec's ``Message - at `$.key```."""
    what, _, key = str(error).partition(" - at `$")
    key = key.strip("`.")
    return f"{key}: {what}" if key else what


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text[:60])


def _test(entry: JsonObject, where: Path, session: str) -> Test:
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
    kind = KINDS.get(test.kind)
    if kind is None:
        return f"kind {_shown(test.kind)} is none of {', '.join(KINDS)}"
    if not test.conditions or set(test.conditions + test.more_conditions) - set(CONDITIONS):
        return f"conditions must be some of {', '.join(CONDITIONS)}"
    if test.aspm not in ("off", "l1", "l1.2"):
        return f"aspm {_shown(test.aspm)} is none of off, l1, l1.2"
    if kind.needs_jobs and not test.jobs:
        return f"a test of kind {test.kind} needs `jobs`"
    return kind.problem(test)


def _digest(*folders: Path) -> str:
    """sha256 over names and contents of the manifest and the job files of each folder, in order of name."""
    digest = hashlib.sha256()
    for path in (path for folder in folders for path in sorted([*folder.glob("*.fio"), folder / MANIFEST])):
        try:
            content = door.read_bytes(path, door.SETTINGS)
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return f"sha256:{digest.hexdigest()}"
