"""The picture of power against rate in README.md: `make picture` writes docs/img/power-rate.png.

One panel of the chart "Performance against power" of a suite's page, with its axes exchanged, of some models of the reference set. The tool
fails, and writes nothing, where a text has no room or meets another text, a point or an edge.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from wattbell.present.chart import Axis, Chart, ChartSection, Curve, Panel
from wattbell.present.colours import PALETTE
from wattbell.present.pictures import STYLE, figures
from wattbell.present.suite.presentation import SuitePresentation
from wattbell.results.reference import reference_set

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "img" / "power-rate.png"
TEST = "Random write"
SHOWN = ("intel-660p-1tb", "intel-600p", "wd-sn550", "sm2262en-ref-2tb", "samsung-960", "toshiba-rc100", "wd-sn750", "samsung-970-evo-plus")
"""Profiles, as many as there are colours: one name for each curve can be read."""
STAMP = f"computed by {len(SHOWN)} drive MODELS on the virtual rig; not measured on any drive"
INCHES = (8.3, 4.4)
DPI = 200


def chart() -> Chart:
    """Power against rate, a curve for each drive, named at its fastest point; the first drive has its queue depths."""
    runs = {run.profile: run for run in reference_set()}
    own = [runs[name] for name in SHOWN]
    charts = [block for section in SuitePresentation(own).sections() for block in section.blocks if isinstance(block, Chart)]
    whole = next(chart for chart in charts if chart.key == "performance-against-power")
    panel = next(p for p in whole.panels if p.title == TEST)
    lines = []
    for line, colour in zip(panel.lines, PALETTE, strict=True):
        name, fastest = line.label.removesuffix(" (model)"), max(line.y)
        depths = line.texts if line is panel.lines[0] and line.texts else [""] * len(line.y)
        texts = [", ".join(filter(None, (name if y == fastest else "", depth))) for y, depth in zip(line.y, depths, strict=True)]
        lines.append(Curve(texts[line.y.index(fastest)], colour, line.y, line.x, texts=texts, beside="right"))
    ends = max(max(line.x) for line in lines), max(max(line.y) for line in lines)
    x, y = Axis("rate, MB/s", span=(0, 1.28 * ends[0]), grid=True), Axis("mean power, W", span=(0, 1.08 * ends[1]))
    return Chart(
        "power-rate",
        "Power against rate: 4 KiB random writes at queue depths 1, 2 and 4",
        [Panel(x, y, lines)],
        1,
        height_px=400,
        inches=INCHES,
    )


def digest() -> str:
    """Hash of all that is drawn; the picture has it in its metadata, so that a picture of old data is found."""
    drawn = [asdict(chart()), STAMP, INCHES, DPI]
    return sha256(json.dumps(drawn, sort_keys=True, default=str).encode()).hexdigest()


def boxes(figure: Figure) -> Iterator[tuple[str, Bbox]]:
    """Every text and every marker of a figure, with its extent in pixels as drawn."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        texts = [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
        for ticks, (low, high), at in ((axes.get_xticklabels(), axes.get_xlim(), 0), (axes.get_yticklabels(), axes.get_ylim(), 1)):
            texts += [tick for tick in ticks if low <= tick.get_position()[at] <= high]  # those beyond the ends are not drawn
        yield from ((text.get_text(), text.get_window_extent()) for text in texts if text.get_text() and text.get_visible())
        for line in axes.get_lines():
            if line.get_marker() not in ("", "None", None):
                half = line.get_markersize() / 2 * figure.dpi / 72
                for x, y in line.get_transform().transform(line.get_xydata()):
                    yield "a point", Bbox([[x - half, y - half], [x + half, y + half]])
    title = figure._suptitle  # type: ignore[attr-defined] # matplotlib has no other way to it
    if title is not None:
        yield title.get_text(), title.get_window_extent()


def faults(figure: Figure) -> list[str]:
    """Texts that meet another text, a point or the figure's edge, and names left out; empty if all can be read."""
    found = list(boxes(figure))
    whole = figure.bbox
    inside = [whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1 for _, box in found]
    out = [f"{name!r} leaves the picture" for (name, _), within in zip(found, inside, strict=True) if not within]
    out += [f"{name!r}" for name, _ in found if name.startswith("no room for")]
    for i, (name, box) in enumerate(found):
        for other, its in found[:i]:
            if (name, other) != ("a point", "a point") and box.x0 < its.x1 and its.x0 < box.x1 and box.y0 < its.y1 and its.y0 < box.y1:
                out.append(f"{other!r} and {name!r} overlap")
    return out


def main() -> None:
    """Draw, look for overlaps, write."""
    with rc_context(STYLE):
        [(_, figure)] = figures([ChartSection("", blocks=[chart()])], STAMP)
        figure.set_dpi(DPI)
        if wrong := faults(figure):
            sys.exit("power_picture: error: " + "; ".join(wrong))
        figure.savefig(OUT, dpi=DPI, facecolor="white", metadata={"Software": None, "Comment": digest()})
    print(f"{OUT.relative_to(ROOT)}: {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
