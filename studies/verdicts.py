#!/usr/bin/env python3
"""Does `wattbell judge` find faulty drives, and does it leave good ones alone? Figures for docs/verdicts-study.md.

    verdicts.py [--drives 200] [--good 200] [--processes 2] [--kept build/verdicts] [--kind "late entry"] [--docs] [--check]

Each drive is a profile of the SSD model, drawn around a built-in one. The fast instrument measures it. ``studies/faults`` puts one fault
into the bus trace or a log page of the faulty drive. That package shares no code with the judge, and gives the fault's true size.
Half of the good drives come as near to a limit as the faulty ones, but on its right side. --kept holds the verdicts of each drive, and a
run skips the drives that the same code has judged. --processes 0 runs none.

--docs: write tables and picture. --check: fail when faults of 2 U and more are found in less than 95 %, or more than 2.5 % of the good
drives are accused, each by more than chance.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from wattbell import durable
from wattbell.capture import open_capture
from wattbell.errors import RigError
from wattbell.requirements import files, latencylog, powerlog
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_capture import DriveLogs, subject
from wattbell.virtual import programs, simulator
from wattbell.virtual.play import VirtualRun, check_whole, play
from wattbell.virtual.workload import Workload, read_phases

from studies.energy_coverage import Silence, steadfast
from studies.faults import bustrace, drives, plans
from studies.faults.kinds import KINDS, LATENCY_PAGE, NEVER_W, POWER_PAGE, Faulty, Kind, Shown, threshold_w
from studies.stamp import PACKAGE, ROOT, stamp

SETS = ("declared", "nvme", "ocp")
WANTED, FALSE_ALARMS = 0.95, 0.025
LARGE_U = 2.0
PAGE = ROOT / "docs/verdicts-study.md"
PICTURE = PAGE.parent / "img/verdicts-power.svg"
BEGIN, END = "<!-- generated: python -m studies.verdicts --docs -->\n", "<!-- end of generated -->\n"
JUDGES = tuple(PACKAGE / name for name in ("requirements", "analysis", "measure", "capture"))
"""Folders of code on which a verdict depends."""
SIZES = ((0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 5.0), (5.0, math.inf))
"""Bins of the size of a fault, in U."""


@dataclass(frozen=True)
class Outcome:
    """A drive and its verdicts.

    good : it keeps every limit.
    excess : true figure beyond the limit of its kind, in ``unit``; infinite without a size.
    u : the judge's uncertainty of that figure; None where no row has one.
    verdicts : of the rows of its kind, by requirement and scope.
    failed : all rows that failed.
    """

    kind: str
    good: bool
    seed: int
    what: str
    excess: float
    unit: str
    u: float | None
    verdicts: Mapping[str, str]
    failed: Sequence[str]
    measured: Mapping[str, Any]

    @property
    def found(self) -> bool:
        """Whether a row of its kind failed."""
        return "fail" in self.verdicts.values()

    @property
    def suspected(self) -> bool:
        """Whether a row of its kind failed, at least conditionally."""
        return any(verdict in ("fail", "conditional fail") for verdict in self.verdicts.values())

    @property
    def judged(self) -> bool:
        """Whether a row of its kind has a verdict."""
        return any(verdict not in ("not measured", "not applicable") for verdict in self.verdicts.values())

    @property
    def size(self) -> float:
        """Excess in U; infinite where the fault has no size, or the judge no uncertainty."""
        if math.isinf(self.excess) or not self.u:
            return math.copysign(math.inf, self.excess)
        return self.excess / self.u


# -- drives -----------------------------------------------------------------------------------------------------------


def size_of(random: np.random.Generator, *, good: bool) -> float:
    """Draw the size of a fault in U. Good drives keep the limit by as little."""
    if good:
        return -float(random.uniform(0.0, 4.0))
    kind = random.random()
    if kind < 0.3:
        return float(random.uniform(0.0, 2.0))
    return float(random.uniform(2.0, 5.0)) if kind < 0.75 else float(np.exp(random.uniform(np.log(5.0), np.log(60.0))))


def show(profile: drives.Profile, work: plans.Work, state: int, seed: int, folder: Path) -> Shown:
    """Run the drive model; return its trace and its log pages."""
    folder.mkdir(parents=True, exist_ok=True)
    drives.write(profile, folder / "drive.toml")
    shutil.copy(simulator.profiles_dir() / "common.toml", folder)
    (folder / "plan.toml").write_text(work.plan)
    for name, text in work.files.items():
        (folder / name).write_text(text)
    trace, phases = folder / "trace.wbt", folder / "phases.json"
    words: list[str | Path] = ["run", "--profile", folder / "drive.toml", "--plan", folder / "plan.toml", "--seed", str(seed)]
    programs.run_program("wattbell-ssd", *words, "--trace", trace, "--phases", phases, "--logs", folder, "--summaries")
    logs = {path.name: path.read_bytes() for path in folder.glob("log-*.bin")}
    tables = tuple(tuple(map(tuple, one["apst_table"])) for one in json.loads(phases.read_text()) if "apst_table" in one)
    return Shown(bustrace.read(trace), logs, profile, tables, state)


def made(kind: Kind, seed: int, *, good: bool, folder: Path) -> tuple[Faulty, plans.Work]:
    """Return a drive of a kind. Every second good drive has no fault at all; the others are as near to the limit as the kind can be."""
    random = np.random.default_rng([47, seed, int(good), [one.name for one in KINDS].index(kind.name)])
    profile = drives.draw(simulator.profiles_dir(), seed)
    if kind.tune is not None:
        kind.tune(profile)
    states = drives.states(profile, kind.operational)
    state = int(random.choice(states))
    work = (kind.good_work or kind.work if good else kind.work)(profile, state, random)
    if "power_threshold_w = 0.0" in work.plan:  # the threshold lies between the rail's levels, so these are looked at first
        unset = replace(work, plan=work.plan.replace("power_threshold_w = 0.0", f"power_threshold_w = {NEVER_W}"))
        wanted = threshold_w(show(profile, unset, state, seed, folder / "before"))
        work = replace(work, plan=work.plan.replace("power_threshold_w = 0.0", f"power_threshold_w = {wanted}"))
    shown = show(profile, work, state, seed, folder)
    if not good:
        return kind.inject(shown, size_of(random, good=False), random), work
    if kind.u is None or seed % 2:
        return Faulty(shown, -math.inf, "no fault"), work
    return kind.inject(shown, size_of(random, good=True), random), work


def judged(faulty: Faulty, work: plans.Work, seed: int, folder: Path) -> list[JudgedRow]:
    """Measure a drive with the instrument, and judge it."""
    trace = folder / "faulty.wbt"
    bustrace.write(faulty.shown.trace, trace)
    about = {"source": "studies/verdicts.py", "phases": read_phases(folder / "phases.json")}
    conditions = {"profile": "drawn", "timing": "model", "fidelity": "fast", "notes": ["a drawn drive of studies/verdicts.py"]}
    options = ["--seed", str(seed), "--fidelity", "fast"]
    run = VirtualRun(
        folder / "capture", conditions, interval_s=work.interval_s, decimation=work.decimation, rig_options=options, workload=about
    )
    check_whole(run.out, play(run, trace, None, lambda: Workload(about, []), Silence()))
    logs = faulty.shown.logs
    pages = DriveLogs(
        power=powerlog.parse(logs[POWER_PAGE]) if POWER_PAGE in logs else None,
        latency=latencylog.parse(logs[LATENCY_PAGE]) if LATENCY_PAGE in logs else None,
    )
    (found,) = judge_all([subject(open_capture(run.out), pages)], [files.load(name) for name in SETS])
    return list(found.rows)


def outcome(kind: Kind, seed: int, good: bool) -> list[Outcome]:
    """Return the outcome of one drive."""
    with tempfile.TemporaryDirectory(prefix="wattbell-verdicts-") as name:
        folder = Path(name)
        faulty, work = made(kind, seed, good=good, folder=folder)
        rows = judged(faulty, work, seed, folder)
    mine = [row for row in rows if row.id in kind.rows]
    named = {f"{row.id} {row.scope}".strip(): row for row in mine}
    best = _decisive(mine, kind, faulty.shown.state)
    return [
        Outcome(
            kind.name,
            good,
            seed,
            faulty.what,
            faulty.excess,
            kind.unit,
            kind.fixed_u if kind.fixed_u is not None or best is None else best.band,
            {name: row.verdict for name, row in named.items()},
            [f"{row.id} {row.scope}: {row.verdict}, {row.why}" for row in rows if row.verdict == "fail"],
            {name: [row.measured.value, row.measured.u, row.limit.value, row.why] for name, row in named.items()},
        )
    ]


def _decisive(rows: Sequence[JudgedRow], kind: Kind, state: int) -> JudgedRow | None:
    """Return the row with the least uncertainty among the rows of the work's state, else among all: the measure of a fault."""
    known = [row for row in rows if row.band is not None and row.measured.value is not None and row.id in (kind.measures or kind.rows)]
    mine = [row for row in known if row.scope == f"PS{state}"] or known
    return min(mine, key=lambda row: row.band or 0.0, default=None)


