"""Names at points of a chart on a page, as a browser draws them: none lies on another or on a point."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path

import pytest
from wattbell.report.suite import write_suite_page
from wattbell.results.reference import reference_set

WATCH = """<script>
const texts = [], arcs = [], of = CanvasRenderingContext2D.prototype, { fillText, arc } = of;
of.fillText = function (t, x, y, ...rest) {
  if (this.textAlign === "left") texts.push({ on: this.canvas, t, left: x, w: this.measureText(t).width, y });
  return fillText.call(this, t, x, y, ...rest);
};
of.arc = function (x, y, r, ...rest) { arcs.push({ on: this.canvas, x, y, r }); return arc.call(this, x, y, r, ...rest); };
</script>"""
PROBE = """<script>
const shown = () => Object.entries(drawn).filter(([id]) => id.startsWith("performance-against-power"));
setTimeout(() => { texts.length = arcs.length = 0; for (const [, panel] of shown()) panel.plot.redraw(); }, 500);
setTimeout(() => {
  const seen = shown().map(([, panel]) => {
    const on = panel.plot.ctx.canvas, names = panel.of.lines.flatMap((l) => l.texts || []);
    return { texts: texts.filter((t) => t.on === on && names.includes(t.t)), arcs: arcs.filter((a) => a.on === on) };
  });
  const probe = document.createElement("pre");
  probe.id = "probe"; probe.textContent = JSON.stringify(seen, (key, value) => key === "on" ? undefined : value);
  document.body.append(probe);
}, 1500);
</script>"""


@pytest.mark.needs("chromium")
def test_no_name_lies_on_another_or_on_a_point(tmp_path: Path) -> None:
    run = next(run for run in reference_set() if run.profile == "intel-660p-1tb")
    [html] = write_suite_page([run], tmp_path / "page.html", plots=False)
    text = html.read_text(encoding="utf-8")
    html.write_text(text.replace("<body", WATCH + "<body", 1) + PROBE, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--window-size=1200,3000"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=8000", "--dump-dom", html.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found
    panels = json.loads(unescape(found[1]))
    assert len(panels) == 5
    for panel in panels:
        texts, arcs = panel["texts"], panel["arcs"]
        assert len(arcs) >= 3 * 15 and len(texts) >= 6, "points and names were drawn"
        for i, one in enumerate(texts):
            left, right, middle = one["left"], one["left"] + one["w"], one["y"]
            for other in texts[:i]:
                apart = right <= other["left"] or other["left"] + other["w"] <= left or abs(middle - other["y"]) >= 11
                assert apart, (one["t"], other["t"])
            for point in arcs:
                inside = left < point["x"] < right and abs(point["y"] - middle) < 6
                assert not inside, (one["t"], point)
