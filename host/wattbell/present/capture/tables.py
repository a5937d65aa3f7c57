"""The tables of an analysis, each built once for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from wattbell.analysis.names import size_text
from wattbell.analysis.result import Alone, Analysis, CommandTable, PhaseResult, Transition
from wattbell.measure.figure import Figure
from wattbell.measure.latency import QUANTILES, Distribution
from wattbell.present.chart import COVERS
from wattbell.present.colours import Look
from wattbell.present.joules import SHARE_COLUMNS, SHARES_EXPLAINED, share_cells
from wattbell.present.table import Cell, Column, Table, Tone, cell, figure, muted, rounded, text_column, toned
from wattbell.text import NOTHING, clip, count, duration, percent, si, signed, size_bytes

_NAMES = 40
"""Length of a list of names, beyond which the rest is only counted."""
_SIZES = 8
"""At most this many command sizes get a row of their own."""

Phases = Sequence[PhaseResult]
Looks = Mapping[int, Look]
Row = list[Cell | str]
_PHASE = text_column("phase")
_EFFICIENCY: tuple[Literal["mb_per_j", "iops_per_w", "j_per_gb"], ...] = ("mb_per_j", "iops_per_w", "j_per_gb")


def phases_or_whole(result: Analysis) -> Phases:
    """The phases, or the whole capture as one if it has none."""
    return result["phases"] or [cast(PhaseResult, {**result, "name": "whole capture", "kind": "unknown"})]


def phase_kind(phase: PhaseResult) -> str:
    """Return the work of a phase in words: ``read/write 4 KiB + flush``. Opcodes of the same size are grouped, the most frequent first."""
    by_opcode, sizes = phase["commands"]["by_opcode"], phase["commands"]["by_opcode_size"]
    groups: dict[str, list[str]] = {}
    for name in sorted(by_opcode, key=lambda n: -int(by_opcode[n]["count"])):
        known = [int(s) for s in sizes.get(name, {}) if s.isdigit() and int(s)]
        size = size_text(known[0]) if len(known) == 1 else ("mixed sizes" if known else "")
        groups.setdefault(size, []).append(name)
    return " + ".join(f"{'/'.join(names)} {size}".strip() for size, names in groups.items()) or "idle"


def _some(names: Sequence[str]) -> str:
    """Return as many names as there is room for, and the number of the others."""
    shown: list[str] = []
    for name in names:
        if shown and len(", ".join([*shown, name])) > _NAMES:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(clip(name, _NAMES))
    return ", ".join(shown)


def _latency(latency: Mapping[str, Any], key: str) -> str:
    bound = "≥" if latency.get("lower_bound") and key in ("mean", "max") else ""
    return NOTHING if latency.get(key) is None else bound + duration(latency[key])


def _verdict(passed: bool, good: str = "pass", bad: str = "FAIL") -> Cell:
    return toned(good, "good") if passed else toned(bad, "bad")


def workloads(phases: Phases, looks: Looks, origin: str) -> Table:
    """Rates and latency by phase; ``origin``: the instant that latency is counted from."""
    rows: list[Row] = []
    for i, phase in enumerate(phases):
        rate = phase["rates"]
        if not rate["count"] or phase["kind"] == "wake":
            continue
        latency, depth = phase["commands"]["all"]["latency_s"], phase["queue_depth"]["mean_busy"]
        rows.append(
            [
                cell(str(phase["name"]), look=looks.get(i)),
                muted(phase_kind(phase)),
                count(rate["count"]),
                size_bytes(rate["bytes"]),
                NOTHING if depth is None else f"{depth:.2f}",
                rounded(rate.get("mb_per_s")),
                rounded(rate.get("iops")),
                *(_latency(latency, key) for key in ("mean", "p50", "p99", "p99_9", "max")),
            ]
        )
    columns = (
        _PHASE,
        text_column("load", leaves=2),
        Column("commands", page_only=True),
        Column("data", page_only=True),
        Column("QD", leaves=4),
        Column("MB/s", leaves=9),
        Column("IOPS", leaves=7),
        Column("mean", leaves=8),
        Column("p50", leaves=3),
        Column("p99", leaves=6),
        Column("p99.9", leaves=1),
        Column("max", leaves=5),
    )
    explained = (
        f"Over the active span: first doorbell to last CQE without gaps of 10 ms and more. Latency from {origin} to CQE. "
        "A dash: the sample is too small for that percentile."
    )
    return Table("Workloads", columns, rows, "over the active span", explained)


def power(phases: Phases, looks: Looks) -> Table:
    """Power, energy and efficiency by phase. The column for 4 us is there where the rail is fine enough for it."""
    rows: list[Row] = []
    fine = any(phase["power"].get("max_moving_w", {}).get("4us", Figure()).value is not None for phase in phases)
    for i, phase in enumerate(phases):
        watts, efficiency = phase["power"], phase["efficiency"]
        if "mean_w" not in watts:
            continue
        useful = phase["kind"] != "wake" and "absent" not in efficiency
        each = [fig for name, fig in (phase.get("energy_per_command") or {}).get("classes", {}).items() if " + " not in name]
        rows.append(
            [
                cell(str(phase["name"]), look=looks.get(i)),
                figure(watts["mean_w"]),
                figure(watts.get("active", {}).get("mean_w")) if useful else NOTHING,
                *([rounded(watts["max_moving_w"]["4us"])] if fine else []),
                rounded(watts["max_moving_w"]["100us"]),
                rounded(watts["max_moving_w"]["100ms"]),
                figure(watts["energy_j"]),
                *((rounded(efficiency.get(k)) for k in _EFFICIENCY) if useful else [NOTHING] * len(_EFFICIENCY)),
                figure(each[0], 1e6) if useful and len(each) == 1 else NOTHING,
            ]
        )
    finest = [Column("max 4 µs", "W", short="4 µs max", leaves=2)] if fine else []
    columns = (
        _PHASE,
        Column("mean", "W", short="mean W", leaves=9),
        Column("active", "W", short="active W", leaves=4),
        *finest,
        Column("max 100 µs", "W", short="100 µs max", leaves=6),
        Column("max 100 ms", "W", short="100 ms max", leaves=3),
        Column("energy", "J", short="energy J", leaves=7),
        Column("MB/J", leaves=8),
        Column("IOPS/W", leaves=2),
        Column("J/GB", leaves=1),
        Column("µJ/command", short="µJ/cmd", leaves=5),
    )
    note = "efficiency over the active span; (14) is k = 2 in the last digits"
    explained = (
        f"The figure in brackets is the expanded uncertainty (k = 2) in the last digits. {COVERS} Bytes per joule (MB/J) are what reviews "
        "print as MB/s/W, of this one window. Efficiency and active power are over the active span; energy per command is above idle."
    )
    return Table("Power and efficiency", columns, rows, note, explained)


def bursts(phases: Phases, looks: Looks) -> Table:
    """Both readings of the rate of a duty-cycled load."""
    rows: list[Row] = []
    for i, phase in enumerate(phases):
        rate = phase["rates"]
        found = rate.get("bursts")
        if not found or found["count"] < 2 or phase["kind"] == "wake":
            continue
        active, whole = (rounded(rate[key], "MB/s") for key in ("mb_per_s", "mb_per_s_whole"))
        mean = figure(found["mb_per_s_mean_of_bursts"], unit="MB/s")
        rows.append([cell(str(phase["name"]), look=looks.get(i)), str(found["count"]), f"{found['duty']:.0%}", mean, active, whole])
    columns = (
        _PHASE,
        Column("bursts", leaves=2),
        Column("duty", leaves=1),
        Column("mean of bursts", leaves=5),
        Column("bytes / active time", leaves=4),
        Column("idle included", leaves=3),
    )
    return Table("Bursts", columns, rows, "two readings of the rate of a duty-cycled load")


def latencies(commands: CommandTable) -> Table:
    """Percentiles by opcode and size, whole capture."""
    by_opcode = commands["by_opcode"]
    keys = ["mean", *(q for q, _ in QUANTILES if any(e["latency_s"].get(q) is not None for e in by_opcode.values())), "max"]
    failed = any(entry["errors"] for entry in by_opcode.values())
    rows: list[Row] = []
    for name, entry in by_opcode.items():
        sizes = commands["by_opcode_size"].get(name, {})
        items = [(cell(str(name)), entry)]
        if len(sizes) > 1:
            items += [(Cell(muted(size_text(int(s)) if s.isdigit() else s).spans, inner=True), sizes[s]) for s in list(sizes)[:_SIZES]]
        for label, item in items:
            errors = toned(count(item["errors"]), "bad") if item["errors"] else muted("0")
            latency = [_latency(item["latency_s"], key) for key in keys]
            rows.append([label, count(item["count"]), size_bytes(item["bytes"]), errors, *latency])
    order = ("data", "p90", "p99_999", "p99_99", "p99_9", "p50", "count", "p99", "mean", "max", "errors")
    columns = [
        text_column("command", whole=True),
        Column("count", leaves=1 + order.index("count")),
        Column("data", leaves=1 + order.index("data")),
        Column("errors", leaves=1 + order.index("errors"), page_only=not failed),
        *(Column(key.replace("_", "."), leaves=1 + order.index(key)) for key in keys),
    ]
    origin = " and ".join(sorted({entry["latency_s"]["from"] for entry in by_opcode.values()}))
    return Table("Latency, whole capture", columns, rows, f"{origin} to CQE")


_PARTS = {
    "doorbell_to_fetch": "doorbell → fetch",
    "fetch_to_first_data": "fetch → data",
    "data": "data",
    "last_data_to_cqe": "data → CQE",
    "cqe_to_msix": "CQE → MSI-X",
    "cqe_to_cq_head": "CQE → CQ head",
}


def splits(commands: CommandTable) -> Table:
    """Return the table of the parts of the latency: median of each part by opcode."""
    rows: list[Row] = []
    guessed = 0
    for opcode, entry in commands["by_opcode"].items():
        parts = entry.get("splits_s") or {}
        guessed += sum(part.get("guessed", 0) for part in parts.values())
        rows.append([str(opcode), *(_part(parts[n]) if n in parts else NOTHING for n in _PARTS)])
    note = f"~: rests on guessed interrupts, {count(guessed)} in all" if guessed else ""
    return Table("Where the time goes", [text_column("median of"), *map(Column, _PARTS.values())], rows, note)


def _part(of: Distribution) -> str:
    """Return the median of a part, with a mark if any of its instants were guessed."""
    return f"{'~' if of.get('guessed') else ''}{duration(of['p50'])}"


def idle(found: Mapping[str, Any]) -> Table:
    """Idle power by state."""
    rows: list[Row] = []
    for level in found["levels"]:
        milli = level["mean_w"].known < 0.1
        declared = level["declared_max_w"]
        shares = {name.replace("L1_", "L1."): share for name, share in (level["link"] or {}).items() if share >= 0.005}
        rows.append(
            [
                str(level["label"]),
                figure(level["mean_w"], 1e3 if milli else 1.0, "mW" if milli else "W"),
                NOTHING if declared is None else (f"{declared * 1e3:g} mW" if declared < 0.1 else f"{declared:g} W"),
                duration(level["duration_s"], 3),
                duration(level["first_reached_s"], 3) if level["first_reached_s"] >= 1e-3 else "at once",
                ", ".join(f"{name} {share:.0%}" if share < 0.995 else name for name, share in shares.items()) or NOTHING,
                muted(level["how"]),
                muted(_some(level["phases"])),
            ]
        )
    columns = (
        text_column("state"),
        Column("power", leaves=6),
        Column("declared maximum", page_only=True),
        Column("seen for", short="for", leaves=3),
        Column("reached after", short="after", leaves=2),
        text_column("link", whole=True, leaves=5),
        text_column("state known by", leaves=4),
        text_column("phases", leaves=1),
    )
    explained = (
        "Steady levels while no command is in flight. What the host did not ask for is not visible on the link; such states are "
        "inferred from the level and say so."
    )
    return Table("Idle power", columns, rows, f"steady levels in gaps of {found['threshold_s'] * 1e3:g} ms and more", explained)


_QUANTITIES = {
    "max_power_w": ("maximum power", "W"),
    "idle_power_w": ("idle power", "W"),
    "active_power_w": ("active power", "W"),
    "entry_latency_s": ("entry latency", "s"),
    "exit_latency_s": ("exit latency", "s"),
}


def declared(found: Mapping[str, Any]) -> Table:
    """Return the table of the drive's declared power states beside the measured ones."""
    rows: list[Row] = []
    for state in found.get("states", ()):
        for key, judged in state["judged"].items():
            title, unit = _QUANTITIES[key]
            said, measured, verdict = judged["declared"], judged["measured"], str(judged["verdict"])
            if said is None:
                continue
            milli = unit == "s" or max(said or 0.0, measured.value or 0.0) < 0.1
            tone: Tone = "good" if verdict == "pass" else "bad" if verdict == "fail" else "muted"
            rows.append(
                [
                    f"PS{state['state']}",
                    title,
                    NOTHING if said is None else f"{said * (1e3 if milli else 1.0):g} {'m' if milli else ''}{unit}",
                    NOTHING if measured.value is None else figure(measured, 1e3 if milli else 1.0, f"{'m' if milli else ''}{unit}"),
                    toned(verdict, tone),
                    muted(judged["why"]),
                ]
            )
    columns = (
        text_column("state"),
        text_column("quantity"),
        Column("declared"),
        Column("measured"),
        text_column("verdict", whole=True),
        text_column("why", leaves=1),
    )
    explained = (
        "Maximum: of a state asleep its level, else the highest mean of work while the host had asked for this state, over a load or 10 s. "
        "Idle power: over 30 s after 10 s of idle (NVM Express Base 2.1, figure 313). Latencies: the longest. Pass, fail: below or above "
        "the declared figure by more than the uncertainty; conditional: closer, or with a doubt."
    )
    return Table("Power states, declared and measured", columns, rows, "only what the specification's own windows allow", explained)


