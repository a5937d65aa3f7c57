"""Decode transaction layer packets (PCI Express Base Specification 5.0, chapter 2) from their bytes."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass


class Direction(enum.IntEnum):
    """Way of a TLP over the link."""

    DOWN = 1
    """From host to drive."""
    UP = 2
    """From drive to host."""


class TlpKind(enum.Enum):
    """Class of a TLP: what its Fmt and Type fields say (table 2-3)."""

    MEMORY_READ = "memory read"
    MEMORY_WRITE = "memory write"
    IO = "I/O"
    CONFIG_READ = "configuration read"
    CONFIG_WRITE = "configuration write"
    COMPLETION = "completion"
    MESSAGE = "message"
    ATOMIC = "atomic operation"
    DEFERRABLE_WRITE = "deferrable memory write"
    UNKNOWN = "unknown"


class MalformedTlpError(ValueError):
    """Bytes that are no TLP: too short for the header, or with another length than the header says."""


@dataclass(slots=True)
class Tlp:
    """One TLP. Fields that its kind does not have are zero, or empty."""

    time_ps: int
    """Time of the first symbol."""
    direction: Direction
    kind: TlpKind
    requester: int
    """Requester ID: bus, device and function."""
    tag: int
    """10 bits."""
    payload: bytes
    length_dw: int
    """Length field, 1 to 1024; 0 where the TLP has none."""
    address: int = 0
    """Memory address of the first double word."""
    first_be: int = 0
    last_be: int = 0
    at: int = 0
    """Address type: 0 untranslated, 1 translation request, 2 translated; 3 untranslated, in the address space of a process."""
    completer: int = 0
    """Completer ID of a completion, target of a configuration request."""
    status: int = 0
    """Completion status: 0 success, 1 unsupported request, 4 completer abort."""
    byte_count: int = 0
    """Bytes that remain with this completion included, 1 to 4096."""
    lower_address: int = 0
    register: int = 0
    """Byte offset of a configuration register."""
    message_code: int = 0
    poisoned: bool = False
    traffic_class: int = 0

    @property
    def zero_length(self) -> bool:
        """Whether a memory request enables no byte (2.2.5): a flush, or a write without effect."""
        return self.kind in (TlpKind.MEMORY_READ, TlpKind.MEMORY_WRITE) and self.length_dw == 1 and self.first_be == 0


_MEMORY_TYPES = {0x00, 0x01}
_MESSAGE_TYPES = range(0x10, 0x18)


def skip_prefixes(data: bytes) -> int:
    """Return the offset of the header: TLP prefixes have Fmt 100b, a double word each (2.2.10)."""
    offset = 0
    while offset < len(data) and data[offset] >> 5 == 4:
        offset += 4
    return offset


def names_process(prefixes: bytes) -> bool:
    """Return whether one of these TLP prefixes has a PASID: Fmt 100b, Type 1 0001b (6.20.2.1)."""
    return 0x91 in prefixes[::4]


def decode_tlp(time_ps: int, direction: Direction, data: bytes) -> Tlp:
    """Decode one TLP as it is on the wire: prefixes, header, payload, digest. Raises :class:`MalformedTlpError`."""
    at_byte = skip_prefixes(data)
    if len(data) < at_byte + 12:
        raise MalformedTlpError(f"{len(data) - at_byte} bytes are too few for a header")
    fmt, kind_bits = data[at_byte] >> 5, data[at_byte] & 0x1F
    header = 16 if fmt & 1 else 12
    has_data = bool(fmt & 2)
    length_dw = (data[at_byte + 2] & 3) << 8 | data[at_byte + 3]
    length_dw = length_dw or 1024
    start = at_byte + header
    end = start + 4 * length_dw if has_data else start
    digest = 4 if data[at_byte + 2] & 0x80 else 0
    if len(data) not in (end, end + digest):
        raise MalformedTlpError(f"{len(data) - at_byte} bytes; the header says {end + digest - at_byte}")
    b1, b2 = data[at_byte + 1], data[at_byte + 2]
    requester, tag_low, be = struct.unpack_from(">HBB", data, at_byte + 4)
    tag = tag_low | (b1 & 8) << 5 | (b1 & 0x80) << 2
    payload = data[start:end]
    poisoned, traffic_class = bool(b2 & 0x40), b1 >> 4 & 7
    if kind_bits in (0x0A, 0x0B):
        completer, status_count, requester, tag_low, lower = struct.unpack_from(">HHHBB", data, at_byte + 4)
        return Tlp(
            time_ps=time_ps,
            direction=direction,
            kind=TlpKind.COMPLETION,
            requester=requester,
            tag=tag_low | (tag & 0x300),
            payload=payload,
            length_dw=length_dw if has_data else 0,
            completer=completer,
            status=status_count >> 13,
            byte_count=status_count & 0xFFF or 4096,
            lower_address=lower & 0x7F,
            poisoned=poisoned,
            traffic_class=traffic_class,
        )
    if kind_bits in (0x04, 0x05):
        return Tlp(
            time_ps=time_ps,
            direction=direction,
            kind=TlpKind.CONFIG_WRITE if has_data else TlpKind.CONFIG_READ,
            requester=requester,
            tag=tag,
            payload=payload,
            length_dw=length_dw,
            first_be=be & 15,
            completer=data[at_byte + 8] << 8 | data[at_byte + 9],
            register=(data[at_byte + 10] & 15) << 8 | data[at_byte + 11] & 0xFC,
            poisoned=poisoned,
            traffic_class=traffic_class,
        )
    if kind_bits in _MESSAGE_TYPES:
        return Tlp(
            time_ps=time_ps,
            direction=direction,
            kind=TlpKind.MESSAGE,
            requester=requester,
            tag=tag,
            payload=payload,
            length_dw=length_dw if has_data else 0,
            message_code=be,
            poisoned=poisoned,
            traffic_class=traffic_class,
        )
    if kind_bits in _MEMORY_TYPES:
        kind = TlpKind.MEMORY_WRITE if has_data else TlpKind.MEMORY_READ
    elif kind_bits == 0x02:
        kind = TlpKind.IO
    elif kind_bits in (0x0C, 0x0D, 0x0E):
        kind = TlpKind.ATOMIC
    elif kind_bits == 0x1B:
        kind = TlpKind.DEFERRABLE_WRITE
    else:
        kind = TlpKind.UNKNOWN
    address = struct.unpack_from(">Q", data, at_byte + 8)[0] if fmt & 1 else struct.unpack_from(">L", data, at_byte + 8)[0]
    return Tlp(
        time_ps=time_ps,
        direction=direction,
        kind=kind,
        requester=requester,
        tag=tag,
        payload=payload,
        length_dw=length_dw,
        address=address & ~3,
        first_be=be & 15,
        last_be=be >> 4,
        at=b2 >> 2 & 3 or 3 * names_process(data[:at_byte]),
        poisoned=poisoned,
        traffic_class=traffic_class,
    )
