"""``wattbell run``: a workload on a virtual drive, recorded and analysed."""

from __future__ import annotations

import json as json_module
import os
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UsageError
from . import captures, output, simtools
from .record import Force, Json, KeepStream, Out
from .virtual import VirtualRun, Workload, play, read_phases, refuse_existing, scratch


class Fidelity(StrEnum):
    """What stands for the instrument."""

    rtl = "rtl"


def run(
    job: Annotated[Path, typer.Argument(help="fio job file (.fio) or plan (.toml).")],
    out: Out,
    virtual: Annotated[str, typer.Option("--virtual", help="Profile of the drive; see `wattbell sim profiles`.")],
    fidelity: Annotated[Fidelity, typer.Option(help="rtl: the Verilated gateware, clock by clock.")] = Fidelity.rtl,
    seed: Annotated[int, typer.Option(help="Seed of the drive model and of the rig's board.")] = 1,
    interval: Annotated[float | None, typer.Option(help="Seconds between ADC conversions.")] = None,
    decimation: Annotated[int | None, typer.Option(min=1, max=4096, help="ADC conversions a rail sample.")] = None,
    keep_trace: Annotated[bool, typer.Option(help="Keep the bus trace in the capture (workload/trace.wbt).")] = False,
    force: Force = False,
    keep_stream: KeepStream = False,
    json: Json = False,
) -> None:
    """Run a workload on a virtual drive, record it through the virtual rig, and print the analysis.

    The drive model writes bus transactions and rail power; the Verilated gateware sees them at its pins; the recorder
    reads the rig's serial port as it would with a real one. The model's own truth is kept in the capture, and the
    analysis is compared with it.

      wattbell run sim/plans/demo.toml --virtual intel-660p-1tb --out capture

      wattbell run randread.fio --virtual intel-660p-1tb --out capture --json
    """
    if not job.is_file():
        raise UsageError(f"{job} is no file; give a fio job file or a plan such as sim/plans/demo.toml.")
    profile = _profile(virtual)
    refuse_existing(out, force)
    with ExitStack() as stack:
        folder = scratch(stack)
        trace = folder / "trace.wbt"
        arguments: list[str | Path] = [
            *("run", "--profile", profile, "--plan" if job.suffix == ".toml" else "--job", job, "--seed", str(seed)),
            *("--trace", trace, "--truth", folder / "truth.json"),
            *("--truth-commands", folder / "truth-commands.csv"),
            *("--fio-json", folder / "fio.json", "--phases", folder / "phases.json"),
        ]
        simtools.find_program("wattbell-rig")
        producer: simtools.Program | None = None
        if keep_trace:
            with output.spinner("running the drive model"):
                simtools.run_program("wattbell-ssd", *arguments)
        else:
            os.mkfifo(trace)
            producer = stack.enter_context(simtools.program("wattbell-ssd", *arguments))
        chosen = VirtualRun(
            out,
            {
                "profile": profile.stem,
                "timing": "model",
                "fidelity": fidelity.value,
                "notes": [f"bus, timing and power are those of a model ({profile.stem}), not of a drive"],
            },
            overwrite=force,
            keep_stream=keep_stream,
            interval_s=interval,
            decimation=decimation,
            rig_options=["--seed", str(seed)],
        )

        def finish() -> Workload:
            if producer:
                producer.wait()
            return _workload(job, profile, seed, folder, keep_trace)

        reason = play(chosen, trace, producer, finish)
    output.say(f"{out}: {reason}.")
    captures.show_analysis(out, json)


def _profile(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".toml" and path.is_file():
        return path
    path = simtools.profiles_dir() / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in simtools.profiles_dir().glob("*.toml"))) or "none"
        raise UsageError(f"There is no profile {name}; known: {known}. A path to a .toml file works too.")
    return path


def _workload(job: Path, profile: Path, seed: int, folder: Path, keep_trace: bool) -> Workload:
    description: dict[str, Any] = {
        "source": "wattbell-ssd",
        "job": job.name,
        "profile": profile.stem,
        "seed": seed,
        "phases": read_phases(folder / "phases.json"),
    }
    names = ["truth.json", "truth-commands.csv", "fio.json", "phases.json"]
    if keep_trace:
        names.append("trace.wbt")
    truth = folder / "truth.json"
    if truth.is_file():
        try:
            notes = json_module.loads(truth.read_text(encoding="utf-8")).get("notes")
        except (ValueError, AttributeError):
            notes = None
        if notes:
            description["notes"] = notes
    return Workload(description, [job, profile, *(folder / name for name in names)])
