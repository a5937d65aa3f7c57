"""The 8 GT/s transmitter against published vectors; each names its source."""

from __future__ import annotations

import pytest

from tests.gateware.phy.transmitter import datalink
from tests.gateware.phy.transmitter.gen3_link import Gen3Link
from tests.gateware.phy.transmitter.gen3_scrambler import SEEDS, Scrambler
from tests.gateware.phy.transmitter.gen3_sets import Block, LaneEncoder, fixed, skip, training
from tests.gateware.phy.transmitter.gen3_tokens import EDS, frame_crc, stp, tlp_bytes

# What Xilinx's UltraScale endpoint model (hard block) sends on lane 0 when it enters 8 GT/s, captured at its serialiser's input and
# published with an open soft endpoint that is checked against it: words of 32 bits, first symbol in the low byte. First blocks of
# Recovery.Equalization phase 0: EIEOS, SKP ordered set, four TS1.
CAPTURE = """
ff00ff00 ff00ff00 ff00ff00 ff00ff00   aaaaaaaa aaaaaaaa aaaaaaaa bcbf9de1
6794221e cef8c65d 8b3fea78 4d89054e   f9c6b91e ab94b0ad 1d86912d 39082304
fcb7901e 5e9a45ee 099d6b18 9abf1766   7176de1e 57f19dcd eb3c7fe5 082e0630
"""
# Frame CRC: the equations of PCIe Base 3.0, 4.2.2.3.1, as quoted by every implementation: which bits of the length make C[0] .. C[3]
# and (in reduced form) the parity.
FRAME_CRC = ((10, 7, 6, 4, 2, 1, 0), (10, 9, 7, 5, 4, 3, 2), (9, 8, 6, 4, 3, 2, 1), (8, 7, 5, 3, 2, 1, 0))
FRAME_PARITY = (10, 9, 8, 6, 5, 2, 0)


def blocks_of(capture):
    data = b"".join(bytes.fromhex(word)[::-1] for word in capture.split())
    return [data[n : n + 16] for n in range(0, len(data), 16)]


def test_ordered_sets_are_the_captured_ones():
    blocks = blocks_of(CAPTURE)
    lane = LaneEncoder(0)
    sent = [lane.on_the_wire(b) for b in (fixed("EIEOS"), skip(16))]
    ts1 = training("TS1", link=0x9F, lane=0, rates=0x0E, equalisation=(0x20, 0x00, 0x28, 0x80))
    sent += [lane.on_the_wire(ts1) for _ in range(4)]
    assert {header for header, _ in sent} == {"10"}
    symbols = [bytes(s) for _, s in sent]
    assert symbols[:5] == blocks[:5]
    # The last symbol of the fourth serves DC balance (08) and is not scrambled.
    assert symbols[5][:15] == blocks[5][:15] and blocks[5][15] == 0x08


def test_keystream_and_seeds():
    # Lane 0 (as published by several implementations, and in Berkeley's UCIe test of the same register: 1DBFBC, 210125).
    assert bytes(Scrambler(0).key() for _ in range(1)) == b"\x6c"
    scrambler = Scrambler(0)
    assert bytes(scrambler.key() for _ in range(6)).hex() == "6cbd949853c6"
    # The specification notes that every second lane's key is the sum of its neighbours': seeds without a typing error.
    for lane, (one, other) in {0: (1, 7), 2: (1, 3), 4: (3, 5), 6: (5, 7)}.items():
        assert SEEDS[lane] == SEEDS[one] ^ SEEDS[other]
    one = Scrambler(3)
    two = [Scrambler(2), Scrambler(1)]
    assert [one.key() for _ in range(50)] == [two[0].key() ^ two[1].key() for _ in range(50)]


