#!/usr/bin/env python3
"""How often does `wattbell compare --gate` accuse a good firmware, and which regressions does it find? Figures for docs/regressions.md.

    firmware_gate.py [--samples 100] [--worse 40] [--processes 2] [--kept build/firmware-gate] [--pairs 500] [--docs] [--check]

Two parts, told apart in the tables:

- **Runs of the SSD model**, through the fast instrument and scored by a suite. Each sample of a drive has powers and times of its own, its
  serial number, and three runs of each firmware: the old one, one that changes nothing, and (of the first ``--worse`` samples) one that
  draws 2 % more. A new firmware also acts a little differently on each sample. Each sample is a pair, and each five samples of one model
  are another. --kept has each sample's results; those that are there are not run again.
  --processes 0 runs none.
- **Drawn figures**, without a model or an instrument: normal runs and samples, many pairs of each case.

--docs: write the figures into the page. --check: fail when false alarms are more frequent than 2.5 % can explain.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from wattbell import durable
from wattbell.campaign.ending import Ending
from wattbell.campaign.runner import SuiteOrder, run_suite
from wattbell.campaign.virtual import VirtualBench
from wattbell.errors import RigError
from wattbell.measure.figure import Figure
from wattbell.results.compared import Matched
from wattbell.results.gate import LEVEL, GatedFigure, gated_sides, judge_change, judge_rows
from wattbell.results.model import parse
from wattbell.suites.session import Choice
from wattbell.virtual.fidelity import Fidelity

from studies.energy_coverage import steadfast
from studies.false_calls import JOBS, MANIFEST, OPTIONS, PROFILES, TWINS, Silent, write_twin
from tools.jobfile import at_the_drive

GATE = 0.01
WORSE = 1.02
"""Factor on every power under the firmware that is worse."""
RUNS = 3
GROUP = 5
"""Samples of one model that are judged together."""
SAMPLE_SD = 0.01
"""Standard deviation of a sample's powers and times, as a share."""
ACT_SD = 0.001
"""Standard deviation of a new firmware's effect on a sample's powers."""
FIRMWARES = ("old", "equal", "worse")
PAGE = Path(__file__).resolve().parents[1] / "docs/regressions.md"
BEGIN, END = "<!-- generated: python -m studies.firmware_gate --docs -->\n", "<!-- end of generated -->\n"
READS = """
[[test]]
id = "reads"
name = "Random read"
kind = "queue-depths"
conditions = ["test-data"]
test_data = "64m"
rail_interval_s = 1e-5
jobs = "reads.fio"
score_over = [1, 4]
"""


# -- runs of the model -------------------------------------------------------------------------------------------------


def write_suite(folder: Path) -> Path:
    """The short suite of `make false-calls`, with random reads as well."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.toml").write_text(MANIFEST.replace('"false-calls"', '"firmware-gate"') + READS)
    for name, text in {**JOBS, "reads.fio": JOBS["writes.fio"].replace("randwrite", "randread")}.items():
        (folder / name).write_text(at_the_drive(OPTIONS + text))
    return folder


def profile_of(sample: int) -> str:
    """The model of a sample: the same for each group of :data:`GROUP`."""
    return PROFILES[sample // GROUP % len(PROFILES)]


def write_sample(folder: Path, sample: int, firmware: str) -> Path:
    """Write the profile of a sample with a firmware; return its path."""
    random = np.random.default_rng([47, sample])
    own_power, own_time = (1 + SAMPLE_SD * float(random.standard_normal()) for _ in range(2))
    acts = 1 + ACT_SD * float(random.standard_normal())
    power = own_power * {"old": 1.0, "equal": acts, "worse": acts * WORSE}[firmware]
    name = profile_of(sample)
    write_twin(folder / "power", name, TWINS["power"], power)
    made = write_twin(folder / "both", name, TWINS["time"], own_time, folder / "power")
    text = re.sub(r'(serial = \{ value = )"[^"]*"', rf'\1"SAMPLE{sample:04d}"', made.read_text())
    made.write_text(re.sub(r'(firmware = \{ value = )"[^"]*"', rf'\1"{"OLD" if firmware == "old" else "NEW"}"', text))
    return made


def run_sample(sample: int, worse: bool, kept: Path) -> int:
    """Run one sample with each firmware, and keep the results. Return the sample's number."""
    found: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        suite = write_suite(Path(scratch) / "suite")
        for number, firmware in enumerate(FIRMWARES if worse else FIRMWARES[:2]):
            profile = write_sample(Path(scratch) / firmware, sample, firmware)
            for k in range(RUNS):
                found.setdefault(firmware, []).extend(steadfast(_results, 1 + 100 * sample + 10 * number + k, suite, profile))
    with durable.replacing(_file(kept, sample)) as made:
        made.write_text(json.dumps(found))
    return sample


