"""Another rig on the ports of the recorded one, with and without a cut of the line: none of its data may be in the capture."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.errors import WattbellError

from tests.faults.faultbench import wait_for, waits
from tests.faults.faultoracle import Verdict, judge
from tests.faults.faultrig import SERIAL, RigBench, Step
from tests.faults.faultstream import Block, Sent, make, parse
from tests.patience import PATIENCE_S

OTHER = "OTHER"


def other_rig(rng: np.random.Generator, folder: Path, *, cut: bool) -> Verdict:
    """Exchange the rig for another one in mid-stream.

    The other rig already captures, or waits for a command. The first may come back, with a new run. ``cut``: the line is cut at
    each exchange. The recorder is sometimes killed at the end.
    """
    first, second = parse(make(rng, scale=3.0)), parse(make(rng, run=1, first_tick=int(rng.integers(1_000, 1 << 28)), scale=3.0), run=1)
    foreign = make(rng, run=2, scale=3.0)
    back, idle, killed = (bool(rng.random() < p) for p in (0.5, 0.3, 0.3))
    data = b"".join(block.data for block in first)
    at = max(int(rng.integers(len(data) // 10, len(data))), len(first[0].data))
    (folder / "first").write_bytes(data[:at])
    (folder / "foreign").write_bytes(foreign)
    (folder / "second").write_bytes(b"".join(block.data for block in second))
    steps = [
        Step(SERIAL, "first", waits=True, ask=not cut),
        Step(OTHER, "foreign", cut=cut, waits=cut and idle, ask=not cut, most_s=2.0 if cut else 0.0),
    ]
    if back:
        steps.append(Step(SERIAL, "second", cut=cut, waits=cut, ask=not cut))
    with RigBench(folder) as bench:
        bench.play(steps)
        recorder = bench.record()
        wait_for(lambda: bench.over or recorder.poll() is not None, "the rigs")
        if killed and waits(recorder):
            if not cut:  # the answer is on disk at once, although no data comes any more
                wait_for(lambda: OTHER in json.loads((bench.capture / "meta.json").read_text())["journal"]["senders"], "the answer")
            recorder.kill()
        elif waits(recorder):
            recorder.send_signal(signal.SIGINT)
        _, said = recorder.communicate(timeout=PATIENCE_S)
        code = recorder.returncode
    sent = [*_begun(first, at), *(record for block in second for record in block.records if back)]
    try:
        verdict = judge(sent, open_capture(bench.capture))
    except WattbellError as error:
        return Verdict(len(sent), False, [str(error)])
    if killed and code == -signal.SIGKILL:
        return verdict
    if "Traceback" in said or "bug:" in said:
        verdict.silent.append(f"no clear error: {said[-300:]}")
    if not back and (code == 0 or OTHER not in said):
        verdict.silent.append(f"nothing said of the other rig (exit code {code}): {said[-300:]}")
    if not verdict.told:
        verdict.silent.append("lossless, though another rig was there")
    return verdict


def _begun(blocks: Sequence[Block], at: int) -> list[Sent]:
    """Return the records of the blocks that the sender had begun at byte ``at``."""
    found: list[Sent] = []
    begin = 0
    for block in blocks:
        if begin < at:
            found += block.records
        begin += len(block.data)
    return found


def long_stop(rng: np.random.Generator, folder: Path, stop_s: float = 75.0, buffer: int = 1 << 16) -> Verdict:
    """Send SIGSTOP for much longer than the rig's buffers last, then SIGCONT: the rig loses data, and goes on."""
    with RigBench(folder) as bench:
        bench.lossy(stop_s + 6.0, buffer, int(rng.integers(0, 1000)))
        recorder = bench.record()
        wait_for(lambda: bench.sent > 0, "the stream")
        time.sleep(float(rng.uniform(0.5, 2.5)))
        recorder.send_signal(signal.SIGSTOP)
        time.sleep(stop_s)
        recorder.send_signal(signal.SIGCONT)
        wait_for(lambda: bench.over or recorder.poll() is not None, "the rig")
        if waits(recorder):
            recorder.send_signal(signal.SIGINT)
        _, said = recorder.communicate(timeout=PATIENCE_S)
    lost = parse((folder / "lost").read_bytes())
    sent = [record for block in (*parse((folder / "wire").read_bytes()), *lost) for record in block.records]
    capture = open_capture(bench.capture)
    verdict = judge(sent, capture)
    if not lost:
        verdict.silent.append("the rig lost nothing: nothing was tried")
    if recorder.returncode != 0 or "Some data is missing" not in said:
        verdict.silent.append(f"exit code {recorder.returncode}: {said[-300:]}")
    if capture.meta["loss"]["restarts"]:
        verdict.silent.append("the rig did not restart")
    lasted_s = (max(record.last_tick for record in sent) - min(record.first_tick for record in sent)) * 1e-9
    said_s = analyze(capture)["capture"]["duration_s"]
    if abs(said_s - lasted_s) > 0.1:
        verdict.silent.append(f"it lasted {lasted_s:.3f} s, and the capture says {said_s:.3f} s")
    return verdict
