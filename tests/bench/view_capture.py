"""A long capture to look at, written with the recorder's own writer: a rail of bursts and idle times, commands with a changing load.

An instrument would take days for it: 24 h at 1 MSPS are 1 TB. The pattern repeats every 10 s: 4 s busy, then idle with a few commands;
every 97th command is slow. Commands come in the order of their CQEs, 8 in flight.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from wattbell.capture import CaptureWriter
from wattbell.capture.schema import COMMANDS

_PERIOD_S, _BUSY_S, _DEPTH = 10.0, 4.0, 8
_RAIL_BLOCK = 60_000
_AT_ONCE = 1 << 19


def make(path: Path, seconds: float, rate_hz: float, commands: int) -> None:
    """Write the capture; `commands` over all of it, a rail of `rate_hz`."""
    interval = round(1e9 / rate_hz)
    with CaptureWriter(
        path, journal=False, lba_size_bytes=512, conditions={"virtual": True, "profile": "bench", "timing": "made"}
    ) as writer:
        _commands(writer, seconds, commands)
        _rail(writer, round(seconds * 1e9) // interval, interval)
        writer.add_rows("events", {"tick": [0], "type": [15], "name": ["run"], "arg8": [1], "arg16": [0], "arg32": [0]})


def _commands(writer: CaptureWriter, seconds: float, commands: int) -> None:
    noise = np.random.default_rng(1)
    periods = seconds / _PERIOD_S
    busy = np.int64(_BUSY_S * 1e9)
    for first in range(0, commands, _AT_ONCE):
        index = np.arange(first, min(first + _AT_ONCE, commands))
        at = index / commands * periods  # periods are equally busy; within one, 98 % of the commands come in its busy part
        whole, part = np.divmod(at, 1.0)
        inside = np.where(part < 0.98, part / 0.98 * busy, busy + (part - 0.98) / 0.02 * (_PERIOD_S * 1e9 - busy))
        cqe = (whole * _PERIOD_S * 1e9 + inside).astype(np.int64)
        latency = noise.lognormal(np.log(80e3), 0.3, len(index)).astype(np.int64) * np.where(index % 97 == 0, 20, 1)
        doorbell = cqe - latency
        write = noise.random(len(index)) < 0.3
        n = len(index)
        columns = {
            "cqe_tick": cqe,
            "doorbell_tick": doorbell,
            "fetch_tick": doorbell + 900,
            "first_data_tick": doorbell + latency // 2,
            "last_data_tick": cqe - 1200,
            "msix_tick": cqe + 300,
            "cq_head_tick": cqe + 4000,
            "opcode": np.where(write, 1, 2).astype(np.uint8),
            "qid": (1 + index % _DEPTH // 4).astype(np.uint8),
            "cid": (index & 0xFF).astype(np.uint16),
            "status": np.where(index % 1_000_003 == 1_000_002, 0x281, 0).astype(np.uint16),
            "nsid": np.ones(n, np.uint32),
            "slba": noise.integers(0, 1 << 31, n).astype(np.uint64),
            "blocks": np.where(write, 256, 8).astype(np.uint32),
        }
        arrays = [pa.array(columns.get(f.name, np.zeros(n, np.int64)), type=f.type) for f in COMMANDS]
        writer._tables["commands"].add(pa.table(arrays, schema=COMMANDS))


def _rail(writer: CaptureWriter, samples: int, interval: int) -> None:
    noise = np.random.default_rng(2).normal(0, 0.02, 1 << 20).astype(np.float32)
    volts = np.full(_RAIL_BLOCK, 3.3, np.float32)
    for first in range(0, samples, _RAIL_BLOCK):
        n = min(_RAIL_BLOCK, samples - first)
        tick = (first + np.arange(n, dtype=np.int64)) * interval
        busy = tick % np.int64(_PERIOD_S * 1e9) < np.int64(_BUSY_S * 1e9)
        begin = first % (len(noise) - _RAIL_BLOCK)
        amps = np.where(busy, np.float32(1.1), np.float32(0.02)) + noise[begin : begin + n] * np.where(busy, 1, 0.01).astype(np.float32)
        writer.add_rail(int(first) * interval, interval, volts[:n], amps)
