"""Power cuts: a file system on a loop device, and copies of its disk at chosen instants, which a mount then replays.

The disk is a file on a separate btrfs, where the kernel clones a file in one step (``FICLONE``). A copy has every write that the
file system had sent to the disk by then, and no other. Root only. Limit: this disk keeps the order of its writes. A real disk with
a write cache does so only around flushes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from wattbell.capture import open_capture
from wattbell.errors import WattbellError

from tests.faults.faultbench import Bench, wait_for
from tests.faults.faultoracle import NotHere, Verdict, judge, missing_records
from tests.faults.faultstream import Block, Sent, make, parse

FICLONE = 0x40049409
LOOP_CTL_ADD = 0x4C80
LOOPS = 64
"""Loop devices that suffice for the trials of all workers, and for devices that the machine itself uses or an ended trial left."""
OLD_ENOUGH_S = 1.0
"""Time in s before a cut after which sent data has to be on a disk whose flushes take no time."""
_MB = 1 << 20
_SIZES = {"ext4": 64 * _MB, "btrfs": 128 * _MB}
_MAKE = {"ext4": ("mkfs.ext4", "-q", "-F"), "btrfs": ("mkfs.btrfs", "-q", "-f")}


def possible() -> bool:
    """Return whether this process may mount, and loop devices exist."""
    return os.geteuid() == 0 and Path("/dev/loop-control").exists()


def find_program(name: str) -> str:
    """Return the path of a system program."""
    program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    assert program, f"{name} is missing: apt-get install e2fsprogs btrfs-progs mount"
    return program


def run_program(*command: str | Path) -> None:
    """Run a system program, which must succeed."""
    made = subprocess.run([find_program(str(command[0])), *command[1:]], capture_output=True, text=True, check=False)
    assert made.returncode == 0, f"{' '.join(map(str, command))}: {made.stderr.strip()}"


def make_loop_devices() -> None:
    """Make loop devices until there are LOOPS, and the nodes below ``/dev`` that are missing.

    The kernel has eight at first, and adds one when all are in use. Where ``/dev`` is a plain folder, as in a container, nobody makes
    the node of that one, and ``mount -o loop`` fails.
    """
    with open("/dev/loop-control", "rb") as control:
        for number in range(LOOPS):
            if not Path(f"/sys/block/loop{number}").exists():
                with suppress(FileExistsError):
                    fcntl.ioctl(control, LOOP_CTL_ADD, number)
    for device in Path("/sys/block").glob("loop*"):
        major, minor = map(int, (device / "dev").read_text("ascii").split(":"))
        with suppress(FileExistsError):
            os.mknod(f"/dev/{device.name}", stat.S_IFBLK | 0o600, os.makedev(major, minor))


@contextmanager
def mounted(kind: str, image: Path, where: Path) -> Iterator[Path]:
    """Mount a file system in a file at ``where``. Raises NotHere if this process may not."""
    if not possible():
        raise NotHere("only root may mount, and only with loop devices")
    where.mkdir(exist_ok=True)
    make_loop_devices()
    run_program("mount", "-t", kind, "-o", "loop", image, where)
    try:
        yield where
    finally:
        for _ in range(50):  # a process that has just been killed may hold it for a moment
            if subprocess.run(["umount", where], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)
        else:
            subprocess.run(["umount", "-l", where], capture_output=True, check=False)


class Disk:
    """A disk with a kind of file system (``ext4``, ``btrfs``) below ``folder``. It can be copied while it is written to."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._outer = folder / "outer"
        self._image = self._outer / "disk"
        self._folder = folder
        self._copies = 0

    @contextmanager
    def there(self) -> Iterator[Disk]:
        """Make the disk's file, with an empty file system."""
        base = self._folder / "base"
        with open(base, "wb") as file:
            file.truncate(1024 * _MB)
        run_program(*_MAKE["btrfs"], base)
        with mounted("btrfs", base, self._outer):
            with open(self._image, "wb") as file:
                file.truncate(_SIZES[self.kind])
            run_program(*_MAKE[self.kind], self._image)
            yield self
        base.unlink()

    @contextmanager
    def running(self) -> Iterator[Path]:
        """Mount the file system."""
        with mounted(self.kind, self._image, self._folder / "running") as where:
            yield where

    def cut(self) -> Path:
        """Copy the disk as it is now."""
        self._copies += 1
        copy = self._outer / f"cut-{self._copies}"
        with open(self._image, "rb") as source, open(copy, "wb") as target:
            fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
        return copy

    @contextmanager
    def after(self, copy: Path) -> Iterator[Path]:
        """Mount a copy's file system, as the next boot finds it. Not while :meth:`running`: btrfs recognises its own copies."""
        with mounted(self.kind, copy, self._folder / "after") as where:
            yield where
        copy.unlink()


