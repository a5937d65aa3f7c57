#!/usr/bin/env python3
"""Do the intervals of energy per class of command hold the truth? Table for docs/energy-coverage.md.

Random workloads run on models of all drives. The boards of the virtual rigs are drawn from the designed front end, warm or cold.

    energy_coverage.py [--workloads 200] [--first 701] [--others 24] [--processes 2] [--json FILE] [--check]
    energy_coverage.py --kinds 4 [--first 3001] [--json FILE] [--check]

--others: for so many workloads, repeat this with commands of a host's log in place of the tap's, and with rails of 20 and 250 kS/s.
--kinds: so many workloads of each kind (``studies/energy_loads.py``) on drives with DRAM, twice as many on DRAM-less ones, which owe most.
--check: fail when the coverage of the regression's intervals is not within 90 to 99 %.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell.analysis import analyze, perclass
from wattbell.analysis.commandclass import classify
from wattbell.analysis.energyfit import PhaseLoad, fit
from wattbell.analysis.perclass import TOO_SMALL, separate
from wattbell.capture import open_capture
from wattbell.capture.record import Progress
from wattbell.errors import RigError
from wattbell.jsondata import JsonObject
from wattbell.measure.table import Commands
from wattbell.virtual.fidelity import Fidelity
from wattbell.virtual.model import ModelRun, run_model
from wattbell.virtual.profiles import known_profiles
from wattbell_spec.nvme import io

from studies.energy_boards import Board, board
from studies.energy_loads import DRAM_LESS, IN_PLACE, MIXED, WITH_DRAM, WORKLOADS, drive_kind, drive_of, plan, trim_bytes
from studies.energy_variants import as_host_sees, with_coarse_rail

Float = npt.NDArray[np.float64]
INTERVAL_S = 10e-6
"""Between conversions of the rig,"""
FINE_INTERVAL_S = 2e-6
"""and where its rail is made coarser."""
OTHER_RATES = (250_000, 20_000)
"""Samples a second of others' meters."""
RIG = "tap, rail of the rig"
DEFERRED = ("fold", "collect", "padding")
"""Energy of a write for which the model books no command; on the wire it is the writes',"""
MAP = ("map_write_back",)
"""and what any command brings with it that changes the map."""
WANTED = (0.90, 0.99)


class Silence:
    """Says nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    @contextmanager
    def spinner(self, text: str) -> Iterator[None]:
        """Shows nothing."""
        yield

    @contextmanager
    def recording(self, serial: str) -> Iterator[Callable[[Progress], None]]:
        """Shows nothing."""
        yield lambda progress: None


@dataclass(frozen=True)
class Found:
    """One class of one load of a ``workload`` of that kind.

    seen: by which instruments
    how: accounting or regression
    merged: several classes in one
    share: of the energy above idle
    above_j: its own energy above idle
    deferring: part of the load's energy that belongs to no command
    unexplained: in the same measure
    oracle_u_j: half-width if the energy put off is known
    """

    seen: str
    seed: int
    profile: str
    workload: str
    load: str
    name: str
    how: str
    merged: bool
    deferring: float
    value_j: float
    u_j: float | None
    truth_j: float
    share: float
    unexplained: float
    above_j: float
    oracle_u_j: float | None = None
    note: str = ""

    @property
    def error(self) -> float:
        """Relative."""
        return self.value_j / self.truth_j - 1

    @property
    def covered(self) -> bool | None:
        """None without an interval."""
        return None if self.u_j is None else abs(self.value_j - self.truth_j) <= self.u_j


@dataclass(frozen=True)
class Subject:
    """The subject of a capture. ``trim_bytes``: of each of its trims, since the model's list of commands lacks their ranges."""

    seed: int
    profile: str
    workload: str
    trim_bytes: int


def truth_of(capture: Path, origin_ps: int, trim_bytes: int = 0) -> tuple[Commands, Float]:
    """The model's I/O commands by start, and what each is booked in J."""
    frame = pl.read_csv(capture / "workload/truth-commands.csv").filter(pl.col("qid") > 0).sort("doorbell_ps")
    transferred = frame["blocks"] * 512 * frame["opcode"].is_in([io("write"), io("read")])
    columns = {
        "start_tick": (frame["doorbell_ps"] + origin_ps).to_numpy() // 1000,
        "cqe_tick": (frame["cqe_ps"] + origin_ps).to_numpy() // 1000,
        "nbytes": np.where(frame["opcode"] == io("dsm"), trim_bytes, transferred).astype(np.int64),
        "slba": frame["slba"].cast(pl.UInt64).to_numpy(),
        "opcode": frame["opcode"].cast(pl.UInt8).to_numpy(),
    }
    return Commands(columns), (frame["own_pj"] + frame["share_pj"]).to_numpy() * 1e-12


