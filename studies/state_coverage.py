#!/usr/bin/env python3
"""Are power states found right, and are their probabilities? Tables for docs/energy-coverage.md.

Random sequences of idle times, power states, APST, ASPM and loads run on models of all drives, seen at three rates. The analysis has the
tap, or no states of the link, or commands of a host's log, or the rail alone.

    state_coverage.py [--workloads 60] [--first 1] [--processes 2] [--json FILE] [--check]

Every second workload runs on a drive drawn around its profile: a factor changes the power of each state and of the link, and the
declarations stay. --check: fail when less than 85 % of the labels with 0.9 and more are right, in any column, or less than 90 % in all.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell.analysis.analyze import states_of
from wattbell.analysis.context import AER, IDLE_MIN_S, Context, idle_times, load
from wattbell.analysis.result import PowerStates
from wattbell.capture import open_capture
from wattbell.measure.table import NONE, Commands
from wattbell.virtual.fidelity import Fidelity
from wattbell.virtual.model import ModelRun, run_model
from wattbell.virtual.profiles import find_profile, known_profiles
from wattbell_spec.wire import EventType

from studies.energy_coverage import Silence, steadfast

Int64 = npt.NDArray[np.int64]
ROOT = Path(__file__).resolve().parents[1]
INTERVALS_S = (1e-6, 4e-6, 50e-6)
SIGHTS = ("tap", "no link states", "host's log", "rail alone")
GRID_S = 2.5e-4
"""Truth and labels are compared at instants this far apart."""
STEPS = 9
SPREAD = 0.25
"""Sigma of the logarithm of a drawn drive's powers over its profile's."""
WANTED, WANTED_IN_ALL = 0.85, 0.90
LINK_EVENTS = (EventType.LINK, EventType.CLKREQ, EventType.LINK_STATE)
RAIL_STEP_S = 2e-5
"""Step in s of the rail, which fast fidelity gives as means: true changes are known to half a step."""
NEAR_S = 0.02
"""A found boundary is compared with a true change this near."""


@dataclass
class Seen:
    """One capture with one sight.

    time_s: by true and found label
    labels: of labels from the rail: probability, share of its time that was right, length in s
    boundaries: error and bound in s
    """

    seed: int
    profile: str
    drawn: bool
    interval_s: float
    sight: str
    time_s: dict[str, dict[str, float]] = field(default_factory=dict)
    labels: list[tuple[float, float, float]] = field(default_factory=list)
    boundaries: list[tuple[float, float]] = field(default_factory=list)
    right_s: float = 0.0
    unknown_s: float = 0.0
    all_s: float = 0.0


def plan(seed: int, states: int, folder: Path) -> Path:
    """Idle times of 0.1 to 3 s, with and without APST and ASPM, in states asked for; loads and wake-ups between them."""
    chance = random.Random(seed)
    steps = ['condition = "test-data"']
    for number in range(STEPS):
        asked = chance.randrange(states) if chance.random() < 0.35 else 0
        settings = (
            f'apst = {"true" if chance.random() < 0.6 else "false"}\naspm = "{chance.choice(("off", "l1", "l1.2", "l1.2"))}"\nps = {asked}'
        )
        kind = chance.random()
        if kind < 0.3:
            load, size, depth = (
                chance.choice(("randread", "randwrite", "read", "write")),
                chance.choice((4, 16, 128)),
                chance.choice((1, 4, 32)),
            )
            lines = f"rw={load}\nbs={size}k\niodepth={depth}"
            if chance.random() < 0.3:
                lines += f"\nthinktime={chance.choice((1000, 10000, 60000))}us\nthinktime_blocks=8"
            runtime = chance.randrange(100, 400)
            (folder / f"load{number}.fio").write_text(f"[global]\ndirect=1\ntime_based=1\nsize=4g\nruntime={runtime}ms\n[job]\n{lines}\n")
            steps.append(f'[[step]]\nname = "load {number}"\nfio = "load{number}.fio"\n{settings}')
        elif kind < 0.5:
            steps.append(f'[[step]]\nname = "wake {number}"\nwake = {{ idle_s = {chance.uniform(0.05, 1.0):.3f}, slba = 0 }}\n{settings}')
        else:
            idle_s = chance.choice((0.1, 0.4, 1.0, 3.0)) * chance.uniform(0.6, 1.2)
            steps.append(f'[[step]]\nname = "idle {number}"\nidle_s = {idle_s:.3f}\n{settings}')
    file = folder / "plan.toml"
    file.write_text("\n".join(steps) + "\n")
    return file


def drawn(profile: Path, seed: int, folder: Path) -> Path:
    """The profile with other powers of states and link."""
    chance = random.Random(seed ^ 0x57A7E)

    def other(match: re.Match[str]) -> str:
        return f"{match[1]}{float(match[2]) * math.exp(chance.gauss(0, SPREAD)):.6g}"

    text = profile.read_text()
    for key in ("core_w", "link_l0_w", "link_l1_w", "link_l1_2_w", "core_active_w"):
        text = re.sub(rf"(?m)^({key} = {{ value = )([0-9.]+)", other, text)
    file = folder / profile.name
    file.write_text(text)
    (folder / "common.toml").write_text((profile.parent / "common.toml").read_text())
    return file


class Blind(Context):
    """A capture of a meter: nobody saw commands."""

    @property
    def saw_commands(self) -> bool:
        return False


def seen_with(context: Context, sight: str, seed: int) -> Context:
    """The capture as it would be without some of its senses."""
    given = {one.name: getattr(context, one.name) for one in fields(Context)}
    if sight == "tap":
        return context
    events = context.events.filter(~pl.col("type").is_in([int(e) for e in LINK_EVENTS]))
    if sight == "no link states":
        return Context(**{**given, "events": events})
    if sight == "rail alone":
        nothing = context.commands.take(slice(0, 0))
        return Blind(**{**given, "events": events.head(0), "commands": nothing, "markers": nothing, "gaps": np.empty((0, 2), np.int64)})
    chance = np.random.default_rng(seed)
    tables = [_as_logged(table, chance, context.tick_s) for table in (context.commands, context.markers)]
    gaps = idle_times((tables[0], tables[1]), context.last_tick, round(IDLE_MIN_S / context.tick_s))
    made = Context(**{**given, "events": events, "commands": tables[0], "markers": tables[1], "gaps": gaps})
    made.__dict__["by_host"] = True
    return made


def _as_logged(table: Commands, chance: np.random.Generator, tick_s: float) -> Commands:
    """Set-up before the doorbell and completion behind the CQE, as a kernel's log has them; no instants between."""
    before = (chance.exponential(15e-6, len(table)) / tick_s).astype(np.int64)
    after = (chance.exponential(10e-6, len(table)) / tick_s).astype(np.int64)
    start = table.start_tick - before
    order = np.argsort(start, kind="stable")
    nothing = np.full(len(table), NONE, np.int64)
    columns = {"start_tick": start[order], "doorbell_tick": start[order], "cqe_tick": (table.cqe_tick + after)[order]}
    columns |= dict.fromkeys(("fetch_tick", "first_data_tick", "last_data_tick", "msix_tick", "cq_head_tick"), nothing)
    columns |= {
        name: getattr(table, name)[order] for name in ("nbytes", "slba", "opcode", "qid", "cid", "status", "flags", "saturated", "source")
    }
    return Commands(columns)


