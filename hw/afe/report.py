"""The generated part of docs/front-end.md, and its picture."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

from .budget import CONDITIONS, COVERAGE, DECADES_A, current_terms, expanded, limit, power, pulse
from .parts import FOLDER, AfePart
from .population import AUTOZERO_S, CURRENTS_A, LIMIT_A, LIMIT_ENERGY, LIMIT_GAIN, READING_S, SCENARIOS, Measured
from .selftest import EDGES, STEP_A, leakage

__all__ = ["BEGIN", "DOCS", "END", "PICTURE", "draw", "tables", "write_docs"]

DOCS = FOLDER.parents[1] / "docs" / "front-end.md"
PICTURE = FOLDER.parents[1] / "docs" / "img" / "afe-boards.svg"
BEGIN, END = "<!-- generated: python -m afe --docs -->", "<!-- end of generated -->"
SHOWN_A = (1e-4, 1e-2, 1.0, 4.0)
IDLE_W = (0.003, 0.005, 0.01, 0.03, 0.05, 0.1)
NOTABLE = 0.005
PULSES = ((0.1, 1e-4), (1.0, 1e-4), (3.0, 1e-4))


def si(value: float, unit: str, digits: int = 3) -> str:
    """``2.9 uA`` of 2.9e-6, "A"."""
    rounded = float(f"{value:.{digits - 1}e}")
    prefix, scale = next((p for p in (("", 1.0), ("m", 1e-3), ("u", 1e-6)) if abs(rounded) >= p[1]), ("n", 1e-9))
    return f"{float(f'{rounded / scale:.{digits}g}'):g} {prefix}{unit}"


def percent(share: float) -> str:
    """Two digits, never an exponent."""
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def tables(parts: dict[str, AfePart], results: dict[str, Any], readings: dict[str, list[list[Measured]]]) -> str:
    """Return all text between the marks."""
    density = results["noise"]["fine"]["density_1khz"]
    return "\n\n".join(
        [
            "## Noise, bandwidth, delay (decks)",
            _paths(results),
            "## What the drive's own capacitors do to an edge (decks)",
            _edges(parts, results),
            "## Overload and common mode (decks)",
            _overload(results),
            "## Budget of a mean current over 1 s, k = 2, by decade",
            _budget(parts, density),
            "## What figures from memory may take",
            _from_memory(parts, density),
            "## Idle power, and a wake-up pulse",
            _idle(parts, density),
            f"## {len(next(iter(readings.values())))} random boards, calibrated",
            _boards(readings),
            _skew(results),
            "## The self-test's load (deck)",
            _load(parts, results),
        ]
    )


def _paths(results: dict[str, Any]) -> str:
    rows = []
    for path, unit in (("coarse", "A"), ("fine", "A"), ("voltage", "V")):
        noise, band = results["noise"][path], results["bandwidth"][path]
        means = [si(noise[f"mean_{s}s"], unit) if f"mean_{s}s" in noise else "" for s in ("0.0001", "0.001", "1")]
        rows.append(
            [
                path,
                si(noise["rms"], unit),
                f"{noise['rms_lsb']:.3g}",
                *means,
                f"{band['corner_hz'] / 1e3:.1f} kHz",
                f"{band['delay_s'] * 1e9:.0f} ns",
            ]
        )
    return table(["path", "noise of a conversion, RMS", "in codes", "of a mean over 100 us", "1 ms", "1 s", "-3 dB", "delay"], rows)


def _edges(parts: dict[str, AfePart], results: dict[str, Any]) -> str:
    rows = [
        [
            name,
            si(e["connector_delay_s"], "s"),
            si(e["connector_rise_s"], "s"),
            si(e["coarse_rise_s"], "s"),
            f"{e['pulse_peak']:.3f} A",
            f"{100 * e['within']:.1f} %",
            si(e["until_999_s"], "s"),
        ]
        for name, e in results["edges"].items()
    ]
    rail = parts["rail"]
    board = rail.copper_before + rail.copper_behind
    resistance = rail.source_resistance + board + parts["load_switch"].resistance + parts["shunt"].resistance
    return (
        f"The capacitors discharge and recharge through {resistance * 1e3:.1f} mohm: {parts['shunt'].resistance * 1e3:.0f} mohm of the "
        f"shunt, {board * 1e3:.0f} mohm that the board's copper may have, and the supply's 15 mohm (assumed). Contacts add to it. "
        "A step reaches the connector late by this resistance times the capacitance. "
        "A pulse of 1 A for 100 us keeps its charge, but a part of the charge follows after the 100 us. The drive causes this, not the "
        "rig; the rig's filter adds its 2 us.\n\n"
        + table(
            [
                "drive's capacitors",
                "delay at the connector",
                "rise 10 to 90 %",
                "the same at the converter",
                "peak of a 1 A pulse of 100 us",
                "of its charge within 100 us",
                "99.9 % of it after",
            ],
            rows,
        )
    )


def _overload(results: dict[str, Any]) -> str:
    rows = [
        [f"4 A to {name}", *(si(entry[key], "s") for key in ("fine_s", "coarse_s", "linear_s"))]
        for name, entry in results["overload"].items()
    ]
    cm = results["common_mode"]
    return (
        "Time until a path is within 0.1 % of the fine path's full scale (0.11 mA) of its final value:\n\n"
        + table(["from, to", "fine path, saturated", "coarse path", "one pole of 2 us, which cannot saturate"], rows)
        + "\n\nThe fine path recovers before the coarse one: it starts from its clamp, not from 4 A. A rail that moves by 165 mV "
        f"causes a false current of at most {si(abs(cm['coarse_rail_step_a']), 'A', 2)} in the coarse path "
        f"and {si(abs(cm['fine_rail_step_a']), 'A', 2)} in the fine one."
    )


def _budget(parts: dict[str, AfePart], density: float) -> str:
    rows = []
    for current in DECADES_A:
        uncertain = [expanded(current_terms(parts, density, current, c), current) for c in CONDITIONS]
        goal = limit(current)
        rows.append(
            [
                si(current, "A"),
                *(si(u, "A", 2) for u in uncertain),
                si(goal, "A"),
                ", ".join("yes" if u <= goal else "**no**" for u in uncertain[1:]),
            ]
        )
    largest = []
    for current in (1e-3, 1.0, 4.0):
        terms = sorted(current_terms(parts, density, current, CONDITIONS[2]), key=lambda t: -t.at(current))[:3]
        largest.append(f"at {si(current, 'A')}: " + ", ".join(f"{t.name} ({si(2 * t.at(current), 'A', 2)})" for t in terms))
    return (
        table(["current", *(c.name for c in CONDITIONS), "goal", "holds (calibrated columns)"], rows)
        + "\n\nThe largest terms, calibrated, 0..50 C:\n\n"
        + "".join(f"- {terms}\n" for terms in largest)
        + f"\nThe 5 uA depend on the temperature difference across the shunt: {parts['shunt'].gradient:g} K is assumed, "
        f"{_largest_gradient(parts, density):.2f} K would use them up."
    )


def _largest_gradient(parts: dict[str, AfePart], density: float) -> float:
    """The temperature difference across the shunt (k = 1, in K) at which the offset goal is used up."""
    terms = current_terms(parts, density, 0.0, CONDITIONS[2])
    others = sum(t.absolute**2 for t in terms if t.name != "shunt, thermal voltage")
    return math.sqrt((LIMIT_A / COVERAGE) ** 2 - others) * parts["shunt"].resistance / parts["shunt"].thermal_emf


def _from_memory(parts: dict[str, AfePart], density: float) -> str:
    cases = [(1e-3, CONDITIONS[2]), (1.0, CONDITIONS[2]), (1.0, CONDITIONS[3])]
    before = [expanded(current_terms(parts, density, current, condition), current) for current, condition in cases]
    rows, others = [], []
    for name, part in parts.items():
        for key, figure in part.figures.items():
            if figure.source != "unconfirmed":
                continue
            worse = parts | {name: replace(part, figures=part.figures | {key: replace(figure, value=2 * figure.value)})}
            after = [expanded(current_terms(worse, density, current, condition), current) for current, condition in cases]
            more = [b / a - 1 for a, b in zip(before, after)]
            if max(more) >= NOTABLE:
                rows.append((max(more), [f"{name}, {key}", *(f"+{100 * x:.1f} %" for x in more)]))
            else:
                others.append(f"{name} {key}")
    rows.sort(key=lambda row: -row[0])
    return (
        "Figures that nobody looked up (`unconfirmed` in `parts.toml`), and the increase of a budget where one is twice as large:\n\n"
        + table(["figure", *(f"{si(current, 'A')}, {condition.name}" for current, condition in cases)], [row for _, row in rows])
        + f"\n\nBelow {100 * NOTABLE:g} % or not in this budget: {', '.join(others)}."
    )


def _idle(parts: dict[str, AfePart], density: float) -> str:
    rows = [[si(w, "W"), *(f"{si(u := power(parts, density, w, c), 'W', 2)} ({percent(u / w)})" for c in CONDITIONS)] for w in IDLE_W]
    idle = table(["mean power over 1 s", *(c.name for c in CONDITIONS)], rows)
    rows = []
    for current, seconds in PULSES:
        p = pulse(parts, density, current, seconds, CONDITIONS[2])
        rows.append(
            [
                f"{current:g} A, {si(seconds, 's')}",
                si(p["energy_j"], "J"),
                *(percent(p[key]) for key in ("noise", "offset", "gain", "all")),
                "yes" if p["all"] <= LIMIT_ENERGY else "**no**",
            ]
        )
    return idle + "\n\n" + table(["pulse at 3.3 V", "energy", "noise", "offset", "gain", "all, k = 2", "within 0.2 %"], rows)


def _boards(readings: dict[str, list[list[Measured]]]) -> str:
    rows = []
    for n, current in enumerate(CURRENTS_A):
        row = [si(current, "A") if current else "0 A", si(limit(current), "A")]
        for scenario in SCENARIOS:
            boards = [board[n] for board in readings[scenario.name]]
            inside = sum(abs(m.error) <= limit(current) for m in boards)
            energy = sum(abs(m.power_error) <= 3.3 * (LIMIT_ENERGY * current + LIMIT_A) for m in boards)
            worst = max(abs(m.error) for m in boards)
            row.append(f"{inside}, {energy} ({si(worst, 'A', 2)})")
        rows.append(row)
    return (
        "Boards within the goals for current, and for power (0.2 % + 5 uA x 3.3 V), of those drawn; worst error in brackets. A reading "
        f"is a mean over {READING_S:g} s; the autozero takes {AUTOZERO_S:g} s and is repeated after a change of 1 K.\n\n"
        + table(["current", "limit", *(s.name for s in SCENARIOS)], rows)
        + f"\n\n![Errors of calibrated boards against the limit](img/{PICTURE.name})"
    )


def _skew(results: dict[str, Any]) -> str:
    rows = []
    for path, entry in results["skew"].items():
        spread = 2 * entry["spread"]
        row = [path, f"{1e9 * spread:.0f} ns", "yes" if spread <= 50e-9 else "**no**", f"{1e9 * entry['drift']:.0f} ns"]
        if "found_sigma" in entry:
            left = abs(entry["found_error"]) + 2 * entry["found_sigma"]
            row += [
                f"{1e9 * entry['found_error']:+.2f} ns +-{2e9 * entry['found_sigma']:.2f} ns",
                "yes" if left + entry["drift"] <= 50e-9 else "**no**",
            ]
        else:
            row += ["not measured", "as before"]
        rows.append(row)
    return (
        f"Delay of a path relative to the bus. The self-test switches a load ({STEP_A['coarse']:g} A, {STEP_A['fine'] * 1e3:g} mA for "
        "the fine path) with no drive in the connector, because a drive's capacitors would smear the edge. The host "
        f"superimposes {EDGES} edges (`wattbell.rig.calibration.edge_delay`), here on simulated samples with the path's poles and "
        "noise. Bandwidths are assumed to change by 0.2 %/K.\n\n"
        + table(
            [
                "path",
                "spread of boards, k = 2",
                "within 50 ns as built",
                "drift over 25 K",
                "error of the self-test's result, its k = 2",
                "within 50 ns after it",
            ],
            rows,
        )
    )


def _load(parts: dict[str, AfePart], results: dict[str, Any]) -> str:
    rows = []
    for name, edge in results["load_edges"].items():
        on, off = edge["on_delay_s"], edge["off_delay_s"]
        row = [name, si(edge["current_a"], "A"), *(f"{1e9 * x:.1f} ns" for x in (on, off, (on + off) / 2))]
        row += [f"{1e9 * edge['on_rise_s']:.1f}, {1e9 * edge['off_rise_s']:.1f} ns"]
        row += [f"{100 * edge['on_overshoot']:.1f}, {100 * edge['off_overshoot']:.1f} %"]
        rows.append([*row, f"{si(edge['on_settled_s'], 's')}, {si(edge['off_settled_s'], 's')}"])
    leaks = ", ".join(f"{si(leak, 'A', 2)} at {celsius} C" for celsius, leak in results["load_leakage"].items())
    alone = ", ".join(si(leakage(parts, celsius), "A", 2) for celsius in results["load_leakage"])
    return (
        "From the input of the gate's buffer to the current's edge at the shunt. The self-test adds the mean of on and off to a path's "
        "delay without knowing it; half of their difference is in its uncertainty. A host's rail that gives way (assumed) makes the "
        "current sag. The self-test takes this for delay when the load is switched on, not when it is switched off.\n\n"
        + table(["load", "current", "late, on", "late, off", "mean", "10 to 90 %, on, off", "overshoot", "within 0.1 %"], rows)
        + f"\n\nLeakage of one load that is off, as the shunt sees it: at most {leaks}. One transistor in place of two and their "
        f"guard would leak {alone}. Transistors' limits by data sheet, of a sister type."
    )


def draw(readings: dict[str, list[list[Measured]]], path: Path = PICTURE) -> None:
    """Histograms of error over limit, a column a current, with the limits drawn in. The same readings give the same bytes."""
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "wattbell"
    from matplotlib import pyplot

    shown = [s.name for s in SCENARIOS[:2]]
    figure, axes = pyplot.subplots(1, len(SHOWN_A), figsize=(11, 2.8), sharey=True, layout="constrained")
    for axis, current in zip(axes, SHOWN_A):
        n = CURRENTS_A.index(current)
        for name, style in zip(shown, ({"alpha": 0.6}, {"histtype": "step", "linewidth": 1.4, "color": "black"})):
            ratios = [board[n].error / limit(current) for board in readings[name]]
            axis.hist(ratios, bins=[k / 20 for k in range(-24, 25)], label=name, **style)
        for side in (-1, 1):
            axis.axvline(side, color="crimson", linewidth=1)
        axis.set(title=si(current, "A"), xlabel=f"error / ({100 * LIMIT_GAIN:g} % + {LIMIT_A * 1e6:g} uA)", xlim=(-1.2, 1.2))
    axes[0].set_ylabel("boards")
    axes[0].legend(fontsize=7, loc="upper center")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def write_docs(text: str, path: Path = DOCS) -> None:
    """Put ``text`` between the marks of a document; raises ValueError where it has lost them."""
    before, mark, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"{path} has lost its marks {BEGIN!r} and {END!r}; put them back where the tables go.")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
