"""``wattbell run``: a suite, a file of work or a command on a virtual or a real drive, recorded and analysed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Interrupted, UsageError, WattbellError
from ..virtual.fidelity import Fidelity
from ..virtual.simulator import find_plan
from . import applies, complete, output
from .grouped import grouped
from .runoptions import BenchOptions, ConditionChoice, ConformanceOptions, ModelOptions, ResultOptions, SuiteOptions

if TYPE_CHECKING:
    from ..campaign.bench import Bench
    from ..campaign.ending import Ending, Kept
    from ..campaign.eta import Eta
    from ..campaign.real import RealBench, Setup
    from ..campaign.runner import SuiteOrder
    from ..campaign.work import Work
    from ..requirements.work import RequiredWork
    from ..suites.drive import Drive
    from ..suites.outlook import Outlook
    from ..suites.session import Choice
    from .judge import HowToJudge


VERDICTS_PAGE = "verdicts.html"
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
        return applies.WorkKind.conformance if _is_conformance(what) else applies.WorkKind.suite
    from ..virtual.tracefile import is_trace

    if is_trace(file):
        return applies.WorkKind.trace
    return applies.WorkKind.plan if file.suffix == ".toml" else applies.WorkKind.job


def _is_conformance(what: str) -> bool:
    """Whether the work is the package's suite conformance, not a folder of that name."""
    from ..suites.listing import CONFORMANCE, DATA, suite_folder

    return suite_folder(what) == DATA / CONFORMANCE


