"""Faults of a recorder, its host and its files: one function for each row of docs/reliability.md, one try for each call."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.capture import writer as writer_module
from wattbell.errors import WattbellError

from tests.faults import faultstore
from tests.faults.faultbench import PATIENCE_S, Bench, wait_for
from tests.faults.faultdisk import modes, quota, read_only
from tests.faults.faultline import CUT, Pieces, restart
from tests.faults.faultmemory import address_space, group_killed
from tests.faults.faultoracle import Verdict, judge
from tests.faults.faultpower import cut_power
from tests.faults.faultrate import contradicting, flood, wrong_clock
from tests.faults.faultstranger import long_stop, other_rig
from tests.faults.faultstream import Block, make, parse
from tests.faults.faulttrial import record

Row = Callable[[np.random.Generator, Path], Verdict]


_LEAST_BYTES = 20_000


def _sent(blocks: Sequence[Block]) -> list[Any]:
    return [record for block in blocks for record in block.records]


def _join(blocks: Sequence[Block]) -> bytes:
    return b"".join(block.data for block in blocks)


def _long(rng: np.random.Generator) -> list[Block]:
    """Return a stream longer than the feeder's pieces of 4096 bytes, which would otherwise be over at once despite a limited rate."""
    while True:
        blocks = parse(make(rng, scale=3.0))
        if len(_join(blocks)) > _LEAST_BYTES:
            return blocks


def _verdict(blocks: Sequence[Block], place: Path, harmless: bool = False) -> Verdict:
    """Judge a capture. ``harmless``: nothing may be lost. A rebuilt capture says so and is not judged for false alarms."""
    return judge(_sent(blocks), open_capture(place), harmless)


def _must_fail(code: int, said: str, verdict: Verdict) -> Verdict:
    if code == 0:
        verdict.silent.append(f"exit code 0: {said[-200:]}")
    if "Traceback" in said or "bug:" in said:
        verdict.silent.append(f"no clear error: {said[-300:]}")
    return verdict


def kill_9(rng: np.random.Generator, folder: Path) -> Verdict:
    """Kill the recorder somewhere in a stream of two seconds."""
    blocks = _long(rng)
    with Bench(folder) as bench:
        bench.feed([_join(blocks)], "--rate", str(len(_join(blocks)) / 2))
        recorder = bench.record()
        wait_for(lambda: bench.sent > 0, "the stream")
        time.sleep(float(rng.uniform(0, 2)))
        recorder.kill()
        recorder.wait()
    return _verdict(blocks, bench.capture)


def stopped_and_continued(rng: np.random.Generator, folder: Path) -> Verdict:
    """Send SIGSTOP and, a second later, SIGCONT: the rig has to wait, as its port is full."""
    blocks = _long(rng)
    with Bench(folder) as bench:
        bench.feed([_join(blocks)], "--rate", str(len(_join(blocks)) / 1.5))
        recorder = bench.record()
        wait_for(lambda: bench.sent > 0, "the stream")
        time.sleep(float(rng.uniform(0, 1)))
        recorder.send_signal(signal.SIGSTOP)
        time.sleep(1)
        recorder.send_signal(signal.SIGCONT)
        bench.finish(recorder)
    return _verdict(blocks, bench.capture, harmless=True)


def file_size_limit(rng: np.random.Generator, folder: Path) -> Verdict:
    """Limit the file size, as FAT32 does; any of the capture's files may hit the limit."""
    blocks = _long(rng)
    limit = int(rng.integers(5_000, 400_000))

    def lower() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    with Bench(folder) as bench:
        bench.feed([_join(blocks)], "--rate", str(len(_join(blocks))))
        code, said = bench.finish(bench.record(preexec_fn=lower))
    return _opened(blocks, bench.capture, code, said)


def disk_full(rng: np.random.Generator, folder: Path) -> Verdict:
    """Fill up a small disk while recording, then make room again. Needs permission to mount."""
    blocks = _long(rng)
    disk = folder / "disk"
    disk.mkdir()
    size = int(rng.integers(100_000, 1_500_000))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "wattbell-soak", disk], check=True)
    try:
        with Bench(folder) as bench:
            bench.capture = disk / "capture"
            bench.feed([_join(blocks)], "--rate", str(len(_join(blocks))))
            code, said = bench.finish(bench.record())
        subprocess.run(["mount", "-o", "remount,size=100000000", disk], check=True)
        return _opened(blocks, bench.capture, code, said)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)  # this process has mapped its files


def _opened(blocks: Sequence[Block], place: Path, code: int, said: str) -> Verdict:
    """Check that a recorder without room says so, unless everything is recorded, and that a capture that cannot be opened says why."""
    if not (place / "meta.json").exists():
        return _must_fail(code, said, Verdict(lost=len(_sent(blocks)), told=code != 0))
    try:
        verdict = _verdict(blocks, place)
    except WattbellError:
        return _must_fail(code, said, Verdict(lost=len(_sent(blocks)), told=True))
    return _must_fail(code, said, verdict) if verdict.lost or code else verdict


