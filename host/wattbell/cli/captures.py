"""``wattbell analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import output
from .record import Json

if TYPE_CHECKING:
    from ..capture import Capture

CaptureArgument = Annotated[Path, typer.Argument(help="Capture directory.")]


def open_with_progress(path: Path) -> Capture:
    """Open a capture; a rebuild from its journal shows a bar."""
    from ..capture import open_capture

    with output.bar("rebuilding from the journal") as progress:
        return open_capture(path, progress)


def show_analysis(path: Path, json: bool) -> None:
    """Analyse a capture and print the figures."""
    from ..analysis import analyze as compute
    from ..analysis import render

    capture = open_with_progress(path)
    with output.spinner("analysing") as update:
        result = compute(capture, lambda step: update(f"analysing: {step}"))
    if json:
        output.print_json(result)
    else:
        render(result, output.out)


def analyze(capture: CaptureArgument, json: Json = False) -> None:
    """Compute the figures of a capture: throughput, latency, queue depth, power, energy, idle power, wake-up.

    Every figure comes with its uncertainty and with the count of what was lost while it was measured. A recorder that
    died left a journal: the capture is rebuilt from it first.

      wattbell analyze capture

      wattbell analyze capture --json | jq .commands.by_opcode.read
    """
    show_analysis(capture, json)
