"""The outcomes as a Markdown page (``docs/seeds-check.md``) and as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from wattbell.jsondata import JsonObject
from wattbell.measure.figure import Known
from wattbell.origin import Origin, warning_of
from wattbell.results import Run
from wattbell.text import concise, digits, one_line

from .check import VERDICTS, CheckedStatement, counts
from .statements import Statement

SEEDS = {
    "000": "Crucial P1 (AnandTech, November 2018)",
    "001": "performance consistency, Intel 600p (AnandTech, November 2016)",
    "002": "performance consistency, Crucial MX100 (AnandTech, June 2014)",
    "003": "mixed loads, Intel Optane 900p (AnandTech, December 2017)",
    "004": "Intel 660p (AnandTech, August 2018)",
}
GROUPS = {
    "unfitted": "figures of drives, **not fitted**: these count",
    "fitted": "figures of drives, fitted (or taken from the same article)",
    "declared": "what a drive declares, read back from its Identify data",
    "method": "how the suite measures, read from its job files and manifest",
    "arithmetic": "the source's own sums",
}
_PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"))


def _escaped(text: str) -> str:
    """Text of a run's document, as Markdown that shows it as it stands."""
    return re.sub(r"([\\`*_{}\[\]<>()#|~&!$])", r"\\\1", one_line(text))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _figure(value: Known, unit: str) -> str:
    if unit in ("s", "W") and 0 < abs(value.value) < 1:
        factor, prefix = next(((f, p) for f, p in _PREFIXES if abs(value.value) >= f * 0.9995), _PREFIXES[-1])
        return f"{concise(value, 1 / factor)} {prefix}{unit}"
    return f"{concise(value)} {unit}".strip()


def _limits(statement: Statement) -> str:
    low, high = statement.low, statement.high
    text = [digits(v, 4) for v in (low, high)]
    unit = f" {statement.unit}" if statement.unit else ""
    if math.isinf(low):
        return f"≤ {text[1]}{unit}"
    if math.isinf(high):
        return f"≥ {text[0]}{unit}"
    return f"{text[0]}{unit}" if low == high else f"{text[0]} to {text[1]}{unit}"


def _asked(statement: Statement) -> str:
    if statement.method:
        suite = statement.method.get("suite", "anandtech-2018")
        what = ", ".join(f"{k} {v}" if v is not True else k for k, v in statement.method.items() if k not in ("suite", "test"))
        return f"{suite}/{statement.method['test']}: {what} = {statement.equals}"
    if statement.values:
        return f"{statement.how}: {_limits(statement)}"
    assert statement.a is not None
    text = statement.a.text()
    if statement.b is not None:
        text = f"{text} **{statement.op[1]}** {statement.b.text()}"
    if statement.scale != 1:
        text += f" × {statement.scale:g}"
    return f"{text}: {_limits(statement)}"


def _measured(outcome: CheckedStatement, mixed: bool) -> str:
    """``mixed``: the page has figures of several origins, and each has its own mark."""
    found = _escaped(outcome.text) or "–" if outcome.value is None else _figure(outcome.value, outcome.statement.unit)
    marks = dict.fromkeys(run.origin.mark for run in outcome.runs if run.origin.mark) if mixed else ()
    return f"{found} ({', '.join(marks)})" if marks else found