def unplugged(rng: np.random.Generator, folder: Path) -> Verdict:
    """Pull the cable and reconnect it; the rig's data meanwhile is lost."""
    blocks = _long(rng)
    data = _join(blocks)
    at = int(rng.integers(1, len(data) - 1))
    missed = int(rng.integers(1, len(data) - at))
    with Bench(folder) as bench:
        bench.feed([data[:at], CUT, data[at:]], "--cut-skip", str(missed))
        bench.finish(bench.record())
    return _verdict(blocks, bench.capture)


def _two_runs(rng: np.random.Generator) -> tuple[list[Block], list[Block]]:
    return _long(rng), parse(make(rng, run=1, first_tick=int(rng.integers(1_000, 1 << 28)), scale=3.0), run=1)


def _restarted(rng: np.random.Generator, folder: Path, cut: bool) -> Verdict:
    first, second = _two_runs(rng)
    sent, pieces = restart(rng, first, second, cut)
    with Bench(folder) as bench:
        bench.feed(pieces)
        bench.finish(bench.record())
    # a run that ended before the cut ended the recording, too: the next run is not part of it
    return judge([one for one in _sent(sent) if one.run == 0 or bench.sent == bench.size], open_capture(bench.capture))


def replugged_with_other_settings(rng: np.random.Generator, folder: Path) -> Verdict:
    """Pull the plug, which also powers the rig; it comes back with another sample interval."""
    return _restarted(rng, folder, cut=True)


def restarted_without_a_cut(rng: np.random.Generator, folder: Path) -> Verdict:
    """Reset the rig, which captures again while its port stays open."""
    return _restarted(rng, folder, cut=False)


def two_recorders(rng: np.random.Generator, folder: Path) -> Verdict:
    """Start a second recorder on the rig, and one with --force onto the capture: both are refused, and the first loses nothing."""
    blocks = _long(rng)
    with Bench(folder) as bench:
        # slowly until the others are up, which takes long on a busy machine; then the rest at once
        feeder = bench.feed([_join(blocks)], "--rate", str(len(_join(blocks)) / PATIENCE_S))
        recorder = bench.record()
        wait_for(lambda: bench.sent > 0, "the stream")
        others = [bench.record("--force"), bench.record("--out", str(folder / "other"))]
        answers = [(other.communicate(timeout=PATIENCE_S / 2)[1], other.returncode) for other in others]
        feeder.send_signal(signal.SIGUSR1)
        bench.finish(recorder)
    verdict = _verdict(blocks, bench.capture, harmless=True)
    for said, code in answers:
        _must_fail(code, said, verdict)
    return verdict


def _stepping(rng: np.random.Generator, pieces: Pieces, place: Path, *, wall_s: Sequence[float], running_s: Sequence[float]) -> None:
    """Record while the host's time of day steps now and then, and its time since boot too, as after a suspend of the host."""

    def stepped(clock: Callable[[], int], steps_s: Sequence[float]) -> Callable[[], int]:
        offset = 0

        def now() -> int:
            nonlocal offset
            if rng.random() < 0.2:
                offset += int(float(rng.choice(steps_s)) * 1e9)
            return clock() + offset

        return now

    def boot() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    with (
        patch.object(writer_module, "now_ns", stepped(time.time_ns, wall_s)),
        patch.object(writer_module.SteadyClock, "_running_ns", staticmethod(stepped(boot, running_s))),
    ):
        record(pieces, place)


def clock_steps(rng: np.random.Generator, folder: Path) -> Verdict:
    """Step the host's clock forward and back, by seconds and by hours, while the stream comes in."""
    blocks = parse(make(rng))
    data = _join(blocks)
    places = [0, *sorted(rng.integers(0, len(data), 20).tolist()), len(data)]
    pieces: Pieces = [data[a:b] for a, b in zip(places[:-1], places[1:], strict=True) if b > a]
    _stepping(rng, pieces, folder / "capture", wall_s=[-7200.0, -20.0, 1.0, 20.0, 7200.0], running_s=[0.0])
    return _verdict(blocks, folder / "capture", harmless=True)


def suspended_host(rng: np.random.Generator, folder: Path) -> Verdict:
    """Suspend the host for hours: its clock steps forward, the line is cut, and the rig's buffer overflows meanwhile."""
    blocks = parse(make(rng))
    at = int(rng.integers(1, len(blocks)))
    behind = int(rng.integers(at, len(blocks) + 1))
    pieces: Pieces = [_join(blocks[:at]), CUT, *([_join(blocks[behind:])] if behind < len(blocks) else [])]
    _stepping(rng, pieces, folder / "capture", wall_s=[3600.0, 36_000.0], running_s=[3600.0, 36_000.0])
    return _verdict(blocks, folder / "capture")


