"""Power cuts and a full disk for a results store and a resumable suite: real processes and real file systems."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from wattbell.capture import open_capture
from wattbell.errors import WattbellError
from wattbell.results import Store, read_run

from studies.false_calls import write_suite
from tests.faults.faultoracle import Verdict
from tests.faults.faultpower import Disk
from tests.host.results import samples
from tests.patience import PATIENCE_S

STORE = "results.sqlite"
_SESSION = re.compile(r"session (\d+) of \d+: (.*)")
_KEPT = re.compile(r"store .*, as ([0-9a-f]{12})")
_CONDITIONS = re.compile(r" \([a-z-]+\)")


@dataclass
class Told:
    """A ``wattbell`` command and the lines it printed, each with its time."""

    process: subprocess.Popen[str]
    lines: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._readers = [threading.Thread(target=self._read, args=(pipe,)) for pipe in (self.process.stdout, self.process.stderr)]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe: Any) -> None:
        for line in pipe:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def by(self, moment: float) -> list[str]:
        """Return the lines printed by then."""
        return [line for at, line in self.lines if at <= moment]

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join()
        return code


@contextmanager
def started(folder: Path, *arguments: object) -> Iterator[Told]:
    """Run a ``wattbell`` command inside the context."""
    process = subprocess.Popen(
        [sys.executable, "-m", "wattbell", *map(str, arguments)],
        env={**os.environ, "WATTBELL_RUNTIME": str(folder / "runtime"), "COLUMNS": "200"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    told = Told(process)
    try:
        yield told
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        told.end()


def finished(folder: Path, *arguments: object) -> tuple[int, str]:
    """Run a command; return its exit code and its output."""
    with started(folder, *arguments) as told:
        code = told.end()
    return code, "\n".join(line for _, line in told.lines)


def _apart(folder: Path, count: int) -> list[Path]:
    """Return results folders of different runs."""
    made = []
    for number in range(count):
        made.append(samples.write_results(folder / f"run-{number}", started_utc=f"2026-01-{number + 1:02}T00:00:00+00:00"))
    return made


def _cuts(disk: Disk, told: Told, moments_s: Sequence[float]) -> list[tuple[Path, float]]:
    """Copy the disk at the moments, in s from now, and at the command's end; return (copy, time just before it)."""
    began = time.monotonic()
    made = []
    for moment_s in moments_s:
        time.sleep(max(0.0, began + moment_s - time.monotonic()))
        made.append((time.monotonic(), disk.cut()))
    told.end()
    made.append((time.monotonic(), disk.cut()))
    return [(copy, at) for at, copy in made]


# -- the store ---------------------------------------------------------------------------------------------------------


