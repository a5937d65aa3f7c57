"""Texts at points of a chart, on a page as a browser draws it and in the picture: in one place, none on another or on a point."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib import rc_context
from playwright.sync_api import Browser, Page
from wattbell.present import interactive
from wattbell.present.chart import Axis, Chart, ChartSection, Curve, Panel
from wattbell.present.html import page as html_page
from wattbell.present.pages.suite import write_suite_page
from wattbell.present.pictures import STYLE, figures
from wattbell.present.suite.presentation import SuitePresentation
from wattbell.results.reference import reference_set, references

pytestmark = pytest.mark.needs("chromium")

WATCH = """
window.seen = [];
const of = CanvasRenderingContext2D.prototype, { fillText, arc, clearRect } = of;
of.clearRect = function (...box) { window.seen = window.seen.filter((s) => s.on !== this.canvas); return clearRect.apply(this, box); };
of.fillText = function (t, x, y, most) {
  const m = this.measureText(t), r = devicePixelRatio, squeeze = Math.min(1, (most ?? Infinity) / m.width);
  const [left, right] = [x - squeeze * m.actualBoundingBoxLeft, x + squeeze * m.actualBoundingBoxRight];
  const [top, bottom] = [y - m.actualBoundingBoxAscent, y + m.actualBoundingBoxDescent];
  window.seen.push({ on: this.canvas, t, left: left / r, right: right / r, top: top / r, bottom: bottom / r });
  return most === undefined ? fillText.call(this, t, x, y) : fillText.call(this, t, x, y, most);
};
of.arc = function (x, y, radius, ...rest) {
  const r = devicePixelRatio, [left, right, top, bottom] = [x - radius, x + radius, y - radius, y + radius].map((v) => v / r);
  window.seen.push({ on: this.canvas, left, right, top, bottom });
  return arc.call(this, x, y, radius, ...rest);
};
"""
DRAWN = """async (zoom) => {
  const panels = Object.entries(drawn).filter(([, p]) => p.of.labels.length);
  for (const [, p] of panels) {
    const [a, b] = p.of.x.span, [c, d] = p.of.y.span;
    if (zoom) [p.x, p.y] = [[a + 0.1 * (b - a), a + 0.4 * (b - a)], [c + 0.35 * (d - c), c + 0.75 * (d - c)]];
    else p.reset();
    p.redraw();
  }
  await new Promise((done) => setTimeout(done, 0));
  return Object.fromEntries(panels.map(([id, p]) => {
    const mine = window.seen.filter((s) => s.on === p.plot.ctx.canvas), names = p.of.lines.flatMap((l) => l.texts || []);
    const box = p.plot.bbox, r = devicePixelRatio;
    return [id, {
      texts: mine.filter((s) => names.includes(s.t)), arcs: mine.filter((s) => !("t" in s)), words: mine.map((s) => s.t),
      axes: { left: box.left / r, right: (box.left + box.width) / r, top: box.top / r, bottom: (box.top + box.height) / r },
    }];
  }));
}"""
VIEWS = [(1280, 1, False), (830, 1, False), (1280, 2, True), (420, 1, False)]
Box = dict[str, Any]


def opened(browser: Browser, html: Path, width: int, ratio: int) -> Page:
    shown = browser.new_page(viewport={"width": width, "height": 900}, device_scale_factor=ratio)
    shown.add_init_script(WATCH)
    shown.goto(html.as_uri())
    shown.wait_for_function("waiting.length === 0 && Object.keys(drawn).length > 0")
    return shown


def meet(one: Box, other: Box) -> bool:
    return bool(
        min(one["right"], other["right"]) > max(one["left"], other["left"])
        and min(one["bottom"], other["bottom"]) > max(one["top"], other["top"])
    )


def check(panel: dict[str, Any]) -> None:
    axes = panel["axes"]
    inside = [arc for arc in panel["arcs"] if meet(arc, axes)]
    for one, other in combinations(panel["texts"], 2):
        assert not meet(one, other), (one["t"], other["t"])
    for text in panel["texts"]:
        assert not [arc for arc in inside if meet(text, arc)], text
        assert axes["left"] - 1 <= text["left"] and text["right"] <= axes["right"] + 1, text
        assert axes["top"] - 1 <= text["top"] and text["bottom"] <= axes["bottom"] + 1, text


def crowd(many: int, close: float, log: bool) -> Chart:
    """A chart of ``many`` drives, each with a long name and a short one; ``close``: how far apart they are."""
    wave = [math.sin(7.0 * k) for k in range(2 * many)]
    lines = []
    for k in range(many):
        name, watt, rate = f"A drive with the name {k} (model)", 2.0 + close * wave[k], 700.0 + 250.0 * close * wave[k + many]
        lines.append(Curve(name, "#0072b2", [watt, watt + 1.0], [0.6 * rate, rate], texts=[f"QD{k}", name]))
    return Chart(f"crowd-{many}", "Crowded", [Panel(Axis("W", span=(0.0, 6.0)), Axis("MB/s", log=log), lines)])


def crowded_page(charts: list[Chart], path: Path) -> Path:
    made = [ChartSection("Crowded", blocks=[*charts])]
    data = {"P": interactive.plots(made), "B": {}, "C": "", "O": ""}
    path.write_text(
        html_page(
            "wattbell.present.pages",
            "suite.html",
            ("page.css", "bars.css", "suite.css"),
            ("plots.js",),
            data,
            title="t",
            sub="",
            stamps=[],
            drives={},
            full=False,
            sections=made,
            mixed=[],
            lost=[],
            short=[],
            warnings=[],
            routine=[],
        ),
        encoding="utf-8",
    )
    return path


CROWDS = [crowd(8, 1.0, False), crowd(40, 0.9, True), crowd(100, 0.2, False)]


@pytest.mark.parametrize("width, ratio, zoom", VIEWS)
def test_no_text_of_a_crowd_lies_on_another(browser: Browser, tmp_path: Path, width: int, ratio: int, zoom: bool) -> None:
    shown = opened(browser, crowded_page(CROWDS, tmp_path / "page.html"), width, ratio)
    for panel in shown.evaluate(DRAWN, zoom).values():
        check(panel)
        assert len(panel["texts"]) >= (1 if zoom else 8)
    shown.close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a drive of the reference set, before all others."""
    run = next(run for run in reference_set() if run.profile == "intel-660p-1tb")
    [html] = write_suite_page([run], tmp_path_factory.mktemp("reference") / "page.html", plots=False)
    return html


