"""One import of a Joulescope-like recording with fio's JSON, at a random offset and drift, against the model's truth."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.importer.build import ImportOrder, import_files

from . import joulescope

HERE = Path(__file__).parent
PLAN = HERE / "plan" / "plan.toml"
FIO = HERE / "fio-3.39-read.json"
GAIN = 1e-3
_UTC_S = 1_795_561_000.0


@dataclass(frozen=True)
class Case:
    """Facts that the importer may not know: by how much the two clocks differ (s) and drift, and where in the recording the work lies."""

    offset_s: float
    drift: float
    lead_s: float
    tail_s: float
    gain: float
    utc_s: float


def case(seed: int) -> Case:
    rng = np.random.default_rng([22, seed])
    return Case(
        rng.uniform(-10, 10),
        rng.uniform(-1e-4, 1e-4),
        rng.uniform(0.1, 3),
        rng.uniform(0.1, 3),
        rng.uniform(-GAIN, GAIN) / 2,
        _UTC_S + rng.uniform(0, 1),
    )


@dataclass(frozen=True)
class Outcome:
    """``off``: of the energy of each phase, in its stated uncertainties; ``relative``: those uncertainties, of the energies."""

    case: Case
    off: list[float]
    relative: list[float]
    begin_off_s: float
    bound_s: float

    @property
    def within(self) -> bool:
        return all(abs(off) <= 1 for off in self.off)


def record(
    folder: Path, rail: joulescope.Rail, truth: dict[str, Any], at: Case, rate: int, seed: int
) -> tuple[Path, Path, list[dict[str, Any]]]:
    """The recording, fio's JSON, and the phases that it describes."""
    jls, fio = folder / f"{seed}.jls", folder / f"{seed}.json"
    clock = joulescope.Clock(-at.lead_s, at.drift)
    length_s = at.lead_s + rail.last_s + at.tail_s
    joulescope.write_jls(jls, rail, clock, length_s=length_s, rate=rate, utc_s=at.utc_s + at.offset_s, gain=at.gain, seed=seed)
    return jls, fio, joulescope.write_fio(fio, FIO, truth, at.utc_s)


def outcome(folder: Path, capture: Path, seed: int, rate: int) -> Outcome:
    """Import one, analyse it, and forget it."""
    rail = joulescope.rail_of(capture)
    truth = json.loads((capture / "workload" / "truth.json").read_text())
    at = case(seed)
    jls, fio, played = record(folder, rail, truth, at, rate, seed)
    made = folder / f"{seed}"
    done = import_files(ImportOrder([jls], fio=[fio], accuracy={"gain": GAIN, "offset_a": 1e-4, "timebase": 1e-4}), made)
    phases = analyze(open_capture(made))["phases"]
    assert [phase["name"] for phase in phases] == [phase["name"] for phase in played]
    figures = [phase["power"]["energy_j"] for phase in phases]
    off = [(figure["value"] - phase["energy_j"]) / figure["u"] for figure, phase in zip(figures, played)]
    (aligned,) = done.alignments
    begin_s = (played[0]["start_tick"] * 1e-9 + at.lead_s) * (1 + at.drift)
    jls.unlink()
    return Outcome(at, off, [figure["u"] / figure["value"] for figure in figures], aligned.begin_s - begin_s, aligned.clock.bound_s)
