"""Verdicts as JUnit XML, for CI systems."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from ..measure.judge import Verdict
from ..text import concise, printable
from .judging import JudgedRow, Verdicts

FAILURES: tuple[Verdict, ...] = ("fail", "conditional fail")
SKIPPED: tuple[Verdict, ...] = ("not measured", "not applicable")


def junit(found: Sequence[Verdicts], command: str = "wattbell judge") -> bytes:
    """Return one ``testsuite`` a drive and set, one ``testcase`` a row.

    Fail and conditional fail are failures, not measured and not applicable are skipped. A conditional pass passes, with its reason in
    ``system-out``. Figure, limit and decision rule are properties of the case.

    command : names the whole
    """
    root = ElementTree.Element("testsuites", name=command)
    for one in found:
        for file in dict.fromkeys(row.file for row in one.rows):
            rows = [row for row in one.rows if row.file == file]
            suite = ElementTree.SubElement(
                root,
                "testsuite",
                name=printable(f"{file}: {one.drive}"),
                tests=str(len(rows)),
                errors="0",
                failures=str(sum(row.verdict in FAILURES for row in rows)),
                skipped=str(sum(row.verdict in SKIPPED for row in rows)),
            )
            for row in rows:
                _case(suite, row)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _case(suite: ElementTree.Element, row: JudgedRow) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"wattbell.{row.file}", name=printable(f"{row.requirement.id} {row.scope}".strip()), time="0"
    )
    properties = ElementTree.SubElement(case, "properties")
    about = {
        "verdict": row.verdict,
        "measured": _shown(row.measured.value is not None, row.measured, row.requirement.unit),
        "limit": _shown(row.limit.value is not None, row.limit, row.requirement.unit),
        "side": row.requirement.side,
        "rule": row.rule,
        "clause": row.requirement.clause,
        "revision": row.revision,
        "severity": row.severity,
    }
    for name, value in about.items():
        if value:
            ElementTree.SubElement(properties, "property", name=name, value=printable(value))
    text = printable("; ".join(filter(None, (row.why, row.remark))) or row.verdict)
    if row.verdict in FAILURES:
        failure = ElementTree.SubElement(case, "failure", type=row.verdict, message=text)
        failure.text = printable(row.requirement.text)
    elif row.verdict in SKIPPED:
        ElementTree.SubElement(case, "skipped", message=f"{row.verdict}: {text}")
    elif row.why or row.remark:
        ElementTree.SubElement(case, "system-out").text = text


def _shown(there: bool, figure: object, unit: str) -> str:
    return f"{concise(figure)} {unit}".strip() if there else ""  # type: ignore[arg-type]
