"""``wattbell bridge``."""

from __future__ import annotations

import contextlib
import ipaddress
import json as json_module
import sys
from typing import Annotated

import typer

from ..errors import UsageError
from . import output
from .options import Json, RigOption


def bridge(
    listen: Annotated[str, typer.Option(help="Address and port, such as 0.0.0.0:5025; port 0 takes any free one.")] = "127.0.0.1:5025",
    rig: RigOption = None,
    json: Json = False,
) -> None:
    """Offer a rig's control port as a SCPI raw socket, until Ctrl-C.

    One client at a time; another one gets one line that says who has the rig. The control port is held only while there is a client, so
    [bold]wattbell record[/] can take the rig between two of them. Only this machine is listened to, unless --listen says otherwise: whoever
    reaches the socket can switch the drive's power.

      wattbell bridge

      sigrok-cli -d scpi-dmm:conn=tcp-raw/127.0.0.1/5025 --samples 10     (docs/scpi.md, sigrok)

    With [bold]--json[/] one object with host and port is printed once it listens.
    """
    from ..bridge import Bridge
    from ..rig import discovery

    host, port = _address(listen)
    serial = discovery.find(rig).serial  # there must be one now; which one stays
    server = Bridge(lambda: discovery.find(serial), host, port, output.say)
    host, port = server.address
    if json:
        sys.stdout.write(json_module.dumps({"host": host, "port": port, "serial": serial}) + "\n")
        sys.stdout.flush()
    output.say(f"Rig {serial} answers SCPI on {host}:{port} until Ctrl-C.")
    if not ipaddress.ip_address(host).is_loopback:
        output.say("Anyone who reaches this address can switch the drive's power; there is no password.")
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        raise UsageError(f"--listen {text}: give an IP address and a port, such as 127.0.0.1:5025 or [::1]:5025.") from None
    if not 0 <= number <= 65535:
        raise UsageError(f"--listen {text}: a port lies between 0 and 65535.")
    return host, number