def store_power_cut(kind: str, rng: np.random.Generator, folder: Path, *, runs: int = 8, cuts: int = 6) -> Verdict:
    """Cut the power ``cuts`` times while runs are put into a store and removed from it.

    In each copy of the disk the store opens by itself. It has every run that was reported as stored before, whole and with its
    series. It has no run that was reported as deleted. It has each other run completely or not at all.
    """
    sources = _apart(folder / "sources", runs)
    documents = {read_run(source).content_hash[:12]: read_run(source) for source in sources}
    verdict = Verdict()
    disk = Disk(kind, folder)
    with disk.there():
        with disk.running() as place:
            store = place / "data" / STORE
            with started(folder, "results", "import", *sources, "--store", store) as importing:
                _wait(lambda: bool(importing.lines) or importing.process.poll() is not None)
                made = [(*cut, importing, None) for cut in _cuts(disk, importing, sorted(rng.uniform(0, 0.5, cuts - 3).tolist()))]
            gone = list(documents)[: runs // 2]
            with started(folder, "results", "delete", *gone, "--store", store) as deleting:
                _wait(lambda: bool(deleting.lines) or deleting.process.poll() is not None)
                made += [(*cut, importing, deleting) for cut in _cuts(disk, deleting, [float(rng.uniform(0, 0.1))])]
            for one in (importing, deleting):
                if one.end() != 0:
                    verdict.silent.append(f"failed: {one.lines[-3:]}")
        for copy, at, importing, deleting_then in made:
            kept = {line.split()[0] for line in importing.by(at) if line.split()[0] in documents}
            deleted = {line.split()[-1] for line in deleting_then.by(at) if line.startswith("deleted ")} if deleting_then else set()
            maybe = set(documents) - kept if deleting_then is None else set(gone) - deleted
            with disk.after(copy) as place:
                verdict.silent += _wrong_in(place / "data" / STORE, documents, kept - deleted - maybe, deleted)
            verdict.lost += len(maybe)
    verdict.told = True
    return verdict


def _wrong_in(store: Path, documents: Mapping[str, Any], must: set[str], never: set[str]) -> list[str]:
    """Return the faults of a store after a power cut. ``must``: ids of runs that have to be there. ``never``: ids that must not."""
    if not must and not store.exists():
        return []
    try:
        with Store(store, create=not must) as opened:
            ids = {entry.id for entry in opened.entries()}
            wrong = [f"{one} was called stored, and is gone" for one in sorted(must - ids)]
            wrong += [f"{one} was called deleted, and is there" for one in sorted(never & ids)]
            for one in ids:
                found, right = opened.get(one), documents[one]
                if found.document != right.document or opened.provenance(one)["jobs"] != {"jobs/sustained-random-read.fio": _JOB}:
                    wrong.append(f"{one} is not as it was")
                for test in right.tests:
                    first, second = right.series(test), found.series(test)
                    if (first is None) != (second is None) or (first is not None and second is not None and not first.equals(second)):
                        wrong.append(f"the series of {test.test} in {one} is not as it was")
            return wrong
    except WattbellError as error:
        return [f"the store does not open: {error}"]


_JOB = sha256(b"[qd1]\nrw=randread\nbs=4k\n").hexdigest()
"""Digest of the one job file of samples.py."""


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def store_full(rng: np.random.Generator, folder: Path) -> Verdict:
    """Fill up the disk while runs are put into a store, then make room again. Needs permission to mount.

    Runs that were reported as stored are there and whole. The refusal says that the disk is full. Refused runs can be added
    afterwards.
    """
    sources = _apart(folder / "sources", 8)
    documents = {read_run(source).content_hash[:12]: read_run(source) for source in sources}
    place = folder / "disk"
    place.mkdir()
    size = int(rng.integers(20_000, 900_000))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "wattbell-soak", place], check=True)
    verdict = Verdict()
    try:
        store = place / "data" / STORE
        code, said = finished(folder, "results", "import", *sources, "--store", store)
        kept = {line.split()[0] for line in said.splitlines() if line.split()[0] in documents}
        if code == 0 and len(kept) < len(sources):
            verdict.silent.append(f"exit code 0, but only {len(kept)} of {len(sources)} were stored")
        if code != 0 and ("full" not in said or "Traceback" in said or "bug:" in said):
            verdict.silent.append(f"no clear error: {said[-300:]}")
        verdict.lost, verdict.told = len(sources) - len(kept), code != 0
        if store.exists():
            for again in (False, True):
                verdict.silent += _wrong_in(store, documents, kept, set(documents) - kept)
                if not again:
                    subprocess.run(["mount", "-o", "remount,size=100000000", place], check=True)
        else:
            subprocess.run(["mount", "-o", "remount,size=100000000", place], check=True)
        missing = [source for source in sources if read_run(source).content_hash[:12] not in kept]
        if missing:
            code, said = finished(folder, "results", "import", *missing, "--store", store)
            if code != 0:
                verdict.silent.append(f"with room again: {said[-300:]}")
        verdict.silent += _wrong_in(store, documents, set(documents), set())
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
    return verdict


# -- a suite that is resumed -------------------------------------------------------------------------------------------


def suite_power_cut(kind: str, rng: np.random.Generator, folder: Path, *, cuts: int = 3) -> Verdict:
    """Cut the power ``cuts`` times while a suite runs, the last time after its end; resume each copy of the disk.

    A session counts as over when the next one is named. After the cut its tests are in results.json, its capture opens, and its
    series, plan and jobs are there. ``--resume`` ends with the figures of the uncut run, in the store too. A run that was reported
    as stored is in the store before any copy is resumed.
    """
    suite = write_suite(folder / "suite")
    manifest = suite / "manifest.toml"
    manifest.write_text(manifest.read_text().replace('session = "false-calls"\n', ""))  # each test is a session
    order = ["run", suite, "--virtual", "crucial-p1-1tb", "--fidelity", "fast", "--no-page"]
    verdict = Verdict(told=True)
    disk = Disk(kind, folder)
    with disk.there():
        with disk.running() as place, started(folder, *order, "--out", place / "new/out", "--store", place / "data" / STORE) as told:
            _wait(lambda: any("session 1 of" in line for _, line in told.lines) or told.process.poll() is not None)
            made = _cuts(disk, told, sorted(rng.uniform(0, 4.0, cuts - 1).tolist()))
            if told.end() != 0:
                verdict.silent.append(f"the run failed: {told.lines[-3:]}")
            whole = _left(place / "new/out", place / "data" / STORE)
        for copy, at in made:
            with disk.after(copy) as place:
                words = told.by(at)
                out, store = place / "new/out", place / "data" / STORE
                verdict.silent += [f"{_when(words)}: {text}" for text in _wrong_after_cut(out, store, words)]
                resume = ["--resume"] if (out / "results.json").exists() else []
                code, said = finished(folder, *order, "--out", out, "--store", store, *resume)
                left = _left(out, store) if code == 0 else None
                verdict.lost += 3 - said.count("done before")
                if left is None:
                    verdict.silent.append(f"{_when(words)}: it does not resume: {said[-300:]}")
                elif left != whole:
                    names = [name for name in whole if left.get(name) != whole[name]]
                    verdict.silent.append(f"{_when(words)}: resumed, it differs in {', '.join(names)}")
                shutil.rmtree(folder / "runtime", ignore_errors=True)
    return verdict


