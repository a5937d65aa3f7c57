"""The report as one HTML file that needs nothing else: style, script, plotly.js and data are inside."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from wattbell.analysis import link
from wattbell.analysis.loss import lost_parts
from wattbell.analysis.text import NOTHING, concise, count, duration, si
from wattbell.present import html as tables
from wattbell.present.capture.charts import ReportData
from wattbell.present.capture.series import Envelope
from wattbell.present.capture.tables import phases_or_whole
from wattbell.present.colours import READ, WRITE, Look
from wattbell.present.embed import bullets, document, label, note_below
from wattbell.present.static import DEPTH, LATENCY, POWER


def _envelope(e: Envelope) -> dict[str, Any]:
    def text(values: Any) -> str:
        return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()

    return {"t0": e.t0_s, "dt": e.dt_s, "low": text(e.low), "mean": text(e.mean), "high": text(e.high)}


def _plot_data(data: ReportData) -> dict[str, Any]:
    """What page.js draws: envelopes as base64 of little-endian f32, rows of the time line, curves, points, details."""
    envelopes: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    if data.power is not None:
        envelopes["power"] = _envelope(data.power)
        series = {"key": "power", "name": "mean", "unit": "W", "colour": POWER, "band": True, "legend": False}
        rows.append({"title": "power, W", "weight": 1.5, "series": [series]})
    rates = []
    for name, colour in (("read", READ), ("write", WRITE)):
        values = data.throughput[name]
        if values.any():
            envelopes[name] = _envelope(Envelope(0.0, data.load_dt_s, values, values, values))
            rates.append(
                {"key": name, "name": name, "unit": "MB/s", "colour": colour, "band": False, "legend": True}
            )
    if rates:
        rows.append({"title": "MB/s", "weight": 1.0, "series": rates})
    if data.depth.high.any():
        envelopes["depth"] = _envelope(data.depth)
        series = {"key": "depth", "name": "mean", "unit": "in flight", "colour": DEPTH, "band": True, "legend": False}
        rows.append({"title": "queue depth", "weight": 0.8, "series": [series]})
    if not np.isnan(data.latency.mean).all():
        envelopes["latency"] = _envelope(data.latency)
        line = {"key": "latency", "name": "median", "unit": "s", "colour": LATENCY, "band": True, "legend": False}
        shape = {"log": True, "tickformat": "~s", "suffix": "s"}
        rows.append({"title": "latency", "weight": 1.0, "series": [{**line, "points": True}], **shape})
    for i, row in enumerate(rows):
        row["axis"] = "y" if i == 0 else f"y{i + 1}"
    return {
        "duration": data.duration_s,
        "envelopes": envelopes,
        "rows": rows,
        "phases": [{"number": p.number, "first": p.first_s, "last": p.last_s} for p in data.phases],
        "gaps": data.gaps_s,
        "latencyFrom": label(data.latency_from),
        "curves": [
            {"name": label(c.name), **_look(c.look), "latency": _rounded(c.latency_s), "share": [float(s) for s in c.share]}
            for c in data.curves
        ],
        "points": [
            {"name": label(p.name), **_look(p.look), "watt": p.watt, "rate": p.mb_per_s} for p in data.points
        ],
        "details": [
            {"t": _rounded(d.t_s), "power": _rounded(d.power_w), "marks": {label(text): at for text, at in d.marks.items()}}
            for d in data.details
        ],
    }


def _look(look: Look) -> dict[str, Any]:
    return {"colour": look.colour, "dashed": look.dashed}


def _rounded(values: Any) -> list[float | None]:
    return [None if np.isnan(v) else float(f"{v:.6g}") for v in values]


def _facts(result: Mapping[str, Any]) -> Markup:
    power, every = result["power"], result["commands"]["all"]
    facts = [(duration(result["capture"]["duration_s"], 4), "recorded"), (count(every["count"]), "I/O commands")]
    if "mean_w" in power:
        facts += [(concise(power["energy_j"]) + " J", "energy"), (concise(power["mean_w"]) + " W", "mean power")]
        for key, text in (("100us", "100 µs"), ("100ms", "100 ms")):
            value = power["max_moving_w"][key]["value"]
            if value is not None:
                facts.append((si(value, "W"), f"highest {text} mean"))
    lowest = result["idle"]["levels"][-1:] if result["idle"]["levels"] else []
    facts += [(si(level["mean_w"]["value"], "W"), f"lowest idle ({level['label']})") for level in lowest]
    cells = Markup().join(Markup("<div><b>{}</b><span>{}</span></div>").format(value, text) for value, text in facts)
    return Markup("<div class=facts>{}</div>").format(cells)


def _banner(result: Mapping[str, Any]) -> Markup:
    loss = result["loss"]
    lost = lost_parts(loss)
    if lost:
        head = Markup("<b>Data were lost:</b> {}.").format(", ".join(lost))
    else:
        head = Markup("Nothing was lost between the connector and this page.")
    items = bullets(result["warnings"]) if result["warnings"] else ""
    style = "loss" if lost else ("warn" if items else "")
    return Markup('<div class="banner {}">{}{}</div>').format(style, head, items)


def _conditions(result: Mapping[str, Any]) -> Markup:
    about, model = result["capture"], result["uncertainty"]
    conditions, rig, rail = about["conditions"], about["rig"], about["rail"]
    drive = about.get("drive") or {}
    rows: list[tuple[str, str]] = [
        ("drive", " ".join(str(drive[k]) for k in ("model", "serial", "firmware") if drive.get(k)) or NOTHING),
        ("rig", ("virtual" if conditions.get("virtual") else "hardware") + _rig(rig)),
        ("source", ", ".join(f"{k}: {conditions[k]}" for k in ("profile", "timing", "source") if conditions.get(k))),
    ]
    if "absent" in rail:
        rows.append(("power", f"absent: {rail['absent']}"))
    else:
        text = f"sample every {duration(rail['interval_s'])}, conversion every {duration(rail['conversion_period_s'])}"
        source = "96-bit accumulator" if rail["accumulator"] else "samples"
        rows.append(("rail", f"{text}, {count(rail['samples'])} samples; energy from {source}"))
    rows += [(f"link, {side['direction']}", link.describe(side)) for side in result["link"]]
    clocks = f", {model['instant_s'] * 1e9:g} ns from clock to clock" if model["instant_s"] else ""
    rows += [
        (
            "uncertainty",
            f"k = {model['k']}; power {model['gain'] * 100:g} % of reading + {model['offset_a'] * 1e6:g} µA; "
            f"time {model['tick_resolution_s'] * 1e9:g} ns{clocks} and {model['timebase'] * 1e6:g} ppm ({model['source']})",
        ),
        ("clock", f"{about['tick_s'] * 1e9:g} ns a tick" + _utc(about)),
        ("capture", str(about["path"])),
        ("software", ", ".join(f"{k} {v}" for k, v in about["software"].items())),
    ]
    entries = Markup().join(Markup("<dt>{}</dt><dd>{}</dd>").format(k, v) for k, v in rows if v)
    return Markup("<dl>{}</dl>").format(entries)


def _rig(rig: Mapping[str, Any]) -> str:
    parts = [f"{k} {rig[k]}" for k in ("serial", "gateware") if rig.get(k)]
    if rig.get("tlp_width") and rig.get("clock_ticks"):
        parts.append(f"{rig['tlp_width']}-bit TLP path, {rig['clock_ticks']} ns a clock")
    return f" ({', '.join(parts)})" if parts else ""


def _utc(about: Mapping[str, Any]) -> str:
    anchor = about.get("utc_anchor")
    return f"; tick {anchor['tick']} is {anchor['utc']}" if anchor else ""


def _section(title: str, body: Markup, note: str = "") -> Markup:
    if not body:
        return Markup()
    return Markup("<h2>{}</h2>{}{}").format(title, note_below(note), body)


def _chips(data: ReportData) -> Markup:
    buttons = [Markup('<button class=on data-a="0" data-b="{!r}">all</button>').format(data.duration_s)]
    one = Markup('<button data-a="{!r}" data-b="{!r}"><i>{}</i>{}</button>')
    buttons += [one.format(p.first_s, p.last_s, p.number, p.name) for p in data.phases]
    extra = '<button id="log-power" style="margin-left:auto">log power</button>' if data.power is not None else ""
    row = Markup('<div class=chips><div id=phases class=chips style="margin:0">{}</div>{}</div>')
    return row.format(Markup().join(buttons), Markup(extra))


def _body(data: ReportData, result: Mapping[str, Any]) -> Markup:
    phases = phases_or_whole(result)
    looks = {i: p.look for i, p in enumerate(data.phases) if p.look}
    origin = data.latency_from
    drive = result["capture"].get("drive") or {}
    conditions = result["capture"]["conditions"]
    sub = [f"firmware {drive['firmware']}"] if drive.get("firmware") else []
    sub.append("virtual rig" if conditions.get("virtual") else "measured at the drive's connector")
    if conditions.get("profile"):
        sub.append(f"profile {conditions['profile']}")
    if data.power is None:
        sub.append(f"no power figures: {result['power']['absent']}")
    plots = Markup()
    figure = Markup("<div><h3>{}</h3><div id={}></div></div>")
    if data.curves:
        plots += figure.format(f"Latency distribution, {origin} to CQE", "distribution")
    if data.points:
        plots += figure.format("Performance against power", "efficiency")
    details = Markup().join(figure.format(d.title, f"detail-{i}") for i, d in enumerate(data.details))
    pairs = Markup("<div class=pair>{}</div>")
    parts = [
        Markup("<h1>{}</h1><p class=sub>{}</p>").format(data.title, " · ".join(sub)),
        _facts(result),
        _banner(result),
        _section(
            "Time line",
            _chips(data) + Markup("<div id=timeline></div>"),
            "Drag to zoom, double-click to go back. Lines are means (latency: medians), bands reach from the least to "
            "the largest value of what one point on the screen stands for." + (" Red: something is missing there." if data.gaps_s else ""),
        ),
        _section(
            "Workloads",
            tables.workloads(phases, looks),
            f"Over the active span: first doorbell to last CQE without gaps of 10 ms and more. Latency from {origin} "
            "to CQE. A dash: the sample is too small for that percentile.",
        ),
        _section(
            "Power and efficiency",
            tables.power(phases, looks),
            "The figure in brackets is the expanded uncertainty (k = 2) in the last digits. Efficiency and active "
            "power are over the active span; energy per command is above idle.",
        ),
        _section("Bursts", tables.bursts(phases, looks), "Two readings of the rate of a duty-cycled load."),
        pairs.format(plots) if plots else Markup(),
        _section("Latency by command", tables.latencies(result["commands"]), f"Whole capture, {origin} to CQE."),
        _section("Where the time goes", tables.splits(result["commands"])),
        _section(
            "Idle power",
            tables.idle(result["idle"]["levels"]),
            "Steady levels while no command is in flight. What the host did not ask for is not visible on the link; "
            "such states are inferred from the level and say so.",
        ),
        _section(
            "Wake-up",
            tables.wakeups(result["wakeup"]["by_state"]),
            "First command after idle. Extra: less the median of the same command in a stream. Link exit: CLKREQ# "
            "asserted until L0. Medians unless marked.",
        ),
        _section("In detail", pairs.format(details) if details else details),
        _section("Against the model's truth", tables.checks(result.get("truth"))),
        _section("Against fio", tables.fio(result.get("fio"))),
        _section("Conditions", _conditions(result)),
    ]
    return Markup().join(parts)


def page(data: ReportData, result: Mapping[str, Any]) -> str:
    """The complete HTML text."""
    return document(data.title, ("page.css",), _body(data, result), "D", _plot_data(data), "page.js")
