"""Runs whatever the statements of the seeds ask for, unscaled, and writes docs/seeds-check.md (`make seeds-check`).

One run per drive, suite and condition, with only the tests that a statement needs; results go to build/seeds. Existing runs of the
same programs, host package, profile and suite are kept, so an interrupted check resumes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from wattbell.suites.manifest import load_suite
from wattbell.virtual import simulator

from studies.seeds.statements import Book, Reference, load_statements
from studies.stamp import PACKAGE, ROOT, stamp

EVERYTHING = {("660p", "anandtech-2018")}
"""Suites run whole, as their user runs them."""


@dataclass(frozen=True)
class Job:
    """A run of a suite. ``tests`` empty: all tests."""

    profile: str
    suite: str
    condition: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.profile}-{self.suite}-{self.condition}"


def needed(book: Book) -> list[Job]:
    """The runs that the statements need, longest first."""
    tests: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for statement in book.statements:
        for reference in (statement.a, statement.b):
            for drive in reference.drives if reference else ():
                key = (drive, reference.suite if reference else "")
                if reference and reference.test and key not in EVERYTHING:
                    tests[(*key, _condition(reference))].add(reference.test)
                elif reference:
                    tests[(*key, "both")] |= set()
    jobs = []
    for (drive, suite, condition), names in tests.items():
        known = {test.id for test in load_suite(suite).tests}
        unknown = names - known
        if unknown:
            raise SystemExit(f"seeds-check: {suite} has no test {', '.join(sorted(unknown))}; correct the statements.")
        jobs.append(Job(_profile(book, drive), suite, condition, tuple(sorted(names))))
    return sorted(jobs, key=lambda job: (bool(job.tests), -len(job.tests), job.name))


def _condition(reference: Reference) -> str:
    return reference.condition if reference.suite == "anandtech-2018" and reference.condition else "both"


def _profile(book: Book, drive: str) -> str:
    names = sorted(path.stem for path in simulator.profiles_dir().glob("*.toml"))
    found = [name for pattern in book.drives[drive].profiles for name in names if fnmatch(name, pattern)]
    if not found:
        raise SystemExit(f"seeds-check: there is no profile for {drive} in {simulator.profiles_dir()}.")
    return found[0]


def stamp_of(job: Job) -> str:
    """Return a hash of everything that the run depends on."""
    suite = sorted(path for path in (PACKAGE / "suites" / "data" / job.suite).iterdir() if path.is_file())
    folders = [PACKAGE / name for name in ("suites", "measure", "analysis", "capture")]
    return stamp(repr(job), [simulator.profiles_dir() / f"{job.profile}.toml", *suite], folders)


def run(job: Job, folder: Path) -> str:
    """Runs a job unless its result exists; returns an empty string or an error."""
    out, mark, log = folder / job.name, folder / f"{job.name}.stamp", folder / f"{job.name}.log"
    want = stamp_of(job)
    if mark.is_file() and mark.read_text() == want and (out / "results.json").is_file():
        print(f"{job.name}: there already", flush=True)
        return ""
    command = [sys.executable, "-m", "wattbell", "run", job.suite, "--virtual", job.profile, "--fidelity", "fast"]
    command += ["--condition", job.condition] if job.suite == "anandtech-2018" else []
    command += ["--tests", ",".join(job.tests)] if job.tests else []
    command += ["--out", str(out), "--force", "--discard-captures", "--no-store", "--no-page"]
    begin = time.monotonic()
    environment = {**os.environ, "WATTBELL_RUNTIME": str(folder / "runtime")}
    with log.open("w") as words:
        code = subprocess.run(command, stdout=words, stderr=words, env=environment, check=False).returncode
    if code:
        return f"{job.name} failed ({code}); its words are in {log}"
    mark.write_text(want)
    print(f"{job.name}: {time.monotonic() - begin:.0f} s", flush=True)
    return ""


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "seeds", help="where the runs go")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "seeds-check.md", help="the page")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--list", action="store_true", help="say what would be run, and end")
    chosen = parser.parse_args()
    jobs = needed(load_statements())
    if chosen.list:
        for job in jobs:
            print(f"{job.name}: {', '.join(job.tests) or 'all tests'}")
        return 0
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        failures = [text for text in pool.map(lambda job: run(job, chosen.folder), jobs) if text]
    for text in failures:
        print(f"seeds-check: {text}", file=sys.stderr)
    runs = [
        option
        for job in jobs
        if (chosen.folder / job.name / "results.json").is_file()
        for option in ("--run", str((chosen.folder / job.name).resolve()))
    ]
    page = subprocess.run([sys.executable, "-m", "studies.seeds", *runs, "--out", str(chosen.out.resolve())], cwd=ROOT, check=False)
    return 1 if failures else page.returncode


if __name__ == "__main__":
    sys.exit(main())
