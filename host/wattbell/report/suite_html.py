"""A suite page as one HTML file that needs nothing else: style, script, plotly.js and data are inside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any

import plotly.offline

from wattbell.report.suite_charts import Bars, Block, Chart, Line, Section, TableBlock, needs_legend, readable, shown
from wattbell.report.suite_entities import Entity, mixtures
from wattbell.report.suite_plotly import figure
from wattbell.report.tables import pair, table
from wattbell.results import Run


def _bars(chart: Bars) -> str:
    top = max((b.value.value + (b.value.u or 0.0) for b in chart.bars), default=0.0) or 1.0
    factor, unit = readable([b.value.value for b in chart.bars], chart.unit)
    rows = []
    for bar in chart.bars:
        width = 100 * max(bar.value.value, 0.0) / top
        kind = " hatched" if bar.hatched else ""
        whisker = ""
        if bar.value.u:
            left = 100 * max(bar.value.value - bar.value.u, 0.0) / top
            whisker = f'<s style="left:{left:.2f}%;width:{100 * (bar.value.value + bar.value.u) / top - left:.2f}%"></s>'
        remark = f" <small>{escape(bar.remark)}</small>" if bar.remark else ""
        remark += f" <em>{escape(bar.lost)}</em>" if bar.lost else ""
        rows.append(
            f"<div class=bar><span>{escape(bar.label)}</span><div><i class='{kind.strip()}' "
            f'style="--c:{bar.colour};width:{width:.2f}%"></i>{whisker}</div>'
            f"<b>{pair(shown(bar.value), factor)}{remark}</b></div>"
        )
    better = f"{chart.better} is better" if chart.better else ""
    unit = unit.removeprefix("1")
    if chart.group:
        more = ", ".join(filter(None, (chart.short if unit else "", better)))
        head = f"<h4>{escape(unit or chart.short)} <span class=unit>{escape(more)}</span></h4>"
    else:
        head = f"<h3>{escape(chart.title)} <span class=unit>{escape(', '.join(filter(None, (unit, better))))}</span></h3>"
    return f"<div class=bars>{head}{''.join(rows)}</div>"


def _legend(chart: Chart) -> str:
    lines = {line.label: line for p in chart.panels for line in p.lines if line.label and line.texts is None}
    if len(lines) < 2 or all(len(p.lines) < 2 for p in chart.panels):
        return ""
    chips = "".join(f"<span>{_sample(line)}{escape(label)}</span>" for label, line in lines.items())
    kind = "" if needs_legend(chart) else " narrow"
    return f'<div class="legend{kind}">{chips}</div>'


def _sample(line: Line) -> str:
    if line.mode == "markers":
        return f'<i class=point style="border-color:{line.colour};background:{"#fff" if line.dashed else line.colour}"></i>'
    return f'<i style="border-top:3px {"dashed" if line.dashed else "solid"} {line.colour}"></i>'


def _chart(chart: Chart, plots: dict[str, Any], above: str) -> str:
    cells = []
    for i, panel in enumerate(chart.panels):
        name = f"{chart.key}-{i}"
        plots[name] = figure(panel, chart.height_px)
        title = f"<h4>{escape(panel.title)}</h4>" if panel.title else ""
        cells.append(f'<div>{title}<div id="{escape(name)}"></div></div>')
    note = f"<p class=note>{escape(chart.note)}</p>" if chart.note else ""
    ends = " ends" if any(p.named for p in chart.panels) and len(chart.panels) == 3 else ""
    grid = f'<div class="panels n{chart.columns}{ends}">{"".join(cells)}</div>'
    title = f"<h3>{escape(chart.title)}</h3>" if chart.title != above else ""
    return f"{title}{note}{_legend(chart)}{grid}"


def _table(block: TableBlock) -> str:
    title = f"<h3>{escape(block.title)}</h3>" if block.title else ""
    note = f"<p class=note>{escape(block.note)}</p>" if block.note else ""
    return title + note + table(block.head, block.rows, block.left)


def _section(section: Section, plots: dict[str, Any]) -> str:
    if not section.blocks:
        return ""
    parts = []
    for (kind, group), blocks in groupby(section.blocks, lambda b: (type(b), b.group if isinstance(b, Bars) else "")):
        if kind is Bars:
            head = f"<h3>{escape(group)}</h3>" if group else ""
            parts.append(f'{head}<div class="trio">{"".join(_bars(b) for b in blocks if isinstance(b, Bars))}</div>')
        else:
            parts += [_block(block, plots, section.title) for block in blocks]
    note = f"<p class=note>{escape(section.note)}</p>" if section.note else ""
    if section.title == "Every figure":
        return f"<details><summary>Every figure</summary>{note}{''.join(parts)}</details>"
    return f"<h2>{escape(section.title)}</h2>{note}{''.join(parts)}"


def _block(block: Block, plots: dict[str, Any], above: str) -> str:
    if isinstance(block, Chart):
        return _chart(block, plots, above)
    return _table(block) if isinstance(block, TableBlock) else _bars(block)


def _banner(runs: Sequence[Run]) -> str:
    loss = [f"{run.title}, {run.suite}: {n} {escape(kind)}" for run in runs for kind, n in run.lost.items()]
    loss += [
        f"{run.title}, {test.name} ({test.condition}): {n} {escape(kind)}"
        for run in runs
        for test in run.tests
        for kind, n in test.lost.items()
    ]
    out = ""
    mixed = mixtures(runs)
    if mixed:
        items = "".join(f"<li>{escape(reason)}</li>" for reason in mixed)
        out += f'<div class="banner mixed"><b>These runs are not simply comparable.</b><ul>{items}</ul></div>'
    if loss:
        items = "".join(f"<li>{text}</li>" for text in loss)
        out += (
            f'<div class="banner loss"><b>Data were lost</b> under these figures; counts and rates are lower bounds.<ul>{items}</ul></div>'
        )
    else:
        out += "<div class=banner>Nothing was lost between the connector and this page.</div>"
    short = [f"{run.title}, {run.suite}: interrupted; {n} of {run.planned} tests are missing" for run in runs if (n := run.missing)]
    if short:
        out += f'<div class="banner mixed">{_items(short)}</div>'
    warnings = _merged([(run.title, note) for run in runs for note in _notes(run)])
    warnings += _merged([(run.title, text) for run in runs for text, routine in _test_notes(run) if not routine])
    if warnings:
        out += f'<div class="banner warn">{_items(warnings)}</div>'
    routine = _merged([(run.title, text) for run in runs for text, routine in _test_notes(run) if routine])
    if routine:
        out += f"<details class=notes><summary>How the tests went</summary>{_items(routine)}</details>"
    return out


def _items(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def _merged(notes: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each note, with the drives it is about."""
    drives: dict[str, dict[str, None]] = {}
    for drive, note in notes:
        drives.setdefault(note, {})[drive] = None
    return [f"{', '.join(names)}: {note}" for note, names in drives.items()]