def _percent(probability: float) -> str:
    return "> 99%" if probability > 0.99 else f"{probability:.0%}"


def states(found: Mapping[str, Any]) -> Table:
    """Table of the states, each with the time that the drive was in it."""
    times = found.get("time_s") or {}
    shares = found.get("share") or {}
    listed, every = len(found["spans"]), found.get("spans_total", len(found["spans"]))
    rows: list[Row] = []
    for label, time_s in times.items():
        spans = [s for s in found["spans"] if s["label"] == label]
        known = [(s["probability"], s["duration_s"]) for s in spans if s["probability"] is not None]
        weight = sum(d for _, d in known)
        drawn = [(s["mean_w"], s["duration_s"]) for s in spans if s["mean_w"] is not None]
        mean = sum(w * d for w, d in drawn) / sum(d for _, d in drawn) if drawn else None
        rows.append(
            [
                label,
                duration(time_s, 3),
                percent(shares[label], 1) if label in shares else NOTHING,
                NOTHING if not weight else _percent(sum(p * d for p, d in known) / weight),
                NOTHING if mean is None else si(mean, "W", 3),
                str(len(spans)) if listed == every else f"≥ {len(spans)}",
                muted(_some(list(dict.fromkeys(str(s["why"]) for s in spans)))),
            ]
        )
    columns = (
        text_column("state"),
        Column("for"),
        Column("share", leaves=3),
        Column("probability"),
        Column("level", leaves=2),
        Column("times", leaves=4),
        text_column("known by", leaves=1),
    )
    explained = (
        "Change points of the rail between commands, with the link's state, what the host asked for, and how long the next command "
        "waited. The share is of all of the capture's time. The probability is that the label is right, weighted by time; where the "
        "evidence is thin the label is unknown."
    )
    if listed < every:
        explained += f" Probability, level and times are of the first {listed} of {every} spans."
    return Table("Power states", columns, rows, "from change points of the rail, the link and the wire", explained)