def _when(words: Sequence[str]) -> str:
    if any(_KEPT.search(line) for line in words):
        return "cut after the end"
    return f"cut in session {max((int(m[1]) for line in words if (m := _SESSION.search(line))), default=0)}"


def _wrong_after_cut(out: Path, store: Path, words: Sequence[str]) -> list[str]:
    """Return the results that were reported before the cut and are missing after it."""
    named = [_CONDITIONS.sub("", m[2]).split(";")[0].strip() for line in words if (m := _SESSION.search(line))]
    kept = [m[1] for line in words if (m := _KEPT.search(line))]
    over = named if kept else named[:-1]
    wrong = []
    if named and not (out / "results.json").exists():
        return [f"results.json is gone in session {len(named)}"]
    if over:
        try:
            run = read_run(out)
        except WattbellError as error:
            return [f"results.json: {error}"]
        tests = {test.test: test for test in run.tests}
        for name in over:
            if name not in tests:
                wrong.append(f"{name} was over, and is gone")
                continue
            if tests[name].series and run.series(tests[name]) is None:
                wrong.append(f"{name} has no series")
            title = f"{name}-{tests[name].condition}"
            try:
                if open_capture(out / "captures" / title).state != "complete":
                    wrong.append(f"the capture of {name} is not complete")
            except WattbellError as error:
                wrong.append(f"the capture of {name}: {error}")
            plans = list((out / "plans" / title).glob("*"))
            if not plans or any(path.stat().st_size == 0 for path in plans):
                wrong.append(f"the plan of {name} is empty or gone")
    if kept:
        try:
            with Store(store, create=False) as opened:
                opened.get(kept[0])
        except WattbellError as error:
            wrong.append(f"called stored as {kept[0]}: {error}")
    return wrong


def _left(out: Path, store: Path) -> dict[str, str]:
    """Return everything that a run of the suite left, by name, without wall-clock times."""
    data = json.loads((out / "results.json").read_text())
    data = {key: value for key, value in data.items() if key != "started_utc"}
    data["tests"] = [{key: value for key, value in test.items() if key != "wall_s"} for test in data["tests"]]
    found = {f"results.json {key}": json.dumps(value, sort_keys=True) for key, value in data.items()}
    with Store(store, create=False) as opened:
        (entry,) = opened.entries()
        found["the store's run"] = str(opened.get(entry.id).document == read_run(out).document)
        found["the store's jobs"] = json.dumps(opened.provenance(entry.id)["jobs"], sort_keys=True)
    return found


# -- a damaged file ----------------------------------------------------------------------------------------------------


def store_damaged(rng: np.random.Generator, folder: Path) -> Verdict:
    """Damage the file of a store: flip a bit, zero or copy a part, or cut it short. It is refused, or nothing changes."""
    store = folder / STORE
    with Store(store) as opened:
        for source in _apart(folder / "sources", 3):
            opened.add(read_run(source))
    right = answers(store)
    verdict = Verdict()
    data = store.read_bytes()
    for _ in range(20):
        store.write_bytes(damaged(data, rng))
        try:
            if answers(store) != right:
                verdict.silent.append("the store was damaged, and answers otherwise")
                verdict.lost += 1
        except WattbellError:
            verdict.lost, verdict.told = verdict.lost + 1, True
    return verdict


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with one fault."""
    made = bytearray(data)
    at, length = int(rng.integers(0, len(made))), int(rng.integers(1, 9000))
    match int(rng.integers(0, 4)):
        case 0:
            made[at] ^= 1 << int(rng.integers(0, 8))
        case 1:
            made[at : at + length] = bytes(len(made[at : at + length]))
        case 2:
            other = int(rng.integers(0, len(made)))
            moved = made[other : other + length][: len(made) - at]
            made[at : at + len(moved)] = moved
        case _:
            del made[at:]
    return bytes(made)


def answers(store: Path) -> list[Any]:
    """Return all answers of a store."""
    with Store(store, create=False) as opened:
        entries = opened.entries()
        runs = [opened.get(entry.id) for entry in entries]
        series = [run.read_series(test.series) for run in runs for test in run.tests if test.series]
        rests_on = [opened.provenance(entry.id) for entry in entries]
        return [entries, [run.document for run in opened.runs()], [run.document for run in runs], series, rests_on]
