"""Questions and messages of ``wattbell calibrate --delay`` on the delays of the paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from . import output

if TYPE_CHECKING:
    from ..rig import Rig
    from ..rig.calibration.pulses import PathDelay


def calibrate_delays(rig: Rig, store: bool, source: bool) -> dict[str, PathDelay]:
    """Find both paths' delays. ``source``: one was at the connector, and does not go away by itself."""
    from ..rig.calibration import pulses

    if source:
        output.hear_ctrl_c()
        typer.confirm(
            "Take the source off the connector and leave it empty; the rig's own 3.3 V must be on. Ready?",
            default=True,
            abort=True,
            err=True,
        )
    return pulses.calibrate_delays(rig, _ask_empty, store)


def _ask_empty() -> None:
    output.hear_ctrl_c()
    typer.confirm("PERST# is high. Is the connector empty, so that the rig may hold it low?", default=False, abort=True, err=True)


def show(found: dict[str, PathDelay]) -> None:
    """Print the delays as a table."""
    shown = output.table("path", ">late by", ">u (k=2)", ">edges on", ">edges off")
    for name, path in found.items():
        on, off = (f"{side.delay_s * 1e9:z.1f} ns" for side in (path.on, path.off))
        shown.add_row("coarse" if name == "current" else name, f"{path.delay_s * 1e9:z.1f} ns", f"{path.u_s * 1e9:.1f} ns", on, off)
    output.out.print(shown)


def to_json(found: dict[str, PathDelay]) -> dict[str, dict[str, float]]:
    """Return the delays as plain values, by path."""
    return {
        name: {
            "delay_s": path.delay_s,
            "u_s": path.u_s,
            "edges": path.on.edges + path.off.edges,
            "on_s": path.on.delay_s,
            "off_s": path.off.delay_s,
        }
        for name, path in found.items()
    }
