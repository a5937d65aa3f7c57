"""Disks that refuse: a quota, a file system that turns read-only, and the modes and owners of files. Root only."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from wattbell.capture import open_capture
from wattbell.errors import WattbellError

from tests.faults.faultbench import Bench, wait_for
from tests.faults.faultoracle import Verdict, judge, missing_records
from tests.faults.faultpower import OLD_ENOUGH_S, Watch, find_program, mounted, run_program, sent_whole
from tests.faults.faultstream import Block, make, parse
from tests.patience import PATIENCE_S

_MB = 1 << 20
_NOBODY = 65534


def _image(folder: Path, kind: str, size: int) -> Path:
    image = folder / "image"
    with open(image, "wb") as file:
        file.truncate(size)
    run_program(f"mkfs.{kind}", "-q", *(("-f",) if kind == "btrfs" else ("-F",)), image)
    return image


def _stream(rng: np.random.Generator) -> list[Block]:
    return parse(make(rng, scale=3.0))


def _judged(blocks: Sequence[Block], place: Path, code: int, said: str) -> Verdict:
    """Check that a refused recorder says so in one line, and that the capture opens and reports its losses."""
    sent = [record for block in blocks for record in block.records]
    verdict = Verdict(lost=len(sent), told=code != 0)
    if (place / "meta.json").exists():
        try:
            verdict = judge(sent, open_capture(place))
        except WattbellError as error:
            verdict.silent.append(f"there is room again, and it does not open: {error}")
    if (verdict.lost or code) and (code == 0 or "Traceback" in said or "bug:" in said):
        verdict.silent.append(f"no clear error (exit code {code}): {said[-300:]}")
    return verdict


def quota(rng: np.random.Generator, folder: Path) -> Verdict:
    """Use up a quota of btrfs while recording, on a disk with much room; then lift the quota."""
    blocks = _stream(rng)
    data = b"".join(block.data for block in blocks)
    limit = int(rng.integers(50_000, 2_500_000))
    with mounted("btrfs", _image(folder, "btrfs", 256 * _MB), folder / "disk") as disk:
        share = disk / "share"
        run_program("btrfs", "subvolume", "create", share)
        run_program("btrfs", "quota", "enable", disk)
        run_program("btrfs", "qgroup", "limit", str(limit), share)
        with Bench(folder) as bench:
            bench.capture = share / "capture"
            bench.feed([data], "--rate", str(len(data)))
            code, said = bench.finish(bench.record())
        full = None
        if code:
            try:
                open_capture(bench.capture)
            except WattbellError as error:
                full = str(error)
            except OSError as error:
                full = f"OSError {error}"
        run_program("btrfs", "qgroup", "limit", "none", share)
        verdict = _judged(blocks, bench.capture, code, said)
        if full is not None and full.startswith("OSError"):
            verdict.silent.append(f"opened while the quota is used up: {full}")
        if code and "quota" not in said.lower():
            verdict.silent.append(f"the error does not name the quota: {said[-300:]}")
    return verdict


def _trip(device: str, place: Path) -> None:
    """Make the kernel find an error of ext4 on a device. A separate sysfs is mounted at `place`, because a container's is read-only."""
    place.mkdir()
    run_program("mount", "-t", "sysfs", "sysfs", place)
    try:
        (place / "fs/ext4" / device / "trigger_fs_error").write_text("1")
    finally:
        run_program("umount", "--lazy", place)


def read_only(rng: np.random.Generator, folder: Path) -> Verdict:
    """Make a file system read-only while recording, as ext4 does after an error; then check it and make it writable again."""
    blocks = _stream(rng)
    data = b"".join(block.data for block in blocks)
    image = _image(folder, "ext4", 64 * _MB)
    lasts_s = float(rng.uniform(2.0, 3.0))
    run_program("tune2fs", "-e", "remount-ro", image)
    with Bench(folder) as bench:
        with mounted("ext4", image, folder / "disk") as disk:
            bench.capture = disk / "capture"
            bench.feed([data], "--rate", str(len(data) / lasts_s))
            recorder = bench.record()
            with Watch(bench, None) as watch:
                wait_for(lambda: bench.sent > 0, "the stream")
                time.sleep(float(rng.uniform(0, lasts_s)))
                at = time.monotonic()
                device = Path(subprocess.run(["findmnt", "-no", "SOURCE", disk], capture_output=True, text=True, check=True).stdout.strip())
                _trip(device.name, folder / "sys")
            code, said = bench.finish(recorder)
            refused = ""
            try:
                open_capture(bench.capture)
            except WattbellError:
                pass
            except OSError as error:
                refused = f"opened read-only: {error!r}"
        subprocess.run([find_program("e2fsck"), "-fy", image], capture_output=True, check=False)  # 1: it has mended something
        with mounted("ext4", image, folder / "disk"):
            verdict = _judged(blocks, bench.capture, code, said)
            if code and "read-only" not in said.lower():
                verdict.silent.append(f"the error does not say read-only: {said[-300:]}")
            margin_s = OLD_ENOUGH_S + 5 * watch.slowest_s
            there = sent_whole(blocks, watch.sent_by(at - margin_s))
            if (bench.capture / "meta.json").exists() and missing_records(there, open_capture(bench.capture)):
                verdict.silent.append(f"records sent more than {margin_s:.2f} s before are missing")
    if refused:
        verdict.silent.append(refused)
    return verdict