def wakeups(groups: Sequence[Mapping[str, Any]]) -> Table:
    """Wake-up latency by state and class of command."""
    keys = ("extra_s", "to_fetch_s", "to_first_data_s", "link_exit_s", "from_clkreq_s")
    rows: list[Row] = [
        [
            str(group["state"]),
            muted(group["class"]),
            str(group["count"]),
            duration(group["idle_s_min"], 3),
            _latency(group["latency_s"], "p50"),
            _latency(group["latency_s"], "max"),
            *(duration(group[key]["median"]) if group[key] else NOTHING for key in keys),
        ]
        for group in groups
        if not group["class"].startswith(("marker", "admin"))
    ]
    columns = (
        text_column("from", whole=True),
        text_column("command"),
        Column("n", leaves=7),
        Column("idle ≥", page_only=True),
        Column("doorbell → CQE", leaves=8),
        Column("max", leaves=6),
        Column("extra", leaves=5),
        Column("to fetch", leaves=4),
        Column("to data", leaves=3),
        Column("link exit", short="link", leaves=1),
        Column("CLKREQ# → CQE", leaves=2),
    )
    explained = (
        "First command after idle. Extra: less the median of the same command in a stream. Link exit: CLKREQ# asserted until L0. "
        "Medians unless marked."
    )
    return Table("Wake-up", columns, rows, "first command after idle; extra: less the median of its class in a stream", explained)


