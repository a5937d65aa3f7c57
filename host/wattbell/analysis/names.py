"""Names of NVMe opcodes and status codes (NVM Express Base 2.0, NVM Command Set 1.0, Zoned Namespace Command Set 1.1)."""

from __future__ import annotations

from wattbell.wire.spec import DSM_OPCODE, LBA_OPCODES

IO_OPCODES = {
    0x00: "flush",
    0x01: "write",
    0x02: "read",
    0x04: "write_uncorrectable",
    0x05: "compare",
    0x08: "write_zeroes",
    0x09: "dsm",
    0x0C: "verify",
    0x0D: "reservation_register",
    0x0E: "reservation_report",
    0x11: "reservation_acquire",
    0x12: "io_management_receive",
    0x15: "reservation_release",
    0x18: "cancel",
    0x19: "copy",
    0x1D: "io_management_send",
    0x79: "zone_management_send",
    0x7A: "zone_management_receive",
    0x7D: "zone_append",
}

ADMIN_OPCODES = {
    0x00: "delete_io_sq",
    0x01: "create_io_sq",
    0x02: "get_log_page",
    0x04: "delete_io_cq",
    0x05: "create_io_cq",
    0x06: "identify",
    0x08: "abort",
    0x09: "set_features",
    0x0A: "get_features",
    0x0C: "async_event_request",
    0x0D: "namespace_management",
    0x10: "firmware_commit",
    0x11: "firmware_download",
    0x14: "device_self_test",
    0x15: "namespace_attachment",
    0x18: "keep_alive",
    0x19: "directive_send",
    0x1A: "directive_receive",
    0x1C: "virtualization_management",
    0x1D: "nvme_mi_send",
    0x1E: "nvme_mi_receive",
    0x7C: "doorbell_buffer_config",
    0x80: "format_nvm",
    0x81: "security_send",
    0x82: "security_receive",
    0x84: "sanitize",
}

SIZED_OPCODES = (*LBA_OPCODES, DSM_OPCODE)
"""I/O opcodes whose record carries a number of logical blocks."""
TRANSFER_OPCODES = (0x01, 0x02, 0x05)
"""I/O opcodes that move user data over the link: Write, Read, Compare. MB/s counts these and no others."""

_GENERIC = {
    0x01: "Invalid Command Opcode",
    0x02: "Invalid Field in Command",
    0x04: "Data Transfer Error",
    0x05: "Aborted due to Power Loss",
    0x06: "Internal Error",
    0x07: "Command Abort Requested",
    0x08: "Aborted due to SQ Deletion",
    0x0B: "Invalid Namespace or Format",
    0x80: "LBA Out of Range",
    0x81: "Capacity Exceeded",
    0x82: "Namespace Not Ready",
}
_SPECIFIC = {
    0x01: "Invalid Queue Identifier",
    0x0D: "Feature Identifier Not Saveable",
    0x80: "Conflicting Attributes",
    0xB8: "Zoned Boundary Error",
    0xB9: "Zone Is Full",
    0xBA: "Zone Is Read Only",
    0xBB: "Zone Is Offline",
    0xBC: "Zone Invalid Write",
    0xBD: "Too Many Active Zones",
    0xBE: "Too Many Open Zones",
    0xBF: "Invalid Zone State Transition",
}
_MEDIA = {
    0x80: "Write Fault",
    0x81: "Unrecovered Read Error",
    0x85: "Compare Failure",
    0x86: "Access Denied",
    0x87: "Deallocated or Unwritten Logical Block",
}


def io_name(opcode: int) -> str:
    """Name of an I/O opcode; ``opcode_xx`` (hex) for one not in the table."""
    return IO_OPCODES.get(opcode, f"opcode_{opcode:02x}")


def admin_name(opcode: int) -> str:
    """Name of an admin opcode; ``opcode_xx`` (hex) for one not in the table."""
    return ADMIN_OPCODES.get(opcode, f"opcode_{opcode:02x}")


def status_name(status: int) -> str:
    """Text for a CQE status as on the wire (SC 7:0, SCT 10:8): ``"SCT/SC name"`` in hex."""
    sc, sct = status & 0xFF, status >> 8 & 7
    text = {0: _GENERIC, 1: _SPECIFIC, 2: _MEDIA}.get(sct, {}).get(sc, "")
    return f"{sct:x}/{sc:02x} {text}".strip()


def size_text(size_bytes: int) -> str:
    """A transfer size as an engineer writes it: 4 KiB, 128 KiB, 512 B."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale and size_bytes % scale == 0:
            return f"{size_bytes // scale} {unit}"
    return f"{size_bytes} B"
