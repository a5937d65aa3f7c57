"""A builder of synthetic captures, for analysis, report and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.capture import Capture, CaptureWriter, open_capture
from wattbell.capture.meta import save
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType

MS = 1_000_000
POWER_STATES = [
    {"state": 0, "max_power_w": 4.0, "non_operational": False},
    {"state": 3, "max_power_w": 0.030, "non_operational": True},
    {"state": 4, "max_power_w": 0.004, "non_operational": True},
]
COMMAND = {
    "cqe_tick": None,
    "doorbell_tick": None,
    "fetch_tick": None,
    "first_data_tick": None,
    "last_data_tick": None,
    "msix_tick": None,
    "cq_head_tick": None,
    "opcode": 2,
    "qid": 1,
    "cid": 0,
    "status": 0,
    "nsid": 1,
    "slba": 0,
    "blocks": 8,
    "flags": 0,
    "saturated": 0,
    "source": 0,
    "instant_u_ns": 0,
    "length_checked": 0,
    "interrupt_guessed": 0,
}


class Builder:
    """Collects rows, then writes a capture. Times are ticks (ns). The rail is piecewise constant power at 3.3 V."""

    def __init__(self, path: Path, interval: int = 10_000) -> None:
        self.path, self.interval = path, interval
        self.rows: list[dict[str, Any]] = []
        self.events: list[tuple[int, EventType, int, int]] = []
        self.levels: list[tuple[int, float]] = []
        self.phases: list[dict[str, Any]] = []
        self.gaps: list[Gap] = []
        self.hole: tuple[int, int] | None = None
        self.begin = 0
        """Tick of the rail's first sample."""

    def command(self, start: int, latency: int, **more: Any) -> int:
        """A command with a doorbell at `start`; returns its CQE tick."""
        row = {**COMMAND, "doorbell_tick": start, "fetch_tick": start + 500, "cqe_tick": start + latency, **more}
        row["cid"] = more.get("cid", len(self.rows) & 0xFFFF)
        self.rows.append(row)
        return start + latency

    def marker(self, tick: int, value: int) -> None:
        self.events.append((tick, EventType.MARKER, 0, value))
        self.command(tick, 5_000, qid=0, opcode=0x0A, slba=0xD0, blocks=value, status=2)

    def phase(self, number: int, first: int, last: int, name: str, kind: str = "fio", **more: Any) -> None:
        self.marker(first, number << 8 | 1)
        self.marker(last, number << 8 | 2)
        self.phases.append({"phase": number, "name": name, "kind": kind, **more})

    def power(self, tick: int, watt: float) -> None:
        """From `tick` on the rail draws `watt`."""
        self.levels.append((tick, watt))

    def write(self, end: int = 0, lba: int | None = 512, conditions: dict[str, Any] | None = None) -> Capture:
        with CaptureWriter(
            self.path,
            journal=False,
            lba_size_bytes=lba,
            conditions={"virtual": True, "timing": "model", **(conditions or {})},
        ) as writer:
            if self.rows:
                rows = sorted(self.rows, key=lambda r: r["cqe_tick"])
                writer.add_rows("commands", {name: [r[name] for r in rows] for name in COMMAND})
            events = sorted(self.events, key=lambda e: e[0])
            if events:
                columns = {
                    "tick": [e[0] for e in events],
                    "type": [int(e[1]) for e in events],
                    "name": [e[1].name for e in events],
                    "arg8": [e[2] for e in events],
                    "arg16": [0] * len(events),
                    "arg32": [e[3] for e in events],
                }
                writer.add_rows("events", columns)
            if self.levels:
                self._rail(writer, end)
            for gap in self.gaps:
                writer.add_gap(gap)
            writer.meta["workload"]["phases"] = self.phases
            capture = self.path
        meta = json.loads((capture / "meta.json").read_text())
        drive = meta["drive"] or {"namespaces": []}
        drive["power_states"] = POWER_STATES
        meta["drive"] = drive
        save(capture, meta)
        return open_capture(capture)

    def _rail(self, writer: CaptureWriter, end: int) -> None:
        ticks = np.arange(self.begin, end, self.interval)
        times = np.array([t for t, _ in self.levels])
        watts = np.array([w for _, w in self.levels])
        # Exactly representable: voltage 3.3 V is 165 000 LSB; current in LSB of 500 nA.
        current = np.round(watts[np.searchsorted(times, ticks, side="right") - 1] / 3.3 / 500e-9).astype(np.int64)
        energy = np.cumsum(current * 165_000)
        for a in range(0, len(ticks), 300):
            b = min(a + 300, len(ticks))
            if self.hole and self.hole[0] <= ticks[a] < self.hole[1]:
                span = (int(ticks[a]), int(ticks[b - 1]))
                self.gaps.append(Gap(BlockContent.RAIL, *span, b - a, "test"))
                continue
            volts = np.full(b - a, 3.3, np.float32)
            amps = (current[a:b] * 500e-9).astype(np.float32)
            writer.add_rail(int(ticks[a]), self.interval, volts, amps, energy_raw=int(energy[b - 1]), adc_index=b)


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path / "capture")
