"""``wattbell run``: a suite, a file of work or a command on a virtual or a real drive, recorded and analysed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ..campaign.commands import Commands
from ..errors import Interrupted, UsageError, WattbellError
from ..virtual.fidelity import Fidelity
from . import complete, numbers, output
from .options import FidelityOption, Force, Json, KeepStream, Wide
from .quantities import TIME

if TYPE_CHECKING:
    from ..campaign.bench import Bench
    from ..campaign.ending import Ending
    from ..campaign.eta import Eta
    from ..campaign.real import RealBench
    from ..campaign.runner import Order
    from ..campaign.work import Work
    from ..suites.outlook import Outlook


class Condition(StrEnum):
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


_COMMAND = "wattbell.command"
"""Key of the context's ``meta``."""
_SUITE = "Suites"
_REAL = "On a real drive"


class RunCommand(TyperCommand):
    """Keeps what stands behind the first ``--`` as it is: a command with its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Click's own, on what stands before."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        if ctx.resilient_parsing and args and args[-1].startswith("-"):
            args = args[:-1]  # the option that a shell completes has no value yet; with it click would not see the suite either
        return super().parse_args(ctx, args)


def run(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write: a capture, or a suite's results.")],
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="SUITE|FILE|-- COMMAND",
            help="Suite (`wattbell suites`), plan (.toml), fio job file, fio iolog, text of blkparse; or, on a real drive, any command.",
            show_default=False,
            autocompletion=complete.work,
        ),
    ] = None,
    virtual: Annotated[
        str | None,
        typer.Option(
            "--virtual",
            metavar="PROFILE",
            help="Run on a model of this drive (`wattbell sim profiles`).",
            autocompletion=complete.profiles,
        ),
    ] = None,
    drive: Annotated[
        str | None, typer.Option("--drive", metavar="DEVICE", help="Run on this drive, such as /dev/nvme0n1.", rich_help_panel=_REAL)
    ] = None,
    serial: Annotated[
        str | None,
        typer.Option("--serial", metavar="NUMBER", help="The drive's serial number; without it nothing is written.", rich_help_panel=_REAL),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the drive is written.", rich_help_panel=_REAL)] = False,
    rig: Annotated[
        str | None,
        typer.Option("--rig", metavar="RIG", help="Serial number of the rig, or its ports: DATA,CONTROL.", rich_help_panel=_REAL),
    ] = None,
    meter: Annotated[
        str | None,
        typer.Option(
            "--meter", metavar="METER", help="Record the rail with this meter in place of a rig (`wattbell meters`).", rich_help_panel=_REAL
        ),
    ] = None,
    commands: Annotated[
        Commands,
        typer.Option(
            metavar="WHOSE",
            help="Who sees the commands: the rig's tap, or a log of the host: trace (of its NVMe driver), blktrace, fio.",
            show_choices=False,
            rich_help_panel=_REAL,
        ),
    ] = Commands.auto,
    link_speed: Annotated[
        float | None,
        typer.Option("--link-speed", metavar="GT/S", help="Run the drive's link at this speed meanwhile.", rich_help_panel=_REAL),
    ] = None,
    governor: Annotated[
        str | None, typer.Option("--governor", metavar="NAME", help="Frequency governor of the host meanwhile.", rich_help_panel=_REAL)
    ] = None,
    apst: Annotated[
        bool | None,
        typer.Option("--apst/--no-apst", help="APST on or off. Without it: off, and under a command as it was.", rich_help_panel=_REAL),
    ] = None,
    aspm: Annotated[
        Aspm | None,
        typer.Option(
            "--aspm", metavar="STATE", help="ASPM: off, l1 or l1.2. Without it likewise.", show_choices=False, rich_help_panel=_REAL
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the whole plan and do nothing.")] = False,
    fidelity: FidelityOption = Fidelity.rtl,
    seed: Annotated[int, typer.Option(callback=numbers.seed, help="Seed of the drive model and of the rig's board.")] = 1,
    interval: Annotated[
        float | None, typer.Option(metavar="TIME", parser=TIME, callback=numbers.interval, help="Seconds between ADC conversions, or 1us.")
    ] = None,
    decimation: Annotated[int | None, typer.Option(min=1, max=4096, help="ADC conversions a rail sample.")] = None,
    keep_trace: Annotated[bool, typer.Option("--keep-trace", help="Keep the bus trace in the capture (workload/trace.wbt).")] = False,
    scale: Annotated[
        float,
        typer.Option(callback=numbers.share, help="Shorten times and spans by this; the results say so.", rich_help_panel=_SUITE),
    ] = 1.0,
    condition: Annotated[
        Condition,
        typer.Option(
            metavar="WHAT",
            help="What the drive holds before each test: test-data, full, empty or both.",
            show_choices=False,
            rich_help_panel=_SUITE,
        ),
    ] = Condition.both,
    tests: Annotated[
        str,
        typer.Option(help="Only these tests, separated by commas.", rich_help_panel=_SUITE, autocompletion=complete.tests),
    ] = "",
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
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Run a suite, a file of work or any command on a drive, record it, and print the figures.

    A suite leaves results.json and its captures in --out, is kept in the
    store (`wattbell results`), and ends with a page that shows it among the
    drives measured before. Anything else leaves a capture in --out.

    [bold]On a virtual drive[/] the drive model writes bus transactions and rail power,
    and the instrument sees them at its pins. The model's own truth is kept,
    and the analysis is compared with it.

      wattbell run quick --virtual intel-660p-1tb --out results

      wattbell run sim/plans/demo.toml --virtual intel-660p-1tb --out capture

      wattbell run anandtech-2018 --virtual intel-660p-1tb \\
        --fidelity fast --out results --resume

    [bold]On a real drive[/] fio and nvme-cli do the work. What writes needs the
    drive's serial number, refuses a drive that is mounted, says how much it
    writes, and asks. A command may do what it likes and is not asked about;
    it finds the drive's path in $WATTBELL_DRIVE, and its exit code is ours.

      wattbell run quick --drive /dev/nvme0n1 --serial S4EWNX0M1234 --out r

      wattbell run reads.fio --drive /dev/nvme0n1 --out capture

      wattbell run --drive /dev/nvme0n1 --out capture -- cp film.mkv /mnt

      wattbell run anandtech-2018 --drive /dev/nvme0n1 --out r --dry-run
    """
    command = context.meta.get(_COMMAND)
    if (virtual is None) == (drive is None):
        raise UsageError("Give one of --virtual PROFILE and --drive /dev/nvmeXnY.")
    if (what is None) == (command is None):
        raise UsageError("Give one thing to run: a suite, a file, or `--` and a command.")
    names = tuple(t.strip() for t in tests.split(",") if t.strip())
    if resume and force:
        raise UsageError("--resume goes on with what is in --out, --force removes it; give one of them.")
    if no_store and store is not None:
        raise UsageError("Give one of --store and --no-store.")
    file = None if what is None else Path(what)
    single = file is None or file.is_file()
    if single and (scale != 1 or tests or written or rounds is not None or discard or condition is not Condition.both or resume or store):
        raise UsageError("--scale, --tests, --condition, --written, --rounds, --discard-captures, --resume and --store are for suites.")
    if file is not None and not single and file.suffix in (".fio", ".toml"):
        raise UsageError(f"{what} is not a file; give a suite, a fio job file or a plan such as sim/plans/demo.toml.")
    if (apst is not None or aspm is not None) and (drive is None or not single or (file is not None and file.suffix == ".toml")):
        raise UsageError("--apst and --aspm are for a job file, a trace or a command on a real drive; suites and plans say it themselves.")

    from ..campaign.equipment import RIG_METER, How
    from ..campaign.real import JOURNAL, RealBench, Setup
    from ..campaign.runner import Order, plan_suite
    from ..campaign.virtual import VirtualBench
    from ..campaign.work import with_power
    from ..drive.bench import Wanted
    from ..suites.drive import from_profile
    from ..suites.outlook import look_ahead
    from ..suites.session import Choice
    from ..virtual.model import ModelRun, run_model
    from ..virtual.play import check_whole, refuse_existing, scratch
    from ..virtual.profiles import find_profile
    from ..virtual.tracefile import is_trace, replay_plan
    from .ahead import show_plan
    from .captures import show_analysis

    only = None if condition is Condition.both else condition.value
    order = Order(what or "", out, only, names, discard, force, resume)
    audience = _Audience(json, yes, out)
    if drive is not None:
        choice = Choice(scale, True, rounds, seed, real=True)
        journal = out / JOURNAL if not single else out.absolute().with_name(f"{out.absolute().name[:200]}.{JOURNAL}")
        restore = single or resume
        how = How(meter, commands, Wanted(link_speed, governor), _asked if sys.stdin.isatty() else None)
        if keep_trace:
            raise UsageError(
                "--keep-trace keeps what a drive model wrote (--virtual); of a real drive --keep-stream keeps what the rig sent."
            )
        if keep_stream and meter is not None and meter.partition(":")[0] != RIG_METER:
            raise UsageError("--keep-stream keeps what a rig sent: this --meter is none.")
        out_fd = sys.stderr.fileno() if json else None
        setup = Setup(drive, serial, rig, journal, restore, interval, decimation, dry_run, out_fd, how, keep_stream)
        bench = RealBench(setup, choice, output)
        if single:
            with ExitStack() as stack:
                work = _work(file, command, bench.device.path, stack)
                _run_on_drive(with_power(work, apst, None if aspm is None else aspm.value), bench, out, force, audience, dry_run)
        elif dry_run:
            show_plan(f"{what} on {bench.device.path}", plan_suite(order, bench).outlook, bench, json)
        else:
            _run_suite(order, bench, _ending(store, no_store, page, plots), audience)
        return
    if serial or rig or yes or meter or commands is not Commands.auto or link_speed is not None or governor:
        raise UsageError("--serial, --rig, --yes, --meter, --commands, --link-speed and --governor belong to a real drive (--drive).")
    if command is not None:
        raise UsageError("A command runs on a real drive (--drive); there is no computer with a virtual one.")
    assert virtual is not None and what is not None and file is not None
    profile = find_profile(virtual)
    if single and dry_run:
        with ExitStack() as stack:
            work = _work(file, None, None, stack)
            show_plan(f"{what} on {profile.stem}", look_ahead([work.session], from_profile(profile).capacity_bytes, Choice()), None, json)
        return
    if single:
        refuse_existing(out, force)
        with ExitStack() as stack:
            run = ModelRun(
                replay_plan(file, scratch(stack), output) if is_trace(file) else file,
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
        show_analysis(out, json)
        check_whole(out, reason)
        return
    choice = Choice(scale, written, rounds, seed)
    model = VirtualBench(profile, choice, output, fidelity, interval, decimation, keep_trace, keep_stream)
    if dry_run:
        show_plan(f"{what} on {profile.stem}", plan_suite(order, model).outlook, None, json)
        return
    _run_suite(order, model, _ending(store, no_store, page, plots), audience)


def _work(file: Path | None, command: Sequence[str] | None, drive: str | None, stack: ExitStack) -> Work:
    """``drive``: path of a real drive, which a job file has to name; None for a model."""
    from ..campaign.work import command_work, read_work
    from ..virtual.play import scratch

    return command_work(command or ()) if file is None else read_work(file, drive, scratch(stack), output)


def _run_on_drive(work: Work, bench: RealBench, out: Path, force: bool, audience: _Audience, dry_run: bool) -> None:
    """Work that is no suite: recorded, analysed, and ended with a command's own exit code."""
    from ..campaign.single import check_command, check_log, outlook_of, run_work
    from ..virtual.play import refuse_existing
    from .ahead import show_plan
    from .captures import show_analysis

    if dry_run:
        bench.take(work)
        show_plan(f"{work.session.name} on {bench.device.path}", outlook_of(work, bench), bench, audience.json)
        return
    refuse_existing(out, force)
    before = _stamp(out)
    try:
        run_work(work, bench, out, audience)
    except KeyboardInterrupt:
        if _stamp(out) == before:
            raise
        show_analysis(out, audience.json)
        raise Interrupted(f"the run was cut short: {out} holds what was recorded until then.") from None
    except WattbellError:
        if _stamp(out) != before:
            output.say(f"{out} holds what was recorded until the error.")
        raise
    show_analysis(out, audience.json)
    check_command(bench, out)
    check_log(out)


def _stamp(out: Path) -> tuple[int, int] | None:
    """Tells captures of one name apart."""
    from ..capture.meta import NAME as META

    try:
        about = (out / META).stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _asked(question: str) -> bool:
    """Put to whoever sits at the terminal."""
    from rich.text import Text

    output.err.print(Text(f"{question} [y/N] "), end="")
    try:
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _ending(store: Path | None, no_store: bool, page: bool, plots: bool) -> Ending:
    from ..campaign.ending import Ending
    from ..results import default_path

    return Ending(None if no_store else store or default_path(), page, plots)


class _Audience:
    """The terminal; with ``--json`` nothing is said of a test before the end."""

    def __init__(self, json: bool, yes: bool, out: Path) -> None:
        self.json, self._yes, self._out = json, yes, out

    say = staticmethod(output.say)
    spinner = staticmethod(output.spinner)
    recording = staticmethod(output.recording)

    def progress(self, eta: Eta) -> AbstractContextManager[None]:
        from .ahead import progress

        return progress(eta, self._out)

    def ahead(self, outlook: Outlook, bench: Bench) -> None:
        from ..campaign.real import RealBench
        from .ahead import agree

        if isinstance(bench, RealBench) and outlook.writes:
            agree(outlook, bench.device, self._yes)

    def begun(self, results: Mapping[str, Any]) -> None:
        from ..present.suite.terminal import header

        if not self.json:
            output.out.print(header(results))

    def scored(self, test: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        from ..present.suite.terminal import show_test

        if not self.json:
            show_test(test, results, output.out)


def _run_suite(order: Order, bench: Bench, ending: Ending, audience: _Audience) -> None:
    from rich.text import Text

    from ..campaign.runner import run_suite
    from ..present.suite.terminal import summary

    kept = run_suite(order, bench, ending, audience)
    if audience.json:
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
