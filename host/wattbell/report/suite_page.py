"""A suite page as one HTML file that needs nothing else: style, script, plotly.js and data are inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from wattbell.present.chart import Bars, Block, Chart, Line, Section, TableBlock, needs_legend, readable, shown
from wattbell.present.embed import bullets, document, note_below
from wattbell.present.html import pair, table
from wattbell.present.interactive import figure
from wattbell.present.suite.entities import Entity, mixtures
from wattbell.results import Run


def _bars(chart: Bars) -> Markup:
    top = max((b.value.value + (b.value.u or 0.0) for b in chart.bars), default=0.0) or 1.0
    factor, unit = readable([b.value.value for b in chart.bars], chart.unit)
    rows = []
    for bar in chart.bars:
        width = 100 * max(bar.value.value, 0.0) / top
        whisker = Markup()
        if bar.value.u:
            left = 100 * max(bar.value.value - bar.value.u, 0.0) / top
            span = 100 * (bar.value.value + bar.value.u) / top - left
            whisker = Markup('<s style="left:{:.2f}%;width:{:.2f}%"></s>').format(left, span)
        remark = Markup(" <small>{}</small>").format(bar.remark) if bar.remark else Markup()
        remark += Markup(" <em>{}</em>").format(bar.lost) if bar.lost else ""
        row = Markup(
            "<div class=bar><span>{}</span><div><i class='{}' "
            'style="--c:{};width:{:.2f}%"></i>{}</div>'
            "<b>{}{}</b></div>"
        )
        kind = "hatched" if bar.hatched else ""
        rows.append(row.format(bar.label, kind, bar.colour, width, whisker, pair(shown(bar.value), factor), remark))
    better = f"{chart.better} is better" if chart.better else ""
    unit = unit.removeprefix("1")
    if chart.group:
        more = ", ".join(filter(None, (chart.short if unit else "", better)))
        head = Markup("<h4>{} <span class=unit>{}</span></h4>").format(unit or chart.short, more)
    else:
        head = Markup("<h3>{} <span class=unit>{}</span></h3>").format(chart.title, ", ".join(filter(None, (unit, better))))
    return Markup("<div class=bars>{}{}</div>").format(head, Markup().join(rows))


def _legend(chart: Chart) -> Markup:
    lines = {line.label: line for p in chart.panels for line in p.lines if line.label and line.texts is None}
    if len(lines) < 2 or all(len(p.lines) < 2 for p in chart.panels):
        return Markup()
    chips = Markup().join(Markup("<span>{}{}</span>").format(_sample(line), label) for label, line in lines.items())
    kind = "" if needs_legend(chart) else " narrow"
    return Markup('<div class="legend{}">{}</div>').format(kind, chips)


def _sample(line: Line) -> Markup:
    if line.mode == "markers":
        point = Markup('<i class=point style="border-color:{};background:{}"></i>')
        return point.format(line.colour, "#fff" if line.dashed else line.colour)
    return Markup('<i style="border-top:3px {} {}"></i>').format("dashed" if line.dashed else "solid", line.colour)


def _h(level: int, text: str) -> Markup:
    return Markup("<h{}>{}</h{}>").format(level, text, level) if text else Markup()


def _chart(chart: Chart, plots: dict[str, Any], above: str) -> Markup:
    cells = []
    for i, panel in enumerate(chart.panels):
        name = f"{chart.key}-{i}"
        plots[name] = figure(panel, chart.height_px)
        cells.append(Markup('<div>{}<div id="{}"></div></div>').format(_h(4, panel.title), name))
    ends = " ends" if any(p.named for p in chart.panels) and len(chart.panels) == 3 else ""
    grid = Markup('<div class="panels n{}{}">{}</div>').format(chart.columns, ends, Markup().join(cells))
    return _h(3, chart.title if chart.title != above else "") + note_below(chart.note) + _legend(chart) + grid


def _table(block: TableBlock) -> Markup:
    return _h(3, block.title) + note_below(block.note) + table(block.head, block.rows, block.left)


def _section(number: int, section: Section, plots: dict[str, Any]) -> Markup:
    if not section.blocks:
        return Markup()
    parts = []
    for (kind, group), blocks in groupby(section.blocks, lambda b: (type(b), b.group if isinstance(b, Bars) else "")):
        if kind is Bars:
            bars = Markup().join(_bars(b) for b in blocks if isinstance(b, Bars))
            parts.append(_h(3, group) + Markup('<div class="trio">{}</div>').format(bars))
        else:
            parts += [_block(block, plots, section.title) for block in blocks]
    outer = '<h2 id="{}">{}</h2>{}{}'
    if section.title == "Every figure":
        outer = '<details id="{}"><summary>{}</summary>{}{}</details>'
    return Markup(outer).format(number, section.title, note_below(section.note), Markup().join(parts))


def _block(block: Block, plots: dict[str, Any], above: str) -> Markup:
    if isinstance(block, Chart):
        return _chart(block, plots, above)
    return _table(block) if isinstance(block, TableBlock) else _bars(block)


def _banner(runs: Sequence[Run]) -> Markup:
    loss = [f"{run.title}, {run.suite}: {n} {kind}" for run in runs for kind, n in run.lost.items()]
    loss += [
        f"{run.title}, {test.name} ({test.condition}): {n} {kind}"
        for run in runs
        for test in run.tests
        for kind, n in test.lost.items()
    ]
    out = Markup()
    banner = Markup('<div class="banner {}">{}</div>')
    mixed = mixtures(runs)
    if mixed:
        out += banner.format("mixed", Markup("<b>These runs are not simply comparable.</b>") + bullets(mixed))
    if loss:
        head = Markup("<b>Data were lost</b> under these figures; counts and rates are lower bounds.")
        out += banner.format("loss", head + bullets(loss))
    else:
        out += Markup("<div class=banner>Nothing was lost between the connector and this page.</div>")
    short = [f"{run.title}, {run.suite}: interrupted; {n} of {run.planned} tests are missing" for run in runs if (n := run.missing)]
    if short:
        out += banner.format("mixed", bullets(short))
    warnings = _merged([(run.title, note) for run in runs for note in _notes(run)])
    warnings += _merged([(run.title, text) for run in runs for text, routine in _test_notes(run) if not routine])
    if warnings:
        out += banner.format("warn", bullets(warnings))
    routine = _merged([(run.title, text) for run in runs for text, routine in _test_notes(run) if routine])
    if routine:
        out += Markup("<details class=notes><summary>How the tests went</summary>{}</details>").format(bullets(routine))
    return out


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


def _stamps(runs: Sequence[Run]) -> Markup:
    chips = []
    chip = Markup("<span class='stamp {}'>{}</span>")
    scaled = sorted({run.scale for run in runs if run.scaled})
    if scaled:
        text = "SCALED " + ", ".join(f"×{s:g}" for s in scaled)
        chips.append(chip.format("bad", f"{text}: time and span shortened, figures not those of the whole suite"))
    models = list(dict.fromkeys(run.profile or run.title for run in runs if run.virtual))
    if models:
        chips.append(chip.format("model", f"MODEL on the virtual rig: {', '.join(models)}"))
    if any(run.lost or any(t.lost for t in run.tests) for run in runs):
        chips.append(chip.format("bad", "DATA LOST"))
    return Markup("<p class=stamps>{}</p>").format(Markup().join(chips)) if chips else Markup()


def page(
    title: str,
    sub: str,
    runs: Sequence[Run],
    found: Sequence[Entity],
    sections: Sequence[Section],
    more: Mapping[str, Any] | None = None,
) -> str:
    """The complete HTML text."""
    plots: dict[str, Any] = dict(more or {})
    body = Markup().join(_section(i, section, plots) for i, section in enumerate(sections))
    link = Markup('<a href="#{}">{}</a>')
    contents = Markup().join(link.format(i, s.title) for i, s in enumerate(sections) if s.blocks)
    drives = {e.colour + e.label.removesuffix(", full"): e for e in found}
    one = Markup('<span><i style="--c:{}"></i>{}</span>')
    legend = Markup().join(one.format(e.colour, e.label.removesuffix(", full")) for e in drives.values())
    if any(e.full for e in found):
        legend += Markup('<span><i class=hatched style="--c:#66707c"></i>hatched, dashed: the whole drive was filled before</span>')
    text = Markup("<h1>{}</h1><p class=sub>{}</p>{}<div class=drives>{}</div><nav>{}</nav>{}{}").format(
        title, sub, _stamps(runs), legend, contents, _banner(runs), body
    )
    return document(title, ("page.css", "suite.css"), text, "P", plots, "suite.js")
