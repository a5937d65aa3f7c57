"""What a plan must know of a real drive: capacity and power states, from Identify."""

from __future__ import annotations

import json

from ..errors import DriveError
from ..suites.drive import Drive
from .device import Device
from .tools import Tools


def identify(device: Device, tools: Tools) -> Drive:
    """The drive as plans want it. DriveError when nvme-cli gives no Identify Controller data."""
    said = tools.run("nvme", "id-ctrl", device.character_device, "--output-format=json")
    try:
        states = json.loads(said)["psds"]
        # Power State Descriptor, bit NOPS
        still = [i for i, state in enumerate(states) if int(state["non-operational_state"])]
    except (ValueError, KeyError, TypeError):
        raise DriveError(f"nvme id-ctrl {device.character_device} gave no power states; is nvme-cli 2.x installed?") from None
    return Drive(
        name=device.model,
        capacity_bytes=device.capacity_bytes,
        operational=tuple(i for i in range(len(states)) if i not in still),
        non_operational=tuple(still),
        model=device.model,
        serial=device.serial,
        firmware=device.firmware,
    )
