"""Recorders without memory: by a limit of the address space, or in a control group, where the kernel kills it (root only)."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from wattbell.capture import open_capture
from wattbell.errors import WattbellError

from tests.faults.faultbench import Bench, wait_for, waits
from tests.faults.faultoracle import NotHere, Verdict, judge, missing_records
from tests.faults.faultpower import OLD_ENOUGH_S, Watch, sent_whole
from tests.faults.faultstream import Block, make, parse
from tests.patience import PATIENCE_S

Limit = Callable[[subprocess.Popen[str]], None]
_MB = 1 << 20
_LASTS_S = 3.0
_HOG = "import time\nheld = []\nwhile True:\n    held.append(bytearray(b'x') * (4 << 20))\n    time.sleep(0.01)\n"
"""Another program of the group, which takes the group's memory."""


def address_space(rng: np.random.Generator, folder: Path) -> Verdict:
    """Stop the recorder's growth at some moment: an allocation fails in whatever part needs memory first."""
    blocks = parse(make(rng, scale=100.0))
    spare = int(rng.choice([0, 0, int(rng.integers(0, 32 * _MB))]))

    def limit(recorder: subprocess.Popen[str]) -> None:
        with suppress(psutil.Error, ProcessLookupError):
            size = psutil.Process(recorder.pid).memory_info().vms + spare
            resource.prlimit(recorder.pid, resource.RLIMIT_AS, (size, size))

    return _starved(blocks, rng, folder, limit)


@dataclass(frozen=True)
class Group:
    """A separate control group for memory. ``folder``: its folder. ``limit``, ``usage``: names of its files."""

    folder: Path
    limit: str
    usage: str

    def grow_by(self, size: int) -> None:
        """Allow it this much more memory than it has."""
        used = int((self.folder / self.usage).read_text())
        (self.folder / self.limit).write_text(str(used + size))

    def take(self, pid: int) -> None:
        """Put a process into the group."""
        (self.folder / "cgroup.procs").write_text(str(pid))


@contextmanager
def control_group() -> Iterator[Group | None]:
    """Make a group below this process' own, so that this process' limits hold for it too. None if this kernel or its host allows
    none.

    Only an already mounted hierarchy is used. A hierarchy mounted in a test's folder would disturb the removal of that folder.
    """
    made = next(filter(None, map(_below, Path("/proc/self/cgroup").read_text().splitlines())), None)
    try:
        yield made
    finally:
        for _ in range(100):
            if made is None:
                break
            with suppress(OSError):
                made.folder.rmdir()
                break
            time.sleep(0.1)


def _below(line: str) -> Group | None:
    """Make a group below the one in a line of /proc/self/cgroup; None if that is not for memory, or no group may be made."""
    _, controllers, path = line.split(":", 2)
    if controllers and "memory" not in controllers.split(","):
        return None
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
    root = Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
    place = root / path.lstrip("/") / f"wattbell-{os.getpid()}-{random.getrandbits(32):x}"
    with suppress(OSError):
        place.mkdir()
        if (place / names[0]).exists():
            return Group(place, *names)
        place.rmdir()
    return None


def group_killed(rng: np.random.Generator, folder: Path) -> Verdict:
    """Use up the memory of a control group; the kernel kills the recorder in it. Raises NotHere without control groups for memory."""
    blocks = parse(make(rng, scale=30.0))
    hogs: list[subprocess.Popen[bytes]] = []
    with control_group() as group:
        if group is None:
            raise NotHere("this kernel, or this container, lets no control group for memory be made")

        def limit(recorder: subprocess.Popen[str]) -> None:
            with suppress(OSError):
                (Path("/proc") / str(recorder.pid) / "oom_score_adj").write_text("1000")
            with suppress(OSError):
                group.take(recorder.pid)
            hogs.append(subprocess.Popen([sys.executable, "-c", _HOG], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            group.take(hogs[0].pid)
            group.grow_by(int(rng.integers(20, 60)) * _MB)
            wait_for(lambda: recorder.poll() is not None, "the end of the recorder")

        try:
            verdict = _starved(blocks, rng, folder, limit, killed=True)
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
    return verdict


def _starved(blocks: list[Block], rng: np.random.Generator, folder: Path, limit: Limit, *, killed: bool = False) -> Verdict:
    data = b"".join(block.data for block in blocks)
    with Bench(folder) as bench:
        bench.feed([data], "--rate", str(len(data) / _LASTS_S))
        recorder = bench.record()
        with Watch(bench, None) as watch:
            wait_for(lambda: bench.sent > 0, "the stream")
            time.sleep(float(rng.uniform(0, _LASTS_S)))
            limit(recorder)
            wait_for(lambda: recorder.poll() is not None or bench.sent >= bench.size, "the stream's end")
            ended = time.monotonic()
        if waits(recorder):
            recorder.send_signal(signal.SIGINT)
        _, said = recorder.communicate(timeout=PATIENCE_S)
    sent = [record for block in blocks for record in block.records]
    try:
        capture = open_capture(bench.capture)
        verdict = judge(sent, capture)
    except WattbellError as error:
        return Verdict(len(sent), False, [str(error)])
    code = recorder.returncode
    if killed and code != -signal.SIGKILL:
        verdict.silent.append(f"the recorder was not killed (exit code {code}): nothing was tried")
    if code > 0:
        lines = [line for line in said.splitlines() if line.strip()]
        if len(lines) != 1 or "memory" not in said.lower():
            verdict.silent.append(f"no clear error: {said[-500:]}")
    if code == 0 and verdict.lost:
        verdict.silent.append(f"exit code 0, and records are missing: {said[-300:]}")
    if code:
        margin_s = OLD_ENOUGH_S + 5 * watch.slowest_s
        if missing := missing_records(sent_whole(blocks, watch.sent_by(ended - margin_s)), capture):
            verdict.silent.append(f"{len(missing)} records sent more than {margin_s:.2f} s before the end are missing")
    return verdict
