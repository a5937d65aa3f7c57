"""The report of a capture: one HTML file that needs nothing else, and PNG and SVG of each plot."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wattbell import durable
from wattbell.analysis import link
from wattbell.analysis.context import load
from wattbell.analysis.loss import lost_parts
from wattbell.analysis.result import Analysis
from wattbell.capture import Capture
from wattbell.errors import CaptureError
from wattbell.measure.instruments import NO_COMMANDS
from wattbell.origin import Origin, origin_of_capture
from wattbell.present import interactive
from wattbell.present.around import around_rows
from wattbell.present.capture.charts import CaptureCharts, charts, energy_bars
from wattbell.present.capture.tables import all_tables, truth_lines
from wattbell.present.chart import ChartSection, Lines
from wattbell.present.html import page
from wattbell.text import NOTHING, concise, count, duration, si


def _facts(result: Analysis) -> list[tuple[str, str]]:
    power, every = result["power"], result["commands"]["all"]
    facts = [(duration(result["capture"]["duration_s"], 4), "recorded")]
    facts += [] if result["idle"].get("absent") == NO_COMMANDS else [(count(every["count"]), "I/O commands")]
    if "mean_w" in power:
        facts += [(concise(power["energy_j"]) + " J", "energy"), (concise(power["mean_w"]) + " W", "mean power")]
        for key, text in (("4us", "4 µs"), ("100us", "100 µs"), ("100ms", "100 ms")):
            value = power["max_moving_w"][key].value
            if value is not None:
                facts.append((si(value, "W"), f"highest {text} mean"))
    lowest = result["idle"]["levels"][-1:] if result["idle"]["levels"] else []
    return facts + [(si(level["mean_w"].value, "W"), f"lowest idle ({level['label']})") for level in lowest]


def _conditions(result: Analysis) -> list[tuple[str, str]]:
    about: Mapping[str, Any] = result["capture"]
    model: Mapping[str, Any] = result["uncertainty"]
    conditions, rig, rail = about["conditions"], about["rig"], about["rail"]
    drive = about.get("drive") or {}
    rows: list[tuple[str, str]] = [
        ("drive", " ".join(str(drive[k]) for k in ("model", "serial", "firmware") if drive.get(k)) or NOTHING),
        ("rig", _RIG[origin_of_capture(about)] + _rig(rig)),
        ("source", ", ".join(f"{k}: {conditions[k]}" for k in ("profile", "timing", "fidelity", "source") if conditions.get(k))),
    ]
    if "absent" in rail:
        rows.append(("power", f"absent: {rail['absent']}"))
    else:
        text = f"sample every {duration(rail['interval_s'])}, conversion every {duration(rail['conversion_period_s'])}"
        source = "96-bit accumulator" if rail["accumulator"] else "samples"
        rows.append(("rail", f"{text}, {count(rail['samples'])} samples; energy from {source}"))
    rows += around_rows(conditions)
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
    return [(name, text) for name, text in rows if text]


def _rig(rig: Mapping[str, Any]) -> str:
    parts = [f"{k} {rig[k]}" for k in ("serial", "gateware") if rig.get(k)]
    if rig.get("tlp_width") and rig.get("clock_ticks"):
        parts.append(f"{rig['tlp_width']}-bit TLP path, {rig['clock_ticks']} ns a clock")
    return f" ({', '.join(parts)})" if parts else ""


def _utc(about: Mapping[str, Any]) -> str:
    anchor = about.get("utc_anchor")
    return f"; tick {anchor['tick']} is {anchor['utc']}" if anchor else ""


_RIG = {Origin.VIRTUAL: "virtual", Origin.MEASURED: "hardware", Origin.UNKNOWN: "unknown, virtual or hardware"}
_SAID = {
    Origin.VIRTUAL: "MODEL on the virtual rig",
    Origin.MEASURED: "measured at the drive's connector",
    Origin.UNKNOWN: Origin.UNKNOWN.words,
}


def _sub(result: Analysis) -> list[str]:
    drive, conditions = result["capture"].get("drive") or {}, result["capture"]["conditions"]
    parts = [f"firmware {drive['firmware']}"] if drive.get("firmware") else []
    parts.append(_SAID[origin_of_capture(result["capture"])])
    parts += [f"profile {conditions['profile']}"] if conditions.get("profile") else []
    return parts if "mean_w" in result["power"] else [*parts, f"no power figures: {result['power']['absent']}"]


def _copied(result: Analysis, drive: Mapping[str, Any]) -> str:
    """Return the text of a chart that is copied: the drive, the origin of its figures, its losses; then all conditions."""
    lost = lost_parts(result["loss"])
    lines = [
        origin_of_capture(result["capture"]).marked(
            " ".join(str(drive.get(k)) for k in ("model", "firmware") if drive.get(k)) or "unknown drive"
        ),
        " · ".join(_sub(result)),
        "DATA LOST: " + ", ".join(lost) if lost else "nothing lost",
        "made with Wattbell",
    ]
    return "\n".join([*lines, *(f"{name}: {text}" for name, text in _conditions(result)), *result["warnings"]])


def stamp(origin: Origin, lost: Sequence[str]) -> str:
    """Return the remarks that every picture of a capture needs: model, lost data. Empty for a drive that was measured without loss."""
    return " · ".join(filter(None, (origin.warning, f"DATA LOST: {', '.join(lost)}" if lost else "")))


def _sections(drawn: CaptureCharts, result: Analysis) -> list[ChartSection]:
    """Return the sections of the page, in order."""
    explained = (
        "Drag to zoom, double-click to go back. Lines are means (latency: medians), bands reach from the least to the largest value of "
        "what one point on the screen stands for. Beside each row: a picture of it, its data, its conditions, to be pasted elsewhere."
    )
    missing = " Red: something is missing there." if drawn.timeline.gaps_s else ""
    tables = {name: ChartSection(table.title, table.sentence, [table]) for name, table in all_tables(result, drawn.looks).items()}
    if "truth" in tables:
        tables["truth"].blocks.append(Lines(truth_lines(result["truth"])))
    for name, bars in energy_bars(result).items():
        above = "shares" if name == "stack" else name
        if above in tables:
            tables[above].blocks.insert(0, bars)
    before = [tables.pop(name) for name in ("workloads", "power", "fio_account", "bursts") if name in tables]
    after = [tables.pop(name) for name in list(tables) if name not in ("truth", "fio")]
    time = ChartSection("Time line", explained + missing, [drawn.timeline])
    details = [ChartSection("In detail", "", [*drawn.details])] if drawn.details else []
    return [time, *before, ChartSection("", "", [*drawn.charts]), *after, *details, *tables.values()]


def write_report(capture: Capture, result: Analysis, out: str | Path, plots: bool = True) -> Path:
    """Write the report of ``capture``, analyzed into ``result``; returns the path of the HTML file.

    ``out`` ending in ``.html`` is that file, with the plots in ``<stem>-plots/`` beside it; otherwise it is a folder
    that gets ``report.html`` and ``plots/``. Raises CaptureError when nothing can be written there.
    """
    target = Path(out)
    single = target.suffix.lower() in (".html", ".htm")
    html = target if single else target / "report.html"
    folder = target.with_name(f"{target.stem}-plots") if single else target / "plots"
    drive = capture.meta.get("drive") or {}
    origin = origin_of_capture(capture.meta)
    drawn = charts(load(capture), result)
    sections = _sections(drawn, result)
    text = page(
        "wattbell.present.pages",
        "capture.html",
        ("page.css", "bars.css"),
        ("plots.js", "timeline.js"),
        {
            "P": interactive.plots(sections),
            "B": interactive.bars(sections),
            "D": interactive.timeline(drawn.timeline),
            "C": _copied(result, drive),
            "O": origin.warning,
            "VIEW": f"Down to one sample and one command: wattbell view {shlex.quote(str(capture.path))}",
        },
        title=origin.marked(str(drive.get("model") or capture.path.name)),
        sub=_sub(result),
        facts=_facts(result),
        lost=lost_parts(result["loss"]),
        warnings=result["warnings"],
        sections=sections,
        conditions=_conditions(result),
    )
    try:
        durable.make_folder(html.parent)
        with durable.replacing(html) as made_page:
            made_page.write_text(text, encoding="utf-8")
        if plots:
            from wattbell.present.pictures import write_pictures  # takes a second, for matplotlib

            write_pictures(sections, folder, stamp(origin, lost_parts(result["loss"])))
    except OSError as error:
        raise CaptureError(f"The report cannot be written to {target} ({error.strerror or error}); choose another place.") from None
    return html
