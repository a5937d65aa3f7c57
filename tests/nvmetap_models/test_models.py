"""Host and drive models of cocotbext-nvmetap, in Icarus Verilog."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from pathlib import Path

import pytest
from cocotbext.nvmetap.entries import Completion, PointerError, Submission, data_pieces
from cocotbext.nvmetap.host import HostError, NvmeHost

from tests.nvmetap_models import simulate


@pytest.mark.needs("iverilog")
def test_host_and_drive(tmp_path: Path) -> None:
    simulate.run("cocotb_models", tmp_path)


class Root:
    """A root complex without a bus."""

    log = logging.getLogger("root")

    def alloc_region(self, size: int) -> tuple[int, bytearray]:
        return 0x10_0000, bytearray(size)


def pieces(host: NvmeHost, entry: Submission, length: int) -> list[tuple[int, int]]:
    async def fetch(address: int, size: int) -> bytes:
        return host.memory.read(address, size)

    return asyncio.run(data_pieces(entry, length, fetch))


@pytest.mark.parametrize("sgl", [False, True])
@pytest.mark.parametrize("pages", [1, 2, 3, 200, 256, 512, 513, 514, 1024, 1100])
@pytest.mark.parametrize("offset", [0, 4, 4092])
def test_the_drive_finds_the_pages_of_the_host(pages: int, offset: int, sgl: bool) -> None:
    host = NvmeHost(Root())
    random.Random(pages).shuffle(host.memory._free)
    length = 4096 * pages - offset
    if sgl and pages > 256:
        with pytest.raises(HostError, match="do not fit into one segment"):
            host.map_data(length, offset=offset, sgl=True)
        return
    before = len(host.memory._free)
    buffer = host.map_data(length, offset=offset, sgl=sgl)
    found = pieces(host, Submission(2, sgl=sgl, prp1=buffer.prp1, prp2=buffer.prp2), length)
    assert [address for address, _ in found] == [buffer.pages[0] + offset, *buffer.pages[1:]]
    assert [size for _, size in found] == [4096 - offset, *[4096] * (pages - 1)]
    data = random.Random(3).randbytes(length)
    host.fill(buffer, data)
    assert b"".join(host.memory.read(*piece) for piece in found) == data == host.data_of(buffer)
    host.unmap(buffer)
    assert len(host.memory._free) == before


def test_pointers_that_are_not_allowed() -> None:
    host = NvmeHost(Root())
    for entry, length, why in [
        (Submission(2, prp1=0x10_2001), 512, "PRP1 .* not aligned"),
        (Submission(2, prp1=0x10_2000, prp2=0x10_3010), 8192, "only PRP1"),
        (Submission(2, sgl=True, prp1=0x10_2000, prp2=512), 1024, "512 bytes too short"),
        (Submission(2, sgl=True, prp1=0x10_2000, prp2=5 << 60 | 512), 512, "kind 5"),
    ]:
        with pytest.raises(PointerError, match=why):
            pieces(host, entry, length)


def test_entries_have_the_bytes_of_the_specification() -> None:
    """The bytes are written by hand from sections 4.2 and 4.6 of NVM Express 1.4."""
    entry = Submission(2, 0x1234, 1, True, 0x1122334455667788, 0x99AABBCCDDEEFF00, 0xA0, 0xB0, 0xC0, 0xD0, 0xE0, 0xF0)
    data = bytes.fromhex(
        "02 40 34 12 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
        "88 77 66 55 44 33 22 11 00 ff ee dd cc bb aa 99"
        "a0 00 00 00 b0 00 00 00 c0 00 00 00 d0 00 00 00 e0 00 00 00 f0 00 00 00"
    )
    assert entry.pack() == data and Submission.unpack(data) == entry
    assert (entry.slba, entry.blocks) == (0xB0_0000_00A0, 0xC1)
    completion = Completion(0x01020304, 5, 6, 7, 0x4080, 1)
    raw = bytes.fromhex("04 03 02 01 00 00 00 00 05 00 06 00 07 00 01 81")
    assert completion.pack() == raw and Completion.unpack(raw) == completion
    assert dataclasses.replace(completion, phase=0).pack() != raw


def test_memory_that_is_too_small_says_so() -> None:
    host = NvmeHost(Root(), memory_bytes=16 * 4096)
    with pytest.raises(HostError, match="15 free pages and 16 are wanted: give NvmeHost more memory_bytes"):
        host.map_data(16 * 4096)
