"""Nothing of a page is cut: not on screens of 1280 and 830 pixels, and not on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from wattbell.analysis import figures_of
from wattbell.present.pages.capture import write_report
from wattbell.present.pages.suite import write_suite_page
from wattbell.results.reference import reference_set

from ..conftest import MS, Builder

pytestmark = pytest.mark.needs("chromium")

A4_PX = 703
"""Width of the print area of an A4 sheet with the margins of the page's style (186 mm at 96 pixels an inch)."""
OUTSIDE = """() => {
  const most = document.documentElement.clientWidth, out = [];
  const said = (e) => `${e.tagName}.${e.className} to ${e.getBoundingClientRect().right}: ${(e.textContent || "").slice(0, 40)}`;
  for (const e of document.querySelectorAll("main, main *")) {
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const scrolls = e.parentElement.closest(".wide"), style = getComputedStyle(e);
    const reached = scrolls && getComputedStyle(scrolls).overflowX === "auto";
    if (!reached && box.right > most + 1) out.push(said(e));
    if (["hidden", "clip"].includes(style.overflowX) && e.scrollWidth > e.clientWidth + 1) out.push(`clipped: ${said(e)}`);
    if (e.matches("table") && e.scrollWidth > e.clientWidth + 1) out.push(`wider than its table: ${said(e)}`);
  }
  if (document.documentElement.scrollWidth > most) out.push(`the page is ${document.documentElement.scrollWidth} wide`);
  return out;
}"""
CONTRAST = """() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => 0.2126 * linear(rgb[0] / 255) + 0.7152 * linear(rgb[1] / 255) + 0.0722 * linear(rgb[2] / 255);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if ((colour[3] ?? 1) > 0.9) return colour;
    }
    return [255, 255, 255];
  };
  const words = document.querySelectorAll("main :is(h1, h2, h3, h4, p, td, th, b, span, small, em, li, a, summary)");
  return [...words].filter((e) => e.getBoundingClientRect().width && e.textContent.trim()).map((e) => {
    const [one, other] = [light(parts(getComputedStyle(e).color)), light(ground(e))].sort((a, b) => b - a);
    return [(one + 0.05) / (other + 0.05), e.tagName, e.className, e.textContent.slice(0, 30)];
  });
}"""
CUT = (
    "() => [...document.querySelectorAll('.wide')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.slice(0, 60))"
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One drive before the reference set, 3 drives, 15 drives, a capture with 28 phases of long names."""
    folder = tmp_path_factory.mktemp("pages")
    runs = reference_set()
    made = {
        name: write_suite_page(some, folder / f"{name}.html", plots=False)[0]
        for name, some in (("one", runs[2:3]), ("three", runs[:3]), ("all", runs))
    }
    builder = Builder(folder / "capture")
    builder.power(0, 0.6)
    tick = 20 * MS
    for k in range(14):
        start = tick
        builder.power(tick, 1.0 + 0.15 * k)
        for i in range(60):
            tick = builder.command(tick, 80_000 + 2_000 * k + 100 * (i % 7), opcode=1 + (i % 4 > 0), blocks=8 * (1 + k % 4)) + 20_000
        builder.phase(2 * k + 1, start, tick, f"random write {4 * (1 + k % 4)}k, QD{k + 1}, after the whole drive was filled")
        builder.power(tick, 0.6)
        builder.phase(2 * k + 2, tick + MS, tick + 15 * MS, f"idle {k}", kind="idle")
        tick += 20 * MS
    capture = builder.write(tick + 30 * MS)
    return made | {"capture": write_report(capture, figures_of(capture), folder / "capture.html", plots=False)}


PAGES = ("one", "three", "all", "capture")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_lies_outside_the_window_or_the_sheet(browser: Browser, pages: dict[str, Path], name: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(pages[name].as_uri())
    page.wait_for_function("waiting.length === 0")
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    for width in (1280, 830):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("drawAll()")
        assert page.evaluate(OUTSIDE) == [], width
    page.set_viewport_size({"width": A4_PX, "height": 900})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(OUTSIDE) == [], "on paper"
    assert page.evaluate(CUT) == [], "paper cannot be scrolled"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.evaluate("[...document.querySelectorAll('table')].every((t) => !t.style.zoom)"), "the screen has its tables back"
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_are_seen_on_their_ground(browser: Browser, pages: dict[str, Path], scheme: Any) -> None:
    """WCAG 2's contrast of 3 and more, with the formula and the colours as the browser computes them."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page.goto(pages["three"].as_uri())
    seen = page.evaluate(CONTRAST)
    assert len(seen) > 500
    faint = [words for words in seen if words[0] < 3]
    assert faint == []
    page.close()
