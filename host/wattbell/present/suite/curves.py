"""The sections drawn from time series: consistency, whole-drive fill, rounds and wake-up, with the idle figures beside it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

from wattbell.present.chart import Axis, Block, Chart, ChartSection, Curve, Mark, Panel, slug
from wattbell.present.colours import PALETTE
from wattbell.present.suite.entities import Entity, TestKey, kind_in, titles_of
from wattbell.present.suite.scores import bars_of
from wattbell.results import TestResult
from wattbell.suites.kinds import ScoreSection

STEADY_FROM_S = 1400.0
LAST_S = 400.0
_FILL_POINTS = 1500


def _table(entity: Entity, result: TestResult | None, *columns: str) -> pl.DataFrame | None:
    frame = entity.run.series(result) if result else None
    if frame is None or not set(columns) <= set(frame.columns):
        return None
    texts = {name for name, kind in frame.schema.items() if kind == pl.String}
    if texts & set(columns) != ({"section"} & set(columns)):
        return None
    frame = frame.drop_nulls(columns)
    return frame if frame.height else None


def consistency(found: Sequence[Entity]) -> ChartSection:
    """IOPS second by second: three views for the 2014 suite, two for 2016, one panel for each drive and test."""
    section = ChartSection(
        "Performance consistency",
        "Each dot is one second of 4 KiB random writes at queue depth 32. Scaled runs are shorter: their views start "
        "at the same share of the run.",
    )
    clouds: list[tuple[Entity, str, list[float], list[float]]] = []
    for entity in found:
        for result in entity.tests:
            frame = _table(entity, result, "t_s", "iops")
            if frame is not None:
                title = f"{entity.label}: {result.name}"
                clouds.append((entity, title, frame["t_s"].to_list(), frame["iops"].to_list()))
    if not clouds:
        return section
    top = max(max(ys) for *_, ys in clouds)
    low = max(1.0, min((y for *_, ys in clouds for y in ys if y > 0), default=1.0))
    for suite in dict.fromkeys(e.run.suite for e, *_ in clouds):
        mine = [c for c in clouds if c[0].run.suite == suite]
        ends = [max(xs) for _, _, xs, _ in mine]
        scales = {e.run.scale for e, *_ in mine}
        if "2016" in suite:
            begins = [end - LAST_S * e.run.scale for (e, *_), end in zip(mine, ends, strict=True)]
            views = [("whole-run", "Whole run", None, True), ("last-400-s", f"Steady state: last {_scaled(LAST_S, scales)}", begins, False)]
        else:
            begins = [STEADY_FROM_S * e.run.scale for e, *_ in mine]
            views = [
                ("whole-run-log", "Whole run, logarithmic", None, True),
                ("steady-log", f"From t = {_scaled(STEADY_FROM_S, scales)}, logarithmic", begins, True),
                ("steady-linear", f"From t = {_scaled(STEADY_FROM_S, scales)}, linear", begins, False),
            ]
        for key, title, starts, log in views:
            panels = []
            for i, (entity, name, xs, ys) in enumerate(mine):
                start = starts[i] if starts else 0.0
                if start >= ends[i]:
                    continue
                line = Curve(entity.label, entity.colour, xs, [max(y, low) for y in ys] if log else ys, mode="markers")
                limits = (low / 1.4, top * 1.4) if log else (0.0, 1.05 * top)
                panels.append(Panel(Axis("time, s", span=(start, ends[i])), Axis("IOPS", log, limits), [line], name, zoom=True))
            if panels:
                heading = f"{suite}: {title[0].lower()}{title[1:]}"
                section.blocks.append(Chart(slug(f"{suite}-{key}"), heading, panels, columns=2, height_px=250))
    return section


def _scaled(seconds: float, scales: Collection[float]) -> str:
    """A time given by the suite, as scaled in these runs."""
    if len(scales) == 1:
        return f"{seconds * next(iter(scales)):g} s"
    return f"{seconds:g} s times the scale"


def fill(found: Sequence[Entity]) -> ChartSection:
    """Return the section on the write rate over the fill, with the size of the SLC cache if it was found."""
    section = ChartSection(
        "Whole-drive fill and SLC cache",
        "Sequential 128 KiB writes at queue depth 32, over the whole erased drive or over 64 GiB of one that holds data. "
        "Dotted line and band: size of the SLC cache, "
        "found as the change point of the rate, with its expanded uncertainty (k = 2).",
    )
    for key, title in titles_of(found).items():
        if kind_in(found, key).place is not ScoreSection.FILL:
            continue
        rates: list[Panel] = []
        for entity in found:
            result = entity.test(key)
            frame = _table(entity, result, "gb", "mb_per_s")
            if result is None or frame is None:
                continue
            frame = _thin(frame)
            line = Curve(entity.label, entity.colour, frame["gb"].to_list(), frame["mb_per_s"].to_list(), mode="lines")
            score = result.score("GB")
            marks = []
            if score is not None:
                q = score.value
                spread = f" ± {q.u:.2g}" if q.u else ""
                marks = [Mark(q.value, f"SLC cache {q.value:.4g}{spread} GB", entity.colour, q.u)]
            x = Axis("written, GB", span=(0, max(line.x)))
            rates.append(Panel(x, Axis("rate, MB/s"), [line], entity.label, marks, zoom=True))
            if "mean_w" in frame.columns and frame["mean_w"].is_not_null().any():
                power = Curve(entity.label, entity.colour, line.x, frame["mean_w"].fill_null(float("nan")).to_list(), mode="lines")
                rates.append(Panel(x, Axis("power, W"), [power], f"{entity.label}: power", zoom=True))
        if rates:
            section.blocks.append(Chart(slug(f"{key[0]}-{key[1]}-rate"), title, rates, columns=2, height_px=260))
        names = {(s.name, s.unit): None for e in found if (r := e.test(key)) for s in r.scores}
        blocks: list[Block | None] = [bars_of(found, key, title, unit, name) for name, unit in names]
        section.blocks += [block for block in blocks if block is not None]
    return section


def _thin(frame: pl.DataFrame) -> pl.DataFrame:
    """Average neighbours to at most ``_FILL_POINTS`` rows, so that the curve still accounts for all that was written."""
    step = -(-frame.height // _FILL_POINTS)
    if step == 1:
        return frame
    groups = (pl.int_range(pl.len()) // step).alias("_group")
    return frame.group_by(groups, maintain_order=True).agg(pl.all().mean()).drop("_group")


_QUANTITY = {"IOPS": "iops", "MB/s": "mb_per_s", "s": "mean_latency_s"}


def rounds(found: Sequence[Entity]) -> ChartSection:
    """Tests in rounds: the figures that decide on the steady state, round by round."""
    section = ChartSection(
        "Rounds to steady state", "Steady: over five rounds a range of at most 20 % and a slope of at most 10 % of the mean."
    )
    for key, title in titles_of(found).items():
        panels = []
        for entity in found:
            result = entity.test(key)
            frame = _table(entity, result, "round", "section")
            if result is None or frame is None:
                continue
            decisive = [s for s in result.scores if s.name in set(frame["section"]) and _QUANTITY.get(s.unit) in frame.columns]
            lines = []
            for score, colour in zip(decisive, PALETTE, strict=False):
                part = frame.filter(pl.col("section") == score.name).drop_nulls(_QUANTITY[score.unit])
                lines.append(Curve(score.name, colour, part["round"].to_list(), part[_QUANTITY[score.unit]].to_list()))
            if lines:
                unit = decisive[0].unit
                y = Axis("mean latency", seconds=True) if unit == "s" else Axis(unit)
                panels.append(Panel(Axis("round"), y, lines, entity.label, zoom=True))
        if panels:
            section.blocks.append(Chart(slug(f"{key[0]}-{key[1]}-rounds"), title, panels, columns=2, height_px=250))
    return section


def idle(found: Sequence[Entity], others: Sequence[Entity] = ()) -> ChartSection:
    """Idle power with and without power management and the wake-up from it, with drives from the store in grey."""
    section = ChartSection(
        "Idle power and wake-up",
        "Active idle: no ASPM, no APST. Idle: ASPM L1.2 and APST, unless a note says otherwise. Wake-up: first command after that idle.",
    )
    for key, title in titles_of(found).items():
        kind = kind_in(found, key)
        if kind.place is ScoreSection.IDLE:
            bars = bars_of(found, key, title, "W", behind=others)
            section.blocks += [bars] if bars else []
        elif kind.place is ScoreSection.WAKE_UP:
            names = dict.fromkeys(s.name for e in found if (r := e.test(key)) for s in r.scores if kind.charted(s.name, s.unit))
            section.blocks += [bars for name in names if (bars := bars_of(found, key, title, "s", name, behind=others))]
            lines = [line for e in found if (line := _distribution(e, key)) is not None]
            if lines and not any(_spread(line) for line in lines):
                # a single vertical line, which the bar above says better
                section.note += f" {title}: too few or too alike (within {_ALIKE:.0%}) for a distribution."
            elif lines:
                # from 0 if all values lie close together: a spread of microseconds must not look like one of milliseconds
                top = max(max(line.x) for line in lines)
                wide = top > 20 * min(min(line.x) for line in lines) > 0
                reach = None if wide else (0.0, 1.05 * top)
                panel = Panel(Axis("latency", wide, reach, seconds=True), Axis("share of wake-ups", span=(0, 1.02)), lines)
                section.blocks.append(Chart(slug(f"{key[0]}-{key[1]}-distribution"), f"{title}: distribution", [panel], columns=1))
    return section


_ALIKE = 0.01
_LEAST_VALUES = 3


def _spread(line: Curve) -> bool:
    """Whether a distribution says more than its median."""
    return len(line.x) >= 2 * _LEAST_VALUES and max(line.x) - min(line.x) > _ALIKE * max(line.x)


def _distribution(entity: Entity, key: TestKey) -> Curve | None:
    frame = _table(entity, entity.test(key), "latency_s")
    if frame is None:
        return None
    values = np.sort(frame["latency_s"].drop_nulls().to_numpy())
    if not len(values):
        return None
    share = np.arange(1, len(values) + 1) / len(values)
    # steps: the distribution jumps at each value
    x, y = np.repeat(values, 2), np.repeat(np.concatenate(([0.0], share)), 2)[1:-1]
    return Curve(entity.label, entity.colour, x.tolist(), y.tolist(), dashed=entity.full, mode="lines")
