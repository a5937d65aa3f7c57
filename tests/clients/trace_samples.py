"""Expected samples of a logic analyser at the trace's pins, without the gateware or our decoder.

They are computed from the trace's sidebands and the drive model's own log of its commands.
"""

from __future__ import annotations

import csv
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from wattbell.probes import PROBES

from tests.sim.rig.rig_process import find, run
from tests.sim.rig.rig_trace import CLKREQ_N, LINK_STATE, PERST_N, RAIL, SIDEBAND, records

Words = npt.NDArray[np.int64]
STROBES = ("DOORBELL", "FETCH", "CQE")
BIT = {name: 1 << number for number, name in enumerate(PROBES)}
PIN_MASK = 31
STROBE_MASK = sum(BIT[name] for name in (*STROBES, "DATA"))
_PINS = {CLKREQ_N: BIT["CLKREQ#"], PERST_N: BIT["PERST#"], LINK_STATE: BIT["LINK0"]}


class Truth:
    """Times in nanoseconds of the trace, rounded down to whole ones like the rig's ticks."""

    def __init__(self, trace: Path, commands: Path) -> None:
        rows = list(csv.DictReader(commands.open()))

        def times(name: str) -> Words:
            return np.unique([int(row[f"{name}_ps"]) // 1000 for row in rows if row[f"{name}_ps"]])

        self.strobes = {name: times(name.lower()) for name in STROBES}
        self.data = [(int(r["first_data_ps"]) // 1000, int(r["last_data_ps"]) // 1000) for r in rows if r["first_data_ps"]]
        self.sidebands = [(t // 1000, *struct.unpack("BB", body)) for kind, _, t, body in records(trace) if kind == SIDEBAND]
        self.amps = [(t // 1000, struct.unpack("<q", body[:8])[0] * 1e-9) for kind, _, t, body in records(trace) if kind == RAIL]

    def change(self, signal: int, value: int) -> int:
        """Return the time at which a sideband first takes `value` after another one."""
        seen = [(time, level) for time, which, level in self.sidebands if which == signal]
        return next(time for (_, before), (time, level) in zip(seen, seen[1:]) if before != value == level)

    def words(self, start_ns: int, period_ns: int, count: int) -> Words:
        """Return `count` samples from `start_ns` on: levels at the sample, strobes since the previous sample."""
        out = np.zeros(count, np.int64)

        def index(times: Iterable[int]) -> Words:
            return -((start_ns - np.array(list(times), np.int64)) // period_ns)

        for name, times in self.strobes.items():
            where = index(times)
            out[where[(where >= 0) & (where < count)]] |= BIT[name]
        for first, last in zip(index(f for f, _ in self.data), index(last for _, last in self.data)):
            out[max(first, 0) : max(last + 1, 0)] |= BIT["DATA"]
        levels = np.zeros(count, np.int64)
        for time, signal, value in self.sidebands:
            mask = BIT["LINK0"] * 7 if signal == LINK_STATE else _PINS[signal]
            at = max(int(index([time])[0]), 0)
            levels[at:] = levels[at:] & ~mask | value * _PINS[signal]
        return out | levels


def aligned(truth: Truth, seen: Words, period_ns: int, sample: int, event_ns: int) -> list[int]:
    """Return the possible starts of the sampling, of at most 200 in a period.

    With these starts the trace's strobes give `seen`, and the event at `event_ns` of the trace is in `sample`.
    """
    latest = event_ns - (sample - 1) * period_ns
    return [
        start
        for start in range(latest - period_ns, latest, max(1, period_ns // 200))
        if np.array_equal(truth.words(start, period_ns, len(seen)) & STROBE_MASK, seen & STROBE_MASK)
    ]


def rises(words: Words, mask: int) -> list[int]:
    """Return the samples at which `mask` goes high."""
    high = (words & mask) != 0
    return (np.flatnonzero(high[1:] & ~high[:-1]) + 1).tolist()


_JOB = "[reads]\nrw=randread\nbs=4k\niodepth=2\nsize=1m\nio_size=128k\ndirect=1\n"
_PLAN = """
condition = "test-data"
[[step]]
name = "reads"
fio = "reads.fio"
[[step]]
name = "wake"
wake = { idle_s = 0.06, slba = 64 }
aspm = "l1.2"
"""


def modelled(folder: Path) -> tuple[Path, Path]:
    """Run the drive model: its start, some reads, a sleep and a wake-up. Return the trace, and the model's log of its commands."""
    (folder / "plan.toml").write_text(_PLAN)
    (folder / "reads.fio").write_text(_JOB)
    trace, commands = folder / "t.wbt", folder / "commands.csv"
    run([find("wattbell-ssd"), "run", "--plan", folder / "plan.toml", "--trace", trace, "--truth-commands", commands])
    return trace, commands
