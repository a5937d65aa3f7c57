"""An analysis in the terminal."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from wattbell.analysis.link import describe
from wattbell.analysis.loss import lost_parts
from wattbell.analysis.result import Analysis
from wattbell.measure.instruments import NO_COMMANDS
from wattbell.origin import Origin, origin_of_capture
from wattbell.present.around import around_rows
from wattbell.present.capture.tables import all_tables, truth_lines
from wattbell.present.terminal import DIM, WholeText, drawn, words
from wattbell.text import concise, count, duration, si


def _header(result: Analysis) -> list[Text]:
    about = result["capture"]
    drive, conditions, rail = about.get("drive") or {}, about.get("conditions") or {}, about["rail"]
    origin = origin_of_capture(about)
    name = Text(drive.get("model") or "unknown drive (no Identify seen)", style="bold")
    if origin.mark:
        name.append(f"  {origin.warning}", style="bold yellow")
    if drive.get("firmware"):
        name.append(f"  firmware {drive['firmware']}", style=DIM)
    facts = [f"{duration(about['duration_s'])} recorded"]
    facts.append(f"no power figures: {rail['absent']}" if "absent" in rail else f"rail every {duration(rail['interval_s'])}")
    real = str(about["rig"].get("model")) if conditions.get("imported") else "real rig"
    facts.append({Origin.VIRTUAL: "virtual rig", Origin.MEASURED: real}.get(origin, "rig not known"))
    facts += [f"profile {conditions['profile']}"] if conditions.get("profile") else []
    facts += [f"{name}: {conditions[name]}" for name in ("timing", "fidelity") if conditions.get(name)]
    lines = [" · ".join(facts), *(f"{side['direction']}: {describe(side)}" for side in result["link"])]
    lines += [f"{name}: {text}" for name, text in around_rows(conditions)]
    lost = lost_parts(result["loss"])
    loss = Text("LOST: " + ", ".join(lost), style="bold red") if lost else Text("nothing lost", style="green")
    return [name, *(Text(line, style=DIM) for line in lines), loss, *(Text(f"! {line}", style="yellow") for line in result["warnings"])]


def _totals(result: Analysis) -> Text:
    power, every = result["power"], result["commands"]["all"]
    parts = []
    if "mean_w" in power:
        parts += [f"mean {concise(power['mean_w'])} W", f"energy {concise(power['energy_j'])} J"]
        for name, label in (("4us", "4 µs"), ("100us", "100 µs"), ("100ms", "100 ms")):
            fig = power["max_moving_w"][name]
            parts += [f"max {si(fig.value, 'W')} over {label}"] if fig.value is not None else []
    seen = f"{count(every['count'])} I/O commands, {count(result['commands']['admin']['count'])} admin"
    return Text(" · ".join([*parts, NO_COMMANDS if result["idle"].get("absent") == NO_COMMANDS else seen]))


def render(result: Analysis, console: Console) -> None:
    """Print the result of :func:`wattbell.analysis.figures_of`: the recording, its losses, and the tables."""
    parts: list[RenderableType] = [WholeText(line) for line in (*_header(result), _totals(result))]
    for name, table in all_tables(result).items():
        if name in ("splits", "wake_parts"):  # many figures, for the page
            continue
        parts.append(drawn(table))
        if name == "truth":
            parts += [WholeText(words(line)) for line in truth_lines(result.get("truth"))]
    console.print()
    for part in parts:
        console.print(Padding(part, (0, 0, 0, 1)))