def energy(phases: Phases) -> Table:
    """Energy per command in mixed loads; for a phase with a single class it is in the power table."""
    rows: list[Row] = []
    for phase in phases:
        each = phase.get("energy_per_command") or {}
        classes = each.get("classes", {})
        if len(classes) > 1 or any(" + " in name for name in classes):
            rows += [
                [str(phase["name"]), muted(name), figure(fig, 1e6, "µJ"), muted(str(fig.conditions.get("depth", NOTHING)))]
                for name, fig in classes.items()
            ]
    columns = (_PHASE, text_column("command"), Column("energy"), text_column("depth", leaves=1))
    explained = (
        "Above idle, told apart by the phases of the capture. Classes joined by + are not told apart: one figure for all of them. "
        "Depth: commands in flight, 10th and 90th percentile."
    )
    return Table("Energy per command in mixed loads", columns, rows, "above idle; joined by +: not told apart", explained)


def shares(phases: Phases) -> Table:
    """Return the table of the uses of each phase's energy; energy without an account has a column of its own."""
    rows = [
        [str(phase["name"]), *share_cells(found)]
        for phase in phases
        if (found := (phase.get("energy_per_command") or {}).get("shares")) and "absent" not in found
    ]
    return Table("Where the energy went", (_PHASE, *SHARE_COLUMNS), rows, "of each phase", SHARES_EXPLAINED)