@dataclass(frozen=True)
class Truth:
    """The model's states on the grid, and the ticks at which anything changed that the rail shows."""

    first_tick: int
    step_ticks: int
    names: list[str]
    changes: Int64


def truth_of(folder: Path, context: Context) -> Truth:
    """Read the truth from ``truth-states.csv`` and ``truth-commands.csv``."""
    origin = int((context.capture.meta.get("conditions") or {}).get("trace_origin_tick") or 0)
    frame = pl.read_csv(folder / "workload/truth-states.csv", schema_overrides={"to_ps": pl.Int64, "state": pl.String})
    frame = frame.with_columns(pl.col("from_ps") // 1000 + origin, pl.col("to_ps") // 1000 + origin)
    first, last = context.rail.first_tick, context.rail.last_tick  # type: ignore[union-attr]
    step = round(GRID_S / context.tick_s)
    grid = np.arange(first, last, step)
    core = frame.filter(pl.col("part") == "core")
    names, held = [], ""
    for state in core["state"]:
        held = held if state.startswith("entering") else state  # in transition it draws the earlier power
        names.append(held)
    at = np.searchsorted(core["from_ps"].to_numpy(), grid, side="right") - 1
    commands = pl.read_csv(folder / "workload/truth-commands.csv")
    commands = commands.filter(~((pl.col("qid") == 0) & (pl.col("opcode") == AER)))
    starts, ends = (commands[name].to_numpy() // 1000 + origin for name in ("doorbell_ps", "cqe_ps"))
    busy = _covered(grid, starts, ends, round(IDLE_MIN_S / context.tick_s))
    spans = frame.filter(pl.col("part").is_in(["active", "flash"]))
    works = _covered(grid, spans["from_ps"].to_numpy(), spans["to_ps"].to_numpy(), 0)
    out = []
    for i, in_flight, works_now in zip(at.tolist(), busy.tolist(), works.tolist(), strict=True):
        state = names[i] if i >= 0 else "off"
        out.append(
            "waking" if state == "leaving" else "active" if in_flight else "work" if works_now and state.startswith("ps") else state.upper()
        )
    changes = np.sort(np.concatenate([frame["from_ps"].to_numpy(), frame["to_ps"].drop_nulls().to_numpy(), starts, ends]))
    return Truth(first, step, out, changes)


def _covered(grid: Int64, starts: Int64, ends: Int64, close: int) -> npt.NDArray[np.bool_]:
    """Return which instants lie in one of the spans; spans less than ``close`` apart are one."""
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    i = np.searchsorted(starts, grid, side="right") - 1
    inside = (i >= 0) & (grid < reach[np.maximum(i, 0)])
    following = np.append(starts, np.iinfo(np.int64).max)[i + 1]
    between = (i >= 0) & (following != np.iinfo(np.int64).max) & (following - reach[np.maximum(i, 0)] < close)
    covered: npt.NDArray[np.bool_] = inside | between
    return covered


def right(true: str, found: str, sight: str) -> bool:
    """Whether a label holds. A meter alone calls all that is not idle ``active``."""
    if found == "operational":
        return true in ("PS0", "PS1", "PS2")
    if found == "background work":
        return true == "work"
    if found == "active" and sight == "rail alone":
        return true in ("active", "waking", "work", "BOOTING")
    return true in found.split(" or ")


def judge(seen: Seen, states: PowerStates, truth: Truth, wire_labels: Iterable[str] = ("waking", "reset")) -> None:
    """Add the spans found to ``seen``."""
    n = len(truth.names)
    names = np.array(truth.names)
    for span in states["spans"]:
        low = max(0, -((truth.first_tick - span["first_tick"]) // truth.step_ticks))
        high = min(n, max(low, -((truth.first_tick - span["last_tick"]) // truth.step_ticks)))
        label = span["label"]
        good = 0
        for true, count in zip(*np.unique(names[low:high], return_counts=True), strict=True):
            row = seen.time_s.setdefault(str(true), {})
            row[label] = row.get(label, 0.0) + int(count) * GRID_S
            good += int(count) if right(str(true), label, seen.sight) else 0
        seen.all_s += (high - low) * GRID_S
        seen.right_s += good * GRID_S
        if label == "unknown":
            seen.unknown_s += (high - low) * GRID_S
        from_rail = span["mean_w"] is not None
        if from_rail and label != "unknown" and span["probability"] is not None and high > low:
            seen.labels.append((span["probability"], good / (high - low), (high - low) * GRID_S))
        if from_rail and span["from_u_s"] > 0:
            nearest = int(np.abs(truth.changes - span["first_tick"]).min()) * 1e-9
            if nearest < NEAR_S:
                seen.boundaries.append((nearest, span["from_u_s"] + RAIL_STEP_S / 2))


def measure(seed: int, intervals_s: tuple[float, ...] = INTERVALS_S) -> list[Seen]:
    """Run workload ``seed`` at each rate and look at it with each sight."""
    known = sorted(entry["profile"] for entry in known_profiles())
    name = known[seed // 2 % len(known)]
    out: list[Seen] = []
    with tempfile.TemporaryDirectory(prefix="wattbell-states-") as folder_name:
        folder = Path(folder_name)
        profile = find_profile(name)
        other = bool(seed % 2)
        states = profile.read_text().count("[[power_state]]")
        if other:
            profile = drawn(profile, seed, folder)
        file = plan(seed, states, folder)
        high_supply = "supply_v" in profile.read_text() and "supply_v = { value = 3.3" not in profile.read_text()
        board = () if high_supply else ("--afe", str(ROOT / "hw/afe/model.toml"), "--temperature", str(10 + seed % 31))
        for interval_s in intervals_s:
            target = folder / f"capture-{interval_s:g}"
            run_model(ModelRun(file, profile, target, Fidelity.fast, seed, interval_s, truth_states=True, rig_options=board), Silence())
            context = load(open_capture(target))
            truth = truth_of(target, context)
            for sight in SIGHTS:
                seen = Seen(seed, name, other, interval_s, sight)
                judge(seen, states_of(seen_with(context, sight, seed)), truth)
                out.append(seen)
    return out


BINS = (0.8, 0.9, 0.95, 0.99, 1.0001)


def tables(everything: list[Seen]) -> Iterator[str]:
    """Lines of Markdown."""
    heads = ("S/s", "seen with", "time labelled right", "unknown", "wrong", "labels of the rail with p >= 0.9: right", "boundaries")
    yield "| " + " | ".join((*heads, "error, median, 95 % (ms)", "within the bound")) + " |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for interval_s in INTERVALS_S:
        for sight in SIGHTS:
            members = [s for s in everything if s.interval_s == interval_s and s.sight == sight]
            yield _line(f"| {1 / interval_s:,.0f} | {sight} |".replace(",", " "), members)
    for title, chosen in (("drives as published", False), ("drawn drives", True)):
        yield _line(f"| all | all, {title} |", [s for s in everything if s.drawn == chosen])
    yield ""
    yield "| probability | labels | right | time, s | right, by time |"
    yield "|---|---|---|---|---|"
    labels = [one for s in everything for one in s.labels]
    for low, high in zip(BINS[:-1], BINS[1:], strict=True):
        chosen_labels = [one for one in labels if low <= one[0] < high]
        good = sum(one[1] > 0.5 for one in chosen_labels)
        time_s = sum(one[2] for one in chosen_labels)
        by_time = sum(one[1] * one[2] for one in chosen_labels) / time_s if time_s else 0.0
        share = good / len(chosen_labels) if chosen_labels else 0.0
        yield f"| {low} to {min(high, 1)} | {len(chosen_labels)} | {100 * share:.1f} % | {time_s:.0f} | {100 * by_time:.1f} % |"
    for sight in SIGHTS:
        yield ""
        yield f"Found (rows: true; share of the true time), {sight}, all rates:"
        yield ""
        yield from _confusion([s for s in everything if s.sight == sight])


def _line(head: str, members: list[Seen]) -> str:
    total = sum(s.all_s for s in members) or 1.0
    good, unknown = sum(s.right_s for s in members) / total, sum(s.unknown_s for s in members) / total
    edges = np.array([one for s in members for one in s.boundaries]).reshape(-1, 2)
    errors = f"{1e3 * np.median(edges[:, 0]):.3f}, {1e3 * np.quantile(edges[:, 0], 0.95):.3f}" if len(edges) else ""
    within = f"{100 * np.mean(edges[:, 0] <= edges[:, 1]):.1f} %" if len(edges) else ""
    shares = " | ".join(f"{100 * share:.1f} %" for share in (good, unknown, 1 - good - unknown))
    return f"{head} {shares} | {_sure(members)} | {len(edges)} | {errors} | {within} |"


def reliability(members: Iterable[Seen], least: float = 0.9) -> tuple[int, int]:
    """Return (labels of the rail with that probability and more, number of right ones)."""
    chosen = [one for s in members for one in s.labels if one[0] >= least]
    return len(chosen), sum(one[1] > 0.5 for one in chosen)


def _sure(members: list[Seen]) -> str:
    n, good = reliability(members)
    return f"{100 * good / n:.1f} % of {n}" if n else "none"


def _confusion(members: list[Seen]) -> Iterator[str]:
    total: dict[str, dict[str, float]] = {}
    for seen in members:
        for true, row in seen.time_s.items():
            for found, time_s in row.items():
                at = total.setdefault(true, {})
                at[found] = at.get(found, 0.0) + time_s
    columns = sorted({found for row in total.values() for found in row})
    yield "| true | s | " + " | ".join(columns) + " |"
    yield "|" + "---|" * (len(columns) + 2)
    for true, row in sorted(total.items()):
        whole = sum(row.values())
        yield f"| {true} | {whole:.1f} | " + " | ".join(f"{100 * row[c] / whole:.1f}" if c in row else "" for c in columns) + " |"


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=60)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.workloads)
    with ProcessPoolExecutor(given.processes) as pool:
        found = [one for each in pool.map(partial(steadfast, measure), seeds) for one in each]
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found]) + "\n")
    print("\n".join(tables(found)))
    if given.check:
        parts = [[s for s in found if s.interval_s == i and s.sight == sight] for i in INTERVALS_S for sight in SIGHTS]
        shares = [(n, good) for n, good in map(reliability, parts) if n]
        n, good = reliability(found)
        if good < WANTED_IN_ALL * n or any(g < WANTED * m for m, g in shares):
            print(f"labels with 0.9 and more: {good} of {n} right", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
