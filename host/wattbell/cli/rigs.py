"""``wattbell rigs``."""

from __future__ import annotations

from . import output
from .options import Json, Wide


def rigs(
    wide: Wide = False,
    json: Json = False,
) -> None:
    """List the rigs that are plugged in, and the virtual ones that run.

    Give the serial number to [bold]--rig[/] of the other commands when there is more than one.
    """
    from ..rig import discovery

    found = discovery.rigs()
    reason = discovery.refused()
    if reason:
        output.say(reason)
    if json:
        output.print_json([port.to_json() for port in found])
        return
    if not found:
        output.say("No rig. Plug one in, or start a virtual one with `wattbell sim start --trace FILE`.")
        return
    shown = output.table("serial", "kind", "data port", "control port")
    for port in found:
        shown.add_row(port.serial, "virtual" if port.virtual else "USB", port.data, port.control)
    output.out.print(shown)