def _given(fig: Figure | None, scale: float, unit: str) -> Cell:
    """Return a cell with a figure and its unit; an empty one without a value."""
    return cell(NOTHING) if fig is None or fig.value is None else figure(fig, scale, unit)


def alone(found: Alone) -> Table:
    """Energy of commands that stood alone, by class."""
    rows: list[Row] = []
    for name, one in found.get("classes", {}).items():
        spread = one.get("p10_j"), one.get("p90_j")
        low, high = (x.value for x in spread if x is not None) if None not in spread else (None, None)
        missing = one["median_j"].conditions.get("absent") or ", ".join(f"{n} x {why}" for why, n in one["refused"].items())
        rows.append(
            [
                name,
                f"{count(one['measured'])} of {count(one['count'])}",
                _given(one["mean_j"], 1e6, "µJ"),
                _given(one["median_j"], 1e6, "µJ"),
                NOTHING if low is None or high is None else f"{si(low, 'J', 3)} to {si(high, 'J', 3)}",
                f"±{si(one['each_u_j'], 'J', 2)}" if "each_u_j" in one else NOTHING,
                _given(one.get("back_s"), 1e6, "µs"),
                muted(str(missing)),
            ]
        )
    columns = (
        text_column("command", whole=True),
        Column("measured", leaves=7),
        Column("mean"),
        Column("median", leaves=6),
        Column("10 % to 90 %", leaves=4),
        Column("of one", leaves=5),
        Column("back after", leaves=2),
        text_column("not given", leaves=1),
    )
    explained = (
        f"Commands with nothing else in flight for {1e3 * found.get('quiet_s', 0.0):g} ms before and after: the rail above its baseline "
        "from the doorbell until it is back there. Of one: what a single command is known to. Back after: from the CQE."
    )
    return Table("Energy of commands that stood alone", columns, rows, "above the baseline, until the rail is back there", explained)


_WAKE_PARTS = {
    "clkreq": "CLKREQ#",
    "link": "link",
    "to_doorbell": "to doorbell",
    "fetch": "doorbell → fetch",
    "controller": "fetch → data",
    "data": "data",
    "settling": "settling",
}


