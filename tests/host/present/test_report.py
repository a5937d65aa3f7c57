"""Reports are complete and self-contained, and their series match the capture."""

import csv
import json
import re
import subprocess
from html import unescape

import numpy as np
import pytest
from wattbell.analysis import figures_of
from wattbell.analysis.context import load
from wattbell.present.capture import series
from wattbell.present.capture.charts import charts
from wattbell.present.chart import Envelope
from wattbell.present.pages import write_report
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent

from tests.host.conftest import Builder

MS = 1_000_000


@pytest.fixture
def capture(builder):
    builder.power(0, 0.6)
    builder.phase(1, 10 * MS, 110 * MS, "reads <4k> & more")
    builder.power(20 * MS, 2.0)
    tick = 20 * MS
    for k in range(800):
        tick = builder.command(tick, 80_000 + 100 * (k % 7), opcode=2 if k % 4 else 1) + 20_000
    builder.power(tick, 0.6)
    return builder.write(300 * MS)


def test_report_is_one_file_that_needs_no_other(capture, tmp_path):
    html = write_report(capture, figures_of(capture), tmp_path / "out")
    text = html.read_text(encoding="utf-8")
    assert html == tmp_path / "out" / "report.html"
    assert html.stat().st_size < 1_500_000
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=", own), "nothing is loaded from elsewhere"
    assert "(MIT Licensed)" in text and "Leon Sorokin" in text, "uPlot comes with its licence"
    assert "reads &lt;4k&gt; &amp; more" in text, "names are escaped"
    names = {p.name for p in (tmp_path / "out" / "plots").iterdir()}
    for plot in ("power", "throughput", "queue-depth", "latency", "latency-distribution", "efficiency"):
        assert {f"{plot}.png", f"{plot}.svg"} <= names
    assert (tmp_path / "out" / "plots" / "power.png").read_bytes().startswith(b"\x89PNG")


def test_report_of_a_capture_without_rail(builder, tmp_path):
    for k in range(50):
        builder.command(MS + k * 100_000, 80_000)
    capture = builder.write(conditions={"timing": "qemu-log"})
    html = write_report(capture, figures_of(capture), tmp_path / "one.html")
    assert html == tmp_path / "one.html"
    assert "no power figures" in html.read_text(encoding="utf-8")
    names = {p.name for p in (tmp_path / "one-plots").iterdir()}
    assert "power.png" not in names
    assert "latency.png" in names


PROBE = """
const probe = document.createElement("pre"), seen = { ticks: {}, inked: {} };
for (const [low, high] of RANGES) seen.ticks[low + " " + high] = logTicks(low, high);
const row = (key) => timeline.rows.find((r) => r.of.key === key);
const inked = (canvas) => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, colours = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return [...colours].map((c) => "#" + c.toString(16).padStart(6, "0"));
};
setTimeout(() => {
  for (const [id, plot] of Object.entries(drawn)) seen.inked[id] = inked(plot.plot.ctx.canvas);
  for (const r of timeline.rows) seen.inked[r.of.key] = inked(r.plot.ctx.canvas);
  seen.axis = row("latency").plot.axes[1]._values;
  seen.picture = picture("title", row("power").canvases(), []).height;
  const stack = new BarChart(B["energy-stack"]);
  seen.stack = inked(stack.canvases()[0][1]); seen.stackLegend = stack.legend(); seen.stackCsv = csvText(stack.csv());
  seen.stackPicture = inked(picture("title", stack.canvases(), stack.legend()));
  seen.csv = csvText(row("throughput").csv()); seen.panel = csvText(drawn["efficiency-0"].csv()); seen.conditions = C;
  document.querySelectorAll("#phases button")[2].click();
  seen.words = timeline.rows.map((r) => r.words());
  timeline.go(0.05, 0.05001); seen.closest = document.getElementById("span").textContent;
  document.querySelectorAll("#phases button")[0].click();
  seen.back = timeline.rows.map((r) => r.words()).join(""); seen.span = timeline.span;
  probe.id = "probe"; probe.textContent = JSON.stringify(seen); document.body.append(probe);
}, 500);
"""
RANGES = [(49e-6, 54e-6), (80e-6, 80.6e-6), (18e-6, 24e-6), (19e-6, 0.055), (90e-6, 310e-6), (1e-7, 10.0), (0.9, 1.1)]


