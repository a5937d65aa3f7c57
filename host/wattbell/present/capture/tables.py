"""The result of ``analyze`` as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattbell.analysis.link import describe
from wattbell.analysis.loss import lost_parts
from wattbell.analysis.names import size_text
from wattbell.analysis.text import NOTHING, clip, concise, count, digits, duration, si, signed, size_bytes
from wattbell.measure.latency import QUANTILES
from wattbell.present.terminal import WholeTable, WholeText

_DIM = "grey58"
_NAME = 60
"""Characters of a phase's name that are shown at most; names come from anywhere."""
_NAMES = 40
"""Characters of a list of names, from which on the rest of them is only counted."""


def _table(title: str, note: str = "", expendable: Sequence[str] = ()) -> WholeTable:
    """A table with its heading, which `_titled` prints above it: a Rich title would wrap at the table's width. ``expendable``: its columns
    in the order in which they are left out where there is no room."""
    heading = Text(title, style="bold")
    if note:
        heading.append(f"  {note}", style=_DIM)
    return WholeTable(
        expendable=expendable,
        title=heading,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1),
        header_style=f"not bold {_DIM}",
    )


def _titled(part: RenderableType) -> RenderableType:
    if not isinstance(part, Table) or part.title is None:
        return part
    heading, part.title = part.title, None
    return Group(Text(), WholeText(heading if isinstance(heading, Text) else Text(str(heading))), part)


def _pair(fig: Mapping[str, Any] | None, scale: float = 1.0) -> Text:
    plain = concise(fig, scale)
    head, paren, tail = plain.partition("(")
    text = Text(head)
    text.append(paren + tail, style=_DIM)
    if fig and fig.get("lost"):
        text.append("!", style="yellow")
    return text


def _some(names: Sequence[str]) -> str:
    """Names, as many as there is room for, and how many more there are."""
    shown: list[str] = []
    for name in names:
        if shown and len(", ".join([*shown, name])) > _NAMES:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(clip(name, _NAMES))
    return ", ".join(shown)


def _value(fig: Mapping[str, Any] | None, unit: str = "") -> Text:
    if fig is None or fig.get("value") is None:
        return Text(NOTHING)
    text = Text(digits(float(fig["value"]), 4) + unit)
    if fig.get("lost"):
        text.append("!", style="yellow")
    return text


def _lat(latency: Mapping[str, Any] | None, key: str) -> Text:
    if not latency or latency.get(key) is None:
        return Text(NOTHING, style=_DIM)
    bound = "≥" if latency.get("lower_bound") and key in ("max", "mean") else ""
    return Text(bound + duration(latency[key], 4))