def measure(seed: int, others: bool = False, workload: str = MIXED, profile: str | None = None) -> list[Found]:
    """Run workload ``seed`` of a kind and compare; with ``others`` also as other instruments would have seen it. Seeds go through all
    drives in turn, unless one is named."""
    names = sorted(entry["profile"] for entry in known_profiles())
    profile = profile or names[seed % len(names)]
    with tempfile.TemporaryDirectory(prefix="wattbell-energy-") as folder_name:
        folder = Path(folder_name)
        used = board(seed, profile, folder)
        interval_s, drive = FINE_INTERVAL_S if others else INTERVAL_S, drive_of(workload, profile, seed, folder)
        job = plan(seed, folder, workload)
        run = ModelRun(job, drive, folder / "capture", Fidelity.fast, seed, interval_s, rig_options=used.options)
        run_model(run, Silence())
        subject = Subject(seed, profile, workload, trim_bytes(folder))
        found = judge(run.out, subject, RIG, used)
        if others:
            found += judge(as_host_sees(run.out, folder / "host", seed), subject, "the driver's log, rail of the rig", used)
            for rate in OTHER_RATES:
                coarse = with_coarse_rail(run.out, folder / f"coarse{rate}", round(1 / rate / interval_s))
                found += judge(coarse, subject, f"tap, rail of {rate / 1000:g} kS/s", used)
    return found


def judge(path: Path, subject: Subject, seen: str, used: Board) -> list[Found]:
    """Every class of every load of a capture against the model's truth. ``seen``: by which instruments."""
    capture = used.state(open_capture(path))
    origin = int((capture.meta.get("conditions") or {}).get("trace_origin_tick") or 0)
    commands, joules = truth_of(path, origin * 1000, subject.trim_bytes)
    windows: list[perclass.EnergyWindow] = []

    def kept(given: Sequence[perclass.EnergyWindow]) -> None:
        windows.extend(given)
        separate(given)

    with mock.patch.object(perclass, "separate", kept):
        result: JsonObject = analyze(capture)
    told = iter(windows)  # one of each phase that has energies
    truths = json.loads((path / "workload/truth.json").read_text())["phases"]
    loads: list[tuple[perclass.EnergyWindow, float, list[Found]]] = []
    for phase, true, after in zip(result["phases"], truths, [*truths[1:], None], strict=True):
        window = next(told) if "energy_per_command" in phase else None
        if phase["kind"] != "fio":
            continue
        if window is None or "classes" not in window.result:
            print(f"workload {subject.seed}, {phase['name']}, {seen}: {phase.get('energy_per_command', {}).get('absent')}", file=sys.stderr)
            continue
        loads.append(compare(seen, subject, phase, window, true, after, commands, joules))
    return with_oracle(loads)


def compare(
    seen: str,
    subject: Subject,
    phase: JsonObject,
    window: perclass.EnergyWindow,
    true: JsonObject,
    after: JsonObject,
    commands: Commands,
    joules: Float,
) -> tuple[perclass.EnergyWindow, float, list[Found]]:
    """Return the classes of one phase, its window, and its energy put off, in J."""
    each = phase["energy_per_command"]
    low, high = np.searchsorted(commands.start_tick, (phase["first_tick"], phase["last_tick"]))
    mine, booked = commands.take(slice(int(low), int(high))), joules[low:high]
    spent = [true["spent"], *(after[key] for key in ("spent_before", "spent"))]  # owed energy is drawn after the phase
    moved, put_off = (sum(sum(sum(one["purposes"].get(name, {}).values()) for one in spent) for name in names) for names in (MAP, DEFERRED))
    # The controller with nothing in hand: a write buffer that empties; the interrupt after a CQE.
    alone = sum(one["active"].get("no_io_in_hand", {}).get("j", 0.0) for one in spent)
    writes, changes = mine.opcode == io("write"), np.isin(mine.opcode, [io("write"), io("dsm")])
    written = float(mine.nbytes[writes].sum())
    if not written:
        alone, here = 0.0, true["spent"]["active"].get("no_io_in_hand", {}).get("j", 0.0)
        booked = booked + here / len(mine)
    # Changed pages of the map are the commands' that change it, by their number, and those at random places' where there are any, as a
    # stream has 4 MiB to one page; without any of these, an earlier phase's.
    moved *= bool(changes.any())
    classes = classify(mine)
    scattered = np.zeros(len(mine), np.bool_)
    for one in classes:
        scattered |= one.members & changes & (one.pattern != "sequential")
    changes = scattered if scattered.any() else changes
    if not written:
        put_off = 0.0
    total, n = {}, {}
    for one in classes:
        total[one.name] = float(booked[one.members].sum())
        total[one.name] += (put_off + alone) * float(mine.nbytes[one.members & writes].sum()) / written if written else 0.0
        total[one.name] += moved * float((one.members & changes).sum()) / max(1, int(changes.sum()))
        n[one.name] = one.count
    put_off += alone + moved
    shares, above = each["shares"], sum(total.values())
    unexplained = shares["unexplained_j"]["value"] / above if "absent" not in shares else float("nan")
    how = "accounting" if each["method"].startswith("accounting") else "regression"
    out = []
    for name, fig in each["classes"].items():
        parts = name.split(" + ")
        if not all(part in total for part in parts):  # the host sees another order, and other classes
            print(f"workload {subject.seed}, {phase['name']}, {seen}: no class {name} in the truth", file=sys.stderr)
            continue
        truth = sum(total[part] for part in parts)
        true_j, share = truth / sum(n[part] for part in parts), truth / above
        about = (seen, subject.seed, subject.profile, subject.workload, str(phase["name"]), name, how, len(parts) > 1, put_off / above)
        note = str(fig.get("conditions", {}).get("note", ""))
        out.append(Found(*about, fig["value"], fig["u"], true_j, share, unexplained, truth, None, note))
    return window, put_off, out


