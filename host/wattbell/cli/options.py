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
