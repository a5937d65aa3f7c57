"""``wattbell bridge``."""

from __future__ import annotations

import contextlib
import ipaddress
import json as json_module
import secrets
import sys
from typing import Annotated

import typer

from ..errors import UsageError
from . import output
from .options import Json, RigOption


def bridge(
    listen: Annotated[str, typer.Option(help="Address and port, such as 0.0.0.0:5025; port 0 takes any free one.")] = "127.0.0.1:5025",
    token: Annotated[bool, typer.Option("--token/--no-token", help="Ask each client for the token, as its first line.")] = True,
    allow_power: Annotated[bool, typer.Option("--allow-power", help="Let clients move the drive's power and the calibration.")] = False,
    rig: RigOption = None,
    json: Json = False,
) -> None:
    """Offer a rig's control port as a SCPI raw socket, until Ctrl-C.

    One client at a time; another one gets one line that says who has the rig. The control port is held only while there is a client, so
    [bold]wattbell record[/] can take the rig between two clients. Only this machine is listened to, unless --listen says otherwise.

    The first line that a client sends must be the token, which is printed and new each time. For programs that cannot send it (sigrok),
    --no-token lets in whoever reaches the socket. Commands that move power, protection, calibration or the EEPROM need --allow-power
    (docs/scpi.md marks them).

      wattbell bridge

      wattbell bridge --no-token

      sigrok-cli -d scpi-dmm:conn=tcp-raw/127.0.0.1/5025 --samples 10     (docs/scpi.md, sigrok)

    With [bold]--json[/] one object with host, port and token is printed once it listens.
    """
    from ..rig import discovery
    from ..serve.bridge import Bridge

    host, port = _address(listen)
    serial = discovery.find(rig).serial  # there must be one now; which one stays
    secret = secrets.token_urlsafe(24) if token else None
    server = Bridge(lambda: discovery.find(serial), host, port, output.say, token=secret, allow_power=allow_power)
    host, port = server.address
    if json:
        sys.stdout.write(json_module.dumps({"host": host, "port": port, "serial": serial, "token": secret}) + "\n")
        sys.stdout.flush()
    output.say(f"Rig {serial} answers SCPI on {host}:{port} until Ctrl-C.")
    here = ipaddress.ip_address(host).is_loopback
    may = "move the drive's power and the calibration" if allow_power else "change the rig's measurements"
    if secret is None:
        output.say(f"Without a token, {'every user of this machine' if here else 'everyone who reaches this address'} can {may}.")
    else:
        output.say(f"First line of each client: {secret}")
        if not here:
            output.say(f"The token goes over the network as plain text; who reads it can {may}.")
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
