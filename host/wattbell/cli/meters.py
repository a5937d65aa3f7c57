"""``wattbell meters``."""

from __future__ import annotations

import re

from . import output
from .options import Json, Wide


def meters(
    wide: Wide = False,
    json: Json = False,
) -> None:
    """List the power meters that [bold]--meter[/] knows, how each is named there, and whether its packages are installed.

    All take [bold]gain=[/], [bold]offset=[/] (A) and [bold]timebase=[/] besides: limits (k = 2) that you have from a calibration of your
    own. docs/meters.md has the wiring, rate and accuracy of each.
    """
    from rich.text import Text

    from ..meters.meter import KINDS

    if json:
        names = ("usage", "what", "extra", "installed")
        output.print_json([{name: getattr(kind, name) for name in names} for kind in KINDS.values()])
        return
    for name, kind in KINDS.items():
        state = ("installed", "green") if kind.lacks is None else ("not installed", "yellow")
        output.out.print(Text.assemble((name, "bold"), f"  {kind.what}  ", state), soft_wrap=True)
        if kind.lacks is not None:
            output.out.print(Text(f"  {kind.lacks}"), soft_wrap=True)
        for line in _lines(kind.usage, output.out.width):
            output.out.print(Text(line), soft_wrap=True)


def _lines(usage: str, width: int) -> list[str]:
    """Return ``--meter`` with its value, broken before an option if too wide; a bracket stays whole."""
    first, *options = re.split(r"(?=\[,)", usage)
    lines = [f"  --meter {first}"]
    for option in options:
        if len(lines[-1]) + len(option) > width:
            lines.append(" " * 10)
        lines[-1] += option
    return lines