def _rows(outcomes: Iterable[CheckedStatement], mixed: bool) -> list[str]:
    lines = [
        "| statement | source says | asked as, and limits | why these limits | measured | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for o in outcomes:
        s = o.statement
        verdict = f"**{o.verdict}**" if o.verdict == "does not hold" else o.verdict
        extra = [o.remark] if o.remark else []
        if o.fitted_by:
            extra.insert(0, f"fitted: {', '.join(o.fitted_by)}")
        if extra:
            verdict += f" ({'; '.join(extra)})"
        says = f"“{s.quote}”" + (f": {s.stated}" if s.stated else "")
        cells = (f"`{s.id}`", says, _asked(s), s.tolerance or "exact", _measured(o, mixed), verdict)
        lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
    return lines


def _runs(outcomes: Sequence[CheckedStatement]) -> list[str]:
    found: dict[str, Run] = {run.content_hash: run for o in outcomes for run in o.runs}
    if not found:
        return ["No run was used: the store holds none of the drives in the seeds.", ""]
    lines = ["| run | drive | suite | suite hash | scale | started | versions |", "|---|---|---|---|---|---|---|"]
    for run in sorted(found.values(), key=lambda r: (r.title, r.suite)):
        versions = _escaped(", ".join(f"{k} {v}" for k, v in run.versions.items()))
        kind = f"model {_escaped(run.profile)}" if run.origin is Origin.VIRTUAL and run.profile else _escaped(run.title)
        scale = f"×{run.scale:g}" + (" **scaled**" if run.scaled else "")
        suite_hash, suite = _escaped(run.suite_hash.removeprefix("sha256:")[:12]), _escaped(run.suite)
        started = _escaped(run.started)
        lines.append(f"| {run.id or run.content_hash[:12]} | {kind} | {suite} | {suite_hash} | {scale} | {started} | {versions} |")
    return [*lines, ""]


def _count_rows(outcomes: Sequence[CheckedStatement]) -> list[str]:
    table = counts([o for o in outcomes if o.verdict != "not measurable"])
    shown = [v for v in VERDICTS if v != "not measurable"]
    lines = [f"| | {' | '.join(shown)} |", "|---|" + "---:|" * len(shown)]
    for group, text in GROUPS.items():
        lines.append(f"| {text} | " + " | ".join(str(table[group][v]) for v in shown) + " |")
    lines.append("")
    none = sum(o.verdict == "not measurable" for o in outcomes)
    lines.append(f"{len(outcomes)} statements in all; {none} of them no rig can answer, each with its reason in the last table.")
    return lines


def _measured_on(origins: set[Origin]) -> list[str]:
    """Return the subjects of the measurements, to end the first paragraph."""
    begin = "data: `studies/seeds/statements`, and docs/results.md says how to read and extend them."
    if origins <= {Origin.MEASURED}:
        return [begin]
    if origins == {Origin.VIRTUAL}:
        return [
            f"{begin} Measured on",
            "**models** of the drives through the virtual rig: what holds shows that suites, rig, analysis and models together tell",
            "the story of the articles; it says nothing new about the drives themselves.",
        ]
    return [begin, f"**{warning_of(origins)}.** A figure of such a run has its mark beside it."]


def markdown(outcomes: Sequence[CheckedStatement]) -> str:
    """The page: counts, the runs used, the statements of each seed, and finally those that cannot be measured."""
    asked = [o for o in outcomes if o.verdict != "not measurable"]
    scales = sorted({run.scale for o in outcomes for run in o.runs})
    mixed = len({run.origin for o in outcomes for run in o.runs}) > 1
    lines = [
        "# The statements of the seeds, checked",
        "",
        "Generated by `python -m studies.seeds` (`make seeds-check` runs the suites it needs first); do not edit. The statements are",
        *_measured_on({run.origin for o in outcomes for run in o.runs}),
        "",
    ]
    if any(scale != 1 for scale in scales):
        text = ", ".join(f"×{s:g}" for s in scales)
        lines += [
            f"**Scaled runs ({text})**: time and span were shortened; such a figure is marked and is not that of the whole suite.",
            "",
        ]
    lines += ["## Count", "", *_count_rows(outcomes), "", "## Runs", "", *_runs(outcomes)]
    for seed in sorted({o.statement.seed for o in asked}):
        lines += [f"## Seed {seed}: {SEEDS.get(seed, '')}", ""]
        for group, text in GROUPS.items():
            members = [o for o in asked if o.statement.seed == seed and o.group == group]
            if members:
                lines += [f"### {text[0].upper()}{text[1:]}", "", *_rows(members, mixed), ""]
    lines += ["## What no rig can answer", "", "| statement | seed | source says | why not |", "|---|---|---|---|"]
    for o in outcomes:
        if o.verdict == "not measurable":
            s = o.statement
            lines.append(f"| `{s.id}` | {s.seed} | “{_cell(s.quote)}” | {_cell(o.remark)} |")
    return "\n".join(lines) + "\n"


def to_json(outcomes: Sequence[CheckedStatement]) -> JsonObject:
    """Counts and outcomes as JSON-able data."""
    return {
        "counts": counts(outcomes),
        "statements": [
            {
                "id": o.statement.id,
                "seed": o.statement.seed,
                "quote": o.statement.quote,
                "group": o.group,
                "verdict": o.verdict,
                "value": None if o.value is None else o.value.value,
                "u": None if o.value is None else o.value.u,
                "found": o.text or None,
                "unit": o.statement.unit,
                "low": None if math.isinf(o.statement.low) else o.statement.low,
                "high": None if math.isinf(o.statement.high) else o.statement.high,
                "fitted_by": list(o.fitted_by),
                "remark": o.remark,
                "runs": [run.id or run.content_hash[:12] for run in o.runs],
                "origins": [run.origin.value for run in o.runs],
            }
            for o in outcomes
        ],
    }
