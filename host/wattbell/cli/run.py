"""``wattbell run``: a suite, a file of work or a command on a virtual or a real drive, recorded and analysed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..campaign.commands import CommandObserver
from ..errors import Interrupted, UsageError, WattbellError
from ..virtual.fidelity import Fidelity
from ..virtual.simulator import find_plan
from . import applies, complete, numbers, output
from .options import FIDELITY_HELP, Force, Json, KeepStream, Wide
from .quantities import TIME

if TYPE_CHECKING:
    from ..campaign.bench import Bench
    from ..campaign.ending import Ending
    from ..campaign.eta import Eta
    from ..campaign.real import RealBench
    from ..campaign.runner import SuiteOrder
    from ..campaign.work import Work
    from ..suites.drive import Drive
    from ..suites.outlook import Outlook
    from ..suites.session import Choice


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


_COMMAND, _KINDS = "wattbell.command", "wattbell.kinds"
"""Keys of the context's ``meta``."""


class RunCommand(applies.Checked):
    """Keeps the words behind the first ``--`` unchanged: a command with its arguments. The help has a panel for suites and for each kind of
    drive.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            if (panel := applies.panel(applies.label(param))) is not None:
                setattr(param, "rich_help_panel", panel)  # noqa: B010 - Typer's own, which Click's class does not declare

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as Click does, but only the words before ``--``."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        if ctx.resilient_parsing and args and args[-1].startswith("-"):
            args = args[:-1]  # the option that a shell completes has no value yet; with it click would not see the suite either
        return super().parse_args(ctx, args)

    def kinds_of(self, context: Any) -> applies.Kinds:
        """Kept in the context's ``meta``. Raises UsageError when there is nothing to run, or nothing to run it on."""
        what, meter, model = context.params["what"], context.params["meter"], context.params["virtual"]
        command = context.meta.get(_COMMAND)
        if model is None and context.params["drive"] is None:
            raise UsageError("Give one of --virtual PROFILE and --drive /dev/nvmeXnY.")
        if (what is None) == (command is None):
            raise UsageError("Give one thing to run: a suite, a file, or `--` and a command.")
        if command is not None and model is not None:
            raise UsageError("A command runs on a real drive (--drive); there is no computer with a virtual one.")
        bench = applies.BenchKind.model
        if model is None:
            bench = applies.BenchKind.rig if meter is None else applies.BenchKind.meter
            if meter is not None and _is_rig(meter):
                bench = applies.BenchKind.rig_as_meter
        kinds = applies.Kinds(_work_kind(what), bench, what or "")
        context.meta[_KINDS] = kinds
        return kinds


def _is_rig(meter: str) -> bool:
    """Whether --meter names a rig."""
    from ..campaign.equipment import RIG_METER

    return meter.partition(":")[0] == RIG_METER


def _work_kind(what: str | None) -> applies.WorkKind:
    """UsageError for a file that is not there, or cannot be read."""
    if what is None:
        return applies.WorkKind.command
    file = find_plan(what)
    if not file.is_file():
        if file.suffix in (".fio", ".toml"):
            raise UsageError(f"{what} is not a file; give a suite, a fio job file or a plan such as demo.toml.")
        return applies.WorkKind.suite
    from ..virtual.tracefile import is_trace

    if is_trace(file):
        return applies.WorkKind.trace
    return applies.WorkKind.plan if file.suffix == ".toml" else applies.WorkKind.job


