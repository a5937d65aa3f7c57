"""``wattbell policies``: energy and wake-ups of a measured drive under the idle tables of Linux and Windows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from . import complete, numbers, output
from .options import Json, StoreOption, Wide
from .quantities import TIME
from .results import open_store


def policies(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run of the suite power-states: its directory, or its id.", autocompletion=complete.results),
    ],
    idle: Annotated[
        Path,
        typer.Argument(
            metavar="IDLE.csv|CAPTURE",
            help="Idle times: a CSV file with the one column idle_s, or a capture.",
            autocompletion=complete.captures,
        ),
    ],
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerance",
            metavar="TIME",
            help="A latency tolerance of Linux (default_ps_max_latency_us); may be repeated.",
            show_default="0, 10ms, 25ms and 100ms",
        ),
    ] = None,
    store: StoreOption = None,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Replay idle times of a measured drive under power policies: joules and wake-ups a day.

    The policies are Linux's APST at several latency tolerances, and the default tables of StorNVMe (Windows).

      wattbell run power-states --drive /dev/nvme0n1 --out ps

      wattbell policies ps office.csv

      wattbell policies ps capture --tolerance 5ms --tolerance 100ms --json
    """
    from ..present.suite import policies as told
    from ..present.terminal import drawn
    from ..results.declared import power_states
    from ..results.idlepolicy import TOLERANCES_US, drive_cost, policies_of, replay
    from ..results.idletrace import read_idle_trace
    from ..results.load import resolve_all

    tolerances_us = [_tolerance_us(text) for text in tolerance or ()] or TOLERANCES_US
    runs = resolve_all(run, lambda: open_store(store))
    if len(runs) > 1:
        raise UsageError(f"{run} has {len(runs)} runs: name one of them.")
    drive = drive_cost(runs[0])
    with output.spinner("reading idle times"):
        trace = read_idle_trace(idle)
    found = [replay(drive, trace, one) for one in policies_of(power_states(runs[0]), tolerances_us)]
    if json:
        output.print_json(told.policies_json(drive, trace, found))
        return
    if drive.run.origin.warning:
        output.say(drive.run.origin.warning)
    output.out.print(drawn(told.policy_table(drive, trace, found)))
    for line in told.conditions_told(drive, trace, found):
        output.say(f"{line[0].upper()}{line[1:]}.")


def _tolerance_us(text: str) -> float:
    value = TIME.read(text)
    if value is None or not 0 <= value <= numbers.LONGEST_S:
        raise UsageError(f"--tolerance {text[:24]}: give {TIME.example}.")
    return round(1e6 * value, 3)
