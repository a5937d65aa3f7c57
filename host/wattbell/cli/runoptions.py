"""Options of ``wattbell run``, by the object that they are about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..campaign.commands import CommandObserver
from ..virtual.fidelity import Fidelity
from . import complete, numbers
from .options import (
    ALL_SETS,
    FIDELITY_HELP,
    ExitCodes,
    Force,
    Guard,
    Json,
    Junit,
    KeepStream,
    Parameters,
    RequirementSets,
    Wide,
)
from .quantities import TIME


class ConditionChoice(StrEnum):
    """Which conditions of a suite's tests to run."""

    test_data = "test-data"
    full = "full"
    empty = "empty"
    both = "both"


class Aspm(StrEnum):
    """States of ASPM."""

    off = "off"
    l1 = "l1"
    l1_2 = "l1.2"


@dataclass(frozen=True)
class BenchOptions:
    """The drive, its recording and its settings: a model (``virtual``), or a real drive with a rig or a meter."""

    virtual: Annotated[
        str | None,
        typer.Option(
            "--virtual",
            metavar="PROFILE",
            help="Run on a model of this drive (`wattbell sim profiles`).",
            autocompletion=complete.profiles,
        ),
    ] = None
    drive: Annotated[str | None, typer.Option("--drive", metavar="DEVICE", help="Run on this drive, such as /dev/nvme0n1.")] = None
    serial: Annotated[
        str | None,
        typer.Option("--serial", metavar="NUMBER", help="The drive's serial number; without it nothing is written."),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the drive is written. (A command is not asked about.)")] = (
        False
    )
    rig: Annotated[
        str | None,
        typer.Option("--rig", metavar="RIG", help="Serial number of the rig, or its ports: DATA,CONTROL."),
    ] = None
    meter: Annotated[
        str | None,
        typer.Option("--meter", metavar="METER", help="Record the rail with this meter in place of a rig (`wattbell meters`)."),
    ] = None
    commands: Annotated[
        CommandObserver,
        typer.Option(
            metavar="WHOSE",
            help="Who sees the commands: the rig's tap, or a log of the host: trace (of its NVMe driver), blktrace, fio (that we start).",
            show_choices=False,
        ),
    ] = CommandObserver.auto
    link_speed: Annotated[
        float | None,
        typer.Option("--link-speed", metavar="GT/S", help="Run the drive's link at this speed meanwhile."),
    ] = None
    governor: Annotated[str | None, typer.Option("--governor", metavar="NAME", help="Frequency governor of the host meanwhile.")] = None
    apst: Annotated[
        bool | None,
        typer.Option(
            "--apst/--no-apst", help="APST of a job file, a trace or a command: on or off. Without it: off, and under a command as it was."
        ),
    ] = None
    aspm: Annotated[
        Aspm | None,
        typer.Option("--aspm", metavar="STATE", help="ASPM of these: off, l1 or l1.2. Without it likewise.", show_choices=False),
    ] = None
    interval: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=TIME, callback=numbers.interval, help="Seconds between ADC conversions of a rig, or 1us."),
    ] = None
    decimation: Annotated[int | None, typer.Option(min=1, max=4096, help="ADC conversions a rail sample of a rig.")] = None


@dataclass(frozen=True)
class ModelOptions:
    """Run of a drive model and its virtual rig."""

    fidelity: Annotated[
        Fidelity | None,
        typer.Option(help=FIDELITY_HELP, show_default="fast for a suite, rtl for anything else"),
    ] = None
    seed: Annotated[
        int,
        typer.Option(callback=numbers.seed, help="Seed of the drive model and its rig; on a real drive, of a suite's generated traces."),
    ] = 1
    keep_trace: Annotated[bool, typer.Option("--keep-trace", help="Keep the bus trace in the capture (workload/trace.wbt).")] = False
    as_direct: Annotated[
        bool,
        typer.Option("--as-direct", help="Run jobs that go through the page cache as with direct=1: a drive model has no page cache."),
    ] = False


@dataclass(frozen=True)
class SuiteOptions:
    """Tests of a suite, and their conditions."""

    scale: Annotated[
        float,
        typer.Option(callback=numbers.share, help="Shorten times and spans by this; the results say so."),
    ] = 1.0
    condition: Annotated[
        ConditionChoice,
        typer.Option(
            metavar="WHAT",
            help="What the drive holds before each test: test-data, full, empty or both.",
            show_choices=False,
        ),
    ] = ConditionChoice.both
    tests: Annotated[str, typer.Option(help="Only these tests, separated by commas.", autocompletion=complete.tests)] = ""
    written: Annotated[
        bool,
        typer.Option("--written", help="On a model: purge and fill by writing instead of setting its state."),
    ] = False
    rounds: Annotated[
        int | None,
        typer.Option(callback=numbers.between(1, 10_000), help="Number of rounds in tests to a steady state."),
    ] = None
    repeat: Annotated[
        int,
        typer.Option(
            callback=numbers.between(1, 1000),
            metavar="N",
            help="Run the suite so many times, into 1, 2, ... of --out, for `wattbell compare`. A model gets --seed, --seed + 1, ...",
        ),
    ] = 1
    discard: Annotated[bool, typer.Option("--discard-captures", help="Remove each capture when its scores are computed.")] = False
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run in --out.")] = False


@dataclass(frozen=True)
class ConformanceOptions:
    """Requirements of ``wattbell run conformance``, and how they are judged."""

    requirements: RequirementSets = ALL_SETS
    parameters: Parameters = None
    guard: Guard = None
    junit: Junit = None
    codes: ExitCodes = None


@dataclass(frozen=True)
class ResultOptions:
    """Files, store and page of a run, and the printed figures."""

    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder to write: a capture, or a suite's results.", show_default="named after the work and the drive, here"
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the whole plan and do nothing.")] = False
    page: Annotated[bool, typer.Option(help="Write the page of the run (suite.html in --out) at its end.")] = True
    plots: Annotated[bool, typer.Option(help="Write each chart of the page as PNG and SVG too.")] = False
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            help="Store that keeps the results.",
            show_default="wattbell/results.sqlite in your data directory",
        ),
    ] = None
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep the results in --out only.")] = False
    force: Force = False
    keep_stream: KeepStream = False
    wide: Wide = False
    json: Json = False
