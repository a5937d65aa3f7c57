"""Which command marks the stream on this drive: one that it answers at once, and that changes nothing.

Get Features of a vendor's own identifier is refused by nearly every drive. One that has a feature there, or trips over it, gets another
command; each is tried once before a run, while nothing is recorded.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattbell_spec.nvme import admin, feature

from ..capture.marking import BY_FEATURE, Marking
from ..errors import DriveError
from .device import Device
from .tools import Tools

_GET, _IDENTIFY = admin("get_features"), admin("identify")
_RESERVED_FID, _RESERVED_CNS = 0x6F, 0xEF
"""Reserved by the NVMe base specification up to 2.1: a drive refuses them."""
WITHIN_S = 2.0
"""A refusal takes microseconds, the start of nvme-cli up to a second on a slow computer. A command that hangs is one for the kernel's
timeout, which resets the drive."""
_INVALID_FIELD = 0x002
"""SCT 0, SC 02h: Invalid Field in Command."""
_STATUS = re.compile(r"NVMe status:.*\((?:0x)?([0-9a-f]{1,4})\)\s*$", re.IGNORECASE | re.MULTILINE)
_IDENTIFY_BYTES = 4096


@dataclass(frozen=True)
class _Way:
    marking: Marking
    text: str
    may_succeed: bool = False


_WAYS = (
    _Way(BY_FEATURE, "Get Features D0h"),
    _Way(Marking(_GET, _RESERVED_FID), f"Get Features {_RESERVED_FID:X}h"),
    _Way(Marking(_IDENTIFY, _RESERVED_CNS), f"Identify CNS {_RESERVED_CNS:X}h"),
    # every drive has it, and no run asks for it; bits 31:0 of CDW11 mean nothing there
    _Way(Marking(_GET, feature("arbitration")), "Get Features 01h", may_succeed=True),
)


def text_of(marking: Marking) -> str:
    """Name a marking for a reader."""
    return next((way.text for way in _WAYS if way.marking == marking), f"opcode {marking.opcode:02X}h, CDW10 {marking.selector:X}h")


def words(marking: Marking, device: Device, value: int) -> Sequence[str]:
    """Words of nvme-cli that put a marker into the stream."""
    if marking.opcode == _GET:
        return ("get-feature", device.character_device, "-f", hex(marking.selector), f"--cdw11={value:#x}")
    return (
        "admin-passthru",
        device.character_device,
        f"--opcode={marking.opcode:#x}",
        f"--cdw10={marking.selector:#x}",
        f"--cdw11={value:#x}",
        f"--data-len={_IDENTIFY_BYTES}",
        "--read",
    )


def choose(device: Device, tools: Tools, sys: Path = Path("/sys")) -> tuple[Marking, str]:
    """The first command that does for a marker, and why none before it (empty: none was tried in vain). Raises DriveError when there is
    none, or when the drive is not well after one.
    """
    unfit: list[str] = []
    for way in _WAYS:
        reason = _unfit(way, device, tools)
        _still_well(way, device, tools, sys)
        if reason is None:
            return way.marking, "; ".join(unfit)
        unfit.append(f"{way.text}: {reason}")
    raise DriveError(f"{device.path} answers no command that could mark the recording ({'; '.join(unfit)}). Nothing was written.")


def _unfit(way: _Way, device: Device, tools: Tools) -> str | None:
    began = time.monotonic()
    done = tools.attempt("nvme", *words(way.marking, device, 0))  # 0: neither beginning nor end of a phase
    took_s = time.monotonic() - began
    said = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
    if took_s > WITHIN_S:
        return f"took {took_s:.1f} s"
    if done.returncode == 0:
        return None if way.may_succeed else "the drive accepts it"
    status = _STATUS.search(said)
    if status is None:
        lines = [line for line in said.splitlines() if line.strip()]
        return f"nvme-cli failed ({lines[-1].strip()[:80] if lines else f'exit {done.returncode}'})"
    code = int(status[1], 16) & 0x7FF
    return None if code == _INVALID_FIELD else f"status {code >> 8:X}h/{code & 0xFF:02X}h instead of Invalid Field"


def _still_well(way: _Way, device: Device, tools: Tools, sys: Path) -> None:
    try:
        state = (sys / "class/nvme" / device.controller / "state").read_text().strip()
    except OSError:
        state = "gone" if (sys / "class/nvme").is_dir() and device.pci else "live"
    done = tools.attempt("nvme", "id-ctrl", device.character_device, "--output-format=json") if state == "live" else None
    if done is None or done.returncode:
        what = f"its controller is {state}" if done is None else "it does not answer Identify any more"
        said = f"{device.path} does not survive {way.text}, which would mark the recording: {what}"
        raise DriveError(f"{said}. Nothing was written; power-cycle the drive.")


__all__ = ["choose", "text_of", "words"]
