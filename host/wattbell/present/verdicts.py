"""Verdicts against requirements as tables, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from wattbell.jsondata import JsonObject
from wattbell.measure.encode import quantity_json
from wattbell.measure.figure import Figure
from wattbell.measure.judge import Verdict
from wattbell.present.chart import readable
from wattbell.present.table import Cell, Column, Table, Tone, figure, muted, text_column, toned
from wattbell.requirements.judging import JudgedRow, Verdicts
from wattbell.requirements.measurands import MEASURANDS
from wattbell.requirements.model import Requirement, RequirementFile
from wattbell.requirements.work import RequiredWork
from wattbell.text import NOTHING, printable

_TONES: Mapping[Verdict, Tone] = {"pass": "good", "fail": "bad", "conditional fail": "bad"}
_SIDES = {"at most": "≤", "at least": "≥"}


def table(found: Verdicts, files: Sequence[RequirementFile]) -> Table:
    """Return the table of one drive: a row a requirement and scope, in the order of the files.

    Scopes of one requirement without a figure, for one reason, share a row.
    """
    rows: list[list[Cell | str]] = []
    for file in files:
        for row, scopes in _shared(row for row in found.rows if row.file == file.name):
            why = "; ".join(filter(None, (row.why, row.remark)))
            why = re.sub(r"PS\d+", "the state", why) if len(scopes) > 1 else why
            limit = _limit(row) if len(scopes) < 2 else NOTHING
            rows.append([row.id, ", ".join(scopes) or NOTHING, limit, _figure(row.measured), _verdict(row.verdict), muted(why)])
    columns = (
        text_column("requirement", whole=True),
        text_column("scope", whole=True),
        Column("limit"),
        Column("measured"),
        text_column("verdict", whole=True),
        text_column("why", leaves=1),
    )
    rules = dict.fromkeys(row.rule for row in found.rows)
    counts = ", ".join(f"{n} {verdict}" for verdict, n in found.counts.items())
    note = f"{counts}. Decision rule: {'; '.join(rules)}. Informative requirements do not count for the exit code."
    return Table(f"{found.drive}: verdicts", columns, rows, note=counts, page_note=note)


def _shared(rows: Iterable[JudgedRow]) -> Iterator[tuple[JudgedRow, list[str]]]:
    """Yield the first of the neighbouring rows that say the same without a figure, and their scopes."""

    def key(row: JudgedRow) -> tuple[object, ...]:
        return (row.id, row.verdict, re.sub(r"PS\d+", "PS", row.why), row.scope if row.measured.value is not None else None)

    for _, group in groupby(rows, key):
        members = list(group)
        yield members[0], [row.scope for row in members if row.scope]


def _verdict(verdict: Verdict) -> Cell:
    return toned(verdict, _TONES.get(verdict, "muted"))


def _limit(row: JudgedRow) -> Cell | str:
    if row.limit.value is None:
        return NOTHING
    factor, unit = readable([row.limit.value], row.limit.unit) if row.limit.unit and row.limit.value else (1.0, row.limit.unit)
    exact = f"{row.limit.value * factor:.6g} {unit}".strip()
    return f"{_SIDES[row.requirement.side]} {_figure(row.limit).text if row.limit.u else exact}"


def _figure(one: Figure) -> Cell:
    if one.value is None:
        return muted(NOTHING)
    factor, unit = readable([one.value], one.unit) if one.unit else (1.0, "")
    return figure(one, factor, unit)


def verdict_line(row: JudgedRow) -> str:
    """Return a row with its decision rule in one line, such as ``lab/L-1: fail: 3.0(1) W, limit ≤ 2 W (1.5 times the limit). ...``."""
    figures = [_text(_figure(row.measured)), f"limit {_text(_limit(row))}"] if row.limit.value is not None else []
    why = "; ".join(filter(None, (row.why, row.remark)))
    told = ", ".join(one for one in figures if NOTHING not in one)
    parts = [f"{row.id} ({row.scope})" if row.scope else row.id, row.verdict, f"{told} ({why})" if told and why else told or why]
    rule = f". Decision rule: {row.rule}" if row.limit.value is not None else ""
    return printable(": ".join(filter(None, parts)) + rule)


def _text(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else cell.text


def verdict_json(row: JudgedRow) -> JsonObject:
    """Return a row as JSON, with its unit, limit and decision rule."""
    return {
        "file": row.file,
        "id": row.requirement.id,
        "clause": row.requirement.clause,
        "revision": row.revision,
        "scope": row.scope,
        "severity": row.severity,
        "measurand": row.requirement.measurand,
        "unit": row.requirement.unit,
        "side": row.requirement.side,
        "limit": row.limit.value,
        "limit_u": row.limit.u,
        "limit_as": row.limit_text,
        "measured": quantity_json(row.measured),
        "verdict": row.verdict,
        "why": row.why,
        "remark": row.remark,
        "conditions": list(row.requirement.conditions),
        "rule": row.rule,
        "sources": list(row.sources),
    }


def to_json(found: Sequence[Verdicts], code: int) -> JsonObject:
    """Return the verdicts on all drives as JSON."""
    return {
        "schema": {"name": "wattbell-verdicts", "version": 1, "k": 2},
        "exit_code": code,
        "drives": [
            {
                "drive": one.drive,
                "virtual": one.origin.stated,
                "sources": list(one.sources),
                "counts": dict(one.counts),
                "verdicts": [verdict_json(row) for row in one.rows],
            }
            for one in found
        ],
    }


def listing(files: Sequence[RequirementFile]) -> Table:
    """Return the table of all requirements of some files."""
    rows: list[list[Cell | str]] = [
        [f"{file.name}/{one.id}", one.title, muted(one.clause), limit_text(one), _how(one)] for file in files for one in file.requirement
    ]
    columns = (
        text_column("requirement", whole=True),
        text_column("title"),
        text_column("clause", leaves=1),
        text_column("limit", leaves=2),
        text_column("measured as"),
    )
    return Table("Requirements", columns, rows, note=", ".join(f"{file.name}: {file.source}" for file in files))


def work_table(work: RequiredWork, seconds: Mapping[str, float]) -> Table:
    """Return the table of requirements with the work that each needs.

    seconds : about how long each test that is run takes, by its id; 0 for a test that is done. Tests that several requirements share count
        once.
    """
    rows: list[list[Cell | str]] = []
    for need in work.needs:
        one = need.requirement
        asked = [f"for {_seconds(one.duration_s)}"] if one.duration_s else []
        asked += [f"every {_seconds(one.sampling_s)}"] if one.sampling_s else []
        run = [test for test in need.tests if test in seconds]
        why = "left out (--tests)" if need.tests else f"no work: {need.why}"
        rows.append([need.id, one.measurand or NOTHING, ", ".join(asked) or NOTHING, ", ".join(run) or muted(why)])
    columns = (
        text_column("requirement", whole=True),
        text_column("measurand", whole=True),
        text_column("asks", whole=True, leaves=1),
        text_column("work"),
    )
    parts = ", ".join(f"{test.id} {_about(seconds[test.id])}" for test in work.suite.tests if test.id in seconds)
    return Table("Work for the requirements", columns, rows, note=f"Each test once: {parts}.")


def _about(seconds: float) -> str:
    return "done" if not seconds else f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def needs_json(work: RequiredWork) -> list[JsonObject]:
    """Return the requirements with the work that each needs, as JSON."""
    return [
        {
            "id": need.id,
            "measurand": need.requirement.measurand,
            "duration_s": need.requirement.duration_s,
            "sampling_s": need.requirement.sampling_s,
            "tests": list(need.tests),
            "why": need.why,
        }
        for need in work.needs
    ]


def _how(one: Requirement) -> Cell | str:
    return one.measurand or muted(f"not measured: {one.not_measured}")


def limit_text(one: Requirement) -> str:
    """Return a requirement's limit in words."""
    if one.limit is None:
        return NOTHING
    in_unit = f", in {one.unit}" if one.unit else ""
    text = f"{one.limit}{in_unit}" if isinstance(one.limit, str) else f"{one.limit:g} {one.unit}".strip()
    return f"{_SIDES[one.side]} {text}"