def run(
    context: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="SUITE|FILE|-- COMMAND",
            help="Suite (`wattbell suites`), plan (.toml), fio job file, fio iolog, text of blkparse; or, on a real drive, any command.",
            show_default=False,
            autocompletion=complete.work,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder to write: a capture, or a suite's results.", show_default="named after the work and the drive, here"
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
    drive: Annotated[str | None, typer.Option("--drive", metavar="DEVICE", help="Run on this drive, such as /dev/nvme0n1.")] = None,
    serial: Annotated[
        str | None,
        typer.Option("--serial", metavar="NUMBER", help="The drive's serial number; without it nothing is written."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before the drive is written. (A command is not asked about.)")
    ] = False,
    rig: Annotated[
        str | None,
        typer.Option("--rig", metavar="RIG", help="Serial number of the rig, or its ports: DATA,CONTROL."),
    ] = None,
    meter: Annotated[
        str | None,
        typer.Option("--meter", metavar="METER", help="Record the rail with this meter in place of a rig (`wattbell meters`)."),
    ] = None,
    commands: Annotated[
        CommandObserver,
        typer.Option(
            metavar="WHOSE",
            help="Who sees the commands: the rig's tap, or a log of the host: trace (of its NVMe driver), blktrace, fio (that we start).",
            show_choices=False,
        ),
    ] = CommandObserver.auto,
    link_speed: Annotated[
        float | None,
        typer.Option("--link-speed", metavar="GT/S", help="Run the drive's link at this speed meanwhile."),
    ] = None,
    governor: Annotated[str | None, typer.Option("--governor", metavar="NAME", help="Frequency governor of the host meanwhile.")] = None,
    apst: Annotated[
        bool | None,
        typer.Option(
            "--apst/--no-apst", help="APST of a job file, a trace or a command: on or off. Without it: off, and under a command as it was."
        ),
    ] = None,
    aspm: Annotated[
        Aspm | None,
        typer.Option("--aspm", metavar="STATE", help="ASPM of these: off, l1 or l1.2. Without it likewise.", show_choices=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the whole plan and do nothing.")] = False,
    fidelity: Annotated[
        Fidelity | None,
        typer.Option(help=FIDELITY_HELP, show_default="fast for a suite, rtl for anything else"),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(callback=numbers.seed, help="Seed of the drive model and its rig; on a real drive, of a suite's generated traces."),
    ] = 1,
    interval: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=TIME, callback=numbers.interval, help="Seconds between ADC conversions of a rig, or 1us."),
    ] = None,
    decimation: Annotated[int | None, typer.Option(min=1, max=4096, help="ADC conversions a rail sample of a rig.")] = None,
    keep_trace: Annotated[bool, typer.Option("--keep-trace", help="Keep the bus trace in the capture (workload/trace.wbt).")] = False,
    as_direct: Annotated[
        bool,
        typer.Option("--as-direct", help="Run jobs that go through the page cache as with direct=1: a drive model has no page cache."),
    ] = False,
    scale: Annotated[
        float,
        typer.Option(callback=numbers.share, help="Shorten times and spans by this; the results say so."),
    ] = 1.0,
    condition: Annotated[
        ConditionChoice,
        typer.Option(
            metavar="WHAT",
            help="What the drive holds before each test: test-data, full, empty or both.",
            show_choices=False,
        ),
    ] = ConditionChoice.both,
    tests: Annotated[str, typer.Option(help="Only these tests, separated by commas.", autocompletion=complete.tests)] = "",
    written: Annotated[
        bool,
        typer.Option("--written", help="On a model: purge and fill by writing instead of setting its state."),
    ] = False,
    rounds: Annotated[
        int | None,
        typer.Option(callback=numbers.between(1, 10_000), help="Number of rounds in tests to a steady state."),
    ] = None,
    repeat: Annotated[
        int,
        typer.Option(
            callback=numbers.between(1, 1000),
            metavar="N",
            help="Run the suite so many times, into 1, 2, ... of --out, for `wattbell compare`. A model gets --seed, --seed + 1, ...",
        ),
    ] = 1,
    discard: Annotated[bool, typer.Option("--discard-captures", help="Remove each capture when its scores are computed.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run in --out.")] = False,
    page: Annotated[bool, typer.Option(help="Write the page of the run (suite.html in --out) at its end.")] = True,
    plots: Annotated[bool, typer.Option(help="Write each chart of the page as PNG and SVG too.")] = False,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            help="Store that keeps the results.",
            show_default="wattbell/results.sqlite in your data directory",
        ),
    ] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep the results in --out only.")] = False,
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

      wattbell run quick --virtual intel-660p-1tb

      wattbell run demo.toml --virtual intel-660p-1tb --out capture

      wattbell run anandtech-2018 --virtual intel-660p-1tb \\
        --out results --resume

    [bold]On a real drive[/] fio and nvme-cli do the work. A write needs the
    drive's serial number, refuses a drive that is mounted, says how much it
    writes, and asks. A command may do anything and is not asked about;
    it finds the drive's path in $WATTBELL_DRIVE, and its exit code is ours.

      wattbell run quick --drive /dev/nvme0n1 --serial S4EWNX0M1234 --out r

      wattbell run reads.fio --drive /dev/nvme0n1 --out capture

      wattbell run --drive /dev/nvme0n1 --out capture -- cp film.mkv /mnt

      wattbell run anandtech-2018 --drive /dev/nvme0n1 --out r --dry-run
    """
    command, kinds = context.meta.get(_COMMAND), context.meta[_KINDS]
    names = tuple(dict.fromkeys(t.strip() for t in tests.split(",") if t.strip()))
    if applies.is_given(context, "tests") and not names:
        raise UsageError("--tests names no test; `wattbell suites SUITE` lists them.")
    file = None if what is None else find_plan(what)
    single = kinds.work is not applies.WorkKind.suite
    if out is None:
        out = _named_after(what or (command or [""])[0], drive or virtual or "")
    if fidelity is None:
        fidelity = Fidelity.rtl if single else Fidelity.fast

    from ..campaign.equipment import How
    from ..campaign.real import JOURNAL, RealBench, Setup
    from ..campaign.runner import SuiteOrder, plan_suite
    from ..campaign.single import outlook_of
    from ..campaign.virtual import VirtualBench
    from ..campaign.work import with_power
    from ..drive.bench import WantedSettings
    from ..suites.drive import from_profile
    from ..suites.outlook import look_ahead
    from ..suites.session import Choice
    from ..virtual.model import ModelRun, run_model
    from ..virtual.play import check_whole, refuse_existing, scratch
    from ..virtual.profiles import find_profile
    from ..virtual.tracefile import replay_plan
    from .captures import show_analysis

    only = None if condition is ConditionChoice.both else condition.value
    order = SuiteOrder(what or "", out, only, names, discard, force, resume)
    audience = _Audience(json, yes, out, repeat)
    dry = _Dry(context, order, single, json, repeat)
    if not single:
        _has_what_options_need(context, order, rounds)
    if drive is not None:
        choice = Choice(scale, True, rounds, seed, real=True)
        journal = out / JOURNAL if not single else out.absolute().with_name(f"{out.absolute().name[:200]}.{JOURNAL}")
        restore = single or resume
        how = How(meter, commands, WantedSettings(link_speed, governor), _asked if sys.stdin.isatty() else None)
        out_fd = sys.stderr.fileno() if json else None
        setup = Setup(drive, serial, rig, journal, restore, interval, decimation, dry_run, out_fd, how, keep_stream)
        bench = RealBench(setup, choice, output)
        if not single and not dry_run and repeat > 1:

            def again(_: int, folder: Path) -> RealBench:
                return RealBench(replace(setup, journal=folder / JOURNAL, restore=resume), choice, output)

            _run_repeated(order, repeat, again, _ending(store, no_store, page, plots), audience)
        elif single:
            with ExitStack() as stack:
                work = _work(file, command, bench.device.path, stack)
                applies.settle_traits(context, kinds, {applies.Trait.writes: work.writes})
                work = with_power(work, apst, None if aspm is None else aspm.value)
                if dry_run:
                    bench.take(work)
                    dry.show(f"{work.session.name} on {bench.device.path}", outlook_of(work, bench), bench)
                else:
                    _run_on_drive(work, bench, out, force, audience)
        elif dry_run:
            dry.show(f"{what} on {bench.device.path}", plan_suite(order, bench).outlook, bench)
        else:
            _run_suite(order, bench, _ending(store, no_store, page, plots), audience)
        return
    assert virtual is not None and what is not None and file is not None
    profile = find_profile(virtual)
    if single and dry_run:
        with ExitStack() as stack:
            work = _work(file, None, None, stack)
            dry.show(f"{what} on {profile.stem}", look_ahead([work.session], from_profile(profile).capacity_bytes, Choice()), None)
        return
    if single:
        refuse_existing(out, force)
        with ExitStack() as stack:
            run = ModelRun(
                replay_plan(file, scratch(stack), output) if kinds.work is applies.WorkKind.trace else file,
                profile,
                out,
                fidelity=fidelity,
                seed=seed,
                interval_s=interval,
                decimation=decimation,
                keep_trace=keep_trace,
                keep_stream=keep_stream,
                as_direct=as_direct,
                overwrite=force,
            )
            reason = run_model(run, output)
        output.say(f"{out}: {reason}.")
        show_analysis(out, json)
        check_whole(out, reason)
        return
    choice = Choice(scale, written, rounds, seed)
    if applies.is_given(context, "written"):
        applies.settle_traits(context, kinds, {applies.Trait.set_at_once: _set_at_once(order, from_profile(profile), choice)})

    def modelled(number: int, _: Path) -> VirtualBench:
        seeded = replace(choice, seed=choice.seed + number)
        return VirtualBench(profile, seeded, output, fidelity, interval, decimation, keep_trace, keep_stream, as_direct)

    model = modelled(0, out)
    if dry_run:
        dry.show(f"{what} on {profile.stem}", plan_suite(order, model).outlook, None)
        return
    if repeat > 1:
        _run_repeated(order, repeat, modelled, _ending(store, no_store, page, plots), audience)
    else:
        _run_suite(order, model, _ending(store, no_store, page, plots), audience)


def _named_after(what: str, drive: str) -> Path:
    """Return the folder for the results if none is given, such as ``quick-intel-660p-1tb`` and ``reads-nvme0n1``."""
    return Path(f"{Path(what).stem}-{Path(drive).name.removesuffix('.toml')}")


def _has_what_options_need(context: typer.Context, order: SuiteOrder, rounds: int | None) -> None:
    """Raise UsageError for an option without effect on the tests to run, and for more rounds than any test may have."""
    from ..suites.manifest import load_suite
    from ..suites.plan import choose_tests

    tests = [test for test, _ in choose_tests(load_suite(order.suite), order.tests, order.condition)]
    most = max(test.rounds_max for test in tests)
    found = {applies.Trait.rounds: most > 0, applies.Trait.generated: any(test.trace for test in tests)}
    applies.settle_traits(context, context.meta[_KINDS], found)
    if rounds is not None and most and rounds > most and applies.is_given(context, "rounds"):
        raise UsageError(f"--rounds {rounds}: the tests to run have {most} rounds at most. Give a number up to {most}.")


def _set_at_once(order: SuiteOrder, drive: Drive, choice: Choice) -> bool:
    """Whether a model is set to the condition of any test to run that would be written otherwise."""
    from ..suites.manifest import load_suite
    from ..suites.plan import choose_tests, plan_sessions

    suite = load_suite(order.suite)
    pairs = choose_tests(suite, order.tests, order.condition)
    written, set_ = (plan_sessions(suite, pairs, drive, replace(choice, written=how)) for how in (True, False))
    return [session.plan for session in written] != [session.plan for session in set_]


@dataclass(frozen=True)
class _Dry:
    """Prints a run's plan instead of running.

    single: leaves a capture in ``order.out``, not a suite's results
    times: number of repetitions
    """

    context: typer.Context
    order: SuiteOrder
    single: bool
    json: bool
    times: int = 1

    def show(self, title: str, outlook: Outlook, bench: RealBench | None) -> None:
        """Show the plan, the options, and the reasons to refuse the run. ``bench``: a real drive's, None for a model's."""
        from ..campaign.folder import in_the_way
        from ..campaign.repeats import in_the_way_of_repeats
        from ..virtual.play import refuse_existing
        from .ahead import show_plan

        order, refusals = self.order, [] if bench is None else bench.refusals
        try:
            if self.single:
                refuse_existing(order.out, order.force)
            elif self.times > 1:
                in_the_way_of_repeats(order, self.times)
            else:
                in_the_way(order.out, order.resume, order.force)
        except WattbellError as error:
            refusals.append(str(error))
        title = f"{title}, {self.times} times" if self.times > 1 else title
        show_plan(title, outlook, bench, self.json, applies.told(self.context), refusals)


def _work(file: Path | None, command: Sequence[str] | None, drive: str | None, stack: ExitStack) -> Work:
    """``drive``: path of a real drive, which a job file has to name; None for a model."""
    from ..campaign.work import command_work, read_work
    from ..virtual.play import scratch

    return command_work(command or ()) if file is None else read_work(file, drive, scratch(stack), output)


def _run_on_drive(work: Work, bench: RealBench, out: Path, force: bool, audience: _Audience) -> None:
    """Work that is no suite: recorded, analysed, and ended with a command's own exit code."""
    from ..campaign.single import check_command, check_log, run_work
    from ..virtual.play import refuse_existing
    from .captures import show_analysis

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
    """Return values that distinguish captures of one name; None without a capture."""
    from ..capture.meta import NAME as META

    try:
        about = (out / META).stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _asked(question: str) -> bool:
    """Ask the person at the terminal."""
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

    def __init__(self, json: bool, yes: bool, out: Path, times: int = 1) -> None:
        self.json, self._yes, self._out, self._times = json, yes, out, times

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
            agree(outlook, bench.device, self._yes, self._times)
            self._yes, self._times = True, 1  # asked once for all of the runs

    def begun(self, results: Mapping[str, Any]) -> None:
        from ..present.suite.terminal import header

        if not self.json:
            output.out.print(header(results))

    def scored(self, test: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        from ..present.suite.terminal import show_test

        if not self.json:
            show_test(test, results, output.out)


def _run_repeated(order: SuiteOrder, times: int, bench: Callable[[int, Path], Bench], ending: Ending, audience: _Audience) -> None:
    """Run the suite ``times`` times; print the spread between the runs at the end."""
    from ..campaign.repeats import run_repeated
    from ..present.suite.sidebyside import spread
    from ..present.terminal import drawn
    from ..results.model import parse

    each = run_repeated(order, times, bench, ending, audience)
    if audience.json:
        output.print_json([kept.results for kept in each])
    else:
        output.out.print(drawn(spread([parse(kept.results, str(kept.file)) for kept in each])))
        output.out.print(f"{order.out}: {times} runs, which `wattbell compare` takes together", soft_wrap=True)
    for kept in each:
        kept.check()


def _run_suite(order: SuiteOrder, bench: Bench, ending: Ending, audience: _Audience) -> None:
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
