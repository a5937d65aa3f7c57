"""The sections with scores, queue depths, mixes and performance against power."""

from __future__ import annotations

from collections.abc import Sequence

from wattbell.report.suite_charts import BACKGROUND, Bar, Bars, Block, Chart, Line, Panel, Section
from wattbell.report.suite_entities import Entity, entities
from wattbell.results import Run, Score

_LESS_IS_BETTER = {"W", "s", "J", "ms", "us"}
_SCORED_UNITS = ("MB/s", "MB/s/W", "W", "IOPS")
_ELSEWHERE = ("idle", "active-idle", "whole-drive-fill", "operational", "non-operational")
_ATSB = "atsb-"


def titles_of(found: Sequence[Entity]) -> dict[str, str]:
    """Every test id with its title, in the order of the suites."""
    return {t.test: t.name for e in found for t in e.run.tests}


def lost_remark(score: Score) -> str:
    """What stands behind a figure whose data were lost."""
    return f"✕ {score.value.n_lost} lost" if score.value.n_lost else ""


def bars_of(found: Sequence[Entity], test: str, title: str, unit: str, name: str | None = None, reading: str | None = None) -> Bars | None:
    """A bar for each entity that has this score, the best first; None where none has."""
    bars = []
    label = ""
    for entity in found:
        result = entity.test(test)
        score = result.score(unit, name, reading) if result else None
        if score is None:
            continue
        label = label or score.name
        bars.append(Bar(entity.label, entity.colour, score.value, entity.full, lost_remark(score)))
    if not bars:
        return None
    less = unit in _LESS_IS_BETTER
    bars.sort(key=lambda b: b.value.value, reverse=not less)
    key = "-".join(filter(None, (test, name or "", unit, reading or "")))
    what = f" ({reading})" if reading else ""
    heading = f"{title}: {label}{what}" if label and label.lower() not in ("rate", "overall") else f"{title}{what}"
    return Bars(slug(key), heading, unit, bars, "" if unit == "W" else ("lower" if less else "higher"))


def slug(text: str) -> str:
    """A file name."""
    kept = "".join(c if c.isalnum() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part)


def scores(found: Sequence[Entity]) -> Section:
    """Bar charts of every score in MB/s, MB/s/W, W and IOPS; where readings of an average differ, each has its chart."""
    section = Section(
        "Scores",
        "Whiskers: expanded uncertainty, k = 2, also in brackets in the last digits. Hatched: the whole drive was filled before.",
    )
    for test, title in titles_of(found).items():
        if test in _ELSEWHERE or "wake-up" in test or test.startswith((_ATSB, "idle ")):
            continue
        for unit in _SCORED_UNITS:
            kinds: dict[tuple[str, str | None], list[float]] = {}
            for entity in found:
                result = entity.test(test)
                for score in result.scores if result else ():
                    if score.unit == unit:
                        kinds.setdefault((score.name, score.reading), []).append(score.value.value)
            for name, reading in _distinct(kinds):
                bars = bars_of(found, test, title, unit, name, reading)
                if bars is not None:
                    section.blocks.append(bars)
    return section


def _distinct(kinds: dict[tuple[str, str | None], list[float]]) -> list[tuple[str, str | None]]:
    """Readings of one score whose figures all agree to 0.1 % are one chart; its title still names the reading."""
    out: list[tuple[str, str | None]] = []
    for (name, reading), values in kinds.items():
        for other, other_reading in out:
            known = kinds[other, other_reading]
            same = len(known) == len(values) and all(abs(a - b) <= 1e-3 * abs(a) for a, b in zip(known, values, strict=True))
            if other == name and same:
                break
        else:
            out.append((name, reading))
    return out


def _line(entity: Entity, test: str, axis: str, quantity: str, scale: float = 1.0) -> Line | None:
    result = entity.test(test)
    found = result.over(axis, quantity) if result else []
    if len(found) < 2:
        return None
    return Line(
        entity.label,
        entity.colour,
        [x * scale for x, _ in found],
        [q.value for _, q in found],
        [q.u for _, q in found],
        dashed=entity.full,
        lost=any(q.n_lost for _, q in found),
    )