def drawn(count: int) -> list[tuple[Kind, int]]:
    """Return the kinds and seeds of so many drives: each kind in the share that it has of 200, and the kinds in turn."""
    every = sorted((((k + 0.5) / kind.drives, kind, k) for kind in KINDS for k in range(kind.drives)), key=lambda one: one[0])
    return [(kind, 1000 * KINDS.index(kind) + k) for _, kind, k in every[:count]]


def run_drive(kind: Kind, seed: int, good: bool, kept: Path) -> str:
    """Run one drive, and keep its outcome."""
    (found,) = steadfast(_named(kind, good), seed)
    with durable.replacing(_file(kept, kind, seed, good)) as file:
        file.write_text(json.dumps(asdict(found)))
    return f"{kind.name} {seed}{' good' if good else ''}: {found.what}; {dict(found.verdicts)}"


def _named(kind: Kind, good: bool) -> Any:
    return lambda seed: outcome(kind, seed, good)


def _file(kept: Path, kind: Kind, seed: int, good: bool) -> Path:
    return kept / f"{kind.name.replace(' ', '-')}-{seed}{'-good' if good else ''}.json"


def _run_by_name(name: str, seed: int, good: bool, kept: Path) -> str:
    return run_drive(next(one for one in KINDS if one.name == name), seed, good, kept)