@grouped
def run(
    context: typer.Context,
    bench: BenchOptions,
    model: ModelOptions,
    suite: SuiteOptions,
    conformance: ConformanceOptions,
    result: ResultOptions,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="SUITE|FILE|-- COMMAND",
            help="Suite (`wattbell suites`), plan (.toml), fio job file, fio iolog, text of blkparse; or, on a real drive, any command.",
            show_default=False,
            autocompletion=complete.work,
        ),
    ] = None,
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

    [bold]The suite conformance[/] does the work for requirements, shared work
    once. It ends with the verdicts and exit code of `wattbell judge`.

      wattbell run conformance --virtual intel-660p-1tb --dry-run

      wattbell run conformance --drive /dev/nvme0n1 --serial S4EWNX0M1234 \\
        --requirements ocp,lab.toml --junit verdicts.xml

    [bold]On a real drive[/] fio and nvme-cli do the work. A write needs the
    drive's serial number, refuses a drive that is mounted, says how much it
    writes, and asks. A command may do anything and is not asked about;
    it finds the drive's path in $WATTBELL_DRIVE, and its exit code is ours.

      wattbell run quick --drive /dev/nvme0n1 --serial S4EWNX0M1234 --out r

      wattbell run reads.fio --drive /dev/nvme0n1 --out capture

      wattbell run --drive /dev/nvme0n1 --out capture -- cp film.mkv /mnt

      wattbell run anandtech-2018 --drive /dev/nvme0n1 --out r --dry-run
    """
    request = _Request(context, what, bench, model, suite, conformance, result)
    if applies.is_given(context, "tests") and not request.tests:
        raise UsageError("--tests names no test; `wattbell suites SUITE` lists them.")
    if not request.single:
        _has_what_options_need(request)
    if bench.drive is not None:
        _on_real_drive(request, bench.drive)
    elif request.single:
        _work_on_model(request)
    else:
        _suite_on_model(request)


@dataclass(frozen=True)
class _Request:
    """A call of the command: its options, and what follows from them."""

    context: typer.Context
    what: str | None
    bench: BenchOptions
    model: ModelOptions
    suite: SuiteOptions
    conformance: ConformanceOptions
    result: ResultOptions

    @property
    def command(self) -> list[str] | None:
        """Return the words of the user's own command."""
        found: list[str] | None = self.context.meta.get(_COMMAND)
        return found

    @property
    def kinds(self) -> applies.Kinds:
        """Return the kinds of work and bench."""
        found: applies.Kinds = self.context.meta[_KINDS]
        return found

    @property
    def single(self) -> bool:
        """Return whether the run leaves a capture in ``out``, not a suite's results."""
        return self.kinds.work not in applies.SUITES

    @property
    def file(self) -> Path | None:
        """Return the file of work; for a suite, a path that is not there."""
        return None if self.what is None else find_plan(self.what)

    @property
    def out(self) -> Path:
        """Return the folder to write."""
        return self.result.out or _named_after(self.what or (self.command or [""])[0], self.bench.drive or self.bench.virtual or "")

    @property
    def tests(self) -> tuple[str, ...]:
        """Return the names of the tests to run; empty: all."""
        return tuple(dict.fromkeys(t.strip() for t in self.suite.tests.split(",") if t.strip()))

    @property
    def order(self) -> SuiteOrder:
        """Return what the runner of suites needs to know."""
        from ..campaign.runner import SuiteOrder

        only = None if self.suite.condition is ConditionChoice.both else self.suite.condition.value
        suite = self.what or "" if self.required is None else self.required.suite
        return SuiteOrder(suite, self.out, only, self.tests, self.suite.discard, self.result.force, self.suite.resume)

    @cached_property
    def how(self) -> HowToJudge | None:
        """Return how the suite conformance is judged; None for other work."""
        from .judge import HowToJudge

        if self.kinds.work is not applies.WorkKind.conformance:
            return None
        asked = self.conformance
        return HowToJudge.of(asked.requirements, asked.parameters, asked.guard, asked.junit, asked.codes)

    @cached_property
    def required(self) -> RequiredWork | None:
        """Return the work of the suite conformance; None for other work."""
        from ..requirements.work import RESTARTS, required_work

        if self.how is None:
            return None
        why = self._why_no_restart()
        return required_work(self.how.files, {RESTARTS: why} if why else {})

    def _why_no_restart(self) -> str:
        """Return why the bench cannot switch the drive's supply; empty if it can, or if a dry run does not ask the rig."""
        from ..drive.restart import refuse_without_switch
        from ..rig import Rig

        if self.bench.drive is None or (self.result.dry_run and self.bench.meter is None):
            return ""
        try:
            if self.bench.meter is not None:
                refuse_without_switch(None)
            with Rig.open(self.bench.rig) as rig:
                refuse_without_switch(rig)
        except UsageError as error:
            return str(error).partition(". ")[0].partition("; ")[0].rstrip(".")
        return ""

    @property
    def ending(self) -> Ending:
        """Return what is done with the results of a suite."""
        from ..campaign.ending import Ending
        from ..results import default_path

        store = None if self.result.no_store else self.result.store or default_path()
        return Ending(store, self.result.page, self.result.plots)

    @cached_property
    def audience(self) -> _Audience:
        """Return the terminal, which remembers that it has asked."""
        return _Audience(self.result.json, self.bench.yes, self.out, self.suite.repeat, self.required)

    def show_plan(self, title: str, outlook: Outlook, bench: RealBench | None) -> None:
        """Print the plan, the options, and the reasons to refuse the run. ``bench``: a real drive's, None for a model's."""
        from ..campaign.folder import in_the_way
        from ..campaign.repeats import in_the_way_of_repeats
        from ..virtual.play import refuse_existing
        from .ahead import show_plan

        order, times, refusals = self.order, self.suite.repeat, [] if bench is None else bench.refusals
        try:
            if self.single:
                refuse_existing(order.out, order.force)
            elif times > 1:
                in_the_way_of_repeats(order, times)
            else:
                in_the_way(order.out, order.resume, order.force)
        except WattbellError as error:
            refusals.append(str(error))
        title = f"{title}, {times} times" if times > 1 else title
        show_plan(title, outlook, bench, self.result.json, applies.told(self.context), refusals, self.required)


def _on_real_drive(request: _Request, drive: str) -> None:
    from ..campaign.real import JOURNAL, RealBench
    from ..campaign.runner import plan_suite
    from ..suites.session import Choice

    suite, order = request.suite, request.order
    choice = Choice(suite.scale, True, suite.rounds, request.model.seed, real=True)
    setup = _setup(request, drive)
    bench = RealBench(setup, choice, output)
    if request.single:
        _work_on_real_drive(request, bench)
    elif request.result.dry_run:
        request.show_plan(f"{request.what} on {bench.device.path}", plan_suite(order, bench).outlook, bench)
    elif suite.repeat > 1:

        def again(_: int, folder: Path) -> RealBench:
            return RealBench(replace(setup, journal=folder / JOURNAL, restore=suite.resume), choice, output)

        _run_repeated(order, suite.repeat, again, request.ending, request.audience)
    else:
        _run_suite(order, bench, request)


