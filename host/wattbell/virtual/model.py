"""One run of the drive model through the virtual rig into a capture: for ``run JOB`` and for each session of a suite."""

from __future__ import annotations

import json as json_module
import os
import threading
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from .. import door
from ..jsondata import JsonObject
from . import programs, simulator
from .fidelity import Fidelity
from .play import VirtualRun, play, scratch
from .voice import Voice
from .workload import Workload, read_phases

_M2_SUPPLY_V = 3.3
_M2_RANGE_V = 4.5
"""Calibrated that far (docs/virtual-rig.md)."""
_HIGH_RANGE_V = 20


@dataclass(frozen=True)
class ModelRun:
    """The work and the drive of a run.

    job: a plan (.toml) or a fio job file
    extra_files: kept in the capture too
    truth: keep the model's own truth (one CSV row a command), with which the analysis is compared
    truth_states: also keep since when each part of the drive was in each state
    as_direct: run jobs that go through the page cache as with direct=1
    """

    job: Path
    profile: Path
    out: Path
    fidelity: Fidelity = Fidelity.rtl
    seed: int = 1
    interval_s: float | None = None
    decimation: int | None = None
    keep_trace: bool = False
    keep_stream: bool = False
    as_direct: bool = False
    overwrite: bool = False
    truth: bool = True
    truth_states: bool = False
    extra_files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    rig_options: tuple[str, ...] = ()
    """More options of the virtual rig: another board, its temperature."""
    stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    """See :class:`.play.VirtualRun`."""


def _voltage_range(profile: Path) -> list[str]:
    """Return options of the board for drives with a rail above the M.2 board's range (U.2, cards: 12 V)."""
    try:
        supply = tomllib.loads(door.read_text(profile, door.SETTINGS)).get("power", {}).get("supply_v", _M2_SUPPLY_V)
        volts = float(supply["value"] if isinstance(supply, dict) else supply)
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        return []  # the drive model reads it next and reports the fault
    return ["--voltage-range", str(_HIGH_RANGE_V)] if volts > _M2_RANGE_V else []


def run_model(run: ModelRun, voice: Voice) -> str:
    """Run it and record it; returns why the recording ended."""
    with ExitStack() as stack:
        folder = scratch(stack)
        trace = folder / "trace.wbt"
        arguments: list[str | Path] = [
            *("run", "--profile", run.profile, "--plan" if run.job.suffix == ".toml" else "--job", run.job),
            *("--seed", str(run.seed), "--trace", trace),
            *("--fio-json", folder / "fio.json", "--phases", folder / "phases.json", "--logs", folder),
        ]
        if run.as_direct:
            arguments.append("--as-direct")
        if run.truth:
            arguments += ["--truth", folder / "truth.json", "--truth-commands", folder / "truth-commands.csv"]
        if run.truth_states:
            arguments += ["--truth-states", folder / "truth-states.csv"]
        rig_options = ["--seed", str(run.seed), *_voltage_range(run.profile), *run.rig_options]
        if run.fidelity is Fidelity.fast:
            arguments.append("--summaries")
            rig_options += ["--fidelity", "fast"]
        simulator.find_program("wattbell-rig")
        producer: programs.Program | None = None
        if run.keep_trace:
            with voice.spinner("running the drive model"):
                programs.run_program("wattbell-ssd", *arguments)
        else:
            os.mkfifo(trace)
            producer = stack.enter_context(programs.program("wattbell-ssd", *arguments))
        chosen = VirtualRun(
            run.out,
            {
                "profile": run.profile.stem,
                "timing": "model",
                "fidelity": run.fidelity.value,
                "notes": [f"bus, timing and power are those of a model ({run.profile.stem}), not of a drive", *run.notes],
            },
            overwrite=run.overwrite,
            keep_stream=run.keep_stream,
            stop=run.stop,
            interval_s=run.interval_s,
            decimation=run.decimation,
            rig_options=rig_options,
            workload=_known(run),
        )

        def finish() -> Workload:
            if producer:
                producer.wait()
            return _workload(run, folder)

        return play(chosen, trace, producer, finish, voice)


def _known(run: ModelRun) -> JsonObject:
    return {"source": "wattbell-ssd", "job": run.job.name, "profile": run.profile.stem, "seed": run.seed}


def _workload(run: ModelRun, folder: Path) -> Workload:
    description = {**_known(run), "phases": read_phases(folder / "phases.json")}
    names = ["truth.json", "truth-commands.csv", "truth-states.csv", "fio.json", "phases.json"]
    if run.keep_trace:
        names.append("trace.wbt")
    truth = folder / "truth.json"
    if truth.is_file():
        try:
            notes = json_module.loads(door.read_text(truth, door.DOCUMENT)).get("notes")
        except (ValueError, AttributeError):
            notes = None
        if notes:
            description["notes"] = notes
    log_pages = sorted(folder.glob("log-*.bin"))
    return Workload(description, [run.job, run.profile, *run.extra_files, *log_pages, *(folder / name for name in names)])