def with_oracle(loads: list[tuple[perclass.EnergyWindow, float, list[Found]]]) -> list[Found]:
    """Return the classes of all loads, with the half-width of an oracle.

    The oracle is the same regression for the same classes, if each phase's put-off energy is known and need not be separated.
    """
    known = [(window, window.load, put_off, found) for window, put_off, found in loads if window.load is not None]
    without = {id(window): PhaseLoad(load.counts, load.shared_s, load.above_j - put_off, load.u_j) for window, load, put_off, _ in known}
    fitted = fit(list(without.values()))
    out = [one for window, _, found in loads if window.load is None for one in found]
    for window, _, _, found in known:
        names = {one.name: perclass.identity(one, window.classes) for one in window.classes}
        for one in found:
            u = None
            if fitted is not None and one.how == "regression" and one.u_j is not None:
                group = [names[part] for part in one.name.split(" + ")]
                value, half_width = fitted.combination(fitted.weights(without[id(window)], group), one.share)
                u = math.hypot(half_width, window.gain * value, perclass.method_u(value, one.share))
            out.append(replace(one, oracle_u_j=u))
    return out


def kind_of(found: Found) -> str:
    """Return the subject of a line of the table."""
    if found.how == "accounting":
        return "all classes as one (accounting)" if found.merged else "one class (accounting)"
    if found.u_j is None:
        if perclass.MERGED in found.note:
            return "no interval: classes merged"
        if perclass.NO_INTERVAL in found.note:
            return "no interval: sequential reads in company"
        return "no interval: " + ("a small part" if TOO_SMALL in found.note else "commands are a host's")
    return found.name.split()[0] + (" sequential" if "sequential" in found.name else "")


def table(all_found: list[Found]) -> list[str]:
    """Lines of Markdown."""
    groups: dict[str, list[Found]] = {}
    for one in all_found:
        groups.setdefault(kind_of(one), []).append(one)
    lines = [
        "| | figures | intervals that hold | bias (weighted by energy) | error, RMS | half-width, median | of an oracle | energy |",
        "|---|---|---|---|---|---|---|---|",
    ]
    everything = sum(one.above_j for one in all_found)
    for name, members in [*sorted(groups.items()), ("**all of several classes with an interval**", separated(all_found))]:
        given = [one for one in members if one.u_j is not None]
        if not members:
            continue
        errors, energy = np.array([one.error for one in members]), np.array([one.share for one in members])
        bias, rms = float((errors * energy).sum() / energy.sum()), float(np.sqrt(np.mean(errors**2)))
        held = f"{100 * sum(bool(one.covered) for one in given) / len(given):.1f} %" if given else "no interval is given"
        width = f"{100 * np.median([(one.u_j or 0.0) / one.truth_j for one in given]):.2f} %" if given else ""
        oracle = [one.oracle_u_j / one.truth_j for one in given if one.oracle_u_j is not None]
        known = f"{100 * np.median(oracle):.2f} %" if oracle else ""
        part = f"{100 * sum(one.above_j for one in members) / everything:.1f} %"
        lines.append(f"| {name} | {len(members)} | {held} | {100 * bias:+.2f} % | {100 * rms:.2f} % | {width} | {known} | {part} |")
    return lines


