"""``wattbell run``: a workload or a whole suite on a virtual drive, recorded and analysed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ..campaign.bench import Bench
from ..campaign.ending import Ending
from ..campaign.equipment import Commands, How
from ..campaign.real import JOURNAL, RealBench, Setup
from ..campaign.runner import Order, run_suite
from ..campaign.virtual import VirtualBench
from ..drive.bench import Wanted
from ..errors import UsageError
from ..present.suite.terminal import header, show_test, summary
from ..results import default_path
from ..suites.session import Choice
from ..virtual.model import Fidelity, ModelRun, find_profile, run_model
from ..virtual.play import check_whole, refuse_existing, scratch
from ..virtual.tracefile import is_trace, replay_plan
from . import captures, numbers, output
from .record import FidelityOption, Force, Json, KeepStream, Out


class Condition(StrEnum):
    """Which conditions of a suite's tests to run."""

    test_data = "test-data"
    full = "full"
    empty = "empty"
    both = "both"


_SUITE = "Suites"
_REAL = "On a real drive"


def run(
    what: Annotated[
        str, typer.Argument(metavar="SUITE|JOB", help="Suite (`wattbell suites`), fio job file, plan (.toml), fio iolog, text of blkparse.")
    ],
    out: Out,
    virtual: Annotated[str | None, typer.Option("--virtual", help="Profile of the drive; see `wattbell sim profiles`.")] = None,
    drive: Annotated[
        str | None, typer.Option("--drive", help="A real drive: /dev/nvme0n1. What is on it is lost.", rich_help_panel=_REAL)
    ] = None,
    serial: Annotated[str | None, typer.Option("--serial", help="The serial number of that drive.", rich_help_panel=_REAL)] = None,
    rig: Annotated[
        str | None, typer.Option("--rig", help="Serial number of the rig, or its ports: DATA,CONTROL.", rich_help_panel=_REAL)
    ] = None,
    meter: Annotated[
        str | None,
        typer.Option("--meter", metavar="METER", help="Record the rail with this (`wattbell meters`), not a rig.", rich_help_panel=_REAL),
    ] = None,
    commands: Annotated[
        Commands,
        typer.Option(
            metavar="WHOSE",
            help="Who sees the commands: tap, or the host: trace (the NVMe driver), blktrace, fio; auto.",
            show_choices=False,
            rich_help_panel=_REAL,
        ),
    ] = Commands.auto,
    link_speed: Annotated[
        float | None,
        typer.Option("--link-speed", metavar="GT/S", help="Set the drive's link to this speed meanwhile.", rich_help_panel=_REAL),
    ] = None,
    governor: Annotated[
        str | None, typer.Option("--governor", metavar="NAME", help="Frequency governor of the host meanwhile.", rich_help_panel=_REAL)
    ] = None,
    fidelity: FidelityOption = Fidelity.rtl,
    seed: Annotated[int, typer.Option(callback=numbers.seed, help="Seed of the drive model and of the rig's board.")] = 1,
    interval: Annotated[float | None, typer.Option(callback=numbers.interval, help="Seconds between ADC conversions.")] = None,
    decimation: Annotated[int | None, typer.Option(min=1, max=4096, help="ADC conversions a rail sample.")] = None,
    keep_trace: Annotated[bool, typer.Option(help="Keep the bus trace in the capture (workload/trace.wbt).")] = False,
    scale: Annotated[
        float,
        typer.Option(callback=numbers.share, help="Shorten times and spans by this; the results say so.", rich_help_panel=_SUITE),
    ] = 1.0,
    condition: Annotated[Condition, typer.Option(help="What the drive holds before each test.", rich_help_panel=_SUITE)] = Condition.both,
    tests: Annotated[str, typer.Option(help="Only these tests, separated by commas.", rich_help_panel=_SUITE)] = "",
    written: Annotated[
        bool,
        typer.Option("--written", help="Purge and fill by writing instead of setting the model's state.", rich_help_panel=_SUITE),
    ] = False,
    rounds: Annotated[
        int | None,
        typer.Option(callback=numbers.between(1, 10_000), help="Number of rounds in steady-state tests.", rich_help_panel=_SUITE),
    ] = None,
    discard: Annotated[
        bool, typer.Option("--discard-captures", help="Remove each capture when its scores are computed.", rich_help_panel=_SUITE)
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run in --out.", rich_help_panel=_SUITE)] = False,
    page: Annotated[bool, typer.Option(help="Write the page of the run (suite.html in --out) at its end.", rich_help_panel=_SUITE)] = True,
    plots: Annotated[bool, typer.Option(help="Write each chart of the page as PNG and SVG too.", rich_help_panel=_SUITE)] = False,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            help="Store that keeps the results.",
            show_default="wattbell/results.sqlite in your data directory",
            rich_help_panel=_SUITE,
        ),
    ] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep the results in --out only.", rich_help_panel=_SUITE)] = False,
    force: Force = False,
    keep_stream: KeepStream = False,
    json: Json = False,
) -> None:
    """Run a suite on a virtual or a real drive, or a workload on a virtual one; record it and print the figures.

    The drive model writes bus transactions and rail power; the instrument sees them at its pins; the recorder
    reads the rig's serial port as it would with a real one. For a job or plan the model's own truth is kept in the capture,
    and the analysis is compared with it. A suite leaves results.json with its captures beside it, is kept in the store
    (`wattbell results`), and ends with a page that shows it among the drives measured before.

      wattbell run quick --virtual intel-660p-1tb --out results

      wattbell run anandtech-2018 --virtual intel-660p-1tb --scale 0.001 --tests burst-random-read --out results

      wattbell run anandtech-2018 --virtual intel-660p-1tb --fidelity fast --out results --resume

      wattbell run sim/plans/demo.toml --virtual intel-660p-1tb --out capture

      wattbell run quick --drive /dev/nvme0n1 --serial S4EWNX0M123456 --rig WB0007 --out results
    """
    if (virtual is None) == (drive is None):
        raise UsageError("Give one of --virtual PROFILE and --drive /dev/nvmeXnY.")
    names = tuple(t.strip() for t in tests.split(",") if t.strip())
    if resume and force:
        raise UsageError("--resume goes on with what is in --out, --force removes it; give one of them.")
    if no_store and store is not None:
        raise UsageError("Give one of --store and --no-store.")
    only = None if condition is Condition.both else condition.value
    order = Order(what, out, only, names, discard, force, resume)
    if drive is not None:
        how = How(meter, commands, Wanted(link_speed, governor), _asked if sys.stdin.isatty() else None)
        setup = Setup(drive, serial, rig, out / JOURNAL, resume, interval, decimation, how)
        choice = Choice(scale, True, rounds, seed, real=True)
        _run_suite(order, RealBench(setup, choice, output), _ending(store, no_store, page, plots), json)
        return
    if serial or rig or meter or commands is not Commands.auto or link_speed is not None or governor:
        raise UsageError("--serial, --rig, --meter, --commands, --link-speed and --governor belong to a real drive (--drive).")
    assert virtual is not None
    profile = find_profile(virtual)
    job = Path(what)
    if job.is_file():
        if scale != 1 or tests or written or rounds is not None or discard or condition is not Condition.both or resume or store:
            raise UsageError("--scale, --tests, --condition, --written, --rounds, --discard-captures, --resume and --store are for suites.")
        refuse_existing(out, force)
        with ExitStack() as stack:
            run = ModelRun(
                replay_plan(job, scratch(stack), output) if is_trace(job) else job,
                profile,
                out,
                fidelity=fidelity,
                seed=seed,
                interval_s=interval,
                decimation=decimation,
                keep_trace=keep_trace,
                keep_stream=keep_stream,
                overwrite=force,
            )
            reason = run_model(run, output)
        output.say(f"{out}: {reason}.")
        captures.show_analysis(out, json)
        check_whole(out, reason)
        return
    if job.suffix in (".fio", ".toml"):
        raise UsageError(f"{what} is not a file; give a suite, a fio job file or a plan such as sim/plans/demo.toml.")
    choice = Choice(scale, written, rounds, seed)
    bench = VirtualBench(profile, choice, output, fidelity, interval, decimation, keep_trace, keep_stream)
    _run_suite(order, bench, _ending(store, no_store, page, plots), json)


