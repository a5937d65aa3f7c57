"""Work that is no suite on a real drive: recorded into one capture."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

from ..capture import open_capture
from ..errors import CommandEnded, DriveError
from ..suites.outlook import Outlook, look_ahead
from ..virtual.play import scratch
from .equipment import missing_of
from .eta import Eta
from .real import RealBench
from .runner import Audience
from .work import Work


def outlook_of(work: Work, bench: RealBench) -> Outlook:
    """Return the outlook of the work: its session, with the times expected on the bench's drive."""
    return look_ahead([work.session], bench.device.capacity_bytes, bench.choice)


def run_work(work: Work, bench: RealBench, out: Path, audience: Audience) -> None:
    """Run the work and record it into ``out``, which is replaced if it is there. KeyboardInterrupt keeps the recording so far."""
    bench.take(work)
    outlook = outlook_of(work, bench)
    audience.ahead(outlook, bench)
    with ExitStack() as stack:
        stack.enter_context(bench.open())
        bench.prepare(work.session)
        eta = Eta(outlook)
        eta.session(0, work.session.name)
        if not work.command:  # the terminal is the command's
            stack.enter_context(audience.progress(eta))
        plans = scratch(stack) / "plans"
        bench.run(work.session, plans, out, bench.conditions(), lambda step, left_out: eta.step(step.name, left_out))


def check_command(bench: RealBench, out: Path) -> None:
    """CommandEnded, with its exit code, when the command failed."""
    for phase in bench.phases:
        if phase.exit_code:
            raise CommandEnded(f"{phase.name} {how_it_ended(phase.exit_code)}; {out} holds the whole recording.", phase.exit_code)


def check_log(out: Path) -> None:
    """DriveError when the host's log lost commands."""
    missing = missing_of(open_capture(out).meta["conditions"])
    if missing is not None:
        raise DriveError(f"{out} is not whole: {missing}. The figures over that time say so.")


def how_it_ended(code: int) -> str:
    """An exit code in words; above 128 it is a signal's, as shells have it."""
    try:
        return f"was ended by {signal.Signals(code - 128).name}" if code > 128 else f"ended with exit code {code}"
    except ValueError:
        return f"ended with exit code {code}"
