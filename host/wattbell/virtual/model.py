"""One run of the drive model through the virtual rig into a capture: for ``run JOB`` and for each session of a suite."""

from __future__ import annotations

import json as json_module
import os
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ..errors import SimError, UsageError
from ..jsondata import JsonObject
from . import programs, simulator
from .play import VirtualRun, play, scratch
from .voice import Voice
from .workload import Workload, read_phases

_M2_SUPPLY_V = 3.3
_M2_RANGE_V = 4.5
"""Calibrated that far (docs/virtual-rig.md)."""
_HIGH_RANGE_V = 20


class Fidelity(StrEnum):
    """What stands for the instrument."""

    rtl = "rtl"
    fast = "fast"


@dataclass(frozen=True)
class ModelRun:
    """What to run on which drive. ``job``: a plan (.toml) or a fio job file. ``extra_files``: kept in the capture too.
    ``truth``: keep the model's own truth (one CSV row a command), against which the analysis is compared; ``truth_states``: and since when
    each part of the drive was in which state."""

    job: Path
    profile: Path
    out: Path
    fidelity: Fidelity = Fidelity.rtl
    seed: int = 1
    interval_s: float | None = None
    decimation: int | None = None
    keep_trace: bool = False
    keep_stream: bool = False
    overwrite: bool = False
    truth: bool = True
    truth_states: bool = False
    extra_files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    rig_options: tuple[str, ...] = ()
    """More options of the virtual rig: another board, its temperature."""


def find_profile(name: str) -> Path:
    """File of a drive's profile, by name or path."""
    path = Path(name)
    if path.suffix == ".toml" and path.is_file():
        return path
    path = simulator.profiles_dir() / f"{name}.toml"
    if not path.is_file():
        if not simulator.profile_files() and (why := simulator.without_simulator()):
            raise SimError(why)
        known = ", ".join(p.stem for p in simulator.profile_files()) or "none"
        raise UsageError(f"There is no profile {name}; known: {known}. A path to a .toml file works too.")
    return path


def known_profiles() -> list[dict[str, str]]:
    """``profile``, ``path`` and, where they are told, ``model`` and ``firmware`` of every drive. SimError when there is none."""
    found = []
    for path in simulator.profile_files():
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise SimError(f"{path} is not a valid profile ({error}).") from None
        found.append({"profile": path.stem, "path": str(path), **_identity(content)})
    if not found:
        raise SimError(
            simulator.without_simulator()
            or f"There is no profile in {simulator.profiles_dir()}; set WATTBELL_PROFILES to the folder that has them."
        )
    return found


def _identity(content: JsonObject) -> dict[str, str]:
    """Model and firmware, wherever in the profile they stand."""
    for part in (content, *(value for value in content.values() if isinstance(value, dict))):
        if "model" in part:
            found = {name: part[name] for name in ("model", "firmware") if name in part}
            # a value of a profile may stand with its source
            return {name: str(fact["value"] if isinstance(fact, dict) else fact) for name, fact in found.items()}
    return {}


def _voltage_range(profile: Path) -> list[str]:
    """The board for drives whose rail is above the M.2 board's range (U.2, cards: 12 V)."""
    try:
        supply = tomllib.loads(profile.read_text(encoding="utf-8")).get("power", {}).get("supply_v", _M2_SUPPLY_V)
        volts = float(supply["value"] if isinstance(supply, dict) else supply)
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        return []  # the drive model reads it next and says what is wrong with it
    return ["--voltage-range", str(_HIGH_RANGE_V)] if volts > _M2_RANGE_V else []


def run_model(run: ModelRun, voice: Voice) -> str:
    """Run it and record it; returns why the recording ended."""
    with ExitStack() as stack:
        folder = scratch(stack)
        trace = folder / "trace.wbt"
        arguments: list[str | Path] = [
            *("run", "--profile", run.profile, "--plan" if run.job.suffix == ".toml" else "--job", run.job),
            *("--seed", str(run.seed), "--trace", trace),
            *("--fio-json", folder / "fio.json", "--phases", folder / "phases.json"),
        ]
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
            notes = json_module.loads(truth.read_text(encoding="utf-8")).get("notes")
        except (ValueError, AttributeError):
            notes = None
        if notes:
            description["notes"] = notes
    return Workload(description, [run.job, run.profile, *run.extra_files, *(folder / name for name in names)])
