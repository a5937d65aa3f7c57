"""The tables of the report as HTML.

What is ``Markup`` is HTML; any other string is text, and is escaped wherever it meets HTML (markupsafe).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from wattbell.analysis.names import size_text
from wattbell.analysis.text import NOTHING, concise, count, digits, duration, si, signed, size_bytes
from wattbell.measure.latency import QUANTILES
from wattbell.present.capture.tables import phase_kind, truth_faults
from wattbell.present.colours import Look

Row = Sequence[str]
BREAK = Markup("<br>")


def table(head: Sequence[str], rows: Sequence[Row], left: int = 1) -> Markup:
    """A table; cells are text, or Markup. The first ``left`` columns are set left."""
    if not rows:
        return Markup()

    def cells(tag: str, values: Row) -> Markup:
        pattern = (Markup(f"<{tag} class=l>{{}}</{tag}>"), Markup(f"<{tag}>{{}}</{tag}>"))
        return Markup().join(pattern[i >= left].format(v) for i, v in enumerate(values))

    body = Markup().join(Markup("<tr>{}</tr>").format(cells("td", row)) for row in rows)
    outer = Markup("<div class=wide><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>")
    return outer.format(cells("th", head), body)


def span(kind: str, text: str) -> Markup:
    """``text`` in a span of this class: ``u`` (in grey), ``pass``, ``fail``."""
    return Markup("<span class={}>{}</span>").format(kind, text)


def pair(fig: Mapping[str, Any] | None, scale: float = 1.0) -> Markup:
    """A figure with its uncertainty in the last digits; ``!`` where something was lost under it."""
    head, paren, tail = concise(fig, scale).partition("(")
    return escape(head) + (span("u", paren + tail) if paren else "") + _lost(fig)


def plain(fig: Mapping[str, Any] | None) -> Markup:
    """A figure to four digits; ``!`` where something was lost under it."""
    if fig is None or fig.get("value") is None:
        return escape(NOTHING)
    return escape(digits(float(fig["value"]), 4)) + _lost(fig)


def _lost(fig: Mapping[str, Any] | None) -> Markup:
    return span("fail", "!") if fig and fig.get("lost") else Markup()


def _lat(latency: Mapping[str, Any], key: str) -> str:
    bound = "≥ " if latency.get("lower_bound") and key in ("mean", "max") else ""
    return NOTHING if latency.get(key) is None else bound + duration(latency[key])


def _name(phase: Mapping[str, Any], looks: Mapping[int, Look], i: int) -> Markup:
    dot = Markup()
    if i in looks:
        dot = Markup('<span class="dot{}" style="color:{}"></span>').format(" hollow" if looks[i].dashed else "", looks[i].colour)
    return dot + str(phase["name"])


def workloads(phases: Sequence[Mapping[str, Any]], looks: Mapping[int, Look]) -> Markup:
    """Rates and latency by phase."""
    rows = []
    for i, phase in enumerate(phases):
        if not phase["rates"]["count"] or phase["kind"] == "wake":
            continue
        latency, depth = phase["commands"]["all"]["latency_s"], phase["queue_depth"]["mean_busy"]
        rows.append(
            [
                _name(phase, looks, i),
                span("u", phase_kind(phase)),
                count(phase["rates"]["count"]),
                size_bytes(phase["rates"]["bytes"]),
                f"{depth:.2f}",
                plain(phase["rates"].get("mb_per_s")),
                plain(phase["rates"].get("iops")),
                *(_lat(latency, k) for k in ("mean", "p50", "p99", "p99_9", "max")),
            ]
        )
    head = ("phase", "load", "commands", "data", "QD", "MB/s", "IOPS", "mean", "p50", "p99", "p99.9", "max")
    return table(head, rows, 2)


def power(phases: Sequence[Mapping[str, Any]], looks: Mapping[int, Look]) -> Markup:
    """Power, energy and efficiency by phase."""
    rows = []
    for i, phase in enumerate(phases):
        p, e = phase["power"], phase["efficiency"]
        if "mean_w" not in p:
            continue
        useful = phase["kind"] != "wake" and "absent" not in e
        each = list((phase.get("energy_per_command") or {}).get("classes", {}).values())
        rows.append(
            [
                _name(phase, looks, i),
                pair(p["mean_w"]),
                pair(p.get("active", {}).get("mean_w")) if useful else NOTHING,
                plain(p["max_moving_w"]["100us"]),
                plain(p["max_moving_w"]["100ms"]),
                pair(p["energy_j"]),
                *(plain(e.get(k)) if useful else NOTHING for k in ("mb_per_s_per_w", "iops_per_w", "j_per_gb")),
                pair(each[0], 1e6) if useful and len(each) == 1 else NOTHING,
            ]
        )
    watts = ("mean, W", "active, W", "max 100 µs, W", "max 100 ms, W")
    return table(("phase", *watts, "energy, J", "MB/s/W", "IOPS/W", "J/GB", "µJ/command"), rows)


def bursts(phases: Sequence[Mapping[str, Any]], looks: Mapping[int, Look]) -> Markup:
    """Both readings of the rate of a duty-cycled load."""
    rows = []
    for i, phase in enumerate(phases):
        found, rate = phase["rates"].get("bursts"), phase["rates"]
        if not found or phase["kind"] == "wake":
            continue
        values = (pair(found["mb_per_s_mean_of_bursts"]), plain(rate["mb_per_s"]), plain(rate["mb_per_s_whole"]))
        rows.append([_name(phase, looks, i), str(found["count"]), f"{found['duty']:.0%}", *values])
    rates = ("mean of bursts, MB/s", "data / active time, MB/s", "idle included, MB/s")
    return table(("phase", "bursts", "duty", *rates), rows)


def latencies(commands: Mapping[str, Any]) -> Markup:
    """Percentiles by opcode and size, whole capture."""
    by_opcode = commands["by_opcode"]
    keys = ["mean", *(q for q, _ in QUANTILES if any(e["latency_s"][q] is not None for e in by_opcode.values())), "max"]
    rows = []
    for name, entry in by_opcode.items():
        sizes = commands["by_opcode_size"].get(name, {})
        items = [(str(name), entry)]
        if len(sizes) > 1:
            items += [(f"\u2003{size_text(int(s)) if s.isdigit() else s}", sizes[s]) for s in list(sizes)[:12]]
        for label, item in items:
            errors = span("fail", count(item["errors"])) if item["errors"] else "0"
            latency = [_lat(item["latency_s"], k) for k in keys]
            rows.append([label, count(item["count"]), size_bytes(item["bytes"]), errors, *latency])
    return table(("command", "count", "data", "errors", *(k.replace("_", ".") for k in keys)), rows)


def splits(commands: Mapping[str, Any]) -> Markup:
    """Where the latency goes: median of each part by opcode."""
    names = ("doorbell_to_fetch", "fetch_to_first_data", "data", "last_data_to_cqe", "cqe_to_msix", "cqe_to_cq_head")
    heads = ("doorbell → fetch", "fetch → data", "data", "data → CQE", "CQE → MSI-X", "CQE → CQ head")
    rows = []
    for opcode, entry in commands["by_opcode"].items():
        parts = entry.get("splits_s") or {}
        rows.append([opcode, *(duration(parts[n]["p50"]) if n in parts else NOTHING for n in names)])
    return table(("median of", *heads), rows)


def idle(levels: Sequence[Mapping[str, Any]]) -> Markup:
    """Idle power by state."""
    rows = []
    for level in levels:
        milli = float(level["mean_w"]["value"]) < 0.1
        shares = level["link"] or {}
        link = ", ".join(f"{n.replace('L1_', 'L1.')} {s:.0%}" for n, s in shares.items() if s >= 0.005) or NOTHING
        declared = level["declared_max_w"]
        reached = "at once" if level["first_reached_s"] < 1e-3 else duration(level["first_reached_s"], 3)
        rows.append(
            [
                str(level["label"]),
                span("u", level["how"]),
                pair(level["mean_w"], 1e3 if milli else 1.0) + (" mW" if milli else " W"),
                NOTHING if declared is None else (f"{declared * 1e3:g} mW" if declared < 0.1 else f"{declared:g} W"),
                duration(level["duration_s"], 3),
                reached,
                link,
                span("u", ", ".join(level["phases"][:4])),
            ]
        )
    head = ("state", "state known by", "power", "declared maximum", "seen for", "reached after", "link", "phases")
    return table(head, rows, 2)


def wakeups(groups: Sequence[Mapping[str, Any]]) -> Markup:
    """Wake-up latency by state and class of command; every reading."""

    def median(group: Mapping[str, Any], key: str) -> str:
        return duration(group[key]["median"]) if group[key] else NOTHING

    keys = ("extra_s", "to_fetch_s", "to_first_data_s", "link_exit_s", "from_clkreq_s")
    rows = [
        [
            str(g["state"]),
            str(g["class"]),
            str(g["count"]),
            f"{duration(g['idle_s_min'], 3)}",
            _lat(g["latency_s"], "p50"),
            _lat(g["latency_s"], "max"),
            *(median(g, k) for k in keys),
        ]
        for g in groups
        if not g["class"].startswith(("marker", "admin"))
    ]
    parts = ("extra", "to fetch", "to data", "link exit", "CLKREQ# → CQE")
    return table(("from", "command", "n", "idle ≥", "doorbell → CQE", "max", *parts), rows, 2)


def checks(truth: Mapping[str, Any] | None) -> Markup:
    """Comparison with the model's truth."""
    if not truth:
        return Markup()
    verdict = {True: span("pass", "pass"), False: span("fail", "FAIL")}
    rows = []
    for row in truth["phases"]:
        cells = [NOTHING] * 4
        if "energy_error" in row:
            cells = [
                si(row["energy_truth_j"], "J", 5),
                f"{row['energy_error'] * 100:+.4f} %",
                signed(row["mean_error_w"], "W"),
                si(row["mean_limit_w"], "W", 3),
            ]
        rows.append([str(row["name"]), *cells, verdict[bool(row["pass"])]])
    out = table(("phase", "energy, truth", "error", "mean power, error", "limit", ""), rows)
    instants = truth["commands"]
    if instants:
        out += Markup("<p>Timestamps: {}. {}</p>").format(
            verdict[bool(instants["pass"])],
            f"{count(instants['paired'])} of {count(instants['truth'])} commands paired, seven instants each, largest distance "
            f"{instants['max_ticks']:g} ticks. {'; '.join(truth_faults(instants))}",
        )
    for wake in truth["wakeups"]:
        text = wake.get("absent", "")
        if "error_s" in wake:
            text = f"{duration(wake['measured_s'], 6)}, error {signed(wake['error_s'], 's')}"
        out += Markup("<p>Wake-up, {}: {}. {}</p>").format(wake["name"], verdict[bool(wake["pass"])], text)
    return out


def fio(found: Mapping[str, Any] | None) -> Markup:
    """Comparison with fio."""
    if not found:
        return Markup()
    rows = []
    for section in found["sections"]:
        for row in section["rows"]:
            equal = span("pass", "equal") if row["equal"] else span("fail", "DIFFERS")
            lat = {None: escape(NOTHING), True: span("pass", "≤ fio")}.get(row["latency_ok"], span("fail", "> fio"))
            numbers = (count(row[k]) for k in ("wire_count", "fio_count", "wire_bytes", "fio_bytes"))
            rows.append([str(section["name"]), str(row["opcode"]), *numbers, equal, lat])
    return table(("phase", "opcode", "wire", "fio", "wire bytes", "fio bytes", "", "latency at QD1"), rows, 2)