def _setup(request: _Request, drive: str) -> Setup:
    from ..campaign.equipment import How
    from ..campaign.real import JOURNAL, Setup
    from ..drive.bench import WantedSettings

    asked, result, single, out = request.bench, request.result, request.single, request.out
    return Setup(
        drive,
        asked.serial,
        asked.rig,
        out / JOURNAL if not single else out.absolute().with_name(f"{out.absolute().name[:200]}.{JOURNAL}"),
        single or request.suite.resume,
        asked.interval,
        asked.decimation,
        result.dry_run,
        sys.stderr.fileno() if result.json else None,
        How(asked.meter, asked.commands, WantedSettings(asked.link_speed, asked.governor), _asked if sys.stdin.isatty() else None),
        result.keep_stream,
    )


def _work_on_real_drive(request: _Request, bench: RealBench) -> None:
    from ..campaign.single import outlook_of
    from ..campaign.work import with_power

    asked = request.bench
    with ExitStack() as stack:
        work = _work(request.file, request.command, bench.device.path, stack)
        applies.settle_traits(request.context, request.kinds, {applies.Trait.writes: work.writes})
        work = with_power(work, asked.apst, None if asked.aspm is None else asked.aspm.value)
        if request.result.dry_run:
            bench.take(work)
            request.show_plan(f"{work.session.name} on {bench.device.path}", outlook_of(work, bench), bench)
        else:
            _run_on_drive(work, bench, request.out, request.result.force, request.audience)


def _work_on_model(request: _Request) -> None:
    from ..suites.drive import from_profile
    from ..suites.outlook import look_ahead
    from ..suites.session import Choice
    from ..virtual.model import ModelRun, run_model
    from ..virtual.play import check_whole, refuse_existing, scratch
    from ..virtual.profiles import find_profile
    from ..virtual.tracefile import replay_plan
    from .captures import show_analysis

    asked, model, result, file, out = request.bench, request.model, request.result, request.file, request.out
    assert asked.virtual is not None and file is not None
    profile = find_profile(asked.virtual)
    with ExitStack() as stack:
        if result.dry_run:
            work = _work(file, None, None, stack)
            outlook = look_ahead([work.session], from_profile(profile).capacity_bytes, Choice())
            request.show_plan(f"{request.what} on {profile.stem}", outlook, None)
            return
        refuse_existing(out, result.force)
        run = ModelRun(
            replay_plan(file, scratch(stack), output) if request.kinds.work is applies.WorkKind.trace else file,
            profile,
            out,
            fidelity=model.fidelity or Fidelity.rtl,
            seed=model.seed,
            interval_s=asked.interval,
            decimation=asked.decimation,
            keep_trace=model.keep_trace,
            keep_stream=result.keep_stream,
            as_direct=model.as_direct,
            overwrite=result.force,
        )
        reason = run_model(run, output)
    output.say(f"{out}: {reason}.")
    show_analysis(out, result.json)
    check_whole(out, reason)


def _suite_on_model(request: _Request) -> None:
    from ..campaign.runner import plan_suite
    from ..campaign.virtual import VirtualBench
    from ..suites.drive import from_profile
    from ..suites.session import Choice
    from ..virtual.profiles import find_profile

    asked, model, suite, order = request.bench, request.model, request.suite, request.order
    assert asked.virtual is not None
    profile = find_profile(asked.virtual)
    choice = Choice(suite.scale, suite.written, suite.rounds, model.seed)
    if applies.is_given(request.context, "written"):
        found = {applies.Trait.set_at_once: _set_at_once(order, from_profile(profile), choice)}
        applies.settle_traits(request.context, request.kinds, found)

    def modelled(number: int, _: Path) -> VirtualBench:
        return VirtualBench(
            profile,
            replace(choice, seed=choice.seed + number),
            output,
            model.fidelity or Fidelity.fast,
            asked.interval,
            asked.decimation,
            model.keep_trace,
            request.result.keep_stream,
            model.as_direct,
        )

    bench = modelled(0, request.out)
    if request.result.dry_run:
        request.show_plan(f"{request.what} on {profile.stem}", plan_suite(order, bench).outlook, None)
    elif suite.repeat > 1:
        _run_repeated(order, suite.repeat, modelled, request.ending, request.audience)
    else:
        _run_suite(order, bench, request)