def run_all(work: Sequence[tuple[Kind, int, bool]], processes: int, kept: Path) -> None:
    """Run the drives that are not in ``kept``."""
    kept.mkdir(parents=True, exist_ok=True)
    left = [one for one in work if not _file(kept, *one).is_file()]
    with ProcessPoolExecutor(processes) as pool:
        for done in as_completed([pool.submit(_run_by_name, kind.name, seed, good, kept) for kind, seed, good in left]):
            try:
                print(f"{datetime.now(UTC):%H:%M:%S} {done.result()}", file=sys.stderr, flush=True)
            except RigError as error:  # a busy machine; the next call runs this drive again
                print(f"{datetime.now(UTC):%H:%M:%S} a drive is missing: {error}", file=sys.stderr, flush=True)


def order(faulty: int, good: int) -> list[tuple[Kind, int, bool]]:
    """Return the drives in the order of their runs: faulty and good ones in turn, so that the first ones are of all kinds."""
    bad, right = [(kind, seed, False) for kind, seed in drawn(faulty)], [(kind, seed, True) for kind, seed in drawn(good)]
    both = [one for pair in zip(bad, right, strict=False) for one in pair]
    return [*both, *bad[len(right) :], *right[len(bad) :]]


# -- counting ---------------------------------------------------------------------------------------------------------