UMASKS = (0o077, 0o027, 0o022, 0o000, 0o777, 0o277, 0o177)


def modes(rng: np.random.Generator, folder: Path, mask: int | None = None, kind: str | None = None, killed: bool | None = None) -> Verdict:
    """Record with any umask into a folder that is new, empty, or another user's.

    A user other than root records if that user may run Python. The recorder is sometimes killed, and root opens the remains.
    """
    blocks = _stream(rng)
    sent = [record for block in blocks for record in block.records]
    data = b"".join(block.data for block in blocks)
    mask = int(rng.choice(UMASKS)) if mask is None else mask
    kind = kind or str(rng.choice(["new", "new", "empty", "foreign"]))
    killed = bool(rng.random() < 0.4) if killed is None else killed
    open_to_all = Path(tempfile.mkdtemp(prefix="wattbell-modes-"))  # pytest's own folders are closed to other users
    try:
        open_to_all.chmod(0o755)
        work = open_to_all / "work"
        work.mkdir(mode=0o755)
        user = _user(work)
        with Bench(work) as bench:
            if user is not None:
                os.chown(work, user, user)
            who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
            bench.env["HOME"] = str(work)
            if kind != "new":
                bench.capture.mkdir()
                bench.capture.chmod(0o777 if kind == "foreign" else 0o777 & ~mask | 0o700)
                os.chown(bench.capture, *((1234, 1234) if kind == "foreign" else (user or 0, user or 0)))
            bench.feed([data], "--rate", str(len(data) / 2), **who)
            recorder = bench.record(umask=mask, **who)
            if killed:
                wait_for(lambda: bench.sent > len(data) // 2 or recorder.poll() is not None, "the stream")
                recorder.kill()
                said = recorder.communicate(timeout=PATIENCE_S)[1]
                code = recorder.returncode
            else:
                code, said = bench.finish(recorder)
        if mask & 0o700 or kind == "foreign":
            return _refused(mask, kind, code, said, bench.capture)
        old = os.umask(0)
        try:
            verdict = judge(sent, open_capture(bench.capture), harmless=not killed)
        finally:
            os.umask(old)
        if not killed and code:
            verdict.silent.append(f"exit code {code}: {said[-300:]}")
        for path in (bench.capture, *bench.capture.rglob("*")):
            about = path.stat()
            if stat.S_IMODE(about.st_mode) & mask:
                verdict.silent.append(f"umask {mask:04o}, and {path.name} has mode {stat.S_IMODE(about.st_mode):04o} (killed: {killed})")
            if about.st_uid != (user or 0):
                verdict.silent.append(f"{path.name} belongs to {about.st_uid}")
        return verdict
    finally:
        shutil.rmtree(open_to_all)


def _user(work: Path) -> int | None:
    """Return another user who can run this Python and read this tree; None without one."""
    probe = [sys.executable, "-c", "import wattbell.capture.writer, tests.e2e.feeder"]
    root = Path(__file__).parents[2]
    try:
        tried = subprocess.run(probe, user=_NOBODY, group=_NOBODY, extra_groups=[], cwd=root, capture_output=True, check=False)
    except OSError:
        return None
    return _NOBODY if tried.returncode == 0 else None


def _refused(mask: int, kind: str, code: int, said: str, place: Path) -> Verdict:
    verdict = Verdict(lost=1, told=code not in (0, -signal.SIGKILL))
    lines = [line for line in said.splitlines() if line.strip()]
    word = "umask" if mask & 0o700 else "belongs to"
    if code != 1 or len(lines) != 1 or word not in said:
        verdict.silent.append(f"umask {mask:04o}, a {kind} folder: exit code {code}, {said[-300:]}")
    if place.exists() and any(place.iterdir()):
        verdict.silent.append(f"refused, and left {[path.name for path in place.iterdir()]}")
    return verdict