def transitions(found: Sequence[Transition]) -> Table:
    """Return the table of the ways into and out of sleeping states, and the break-even idle time."""
    rows: list[Row] = [
        [
            one["state"],
            muted(one["class"]),
            str(one["count"]),
            _given(one["entry_s"], 1e3, "ms"),
            _given(one["entry_j"], 1e3, "mJ"),
            _given(one["exit_s"], 1e3, "ms"),
            _given(one["exit_j"], 1e3, "mJ"),
            _given(one["break_even_s"], 1e3, "ms"),
            muted(str(one["break_even_s"].conditions.get("absent") or one["break_even_s"].conditions.get("note") or "")),
        ]
        for one in found
    ]
    columns = (
        text_column("state", whole=True),
        text_column("woken by", leaves=3),
        Column("n", leaves=4),
        Column("entry", leaves=5),
        Column("its energy", leaves=7),
        Column("exit", leaves=6),
        Column("its energy", leaves=8),
        Column("break-even"),
        text_column("remark", leaves=1),
    )
    explained = (
        "Entry: from when the rail leaves the level of idle until it is at the state's, and what it drew above the state's. Exit: from the "
        "first sign of waking until the rail is at idle, and what it drew above that, less the command's own. Break-even: time asleep "
        "above which sleeping saves energy. An entry that draws as idle does is not seen."
    )
    return Table("Into sleep and out of it", columns, rows, "energies above the state's level, and above idle", explained)


def wake_parts(found: Sequence[Transition]) -> Table:
    """Time and energy of the parts of wake-ups."""
    rows: list[Row] = []
    for one in found:
        for part in one["parts"]:
            why = muted("not resolved") if part["j"].value is None else figure(part["j"], 1e6, "µJ")
            rows.append([one["state"], _WAKE_PARTS[part["name"]], _given(part["s"], 1e6, "µs"), why])
    columns = (text_column("from", whole=True), text_column("part"), Column("time"), Column("energy"))
    return Table("Parts of wake-ups", columns, rows, "means; energy of the rail, nothing subtracted")


def owed(phases: Phases) -> Table:
    """Return the table of the work that phases with writes left to the drive, and their efficiency including it."""
    rows: list[Row] = []
    for phase in phases:
        left = phase.get("owed")
        if left is None:
            continue
        if "absent" in left:
            rows.append([str(phase["name"]), *[NOTHING] * 7, muted(left["absent"])])
            continue
        bound, own = "" if left["back"] else "≥ ", phase["efficiency"]
        remark = str(left["energy_j"].conditions.get("note") or left["energy_j"].conditions.get("baseline") or "")
        rows.append(
            [
                str(phase["name"]),
                cell(bound, _given(left["energy_j"], 1e3, "mJ")),
                f"{100 * left['share'].known:z.3g} %" if left.get("share") and left["share"].value is not None else NOTHING,
                duration(left["back_s"], 3) if left["back"] else f"> {duration(left['rest_s'], 3)}",
                figure(own.get("mb_per_j")),
                cell("" if left["back"] else "≤ ", figure(left.get("mb_per_j"))),
                figure(own.get("j_per_gb")),
                cell(bound, figure(left.get("j_per_gb"))),
                muted(remark),
            ]
        )
    columns = (
        _PHASE,
        Column("owed"),
        Column("of all", leaves=4),
        Column("back after", leaves=3),
        Column("MB/J", leaves=6),
        Column("MB/J with it", leaves=8),
        Column("J/GB", leaves=5),
        Column("J/GB with it", leaves=7),
        text_column("remark", leaves=1),
    )
    explained = (
        "What the drive drew above its baseline after the writes, until it was back there: folding, collection, an emptying buffer. "
        "With it: efficiency with that booked to the writes."
    )
    return Table("Energy owed after writes", columns, rows, "drawn after the writes, until the drive is back at its baseline", explained)


def truth_faults(commands: Mapping[str, Any]) -> list[str]:
    """Return the faults of the records, one line each."""
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


def truth(found: Mapping[str, Any] | None) -> Table:
    """Power and energy compared with the model's truth; :func:`truth_lines` has the rest of the comparison."""
    rows: list[Row] = []
    for row in (found or {}).get("phases", ()):
        cells = [NOTHING] * 4
        if "energy_error" in row:
            cells = [
                si(row["energy_truth_j"], "J", 5),
                percent(row["energy_error"], 4, sign=True),
                signed(row["mean_error_w"], "W"),
                si(row["mean_limit_w"], "W", 3),
            ]
        rows.append([str(row["name"]), *cells, _verdict(row["pass"])])
    columns = (
        _PHASE,
        Column("energy, truth", leaves=1),
        Column("error", leaves=4),
        Column("mean power, error", leaves=3),
        Column("limit", leaves=2),
        text_column(whole=True),
    )
    return Table("Against the model's truth", columns, rows, "limits 0.2 %, 0.1 % + 5 µA, 1 tick")


