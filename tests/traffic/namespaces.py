"""Namespaces, and the Identify data that describes them (NVMe, Identify)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

FORMATS = {
    "512": (9, 0, False),
    "4096": (12, 0, False),
    "8192": (13, 0, False),
    "512+8": (9, 8, False),
    "4096+8": (12, 8, False),
    "4096+8x": (12, 8, True),
}
"""LBADS, bytes of metadata, whether the metadata stands behind each block."""
_TABLE = ((9, 0), (12, 0), (13, 0), (9, 8), (12, 8))
"""LBA formats that each namespace supports: LBADS and MS."""


@dataclass
class Namespace:
    """A namespace in a format of :data:`FORMATS`."""

    nsid: int
    format: str
    blocks: int = 1 << 28

    @property
    def shift(self) -> int:
        """Binary logarithm of the bytes of a block."""
        return FORMATS[self.format][0]

    def on_the_wire(self, count: int) -> tuple[int, int]:
        """Bytes of the data buffer and of the metadata buffer of `count` blocks."""
        shift, meta, extended = FORMATS[self.format]
        if extended:
            return count * ((1 << shift) + meta), 0
        return count << shift, count * meta

    def flbas(self) -> int:
        """Formatted LBA Size: index of the format, bit 4: metadata at the block's end (Formatted LBA Size)."""
        shift, meta, extended = FORMATS[self.format]
        return _TABLE.index((shift, meta)) | (0x10 if extended else 0)

    def format_as(self, flbas: int) -> None:
        """Take the format that Format NVM names: CDW10 bits 3:0, and bit 4 for MSET."""
        wanted = (*_TABLE[flbas & 0xF], bool(flbas & 0x10))
        self.format = next(name for name, entry in FORMATS.items() if entry == wanted)

    def identify(self) -> bytes:
        """Identify Namespace data structure, CNS 00h."""
        data = bytearray(4096)
        struct.pack_into("<QQQ", data, 0, self.blocks, self.blocks, self.blocks // 2)
        data[25] = len(_TABLE) - 1
        data[26] = self.flbas()
        data[27] = 3  # both places of metadata
        for number, (shift, meta) in enumerate(_TABLE):
            struct.pack_into("<HBB", data, 128 + 4 * number, meta, shift, number & 3)
        return bytes(data)


def identify_controller(namespaces: int, sgl: bool, hmb_pages: int, mdts: int) -> bytes:
    """Identify Controller data structure, CNS 01h."""
    data = bytearray(4096)
    struct.pack_into("<HH", data, 0, 0x1234, 0x1234)
    data[4:24] = b"TRAFFIC-0001".ljust(20)
    data[24:64] = b"A drive of tests.traffic".ljust(40)
    data[64:72] = b"1.0".ljust(8)
    data[77] = mdts
    struct.pack_into("<HLLLL", data, 78, 1, 0x00020000, 1_000_000, 2_000_000, 0x300)
    data[111] = 1  # I/O controller
    struct.pack_into("<H", data, 256, 0x1F)
    data[258:262] = bytes((3, 7, 0x12, 0x0E))
    data[262:264] = bytes((15, 1))
    struct.pack_into("<LL", data, 272, hmb_pages, hmb_pages)
    data[512:514] = bytes((0x76, 0x44))
    struct.pack_into("<HLH", data, 514, 1024, namespaces, 0x5F)
    data[525] = 1
    struct.pack_into("<L", data, 536, 0x1_0001 if sgl else 0)
    struct.pack_into("<H2xLL", data, 2048, 850, 0, 0)
    struct.pack_into("<HBBLL", data, 2080, 300, 0, 2, 1000, 2000)
    return bytes(data)


def active_list(namespaces: list[Namespace]) -> bytes:
    """Active Namespace ID list, CNS 02h."""
    return struct.pack(f"<{len(namespaces)}L", *(one.nsid for one in namespaces)).ljust(4096, b"\0")
