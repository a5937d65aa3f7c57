#!/usr/bin/env python3
"""How often does `wattbell compare` call equal drives different, and does it see 1 %? Figures for docs/results.md.

There are pairs of identical drive models with other seeds, and pairs of a model and its twins: one draws 1 % more, one takes 1 % longer.
All run a short suite through the fast instrument.

    false_calls.py [--pairs 100] [--first 0] [--twins 30] [--runs 3,5] [--processes 2] [--json FILE] [--docs] [--check]

--json: keeps the pairs, one a line; those that are there are not run again. --twins: of how many pairs the twins are run, too.
--docs: write the figures into docs/results.md. --check: fail when more than 5 % of the pairs of equal models have any verdict.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from wattbell.campaign.ending import Ending
from wattbell.campaign.runner import SuiteOrder, run_suite
from wattbell.campaign.virtual import VirtualBench
from wattbell.results import Run, read_run
from wattbell.results.comparison import compare_sides
from wattbell.results.from_capture import run_from_capture
from wattbell.results.sides import DriveSide
from wattbell.suites.session import Choice
from wattbell.virtual.fidelity import Fidelity
from wattbell.virtual.profiles import find_profile
from wattbell.virtual.simulator import profiles_dir

from tools.jobfile import at_the_drive

PROFILES = ("intel-660p-1tb", "crucial-p1-1tb", "samsung-970-evo-plus", "wd-sn750", "toshiba-rc100", "optane-900p-280gb")
"""Taken in turn: with DRAM and without, TLC, QLC and 3D XPoint."""
MORE = 1.01
"""Factor between a twin's property and its model's."""
_WHOLE = re.compile(r"\w+_ns|flush_idle_us")
"""Keys of whole numbers."""
_NUMBER = r"( = \{ value = )([0-9.eE+-]+)"
PAGE = Path(__file__).resolve().parents[1] / "docs/results.md"
BEGIN, END = "<!-- generated: python -m studies.false_calls --docs -->\n", "<!-- end of generated -->\n"
SEEDS = 1000
"""Seeds reserved for each pair; no two runs have one seed."""

MANIFEST = """name = "false-calls"
title = "A short run of each kind"
session = "false-calls"

[[test]]
id = "burst"
name = "Bursts"
kind = "burst"
conditions = ["test-data"]
test_data = "64m"
rail_interval_s = 1e-5
jobs = "burst.fio"
duty = 0.5

[[test]]
id = "writes"
name = "Random write"
kind = "queue-depths"
conditions = ["test-data"]
test_data = "64m"
rail_interval_s = 1e-5
jobs = "writes.fio"
score_over = [1, 4]

[[test]]
id = "awake"
name = "Active idle"
kind = "idle"
conditions = ["test-data"]
test_data = "64m"
rail_interval_s = 1e-5
idle_s = 0.1
idle_min_s = 0.1
"""
OPTIONS = "bs=4k\nsize=64m\nrandrepeat=0\nnorandommap=1\ngroup_reporting=1\nstonewall\n"
JOBS = {
    "burst.fio": "rw=randread\niodepth=1\nio_size=1m\n[one]\n[two]\n[three]\n",
    "writes.fio": "rw=randwrite\nio_size=1m\n[qd1]\niodepth=1\n[qd4]\niodepth=4\n",
}


class Silent:
    """Hears nothing of a run."""

    json = True

    def say(self, text: str) -> None:
        """Nothing."""

    def spinner(self, text: str) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def recording(self, *_: Any, **__: Any) -> AbstractContextManager[Any]:
        """Nothing."""
        return nullcontext(lambda *_, **__: None)

    def progress(self, eta: Any) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def ahead(self, outlook: Any, bench: Any) -> None:
        """Nothing."""

    begun = scored = lambda self, *_: None


@dataclass
class Count:
    """Counts of comparisons: all, those with any verdict, their rows, and their verdicts.

    seen_from: by kind of row, the smallest difference that would be seen, as a share of A
    """

    pairs: int = 0
    called: int = 0
    rows: int = 0
    verdicts: int = 0
    seen_from: dict[str, list[float]] = field(default_factory=dict)

    def add(self, other: Count) -> None:
        """Take up another count."""
        self.pairs += other.pairs
        self.called += other.called
        self.rows += other.rows
        self.verdicts += other.verdicts
        for kind, values in other.seen_from.items():
            self.seen_from.setdefault(kind, []).extend(values)


def write_suite(folder: Path) -> Path:
    """The short suite."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.toml").write_text(MANIFEST)
    for name, text in JOBS.items():
        (folder / name).write_text(at_the_drive(OPTIONS + text))
    return folder


