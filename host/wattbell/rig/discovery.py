"""Finds rigs: USB ones by their product string, virtual ones by their registration file.

A virtual rig registers itself as ``RUNTIME/rigs/SERIAL.json``. The keys are ``serial``, ``data``, ``control`` (device paths), ``status``
(address of a Unix socket, `@` for the abstract ones) and ``pid``. RUNTIME is ``$WATTBELL_RUNTIME``, else ``wattbell`` under
``$XDG_RUNTIME_DIR``, else ``/tmp/wattbell-UID``. Anybody who can write there can plant a rig. So files are accepted only from this user (or
root), in folders that nobody else can write.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from ..errors import RigError
from ..jsondata import JsonObject

PRODUCT = "Wattbell"
"""USB product string of a rig. Its first CDC-ACM interface is the data port, the second one the control port."""


VIRTUAL_TRACE_ORIGIN_TICK = 1_000_000_000
"""Tick at which a virtual rig's bus trace begins (docs/virtual-rig.md)."""
STATUS_TIMEOUT_S = 5.0
_INTERFACE = re.compile(r":\w+\.(\d+)$")
"""Suffix of a port's location on the bus, bus-port:configuration.interface, such as 1-4.2:1.0."""
_LONGEST_BYTES = 1 << 16
"""Size limit of a registration, and of a rig process's status."""


@dataclass(frozen=True)
class RigPort:
    """The ports of a rig."""

    serial: str
    data: str
    control: str
    virtual: bool
    pid: int | None = None
    status: str | None = None
    """Address at which a virtual rig's process reports its status."""

    def conditions(self) -> dict[str, object]:
        """Return the ``conditions`` of ``meta.json`` that follow from the port, which apply to every figure of a capture from this rig.

        :meth:`.port.Rig.conditions` adds the rest.
        """
        if self.virtual:
            return {
                "virtual": True,
                "trace_origin_tick": VIRTUAL_TRACE_ORIGIN_TICK,
            }
        return {"virtual": False}

    def to_json(self) -> dict[str, object]:
        """Return the ports as a plain dict."""
        return asdict(self)


def runtime_dir() -> Path:
    """Folder for files that live as long as their process."""
    given = os.environ.get("WATTBELL_RUNTIME")
    if given:
        return Path(given)
    own = os.environ.get("XDG_RUNTIME_DIR")
    return Path(own) / "wattbell" if own else Path(f"/tmp/wattbell-{os.geteuid()}")


_Words = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class _Entry(msgspec.Struct):
    """Path of a registration (docs/virtual-rig.md)."""

    serial: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    data: _Words
    control: _Words
    pid: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    status: _Words | None = None


def _not_ours(found: os.stat_result) -> str | None:
    """Who else controls a file or folder; None if only this user (or root) does."""
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others"
    return None


def refused() -> str | None:
    """Why no virtual rig is looked for: the registration folder is not this user's alone. None if it is, or if there is none."""
    for folder in (runtime_dir(), runtime_dir() / "rigs"):
        try:
            reason = _not_ours(folder.stat())
        except OSError:
            return None
        if reason:
            what = "`chmod go-w` it" if "written" in reason else "set WATTBELL_RUNTIME to a folder of your own"
            return f"Virtual rigs are not looked for: {folder} {reason}; {what}."
    return None


def _read(path: Path) -> _Entry | None:
    """Read a registration; None if it is not one, or not this user's."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or _not_ours(about) or about.st_size > _LONGEST_BYTES:
                return None
            return msgspec.json.decode(file.read(_LONGEST_BYTES), type=_Entry)
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def virtual_rigs() -> list[RigPort]:
    """Return registered virtual rigs with a living process. Files other than registrations of this user are skipped (:func:`refused`)."""
    if refused():
        return []
    entries = [_read(path) for path in sorted((runtime_dir() / "rigs").glob("*.json"))]
    return [
        RigPort(entry.serial, entry.data, entry.control, virtual=True, pid=entry.pid, status=entry.status)
        for entry in entries
        if entry is not None and _alive(entry.pid) and os.path.exists(entry.data)
    ]


def process_status(port: RigPort) -> JsonObject:
    """Status of a virtual rig's process (docs/virtual-rig.md); empty when nobody answers, or when the rig is not a process here."""
    if port.status is None:
        return {}
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(STATUS_TIMEOUT_S)
            line.connect(port.status.replace("@", "\0", 1))
            found = json.loads(line.makefile().readline(_LONGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def usb_rigs() -> list[RigPort]:
    """Rigs on USB."""
    devices: dict[str, list[ListPortInfo]] = defaultdict(list)
    for port in list_ports.comports():
        if port.product and PRODUCT in port.product and port.serial_number:
            devices[port.serial_number].append(port)
    found = []
    for serial, ports in sorted(devices.items()):
        if len(ports) >= 2:
            data, control = (port.device for port in sorted(ports, key=_place)[:2])
            found.append(RigPort(serial, data, control, virtual=False))
    return found


def _place(port: ListPortInfo) -> tuple[int, list[int | str]]:
    """Sort key: the USB interface number, since the kernel gives a port the lowest free name, which need not follow it. Names without such
    a number sort naturally: ttyACM9 before ttyACM10."""
    interface = _INTERFACE.search(port.location or "")
    return int(interface[1]) if interface else 0, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", port.device)]


def rigs() -> list[RigPort]:
    """Every rig that can be opened now."""
    return usb_rigs() + virtual_rigs()


def at_ports(text: str) -> RigPort:
    """Return a rig given by its ports, ``DATA,CONTROL``, for serial lines without a USB description.

    One port that belongs to a rig on USB is enough. The rig itself reports its kind when opened.
    """
    data, _, control = text.partition(",")
    if not control:
        for port in rigs():
            if data in (port.data, port.control):
                return port
        raise RigError(f"{data} does not belong to a known rig; give both ports: --rig {data},CONTROL_PORT.")
    usb = {port.device: port.serial_number for port in list_ports.comports() if port.serial_number and PRODUCT in (port.product or "")}
    if data in usb and control in usb and usb[data] != usb[control]:
        raise RigError(f"{data} is of rig {usb[data]} and {control} of rig {usb[control]}; give two ports of one rig (`wattbell rigs`).")
    for path in (data, control):
        if not Path(path).exists():
            raise RigError(f"There is no port {path}; see `ls /dev/tty*`.")
    return RigPort(text, data, control, virtual=False)


def find(serial: str | None = None) -> RigPort:
    """The rig with this serial number (or these ports, ``/dev/...``), or the only one.

    Raises RigError when there is none or the choice is ambiguous.
    """
    if serial is not None and serial.startswith("/dev/"):
        return at_ports(serial)
    present = rigs()
    if serial is not None:
        for port in present:
            if port.serial == serial:
                return port
        names = ", ".join(port.serial for port in present) or "none"
        raise RigError(f"No rig {serial}; present: {names}. Check the cable, or see `wattbell rigs`.{_why_not()}")
    if not present:
        raise RigError(
            "No rig found. Plug one in, or start a virtual one: "
            f"`wattbell run JOB --virtual PROFILE` or `wattbell sim start --trace FILE`.{_why_not()}"
        )
    if len(present) > 1:
        names = ", ".join(port.serial for port in present)
        raise RigError(f"There are {len(present)} rigs ({names}); choose one with --rig SERIAL.")
    return present[0]


def _why_not() -> str:
    reason = refused()
    return f" {reason}" if reason else ""