def _asked(question: str) -> bool:
    """Put to whoever sits at the terminal."""
    output.err.print(Text(f"{question} [y/N] "), end="")
    try:
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _ending(store: Path | None, no_store: bool, page: bool, plots: bool) -> Ending:
    return Ending(None if no_store else store or default_path(), page, plots)


class _Audience:
    """The terminal; with ``--json`` nothing is said of a test before the end."""

    def __init__(self, json: bool) -> None:
        self._json = json

    say = staticmethod(output.say)
    spinner = staticmethod(output.spinner)
    recording = staticmethod(output.recording)

    def begun(self, results: Mapping[str, Any]) -> None:
        if not self._json:
            output.out.print(header(results))

    def scored(self, test: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        if not self._json:
            show_test(test, results, output.out)


def _run_suite(order: Order, bench: Bench, ending: Ending, json: bool) -> None:
    kept = run_suite(order, bench, ending, _Audience(json))
    if json:
        output.print_json(kept.results)
    else:
        output.out.print(summary(kept.results))
        rows = [("results", str(kept.file))]
        if kept.page is not None:
            rows.append(("page", str(kept.page)))
        if kept.known_as is not None:
            rows.append(("store", f"{kept.store}, as {kept.known_as}"))
        for name, place in rows:
            output.out.print(Text.assemble((f"{name:8}", "grey58"), " ", place), soft_wrap=True)
    kept.check()