def _results(seed: int, suite: Path, profile: Path) -> list[Any]:
    """Return the document of one run."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        bench = VirtualBench(profile, Choice(seed=seed), Silent(), Fidelity.fast)
        run_suite(SuiteOrder(str(suite), out), bench, Ending(None, page=False), Silent())
        return [json.loads((out / "results.json").read_text())]


def _file(kept: Path, sample: int) -> Path:
    return kept / f"sample-{sample:04d}.json"


def run_samples(samples: int, worse: int, processes: int, kept: Path) -> None:
    """Run the samples that are not in ``kept``."""
    kept.mkdir(parents=True, exist_ok=True)
    left = [sample for sample in range(samples) if not _file(kept, sample).is_file()]
    with ProcessPoolExecutor(processes) as pool:
        for work in as_completed([pool.submit(run_sample, sample, sample < worse, kept) for sample in left]):
            try:
                print(f"{datetime.now(UTC):%H:%M:%S} sample {work.result()}", file=sys.stderr, flush=True)
            except RigError as error:  # a busy machine; the next call runs this sample again
                print(f"{datetime.now(UTC):%H:%M:%S} a sample is missing: {error}", file=sys.stderr, flush=True)


def judged(samples: Sequence[dict[str, list[Any]]], firmware: str) -> Sequence[GatedFigure]:
    """Judge the runs of some samples, the old firmware against another, as the command does."""
    groups = [
        [parse(document, f"{name} {i}.{k}") for i, one in enumerate(samples) for k, document in enumerate(one[name])]
        for name in ("old", firmware)
    ]
    a, b = gated_sides(groups, given=False)
    return judge_change(a, b, GATE).rows


# -- counting ----------------------------------------------------------------------------------------------------------


class Outcomes(Counter[str]):
    """Counts of pairs with any *fail*, and of judged rows by verdict."""

    def add(self, rows: Iterable[GatedFigure]) -> None:
        """Count the rows of one pair."""
        verdicts = [row.judgement.verdict for row in rows if row.change is not None]
        self.update(verdicts)
        self.update({"pairs": 1, "accused": int("fail" in verdicts), "cleared": int(set(verdicts) == {"pass"}), "rows": len(verdicts)})

    def share(self, what: str, of: str) -> str:
        """Return a count, as a share with its 95 % interval (Clopper and Pearson)."""
        if not self[of]:
            return "-"
        low, high = stats.binomtest(self[what], self[of]).proportion_ci(0.95)
        return f"{100 * self[what] / self[of]:.1f} % of {self[of]} ({100 * low:.1f} to {100 * high:.1f} %)"


HEADS = "| pairs | new firmware | runs | regression called | rows: regression | no regression | undecided |\n|---|---|--:|--:|--:|--:|--:|"


def line(what: str, firmware: str, runs: str, found: Outcomes) -> str:
    """A row of a table."""
    undecided = found["conditional pass"] + found["conditional fail"]
    rows = [f"{100 * n / found['rows']:.1f} %" if found["rows"] else "-" for n in (found["fail"], found["pass"], undecided)]
    return f"| {what} | {firmware} | {runs} | {found.share('accused', 'pairs')} | {' | '.join(rows)} |"


def of_models(kept: Path, samples: int) -> Iterator[tuple[str, str, Outcomes]]:
    """Yield (pairs, firmware, counts) of the runs of the model. Of a worse firmware, only rows of power and energy count."""
    each = {k: json.loads(_file(kept, k).read_text()) for k in range(samples) if _file(kept, k).is_file()}
    groups = [[each[k] for k in range(first, first + GROUP) if k in each] for first in range(0, samples, GROUP)]
    for firmware in FIRMWARES[1:]:
        alone, together = Outcomes(), Outcomes()
        for one in (one for one in each.values() if firmware in one):
            alone.add(_counted(judged([one], firmware), firmware))
        for group in groups:
            if len(group) == GROUP and all(firmware in one for one in group):
                together.add(_counted(judged(group, firmware), firmware))
        yield "one sample", firmware, alone
        yield f"{GROUP} samples", firmware, together


def _counted(rows: Sequence[GatedFigure], firmware: str) -> list[GatedFigure]:
    return [row for row in rows if firmware == "equal" or row.unit == "W"]


# -- drawn figures -----------------------------------------------------------------------------------------------------

FIGURES = 10
DRAWN_CHANGES = (0.0, 0.01, 0.015, 0.02, 0.03)
DESIGNS = ((1, 3), (1, 5), (3, 3), (5, 3))
"""Samples and runs of each."""
RUN_SD = 0.003
DRAWN_ACT_SD = 0.002


def drawn(samples: int, runs: int, rise: float, random: np.random.Generator) -> Sequence[GatedFigure]:
    """Judge one pair of drawn figures. ``rise``: of the first figure's true mean over all samples; the others do not change."""
    names = [f"s{k}" for k in range(samples) for _ in range(runs)]
    rows = []
    for i in range(FIGURES):
        own = np.repeat(random.normal(0, SAMPLE_SD, samples), runs)
        # the change of one sample alone is its own truth: nothing is drawn for it
        act = np.repeat(random.normal(0, DRAWN_ACT_SD, samples) if samples > 1 else np.zeros(1), runs)
        a, b = (np.exp(own + side * (act + (np.log1p(rise) if i == 0 else 0)) + random.normal(0, RUN_SD, len(names))) for side in (0, 1))
        figures = [[Figure(float(value), 0.0, "W") for value in side] for side in (a, b)]
        rows.append(Matched("drawn", f"figure {i}", "W", figures[0], figures[1]))
    return judge_rows(rows, (names, names), GATE)


