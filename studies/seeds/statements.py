"""Reads ``statements/*.toml``: every quantitative statement of the seeds, and the means to measure it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatch
from importlib.resources import files
from typing import Any

from wattbell.errors import ResultsError

KINDS = {
    "result": "a figure of a drive",
    "declared": "what a drive says of itself",
    "method": "how the suite measures",
    "arithmetic": "the source's own sums",
}
MAX_QUOTE_WORDS = 15


@dataclass(frozen=True)
class Reference:
    """The measured quantity: a score, a point, a figure reduced from points or a series, or a declared figure.

    drives: from ``drive``, a key or a list of keys of ``[drives]`` or ``[groups]``
    pick: max, min, mean or median, makes one figure of several drives

    Without ``over`` and ``series``, the quantity is the score in the unit ``score`` (called ``name``), or quantity ``q`` of the point
    ``at``. With ``over``, it is ``take`` of quantity ``q`` over that axis between ``start`` and ``to``. With ``series``, it is ``take`` of
    that column, from ``from_s`` on or in the last ``last_s``.
    """

    drives: tuple[str, ...]
    suite: str = "anandtech-2018"
    test: str = ""
    condition: str = ""
    score: str = ""
    name: str = ""
    q: str = ""
    at: Mapping[str, float] = field(default_factory=dict)
    over: str = ""
    series: str = ""
    take: str = ""
    start: float = float("-inf")
    to: float = float("inf")
    from_s: float = 0.0
    last_s: float = 0.0
    declared: str = ""
    pick: str = ""

    def text(self) -> str:
        """Description in words, for the report."""
        if self.declared:
            return f"declared {self.declared}"
        what = self.series or self.name or self.score or self.q
        what += f" {self.score}" if self.name and self.score else ""
        if self.take:
            what = f"{self.take.replace('_', ' ')} of {what}"
        if self.over and self.start > float("-inf"):
            what += f" from {self.over} {self.start:g}"
        if self.over and self.to < float("inf"):
            what += f" up to {self.over} {self.to:g}"
        at = "".join(f", {k} {v:g}" for k, v in self.at.items())
        drives = f"{self.pick} of {', '.join(self.drives)}" if len(self.drives) > 1 else self.drives[0]
        condition = f", {self.condition}" if self.condition else ""
        return f"{self.test}{condition}{at}: {what} ({drives})"


@dataclass(frozen=True)
class Statement:
    """One statement of a seed: the quote, the measured quantity, and the limits within which it holds."""

    id: str
    seed: str
    quote: str
    kind: str = "result"
    a: Reference | None = None
    b: Reference | None = None
    op: str = "a"
    scale: float = 1.0
    unit: str = ""
    low: float = float("-inf")
    high: float = float("inf")
    stated: str = ""
    tolerance: str = ""
    depends: tuple[str, ...] = ()
    method: Mapping[str, Any] = field(default_factory=dict)
    equals: Any = None
    values: tuple[float, ...] = ()
    how: str = ""
    not_measurable: str = ""

    @property
    def drives(self) -> tuple[str, ...]:
        """Every drive the statement needs, in order."""
        found = [d for ref in (self.a, self.b) if ref for d in ref.drives]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class SeedDrive:
    """A drive of the seeds and the profiles that represent it."""

    key: str
    title: str
    profiles: tuple[str, ...]

    def matches(self, profile: str | None) -> bool:
        """Whether a run with this profile is a run of this drive."""
        return profile is not None and any(fnmatch(profile, pattern) for pattern in self.profiles)


@dataclass(frozen=True)
class Book:
    """All statements, and the drives they mention."""

    statements: tuple[Statement, ...]
    drives: Mapping[str, SeedDrive]


def _reference(raw: Mapping[str, Any], where: str, groups: Mapping[str, list[str]], drives: Mapping[str, SeedDrive]) -> Reference:
    values = dict(raw)
    given = values.pop("drive", None)
    keys: list[str] = []
    for key in [given] if isinstance(given, str) else given or []:
        keys += groups.get(key, [key])
    unknown = [key for key in keys if key not in drives]
    if unknown or not keys:
        raise ResultsError(f"{where}: drive {', '.join(unknown) or 'missing'} is in neither [drives] nor [groups].")
    if "from" in values:
        values["start"] = values.pop("from")
    wrong = set(values) - {f.name for f in fields(Reference)}
    if wrong:
        raise ResultsError(f"{where}: unknown key {', '.join(sorted(wrong))}.")
    reference = Reference(tuple(keys), **values)
    if len(keys) > 1 and reference.pick not in ("max", "min", "mean", "median"):
        raise ResultsError(f"{where}: several drives need `pick` (max, min, mean or median).")
    return reference


def parse_book(documents: Mapping[str, Mapping[str, Any]]) -> Book:
    """All documents (by file name) as one book. Raises ResultsError when a statement is incomplete or defined twice."""
    drives: dict[str, SeedDrive] = {}
    groups: dict[str, list[str]] = {}
    for document in documents.values():
        for key, raw in document.get("drives", {}).items():
            drives[key] = SeedDrive(key, str(raw["title"]), tuple(raw["profiles"]))
        groups.update(document.get("groups", {}))
    statements: dict[str, Statement] = {}
    for file, document in documents.items():
        for raw in document.get("statement", []):
            statement = _statement(raw, file, groups, drives)
            if statement.id in statements:
                raise ResultsError(f"{file}: two statements are called {statement.id}.")
            statements[statement.id] = statement
    return Book(tuple(statements.values()), drives)


def _statement(raw: Mapping[str, Any], file: str, groups: Mapping[str, list[str]], drives: Mapping[str, SeedDrive]) -> Statement:
    where = f"{file}: {raw.get('id', 'a statement without id')}"
    values = dict(raw)
    wrong = set(values) - {f.name for f in fields(Statement)}
    missing = {"id", "seed", "quote"} - set(values)
    if wrong or missing:
        raise ResultsError(f"{where}: {'unknown' if wrong else 'missing'} key {', '.join(sorted(wrong or missing))}.")
    for key in ("a", "b"):
        if key in values:
            values[key] = _reference(values[key], f"{where}.{key}", groups, drives)
    for key in ("depends", "values"):
        values[key] = tuple(values.get(key, ()))
    statement = Statement(**values)
    problem = _problem(statement)
    if problem:
        raise ResultsError(f"{where}: {problem}.")
    return statement


def _problem(statement: Statement) -> str | None:
    s = statement
    if len(s.quote.split()) > MAX_QUOTE_WORDS:
        return f"the quote has more than {MAX_QUOTE_WORDS} words"
    if s.kind not in KINDS:
        return f"kind {s.kind} is none of {', '.join(KINDS)}"
    asked = [bool(s.a), bool(s.method), bool(s.values), bool(s.not_measurable)]
    if sum(asked) != 1:
        return "exactly one of a, method, values and not_measurable says how it is checked"
    if s.not_measurable:
        return None
    if s.method:
        return None if s.equals is not None else "a method needs `equals`"
    if s.low == float("-inf") and s.high == float("inf"):
        return "no limits: low, high or both"
    if s.low > s.high:
        return "low is above high"
    if not s.tolerance or not s.stated:
        return "`stated` and `tolerance` say what the source says and why the limits are these"
    if s.a and (s.op not in ("a", "a/b", "a-b") or (s.op == "a") != (s.b is None)):
        return "op is a (without b), a/b or a-b"
    return None


def load_statements() -> Book:
    """The statements of the package."""
    folder = files("studies.seeds").joinpath("statements")
    documents = {
        entry.name: tomllib.loads(entry.read_text(encoding="utf-8"))
        for entry in sorted(folder.iterdir(), key=lambda e: e.name)
        if entry.name.endswith(".toml")
    }
    return parse_book(documents)
