"""The drive's identity from files of nvme-cli: Identify Controller and Identify Namespace, as JSON or as the 4096 raw bytes.

``nvme id-ctrl /dev/nvme0 -o json`` or ``-o binary``, ``nvme id-ns /dev/nvme0n1`` likewise. Raw bytes go through the capture's own parser.
In JSON a power state has ``max_power_scale`` and ``non-operational_state`` since nvme-cli 2.6 (2023); before, ``flags`` (bits 0 and 1).
Scales are the specification's codes (IPS, APS).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..capture.identify import (
    IDENTIFY_BYTES,
    Drive,
    Namespace,
    PowerState,
    looks_like_controller,
    parse_controller,
    parse_namespace,
    power_of,
)
from ..errors import CaptureError

U8 = Annotated[int, Meta(ge=0, le=0xFF)]
U16 = Annotated[int, Meta(ge=0, le=0xFFFF)]
U32 = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
U63 = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_MOST_BYTES = 1 << 22
_VALID = range(9, 21)


class _Psd(msgspec.Struct):
    max_power: U16
    entry_lat: U32
    exit_lat: U32
    max_power_scale: U8 | None = None
    non_operational: U8 | None = msgspec.field(name="non-operational_state", default=None)
    flags: U8 | None = None
    idle_power: U16 = 0
    idle_scale: U8 = 0
    active_power: U16 = 0
    active_power_work: U8 = 0
    active_scale: U8 = 0


class _Controller(msgspec.Struct):
    sn: str
    mn: str
    fr: str
    npss: U8
    psds: list[_Psd]
    vid: U16 = 0
    ver: U32 = 0
    apsta: U8 = 0
    wctemp: U16 = 0
    cctemp: U16 = 0
    hctma: U16 = 0
    ctratt: U32 = 0
    vwc: U8 = 0
    hmpre: U32 = 0


class _Lbaf(msgspec.Struct):
    ms: U16
    ds: U8


class _Namespace(msgspec.Struct):
    nsze: U63
    ncap: U63
    flbas: U8
    lbafs: list[_Lbaf]


def read_identity(paths: Sequence[Path]) -> Drive:
    """What the files say of one drive. A namespace is taken for number 1, 2, ... in the order of its file. Raises CaptureError."""
    drive: Drive = {}
    namespaces: list[Namespace] = []
    for path in paths:
        found = _read(path)
        if isinstance(found, bytes):
            namespaces.append(parse_namespace(len(namespaces) + 1, found))
        elif isinstance(found, _Namespace):
            namespaces.append(_namespace(found, len(namespaces) + 1))
        elif drive:
            raise CaptureError(f"{path}: a second Identify Controller; a capture is of one drive.")
        else:
            drive = found
    if not drive:
        drive = {"power_states": []}
    drive["source"] = "file"
    drive["namespaces"] = namespaces
    return drive


def _read(path: Path) -> Drive | _Namespace | bytes:
    """Identify Controller, or what stands in one of a namespace, as JSON or as raw bytes."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}).") from None
    if data.lstrip()[:1] == b"{" and len(data) <= _MOST_BYTES:
        return _from_json(path, data)
    if len(data) != IDENTIFY_BYTES:
        raise CaptureError(
            f"{path} is neither JSON of nvme-cli nor the {IDENTIFY_BYTES} bytes of Identify data (it has "
            f"{'more than ' if len(data) > _MOST_BYTES else ''}{min(len(data), _MOST_BYTES)}); use nvme id-ctrl DEVICE -o json."
        )
    if not any(data):
        raise CaptureError(f"{path} is all zeros: no drive answered that.")
    return parse_controller(data) if looks_like_controller(data) else data


def _from_json(path: Path, data: bytes) -> Drive | _Namespace:
    try:
        keys: dict[str, Any] = msgspec.json.decode(data)
        if "psds" in keys or "mn" in keys:
            return _controller(path, msgspec.convert(keys, _Controller))
        if "lbafs" in keys or "nsze" in keys:
            return msgspec.convert(keys, _Namespace)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CaptureError(f"{path} is not what nvme id-ctrl or id-ns prints with -o json ({error}).") from None
    raise CaptureError(f"{path}: neither Identify Controller (psds) nor Identify Namespace (lbafs) of nvme-cli.")


def _controller(path: Path, found: _Controller) -> Drive:
    if found.npss + 1 != len(found.psds):
        raise CaptureError(f"{path}: npss is {found.npss}, but there are {len(found.psds)} power states; the file seems to be cut.")
    version = found.ver
    return {
        "vendor_id": found.vid,
        "serial": _text(found.sn),
        "model": _text(found.mn),
        "firmware": _text(found.fr),
        "nvme_version": f"{version >> 16}.{version >> 8 & 255}.{version & 255}" if version else None,
        "apst": bool(found.apsta & 1),
        "warning_temperature_c": found.wctemp - 273 if found.wctemp else None,
        "critical_temperature_c": found.cctemp - 273 if found.cctemp else None,
        "hctm": bool(found.hctma & 1),
        "nopspm": bool(found.ctratt & 2),
        "volatile_write_cache": bool(found.vwc & 1),
        "hmb_preferred_bytes": 4096 * found.hmpre,
        "power_states": [_power_state(number, psd) for number, psd in enumerate(found.psds[:32])],
    }


def _power_state(number: int, psd: _Psd) -> PowerState:
    flags = psd.flags or 0
    fine = bool(psd.max_power_scale) if psd.max_power_scale is not None else bool(flags & 1)
    asleep = bool(psd.non_operational) if psd.non_operational is not None else bool(flags & 2)
    active = power_of(psd.active_power, psd.active_scale)
    return {
        "state": number,
        "max_power_w": round(psd.max_power * (1e-4 if fine else 1e-2), 6) if psd.max_power else None,
        "non_operational": asleep,
        "entry_latency_s": psd.entry_lat / 1e6,
        "exit_latency_s": psd.exit_lat / 1e6,
        "idle_power_w": power_of(psd.idle_power, psd.idle_scale),
        "active_power_w": active,
        "active_power_workload": psd.active_power_work if active is not None else None,
    }


def _namespace(found: _Namespace, nsid: int) -> Namespace:
    form = found.flbas & 0xF | (found.flbas >> 5 & 3) << 4
    if form >= len(found.lbafs):
        form = found.flbas & 0xF
    known = found.lbafs[form] if form < len(found.lbafs) else None
    return {
        "nsid": nsid,
        "size_blocks": found.nsze,
        "capacity_blocks": found.ncap,
        "lba_size_bytes": 1 << known.ds if known is not None and known.ds in _VALID else None,
        "metadata_bytes": known.ms if known is not None else 0,
    }


def _text(value: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in value.strip(" \0"))
