"""Which rigs are there: USB ones by their product string, virtual ones by their registration file.

A virtual rig registers itself as ``RUNTIME/rigs/SERIAL.json`` with ``serial``, ``data``, ``control`` (device paths), ``status``
(address of a Unix socket, `@` for the abstract ones) and ``pid``; RUNTIME is ``$WATTBELL_RUNTIME``, else ``wattbell`` under
``$XDG_RUNTIME_DIR``, else under ``/tmp``.
"""

from __future__ import annotations

import json
import os
import socket
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from serial.tools import list_ports

from ..errors import RigError

PRODUCT = "Wattbell"
"""USB product string of a rig. Its first CDC-ACM interface is the data port, its second one the control port."""


VIRTUAL_TRACE_ORIGIN_TICK = 1_000_000_000
"""Tick at which a virtual rig's bus trace begins (docs/virtual-rig.md)."""
STATUS_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class RigPort:
    """Where a rig is."""

    serial: str
    data: str
    control: str
    virtual: bool
    pid: int | None = None
    status: str | None = None
    """Where a virtual rig's process tells about itself."""

    def conditions(self) -> dict[str, object]:
        """What every figure of a capture from this rig is subject to (``conditions`` of ``meta.json``), as far as its port tells:
        :meth:`.port.Rig.conditions` has the rest."""
        if self.virtual:
            return {
                "virtual": True,
                "trace_origin_tick": VIRTUAL_TRACE_ORIGIN_TICK,
            }
        return {"virtual": False}

    def to_json(self) -> dict[str, object]:
        """As a plain dict."""
        return asdict(self)


def runtime_dir() -> Path:
    """Folder for files that live as long as their process."""
    given = os.environ.get("WATTBELL_RUNTIME")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / "wattbell"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def virtual_rigs() -> list[RigPort]:
    """Registered virtual rigs whose process is alive; unreadable registrations are passed over."""
    found = []
    for path in sorted((runtime_dir() / "rigs").glob("*.json")):
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            pid = int(entry["pid"])
            serial, data, control = (str(entry[name]) for name in ("serial", "data", "control"))
            port = RigPort(serial, data, control, virtual=True, pid=pid, status=entry.get("status"))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if _alive(pid) and Path(port.data).exists():
            found.append(port)
    return found


def process_status(port: RigPort) -> dict[str, Any]:
    """What the process of a virtual rig knows (docs/virtual-rig.md); empty when nobody answers, or the rig is no process here."""
    if port.status is None:
        return {}
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(STATUS_TIMEOUT_S)
            line.connect(port.status.replace("@", "\0", 1))
            found = json.loads(line.makefile().readline())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def usb_rigs() -> list[RigPort]:
    """Rigs on USB."""
    devices: dict[str, list[str]] = defaultdict(list)
    for port in list_ports.comports():
        if port.product and PRODUCT in port.product and port.serial_number:
            devices[port.serial_number].append(port.device)
    return [
        RigPort(serial, sorted(ports)[0], sorted(ports)[1], virtual=False)
        for serial, ports in sorted(devices.items())
        if len(ports) >= 2
    ]


def rigs() -> list[RigPort]:
    """Every rig that can be opened now."""
    return usb_rigs() + virtual_rigs()


def at_ports(text: str) -> RigPort:
    """A rig given by its ports, ``DATA,CONTROL``: for serial lines that carry no USB description.

    One port that belongs to a rig on USB stands for both. What the rig is, it says itself when it is opened.
    """
    data, _, control = text.partition(",")
    if not control:
        for port in rigs():
            if data in (port.data, port.control):
                return port
        raise RigError(f"{data} belongs to no rig that describes itself; give both ports: --rig {data},CONTROL_PORT.")
    for path in (data, control):
        if not Path(path).exists():
            raise RigError(f"There is no port {path}; see `ls /dev/tty*`.")
    return RigPort(text, data, control, virtual=False)


def find(serial: str | None = None) -> RigPort:
    """The rig with this serial number (or these ports, ``/dev/...``), or the only one.

    Raises RigError when there is none or the choice is open.
    """
    if serial is not None and serial.startswith("/dev/"):
        return at_ports(serial)
    present = rigs()
    if serial is not None:
        for port in present:
            if port.serial == serial:
                return port
        names = ", ".join(port.serial for port in present) or "none"
        raise RigError(f"No rig {serial}; present: {names}. Check the cable, or see `wattbell rigs`.")
    if not present:
        raise RigError(
            "No rig found. Plug one in, or start a virtual one: "
            "`wattbell run JOB --virtual PROFILE` or `wattbell sim start --trace FILE`."
        )
    if len(present) > 1:
        names = ", ".join(port.serial for port in present)
        raise RigError(f"There are {len(present)} rigs ({names}); choose one with --rig SERIAL.")
    return present[0]
