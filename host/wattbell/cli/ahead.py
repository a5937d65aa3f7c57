"""Announce a run, ask for agreement, and show its progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task
from rich.progress_bar import ProgressBar
from rich.text import Text

from ..campaign.eta import Eta, about
from ..campaign.real import RealBench
from ..drive.device import Device
from ..errors import UsageError
from ..requirements.work import RequiredWork
from ..suites.outlook import Expected, Outlook
from ..suites.step import Step
from ..text import printable
from . import output
from .livefigures import following

_BAR_WIDTH = 30


def agree(outlook: Outlook, device: Device, yes: bool, times: int = 1) -> None:
    """Say how much will be written and how long the run takes, and ask. ``times``: number of repetitions.

    Raises UsageError when the user declines, or when there is no terminal to ask.
    """
    again = f" All of it is done {times} times." if times > 1 else ""
    text = f"{lost(outlook, device)} It takes {about(outlook.seconds())}{_up_to(outlook)}.{again}"
    if yes:
        output.say(text)
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{text} Nobody is there to be asked: add --yes if that is meant.")
    output.say(text)
    output.hear_ctrl_c()
    if not typer.confirm("Go on?", err=True):
        raise UsageError("Nothing was written.")


def lost(outlook: Outlook, device: Device) -> str:
    """Return in words how much is written to a drive, and what happens to the data on the drive."""
    what = f"{device.path} ({printable(device.model)}, serial number {printable(device.serial)})"
    erased = outlook.erasures
    times = f", and {'erases it' if erased == 1 else f'erases it {erased} times'}" if erased else ""
    rest = "Everything on it is lost." if erased else "What is written over is lost."
    return f"This writes {amount(outlook)} to {what}{times}. {rest}"


def amount(outlook: Outlook) -> str:
    """Return in words how much is written, also as a multiple of the drive's capacity."""
    least, most = outlook.written_bytes(), outlook.written_bytes(most=True)
    size = output.si(least, "B") if least == most else f"{output.si(least, 'B')} to {output.si(most, 'B')}"
    share = least / outlook.capacity_bytes
    times = f"{share:.1f}" if share >= 0.095 else f"{share:.2g}"
    if least != most:
        times += f" to {most / outlook.capacity_bytes:.1f}"
    return f"{'' if outlook.exact else 'about '}{size} ({times} times its capacity)"


def takes(outlook: Outlook, *, on_model: bool) -> str:
    """Return in words how long the work takes."""
    whose = " of the drive model's time" if on_model else ""
    return f"It takes {about(outlook.seconds())}{_up_to(outlook)}{whose}."


def _up_to(outlook: Outlook) -> str:
    most = outlook.seconds(most=True)
    return f", up to {about(most).removeprefix('about ')} if no steady state comes" if most > outlook.seconds() else ""