@pytest.fixture(scope="module")
def browsed(tmp_path_factory):
    """State of the page of a small capture in a browser."""
    folder = tmp_path_factory.mktemp("browsed")
    builder = Builder(folder / "capture")
    builder.power(0, 0.6)
    builder.phase(1, 10 * MS, 110 * MS, "reads")
    builder.phase(2, 120 * MS, 180 * MS, "nothing", kind="idle")
    builder.power(20 * MS, 2.0)
    tick = 20 * MS
    for k in range(800):
        tick = builder.command(tick, 80_000 + 100 * (k % 7), opcode=2 if k % 4 else 1) + 20_000
    builder.power(tick, 0.6)
    capture = builder.write(300 * MS)
    html = write_report(capture, figures_of(capture), folder / "out", plots=False)
    with html.open("a", encoding="utf-8") as file:
        file.write(f"<script>{PROBE.replace('RANGES', json.dumps(RANGES))}</script>")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=8000", "--dump-dom", html.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(unescape(re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)[1])), done.stdout


in_a_browser = pytest.mark.needs("chromium")


@in_a_browser
def test_script_draws_every_plot_in_a_browser(browsed):
    seen, _ = browsed
    colours = {
        "power": "#c2571a",
        "voltage": "#8a4fa3",
        "current": "#a07500",
        "throughput": "#d55e00",
        "iops": "#00798c",
        "queue-depth": "#3c7d3c",
    }
    colours |= {
        "latency": "#4a5d73",
        "latency-distribution-0": "#0072b2",
        "efficiency-0": "#0072b2",
        "detail-highest-100-us-mean-0": "#c2571a",
    }
    for plot, colour in colours.items():
        assert colour in seen["inked"][plot], f"{plot} was not drawn"
    for (low, high), ticks in zip(RANGES, seen["ticks"].values(), strict=True):
        assert 3 <= len(ticks) <= 9, (low, high, ticks)
        assert all(low * 0.998 <= tick <= high * 1.002 for tick in ticks)
    assert len(set(seen["axis"])) == len(seen["axis"]) >= 3, "the latencies lie within a part of a decade"
    assert "latency: nothing in this stretch" in seen["words"], "phase 2 has no command"
    assert not seen["back"]


@in_a_browser
def test_zooming_ends_with_a_word_where_the_data_end(browsed):
    seen, _ = browsed
    assert re.search(
        r"No closer: this page holds a point every 10 µs \(power\), 40 µs \(voltage\), 1 ms \(MB/s\)\. .*wattbell view .*capture",
        seen["closest"],
    )
    assert seen["span"][0] == 0


@in_a_browser
def test_a_chart_can_be_copied_with_its_data_and_conditions(browsed):
    seen, dom = browsed
    assert dom.count('class="copy"') == 13 and seen["picture"] > 150
    moved = [line.split(",") for line in seen["csv"].splitlines()[1:]]
    assert sum(float(mean) for name, _, mean, *_ in moved if name == "throughput read") * 1e-3 == pytest.approx(600 * 4096e-6, rel=1e-4)
    assert seen["panel"].startswith('curve,"mean power, W",MB/s,') and "reads" in seen["panel"]
    assert "nothing lost" in seen["conditions"] and "uncertainty: k = 2" in seen["conditions"]


@in_a_browser
def test_a_copied_stack_has_its_parts_in_picture_and_data(browsed):
    seen, _ = browsed
    legend = {name: colour for name, colour, _ in seen["stackLegend"]}
    assert legend["idle"] == "#98a2ae" and legend["mixed, other"] == "#66707c"
    (row,) = csv.DictReader(seen["stackCsv"].splitlines())
    parts = {name: float(row[f"{name}, J"]) for name in legend}
    assert {"idle", "mixed, other"} <= parts.keys()
    assert sum(parts.values()) == pytest.approx(float(row["value, J"]), rel=1e-3)
    # a part of less than a pixel has no colour of its own
    wide = {legend[name] for name, joules in parts.items() if joules > 0.02 * float(row["value, J"])}
    assert len(wide) >= 2 and wide <= set(seen["stack"]) and wide <= set(seen["stackPicture"])