@dataclass(frozen=True)
class Twin:
    """A model that differs by 1 % in one respect. ``title``: of its table; ``sections``, ``keys``: of the profile, which keys take
    :data:`MORE` as their factor; ``inverse``: which are divided by it; ``verdicts``: by kind of row, the right verdict of the twin."""

    title: str
    sections: re.Pattern[str]
    keys: re.Pattern[str]
    verdicts: Mapping[str, str]
    inverse: re.Pattern[str] | None = None


TWINS = {
    "power": Twin("1 % more power", re.compile("."), re.compile(r"(?!max_w)\w+_w"), {"power": "higher", "bytes per joule": "lower"}),
    "time": Twin(
        "1 % longer", re.compile(r"\[(controller|flash)\]"), re.compile(r"\w+_[un]s"), {"rate": "lower"}, re.compile(r"\w+_mb_per_s")
    ),
}
"""``power``: in every state and at every work, with the drive's declarations unchanged. ``time``: for all actions of controller and flash,
with link and host unchanged.
"""


def write_twin(folder: Path, profile: str, twin: Twin, more: float = MORE, source: Path | None = None) -> Path:
    """The profile of a drive's twin. ``source``: the folder of the profiles that it is made of; the installed ones where None."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (source or profiles_dir()).glob("*.toml"):
        lines, section = [], ""
        for line in path.read_text().splitlines():
            section = line if line.startswith("[") else section
            key = line.partition(" = ")[0]
            if twin.sections.match(section):
                factor = more if twin.keys.fullmatch(key) else 1 / more if twin.inverse and twin.inverse.fullmatch(key) else 1.0
                if factor != 1:
                    line = re.sub(_NUMBER, partial(_multiplied, by=factor, whole=bool(_WHOLE.fullmatch(key))), line)
            lines.append(line)
        (folder / path.name).write_text("\n".join(lines) + "\n")
    return folder / f"{profile}.toml"


def _multiplied(found: re.Match[str], by: float, whole: bool) -> str:
    """A value of a profile times ``by``. ``whole``: the model takes whole numbers only."""
    made = float(found[2]) * by
    return found[1] + (str(round(made)) if whole else repr(made))


def one_run(suite: Path, profile: Path, seed: int) -> tuple[Run, Run]:
    """A run of the suite, and its capture as a run with energies."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        bench = VirtualBench(profile, Choice(seed=seed), Silent(), Fidelity.fast)
        run_suite(SuiteOrder(str(suite), out), bench, Ending(None, page=False), Silent())
        (capture,) = (out / "captures").iterdir()
        return read_run(out), run_from_capture(capture)


def compared(a: Sequence[Run], b: Sequence[Run]) -> Count:
    """One comparison."""
    (pair,) = compare_sides([DriveSide(tuple(a), "A"), DriveSide(tuple(b), "B")]).pairs
    rows = [row for row in pair.rows if row.verdict in ("higher", "lower", "unseen")]
    verdicts = sum(row.verdict != "unseen" for row in rows)
    found = Count(1, int(verdicts > 0), len(rows), verdicts)
    for row in rows:
        if row.seen_from is not None and row.a.value:
            found.seen_from.setdefault(_kind(row.name, row.unit), []).append(row.seen_from / abs(row.a.value))
    return found