def phases_or_whole(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The phases; for a capture without any, the whole of it as one."""
    phases: Sequence[Mapping[str, Any]] = result["phases"]
    return phases or [{**result, "name": "whole capture", "kind": "unknown"}]


def phase_kind(phase: Mapping[str, Any]) -> str:
    """What ran in a phase: ``read/write 4 KiB + flush``; opcodes of one common size together, most commands first."""
    by_opcode, sizes = phase["commands"]["by_opcode"], phase["commands"]["by_opcode_size"]
    groups: dict[str, list[str]] = {}
    for name in sorted(by_opcode, key=lambda n: -int(by_opcode[n]["count"])):
        known = [int(s) for s in sizes.get(name, {}) if s.isdigit() and int(s)]
        size = size_text(known[0]) if len(known) == 1 else ("mixed sizes" if known else "")
        groups.setdefault(size, []).append(name)
    return " + ".join(f"{'/'.join(names)} {size}".strip() for size, names in groups.items()) or "idle"


def _header(result: Mapping[str, Any]) -> RenderableType:
    about = result["capture"]
    drive = about.get("drive") or {}
    conditions = about.get("conditions") or {}
    name = drive.get("model") or "unknown drive (no Identify seen)"
    line = Text(name, style="bold")
    if drive.get("firmware"):
        line.append(f"  firmware {drive['firmware']}", style=_DIM)
    rail = about["rail"]
    facts = [f"{duration(about['duration_s'])} recorded"]
    if "absent" in rail:
        facts.append(f"no power figures: {rail['absent']}")
    else:
        facts.append(f"rail every {duration(rail['interval_s'])}")
    facts.append("virtual rig" if conditions.get("virtual") else "real rig")
    if conditions.get("profile"):
        facts.append(f"profile {conditions['profile']}")
    if conditions.get("timing"):
        facts.append(f"timing: {conditions['timing']}")
    links = [Text(f"{side['direction']}: {describe(side)}", style=_DIM) for side in result["link"]]
    return Group(line, *map(WholeText, (Text(" · ".join(facts), style=_DIM), *links, _loss_line(result))))


def _loss_line(result: Mapping[str, Any]) -> Text:
    parts = lost_parts(result["loss"])
    return Text("LOST: " + ", ".join(parts), style="bold red") if parts else Text("nothing lost", style="green")


def _warnings(result: Mapping[str, Any]) -> RenderableType | None:
    if not result["warnings"]:
        return None
    return Group(*(WholeText(Text(f"! {line}", style="yellow")) for line in result["warnings"]))


def _phases(phases: Sequence[Mapping[str, Any]]) -> RenderableType | None:
    active = [p for p in phases if p["rates"]["count"] and p["kind"] != "wake"]
    if not active:
        return None
    table = _table("Workloads", "over the active span", ("p99.9", "load", "p50", "QD", "max", "p99", "IOPS", "mean", "MB/s"))
    table.add_column("phase")
    table.add_column("load")
    for column in ("QD", "MB/s", "IOPS", "mean", "p50", "p99", "p99.9", "max"):
        table.add_column(column, justify="right", no_wrap=True)
    for phase in active:
        latency, rate = phase["commands"]["all"]["latency_s"], phase["rates"]
        depth = phase["queue_depth"]["mean_busy"]
        table.add_row(
            clip(phase["name"], _NAME),
            Text(phase_kind(phase), style=_DIM),
            NOTHING if depth is None else f"{depth:.2f}",
            _value(rate.get("mb_per_s")),
            _value(rate.get("iops")),
            *(_lat(latency, key) for key in ("mean", "p50", "p99", "p99_9", "max")),
        )
    return table


def _power(phases: Sequence[Mapping[str, Any]]) -> RenderableType | None:
    powered = [p for p in phases if "mean_w" in p["power"]]
    if not powered:
        return None
    table = _table(
        "Power and efficiency",
        "efficiency over the active span; (14) is k = 2 in the last digits",
        ("J/GB", "IOPS/W", "100 ms max", "active W", "µJ/cmd", "100 µs max", "energy J", "MB/s/W", "mean W"),
    )
    table.add_column("phase")
    columns = ("mean W", "active W", "100 µs max", "100 ms max", "energy J", "MB/s/W", "IOPS/W", "J/GB", "µJ/cmd")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for phase in powered:
        power, efficiency = phase["power"], phase["efficiency"]
        each = list((phase.get("energy_per_command") or {}).get("classes", {}).values())
        useful = phase["kind"] != "wake" and "absent" not in efficiency
        table.add_row(
            clip(phase["name"], _NAME),
            _pair(power["mean_w"]),
            _pair(power.get("active", {}).get("mean_w")) if useful else NOTHING,
            _value(power["max_moving_w"]["100us"]),
            _value(power["max_moving_w"]["100ms"]),
            _pair(power["energy_j"]),
            *(_value(efficiency.get(k)) if useful else NOTHING for k in ("mb_per_s_per_w", "iops_per_w", "j_per_gb")),
            _pair(each[0], 1e6) if useful and len(each) == 1 else NOTHING,
        )
    return table


def _bursts(phases: Sequence[Mapping[str, Any]]) -> RenderableType | None:
    cycled = [p for p in phases if (p["rates"].get("bursts") or {}).get("count", 0) > 1 and p["kind"] != "wake"]
    if not cycled:
        return None
    rates = ("idle included", "bytes / active time", "mean of bursts")
    table = _table("Bursts", "two readings of the rate of a duty-cycled load", ("duty", "bursts", *rates))
    table.add_column("phase")
    for column in ("bursts", "duty", *reversed(rates)):
        table.add_column(column, justify="right", no_wrap=True)
    for phase in cycled:
        bursts, rate = phase["rates"]["bursts"], phase["rates"]
        mean = _pair(bursts["mb_per_s_mean_of_bursts"])
        mean.append(" MB/s", style=_DIM)
        table.add_row(
            clip(phase["name"], _NAME),
            str(bursts["count"]),
            f"{bursts['duty']:.0%}",
            mean,
            _value(rate["mb_per_s"], " MB/s"),
            _value(rate["mb_per_s_whole"], " MB/s"),
        )
    return table


def _commands(result: Mapping[str, Any]) -> RenderableType | None:
    by_opcode = result["commands"]["by_opcode"]
    if not by_opcode:
        return None
    origin = {entry["latency_s"]["from"] for entry in by_opcode.values()}
    order = ("data", "p90", "p99.999", "p99.99", "p99.9", "p50", "count", "p99", "mean", "max", "errors")
    table = _table("Latency, whole capture", f"{' and '.join(sorted(origin))} to CQE", order)
    keys = ["mean", *(q for q, _ in QUANTILES if any(e["latency_s"][q] is not None for e in by_opcode.values())), "max"]
    failed = any(entry["errors"] for entry in by_opcode.values())
    table.add_column("command", no_wrap=True)
    for name in ("count", "data", *(["errors"] if failed else []), *keys):
        table.add_column(name.replace("_", "."), justify="right", no_wrap=True)
    for name, entry in by_opcode.items():
        sizes = result["commands"]["by_opcode_size"].get(name, {})
        rows = [(name, entry)]
        if len(sizes) > 1:
            rows += [(f"  {size_text(int(s)) if s.isdigit() else s}", sizes[s]) for s in list(sizes)[:8]]
        for label, item in rows:
            errors = [Text(count(item["errors"]), style="red" if item["errors"] else _DIM)] if failed else []
            table.add_row(
                Text(label, style=_DIM if label.startswith(" ") else ""),
                count(item["count"]),
                size_bytes(item["bytes"]),
                *errors,
                *(_lat(item["latency_s"], key) for key in keys),
            )
    return table


def _idle(result: Mapping[str, Any]) -> RenderableType | None:
    levels = result["idle"]["levels"]
    if not levels:
        return None
    order = ("phases", "after", "for", "state known by", "link", "power")
    table = _table("Idle power", f"steady levels in gaps of {result['idle']['threshold_s'] * 1e3:g} ms and more", order)
    for column in ("state", "power", "for", "after", "link", "state known by", "phases"):
        numeric = column in ("power", "for", "after")
        table.add_column(column, justify="right" if numeric else "left", no_wrap=numeric or column == "link")
    for level in levels:
        milli = float(level["mean_w"]["value"]) < 0.1
        power = _pair(level["mean_w"], 1e3 if milli else 1.0)
        power.append(" mW" if milli else " W", style=_DIM)
        link = level["link"] or {}
        names = {name: name.replace("L1_", "L1.") for name in link}
        shares = [f"{names[n]} {part:.0%}" if part < 0.995 else names[n] for n, part in link.items() if part >= 0.005]
        table.add_row(
            level["label"],
            power,
            duration(level["duration_s"], 3),
            duration(level["first_reached_s"], 3) if level["first_reached_s"] >= 1e-3 else "at once",
            ", ".join(shares) or NOTHING,
            Text(level["how"], style=_DIM),
            Text(_some(level["phases"]), style=_DIM),
        )
    return table


def _wakeups(result: Mapping[str, Any]) -> RenderableType | None:
    groups = [g for g in result["wakeup"]["by_state"] if not g["class"].startswith(("marker", "admin"))]
    if not groups:
        return None
    order = ("link", "CLKREQ# → CQE", "to data", "to fetch", "extra", "max", "n", "doorbell → CQE")
    table = _table("Wake-up", "first command after idle; extra: less the median of its class in a stream", order)
    columns = ("from", "command", "n", "doorbell → CQE", "max", "extra", "to fetch", "to data", "link", "CLKREQ# → CQE")
    for column in columns:
        table.add_column(column, justify="left" if column in ("from", "command") else "right", no_wrap=column != "command")

    def median(group: Mapping[str, Any], key: str) -> str:
        return duration(group[key]["median"]) if group[key] else NOTHING

    for group in groups:
        table.add_row(
            group["state"],
            Text(group["class"], style=_DIM),
            str(group["count"]),
            _lat(group["latency_s"], "p50"),
            _lat(group["latency_s"], "max"),
            *(median(group, k) for k in ("extra_s", "to_fetch_s", "to_first_data_s", "link_exit_s", "from_clkreq_s")),
        )
    return table


def _energy(result: Mapping[str, Any]) -> RenderableType | None:
    """Mixed loads only: a phase of one class has its energy per command in the power table."""
    rows = [
        (phase, name, fig)
        for phase in result["phases"]
        for name, fig in (phase.get("energy_per_command") or {}).get("classes", {}).items()
        if len(phase["energy_per_command"]["classes"]) > 1
    ]
    if not rows:
        return None
    table = _table("Energy per command in mixed loads", "above idle, by least squares")
    for column in ("phase", "command", "energy"):
        table.add_column(column, justify="right" if column == "energy" else "left", no_wrap=column == "energy")
    for phase, name, fig in rows:
        energy = _pair(fig, 1e6)
        energy.append(" µJ", style=_DIM)
        table.add_row(clip(phase["name"], _NAME), Text(name, style=_DIM), energy)
    return table


def _verdict(passed: bool) -> Text:
    return Text("pass", style="green") if passed else Text("FAIL", style="bold red")


def truth_faults(commands: Mapping[str, Any]) -> list[str]:
    """What is wrong with the records, one line each; empty when nothing is."""
    wrong = [k for k in commands if k.startswith("wrong_") and commands[k]]
    out = [f"{count(commands[k])} with the {k.replace('_', ' ')}" for k in wrong]
    for name, found in commands["instants"].items():
        faults = [f"{count(found[k])} {k}" for k in ("missing", "extra") if found[k]]
        if found["max_ticks"] > commands["limit_ticks"]:
            faults.append(f"up to {count(found['max_ticks'])} ticks off")
        if faults:
            out.append(f"{name.replace('_', ' ')}: {', '.join(faults)}")
    if commands["paired"] != commands["truth"]:
        out.append(f"{count(commands['truth'] - commands['paired'])} commands of the truth have no record")
    if commands["paired"] != commands["records"]:
        out.append(f"{count(commands['records'] - commands['paired'])} records have no true command")
    return out


def _truth(truth: Mapping[str, Any]) -> list[RenderableType]:
    order = ("energy, truth", "limit", "mean power, error", "error")
    table = _table("Against the model's truth", "limits 0.2 %, 0.1 % + 5 µA, 1 tick", order)
    for column in ("phase", "energy, truth", "error", "mean power, error", "limit", ""):
        table.add_column(column, justify="left" if column in ("phase", "") else "right", no_wrap=column != "phase")
    for row in truth["phases"]:
        name, verdict = clip(row["name"], _NAME), _verdict(row["pass"])
        if "energy_error" not in row:
            table.add_row(name, NOTHING, NOTHING, NOTHING, NOTHING, verdict)
            continue
        table.add_row(
            name,
            si(row["energy_truth_j"], "J", 5),
            f"{row['energy_error'] * 100:+.4f} %".replace("-", "−"),
            signed(row["mean_error_w"], "W"),
            si(row["mean_limit_w"], "W", 3),
            verdict,
        )
    lines: list[RenderableType] = [table]
    commands = truth["commands"]
    if commands:
        text = Text.assemble("timestamps  ", _verdict(commands["pass"]), "  ")
        text.append(
            f"{count(commands['paired'])} of {count(commands['truth'])} commands paired, 7 instants each: "
            f"largest distance {commands['max_ticks']:g} ticks, "
            f"{count(commands['instants_missing_or_extra'])} instants missing or extra"
        )
        lines.append(WholeText(text))
        late = commands["instants"]["msix"]["after_release"]
        if late:
            lines.append(WholeText(Text(f"                  {late} interrupts after their CQE was released: not compared", style=_DIM)))
        lines += [WholeText(Text(f"                  {line}", style="red")) for line in truth_faults(commands)]
    for wake in truth["wakeups"]:
        text = Text.assemble("wake-up     ", _verdict(wake["pass"]), f"  {wake['name']}: ")
        if "error_s" in wake:
            text.append(f"{duration(wake['measured_s'], 6)}, error {signed(wake['error_s'], 's')}")
            text.append(f", limit {duration(wake['limit_s'], 3)}; state {wake['state']}, truth PS{wake['true_state']}")
        else:
            text.append(wake["absent"])
        lines.append(WholeText(text))
    return lines


def _checks(result: Mapping[str, Any]) -> list[RenderableType]:
    out: list[RenderableType] = []
    truth = result.get("truth")
    if truth:
        out += _truth(truth)
    fio = result.get("fio")
    if fio:
        table = _table("Against fio", expendable=("fio bytes", "wire bytes", "latency", "fio", "wire", "opcode", "equal"))
        for column in ("phase", "opcode", "wire", "fio", "wire bytes", "fio bytes", "equal", "latency"):
            table.add_column(column, justify="right" if "wire" in column or "fio" in column else "left", no_wrap=column != "phase")
        for section in fio["sections"]:
            for row in section["rows"]:
                equal = Text("equal", style="green") if row["equal"] else Text("DIFFERS", style="bold red")
                lat = {None: Text(NOTHING), True: Text("≤ fio", style="green")}.get(row["latency_ok"])
                table.add_row(
                    clip(section["name"], _NAME),
                    row["opcode"],
                    count(row["wire_count"]),
                    count(row["fio_count"]),
                    count(row["wire_bytes"]),
                    count(row["fio_bytes"]),
                    equal,
                    lat or Text("> fio", style="bold red"),
                )
        out.append(table)
    return out


def _totals(result: Mapping[str, Any]) -> RenderableType:
    power = result["power"]
    text = Text()
    if "mean_w" in power:
        text.append(f"mean {concise(power['mean_w'])} W · energy {concise(power['energy_j'])} J · ")
        moving = power["max_moving_w"]
        for name, label in (("100us", "100 µs"), ("100ms", "100 ms")):
            fig = moving[name]
            if fig["value"] is not None:
                text.append(f"max {si(fig['value'], 'W')} over {label} · ")
    every = result["commands"]["all"]
    text.append(f"{count(every['count'])} I/O commands, {count(result['commands']['admin']['count'])} admin")
    return WholeText(text)


def render(result: Mapping[str, Any], console: Console) -> None:
    """Print the result of :func:`wattbell.analysis.analyze` as tables."""
    phases = phases_or_whole(result)
    parts: list[RenderableType | None] = [
        _header(result),
        _warnings(result),
        _totals(result),
        _phases(phases),
        _power(phases),
        _bursts(phases),
        _commands(result),
        _idle(result),
        _wakeups(result),
        _energy(result),
        *_checks(result),
    ]
    console.print()
    for part in parts:
        if part is not None:
            console.print(Padding(_titled(part), (0, 0, 0, 1)))