def _seconds(value: float) -> str:
    factor, unit = readable([value], "s")
    return f"{value * factor:g} {unit}"


def explained(file: RequirementFile, one: Requirement) -> list[tuple[str, str]]:
    """Return (name, text) of everything that a requirement says."""
    measurand = MEASURANDS.get(one.measurand)
    windows = [f"window {_seconds(one.window_s)}"] if one.window_s else []
    windows += [f"sampled every {_seconds(one.sampling_s)} or faster"] if one.sampling_s else []
    windows += [f"for {_seconds(one.duration_s)} or longer"] if one.duration_s else []
    windows += [f"slower than {_seconds(one.threshold_s)}"] if one.threshold_s else []
    rows = [
        ("requirement", f"{file.name}/{one.id}: {one.title}"),
        ("source", f"{file.source}, clause {one.clause}"),
        ("revision", one.revision or file.revision),
        ("text", one.text),
        ("measurand", f"{one.measurand}: {measurand.text}" if measurand else ""),
        ("not measured", one.not_measured),
        ("measured", ", ".join(windows)),
        ("states", one.states if one.measurand else ""),
        ("exempt", ", ".join(one.exempt)),
        ("conditions", "; ".join(one.conditions)),
        ("applies", one.applies),
        ("limit", limit_text(one) if one.limit is not None else ""),
        ("decision rule", f"guard band w = {one.guard:g} U" if one.limit is not None else ""),
        ("severity", one.severity),
    ]
    return [(name, text) for name, text in rows if text]