def share(count: int, of: int) -> str:
    """Return a share with its 95 % interval (Clopper and Pearson)."""
    if not of:
        return "-"
    low, high = stats.binomtest(count, of).proportion_ci(0.95)
    return f"{count} of {of}: {100 * count / of:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"


def read(kept: Path, work: Sequence[tuple[Kind, int, bool]]) -> list[Outcome]:
    """Return the outcomes that are there, in order."""
    return [Outcome(**json.loads(_file(kept, *one).read_text())) for one in work if _file(kept, *one).is_file()]


def large(found: Sequence[Outcome]) -> list[Outcome]:
    """Return the faulty drives with a fault of 2 U and more that a row judges."""
    return [one for one in found if not one.good and one.size >= LARGE_U and one.judged]


def tables(found: Sequence[Outcome], wanted: tuple[int, int]) -> str:
    """Return the tables as Markdown."""
    faulty, good = [one for one in found if not one.good], [one for one in found if one.good]
    judged = [one for one in faulty if one.judged]
    near = [one for one in good if math.isfinite(one.excess)]
    lines = [
        f"Of {datetime.now(UTC):%Y-%m-%d}: {len(faulty)} of {wanted[0]} faulty drives, and {len(good)} of {wanted[1]} good ones.",
        "",
        "| drives | *fail* | *fail* or *conditional fail* |",
        "|---|--:|--:|",
        _row("fault of 2 U and more, judged", large(found)),
        _row("fault of 2 U and more, all kinds", [one for one in faulty if one.size >= LARGE_U]),
        "| **good drives** | " + share(sum(bool(one.failed) for one in good), len(good)) + f" | {_suspected(good)} |",
        "| good, within 4 U of a limit | " + share(sum(bool(one.failed) for one in near), len(near)) + f" | {_suspected(near)} |",
        "",
        "By size of the fault:",
        "",
        "| size | *fail* | *fail* or *conditional fail* |",
        "|---|--:|--:|",
    ]
    for low, high in SIZES:
        members = [one for one in judged if math.isfinite(one.size) and low <= one.size < high]
        lines.append(_row(f"{low:g} to {high:g} U" if math.isfinite(high) else f"{low:g} U and more", members))
    lines.append(_row("less than the claim or the limit", [one for one in judged if one.size < 0]))
    lines.append(_row("no size (an event, a count)", [one for one in judged if one.size == math.inf]))
    lines += [
        "",
        "By kind:",
        "",
        "| fault | *fail*, of 2 U and more | *fail* or *conditional fail* | below 2 U | not measured |",
        "|---|--:|--:|--:|--:|",
    ]
    for kind in KINDS:
        mine = [one for one in faulty if one.kind == kind.name]
        strong, weak = (
            [one for one in mine if one.size >= LARGE_U and one.judged],
            [one for one in mine if one.size < LARGE_U and one.judged],
        )
        cells = [f"{sum(one.found for one in strong)} of {len(strong)}", f"{sum(one.suspected for one in strong)} of {len(strong)}"]
        cells += [f"{sum(one.found for one in weak)} of {len(weak)}", str(sum(not one.judged for one in mine))]
        lines.append(f"| {kind.text} | {' | '.join(cells)} |")
    missed = [one for one in large(found) if not one.found]
    lines += (
        ["", "Faults of 2 U and more without a *fail*:", ""] if missed else ["", "No judged fault of 2 U and more is without a *fail*."]
    )
    lines += [
        f"- {one.kind}, seed {one.seed}: {one.what}; {_in_u(one.size)}; {'*conditional fail*' if one.suspected else 'passed'}"
        for one in missed
    ]
    accused = [one for one in good if one.failed]
    lines += ["", "Good drives that were accused:", ""] if accused else ["", "No good drive was accused."]
    lines += [f"- {one.kind}, seed {one.seed}: {one.what}; {'; '.join(one.failed)}" for one in accused]
    return "\n".join(lines) + "\n"