def test_frame_crc_is_that_of_the_equations():
    for length in range(2048):
        bit = [length >> n & 1 for n in range(11)]
        token = int.from_bytes(stp(length, 0xABC), "little")
        crc = [sum(bit[n] for n in row) & 1 for row in FRAME_CRC]
        assert frame_crc(length) == sum(b << n for n, b in enumerate(crc))
        assert token & 0xF == 0xF and token >> 4 & 0x7FF == length and token >> 20 & 0xF == frame_crc(length)
        assert token >> 15 & 1 == sum(bit[n] for n in FRAME_PARITY) & 1
        assert stp(length, 0xABC)[2] & 0xF == 0xA and stp(length, 0xABC)[3] == 0xBC
    assert stp(1, 0) == EDS  # which is why a length of 1 is not a TLP


def test_sos_carries_register_and_parity():
    lane = LaneEncoder(2)
    lane.on_the_wire(fixed("EIEOS"))
    data = Block("DATA", tuple(range(16)))
    _, scrambled = lane.on_the_wire(data)
    before = lane.scrambler.state
    for length in (8, 24):
        header, sent = lane.on_the_wire(skip(length))
        assert header == "10" and sent[: length - 4] == [0xAA] * (length - 4) and sent[-4] == 0xE1
        assert (sent[-3] & 127) << 16 | sent[-2] << 8 | sent[-1] == before == lane.scrambler.state
        parity = sum(bin(s).count("1") for s in scrambled) & 1
        assert sent[-3] >> 7 == (parity if length == 8 else 1 - (before >> 22))
    with pytest.raises(ValueError, match="8, 12, 16, 20 or 24"):
        skip(10)


def test_a_tlp_in_its_frame():
    # The read of the published LCRC vector (see test_transmitter.py): sequence 0, three double words.
    tlp = bytes.fromhex("040000010000000f01000000")
    frame = tlp_bytes(tlp, 0)
    assert frame[4:16] == tlp and frame[16:] == bytes.fromhex("4fa62aff") == datalink.lcrc(bytes(2) + tlp)
    assert frame[:2] == bytes([0x5F, frame[1]]) and len(frame) == 4 * 5
    null = tlp_bytes(tlp, 0, nullified=True)
    assert null[16:20] == bytes(255 - b for b in frame[16:]) and null[20:] == b"\xc0" * 4 and null[:16] == frame[:16]


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_striping_and_the_wires(lanes):
    link = Gen3Link(lanes, sos_interval=3, sos_symbols=(16, 8, 24))
    link.train(first=1, second=1)
    link.idle(3)
    place = link.dllp(bytes.fromhex("400800e0"))
    link.idle(16 * 8)
    link.fill()
    kinds = [b[0].kind for b in link.blocks]
    assert kinds[:6] == ["EIEOS", "TS1", "TS2", "EIEOS", "SOS", "SDS"]
    stream = b"".join(bytes(s) for b in link.blocks if b[0].kind == "DATA" for s in zip(*(lane.symbols for lane in b)))
    assert stream[: 3 * lanes + 8] == bytes(3 * lanes) + bytes.fromhex("f0ac400800e0f506")
    assert (kinds[place.block], place.symbol) == ("DATA", 3)
    at = [n for n, kind in enumerate(kinds) if kind == "SOS"]
    assert len(at) >= 3 and [len(link.blocks[n][0].symbols) for n in at[:3]] == [16, 8, 24]
    for n in at[1:]:
        assert bytes(s for group in zip(*(lane.symbols for lane in link.blocks[n - 1])) for s in group)[-4:] == EDS
        assert kinds[n - 3 : n + 1] == ["DATA"] * 3 + ["SOS"]
    plain = link.bits()
    assert plain[0][:2] == bytes([1, 0]) and len(plain[0]) == sum(2 + 8 * len(b[0].symbols) for b in link.blocks)
    start = link.starts()[place.block]
    assert plain[0][start - 2 : start] == bytes([0, 1])
    late = [3, 48, 0, 17][:lanes]
    wires = link.bits(late=late, invert=[n % 2 == 0 for n in range(lanes)], reverse=True)[::-1]
    for n in range(lanes):
        assert wires[n][late[n] :] == (bytes(1 - b for b in plain[n]) if n % 2 == 0 else plain[n])