def _kind(name: str, unit: str) -> str:
    return {"MB/s": "rate", "IOPS": "rate", "W": "power", "MB/J": "bytes per joule", "MB/s/W": "bytes per joule"}.get(
        unit, "energy of a command" if unit == "J" else "time"
    )


def by_one_run(a: Run, b: Run) -> Count:
    """Count the differences that the uncertainty within one run of each side would have called."""
    (pair,) = compare_sides([DriveSide((a,), "A"), DriveSide((b,), "B")]).pairs
    rows = [row for row in pair.rows if row.seen_from is not None and row.difference.value is not None]
    verdicts = sum(abs(row.difference.known) > (row.seen_from or 0.0) for row in rows)
    return Count(1, int(verdicts > 0), len(rows), verdicts)


def twin_rows(a: Sequence[Run], b: Sequence[Run], twin: Twin) -> dict[str, tuple[int, int, float]]:
    """Compare a model with its twin.

    Return by kind the number of rows that should differ, the number called rightly, and the sum of the measured differences as shares of A.
    """
    (pair,) = compare_sides([DriveSide(tuple(a), "A"), DriveSide(tuple(b), "B")]).pairs
    right: dict[str, tuple[int, int, float]] = {}
    for row in pair.rows:
        kind = _kind(row.name, row.unit)
        if row.verdict in ("higher", "lower", "unseen") and kind in twin.verdicts and row.a.value:
            of, seen, apart = right.get(kind, (0, 0, 0.0))
            right[kind] = (of + 1, seen + (row.verdict == twin.verdicts[kind]), apart + row.difference.known / row.a.value)
    return right


def one_pair(number: int, runs: Sequence[int], twins: int) -> dict[str, Any]:
    """One pair of equal models and, of the first ``twins`` pairs, the model's twins; with the first so many runs of each side."""
    with tempfile.TemporaryDirectory() as scratch:
        suite = write_suite(Path(scratch) / "suite")
        name = PROFILES[number % len(PROFILES)]
        profile = find_profile(name)
        of = {what: write_twin(Path(scratch) / what, name, twin) for what, twin in TWINS.items() if number < twins}
        most = max(runs)
        a, b, *others = (
            [one_run(suite, where, 1 + SEEDS * number + 100 * side + k) for k in range(most)]
            for side, where in enumerate((profile, profile, *of.values()))
        )
    found: dict[str, Any] = {"number": number, "profile": name}
    for what, part in (("suite", 0), ("capture", 1)):
        ours, theirs, *more = ([run[part] for run in side] for side in (a, b, *others))
        found[what] = {
            "one run": asdict(by_one_run(ours[0], theirs[0])),
            "equal": {n: asdict(compared(ours[:n], theirs[:n])) for n in runs},
            "one percent": {
                twin: {n: twin_rows(ours[:n], side[:n], TWINS[twin]) for n in runs} for twin, side in zip(of, more, strict=True)
            },
        }
    return found