def by_kind(all_found: list[Found]) -> list[str]:
    """Lines of Markdown: kinds of drive x kinds of workload, accounting and regression apart."""
    lines = [
        "| drive | workload | workloads | accounting: intervals | hold | half-width, median | no interval "
        "| regression: intervals | hold | half-width, median | no interval |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for drive in (WITH_DRAM, DRAM_LESS, IN_PLACE):
        mine = [one for one in all_found if drive_kind(one.profile) == drive]
        for workload in (*WORKLOADS, "all"):
            here = [one for one in mine if workload in (one.workload, "all")]
            if not here:
                continue
            cells = [drive, workload, str(len({(one.seed, one.profile) for one in here}))]
            for how in ("accounting", "regression"):
                members = [one for one in here if one.how == how]
                given = [one for one in members if one.u_j is not None]
                held = f"{100 * sum(bool(one.covered) for one in given) / len(given):.1f} %" if given else ""
                width = f"{100 * np.median([(one.u_j or 0.0) / one.truth_j for one in given]):.2f} %" if given else ""
                cells += [str(len(given)), held, width, str(len(members) - len(given))]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def separated(found: list[Found]) -> list[Found]:
    """Return the judged classes: separated by regression, with an interval."""
    return [one for one in found if one.how == "regression" and one.u_j is not None]


def held(found: list[Found]) -> float:
    """Part of the intervals of separated classes that hold the truth; 0 of none."""
    judged = separated(found)
    return sum(bool(one.covered) for one in judged) / max(1, len(judged))


def steadfast(measure: Callable[..., list[Any]], *words: object) -> list[Any]:
    """Return the result of ``measure``; try up to twice more if the virtual rig does not answer in time, as on a busy machine.

    A workload gives the same result whenever it runs, and one of hundreds must not cost the results of the others.
    """
    for left in (2, 1, 0):
        try:
            return measure(*words)
        except RigError as error:
            if not left:
                raise
            print(f"workload {words[0]}: {error} Once more.", file=sys.stderr)
    raise AssertionError("not reached")


def drawn(count: int, first: int) -> list[tuple[int, str, str]]:
    """Return (seed, workload, profile) for the runs; the drives of a kind in turn.

    Each kind of workload runs ``count`` times on drives with DRAM, twice as often on DRAM-less ones, and half as often on 3D XPoint.
    """
    names = sorted(entry["profile"] for entry in known_profiles())
    out: list[tuple[int, str, str]] = []
    for kind, many in ((WITH_DRAM, count), (DRAM_LESS, 2 * count), (IN_PLACE, max(1, count // 2))):
        drives, turn = [name for name in names if drive_kind(name) == kind], 0
        for _ in range(many):
            for workload in WORKLOADS:
                out.append((first + len(out), workload, drives[(turn + turn // len(WORKLOADS)) % len(drives)]))
                turn += 1
    return out


def _of(what: tuple[int, str, str]) -> list[Found]:
    seed, workload, profile = what
    return steadfast(measure, seed, False, workload, profile)


def of_kinds(count: int, first: int, processes: int, file: Path | None, check: bool) -> int:
    """Measure workloads of every kind on drives of every kind, print, judge: what accounting gives must hold for each kind of drive."""
    with ProcessPoolExecutor(processes) as pool:
        found = [one for each in pool.map(_of, drawn(count, first)) for one in each]
    if file:
        file.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    print("\n".join(by_kind(found)))
    for drive in (WITH_DRAM, DRAM_LESS, IN_PLACE):
        given = [one for one in found if drive_kind(one.profile) == drive and one.how == "accounting" and one.u_j is not None]
        share = sum(bool(one.covered) for one in given) / max(1, len(given))
        print(f"{drive}: {100 * share:.1f} % of {len(given)} intervals of accounting hold the truth")
        if check and share < WANTED[0]:
            print(f"less than {100 * WANTED[0]:.0f} %", file=sys.stderr)
            return 1
    return 0


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--first", type=int, default=701)
    parser.add_argument("--others", type=int, default=24)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kinds", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.kinds:
        return of_kinds(given.kinds, given.first, given.processes, given.json, given.check)
    seeds = range(given.first, given.first + given.workloads)
    with ProcessPoolExecutor(given.processes) as pool:
        others = [seed < given.first + given.others for seed in seeds]
        found = [one for each in pool.map(partial(steadfast, measure), seeds, others) for one in each]
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    for seen in dict.fromkeys(one.seen for one in found):
        mine = [one for one in found if one.seen == seen]
        print(f"{seen}, {len({one.seed for one in mine})} workloads:\n")
        print("\n".join(table(mine)))
        print(f"\n{len(separated(mine))} intervals of regressions: {100 * held(mine):.1f} % hold the truth\n")
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"{sum(one.ru_utime + one.ru_stime for one in usage) / len(seeds):.1f} s of a core for a workload")
    share = held([one for one in found if one.seen == RIG])
    if given.check and not WANTED[0] <= share <= WANTED[1]:
        print(f"not within {100 * WANTED[0]:.0f} to {100 * WANTED[1]:.0f} %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
