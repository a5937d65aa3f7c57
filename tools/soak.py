"""The long runs behind docs/reliability.md: ``make soak``, or parts of it by ``--parts``.

Results are kept in ``build/soak``, one JSON file per part, and an interrupted part resumes. The page is written from these files at the
end of each run. A page covers one tree: a part with results of another tree is run anew, or is missing on the page.

``--short`` is the form that CI runs: fewer tries, no page in docs, and neither the attacks nor the fuzz tests, which CI runs as tests.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
os.environ.setdefault("POLARS_MAX_THREADS", "1")  # one process per core: more threads of Polars would only wait for each other
# keep what JLS allocates for each file in the process: returning it to the kernel and back is half of a trial's time
os.environ.setdefault("MALLOC_MMAP_MAX_", "0")
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(1 << 32))

PARTS = ("trials", "matrix", "attacks", "bulk", "fuzz")
SHORT = {"parts": "trials,matrix,bulk", "trials": 1_000, "tries": 1, "gb": 1.0}
"""Options of the short form."""
UNDER_TEST = ("host", "spec", "sim", "firmware", "tests", "tools", "docs/threats.md")
"""Folders and files that a result depends on."""
_BATCH = 250
_SILENT_KEPT = 20
_FREE_KEPT = 10e9
"""Bytes of disk that the bulk run leaves free."""
_BULK_FACTOR = 1.4
"""Bytes on disk per byte of stream: the journal, and the tables."""


class Store:
    """The results of a part so far, in ``FOLDER/PART.json``."""

    def __init__(self, folder: Path, part: str, tree: str) -> None:
        self.path = folder / f"{part}.json"
        try:
            kept = json.loads(self.path.read_text())
        except FileNotFoundError:
            kept = {}
        same = kept.get("tree") == tree and not tree.endswith(_CHANGED)
        self.data: dict[str, Any] = kept if same else {"tree": tree, "seconds": 0.0, "rows": {}}

    def save(self) -> None:
        self.data["date"] = time.strftime("%Y-%m-%d", time.gmtime())
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.data, indent=1))
        os.replace(temporary, self.path)

    @contextmanager
    def timed(self) -> Iterator[None]:
        begun, before = time.monotonic(), self.data["seconds"]
        try:
            yield
        finally:
            self.data["seconds"] = before + time.monotonic() - begun
            self.save()

    def add(self, row: str, lost: bool, flagged: bool, silent: list[str]) -> None:
        kept = self.data["rows"].setdefault(row, {"tried": 0, "lost": 0, "flagged": 0, "silent": 0, "words": []})
        kept["tried"] += 1
        kept["lost"] += lost
        kept["flagged"] += lost and flagged and not silent
        kept["silent"] += bool(silent)
        if silent and len(kept["words"]) < _SILENT_KEPT:
            kept["words"].append(silent[0])


_CHANGED = " with changes"


def tree_of(folder: Path = ROOT) -> str:
    """The tree under test: the last commit that changed one of UNDER_TEST, and whether there are changes that no commit has."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words, "--", *UNDER_TEST], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    return git("log", "-1", "--format=%h") + (_CHANGED if git("status", "--porcelain") else "")


def _progress(done: int, of: int, what: str) -> None:
    """Shows how far a part is: on one line of a terminal, or in ten lines of a log."""
    if sys.stderr.isatty():
        print(f"\r{done} of {of} {what}", end="" if done < of else "\n", file=sys.stderr, flush=True)
    elif done == of or done * 10 // of > (done - 1) * 10 // of:
        print(f"soak: {done} of {of} {what}", file=sys.stderr, flush=True)


# -- trials ------------------------------------------------------------------------------------------------------------


def _trials(span: tuple[int, int]) -> list[tuple[int, str, bool, bool, list[str]]]:
    from tests.faults.faulttrial import arrange, scratch, trial

    folder, done = scratch(), []
    for seed in range(*span):
        try:
            one = trial(seed, folder)
            done.append((seed, one.fault, one.verdict.lost > 0, one.verdict.told, one.verdict.silent))
        except Exception:
            shutil.rmtree(folder / "capture", ignore_errors=True)
            done.append((seed, arrange(seed)[0], True, False, [traceback.format_exc()[-500:]]))
    shutil.rmtree(folder)
    return done


