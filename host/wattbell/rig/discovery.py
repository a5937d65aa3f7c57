"""Which rigs are there: USB ones by their product string, virtual ones by their registration file.

A virtual rig registers itself as ``RUNTIME/rigs/SERIAL.json`` with ``serial``, ``data``, ``control`` (device paths)
and ``pid``; RUNTIME is ``$WATTBELL_RUNTIME``, else ``wattbell`` under ``$XDG_RUNTIME_DIR``, else under ``/tmp``.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

from serial.tools import list_ports

from ..errors import RigError

PRODUCT = "Wattbell"
"""USB product string of a rig. Its first CDC-ACM interface is the data port, its second one the control port."""


VIRTUAL_FRONT_END_DELAY_S = 2e-6
"""Time constant of the virtual rig's anti-alias pole (docs/virtual-rig.md)."""


@dataclass(frozen=True)
class RigPort:
    """Where a rig is."""

    serial: str
    data: str
    control: str
    virtual: bool
    pid: int | None = None

    def conditions(self) -> dict[str, object]:
        """What every figure of a capture from this rig is subject to (``conditions`` of ``meta.json``)."""
        if self.virtual:
            return {"virtual": True, "front_end_delay_s": VIRTUAL_FRONT_END_DELAY_S}
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
            port = RigPort(str(entry["serial"]), str(entry["data"]), str(entry["control"]), virtual=True, pid=pid)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if _alive(pid) and Path(port.data).exists():
            found.append(port)
    return found


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