def damaged_file(rng: np.random.Generator, folder: Path) -> Verdict:
    """Damage a file of a finished capture: flip a bit, zero a part, truncate or remove it. It is refused, or nothing changes."""
    blocks = parse(make(rng, scale=0.3))
    place = folder / "capture"
    record([_join(blocks)], place)
    before = _figures(place)
    files = sorted(path for path in place.iterdir() if path.is_file())
    path = files[int(rng.integers(0, len(files)))]
    data = bytearray(path.read_bytes())
    way = int(rng.integers(0, 4))
    if way == 0:
        data[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))
    elif way == 1:
        first = int(rng.integers(0, len(data)))
        last = min(len(data), first + int(rng.integers(1, 5000)))
        data[first:last] = bytes(last - first)
    elif way == 2:
        del data[int(rng.integers(0, len(data))) :]
    same = bytes(data) == path.read_bytes() and way < 3
    if way == 3:
        path.unlink()
    else:
        path.write_bytes(data)
    if same:
        return Verdict()
    try:
        after = _figures(place)
    except WattbellError:
        return Verdict(lost=1, told=True)
    silent = [] if after == before else [f"{path.name} was damaged (way {way}), and its figures are others"]
    return Verdict(lost=int(bool(silent)), told=False, silent=silent)


def _figures(place: Path) -> str:
    return json.dumps(analyze(open_capture(place)), sort_keys=True, default=str)


def _power_cut(kind: str, *, replace: bool = False) -> Row:
    return lambda rng, folder: cut_power(kind, rng, folder, replace=replace)


def _other_rig(cut: bool) -> Row:
    return lambda rng, folder: other_rig(rng, folder, cut=cut)


def _store_power_cut(kind: str) -> Row:
    return lambda rng, folder: faultstore.store_power_cut(kind, rng, folder)


def _suite_power_cut(kind: str) -> Row:
    return lambda rng, folder: faultstore.suite_power_cut(kind, rng, folder)


ROWS: dict[str, tuple[Row, float]] = {
    "recorder killed (kill -9)": (kill_9, 1),
    "recorder stopped for a second (SIGSTOP)": (stopped_and_continued, 1),
    "recorder stopped for 75 s (SIGSTOP)": (long_stop, 0.2),
    "memory limit of the recorder (RLIMIT_AS)": (address_space, 1),
    "recorder killed for want of memory (control group)": (group_killed, 1),
    "power cut (ext4)": (_power_cut("ext4"), 1),
    "power cut (btrfs)": (_power_cut("btrfs"), 1),
    "power cut while a capture replaces another (ext4)": (_power_cut("ext4", replace=True), 1),
    "disk full": (disk_full, 1),
    "quota used up (btrfs)": (quota, 1),
    "file system turns read-only (ext4)": (read_only, 1),
    "umask, modes and owners of files": (modes, 1),
    "limit of a file's size": (file_size_limit, 1),
    "unplugged, and back": (unplugged, 1),
    "replugged with other settings": (replugged_with_other_settings, 1),
    "rig restarted without a cut": (restarted_without_a_cut, 1),
    "another rig on the port, behind a cut": (_other_rig(cut=True), 1),
    "another rig on the port, without a cut": (_other_rig(cut=False), 1),
    "samples at ten times the stated rate": (contradicting, 20),
    "samples and events at ten times the usual rate": (flood, 0.5),
    "a rig's clock ten times as fast or as slow": (wrong_clock, 10),
    "two recorders": (two_recorders, 1),
    "steps of the host's clock": (clock_steps, 20),
    "host suspended": (suspended_host, 20),
    "damaged file of a capture": (damaged_file, 20),
    "results store: damaged file": (faultstore.store_damaged, 5),
    "results store: disk full": (faultstore.store_full, 1),
    "results store: power cut (ext4)": (_store_power_cut("ext4"), 1),
    "results store: power cut (btrfs)": (_store_power_cut("btrfs"), 1),
    "suite: power cut, then --resume (ext4)": (_suite_power_cut("ext4"), 0.5),
    "suite: power cut, then --resume (btrfs)": (_suite_power_cut("btrfs"), 0.5),
}
"""Title of each row -> one try of it, and its number of tries relative to a row that takes seconds."""


def attempt(name: str, seed: int, folder: Path) -> Verdict:
    """Run try number ``seed`` of a row, in a temporary folder."""
    place = folder / f"try-{os.getpid()}-{random.getrandbits(32):x}"
    place.mkdir()
    try:
        return ROWS[name][0](np.random.default_rng(seed), place)
    finally:
        shutil.rmtree(place)