def trials(store: Store, number: int, deadline: float) -> None:
    """Trials 0 .. ``number`` - 1 of tests/faults/faulttrial.py, in as many processes as there are cores."""
    begin = store.data.setdefault("next", 0)
    spans = [(a, min(a + _BATCH, number)) for a in range(begin, number, _BATCH)]
    # a new process now and then, to free what libraries keep
    with multiprocessing.get_context("spawn").Pool(maxtasksperchild=8) as pool:
        for done in pool.imap(_trials, spans):
            for seed, fault, lost, told, silent in done:
                store.add(fault, lost, told, [f"trial {seed}: {text}" for text in silent])
                store.data["next"] = seed + 1
            store.save()
            _progress(store.data["next"], number, "trials")
            if time.monotonic() > deadline:
                break


# -- matrix ------------------------------------------------------------------------------------------------------------


def _try(job: tuple[str, int]) -> tuple[str, int, bool, bool, list[str] | str]:
    """Return row, seed, lost, flagged, and what was not flagged; in place of the last, why this machine cannot try the row."""
    from tests.faults.faultmatrix import attempt
    from tests.faults.faultoracle import NotHere
    from tests.faults.faulttrial import scratch

    name, seed = job
    folder = scratch()
    try:
        verdict = attempt(name, seed, folder)
        return name, seed, verdict.lost > 0, verdict.told, verdict.silent
    except NotHere as reason:
        return name, seed, False, False, str(reason)
    except Exception:
        return name, seed, True, False, [traceback.format_exc()[-500:]]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def matrix(store: Store, number: int, deadline: float, only: str) -> None:
    """Every row of tests/faults/faultmatrix.py (with ``only`` in its name); ``number`` tries of those that take seconds."""
    from tests.faults.faultmatrix import ROWS

    jobs = []
    for name, (_, times) in ROWS.items():
        if only not in name:
            continue
        begin = store.data["rows"].get(name, {}).get("tried", 0)
        jobs += [(name, seed) for seed in range(begin, int(number * times))]
    jobs.sort(key=lambda job: job[1] / ROWS[job[0]][1])  # each row gets its share when time is short
    with multiprocessing.get_context("spawn").Pool(maxtasksperchild=20) as pool:
        for count, (name, seed, lost, told, silent) in enumerate(pool.imap(_try, jobs), 1):
            if isinstance(silent, str):
                store.data.setdefault("not_here", {})[name] = silent
            else:
                store.add(name, lost, told, [f"try {seed}: {text}" for text in silent])
            store.save()
            _progress(count, len(jobs), "tries")
            if time.monotonic() > deadline:
                break


# -- attacks -----------------------------------------------------------------------------------------------------------


def attack_files() -> list[str]:
    """Return the test files that docs/threats.md names, and the test files of tests/faults."""
    named = re.findall(r"`(tests/[\w/]+/test_\w+\.py)`", (ROOT / "docs/threats.md").read_text(encoding="utf-8"))
    return sorted({*named, *(str(path.relative_to(ROOT)) for path in (ROOT / "tests/faults").glob("test_*.py"))})


def attacks(store: Store, folder: Path, files: Sequence[str]) -> None:
    """Runs test files; for each, how many tests passed, failed and were left out."""
    said = folder / "attacks.xml"
    said.unlink(missing_ok=True)
    options = ["-q", "--rootdir=.", "-p", "no:cacheprovider", f"--junitxml={said}", "-o", "junit_family=xunit1"]
    done = subprocess.run([sys.executable, "-m", "pytest", *options, *files], cwd=ROOT, check=False)
    if not said.exists():
        raise SystemExit(f"soak: error: pytest ended with exit code {done.returncode} and no results.")
    rows: dict[str, dict[str, Any]] = {file: {"passed": 0, "failed": 0, "skipped": 0, "words": []} for file in files}
    for case in ElementTree.parse(said).getroot().iter("testcase"):
        row = rows[case.attrib["file"]]
        wrong = [one for one in case if one.tag in ("failure", "error")]
        row["failed" if wrong else "skipped" if case.find("skipped") is not None else "passed"] += 1
        row["words"] += [f"{case.attrib['name']}: {one.attrib.get('message', '')[:200]}" for one in wrong]
    for file, row in rows.items():
        row["words"] += [] if row["passed"] or row["failed"] or row["skipped"] else [f"{file}: no test ran"]
    store.data["rows"] = rows


