"""Pictures of charts describe their drawing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from wattbell.present.chart import Axis, Chart, ChartSection, Curve, Mode, Panel
from wattbell.present.pictures import STYLE, figures, write_pictures


@pytest.mark.parametrize("mode", ["lines", "markers", "lines+markers"])
@pytest.mark.parametrize("legend", [True, False])
def test_every_line_is_named_in_the_picture(tmp_path: Path, mode: Mode, legend: bool) -> None:
    lines = [Curve(f"drive <{k}> $1$", "#0072b2", [1.0, 2.0], [float(k), 2.0], dashed=k > 4, mode=mode) for k in range(9)]
    chart = Chart("many", "Many", [Panel(Axis("x"), Axis("y"), lines, legend=legend)])
    png, svg = write_pictures([ChartSection("s", blocks=[chart])], tmp_path, "SCALED")
    assert (png.name, svg.name) == ("many.png", "many.svg")
    text = svg.read_text(encoding="utf-8")
    assert all(f"drive &lt;{k}&gt; $1$" in text for k in range(9)) and "SCALED" in text


def extents(figure: Figure) -> tuple[list[tuple[str, Bbox]], list[Bbox]]:
    """Each text at a point and each marker of the only panel, with its extent in pixels, by matplotlib."""
    figure.draw_without_rendering()
    [axes] = figure.axes
    texts = [(text.get_text(), text.get_window_extent()) for text in axes.texts if text.get_text()]
    markers = []
    for line in axes.get_lines():
        if line.get_marker() == "o":
            half = line.get_markersize() / 2 * figure.dpi / 72
            markers += [Bbox([[x - half, y - half], [x + half, y + half]]) for x, y in line.get_transform().transform(line.get_xydata())]
    return texts, markers


def overlap(a: Bbox, b: Bbox) -> bool:
    return min(a.x1, b.x1) > max(a.x0, b.x0) and min(a.y1, b.y1) > max(a.y0, b.y0)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("near", [1.0, 0.02])
def test_no_name_of_a_point_lies_on_another_on_a_point_or_outside(log: bool, near: float) -> None:
    """Like drives with curves that end close together; names without room are left out, and the picture says how many."""
    wave = [math.sin(7.0 * k) for k in range(30)]
    lines = [
        Curve(
            f"A drive with a name {k}",
            "#0072b2",
            [3.0, 4.0 + near * wave[k]],
            [500.0, 700.0 + 200 * near * wave[k + 15]],
            texts=["" if k % 3 else f"QD{k}", f"A drive with a name {k}"],
            beside=("", "top", "left", "right", "bottom")[k % 5],
        )
        for k in range(15)
    ]
    chart = Chart("c", "Crowded", [Panel(Axis("W", span=(0.0, 5.0)), Axis("MB/s", log=log), lines)], columns=1)
    with rc_context(STYLE):
        [(_, figure)] = figures([ChartSection("s", blocks=[chart])], "")
    texts, markers = extents(figure)
    edge = figure.axes[0].get_window_extent()
    named = [(text, box) for text, box in texts if not text.startswith("no room for")]
    for text, box in named:
        assert edge.x0 <= box.x0 and box.x1 <= edge.x1 and edge.y0 <= box.y0 and box.y1 <= edge.y1, text
        assert not [other for other, its in texts if other != text and overlap(box, its)], text
        assert not any(overlap(box, marker) for marker in markers), text
    left_out = 15 + 5 - len(named)
    said = [text for text, _ in texts if text.startswith("no room for")]
    assert said == ([f"no room for {left_out} name{'s' if left_out > 1 else ''}"] if left_out else [])
    assert len(named) >= 6 and {f"A drive with a name {k}" for k in range(13, 15)} <= {text for text, _ in named}
