#!/usr/bin/env python3
"""Do the intervals of energies of single events hold the truth? Table for docs/energy-coverage.md.

The events are lone commands, wake-ups, and energy owed after a burst of writes, on models of all drives. The boards of the virtual rigs
are drawn from the designed front end, warm or cold.

    energy_alone.py [--workloads 60] [--first 1] [--processes 2] [--json FILE] [--check]

The truth is the rail as the model emitted it (RAIL records of the bus trace, docs/bus-trace.md), without front end, noise and sampling.
--check: fail when fewer than 90 or more than 99 % of the intervals hold, or their errors are not about half of the half-widths.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import struct
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from wattbell.analysis import alone, figures_of, idle, powerstates, transitions, wakeup  # noqa: E402
from wattbell.analysis.context import Context, load  # noqa: E402
from wattbell.analysis.result import Analysis  # noqa: E402
from wattbell.capture import Capture, open_capture  # noqa: E402
from wattbell.virtual.fidelity import Fidelity  # noqa: E402
from wattbell.virtual.model import ModelRun, run_model  # noqa: E402
from wattbell.virtual.profiles import find_profile, known_profiles  # noqa: E402

from studies.energy_boards import Board, board  # noqa: E402
from studies.energy_coverage import Silence, steadfast  # noqa: E402

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
WANTED = (0.90, 0.99)
SPREAD = (0.35, 0.65)
"""Allowed RMS of the errors, in units of the half-width: 0.5 if that is twice the standard uncertainty.

With few intervals, this detects too wide ones better than the share that holds.
"""
_RAIL = 4
_LEFT = 0.015
"""Relative difference of power, beyond noise, that shows that a rail has left the awake level."""
INTERVALS_S = (1.3e-6, 3.7e-6, 1.13e-5, 4.7e-5)
"""Intervals in s between conversions of the rig, by workload in turn.