def _about(file: str) -> str:
    """The first sentence of a test file's docstring."""
    text = ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=\.)\s|\n\n", text)[0].replace("\n", " ").replace("``", "`").rstrip(".")


# -- bulk --------------------------------------------------------------------------------------------------------------


def bulk(store: Store, gigabytes: float, folder: Path) -> None:
    """Send so many GB through ``wattbell record`` and a pty, and sample its memory; every record is counted and summed up."""
    from tests.faults.faultbulk import run

    free = shutil.disk_usage(folder).free
    size = min(gigabytes * 1e9, (free - _FREE_KEPT) / _BULK_FACTOR)
    if size <= 0:
        raise SystemExit(f"soak: error: {free / 1e9:.0f} GB are free in {folder}; free some space, or leave out --parts bulk.")
    store.data["bulk"] = {"asked_gb": gigabytes, "filesystem": _filesystem(folder), **run(int(size), folder)}


def _filesystem(folder: Path) -> str:
    """File system type, and its compression if any."""
    command = ["findmnt", "--noheadings", "--output", "FSTYPE,OPTIONS", "--target", str(folder)]
    kind, _, options = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().partition(" ")
    compress = re.search(r"compress(?:-force)?=([\w:]+)", options)
    return f"{kind} compressing by {compress[1]}" if compress else kind


# -- fuzz --------------------------------------------------------------------------------------------------------------


def fuzz(store: Store, minutes: float, only: str) -> None:
    """Run every fuzz test (with ``only`` in its name) for about ``minutes`` of one core each, unless already done on this tree.

    Each runs once as in CI, then with as many times the inputs as fit.
    """
    rows = store.data.setdefault("fuzz", {})
    wanted = {"passed": True, "minutes": minutes}
    waiting = [name for name in _fuzzers() if only in name and not wanted.items() <= rows.get(name, {}).items()]

    def both(name: str) -> None:
        command = _fuzzers()[name]
        if command[0] == "cargo":  # building does not count as time of a run
            subprocess.run([*command[: command.index("--")], "--no-run"], check=True, capture_output=True)
        once = _fuzzed(command, 1)
        times = max(1, min(int(minutes * 60 / max(once["seconds"] - _STARTING_S, 0.05)), _MOST_TIMES))
        row = _fuzzed(command, times) if once["passed"] and times > 1 else once
        rows[name] = {"times": times, "minutes": minutes, **row}
        print(f"{name}: {row['inputs']} inputs, {row['seconds']:.0f} s, {'passed' if row['passed'] else row['words']}", flush=True)
        store.save()

    with ThreadPool(os.cpu_count()) as pool:
        pool.map(both, waiting, chunksize=1)


_STARTING_S = 1.5
"""Overhead of a short run: starting Python and pytest."""
_MOST_TIMES = 20_000


_SCPI, _SCPI_RUNS = "firmware/native/fuzz.c", 200
"""libFuzzer's, with sanitizers; its runs as in CI. An input is a line of SCPI."""


def _fuzzers() -> dict[str, list[str]]:
    """Name and command of each fuzz test; each counts its inputs in its output."""
    files = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if re.search(r"\bfuzzing\b", path.read_text()))
    options = ["-q", "-s", "-n0", "-p", "no:cacheprovider", "--timeout", "0", "--hypothesis-show-statistics"]
    found = {str(path.relative_to(ROOT)): [sys.executable, "-m", "pytest", *options, str(path)] for path in files}
    for path in sorted((ROOT / "sim").glob("*/tests/fuzz.rs")):
        package = re.search(r'(?m)^name = "(.+)"', (path.parents[1] / "Cargo.toml").read_text())
        assert package, path
        test = ["-p", package[1], "--test", "fuzz", "--", "--nocapture", "--test-threads", "1"]
        found[str(path.relative_to(ROOT))] = ["cargo", "test", "--manifest-path", str(ROOT / "sim" / "Cargo.toml"), "--release", *test]
    found[_SCPI] = ["make", "-s", "-C", str(ROOT / "firmware"), "fuzz", f"PY={sys.executable}"]
    return found


def _fuzzed(command: list[str], times: int) -> dict[str, Any]:
    begun = time.monotonic()
    environment = {**os.environ, "WATTBELL_FUZZ": str(times), "RUNS": str(_SCPI_RUNS * times)}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    # Hypothesis' statistics, and what tests/host/fuzzing.py, sim/bus/tests/common/fuzz.rs and firmware/native/fuzz.c print
    cases = re.findall(r"(\d+) passing, (\d+) failing, and (\d+) invalid", done.stdout)
    inputs = sum(int(n) for numbers in cases for n in numbers)
    inputs += sum(int(n) for n in re.findall(r"fuzz: (\d+) (?:inputs|lines)", done.stdout))
    words = "" if done.returncode == 0 else done.stdout[-2000:]
    return {"passed": done.returncode == 0, "seconds": time.monotonic() - begun, "inputs": inputs, "words": words}


# -- page --------------------------------------------------------------------------------------------------------------


def _guarantee() -> str:
    """The paragraph of docs/threats.md that both pages have."""
    text = (ROOT / "docs/threats.md").read_text(encoding="utf-8")
    found = re.search(r"(?ms)^\*\*The guarantee\.\*\* .*?(?=\n\n)", text)
    assert found, "docs/threats.md has lost its guarantee"
    return found[0]


def page(folder: Path, tree: str) -> str:
    """docs/reliability.md from the results of the parts that are of this tree."""
    found = {part: json.loads((folder / f"{part}.json").read_text()) for part in PARTS if (folder / f"{part}.json").exists()}
    kept = {part: results for part, results in found.items() if results["tree"] == tree}
    missing = [part for part in PARTS if part not in kept]
    out = [
        "# Reliability",
        "",
        _guarantee(),
        "",
        "Each table injects faults into a recorder, its line, its host or its files, and says what became of the figures. The page is",
        "written by `make soak` (tools/soak.py); do not edit it.",
        "",
        f"Commit {tree}, {', '.join(sorted({results['command'] for results in kept.values()}))}.",
        f"Machine: {os.cpu_count()} cores, {_memory_gb():.0f} GB of memory, {platform.system()}, Python {platform.python_version()}.",
        *([f"**Not run on this commit: {', '.join(missing)}.**"] if missing else []),
        "",
        "| column | meaning |",
        "|---|---|",
        "| tried | number of tries |",
        "| lost | tries after which a sent record or a file was missing |",
        "| flagged | lost tries with a note in `meta.json`, a warning of the analysis, and a mark (`lost`) on every figure over the "
        "missing time; for a process that fails, with an error that says what happened |",
        "| not flagged | tries with anything missing, changed or invented without a mark, or with a mark where nothing can be missing |",
        "",
    ]
    for part, title in (("trials", "## The line between rig and recorder"), ("matrix", "## Recorder, host and files")):
        if part in kept:
            out += [title, "", _PROSE[part], "", _ran(kept[part]), ""]
            out += ["| fault | tried | lost | flagged | not flagged |", "|---|--:|--:|--:|--:|"]
            for name, row in kept[part]["rows"].items():
                out.append(f"| {name} | {row['tried']} | {row['lost']} | {row['flagged']} | {row['silent']} |")
            total = {key: sum(row[key] for row in kept[part]["rows"].values()) for key in ("tried", "lost", "flagged", "silent")}
            out += [f"| **all** | {total['tried']} | {total['lost']} | {total['flagged']} | {total['silent']} |", ""]
            out += [f"**Not tried:** {name}. Reason: {reason}.\n" for name, reason in sorted(kept[part].get("not_here", {}).items())]
    if "attacks" in kept:
        rows = kept["attacks"]["rows"]
        out += ["## Attacks", "", _PROSE["attacks"], "", _ran(kept["attacks"]), ""]
        out += ["| attack | file | passed | failed | left out |", "|---|---|--:|--:|--:|"]
        out += [f"| {_about(file)} | `{file}` | {row['passed']} | {row['failed']} | {row['skipped']} |" for file, row in rows.items()]
        total = {key: sum(row[key] for row in rows.values()) for key in ("passed", "failed", "skipped")}
        out += [f"| **all** | | {total['passed']} | {total['failed']} | {total['skipped']} |", ""]
    if "bulk" in kept and "bulk" in kept["bulk"]:
        about = kept["bulk"]["bulk"]
        cut = about["gb"] < about["asked_gb"] * 0.999
        asked = f" ({about['asked_gb']:g} GB were asked for; the disk had room for no more)" if cut else ""
        out += [
            "## Bulk",
            "",
            _ran(kept["bulk"]),
            "",
            f"{about['gb']:.1f} GB{asked} went over a pty through `wattbell record` at {about['mb_per_s']:.0f} MB/s",
            f"to a disk of type {about['filesystem']}:",
            f"{about['commands']} commands and {about['samples']} samples sent, {about['commands_lost']} commands and",
            f"{about['samples_lost']} samples lost, capture {'lossless' if about['lossless'] else 'not lossless'}. The recorder's memory:",
            f"{about['rss_early_mb']:.0f} MB after a tenth of the stream, {about['rss_max_mb']:.0f} MB at most.",
            "",
        ]
    if "fuzz" in kept and kept["fuzz"].get("fuzz"):
        out += ["## Fuzzing", "", "| tests | inputs | times as long as in CI | minutes | passed |", "|---|--:|--:|--:|---|"]
        for name, row in sorted(kept["fuzz"]["fuzz"].items()):
            passed = "yes" if row["passed"] else "**no**"
            out.append(f"| `{name}` | {row['inputs']} | {row['times']} | {row['seconds'] / 60:.1f} | {passed} |")
        out += [f"| **all** | {sum(row['inputs'] for row in kept['fuzz']['fuzz'].values())} | | | |", ""]
    return "\n".join(out).rstrip() + "\n"


_PROSE = {
    "trials": "Each try is a rig's stream of commands, samples, events and phases, generated from one seed, with one fault between\n"
    "rig and recorder (tests/faults). CI runs the first 1 000 tries (`make soak SOAK=--short`).",
    "matrix": "The process that is killed, stopped or starved is the real `wattbell record` behind a pty. A power cut is a copy of the\n"
    "disk below a mounted file system; six copies are one try.",
    "attacks": "The tests that [threats.md](threats.md) names, and all tests in tests/faults. CI runs them as well, but for tests/slow.\n"
    "*Left out*: the machine lacks something that the test needs.",
}


def _ran(kept: dict[str, Any]) -> str:
    return f"{kept['date']}, {kept['seconds'] / 60:.1f} minutes."


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="the form of CI, about four minutes; the page lies beside the results")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of them, with commas")
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--tries", type=int, default=50, help="of each row of the matrix that takes seconds")
    parser.add_argument("--gb", type=float, default=100.0, help="through the recorder, as far as the disk has room")
    parser.add_argument("--fuzz", type=float, default=8.0, help="minutes of a core for each of the fuzz tests")
    parser.add_argument("--only", default="", help="rows of the matrix or fuzz tests with this in their name; the others stay")
    parser.add_argument("--minutes", type=float, default=0.0, help="end trials and matrix after so many, each; 0: when they are done")
    parser.add_argument("--folder", type=Path, help="what was done, and the bulk run's capture (default: build/soak, or build/soak-short)")
    parser.set_defaults(**(SHORT if "--short" in sys.argv else {}))
    args = parser.parse_args()
    chosen = args.parts.split(",")
    if set(chosen) - {*PARTS}:
        parser.error(f"--parts takes {', '.join(PARTS)}")
    folder: Path = args.folder or ROOT / "build" / ("soak-short" if args.short else "soak")
    folder.mkdir(parents=True, exist_ok=True)
    tree, options = tree_of(), " ".join(sys.argv[1:])
    run: dict[str, Callable[[Store, float], None]] = {
        "trials": lambda store, deadline: trials(store, args.trials, deadline),
        "matrix": lambda store, deadline: matrix(store, args.tries, deadline, args.only),
        "attacks": lambda store, _: attacks(store, folder, attack_files()),
        "bulk": lambda store, _: bulk(store, args.gb, folder),
        "fuzz": lambda store, _: fuzz(store, args.fuzz, args.only),
    }
    for part in chosen:
        store = Store(folder, part, tree)
        store.data["command"] = f"`make soak{f' SOAK={chr(34)}{options}{chr(34)}' if options else ''}`"
        with store.timed():
            run[part](store, time.monotonic() + args.minutes * 60 if args.minutes else float("inf"))
    (folder / PAGE.name if args.short else PAGE).write_text(page(folder, tree))
    return _faults(folder, tree)


def _faults(folder: Path, tree: str) -> int:
    """Exit status 1 if anything was not flagged, was lost in bulk, or failed; prints what."""
    bad = []
    for part in PARTS:
        path = folder / f"{part}.json"
        kept = json.loads(path.read_text()) if path.exists() else {}
        if kept.get("tree") != tree:
            continue
        bad += [f"{name}: {words}" for name, row in kept.get("rows", {}).items() for words in row["words"]]
        bad += [f"{name} failed: {row['words']}" for name, row in kept.get("fuzz", {}).items() if not row["passed"]]
        about = kept.get("bulk")
        if about and not (about["lossless"] and not about["commands_lost"] and not about["samples_lost"]):
            bad.append("bulk: records were lost")
        for name, reason in sorted(kept.get("not_here", {}).items()):
            print(f"soak: not tried: {name}: {reason}", file=sys.stderr)
    print("\n".join(bad[:100]))
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
