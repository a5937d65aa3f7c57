"""Read a real drive's Identify by nvme-cli: capacity and power states for a plan, and the description for its captures."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec

from ..capture import identify as structures
from ..errors import CaptureError, DriveError
from ..suites.drive import Drive, settled_after, slowest_transition
from .device import Device
from .tools import WHICH_NVME, Tools

_Us = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class _State(msgspec.Struct):
    """Power State Descriptor, as far as a plan needs it: bit NOPS, entry and exit latency in us. ``flags``: of nvme-cli before 2.6, NOPS in
    bit 1."""

    nops: Annotated[int, msgspec.Meta(ge=0, le=1)] | bool | None = msgspec.field(name="non-operational_state", default=None)
    flags: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    entry_lat: _Us = 0
    exit_lat: _Us = 0

    def __post_init__(self) -> None:
        if self.nops is None and self.flags is None:
            raise ValueError("a power state has neither non-operational_state nor flags")

    @property
    def non_operational(self) -> bool:
        return bool((self.flags or 0) & 2) if self.nops is None else bool(self.nops)


class _Controller(msgspec.Struct):
    """nvme-cli's JSON of Identify Controller. A drive has 1 to 32 power states, and state 0 is operational."""

    psds: Annotated[list[_State], msgspec.Meta(min_length=1, max_length=32)]


def identify(device: Device, tools: Tools) -> Drive:
    """The drive as plans want it. Raises DriveError when nvme-cli gives no Identify Controller data."""
    command = f"nvme id-ctrl {device.character_device}"
    states = power_states(tools.run("nvme", "id-ctrl", device.character_device, "--output-format=json"), command)
    return Drive(
        name=device.model,
        capacity_bytes=device.capacity_bytes,
        nsid=device.nsid,
        operational=tuple(i for i, (awake, _, _) in enumerate(states) if awake),
        non_operational=tuple(i for i, (awake, _, _) in enumerate(states) if not awake),
        settled_after_s=settled_after(states),
        slowest_transition_s=slowest_transition(states),
        model=device.model,
        serial=device.serial,
        firmware=device.firmware,
    )


def declared(device: Device, tools: Tools) -> structures.IdentifiedDrive | None:
    """Return ``drive`` of a capture's meta.json; None when nvme-cli gives nothing.

    A tap sees Identify only if somebody asks for it. The host's log never has the returned data.
    """
    try:
        controller = _raw(tools, "id-ctrl", device.character_device)
        namespace = _raw(tools, "id-ns", device.character_device, f"--namespace-id={device.nsid}")
        found = structures.parse_controller(controller)
        # all zeros: the namespace is not active
        found["namespaces"] = [structures.parse_namespace(device.nsid, namespace)] if any(namespace) else []
    except (CaptureError, DriveError):
        return None
    found["source"] = "nvme-cli"
    return found


def _raw(tools: Tools, *arguments: str) -> bytes:
    done = tools.attempt("nvme", *arguments, "--output-format=binary")
    return b"" if done.returncode else done.stdout


def power_states(said: str, command: str = "nvme id-ctrl") -> list[tuple[bool, float, float]]:
    """Return (whether operational, entry latency in us, exit latency in us) of each power state, from the JSON of ``nvme id-ctrl``.

    Raises DriveError when it makes no sense.
    """
    try:
        # not strict: nvme-cli prints control characters in a drive's strings as they are
        found = msgspec.convert(json.loads(said, strict=False), _Controller)
    except (ValueError, RecursionError) as error:
        raise DriveError(f"{command} gave no power states ({error}): {WHICH_NVME}.") from None
    states = [(not state.non_operational, float(state.entry_lat), float(state.exit_lat)) for state in found.psds]
    if not states[0][0]:
        raise DriveError(f"{command} calls power state 0 non-operational, which no drive may: {WHICH_NVME}.")
    return states
