"""Pages of the kernel's trace buffer, put together by hand: ``struct buffer_data_page`` and its content (include/linux/ring_buffer.h,
drivers/nvme/host/trace.h), as Linux 6.12 lays them out."""

from __future__ import annotations

import struct

SETUP_ID, COMPLETE_ID = 1386, 1385


def page(records: list[bytes], first_ns: int, missed: int | None = None) -> bytes:
    """``struct buffer_data_page``."""
    data = b"".join(records)
    commit = len(data)
    if missed is not None:
        commit |= 1 << 31 | 1 << 30
        data += struct.pack("<q", missed)
    return (struct.pack("<QQ", first_ns, commit) + data).ljust(4096, b"\xa5")


def record(payload: bytes, delta: int, long: bool = False) -> bytes:
    """``struct ring_buffer_event`` with data."""
    payload = payload.ljust(-(-len(payload) // 4) * 4, b"\0")
    if long:
        return struct.pack("<II", delta << 5, len(payload) + 4) + payload
    assert len(payload) <= 28 * 4
    return struct.pack("<I", delta << 5 | len(payload) // 4) + payload


def setup(cid: int, slba: int = 0, qid: int = 1, opcode: int = 2, nsid: int = 1, dw12: int = 7) -> bytes:
    """``nvme_setup_cmd``. ``slba``: CDW10 and CDW11."""
    disk = b"nvme0n1" if qid else b""
    fields = struct.pack("<HBBi32siiBBBxHxxIB", SETUP_ID, 0, 0, 77, disk, 0, qid, opcode, 0, 0, cid, nsid, 0)
    return fields + struct.pack("<QIIQ", slba, dw12, 0, 0) + bytes(3)


def complete(cid: int, status: int = 0, qid: int = 1) -> bytes:
    """``nvme_complete_rq``."""
    disk = b"nvme0n1" if qid else b""
    return struct.pack("<HBBi32siiixxxxQBBH", COMPLETE_ID, 0, 0, 77, disk, 0, qid, cid, 0, 0, 0, status) + bytes(4)
