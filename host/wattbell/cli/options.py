"""Options and arguments that several commands share.

Every command imports this module, so it imports neither Rich nor other heavy packages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..virtual.fidelity import Fidelity
from . import complete, numbers
from .quantities import SIZE, TIME


def _widen(wide: bool) -> bool:
    if wide:
        from ..present.terminal import WIDEST
        from . import output

        output.out.width = WIDEST
    return wide


CaptureArgument = Annotated[Path, typer.Argument(help="Capture directory.", autocompletion=complete.captures)]
Out = Annotated[Path, typer.Option("--out", "-o", help="Capture directory to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the capture that is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wide = Annotated[bool, typer.Option("--wide", callback=_widen, help="Leave no column out, however narrow the terminal is.")]
"""An option of every command that prints tables."""
RigOption = Annotated[str | None, typer.Option("--rig", help="Serial number of the rig, or its ports: DATA,CONTROL.")]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="Store file.", show_default="wattbell/results.sqlite in your data directory"),
]
RequirementSets = Annotated[
    str,
    typer.Option(
        "--requirements",
        metavar="NAMES",
        help="Sets of requirements by name, and files .toml, separated by commas.",
        autocompletion=complete.requirement_sets,
    ),
]
ALL_SETS = "declared,ocp,nvme"
"""Default of :data:`RequirementSets`."""
Parameters = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A number that limits use as parameter.NAME; may be repeated.")
]
Guard = Annotated[
    float | None,
    typer.Option(min=0.0, max=10.0, metavar="W", help="Guard band in U for all requirements. \\[default: each one's own, 1]"),
]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML for a CI system, too.")]
ExitCodes = Annotated[
    str | None, typer.Option("--exit-codes", metavar="VERDICT=N,...", help="Exit codes, such as 'conditional pass=0,not measured=0'.")
]
LbaSize = Annotated[
    int | None,
    typer.Option(
        metavar="SIZE",
        parser=SIZE,
        callback=numbers.between(512, 2**31, "bytes"),
        help="Bytes of a logical block, if Identify is not seen.",
    ),
]
FIDELITY_HELP = "rtl: the Verilated gateware, cycle by cycle. fast: its functional model."
FidelityOption = Annotated[Fidelity, typer.Option(help=FIDELITY_HELP)]
KeepStream = Annotated[bool, typer.Option("--keep-stream", help="Keep the rig's raw stream (stream.wbs) in the capture.")]
FromTime = Annotated[
    float | None,
    typer.Option("--from", metavar="TIME", parser=TIME, callback=numbers.instant, help="Start, in seconds from the capture's first tick."),
]
ToTime = Annotated[
    float | None,
    typer.Option("--to", metavar="TIME", parser=TIME, callback=numbers.instant, help="End, in seconds from the capture's first tick."),
]