def truth_lines(found: Mapping[str, Any] | None) -> list[Cell]:
    """Timestamps and wake-ups compared with the model's truth, one line each."""
    if not found:
        return []
    lines = []
    commands, indent = found["commands"], " " * 18
    if commands:
        text = (
            f"{count(commands['paired'])} of {count(commands['truth'])} commands paired, 7 instants each: "
            f"largest distance {commands['max_ticks']:g} ticks, "
            f"{count(commands['instants_missing_or_extra'])} instants missing or extra"
        )
        lines.append(cell("timestamps  ", _verdict(commands["pass"]), f"  {text}"))
        late = commands["instants"]["msix"]["after_release"]
        if late:
            lines.append(muted(f"{indent}{late} interrupts after their CQE was released: not compared"))
        lines += [toned(indent + fault, "bad") for fault in truth_faults(commands)]
    for wake in found["wakeups"]:
        text = str(wake.get("absent", ""))
        if "error_s" in wake:
            text = f"{duration(wake['measured_s'], 6)}, error {signed(wake['error_s'], 's')}"
            text += f", limit {duration(wake['limit_s'], 3)}; state {wake['state']}, truth PS{wake['true_state']}"
        lines.append(cell("wake-up     ", _verdict(wake["pass"]), f"  {wake['name']}: {text}"))
    return lines


def fio(found: Mapping[str, Any] | None) -> Table:
    """Comparison with fio."""
    rows: list[Row] = [
        [
            str(section["name"]),
            str(row["opcode"]),
            *(count(row[k]) for k in ("wire_count", "fio_count", "wire_bytes", "fio_bytes")),
            muted("void") if row["equal"] is None else _verdict(row["equal"], "equal", "DIFFERS"),
            NOTHING if row["latency_ok"] is None else _verdict(row["latency_ok"], "≤ fio", "> fio"),
        ]
        for section in (found or {}).get("sections", ())
        for row in section["rows"]
    ]
    columns = (
        _PHASE,
        text_column("opcode", whole=True, leaves=6),
        Column("wire", leaves=5),
        Column("fio", leaves=4),
        Column("wire bytes", leaves=2),
        Column("fio bytes", leaves=1),
        text_column("equal", whole=True, leaves=7),
        text_column("latency at QD1", short="latency", whole=True, leaves=3),
    )
    return Table("Against fio", columns, rows)


def fio_account(found: Sequence[Mapping[str, Any]]) -> Table:
    """The phases by fio's own account."""
    rows: list[Row] = [
        [
            str(entry["name"]),
            *(figure(entry[name]) for name in ("mb_per_s", "iops")),
            NOTHING if entry["mean_latency_s"].value is None else duration(entry["mean_latency_s"].value),
            *(figure(entry[name]) for name in _EFFICIENCY),
        ]
        for entry in found
    ]
    columns = (
        _PHASE,
        Column("MB/s"),
        Column("IOPS", leaves=2),
        Column("mean latency", leaves=4),
        Column("MB/J"),
        Column("IOPS/W", leaves=1),
        Column("J/GB", leaves=3),
    )
    return Table("By fio's own account", columns, rows, note="nobody saw the commands: rates are fio's, over the whole phase")


def all_tables(result: Analysis, looks: Looks | None = None) -> dict[str, Table]:
    """All tables for which the analysis has data, in order. ``looks``: how the charts draw the phases."""
    phases, looks = phases_or_whole(result), looks or {}
    made = {
        "workloads": workloads(phases, looks, str(result["commands"]["all"]["latency_s"]["from"])),
        "power": power(phases, looks),
        "bursts": bursts(phases, looks),
        "latencies": latencies(result["commands"]),
        "splits": splits(result["commands"]),
        "idle": idle(result["idle"]),
        "states": states(result["power_states"]),
        "declared": declared(result["power_states"]),
        "wakeups": wakeups(result["wakeup"]["by_state"]),
        "energy": energy(result["phases"]),
        "shares": shares(result["phases"]),
        "owed": owed(result["phases"]),
        "alone": alone(result["alone"]),
        "transitions": transitions(result["wakeup"]["transitions"]),
        "wake_parts": wake_parts(result["wakeup"]["transitions"]),
        "truth": truth(result.get("truth")),
        "fio": fio(result.get("fio")),
        "fio_account": fio_account(result.get("fio_account") or ()),
    }
    return {name: table for name, table in made.items() if table.rows or (name == "truth" and result.get("truth"))}