def _named_after(what: str, drive: str) -> Path:
    """Return the folder for the results if none is given, such as ``quick-intel-660p-1tb`` and ``reads-nvme0n1``."""
    return Path(f"{Path(what).stem}-{Path(drive).name.removesuffix('.toml')}")


def _has_what_options_need(request: _Request) -> None:
    """Raise UsageError for an option without effect on the tests to run, and for more rounds than any test may have."""
    from ..suites.plan import choose_tests

    order, rounds = request.order, request.suite.rounds
    tests = [test for test, _ in choose_tests(order.load(), order.tests, order.condition)]
    most = max(test.rounds_max for test in tests)
    found = {applies.Trait.rounds: most > 0, applies.Trait.generated: any(test.trace for test in tests)}
    applies.settle_traits(request.context, request.kinds, found)
    if rounds is not None and most and rounds > most and applies.is_given(request.context, "rounds"):
        raise UsageError(f"--rounds {rounds}: the tests to run have {most} rounds at most. Give a number up to {most}.")


def _set_at_once(order: SuiteOrder, drive: Drive, choice: Choice) -> bool:
    """Whether a model is set to the condition of any test to run that would be written otherwise."""
    from ..suites.plan import choose_tests, plan_sessions

    suite = order.load()
    pairs = choose_tests(suite, order.tests, order.condition)
    written, set_ = (plan_sessions(suite, pairs, drive, replace(choice, written=how)) for how in (True, False))
    return [session.plan for session in written] != [session.plan for session in set_]


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


class _Audience:
    """The terminal; with ``--json`` nothing is said of a test before the end."""

    def __init__(self, json: bool, yes: bool, out: Path, times: int = 1, required: RequiredWork | None = None) -> None:
        self.json, self._yes, self._out, self._times = json, yes, out, times
        self._required = required

    say = staticmethod(output.say)
    spinner = staticmethod(output.spinner)
    recording = staticmethod(output.recording)

    def progress(self, eta: Eta) -> AbstractContextManager[None]:
        from .ahead import progress

        return progress(eta, self._out)

    def ahead(self, outlook: Outlook, bench: Bench) -> None:
        from ..campaign.real import RealBench
        from .ahead import agree, show_needs, takes

        if self._required is not None and not self.json:
            show_needs(self._required, outlook)
            output.say(takes(outlook, on_model=not bench.choice.real))
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


def _run_suite(order: SuiteOrder, bench: Bench, request: _Request) -> None:
    from rich.text import Text

    from ..campaign.runner import run_suite
    from ..present.suite.terminal import summary

    kept = run_suite(order, bench, request.ending, request.audience)
    if not request.result.json:
        output.out.print(summary(kept.results))
        rows = [("results", str(kept.file))]
        if kept.page is not None:
            rows.append(("page", str(kept.page)))
        if kept.known_as is not None:
            rows.append(("store", f"{kept.store}, as {kept.known_as}"))
        for name, place in rows:
            output.out.print(Text.assemble((f"{name:8}", "grey58"), " ", place), soft_wrap=True)
    elif request.how is None:
        output.print_json(kept.results)
    code = 0 if request.how is None else _judged(kept, request.how, request)
    kept.check()
    if code:
        raise typer.Exit(code)


def _judged(kept: Kept, how: HowToJudge, request: _Request) -> int:
    """Judge a run of the suite conformance as `wattbell judge` does; return the exit code."""
    from ..requirements.subjects import load_subjects
    from .judge import conclude
    from .results import open_store

    page = request.out / VERDICTS_PAGE if request.result.page else None
    subjects = load_subjects([str(request.out)], lambda: open_store(None), lambda: output.bar("rebuilding from the journal"))
    return conclude(subjects, how, page, request.result.json)
