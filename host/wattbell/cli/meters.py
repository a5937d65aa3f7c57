"""``wattbell meters``."""

from __future__ import annotations

from typing import Annotated

import typer

from . import output


def meters(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the power meters that [bold]--meter[/] knows, how each is named there, and whether what it needs is installed.

    All take [bold]gain=[/], [bold]offset=[/] (A) and [bold]timebase=[/] besides: limits (k = 2) that you have from a calibration of your
    own. docs/meters.md has the wiring, rate and accuracy of each.
    """
    from ..meters.meter import KINDS

    if json:
        names = ("usage", "what", "extra", "installed")
        output.print_json([{name: getattr(kind, name) for name in names} for kind in KINDS.values()])
        return
    shown = output.table("--meter", "what", "library")
    for kind in KINDS.values():
        shown.add_row(kind.usage, kind.what, "installed" if kind.installed else f"pip install 'wattbell[{kind.extra}]'")
    output.out.print(shown)
