"""Verdicts of ``wattbell compare --gate`` as a table, and as JSON."""

from __future__ import annotations

from itertools import groupby

from wattbell.jsondata import JsonObject
from wattbell.measure.encode import quantity_json
from wattbell.measure.judge import Verdict
from wattbell.present.chart import readable
from wattbell.present.table import Cell, Column, Table, Tone, cell, figure, muted, text_column, toned
from wattbell.requirements.of_gate import scope_of
from wattbell.results.change import Component
from wattbell.results.gate import LEVEL, RULE, GatedFigure, GatedSides
from wattbell.results.sides import DriveSide
from wattbell.text import NOTHING, digits

WORDS: dict[Verdict, tuple[str, Tone]] = {
    "pass": ("no regression", "good"),
    "conditional pass": ("undecided", "muted"),
    "conditional fail": ("undecided", "muted"),
    "fail": ("regression", "bad"),
    "not measured": ("not measured", "muted"),
}
"""Verdicts in the words of a gate."""


def gate_table(found: GatedSides) -> Table:
    """Return the table: a row a figure, with both means, the change, its 95 % interval, and the verdict."""
    rows: list[list[Cell | str]] = []
    for group, members in groupby(found.rows, key=lambda row: row.group):
        rows += [[group, *[""] * 7]] if group else []
        rows += [_row(one) for one in members]
    columns = (
        text_column("figure", whole=True),
        Column("A"),
        Column("B"),
        Column("change", leaves=2),
        Column("95 % interval"),
        Column("spread of runs", leaves=1),
        text_column("verdict", whole=True),
        text_column("why", leaves=3),
    )
    return Table(f"Regressions larger than {100 * found.gate:g} %", columns, rows, note=", ".join(counts(found)))


def _row(one: GatedFigure) -> list[Cell | str]:
    known = [abs(side.value) for side in (one.a, one.b) if side.value is not None]
    factor, unit = readable(known, one.unit) if known else (1.0, one.unit)
    word, tone = WORDS[one.judgement.verdict]
    word = f"{word} ({one.judgement.verdict})" if one.judgement.verdict.startswith("conditional") else word
    return [
        Cell(muted(one.name).spans, inner=bool(one.group)),
        *(cell(NOTHING) if side.value is None else figure(side, factor, unit) for side in (one.a, one.b)),
        _percent(one.share.value),
        _interval(one),
        _spread(one.change.between_runs if one.change else None),
        toned(word, tone),
        muted(one.judgement.why),
    ]


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share:+.2f} %"


def _interval(one: GatedFigure) -> str:
    return NOTHING if one.low is None or one.high is None else f"{100 * one.low:+.2f} to {100 * one.high:+.2f} %"


def _spread(one: Component | None) -> str:
    return NOTHING if one is None else f"{digits(100 * one.value, 2)} %"


def counts(found: GatedSides) -> list[str]:
    """``5 no regression``, ``1 undecided``, ...: those that occur."""
    words = dict.fromkeys(word for word, _ in WORDS.values())
    each = [WORDS[row.judgement.verdict][0] for row in found.rows]
    return [f"{each.count(word)} {word}" for word in words if word in each]


def sides_told(found: GatedSides) -> list[str]:
    """Return what each side is: firmware, runs and samples."""
    return [_side(side, samples) for side, samples in zip((found.a, found.b), found.samples, strict=True)]


def _side(side: DriveSide, samples: tuple[str, ...]) -> str:
    n = len(side.runs)
    which = f"{len(samples)} samples" if len(samples) > 1 else f"sample {samples[0]}"
    return f"{side.letter}: {side.first.title}, firmware {side.first.firmware or 'unknown'}, {n} {'run' if n == 1 else 'runs'}, {which}"


def spreads_told(found: GatedSides) -> list[str]:
    """Return how the spreads were told apart, with what stays unknown."""
    known = [row.change for row in found.rows if row.change is not None]
    if not known:
        return []
    if known[0].unknown:
        return [f"{known[0].unknown[0].upper()}{known[0].unknown[1:]}. The verdicts hold for {scope_of(found)}."]
    of = "the change" if known[0].design == "same samples" else "the figure"
    largest = max((one.between_samples for one in known if one.between_samples is not None), key=lambda one: one.value)
    text = f"Spread of {of} between samples, beyond the spread of runs: up to {digits(100 * largest.value, 2)} %"
    return [f"{text} (at most {digits(100 * largest.at_most, 2)} %). The test is over {scope_of(found)}, not over runs."]


def method_told(found: GatedSides) -> str:
    """Return the decision rule in one sentence."""
    return f"Decision rule: {RULE}, {found.tested} figures"


def gate_json(found: GatedSides, code: int) -> JsonObject:
    """Return the verdicts on both sides as JSON."""
    return {
        "schema": {"name": "wattbell-gate", "version": 1, "k": 2},
        "exit_code": code,
        "gate": found.gate,
        "rule": RULE,
        "level": LEVEL,
        "figures_tested": found.tested,
        "drive": found.a.first.title,
        "virtual": found.a.first.origin.stated,
        "sides": [
            {
                "side": side.letter,
                "firmware": side.first.firmware,
                "samples": list(samples),
                "runs": [run.source or run.id or run.content_hash[:12] for run in side.runs],
            }
            for side, samples in zip((found.a, found.b), found.samples, strict=True)
        ],
        "figures": [_row_json(one) for one in found.rows],
    }


def _row_json(one: GatedFigure) -> JsonObject:
    known = one.change
    return {
        "of": one.group,
        "name": one.name,
        "unit": one.unit,
        "a": quantity_json(one.a),
        "b": quantity_json(one.b),
        "worse": one.worse,
        "change": None if one.share.value is None else one.share.value / 100,
        "change_low": one.low,
        "change_high": one.high,
        "p": one.p,
        "p_holm": one.p_holm,
        "design": None if known is None else known.design,
        "df": None if known is None else known.df,
        "between_runs": _component(known.between_runs if known else None),
        "between_samples": _component(known.between_samples if known else None),
        "spread_unknown": known.unknown if known else "",
        "verdict": one.judgement.verdict,
        "outcome": WORDS[one.judgement.verdict][0],
        "why": one.judgement.why,
    }


def _component(one: Component | None) -> JsonObject | None:
    return None if one is None else {"value": one.value, "at_most": one.at_most}