class Watch:
    """Records the sender's progress over time, and how long this disk takes to flush a few bytes meanwhile."""

    def __init__(self, bench: Bench, disk: Path | None) -> None:
        """``disk``: the recorder's disk; None: no disk is flushed."""
        self._bench, self._file = bench, disk and disk / "probe"
        self.slowest_s = 0.0
        """Longest flush, or pause between two looks."""
        self._sent: list[tuple[float, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        last = time.monotonic()
        while not self._over.wait(0.05):
            self._sent.append((time.monotonic(), self._bench.sent))
            if self._file is not None:
                with open(self._file, "wb") as file:
                    file.write(os.urandom(64))
                    file.flush()
                    os.fdatasync(file.fileno())
            now = time.monotonic()
            self.slowest_s = max(self.slowest_s, now - last - 0.05)
            last = now

    def sent_by(self, moment: float) -> int:
        """Return the bytes that had been sent by then, at least."""
        return max((count for at, count in self._sent if at <= moment), default=0)


@dataclass(frozen=True)
class _Cut:
    copy: Path
    at: float
    """Monotonic clock just before the cut, in s."""
    complete: bool
    """Whether the recorder had ended by then and reported a complete capture."""


def cut_power(kind: str, rng: np.random.Generator, folder: Path, *, cuts: int = 6, replace: bool = False) -> Verdict:
    """Cut the power ``cuts`` times while ``wattbell record`` works and in the seconds after it: one recording, several copies of a
    disk.

    Each copy must hold a capture that opens and has all data sent until a second before the cut. Every figure over missing data
    must be marked. Nothing may be missing once the recorder has ended. ``replace``: the recording replaces another capture
    (``--force``), which may still be there, but only whole.
    """
    blocks, old = parse(make(rng, scale=3.0)), parse(make(rng)) if replace else []
    stream = b"".join(block.data for block in blocks)
    lasts_s = float(rng.uniform(2.0, 3.5))
    moments_s = sorted(rng.uniform(0, lasts_s + 3.0, cuts - 1).tolist())
    verdict = Verdict()
    disk = Disk(kind, folder)
    made: list[_Cut] = []
    with disk.there():
        with disk.running() as place, Bench(folder) as bench:
            bench.capture = place / "capture"
            if old:
                _record_at_once(bench, b"".join(block.data for block in old))
                os.sync()
            bench.feed([stream], "--rate", str(len(stream) / lasts_s))
            recorder = bench.record(*(("--force",) if old else ()))
            ended: tuple[int, str] | None = None
            with Watch(bench, place) as watch:
                wait_for(lambda: bench.sent > 0, "the stream")
                began = time.monotonic()
                for moment_s in [*moments_s, None]:
                    while ended is None and (moment_s is None or time.monotonic() < began + moment_s):
                        if bench.sent >= bench.size or recorder.poll() is not None:
                            ended = bench.finish(recorder)
                        time.sleep(0.01)
                    if moment_s is not None:
                        time.sleep(max(0.0, began + moment_s - time.monotonic()))
                    at = time.monotonic()
                    made.append(_Cut(disk.cut(), at, ended is not None))
            if ended is None or ended[0] != 0:
                verdict.silent.append(f"the recorder failed: {ended and ended[1][-300:]}")
        for cut in made:
            with disk.after(cut.copy) as place:
                _judge(cut, blocks, old, watch, place / "capture", verdict)
    return verdict


def _record_at_once(bench: Bench, stream: bytes) -> None:
    feeder = bench.feed([stream])
    code, said = bench.finish(bench.record())
    assert code == 0, said
    feeder.send_signal(signal.SIGINT)
    feeder.wait()
    (bench.folder / "sent").unlink()


def _judge(cut: _Cut, blocks: Sequence[Block], old: Sequence[Block], watch: Watch, place: Path, verdict: Verdict) -> None:
    when = "cut after the end" if cut.complete else "cut while recording"
    try:
        capture = open_capture(place)
    except WattbellError as error:
        verdict.silent.append(f"{when}: {error}")
        return
    before = [record for block in old for record in block.records]
    if before and not cut.complete and not missing_records(before, capture):
        verdict.silent += [f"{when}, the old capture: {text}" for text in judge(before, capture, harmless=True).silent]
        return
    found = judge([record for block in blocks for record in block.records], capture, harmless=cut.complete)
    verdict.lost += found.lost
    verdict.told = verdict.told or found.told
    verdict.silent += [f"{when}: {text}" for text in found.silent]
    if not cut.complete:
        margin_s = OLD_ENOUGH_S + 5 * watch.slowest_s
        there = sent_whole(blocks, watch.sent_by(cut.at - margin_s))
        if missing := missing_records(there, capture):
            verdict.silent.append(f"{when}: {len(missing)} of {len(there)} records sent more than {margin_s:.2f} s before are missing")


def sent_whole(blocks: Sequence[Block], count: int) -> list[Sent]:
    """Return the records of the blocks in the first ``count`` bytes."""
    records: list[Sent] = []
    for block in blocks:
        count -= len(block.data)
        if count < 0:
            break
        records += block.records
    return records
