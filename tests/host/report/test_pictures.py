"""Pictures of charts tell what is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell.present.chart import Axis, Chart, Line, Mode, Panel, Section
from wattbell.present.pictures import write_pictures


@pytest.mark.parametrize("mode", ["lines", "markers", "lines+markers"])
@pytest.mark.parametrize("legend", [True, False])
def test_every_line_is_named_in_the_picture(tmp_path: Path, mode: Mode, legend: bool) -> None:
    lines = [Line(f"drive <{k}> $1$", "#0072b2", [1.0, 2.0], [float(k), 2.0], dashed=k > 4, mode=mode) for k in range(9)]
    chart = Chart("many", "Many", [Panel(Axis("x"), Axis("y"), lines, legend=legend)])
    png, svg = write_pictures([Section("s", blocks=[chart])], tmp_path, "SCALED")
    assert (png.name, svg.name) == ("many.png", "many.svg")
    text = svg.read_text(encoding="utf-8")
    assert all(f"drive &lt;{k}&gt; $1$" in text for k in range(9)) and "SCALED" in text