def summary(each: Sequence[Mapping[str, Any]], runs: Sequence[int]) -> str:
    """The figures as Markdown."""
    lines = [f"Of {datetime.now(UTC):%Y-%m-%d}: {len(each)} pairs of equal models, of {len({one['profile'] for one in each})} drives.", ""]
    lines += ["| compared | runs a side | rows | verdicts | pairs with any |", "|---|--:|--:|--:|--:|"]
    for what, words in (("suite", "figures of the suite"), ("capture", "figures, energies and states of its capture")):
        old = _sum(one[what]["one run"] for one in each)
        lines.append(f"| {words}, by the uncertainty within one run (as before) | 1 | {old.rows} | {_share(old)} | {old.called} |")
        for n in runs:
            new = _sum(one[what]["equal"][n] for one in each)
            lines.append(f"| {words} | {n} | {new.rows} | {_share(new)} | {new.called} |")
    for name, twin in TWINS.items():
        lines += [
            "",
            f"| {twin.title}, rightly called | runs a side | {' | '.join(twin.verdicts)} |",
            f"|---|--:|{'--:|' * len(twin.verdicts)}",
        ]
        for what, words in (("suite", "figures of the suite"), ("capture", "figures and states of its capture")):
            for n in runs:
                counts = [one[what]["one percent"].get(name, {}).get(n, {}) for one in each]
                cells = [_called([count[kind] for count in counts if kind in count]) for kind in twin.verdicts]
                lines.append(f"| {words} | {n} | {' | '.join(cells)} |")
    lines += ["", "| seen from, median (and 90th percentile) | runs a side | " + " | ".join(KINDS) + " |"]
    lines += ["|---|--:|" + "--:|" * len(KINDS)]
    for n in runs:
        whole = _sum(one[what]["equal"][n] for one in each for what in ("suite", "capture"))
        lines.append(f"| all | {n} | {' | '.join(_quantiles(whole.seen_from.get(kind, [])) for kind in KINDS)} |")
    return "\n".join(lines) + "\n"


KINDS = ("rate", "power", "bytes per joule", "energy of a command")


def _called(counts: Sequence[Sequence[float]]) -> str:
    """How many rows were called rightly, and by how much the twin was measured to differ."""
    of, right, apart = (sum(count[i] for count in counts) for i in range(3))
    return f"{100 * right / of:.1f} % of {of:.0f} ({100 * apart / of:+.2f} %)" if of else "-"


def _share(count: Count) -> str:
    return f"{count.verdicts} ({100 * count.verdicts / count.rows:.1f} %)" if count.rows else "0"


def _quantiles(values: Sequence[float]) -> str:
    return (
        "-"
        if not values
        else " ".join(f"{100 * q:.2g} %" if i == 0 else f"({100 * q:.2g} %)" for i, q in enumerate(np.quantile(values, (0.5, 0.9))))
    )


def _sum(counts: Iterator[Mapping[str, Any]]) -> Count:
    whole = Count()
    for one in counts:
        whole.add(Count(**one))
    return whole


def study(numbers: Sequence[int], runs: Sequence[int], twins: int, processes: int, kept: Path | None) -> list[dict[str, Any]]:
    """All pairs; each is added to ``kept`` as a line as soon as it is known, and one that is there is not run again."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.is_file() else []
    before = [json.loads(line, object_hook=_numbered) for line in lines]
    numbers = [number for number in numbers if number not in {one["number"] for one in before}]
    with ProcessPoolExecutor(processes) as pool:
        found = list(before)
        for work in as_completed([pool.submit(one_pair, number, runs, twins) for number in numbers]):
            one = work.result()
            found.append(one)
            if kept is not None:
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(one) + "\n")
            called = [one[what]["equal"][n]["verdicts"] for what in ("suite", "capture") for n in runs]
            print(f"{datetime.now(UTC):%H:%M:%S} pair {one['number']}, {one['profile']}: verdicts {called}", file=sys.stderr, flush=True)
        return found


def _numbered(found: dict[str, Any]) -> dict[Any, Any]:
    """JSON has no numbers for keys."""
    return {int(key) if key.isdigit() else key: value for key, value in found.items()}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--twins", type=int, default=30)
    parser.add_argument("--runs", default="3,5")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    runs = [int(text) for text in given.runs.split(",")]
    each = study(range(given.first, given.first + given.pairs), runs, given.twins, given.processes, given.json)
    text = summary(each, runs)
    print(text)
    if given.docs:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END, 1)[1], encoding="utf-8")
    most = max(_sum(one[what]["equal"][n] for one in each).called for what in ("suite", "capture") for n in runs)
    if given.check and most > 0.05 * len(each):
        print(f"{most} of {len(each)} pairs of equal models have a verdict", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