def _notes(run: Run) -> list[str]:
    conditions: Any = run.document.get("conditions")
    places = [run.document.get("notes"), conditions.get("notes") if isinstance(conditions, dict) else None]
    return list(dict.fromkeys(str(n) for notes in places if isinstance(notes, list) for n in notes))


_ROUTINE = ("busy for ", "steady in rounds ")
"""How notes begin that say that a test went as it should."""


def _test_notes(run: Run) -> list[tuple[str, bool]]:
    """(note with the test's name and condition, whether it is said of every test)."""
    several = len({test.condition for test in run.tests}) > 1
    return [
        (f"{test.name}{f' ({test.condition})' if several and test.condition else ''}: {note}", note.startswith(_ROUTINE))
        for test in run.tests
        for note in test.notes
    ]


def _stamps(runs: Sequence[Run]) -> str:
    chips = []
    scaled = sorted({run.scale for run in runs if run.scaled})
    if scaled:
        text = "SCALED " + ", ".join(f"×{s:g}" for s in scaled)
        chips.append(f"<span class='stamp bad'>{text}: time and span shortened, figures not those of the whole suite</span>")
    models = list(dict.fromkeys(run.profile or run.title for run in runs if run.virtual))
    if models:
        chips.append(f"<span class='stamp model'>MODEL on the virtual rig: {escape(', '.join(models))}</span>")
    if any(run.lost or any(t.lost for t in run.tests) for run in runs):
        chips.append("<span class='stamp bad'>DATA LOST</span>")
    return f"<p class=stamps>{''.join(chips)}</p>" if chips else ""


def page(
    title: str,
    sub: str,
    runs: Sequence[Run],
    found: Sequence[Entity],
    sections: Sequence[Section],
    more: Mapping[str, Any] | None = None,
) -> str:
    """The complete HTML text."""
    here = files("wattbell.report")
    css = here.joinpath("page.css").read_text("utf-8") + here.joinpath("suite.css").read_text("utf-8")
    script = here.joinpath("suite.js").read_text("utf-8")
    plots: dict[str, Any] = dict(more or {})
    body = "".join(_section(section, plots) for section in sections)
    contents = "".join(f'<a href="#{i}">{escape(s.title)}</a>' for i, s in enumerate(sections) if s.blocks)
    for i, section in enumerate(sections):
        body = body.replace(f"<h2>{escape(section.title)}</h2>", f'<h2 id="{i}">{escape(section.title)}</h2>', 1)
        body = body.replace(f"<details><summary>{escape(section.title)}<", f'<details id="{i}"><summary>{escape(section.title)}<', 1)
    drives = {e.colour + e.label.removesuffix(", full"): e for e in found}
    legend = "".join(f'<span><i style="--c:{e.colour}"></i>{escape(e.label.removesuffix(", full"))}</span>' for e in drives.values())
    if any(e.full for e in found):
        legend += '<span><i class=hatched style="--c:#66707c"></i>hatched, dashed: the whole drive was filled before</span>'
    # "</" must not occur inside a script element.
    payload = json.dumps(plots, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")
    library = plotly.offline.get_plotlyjs().replace("</script", "<\\/script")
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} – Wattbell</title><style>{css}</style></head><body><main>"
        f"<h1>{escape(title)}</h1><p class=sub>{escape(sub)}</p>{_stamps(runs)}"
        f"<div class=drives>{legend}</div><nav>{contents}</nav>{_banner(runs)}{body}</main>"
        f"<script>{library}</script><script>const P={payload};\n{script}</script></body></html>\n"
    )