@pytest.mark.parametrize("width, ratio, zoom", VIEWS)
def test_no_text_of_the_reference_set_lies_on_another(browser: Browser, reference: Path, width: int, ratio: int, zoom: bool) -> None:
    shown = opened(browser, reference, width, ratio)
    panels = shown.evaluate(DRAWN, zoom)
    assert len(panels) == 5
    for panel in panels.values():
        check(panel)
        assert len(panel["texts"]) >= (0 if zoom else 8) and len(panel["arcs"]) >= 3 * 15
        if not zoom:
            assert any(str(words).startswith("no room for ") for words in panel["words"])
    assert sum(len(panel["texts"]) for panel in panels.values()) >= 10
    shown.close()


def test_page_and_picture_have_every_text_in_one_place(browser: Browser, reference: Path) -> None:
    run = next(run for run in reference_set() if run.profile == "intel-660p-1tb")
    made = SuitePresentation([run], references([run])).sections()
    shown = opened(browser, reference, 1280, 1)
    panels = shown.evaluate(DRAWN, False)
    with rc_context(STYLE):
        figure = next(figure for key, figure in figures(made, "") if key == "performance-against-power")
    figure.draw_without_rendering()
    for i, axes in enumerate(axes for axes in figure.axes if axes.get_visible()):
        panel = panels[f"performance-against-power-{i}"]
        edge, on_page = axes.get_window_extent(), panel["axes"]
        wide, high = on_page["right"] - on_page["left"], on_page["bottom"] - on_page["top"]
        places = {}
        for text in axes.texts:
            box = text.get_window_extent()
            places[text.get_text()] = (box.x0 + box.width / 2 - edge.x0) / edge.width, (box.y0 + box.height / 2 - edge.y0) / edge.height
        assert {text["t"] for text in panel["texts"]} == {name for name in places if not name.startswith("no room for")}
        for text in panel["texts"]:
            x = ((text["left"] + text["right"]) / 2 - on_page["left"]) / wide
            y = (on_page["bottom"] - (text["top"] + text["bottom"]) / 2) / high
            assert (x, y) == pytest.approx(places[text["t"]], abs=0.02), text["t"]
    shown.close()
