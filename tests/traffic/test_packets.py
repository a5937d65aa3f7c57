"""TLPs of the generator, unpacked by cocotbext-pcie; messages against bytes written down from PCIe 2.2.8."""

from __future__ import annotations

from cocotbext.pcie.core.tlp import Tlp, TlpType
from hypothesis import given
from hypothesis import strategies as st

from tests.traffic import packets

_IDS = st.integers(0, 0xFFFF)
_TAGS = st.integers(0, 0x3FF)


@given(st.booleans(), st.integers(0, 1 << 60), st.integers(1, 1024), _IDS, _TAGS, st.integers(0, 7), st.integers(0, 2), st.booleans())
def test_memory_request(read: bool, address: int, dwords: int, requester: int, tag: int, attr: int, at: int, ep: bool) -> None:
    """Every field comes back, and 4 DW are used above 4 GiB only."""
    header = packets.memory(read, address, dwords, requester, tag, attr=attr, at=at, ep=ep)
    tlp = Tlp.unpack_header(header)
    wide = address >= 1 << 32
    kinds = {(True, False): TlpType.MEM_READ, (True, True): TlpType.MEM_READ_64}
    kinds |= {(False, False): TlpType.MEM_WRITE, (False, True): TlpType.MEM_WRITE_64}
    assert tlp.fmt_type == kinds[read, wide]
    assert len(header) == tlp.get_header_size()
    assert (tlp.address, tlp.length, int(tlp.requester_id), tlp.tag) == (address & ~3, dwords, requester, tag)
    assert (int(tlp.attr), int(tlp.at), tlp.ep, tlp.first_be, tlp.last_be) == (attr, at, ep, 0xF, 0 if dwords == 1 else 0xF)


@given(st.integers(0, 1024), _IDS, _IDS, _TAGS, st.integers(1, 4096), st.integers(0, 1 << 40), st.sampled_from((0, 1, 4)))
def test_completion(dwords: int, completer: int, requester: int, tag: int, remaining: int, lower: int, status: int) -> None:
    """Every field comes back."""
    tlp = Tlp.unpack_header(packets.completion(dwords, completer, requester, tag, remaining, lower, status))
    assert tlp.fmt_type == (TlpType.CPL_DATA if dwords else TlpType.CPL)
    assert (tlp.length, int(tlp.completer_id), int(tlp.requester_id), tlp.tag) == (dwords, completer, requester, tag)
    assert (tlp.byte_count, tlp.lower_address, int(tlp.status)) == (remaining, lower & 0x7F, status)


@given(st.booleans(), st.integers(0, 1023), _IDS, _IDS, st.integers(0, 255), st.integers(1, 15))
def test_configuration_request(write: bool, register: int, requester: int, function: int, tag: int, first: int) -> None:
    """Every field comes back."""
    tlp = Tlp.unpack_header(packets.configuration(write, 4 * register, requester, function, tag, first))
    assert tlp.fmt_type == (TlpType.CFG_WRITE_0 if write else TlpType.CFG_READ_0)
    assert (tlp.address, int(tlp.requester_id), int(tlp.completer_id), tlp.tag) == (4 * register, requester, function, tag)
    assert (tlp.first_be, tlp.last_be, tlp.length) == (first, 0, 1)


def test_a_pasid_prefix() -> None:
    """Fmt 100, Type 1 0001, then the flags and 20 bits of PASID."""
    assert packets.pasid(0xABCDE) == bytes.fromhex("910abcde")


def test_messages() -> None:
    """Assert_INTA ends at the receiver and has no data; Set_Slot_Power_Limit has one dword."""
    assert packets.message(packets.ASSERT_INTA, 0x0100) == bytes.fromhex("34000000 01000020 00000000 00000000")
    assert packets.message(packets.SET_SLOT_POWER, 0, b"\x19\0\0\0") == bytes.fromhex("74000001 00000050 00000000 00000000 19000000")