def of_drawn(pairs: int) -> Iterator[tuple[str, str, str, Outcomes]]:
    """Yield (pairs, firmware, runs, counts). Where the first figure rose, it alone counts."""
    for samples, runs in DESIGNS:
        for rise in DRAWN_CHANGES:
            random, found = np.random.default_rng([samples, runs, round(1e4 * rise)]), Outcomes()
            for _ in range(pairs):
                rows = drawn(samples, runs, rise, random)
                found.add(rows if rise <= GATE else rows[:1])
            yield (
                f"{samples} {'sample' if samples == 1 else 'samples'}",
                f"+{100 * rise:g} % in one figure" if rise else "equal",
                str(runs),
                found,
            )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--worse", type=int, default=40)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=Path("build/firmware-gate"))
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.processes:
        run_samples(given.samples, given.worse, given.processes, given.kept)
    models = list(of_models(given.kept, given.samples))
    drawn_ones = list(of_drawn(given.pairs))
    names = {"equal": "equal", "worse": f"+{100 * (WORSE - 1):g} % power"}
    lines = [f"Of {datetime.now(UTC):%Y-%m-%d}. Runs of the SSD model:", "", HEADS]
    lines += [line(what, names[firmware], str(RUNS), found) for what, firmware, found in models]
    lines += ["", f"Drawn figures, no model and no instrument ({FIGURES} figures a pair):", "", HEADS]
    lines += [line(*one) for one in drawn_ones]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.docs:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END, 1)[1], encoding="utf-8")
    bad = [
        (what, found["accused"], found["pairs"])
        for what, found in [
            *((f"model, {what}", found) for what, firmware, found in models if firmware == "equal"),
            *(
                (f"drawn, {what}, {firmware}, {runs} runs", found)
                for what, firmware, runs, found in drawn_ones
                if firmware == "equal" or "+1 %" in firmware
            ),
        ]
        if found["pairs"] and stats.binomtest(found["accused"], found["pairs"], LEVEL, "greater").pvalue < 0.001
    ]
    for what, accused, of in bad if given.check else ():
        print(f"{what}: {accused} of {of} pairs without a regression were accused", file=sys.stderr)
    return 1 if bad and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