def _sweep(found: Sequence[Entity], axis: str, title: str, note: str) -> Section:
    """Rate, power and efficiency over an axis, for every test that has it."""
    section = Section(title, note)
    share = axis == "write_share"
    for test, name in titles_of(found).items():
        panels = []
        for quantity, text in (("mb_per_s", "MB/s"), ("mean_w", "W"), ("mb_per_s_per_w", "MB/s/W")):
            lines = [line for e in found if (line := _line(e, test, axis, quantity, 100.0 if share else 1.0))]
            if not lines:
                continue
            ticks = sorted({x for line in lines for x in line.x})
            if share:
                panels.append(Panel("share of writes", text, lines, x_ticks=[0, 20, 40, 60, 80, 100], x_suffix=" %"))
            else:
                span = (ticks[0] * 0.88, ticks[-1] * 1.12)
                panels.append(Panel("queue depth", text, lines, x_log=True, x_ticks=ticks, x_range=span))
        if panels:
            section.blocks.append(Chart(slug(f"{test}-by-{axis}"), name, panels, columns=3))
    return section


def queue_depths(found: Sequence[Entity]) -> Section:
    """Rate and power by queue depth."""
    return _sweep(found, "qd", "Rate and power by queue depth", "Each queue depth: one minute or 32 GB, then idle.")


def mixes(found: Sequence[Entity]) -> Section:
    """Rate and power by share of writes."""
    note = "From reads only to writes only in steps of 10 %. A dip in the middle is the bathtub of drives that serve one or the other."
    return _sweep(found, "write_share", "Mixed reads and writes", note)


SCATTER_TESTS = (
    "sustained-random-read",
    "sustained-random-write",
    "sustained-sequential-read",
    "sustained-sequential-write",
    "mixed-random",
    "mixed-sequential",
)


def against_power(found: Sequence[Entity], background: Sequence[Run]) -> Section:
    """Performance against power: every point of a test, all drives measured so far behind it in grey."""
    others = entities(background)
    section = Section("Performance against power")
    if others:
        drives = ", ".join(dict.fromkeys(run.title for run in background))
        section.note = f"Each point is one queue depth or mix. Grey, from the store, same job files and scale: {drives}."
    else:
        section.note = "Each point is one queue depth or mix. The store holds no other run with the same job files and scale."
    panels = []
    names = titles_of([*found, *others])
    wanted = [t for t in SCATTER_TESTS if t in names]
    if any(e.run.suite == "capture" for e in found):
        wanted += [t for t in names if t not in SCATTER_TESTS]
    singles: list[Line] = []
    for test in wanted:
        lines = []
        for entity, colour in [*((o, BACKGROUND) for o in others), *((e, e.colour) for e in found)]:
            result = entity.test(test)
            pairs = [
                (p.quantities["mean_w"].value, p.quantities["mb_per_s"].value)
                for p in (result.points if result else ())
                if "mean_w" in p.quantities and "mb_per_s" in p.quantities
            ]
            if not pairs:
                continue
            xs, ys = [w for w, _ in pairs], [r for _, r in pairs]
            if len(pairs) == 1 and entity.run.suite == "capture":
                label = f"{names[test]}" + (f", {entity.label}" if len(found) > 1 else "")
                singles.append(Line(label, colour, xs, ys, mode="markers", texts=[label]))
                continue
            lines.append(Line(entity.label, colour, xs, ys, dashed=entity.full, mode="markers"))
        if lines:
            top = max(x for line in lines for x in line.x)
            panels.append(Panel("mean power, W", "MB/s", lines, title=names[test], x_range=(0, 1.08 * top)))
    if singles:
        top = max(x for line in singles for x in line.x)
        panels.append(Panel("mean power, W", "MB/s", singles, x_range=(0, 1.2 * top)))
    if panels:
        section.blocks.append(Chart("performance-against-power", "Performance against power", panels, columns=2))
    return section


ATSB_LATENCIES = (
    "mean latency",
    "mean read latency",
    "mean write latency",
    "p99 latency",
    "p99 read latency",
    "p99 write latency",
)


def traces(found: Sequence[Entity]) -> Section:
    """ATSB-like traces: data rate, latencies, energy."""
    note = "Generated traces with the published statistics (the traces themselves are not public); idle time cut to 25 ms."
    section = Section("Trace replay (ATSB-like)", note)
    for test, title in titles_of(found).items():
        if not test.startswith(_ATSB):
            continue
        blocks: list[Block | None] = [bars_of(found, test, title, "MB/s")]
        blocks += [bars_of(found, test, title, "s", name) for name in ATSB_LATENCIES]
        blocks.append(bars_of(found, test, title, "J"))
        section.blocks += [block for block in blocks if block is not None]
    return section
