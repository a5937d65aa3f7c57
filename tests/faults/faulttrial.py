"""One trial: a stream, a fault, a capture and a verdict, all derived from one seed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from wattbell.capture import CaptureWriter, open_capture

from tests.faults.faultline import CUT, ONE_RUN, RESTARTS, Pieces, restart
from tests.faults.faultoracle import Verdict, judge
from tests.faults.faultstream import Block, make, parse

SHARED_MEMORY = Path("/dev/shm")
CLASSES = [fault.name for fault in ONE_RUN] + list(RESTARTS)


@dataclass
class Trial:
    """A trial. ``seed`` reproduces it; ``fault`` is its class."""

    seed: int
    fault: str
    verdict: Verdict


def scratch() -> Path:
    """Make a new folder, in memory if possible."""
    return Path(tempfile.mkdtemp(prefix="wattbell-faults-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None))


def trial(seed: int, folder: Path) -> Trial:
    """Run trial number ``seed``; its class is ``seed`` modulo the number of classes."""
    name, blocks, pieces, harmless = arrange(seed)
    sent = [record for block in blocks for record in block.records]
    place = folder / "capture"
    record(pieces, place)
    try:
        return Trial(seed, name, judge(sent, open_capture(place), harmless))
    finally:
        shutil.rmtree(place)


def arrange(seed: int) -> tuple[str, Sequence[Block], Pieces, bool]:
    """Return the class of a trial, all sent blocks, the data that arrives, and whether the recording has to be lossless."""
    rng = np.random.default_rng(seed)
    name = CLASSES[seed % len(CLASSES)]
    if name in RESTARTS:
        return (name, *_restarted(rng, name == RESTARTS[1]), False)
    blocks = parse(make(rng))
    fault = next(fault for fault in ONE_RUN if fault.name == name)
    return name, blocks, fault.apply(rng, blocks), fault.harmless


def _restarted(rng: np.random.Generator, cut: bool) -> tuple[Sequence[Block], Pieces]:
    """Return two runs. The second one's ticks start at power-on, or are later than the first one's; each may be short."""
    scales = [float(scale) for scale in rng.choice([0.05, 1.0], 2)]
    first = parse(make(rng, scale=scales[0]))
    last_tick = max(record.last_tick for block in first for record in block.records)
    begin = int(rng.choice([1_000, int(rng.integers(1_000, 1 << 28)), last_tick + int(rng.integers(1_000, 1 << 28))]))
    second = parse(make(rng, run=1, first_tick=begin, scale=scales[1]), run=1)
    return restart(rng, first, second, cut)


def record(pieces: Pieces, place: Path, *, journal: bool = False) -> None:
    """Process read data as a recorder does, without the rig."""
    with CaptureWriter(place, lba_size_bytes=512, conditions={"virtual": True}, journal=journal) as writer:
        writer.stream.expected = True
        for piece in pieces:
            if piece is CUT:
                writer.reconnected()
            else:
                writer.feed(piece)
