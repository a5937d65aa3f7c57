"""Names of NVMe opcodes and status codes, as figures and tables have them (spec/wattbell_spec/nvme.py)."""

from __future__ import annotations

from wattbell_spec import nvme

__all__ = ["ADMIN_OPCODES", "IO_OPCODES", "admin_name", "io_name", "size_text", "status_name"]

IO_OPCODES = {opcode.code: opcode.name for opcode in nvme.IO}
ADMIN_OPCODES = {opcode.code: opcode.name for opcode in nvme.ADMIN}
_STATUSES = {(status.sct, status.sc): status.title for status in nvme.STATUSES}


def io_name(opcode: int) -> str:
    """Name of an I/O opcode; ``opcode_xx`` (hex) for one not in the table."""
    return IO_OPCODES.get(opcode, f"opcode_{opcode:02x}")


def admin_name(opcode: int) -> str:
    """Name of an admin opcode; ``opcode_xx`` (hex) for one not in the table."""
    return ADMIN_OPCODES.get(opcode, f"opcode_{opcode:02x}")


def status_name(status: int) -> str:
    """Text for a CQE status as on the wire (SC 7:0, SCT 10:8): ``"SCT/SC name"`` in hex."""
    sc, sct = status & 0xFF, status >> 8 & 7
    return f"{sct:x}/{sc:02x} {_STATUSES.get((sct, sc), '')}".strip()


def size_text(size_bytes: int) -> str:
    """A transfer size as an engineer writes it: 4 KiB, 128 KiB, 512 B."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale and size_bytes % scale == 0:
            return f"{size_bytes // scale} {unit}"
    return f"{size_bytes} B"
