"""Data length and direction of NVMe commands (NVM Express 1.4 sections 5 and 6, and the command sets of 2.0)."""

from __future__ import annotations

import enum


class Admin(enum.IntEnum):
    """Opcodes of admin commands that the observer acts on."""

    DELETE_SQ = 0x00
    CREATE_SQ = 0x01
    GET_LOG_PAGE = 0x02
    DELETE_CQ = 0x04
    CREATE_CQ = 0x05
    IDENTIFY = 0x06
    SET_FEATURES = 0x09
    GET_FEATURES = 0x0A
    ASYNC_EVENT_REQUEST = 0x0C
    DOORBELL_BUFFER_CONFIG = 0x7C
    FORMAT_NVM = 0x80


class Io(enum.IntEnum):
    """Opcodes of I/O commands with a meaning here."""

    FLUSH = 0x00
    WRITE = 0x01
    READ = 0x02
    COMPARE = 0x05
    DSM = 0x09
    COPY = 0x19
    ZONE_APPEND = 0x7D


HOST_MEMORY_BUFFER = 0x0D
"""Feature identifier."""

BLOCK_OPCODES = frozenset({Io.WRITE, Io.READ, Io.COMPARE, Io.ZONE_APPEND})
"""I/O commands that move NLB + 1 blocks."""
RANGE_OPCODES = BLOCK_OPCODES | {0x04, 0x08, 0x0C}
"""I/O commands with SLBA and NLB: also write uncorrectable, write zeroes and verify."""
_NO_DATA = frozenset({0x00, 0x04, 0x08, 0x0C})
_FEATURE_BYTES = {0x03: None, 0x0C: 256, 0x0E: 8, 0x16: 512}
_ADMIN_NO_DATA = frozenset({0x00, 0x01, 0x04, 0x05, 0x08, 0x0C, 0x10, 0x14, 0x18, 0x7C, 0x80, 0x84})


def io_data_bytes(opcode: int, cdw10: int, cdw11: int, cdw12: int) -> int | None:
    """Return the data length of an I/O command that moves no blocks, None where it is unknown."""
    if opcode in _NO_DATA:
        return 0
    if opcode == Io.DSM:
        return ((cdw10 & 0xFF) + 1) * 16
    if opcode == Io.COPY:
        return ((cdw12 & 0xFF) + 1) * (40 if cdw12 >> 8 & 1 else 32)  # descriptor formats 1 and 3 are longer
    if opcode in (0x0D, 0x11):
        return 16
    if opcode == 0x15:
        return 8
    if opcode in (0x0E, 0x12):
        return ((cdw10 if opcode == 0x0E else cdw11) + 1) * 4
    if opcode == 0x7A:
        return (cdw12 + 1) * 4
    return None


def admin_data_bytes(opcode: int, cdw10: int, cdw11: int) -> int | None:
    """Return the data length of an admin command, None where it is unknown."""
    if opcode in _ADMIN_NO_DATA:
        return 0
    if opcode == Admin.IDENTIFY:
        return 4096
    if opcode == Admin.GET_LOG_PAGE:
        return ((cdw11 & 0xFFFF) << 16 | cdw10 >> 16) * 4 + 4
    if opcode in (Admin.SET_FEATURES, Admin.GET_FEATURES):
        feature = cdw10 & 0xFF
        if feature in _FEATURE_BYTES:
            return _FEATURE_BYTES[feature]
        return None if feature == 0x81 or feature >= 0xC0 or (feature == HOST_MEMORY_BUFFER and opcode == Admin.GET_FEATURES) else 0
    if opcode in (0x11, 0x19, 0x1A):
        return (cdw10 + 1) * 4
    if opcode in (0x81, 0x82):
        return cdw11
    return None