The fast model's rail has steps of 20 us. With an interval that divides 20 us, each step would lie between two samples. The samples would
then never miss a part of the rail, as they do on a real drive.
"""


@dataclass(frozen=True)
class Rail:
    """The rail as it was emitted: ``ticks`` (n,) of its steps, and the energy in J until each step."""

    ticks: Float
    power_w: Float
    until_j: Float

    def energy(self, first_tick: float, last_tick: float) -> float:
        """Return the energy between two ticks in J."""
        ends = [first_tick, last_tick]
        place = np.searchsorted(self.ticks, ends, side="right") - 1
        low, high = self.until_j[place] + self.power_w[place] * (np.array(ends) - self.ticks[place]) * 1e-9
        return float(high - low)


def emitted(trace: Path, origin_tick: int) -> Rail:
    """The RAIL records of a trace."""
    data = trace.read_bytes()
    at = 12 + struct.unpack_from("<I", data, 8)[0]
    times, watts = [], []
    while at < len(data):
        kind, _, length, when = struct.unpack_from("<BBHQ", data, at)
        if kind == _RAIL:
            current, voltage = struct.unpack_from("<qq", data, at + 12)
            times.append(when)
            watts.append(current * voltage * 1e-18)
        at += 12 + length
    ticks = np.array(times, np.float64) / 1000 + origin_tick
    power = np.array(watts)
    return Rail(ticks, power, np.concatenate(([0.0], np.cumsum(power[:-1] * np.diff(ticks)))) * 1e-9)


@dataclass(frozen=True)
class Found:
    """One event, or the mean of a class. ``u_j`` None: no interval is given."""

    seed: int
    profile: str
    interval_s: float
    kind: str
    name: str
    value_j: float
    u_j: float | None
    truth_j: float

    @property
    def covered(self) -> bool | None:
        """None without an interval."""
        return None if self.u_j is None else abs(self.value_j - self.truth_j) <= self.u_j


SIZES_KIB = (4, 16, 64, 128)
MEAN = "lone, mean of a class"
LONE = 10
"""Commands of a class that stand alone,"""
GAP_MS = 25
"""and how far apart they are."""
WAKES = 4


def plan(seed: int, folder: Path) -> Path:
    """A random experiment: three loads of lone commands, two bursts of writes and the idle time after them, wake-ups."""
    chance = random.Random(seed)
    steps = ['condition = "test-data"', '[[step]]\nname = "idle before"\nidle_s = 0.3']
    for number, kind in enumerate(("randread", "randwrite", chance.choice(("read", "write", "randread", "randwrite")))):
        job = f"rw={kind}\nbs={chance.choice(SIZES_KIB)}k\nsize=1g\nnumber_ios={LONE}\nthinktime={GAP_MS}ms\niodepth=1\nrandseed={seed}\n"
        (folder / f"lone{number}.fio").write_text(f"[global]\ndirect=1\n[lone]\n{job}")
        steps += [f'[[step]]\nname = "lone {number}"\nfio = "lone{number}.fio"', f'[[step]]\nname = "after {number}"\nidle_s = 0.05']
    for number in range(2):
        size = chance.choice((4, 32, 128))
        job = f"rw={chance.choice(('write', 'randwrite'))}\nbs={size}k\nsize=1g\nio_size={chance.choice((4, 16, 64, 256))}m\niodepth=8\n"
        (folder / f"burst{number}.fio").write_text(f"[global]\ndirect=1\n[burst]\n{job}")
        steps += [f'[[step]]\nname = "burst {number}"\nfio = "burst{number}.fio"', f'[[step]]\nname = "owed {number}"\nidle_s = 1.0']
    for number in range(WAKES):
        wake = f"wake = {{ idle_s = {chance.uniform(0.4, 0.8):.3f}, slba = {4096 * number} }}\napst = true"
        steps.append(f'[[step]]\nname = "wake {number}"\n{wake}' + '\naspm = "l1.2"' * (seed % 5 > 0))
    steps.append('[[step]]\nname = "end"\nidle_s = 0.2')
    file = folder / "plan.toml"
    file.write_text("\n".join(steps) + "\n")
    return file


def run(seed: int, folder: Path, interval_s: float) -> tuple[str, Board, Path]:
    """The profile of workload ``seed``, its board and its capture."""
    names = sorted(entry["profile"] for entry in known_profiles())
    profile = names[seed % len(names)]
    used = board(seed, profile, folder)
    out, drive = folder / "capture", find_profile(profile)
    run_model(
        ModelRun(plan(seed, folder), drive, out, Fidelity.fast, seed, interval_s, keep_trace=True, rig_options=used.options), Silence()
    )
    return profile, used, out


def measure(seed: int) -> list[Found]:
    """Run workload ``seed`` and compare."""
    interval_s = INTERVALS_S[seed % len(INTERVALS_S)]
    with tempfile.TemporaryDirectory(prefix="wattbell-alone-") as folder_name:
        profile, used, path = run(seed, Path(folder_name), interval_s)
        return compare((seed, profile, interval_s), used.state(open_capture(path)))


def compare(about: tuple[int, str, float], capture: Capture) -> list[Found]:
    """Every single event of a capture against the rail as it was emitted."""
    context = load(capture)
    rail = emitted(capture.path / "workload/trace.wbt", int((capture.meta.get("conditions") or {}).get("trace_origin_tick") or 0))
    return _lone(about, context, rail) + _slept(about, context, rail) + _owed(about, context, rail, figures_of(capture))


def _lone(about: tuple[int, str, float], context: Context, rail: Rail) -> list[Found]:
    """Each command that stood alone, and the means of their classes."""
    starts, _ = alone.limits(context)
    out = []
    figures = alone.alone(context)
    for one in alone.measure_alone(context, 10_000):
        truths = []
        fig = figures["classes"][one.name]
        for command in one.measured:
            start, cqe = command.start_tick, int(context.commands.cqe_tick[command.index])
            after = starts[int(np.searchsorted(starts, start, side="right")) :]
            until = cqe + min(0.8 * (float(after[0] if len(after) else context.last_tick) - cqe), alone.LONGEST_S * 1e9)
            baseline_w = rail.energy(start - 1e6, start - 0.5e6) / 0.5e-3
            truths.append(rail.energy(start - 0.4e6, until) - baseline_w * (until - start + 0.4e6) * 1e-9)
            resolved = fig["median_j"].value is not None
            u = math.hypot(command.u_j, context.model.gain * command.joules) if resolved else None
            out.append(Found(*about, "lone", one.name, command.joules, u, truths[-1]))
        if fig["mean_j"].value is not None:
            out.append(Found(*about, MEAN, one.name, fig["mean_j"].value, fig["mean_j"].u, float(np.mean(truths))))
    return out


def _slept(about: tuple[int, str, float], context: Context, rail: Rail) -> list[Found]:
    """Return each way into and out of a sleeping state, and its break-even time (in s, not J)."""
    quiet = idle.idle_power(context, powerstates.look(context))
    out = []
    for wake in transitions.wakes(context, quiet, wakeup.wakeups(context, quiet)["events"]):
        entry, gain = wake.entry, context.model.gain
        first = min(wake.instants.values())
        asleep_w = rail.energy(first - 2e6, first - 1e6) / 1e-3
        awake_at = entry.first_tick - 1e6 if entry else wake.back_tick + 0.5e6
        awake_w = rail.energy(awake_at, awake_at + 0.5e6) / 0.5e-3
        into = None
        if entry:
            low, high = entry.first_tick - 1e6, entry.last_tick + 1e6
            near = (rail.ticks > low) & (rail.ticks < high) & (np.abs(rail.power_w - awake_w) > _LEFT * awake_w)
            left = float(rail.ticks[near][0])
            into = rail.energy(left, high) - asleep_w * (high - left) * 1e-9
            out.append(Found(*about, "into a state", wake.event["state"], entry.above_j, math.hypot(entry.u_j, gain * entry.above_j), into))
        if wake.without:
            continue
        after_w = rail.energy(wake.back_tick, wake.back_tick + 0.2e6) / 0.2e-3
        until = wake.back_tick + (0.2e6 if abs(after_w - awake_w) < 0.01 * awake_w else 0.0)
        # The model's steps of 20 us show an event within a step from the step's beginning on.
        woken = rail.energy(first - 3e4, until) - asleep_w * 3e4 * 1e-9 - awake_w * (until - first) * 1e-9
        name = wake.event["state"]
        out.append(Found(*about, "out of a state", name, wake.above_j, math.hypot(wake.u_j, gain * wake.above_j), woken))
        if entry and into is not None:
            value, u = wake.break_even(entry, (0.0, 0.0), gain)
            true = (into + woken) / (awake_w - asleep_w)
            out.append(Found(*about, "break-even time, with the command", name, value, u, true))
    return out


def _owed(about: tuple[int, str, float], context: Context, rail: Rail, result: Analysis) -> list[Found]:
    """Return the work that each burst of writes left to do."""
    out = []
    for phase in result["phases"]:
        left = phase.get("owed") or {"absent": ""}
        if not phase["name"].startswith("burst") or "absent" in left:
            continue
        mine = context.commands.between(phase["first_tick"], phase["last_tick"])
        last = float(mine.cqe_tick[mine.qid > 0].max())
        until = last + left["rest_s"] * 1e9
        inside = (rail.ticks > last) & (rail.ticks < until)
        edges = np.concatenate(([last], rail.ticks[inside], [until]))
        steps = np.array([rail.energy(a, a + 1.0) * 1e9 for a in edges[:-1]])
        rest = until - 0.05 * (until - last)
        if not left["back"]:  # still at work at the end
            rest = float(result["phases"][0]["last_tick"]) - 0.1e9
        base_w = rail.energy(rest, min(until, rest + 0.02e9)) / (min(until, rest + 0.02e9) - rest) * 1e9
        for begin, end in zip(context.markers.start_tick, context.markers.cqe_tick, strict=True):
            if begin > last + 5e6:  # markers are the rig's own doing
                steps[(edges[:-1] > begin - 0.3e6) & (edges[:-1] < end + 0.3e6)] = base_w
        true = float((np.maximum(steps - base_w, 0.0) * np.diff(edges)).sum()) * 1e-9
        fig = left["energy_j"]
        kind = "owed after a burst" if left["back"] else "owed, lower bound"
        out.append(Found(*about, kind, phase["name"], fig.known, fig.u, true))
    return out


def table(all_found: list[Found]) -> list[str]:
    """Lines of Markdown. Bias and error are shares of the mean truth: of some events next to nothing is true."""
    groups: dict[tuple[str, str], list[Found]] = {}
    for one in all_found:
        kind = one.name.split()[0] if one.kind.startswith("lone") else ""
        groups.setdefault((f"{one.kind} {kind}".strip(), f"{1e6 * one.interval_s:g} us"), []).append(one)
    lines = [
        "| | rail every | events | intervals that hold the truth | bias | error, RMS | half-width, median |",
        "|---|---|---|---|---|---|---|",
    ]
    for (name, every), members in sorted(groups.items()):
        given = [one for one in members if one.u_j is not None]
        errors, true = np.array([one.value_j - one.truth_j for one in members]), np.mean([one.truth_j for one in members])
        held = f"{100 * sum(bool(one.covered) for one in given) / len(given):.1f} %" if given else "no interval is given"
        width = f"{100 * np.median([(one.u_j or 0.0) / one.truth_j for one in given]):.2f} %" if given else ""
        error = f"{100 * errors.mean() / true:+.2f} % | {100 * np.sqrt((errors**2).mean()) / true:.2f} %"
        lines.append(f"| {name} | {every} | {len(members)} | {held} | {error} | {width} |")
    return lines


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=60)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with ProcessPoolExecutor(given.processes) as pool:
        found = [one for each in pool.map(partial(steadfast, measure), range(given.first, given.first + given.workloads)) for one in each]
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    print("\n".join(table(found)))
    n, share, spread = judge(found)
    text = f"{n} intervals over {given.workloads} workloads, without means: {100 * share:.1f} % hold the truth"
    print(f"\n{text}; error / half-width, RMS: {spread:.2f}")
    if given.check and not (WANTED[0] <= share <= WANTED[1] and SPREAD[0] <= spread <= SPREAD[1]):
        print(f"not within {100 * WANTED[0]:.0f} to {100 * WANTED[1]:.0f} %, and {SPREAD[0]} to {SPREAD[1]}", file=sys.stderr)
        return 1
    return 0


def judge(found: list[Found]) -> tuple[int, float, float]:
    """Return (intervals, the part that holds, RMS of error / half-width of the nearest 99 %) of single events.

    Means of classes are left out: their interval is for the scatter of commands, and the truth here has no such scatter.
    """
    judged = np.array([abs(one.value_j - one.truth_j) / one.u_j for one in found if one.u_j and one.kind != MEAN])
    if not len(judged):
        return 0, 0.0, 0.0
    near = np.sort(judged)[: math.ceil(0.99 * len(judged))]
    return len(judged), float(np.mean(judged <= 1.0)), float(np.sqrt(np.mean(near**2)))


if __name__ == "__main__":
    sys.exit(main())
