"""Writes the report of a capture: the HTML file, and PNG and SVG of each plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattbell.analysis.context import load
from wattbell.capture import Capture
from wattbell.errors import CaptureError
from wattbell.present.capture.charts import ReportData, collect
from wattbell.present.embed import plain
from wattbell.present.static import write_plots
from wattbell.report.capture import page


def write_report(capture: Capture, result: Mapping[str, Any], out: str | Path, plots: bool = True) -> Path:
    """Write the report of ``capture``, analyzed into ``result``; returns the path of the HTML file.

    ``out`` ending in ``.html`` is that file, with the plots in ``<stem>-plots/`` beside it; otherwise it is a folder
    that gets ``report.html`` and ``plots/``. Raises CaptureError when nothing can be written there.
    """
    target = Path(out)
    single = target.suffix.lower() in (".html", ".htm")
    html = target if single else target / "report.html"
    folder = target.with_name(f"{target.stem}-plots") if single else target / "plots"
    data: ReportData = plain(collect(load(capture), result))
    try:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(page(data, result), encoding="utf-8")
        if plots:
            write_plots(data, folder)
    except OSError as error:
        text = f"The report cannot be written to {target} ({error.strerror or error}); choose another place."
        raise CaptureError(text) from None
    return html