@contextmanager
def progress(eta: Eta, folder: Path) -> Iterator[None]:
    """Show a bar with the remaining time, and the figures of the recording in `folder` (nothing when stderr is no terminal)."""
    if not output.err.is_terminal:
        yield
        return

    class Words(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            return Text(printable(eta.words))

    class Bar(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> ProgressBar:
            return ProgressBar(total=1.0, completed=eta.share, width=_BAR_WIDTH)

    class Left(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            left_s = eta.left_s
            return Text("" if left_s is None else f"{about(left_s)} left")

    shown = Progress(SpinnerColumn(), Words(), Bar(), Left(), console=output.err)
    shown.add_task("")
    with following(shown, folder):
        yield


def show_needs(required: RequiredWork, outlook: Outlook) -> None:
    """Print the requirements with the tests that each needs, and about how long each test takes."""
    from ..present.terminal import drawn
    from ..present.verdicts import work_table

    seconds: dict[str, float] = {}
    for part in outlook.parts:
        for test in part.session.members:
            seconds[test.id] = sum(expected.seconds for _, expected in part.runs)
    output.out.print(drawn(work_table(required, seconds)))


def show_plan(
    title: str,
    outlook: Outlook,
    bench: RealBench | None,
    json: bool,
    options: Mapping[str, Any],
    refusals: Sequence[str],
    required: RequiredWork | None = None,
) -> None:
    """Print the whole plan on stdout.

    bench: of a real drive, else None
    options: of the run, by their names
    refusals: reasons to refuse the run, the bench's included
    required: requirements that the work is for, if it is for any
    """
    changes = {} if bench is None else bench.rehearse([step for part in outlook.parts for step, _ in part.runs])
    given = {name: value if isinstance(value, bool | int | float | list) else str(value) for name, value in options.items()}
    given.pop("--dry-run", None)
    if json:
        from ..present.verdicts import needs_json

        needs = {} if required is None else {"requirements": needs_json(required)}
        output.print_json({**_json(title, outlook, changes, given, refusals), **needs})
        return
    output.out.print(Text(title, "bold"), soft_wrap=True)
    for number, part in enumerate(outlook.parts, start=1):
        goes_on = f"; on the drive as {part.session.goes_on_after} leaves it" if part.goes_on else ""
        done = "; done before" if part.done else ""
        table = output.table("step", "what", ">writes", ">takes", "APST", "ASPM", ">PS")
        heading = f"session {number} of {len(outlook.parts)}: {part.session.name} ({part.session.condition}){goes_on}{done}"
        output.out.print()
        output.out.print(Text(heading), soft_wrap=True)
        for step, expected in part.runs:
            table.add_row(step.name, _what(step), *_reckoned(step, expected), *_power(step))
        if part.runs:
            output.out.print(table)
        for step, _ in part.runs:
            if step.command is not None:  # whole, however long: no column of a table holds every command
                output.out.print(Text(f"{step.name}: {' '.join(step.command)}"), soft_wrap=True)
    output.out.print()
    if required is not None:
        show_needs(required, outlook)
    for where, (now, values) in changes.items():
        output.out.print(f"changed, and put back: {where}: {now} -> {', '.join(values)}", soft_wrap=True)
    if bench is None:
        output.out.print(takes(outlook, on_model=True), soft_wrap=True)
    else:
        text = lost(outlook, bench.device) if outlook.writes else "Nothing of ours is written to the drive."
        output.out.print(f"{text} It takes {about(outlook.seconds())}{_up_to(outlook)}.", soft_wrap=True)
    each = [(name, one) for name, value in given.items() for one in (value if isinstance(value, list) else [value])]
    words = [shlex.join([name] if value is True else [name, str(value)]) for name, value in each]
    output.out.print(f"The run would have: {' '.join(words)}", soft_wrap=True)
    for refusal in refusals:
        output.out.print(Text.assemble(("It would be refused now:", "bold"), f" {refusal}"), soft_wrap=True)


def _what(step: Step) -> str:
    if step.command is not None:
        return "the command below"
    if step.fio is not None:
        duty = f", busy {step.duty * 100:g} % of the time" if step.duty else ""
        return f"fio {step.fio}{duty}"
    if step.fill is not None:
        return f"sequential writes of {step.fill.bs} over {step.fill.span * 100:.3g} % of the drive"
    if step.trace is not None:
        return f"replay of {step.trace}"
    if step.format is not None:
        return f"Format NVM (SES {step.format.ses})"
    if step.sanitize is not None:
        return f"Sanitize ({step.sanitize})"
    if step.wake is not None:
        return f"idle for {step.wake.idle_s:g} s, then a read of 4 KiB"
    if step.restart is not None:
        return (
            "PERST#, then a read of 4 KiB" if step.restart.off_s is None else f"off for {step.restart.off_s:g} s, on, then a read of 4 KiB"
        )
    if step.settle is not None:
        return f"left alone until the rail is at rest, {step.settle.longest_s:g} s at most"
    return f"idle for {(step.idle_s or 0.0) + (step.rest_s or 0.0):g} s"


def _reckoned(step: Step, expected: Expected) -> tuple[str, str]:
    exact = "" if expected.exact else "about "
    written = f"{exact}{output.si(expected.written_bytes, 'B')}" if expected.written_bytes else "not known" if not expected.exact else ""
    if step.idle_s is not None or step.wake is not None:
        return written, f"{expected.known_s:g} s"
    if step.command is not None or not expected.seconds:
        return written, "not known"
    return written, about(expected.seconds) + (" (if needed)" if expected.optional else "")


def _power(step: Step) -> tuple[str, str, str]:
    apst = "as it is" if step.apst is None else "on" if step.apst else "off"
    return apst, step.aspm or "as it is", "" if step.ps is None else str(step.ps)


def _json(title: str, outlook: Outlook, changes: Any, options: Mapping[str, Any], refusals: Sequence[str]) -> Any:
    return {
        "work": title,
        "written_bytes": outlook.written_bytes(),
        "written_bytes_most": outlook.written_bytes(most=True),
        "written_exact": outlook.exact,
        "capacity_bytes": outlook.capacity_bytes,
        "erasures": outlook.erasures,
        "seconds": outlook.seconds(),
        "seconds_most": outlook.seconds(most=True),
        "sessions": [
            {
                "name": part.session.name,
                "condition": part.session.condition,
                "goes_on_after": part.session.goes_on_after if part.goes_on else None,
                "done": part.done,
                "steps": [
                    {**step.table, "written_bytes": e.written_bytes, "written_exact": e.exact, "seconds": e.seconds, "optional": e.optional}
                    for step, e in part.runs
                ],
            }
            for part in outlook.parts
        ],
        "settings": [{"where": where, "now": now, "values": values} for where, (now, values) in changes.items()],
        "options": options,
        "refusals": refusals,
    }