def test_every_chart_says_what_it_shows(capture, tmp_path):
    text = write_report(capture, figures_of(capture), tmp_path / "out", plots=False).read_text(encoding="utf-8")
    told = [unescape(found) for found in re.findall(r'role=img aria-label="([^"]*)"', text)]
    assert len(told) == 11
    assert told[0].startswith("power, W against time, 0 s to 0.3000 s. mean: least 0.600 W")
    assert "greatest 2.00 W" in told[0]
    bars = [unescape(found) for found in re.findall(r'role=group aria-label="([^"]*)"', text)]
    stack = next(one for one in bars if one.startswith("Where the energy of each phase went"))
    assert re.search(r" reads <4k> & more: \S+ mJ \(idle \d+ %, mixed, other \d+ %", stack), stack
    assert any(line.startswith("Performance against power. MB/s against mean power, W. reads <4k> & more: ") for line in told)


def test_loss_is_seen_at_the_top_at_its_time_and_at_its_figures(builder, tmp_path):
    builder.power(0, 0.6)
    for phase, start in ((1, 10 * MS), (2, 60 * MS)):
        builder.phase(phase, start, start + 40 * MS, f"reads {phase}")
        for k in range(300):
            builder.command(start + 100_000 * k + 50_000, 80_000)
    builder.gaps.append(Gap(BlockContent.COMMANDS, 70 * MS, 71 * MS, 46, "CRC"))
    builder.gaps.append(Gap(BlockContent.RAIL, 70 * MS + MS // 2, 72 * MS, 100, "CRC"))
    capture = builder.write(150 * MS)
    result = figures_of(capture)
    text = write_report(capture, result, tmp_path / "out", plots=False).read_text(encoding="utf-8")
    banner = re.search(r'<div class="banner ([a-z]*)">(.*?)</div>', text, re.DOTALL)
    assert banner[1] == "loss"
    assert "<b>Data were lost:</b> 46 commands, 100 rail samples." in banner[2]
    assert "Nothing was lost" not in text
    first, second = (re.search(rf"<td class=l><span[^>]*></span>reads {n}</td>(.*?)</tr>", text)[1] for n in (1, 2))
    assert "!</span>" in second and "!</span>" not in first
    (gap,) = charts(load(capture), result).timeline.gaps_s
    zero = load(capture).first_tick
    assert gap == pytest.approx(((70 * MS - zero) * 1e-9, (72 * MS - zero) * 1e-9))
    assert f'"gaps":[[{gap[0]!r},{gap[1]!r}]]' in text


def test_envelope_keeps_extremes_when_coarser():
    rng = np.random.default_rng(1)
    mean = rng.normal(size=1000).astype(np.float32)
    mean[300:310] = np.nan
    fine = Envelope(0.0, 1.0, mean - 1, mean, mean + 1)
    coarse = fine.coarser(70)
    assert len(coarse) <= 70
    assert np.nanmax(coarse.high) == np.nanmax(fine.high)
    assert np.nanmin(coarse.low) == np.nanmin(fine.low)
    k = round(coarse.dt_s)
    assert coarse.mean[0] == pytest.approx(mean[:k].mean(), rel=1e-5)


def test_series_conserve_bytes_and_time(capture):
    context = load(capture)
    bins = series.load_bins(context.first_tick, context.last_tick, context.tick_s)
    rates = series.throughput(series.completed(context.commands), bins)
    total = (rates["read"].sum() + rates["write"].sum()) * bins.dt_s
    assert total == pytest.approx(800 * 4096 / 1e6, rel=1e-5)
    assert rates["iops"].sum() * bins.dt_s == pytest.approx(800, rel=1e-5)
    depth = series.queue_depth(context.steps, bins)
    busy = sum(80_000 + 100 * (k % 7) for k in range(800)) * 1e-9
    assert float(depth.mean.astype(float).sum()) * bins.dt_s == pytest.approx(busy, rel=1e-4)
    assert depth.high.max() == 1
    latency = series.latency(series.completed(context.commands), bins, context.tick_s)
    assert np.nanmin(latency.low) == pytest.approx(80e-6, rel=1e-5)
    assert np.nanmax(latency.high) == pytest.approx(80.6e-6, rel=1e-5)
    reader = context.rail.reader
    power = series.rail(reader, context.first_tick, context.tick_s, 0, len(reader), 500)["power"]
    assert np.nanmax(power.high) == pytest.approx(2.0, rel=1e-5)
    assert len(power) <= 500


def test_cdf_keeps_the_tail():
    ticks = np.append(np.full(9999, 100), 5000)
    x, share = series.cdf(ticks, 1e-9)
    assert x[-1] == pytest.approx(5e-6)
    assert 0.9999 <= share[-1] < 1
    assert (np.diff(share) > 0).all()
