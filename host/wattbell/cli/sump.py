"""``wattbell sump``."""

from __future__ import annotations

import contextlib
import json as json_module
import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from . import numbers, output
from .options import Json, RigOption
from .quantities import CURRENT, POWER, TIME, VOLTAGE

if TYPE_CHECKING:
    from ..serve.sump import Threshold


def sump(
    rig: RigOption = None,
    port: Annotated[str | None, typer.Option(help="Serial line to the client. Without it, a new pseudo-terminal.")] = None,
    level: Annotated[
        list[str] | None, typer.Option(help="A channel that is high above a level: current=500mA, voltage=3.2, power=2 (A, V, W). Up to 6.")
    ] = None,
    settle: Annotated[
        float,
        typer.Option(
            metavar="TIME",
            parser=TIME,
            callback=numbers.between(0, 10, "s"),
            help="How far samples lag behind the stream, in seconds: see the user's guide.",
        ),
    ] = 0.05,
    decimation: Annotated[int | None, typer.Option(min=1, max=4096, help="ADC conversions a rail sample.")] = None,
    json: Json = False,
) -> None:
    r"""Be a SUMP logic analyser (sigrok's "ols"), made from a rig's stream, until Ctrl-C.

    Channels 0 to 8 are CLKREQ#, PERST#, LINK0, LINK1, LINK2, DOORBELL, FETCH, DATA, CQE, as in the session files of [bold]wattbell export
    sigrok[/]; the levels follow. Triggers act on any channel. Both are made here, from the stream, not in the rig. The rig is
    held only while a capture is armed.

      wattbell sump --level current=0.5

      wattbell sump --port /dev/ttyUSB0

      sigrok-cli -d ols:conn=/dev/ttyS1 --config samplerate=10m --samples 2000 -t 5=01 -O vcd     (at the other end)

    With [bold]--json[/] one object with the port and the channels is printed once it listens.
    """
    from ..rig import Rig, discovery
    from ..serve.sump import CaptureOptions, Server, open_pty, open_tty

    thresholds = [_threshold(text) for text in level or ()]
    serial = discovery.find(rig).serial  # there must be one now; which one stays
    opened = open_tty(port) if port else open_pty()
    try:
        server = Server(opened, lambda: Rig.open(serial), CaptureOptions(thresholds, settle, decimation), output.say)
        if json:
            found = {"port": opened.name, "channels": list(server.channels), "serial": serial}
            sys.stdout.write(json_module.dumps(found) + "\n")
            sys.stdout.flush()
        names = ", ".join(f"{number} {name}" for number, name in enumerate(server.channels))
        output.say(f"Rig {serial} is a SUMP logic analyser on {opened.name} until Ctrl-C. Channels: {names}.")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve()
    finally:
        opened.close()


def _threshold(text: str) -> Threshold:
    from ..serve.sump import QUANTITIES, Threshold

    quantity, _, number = text.partition("=")
    value = {"current": CURRENT, "voltage": VOLTAGE, "power": POWER}[quantity].read(number) if quantity in QUANTITIES else None
    if value is None or not math.isfinite(value):
        raise UsageError(f"--level {text}: give one of {', '.join(QUANTITIES)} and a value, such as current=0.5 or current=500mA.")
    return Threshold(quantity, value)
