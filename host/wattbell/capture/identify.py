"""Read the drive's identity from the Identify data on the wire.

The rig marks memory writes that carry Identify data (TLP flag bit 1). The record of the Identify command names the structure: it has CNS
(CDW10 7:0), NSID and the ticks of its first and last data TLP. Without that record a structure is recognised by its content.

Field offsets: NVM Express, Identify Controller, Power State Descriptor and Identify Namespace data structures.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import polars as pl
from wattbell_spec.nvme import admin

from ..errors import CaptureError
from ..wire.records import Tlps

IDENTIFY_BYTES = 4096
BLOCK_EXPONENTS = range(9, 21)
"""LBADS of a block size that exists; 0 is a format that is not available."""
_MOST_BYTES = 1 << 56
_IDENTIFY = admin("identify")
_CNS_NAMESPACE, _CNS_CONTROLLER = 0, 1
_FLAG_IDENTIFY = 2
_DRIVE_TO_HOST = 1


@dataclass(frozen=True)
class _Write:
    tick: int
    address: int
    data: bytes


class Collector:
    """Collects the marked memory writes of a capture."""

    def __init__(self) -> None:
        self._writes: list[_Write] = []

    def add(self, tlps: Tlps) -> None:
        """Take the Identify writes out of some raw TLPs."""
        for tick, direction, flags, data in zip(tlps.tick, tlps.direction, tlps.flags, tlps.data, strict=True):
            if flags & _FLAG_IDENTIFY and direction == _DRIVE_TO_HOST:
                write = memory_write(data)
                if write:
                    self._writes.append(_Write(tick, *write))

    def drive(self, commands: Path) -> IdentifiedDrive | None:
        """Return `drive` of ``meta.json`` from the collected writes and ``commands.parquet``; None when no Identify passed."""
        if not self._writes:
            return None
        frame = pl.scan_parquet(commands, glob=False).filter(
            (pl.col("qid") == 0) & (pl.col("opcode") == _IDENTIFY) & (pl.col("status") == 0) & pl.col("cqe_tick").is_not_null()
        )
        writes = sorted(self._writes, key=_tick)
        controller: bytes | None = None
        namespaces: dict[int, bytes] = {}
        for row in frame.sort("cqe_tick").collect().iter_rows(named=True):
            structure = _structure(writes, row)
            if structure is None or row["slba"] is None:
                continue
            cns = row["slba"] & 0xFF
            if cns == _CNS_CONTROLLER:
                controller = structure
            elif cns == _CNS_NAMESPACE and row["nsid"] is not None and any(structure):
                namespaces[row["nsid"]] = structure
        controller = controller or self._recognise()
        if controller is None and not namespaces:
            return None
        found: IdentifiedDrive = parse_controller(controller) if controller else {"source": "identify"}
        found["namespaces"] = [parse_namespace(nsid, data) for nsid, data in sorted(namespaces.items())]
        return found

    def lba_size(self, row: Mapping[str, Any]) -> int | None:
        """Bytes of a logical block by the Identify Namespace command of this row of the commands; None while its data have not come."""
        structure = _structure(sorted(self._writes, key=_tick), row)
        if structure is None or not any(structure) or row["nsid"] is None:
            return None
        return parse_namespace(row["nsid"], structure).get("lba_size_bytes")

    def _recognise(self) -> bytes | None:
        """An Identify Controller structure among contiguous writes, recognised by its ASCII fields and NPSS."""
        for run in _runs(self._writes):
            for start in range(0, len(run) - IDENTIFY_BYTES + 1, IDENTIFY_BYTES):
                data = run[start : start + IDENTIFY_BYTES]
                if looks_like_controller(data):
                    return data
        return None


def looks_like_controller(data: bytes) -> bool:
    """Return whether 4096 bytes may be Identify Controller.

    The model's name must be text, with a few odd bytes at most, padded by blanks or NULs. NPSS is at most 31 and the version below 16.
    Power state 0 is operational, as the specification demands.
    """
    if len(data) != IDENTIFY_BYTES:
        return False
    said = [byte for byte in data[4:72] if byte]
    odd = sum(not 0x20 <= byte < 0x7F for byte in said)
    name = bytes(byte for byte in data[24:64] if 0x20 < byte < 0x7F)
    version = int.from_bytes(data[80:84], "little")
    return len(name) > 1 and 4 * odd <= len(said) and data[263] < 32 and version >> 16 < 16 and not data[2051] & 2


def looks_like_namespace(data: bytes) -> bool:
    """Return whether 4096 bytes may be Identify Namespace.

    NSZE >= NCAP >= NUSE, and NSZE is not 0. There are at most 64 formats, and FLBAS names one. Its block size gives the namespace less than
    64 PiB.
    """
    if len(data) != IDENTIFY_BYTES:
        return False
    size, capacity, used = struct.unpack_from("<QQQ", data, 0)
    form = lba_format(data[26], data[25], data[82])
    if form is None or not size >= capacity >= used or not size:
        return False
    exponent = data[128 + 4 * form + 2]
    return exponent in BLOCK_EXPONENTS and size << exponent < _MOST_BYTES


def lba_format(flbas: int, nlbaf: int, nulbaf: int) -> int | None:
    """Number of the LBA format in use, by FLBAS, NLBAF (0's based) and NULBAF of Identify Namespace. Bits 6:5 of FLBAS count where there
    are more than 16 formats. None if the drive has no such format, or more than the 64 that there may be."""
    formats = nlbaf + 1 + nulbaf
    form = flbas & 0xF | ((flbas >> 5 & 3) << 4 if formats > 16 else 0)
    return form if form < formats <= 64 else None


def _tick(write: _Write) -> int:
    return write.tick


def _structure(writes: Sequence[_Write], row: Mapping[str, Any]) -> bytes | None:
    """Return the 4096 bytes of an Identify command, or None if some were not seen. ``writes``: in order of tick."""
    start = next(t for t in (row["first_data_tick"], row["fetch_tick"], row["doorbell_tick"], 0) if t is not None)
    inside = writes[bisect_left(writes, start, key=_tick) : bisect_right(writes, row["cqe_tick"], key=_tick)]
    if sum(len(w.data) for w in inside) > IDENTIFY_BYTES:  # with another Identify in flight: this one's own buffer
        mine = [w for w in inside if w.tick == start]
        inside = [w for w in inside if mine and 0 <= w.address - mine[0].address < IDENTIFY_BYTES]
    return _join(inside)


def memory_write(tlp: bytes) -> tuple[int, bytes] | None:
    """(address, payload) of an MWr TLP with header bytes as on the wire; None for any other TLP or a truncated one."""
    if len(tlp) < 12 or tlp[0] & 0xDF != 0x40:
        return None
    header = 16 if tlp[0] & 0x20 else 12
    dws = ((tlp[2] & 3) << 8 | tlp[3]) or 1024
    if len(tlp) < header + 4 * dws:
        return None
    address = int.from_bytes(tlp[8:header], "big") & ~3
    return address, tlp[header : header + 4 * dws]


def _join(writes: Sequence[_Write]) -> bytes | None:
    """The writes as one structure: by address where contiguous, else (two pages) in the order the pages were used."""
    if sum(len(w.data) for w in writes) != IDENTIFY_BYTES:
        return None
    pages: dict[int, int] = {}
    for write in sorted(writes, key=lambda w: w.tick):
        pages.setdefault(write.address >> 12, len(pages))
    ordered = sorted(writes, key=lambda w: (pages[w.address >> 12], w.address))
    by_address = sorted(writes, key=lambda w: w.address)
    if by_address[-1].address + len(by_address[-1].data) - by_address[0].address == IDENTIFY_BYTES:
        ordered = by_address
    return b"".join(w.data for w in ordered)


def _runs(writes: list[_Write]) -> list[bytes]:
    """Payloads of writes to consecutive addresses, joined in order of arrival."""
    runs: list[bytearray] = []
    expected = None
    for write in writes:
        if write.address != expected:
            runs.append(bytearray())
        runs[-1] += write.data
        expected = write.address + len(write.data)
    return [bytes(run) for run in runs]


def _text(data: bytes) -> str:
    """An ASCII field."""
    return printable(data.decode("ascii", "replace"))


def printable(text: str) -> str:
    """Return a text of Identify without padding; unprintable characters (a terminal would obey them) become U+FFFD."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text.strip(" \0"))


def version_of(code: int) -> str | None:
    """VER as ``1.4.0``; None for 0, which says nothing."""
    return f"{code >> 16}.{code >> 8 & 255}.{code & 255}" if code else None


def _whole(data: bytes, length: int, what: str) -> None:
    if len(data) != length:
        raise CaptureError(f"{what} has {len(data)} bytes, expected {length}.")


_POWER_SCALE = {1: 1e-4, 2: 1e-2}
"""IPS and APS: watts per unit; other values mean not reported."""


def power_of(value: int, scale: int) -> float | None:
    """IDLP or ACTP in W, by its scale; None if the drive reports none."""
    factor = _POWER_SCALE.get(scale)
    return round(value * factor, 6) if factor else None


class IdentifiedPowerState(TypedDict):
    """A power state as the drive declares it; None for fields without a report."""

    state: int
    max_power_w: float | None
    non_operational: bool
    entry_latency_s: float
    exit_latency_s: float
    idle_power_w: float | None
    active_power_w: float | None
    active_power_workload: int | None


class IdentifiedNamespace(TypedDict):
    """A namespace, with unknown fields absent. ``lba_size_bytes`` is None if Identify held nonsense, or did not name the format in use."""

    nsid: int
    size_blocks: NotRequired[int]
    capacity_blocks: NotRequired[int]
    lba_size_bytes: int | None
    metadata_bytes: NotRequired[int]


class IdentifiedDrive(TypedDict, total=False):
    """``drive`` of meta.json, as far as it was seen on the wire."""

    source: str
    vendor_id: int
    serial: str
    model: str
    firmware: str
    nvme_version: str | None
    apst: bool
    warning_temperature_c: int | None
    critical_temperature_c: int | None
    hctm: bool
    nopspm: bool
    volatile_write_cache: bool
    hmb_preferred_bytes: int
    rtd3_resume_s: float | None
    rtd3_entry_s: float | None
    power_states: list[IdentifiedPowerState]
    namespaces: list[IdentifiedNamespace]


def parse_power_state(number: int, psd: bytes) -> IdentifiedPowerState:
    """One 32-byte power state descriptor, in W and s; None if the drive reports nothing. Raises CaptureError for another length."""
    _whole(psd, 32, "A power state descriptor")
    (maximum,) = struct.unpack_from("<H", psd, 0)
    entry_us, exit_us = struct.unpack_from("<II", psd, 4)
    idle, active = struct.unpack_from("<H", psd, 16)[0], struct.unpack_from("<H", psd, 20)[0]
    active_w = power_of(active, psd[22] >> 6)
    return {
        "state": number,
        "max_power_w": round(maximum * (1e-4 if psd[3] & 1 else 1e-2), 6) if maximum else None,
        "non_operational": bool(psd[3] & 2),
        "entry_latency_s": entry_us / 1e6,
        "exit_latency_s": exit_us / 1e6,
        "idle_power_w": power_of(idle, psd[18] >> 6),
        "active_power_w": active_w,
        "active_power_workload": psd[22] & 7 if active_w is not None else None,
    }


def parse_controller(data: bytes) -> IdentifiedDrive:
    """Return Identify Controller (4096 bytes) as a Drive. Raises CaptureError for another length.

    The fields are identity, thermal thresholds in degC, host controlled thermal management (HCTMA) and non-operational power state
    permissive mode (CTRATT). Further fields are write cache (VWC), preferred size of the host memory buffer (HMPRE), runtime D3 latencies
    (RTD3R, RTD3E) and power states.
    """
    _whole(data, IDENTIFY_BYTES, "Identify Controller")
    warning, critical = struct.unpack_from("<HH", data, 266)
    version, resume, entry = struct.unpack_from("<III", data, 80)
    return {
        "source": "identify",
        "vendor_id": struct.unpack_from("<H", data, 0)[0],
        "serial": _text(data[4:24]),
        "model": _text(data[24:64]),
        "firmware": _text(data[64:72]),
        "nvme_version": version_of(version),
        "apst": bool(data[265] & 1),
        "warning_temperature_c": warning - 273 if warning else None,
        "critical_temperature_c": critical - 273 if critical else None,
        "hctm": bool(data[322] & 1),
        "nopspm": bool(data[96] & 2),
        "volatile_write_cache": bool(data[525] & 1),
        "hmb_preferred_bytes": 4096 * struct.unpack_from("<I", data, 272)[0],
        "rtd3_resume_s": resume / 1e6 if resume else None,
        "rtd3_entry_s": entry / 1e6 if entry else None,
        "power_states": [parse_power_state(n, data[2048 + 32 * n : 2080 + 32 * n]) for n in range(data[263] % 32 + 1)],
    }


def parse_namespace(nsid: int, data: bytes) -> IdentifiedNamespace:
    """Identify Namespace (4096 bytes): size in blocks, and block size in bytes of the format in use. Raises CaptureError for another
    length."""
    _whole(data, IDENTIFY_BYTES, "Identify Namespace")
    size, capacity = struct.unpack_from("<QQ", data, 0)
    form = data[26] & 0xF | (data[26] >> 5 & 3) << 4
    metadata_bytes, block_exponent = struct.unpack_from("<HB", data, 128 + 4 * form)
    valid = block_exponent in BLOCK_EXPONENTS
    return {
        "nsid": nsid,
        "size_blocks": size,
        "capacity_blocks": capacity,
        "lba_size_bytes": 1 << block_exponent if valid else None,
        "metadata_bytes": metadata_bytes,
    }


def assumed(lba_size_bytes: int) -> IdentifiedDrive:
    """`drive` for a capture without Identify, with the block size given by the user."""
    return {
        "source": "--lba-size",
        "power_states": [],
        "namespaces": [{"nsid": 1, "lba_size_bytes": lba_size_bytes}],
    }
