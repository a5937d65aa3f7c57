"""The sections with scores, queue depths, mixes and performance against power."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from wattbell.present.chart import COVERS, Axis, Bar, Bars, Block, Chart, ChartSection, Curve, Panel, slug
from wattbell.present.colours import BACKGROUND
from wattbell.present.suite.entities import Entity, TestKey, kind_in, titles_of
from wattbell.present.suite.entities import behind as grey
from wattbell.results import Known, Point, Score, TestResult
from wattbell.suites.kinds import KindOfTest, ScoreSection
from wattbell.text import digits

_LESS_IS_BETTER = {"W", "s", "J"}
_SCORED_UNITS = ("MB/s", "IOPS", "MB/J", "MB/s/W", "W", "1")


def bars_of(
    found: Sequence[Entity],
    key: TestKey,
    title: str,
    unit: str,
    name: str | None = None,
    grouped: bool = False,
    behind: Sequence[Entity] = (),
) -> Bars | None:
    """A bar for each entity that has this score, best first; None if none has. ``behind``: drives from the store, in grey.

    Where an average can be read in two ways, the bar is the first reading and the other stands behind its figure.
    """
    bars = []
    label = reading = ""
    for entity in (*found, *behind):
        result = entity.test(key)
        score = result.score(unit, name) if result else None
        if result is None or score is None:
            continue
        label, reading = label or score.name, reading or score.reading or ""
        others = [
            f"{s.reading if s.name == score.name else s.name}: {digits(s.value.value, 4)}"
            for s in result.scores
            if s.unit == unit and _second(s, result) is score and _differs(s, score)
        ]
        lost = [f"✕ {score.value.lost} lost"] if score.value.lost else []
        back = entity in behind
        remark = "" if back else "; ".join(others)  # of many drives in grey the first reading is enough
        colour = BACKGROUND if back else entity.colour
        bars.append(Bar(entity.label, colour, score.value, entity.full, remark, "".join(lost), picked=bool(behind) and not back))
    if all(bar.colour == BACKGROUND for bar in bars):
        return None
    less = unit in _LESS_IS_BETTER
    bars.sort(key=lambda b: b.value.value, reverse=not less)
    heading = f"{title}: {label}" if label.lower() not in ("rate", "overall", "mean power", "all mixes", "mean of the bursts") else title
    if any(bar.remark for bar in bars):
        heading += f" ({reading})"
    file = slug("-".join(filter(None, (*key, label, unit))))
    short = label + (f" ({reading})" if any(bar.remark for bar in bars) else "")
    better = _better(unit, kind_in(found, key))
    return Bars(file, heading, unit, bars, better, title if grouped else "", short if grouped else "")


def _better(unit: str, kind: KindOfTest) -> Literal["higher", "lower", ""]:
    if unit in ("W", "GB") or (unit == "J" and kind.place is ScoreSection.FILL):
        return ""  # power says little without the rate; drives differ in size
    return "lower" if unit in _LESS_IS_BETTER else "higher"


def _second(score: Score[Known], result: TestResult) -> Score[Known] | None:
    """Return the first score in the unit of this one, if both name their reading: this one is then another reading."""
    first = result.score(score.unit)
    both = first is not None and first is not score and first.reading and score.reading
    return first if both else None


def _differs(a: Score[Known], b: Score[Known]) -> bool:
    return abs(a.value.value - b.value.value) > 1e-3 * abs(b.value.value)


def scores(found: Sequence[Entity], others: Sequence[Entity] = ()) -> ChartSection:
    """Bar charts of every score in MB/s, MB/s/W, W and IOPS, with drives from the store in grey."""
    note = f"Whiskers: expanded uncertainty (k = 2), which also stands in brackets, in the last digits. {COVERS}"
    if any(e.full for e in found):
        note += " Hatched: the whole drive was filled before."
    if others:
        note += f" {grey([e.run for e in others])}"
    section = ChartSection("Scores", note)
    for key, title in titles_of(found).items():
        kind = kind_in(found, key)
        if kind.place is not ScoreSection.SCORES:
            continue
        units = {s.unit for e in found if (r := e.test(key)) for s in r.scores}
        for unit in _SCORED_UNITS if units & set(_SCORED_UNITS[:-1]) else ("s",):
            names = dict.fromkeys(
                s.name
                for e in found
                if (r := e.test(key))
                for s in r.scores
                if s.unit == unit and kind.charted(s.name, unit) and _second(s, r) is None
            )
            section.blocks += [bars for name in names if (bars := bars_of(found, key, title, unit, name, True, others))]
    return section


def _line(entity: Entity, key: TestKey, axis: str, quantity: str, scale: float = 1.0) -> Curve | None:
    result = entity.test(key)
    found = result.over(axis, quantity) if result else []
    if len(found) < 2 or len({x for x, _ in found}) < len(found):
        return None  # a second axis was varied too: that is a table, not a curve
    return Curve(
        entity.label,
        entity.colour,
        [x * scale for x, _ in found],
        [q.value for _, q in found],
        [q.u for _, q in found],
        dashed=entity.full,
        lost=any(q.lost for _, q in found),
    )


def _sweep(found: Sequence[Entity], axis: str, title: str, note: str) -> ChartSection:
    """Rate, power and efficiency along an axis, for every test that varies it."""
    section = ChartSection(title, note)
    share = axis == "write_share"
    for key, name in titles_of(found).items():
        panels = []
        for quantity, text in (("mb_per_s", "rate, MB/s"), ("mean_w", "power, W"), ("mb_per_j", "bytes per joule, MB/J")):
            lines = [line for e in found if (line := _line(e, key, axis, quantity, 100.0 if share else 1.0))]
            if not lines or (share and max(len(line.x) for line in lines) < 3):  # reads and writes are no mixes
                continue
            last = quantity == "mb_per_j"
            ticks = sorted({x for line in lines for x in line.x})
            if share:
                x = Axis("share of writes, %", ticks=[(v, f"{v}") for v in range(0, 101, 20)])
            else:
                x = Axis("queue depth", True, (ticks[0] * 0.88, ticks[-1] * 1.12), [(v, f"{v:g}") for v in ticks])
            panels.append(Panel(x, Axis(text), lines, names=last))
        if panels:
            section.blocks.append(Chart(slug(f"{key[0]}-{key[1]}-by-{axis}"), name, panels, columns=3))
    return section


def _client(found: Sequence[Entity]) -> bool:
    return all(entity.run.suite == "anandtech-2018" for entity in found)


def queue_depths(found: Sequence[Entity]) -> ChartSection:
    """Rate and power by queue depth."""
    note = "Each queue depth: one minute or 32 GB, then idle." if _client(found) else ""
    return _sweep(found, "qd", "Rate and power by queue depth", note)


def mixes(found: Sequence[Entity]) -> ChartSection:
    """Rate and power by share of writes."""
    note = "From reads only to writes only" + (" in steps of 10 %" if _client(found) else "")
    note += ". A dip in the middle is the bathtub of drives that serve one or the other."
    return _sweep(found, "write_share", "Mixed reads and writes", note)


SCATTER_TESTS = (
    "sustained-random-read",
    "sustained-random-write",
    "sustained-sequential-read",
    "sustained-sequential-write",
    "mixed-random",
    "mixed-sequential",
)


def against_power(found: Sequence[Entity], others: Sequence[Entity]) -> ChartSection:
    """Performance against power: every point of a test, with all drives measured so far in grey."""
    section = ChartSection("Performance against power")
    section.note = "Each point is one queue depth or mix, joined in their order. "
    section.note += grey([e.run for e in others]) if others else "The store holds no other run with the same job files and scale."
    panels = []
    names = titles_of([*found, *others])
    wanted = [key for t in SCATTER_TESTS for key in names if key[1] == t]
    wanted += [key for key in names if key not in wanted and any(_sweeps(e.test(key)) for e in found)]
    if any(e.run.suite == "capture" for e in found):
        wanted += [key for key in names if key[0] == "capture"]
    singles: list[Curve] = []
    for key in wanted:
        lines = []
        for entity, colour in [*((o, BACKGROUND) for o in others), *((e, e.colour) for e in found)]:
            result = entity.test(key)
            points = sorted(
                (
                    (_along(p), p.figures["mean_w"].value, p.figures["mb_per_s"].value)
                    for p in (result.points if result else ())
                    if "mean_w" in p.figures and "mb_per_s" in p.figures
                ),
                key=lambda item: item[0][0],
            )
            if not points:
                continue
            xs, ys = [w for _, w, _ in points], [r for *_, r in points]
            if len(points) == 1 and entity.run.suite == "capture":
                label = f"{names[key]}" + (f", {entity.label}" if len(found) > 1 else "")
                singles.append(Curve(label, colour, xs, ys, mode="markers", texts=[label]))
                continue
            # drives in grey are named at their fastest point, the others in the legend: there each point has its depth or mix
            back = colour == BACKGROUND
            texts = [entity.label if y == max(ys) else "" for y in ys] if back else [text for (_, text), *_ in points]
            joined = result is not None and _sweeps(result)
            lines.append(
                Curve(entity.label, colour, xs, ys, dashed=entity.full, mode="lines+markers" if joined else "markers", texts=texts)
            )
        if lines:
            top = max(x for line in lines for x in line.x)
            panels.append(Panel(Axis("mean power, W", span=(0, 1.08 * top)), Axis("rate, MB/s"), lines, names[key]))
    if singles:
        top = max(x for line in singles for x in line.x)
        panels.append(Panel(Axis("mean power, W", span=(0, 1.2 * top)), Axis("rate, MB/s"), singles))
    if panels:
        section.blocks.append(Chart("performance-against-power", "Performance against power", panels, columns=2))
    return section


def _along(point: Point[Known]) -> tuple[float, str]:
    """Return the place of a point along its curve, and its name there: queue depth or share of writes."""
    for axis, factor, text in (("qd", 1.0, "QD{:g}"), ("write_share", 100.0, "{:g} % writes")):
        at = point.x.get(axis)
        if isinstance(at, float | int):
            return float(at), text.format(at * factor)
    return 0.0, ""


def _sweeps(result: TestResult | None) -> bool:
    """Whether the test varied exactly one thing: queue depth or mix."""
    axes = {axis for point in result.points for axis in point.x} if result else set()
    return result is not None and len(result.points) > 1 and len(axes) == 1 and axes <= {"qd", "write_share"}


ATSB_LATENCIES = tuple(
    f"{what}, {which}" for what in ("mean latency", "99th percentile of latency") for which in ("all", "reads", "writes")
)


def traces(found: Sequence[Entity], others: Sequence[Entity] = ()) -> ChartSection:
    """ATSB-like traces: data rate, latencies, energy."""
    note = "Generated traces with the published statistics (the traces themselves are not public); idle time cut to 25 ms."
    section = ChartSection("Trace replay (ATSB-like)", note)
    for key, title in titles_of(found).items():
        if kind_in(found, key).place is not ScoreSection.TRACES:
            continue
        blocks: list[Block | None] = [bars_of(found, key, title, unit, None, True, others) for unit in ("MB/s", "J", "MB/J")]
        blocks += [bars_of(found, key, title, "s", name, True, others) for name in ATSB_LATENCIES]
        section.blocks += [block for block in blocks if block is not None]
    return section
