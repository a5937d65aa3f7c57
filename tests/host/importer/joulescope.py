"""A Joulescope's recording of the rail of a capture, by pyjls, on a clock of its own; and fio's JSON of the same run.

Nothing here knows the importer. Recorded power is the rail of the capture (1 us samples), integrated over each sample of the other
instrument; before and behind it the drive idles.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyjls
from wattbell.capture import open_capture

F64 = npt.NDArray[np.float64]
_BLOCK = 1 << 20
_EPOCH_2018_S = 1_514_764_800


@dataclass(frozen=True)
class Rail:
    """The rail of a capture: V and A of each microsecond; s 0 is the origin of the model's truth."""

    first_s: float
    step_s: float
    voltage: F64
    current: F64

    @property
    def last_s(self) -> float:
        return self.first_s + len(self.voltage) * self.step_s


def rail_of(path: Path) -> Rail:
    """Samples of a capture of the virtual rig. A sample lies at its tick and holds for the interval around it."""
    capture = open_capture(path)
    wave = capture.rail.read()
    tick_s = capture.tick_ps * 1e-12
    step = capture.rail.interval_ticks * tick_s
    delay = float(capture.meta["conditions"].get("front_end_delay_s") or 0.0)
    first = (capture.rail.first_tick - int(capture.meta["conditions"].get("trace_origin_tick") or 0)) * tick_s - delay - step / 2
    return Rail(first, step, wave.voltage.astype(np.float64), wave.current.astype(np.float64))


@dataclass(frozen=True)
class Clock:
    """The instrument's: its sample 0 begins at ``begin_s`` of the truth's time, and it counts ``1 + drift`` s in one."""

    begin_s: float
    drift: float


def write_jls(
    path: Path,
    rail: Rail,
    clock: Clock,
    *,
    length_s: float,
    rate: int = 1_000_000,
    utc_s: float | None = None,
    noise_a: float = 2e-5,
    gain: float = 0.0,
    seed: int = 1,
) -> Path:
    """``length_s`` by the instrument; ``utc_s``: what its host believes to be the UTC of the truth's origin."""
    rng = np.random.default_rng(seed)
    power = np.concatenate(([0.0], np.cumsum(rail.voltage * rail.current)))
    volts = np.concatenate(([0.0], np.cumsum(rail.voltage)))
    idle_v, idle_p = float(np.mean(rail.voltage[:1000])), float(np.mean((rail.voltage * rail.current)[:1000]))
    end_v, end_p = float(np.mean(rail.voltage[-1000:])), float(np.mean((rail.voltage * rail.current)[-1000:]))
    edges = np.arange(len(power), dtype=np.float64)

    def mean(sums: F64, before: float, behind: float, at: F64) -> F64:
        place = (at - rail.first_s) / rail.step_s
        whole = np.interp(place, edges, sums) + before * np.minimum(place, 0) + behind * np.maximum(place - len(rail.voltage), 0)
        return np.diff(whole) / np.diff(place)

    writer = pyjls.Writer(str(path))
    writer.source_def(1, name="JS220-003456", vendor="Jetperch", model="JS220", version="1.3.0", serial_number="003456")
    for number, (name, unit) in enumerate((("current", "A"), ("voltage", "V"), ("power", "W")), start=1):
        writer.signal_def(
            number, 1, signal_type=pyjls.SignalType.FSR, data_type=pyjls.DataType.F32, sample_rate=rate, name=name, units=unit
        )
    samples = round(length_s * rate)
    for first in range(0, samples, _BLOCK):
        count = min(_BLOCK, samples - first)
        at = clock.begin_s + (first + np.arange(count + 1)) / rate / (1 + clock.drift)
        v = mean(volts, idle_v, end_v, at)
        # the rail is dead for the microsecond before the drive is switched on
        i = mean(power, idle_p, end_p, at) / np.maximum(v, 1e-3) * (1 + gain) + rng.normal(0, noise_a, count)
        for number, values in enumerate((i, v, i * v), start=1):
            writer.fsr_f32(number, first, np.ascontiguousarray(values, np.float32))
    if utc_s is not None:
        for sample in range(0, samples, rate):
            at_s = clock.begin_s + sample / rate / (1 + clock.drift) + utc_s - _EPOCH_2018_S
            for number in (1, 2, 3):
                writer.utc(number, sample, math.floor(at_s * 2**30))
    writer.close()
    return path


def write_fio(path: Path, template: Path, truth: dict[str, Any], utc_s: float) -> list[dict[str, Any]]:
    """fio's JSON of the fio phases of a truth, in the form of a real one (``template``, fio 3.39); returns those phases. Starts are rounded
    down and run times up to whole milliseconds, as fio does it."""
    document = json.loads(template.read_text())
    (pattern,) = document["jobs"]
    phases = [phase for phase in truth["phases"] if phase["kind"] == "fio"]
    document["jobs"] = []
    for number, phase in enumerate(phases):
        job = json.loads(json.dumps(pattern))
        start_s, end_s = phase["start_tick"] * 1e-9, phase["end_tick"] * 1e-9
        job["jobname"], job["groupid"] = phase["name"], number
        job["job_start"] = math.floor((utc_s + start_s) * 1e3)
        job["job_runtime"] = math.floor((end_s - start_s) * 1e3)
        for side in ("read", "write"):
            moved = phase.get(side)
            if moved is None:
                job[side] = {**job["trim"]}
                continue
            job[side] = {**pattern["read"], "io_bytes": moved["bytes"], "total_ios": moved["count"]}
            job[side]["runtime"] = math.ceil((end_s - start_s) * 1e3)
        document["jobs"].append(job)
    path.write_text(json.dumps(document))
    return phases
