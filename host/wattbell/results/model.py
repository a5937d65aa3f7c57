"""A suite run as typed data, and the checks on a ``results.json`` that may come from anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import polars as pl

from ..clocks.host import in_utc, instant_s
from ..errors import ResultsError
from ..jsondata import JsonObject
from ..measure.figure import Known
from ..measure.point import Point, Score
from ..origin import Origin, origin_of
from ..suites.outcome import REVIEW_READINGS
from ..text import in_lines
from .document import check
from .energies import Energies
from .kinds import kind_by_id
from .limits import LARGEST
from .seriesfile import read_series

FORMAT = 1
"""Version of ``results.json`` this program reads."""


@dataclass(frozen=True)
class TestResult:
    """One test in one condition of the drive. ``series`` names a Parquet file relative to ``results.json``; ``kind`` is one of
    :mod:`wattbell.suites.kinds`, or a name that this version does not know. ``peaks``: the highest mean power in W by length of the window
    (``100us``), as far as the rail could tell."""

    test: str
    name: str
    condition: str
    points: tuple[Point[Known], ...] = ()
    scores: tuple[Score[Known], ...] = ()
    series: str | None = None
    lost: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    kind: str = ""
    peaks: Mapping[str, Known] = field(default_factory=dict)

    __test__ = False  # the name is not an invitation to pytest

    def score(self, unit: str, name: str | None = None, reading: str | None = None) -> Score[Known] | None:
        """Return the first score in ``unit`` with the given name (and reading), case ignored; None without one."""
        for score in self.scores:
            if score.unit != unit or (name is not None and score.name.lower() != name.lower()):
                continue
            if reading is None or score.reading == reading:
                return score
        return None

    def reviewed(self, unit: str, name: str | None = None) -> Score[Known] | None:
        """The score that an SSD review would print: the reading of reviews where there are two, otherwise the first, as :meth:`score`."""
        found = [s for s in self.scores if s.unit == unit and (name is None or s.name.lower() == name.lower())]
        return next((s for s in found if s.reading in REVIEW_READINGS), found[0] if found else None)

    def over(self, axis: str, quantity: str) -> list[tuple[float, Known]]:
        """(x, quantity) of the points that have both, by increasing x."""
        found = []
        for point in self.points:
            x, value = point.x.get(axis), point.figures.get(quantity)
            if isinstance(x, (int, float)) and value is not None:
                found.append((float(x), value))
        return sorted(found, key=lambda item: item[0])

    @property
    def n_lost(self) -> int:
        """Records missing under any figure of this test."""
        each = [q.lost for p in self.points for q in p.figures.values()] + [s.value.lost for s in self.scores]
        return max([*each, sum(self.lost.values())], default=0)


_POSITIVE = ("qd", "block_bytes")
"""Axes that start above 0."""
_FORMER = {"mb_per_s_per_w": "mb_per_j"}
"""Names of a point's figures in results of 0.2.0 and before, with their present names."""
ReadSeries = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Run:
    """One run of a suite on one drive. ``document`` is ``results.json`` as it was written; everything else is a view
    of :attr:`told`."""

    document: Mapping[str, Any]
    tests: tuple[TestResult, ...]
    read_series: ReadSeries = field(default=lambda _name: None, compare=False)
    id: str = ""
    source: str = ""
    energy: Energies | None = None
    """Energies by class of command and of power states; None for a suite's run."""

    @cached_property
    def told(self) -> JsonObject:
        """The document to be shown: every text on one line, without control characters and invisible ones."""
        found: JsonObject = in_lines(self.document)
        return found

    @property
    def suite(self) -> str:
        """Name of the suite."""
        return str(self.told["suite"])

    @property
    def suite_hash(self) -> str:
        """Hash of manifest and job files: runs with different ones measured different things."""
        return str(self.told["suite_hash"])

    @property
    def scale(self) -> float:
        """1 for the suite as written; below, time and span were shortened by this factor."""
        return float(self.told.get("scale", 1.0))

    @property
    def condition(self) -> str:
        """Condition of the drive where a test states none of its own."""
        return str(self.told.get("condition") or "")

    @property
    def drive(self) -> Mapping[str, Any]:
        """Model, serial, firmware, profile, profile_hash, capacity_bytes, and the drive's own declarations."""
        found = self.told.get("drive")
        return found if isinstance(found, Mapping) else {}

    @property
    def firmware(self) -> str:
        """Revision of the drive's firmware; empty if unknown."""
        return str(self.drive.get("firmware") or "").strip()

    @property
    def profile(self) -> str | None:
        """Profile of a modelled drive; None for a real one."""
        found = self.drive.get("profile")
        return str(found) if found else None

    @property
    def drive_name(self) -> str:
        """Model name of the drive, or a replacement, without a mark: for keys and files, never for readers."""
        return str(self.drive.get("title") or self.drive.get("model") or self.profile or "unknown drive").strip()

    @property
    def title(self) -> str:
        """The drive's name, marked where its figures are a model's, or may be."""
        return self.origin.marked(self.drive_name)

    @property
    def started(self) -> str:
        """When it began, as UTC; empty if the run does not say."""
        return in_utc(str(self.told.get("started_utc") or ""))

    @property
    def started_s(self) -> float:
        """When it began, in s since 1970; minus infinity where that is not known."""
        found = instant_s(str(self.told.get("started_utc") or ""))
        return -math.inf if found is None else found

    @property
    def origin(self) -> Origin:
        """Whether a drive was measured. An old document that does not say is unknown."""
        conditions = self.told.get("conditions")
        stated = conditions.get("virtual") if isinstance(conditions, Mapping) else None
        said = self.told.get("virtual")
        return origin_of(stated if said is None else said)

    @property
    def scaled(self) -> bool:
        """Time and span were shortened."""
        return self.scale != 1.0

    @property
    def lost(self) -> dict[str, int]:
        """Losses by kind; kinds without loss are left out."""
        found = self.told.get("lost")
        return {str(k): int(v) for k, v in found.items() if v} if isinstance(found, Mapping) else {}

    @property
    def planned(self) -> int:
        """Number of tests (in a condition) that were to run; 0 if the run does not say."""
        found = self.told.get("planned")
        return len(found) if isinstance(found, list) else 0

    @property
    def missing(self) -> int:
        """Number of planned tests without a result: the run was interrupted, or goes on."""
        return max(0, self.planned - len(self.tests)) if self.planned else 0

    @property
    def versions(self) -> dict[str, str]:
        """Versions of host, gateware, firmware and model."""
        found = self.told.get("versions")
        return {str(k): str(v) for k, v in found.items() if v} if isinstance(found, Mapping) else {}

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the document in canonical form."""
        return sha256(json.dumps(self.document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def test(self, test: str, condition: str | None = None) -> TestResult | None:
        """A test by its id, in the given condition (the first one where None)."""
        for found in self.tests:
            if found.test == test and condition in (None, found.condition):
                return found
        return None

    def series(self, test: TestResult) -> pl.DataFrame | None:
        """The time series of a test; None if it has none. Raises ResultsError when it cannot be read."""
        if test.series is None:
            return None
        data = self.read_series(test.series)
        if data is None:
            return None
        where = f"{test.series} of {self.source or self.id}"
        try:
            return read_series(data)
        except ValueError as error:
            raise ResultsError(f"{where} is damaged ({error}); run that test again.") from None


class _Reader:
    """Turns JSON into the types above; every complaint says where in the file."""

    def __init__(self, where: str) -> None:
        self.where = where

    def fail(self, path: str, what: str) -> ResultsError:
        return ResultsError(f"{self.where}: {path} {what}; it was not written by `wattbell run SUITE`, or is damaged.")

    def mapping(self, value: Any, path: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(path, "is not an object")
        return value

    def items(self, value: Any, path: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.fail(path, "is not a list")
        return value

    def text(self, value: Any, path: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.fail(path, "is not a text")
        return value

    def number(self, value: Any, path: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
            raise self.fail(path, f"is not a finite number (up to {LARGEST:g})")
        return float(value)

    def quantity(self, value: Any, path: str) -> Known | None:
        """None if the value is null: the figure could not be given."""
        if value is None:
            return None
        if isinstance(value, (int, float)):
            return Known(self.number(value, path))
        got = self.mapping(value, path)
        if got.get("value") is None:
            return None
        u = got.get("u")
        lost = self.count(got.get("n_lost", 0), f"{path}.n_lost")
        number = self.number(got["value"], f"{path}.value")
        spread = None if u is None else self.number(u, f"{path}.u")
        if spread is not None and spread < 0:
            raise self.fail(f"{path}.u", "is negative")
        return Known(number, spread, lost=lost)

    def counts(self, value: Any, path: str) -> dict[str, int]:
        if value is None:
            return {}
        return {str(k): self.count(v, f"{path}.{k}") for k, v in self.mapping(value, path).items() if v}

    def count(self, value: Any, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
            raise self.fail(path, "is not a count")
        return value

    def point(self, value: Any, path: str) -> Point[Known]:
        got = self.mapping(value, path)
        x: dict[str, float | str] = {}
        for key, at in self.mapping(got.get("x", {}), f"{path}.x").items():
            x[str(key)] = at if isinstance(at, str) else self.number(at, f"{path}.x.{key}")
            if key in _POSITIVE and not isinstance(at, str) and at <= 0:
                raise self.fail(f"{path}.x.{key}", "is not positive")
        figures = {}
        for key, found in got.items():
            if key == "x" or not isinstance(found, (dict, int, float)) or isinstance(found, bool):
                continue
            quantity = self.quantity(found, f"{path}.{key}")
            if quantity is not None:
                figures[_FORMER.get(key, str(key))] = quantity
        return Point(x, figures)

    def score(self, value: Any, path: str) -> Score[Known] | None:
        got = self.mapping(value, path)
        quantity = self.quantity(got.get("value"), f"{path}.value")
        name = self.text(got.get("name"), f"{path}.name")
        unit = self.text(got.get("unit"), f"{path}.unit")
        reading = got.get("reading")
        return None if quantity is None else Score(name, unit, quantity, str(reading) if reading else None)

    def peaks(self, value: Any, path: str) -> dict[str, Known]:
        found = {} if value is None else self.mapping(value, path)
        return {str(k): q for k, v in found.items() if (q := self.quantity(v, f"{path}.{k}")) is not None}

    def test(self, value: Any, path: str, condition: str) -> TestResult:
        got = self.mapping(value, path)
        test = self.text(got.get("test"), f"{path}.test")
        points = [self.point(p, f"{path}.points[{i}]") for i, p in enumerate(self.items(got.get("points"), path))]
        scores = [self.score(s, f"{path}.scores[{i}]") for i, s in enumerate(self.items(got.get("scores"), path))]
        series = got.get("series")
        if series is not None:
            self.text(series, f"{path}.series")
        return TestResult(
            test,
            str(got.get("name") or test),
            str(got.get("condition") or condition),
            tuple(points),
            tuple(s for s in scores if s is not None),
            series,
            self.counts(got.get("lost"), f"{path}.lost"),
            tuple(str(n) for n in self.items(got.get("notes"), f"{path}.notes")),
            str(got["kind"]) if got.get("kind") else kind_by_id(test),
            self.peaks(got.get("peaks"), f"{path}.peaks"),
        )


def parse(document: Any, where: str, read_series: ReadSeries | None = None, run_id: str = "", source: str = "") -> Run:
    """A run from the content of a ``results.json``. Raises ResultsError, naming the place, when it is not one."""
    reader = _Reader(where)
    got = reader.mapping(document, "the document")
    version = got.get("format")
    if version != FORMAT:
        newer = isinstance(version, int) and version > FORMAT
        what = "was written by a newer Wattbell; update this one" if newer else "is not a results.json of Wattbell"
        raise ResultsError(f"{where} {what} (format {version!r}, this program reads {FORMAT}).")
    check(got, where)
    told = in_lines(got)
    reader.counts(told.get("lost"), "lost")
    condition = str(told.get("condition") or "")
    tests = reader.items(told.get("tests"), "tests")
    parsed = tuple(reader.test(t, f"tests[{i}]", condition) for i, t in enumerate(tests))
    return Run(got, parsed, read_series or (lambda _name: None), run_id, source or where, check(told, where).energy)