def _in_u(size: float) -> str:
    return f"{size:.3g} U" if math.isfinite(size) else "no size"


def _row(name: str, members: Sequence[Outcome]) -> str:
    hits = (sum(one.found for one in members), sum(one.suspected for one in members))
    return f"| {name} | {' | '.join(share(one, len(members)) for one in hits)} |"


def _suspected(members: Sequence[Outcome]) -> str:
    return share(sum(bool(one.failed) or one.suspected for one in members), len(members))


def draw_power(found: Sequence[Outcome], path: Path) -> None:
    """Draw the share of drives with a *fail* over the size of the fault, beside the promise of the decision rule."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "wattbell"
    figure, axes = plt.subplots(figsize=(7.2, 4.0))
    edges = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 10.0)
    sized = [one for one in found if math.isfinite(one.size) and one.judged]
    for low, high in zip(edges, edges[1:], strict=False):
        members = [one for one in sized if low <= one.size < high]
        if members:
            hits = sum(one.found for one in members)
            ci = stats.binomtest(hits, len(members)).proportion_ci(0.95)
            middle, value = float(np.mean([one.size for one in members])), hits / len(members)
            error = [[100 * max(0.0, value - ci.low)], [100 * max(0.0, ci.high - value)]]
            axes.errorbar([middle], [100 * value], yerr=error, fmt="o", color="#1f4e79", capsize=3)
            axes.annotate(
                f"{len(members)}",
                (middle, 100 * value),
                textcoords="offset points",
                xytext=(6, -11 if value > 0.5 else 5),
                fontsize=8,
                color="#444",
            )
    sizes = np.linspace(-4, 8, 400)
    axes.plot(
        sizes, 100 * stats.norm.cdf((sizes - 1) * 2), color="#b04a00", linewidth=1.2, label="figure normal with U = 2 standard deviations"
    )
    axes.axvline(0, color="#888", linewidth=0.8)
    axes.axvline(1, color="#888", linewidth=0.8, linestyle=":")
    axes.set_xlim(-4, 8)
    axes.set_ylim(-3, 103)
    axes.set_xlabel("true figure beyond the limit, in U (dotted: the guard band)")
    axes.set_ylabel("drives with a fail, %")
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    axes.grid(alpha=0.25)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def too_bad(found: Sequence[Outcome]) -> list[str]:
    """Return the aims that are missed by more than chance explains."""
    strong, good = large(found), [one for one in found if one.good]
    out = []
    hits, accused = sum(one.found for one in strong), sum(bool(one.failed) for one in good)
    if strong and stats.binomtest(hits, len(strong), WANTED, "less").pvalue < 0.025:
        out.append(f"{hits} of {len(strong)} faults of 2 U and more were found")
    if good and stats.binomtest(accused, len(good), FALSE_ALARMS, "greater").pvalue < 0.025:
        out.append(f"{accused} of {len(good)} good drives were accused")
    return out


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drives", type=int, default=200)
    parser.add_argument("--good", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=Path("build/verdicts"))
    parser.add_argument("--kind", action="append")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    work = [one for one in order(given.drives, given.good) if not given.kind or one[0].name in given.kind]
    # Outcomes of other code lie beside these, and count no more.
    files = [Path(__file__), *sorted(simulator.profiles_dir().glob("*.toml"))]
    kept = given.kept / stamp("verdicts", files, (*JUDGES, ROOT / "studies/faults"))[:16]
    if given.processes:
        run_all(work, given.processes, kept)
    found = read(kept, work)
    if not found:
        parser.error(f"no drive was run with today's code: {kept} is empty. Leave out --processes 0.")
    text = tables(found, (given.drives, given.good))
    print(text)
    if given.docs:
        draw_power(found, PICTURE)
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END, 1)[1], encoding="utf-8")
    bad = too_bad(found)
    for line in bad if given.check else ():
        print(line, file=sys.stderr)
    return 1 if bad and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
