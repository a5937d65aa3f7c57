"""The transmitter against published vectors; each names its source."""

from __future__ import annotations

import random
import re

import pytest
from cocotbext.pcie.core.dllp import Dllp, DllpType
from cocotbext.pcie.core.tlp import Tlp, TlpType

from tests import needs
from tests.gateware.phy import transmitter as t

# Control symbols at negative and positive disparity, abcdei fghj: table 3-4 of the Teledyne LeCroy serial decode manual
# (919586 rev. A, page 51), after US patent 4486739.
PUBLISHED_K = """
28.0 001111 0100 110000 1011   28.1 001111 1001 110000 0110   28.2 001111 0101 110000 1010   28.3 001111 0011 110000 1100
28.4 001111 0010 110000 1101   28.5 001111 1010 110000 0101   28.6 001111 0110 110000 1001   28.7 001111 1000 110000 0111
23.7 111010 1000 000101 0111   27.7 110110 1000 001001 0111   29.7 101110 1000 010001 0111   30.7 011110 1000 100001 0111
"""
# PCI Express Base 2.1, appendix C, page 700: values of the register after a reset, and 00h scrambled repeatedly. As quoted by several
# public test benches (among them FPGA_DisplayPort's scrambler.vhd, whose DisplayPort uses the same register).
PUBLISHED_STATES = """
FFFF E817 0328 284B 4DE8 E755 404F 4140 4E79 761E 1466 6574 7DBD B6E5 FDA6 B165
7D09 02E5 E572 673D 34CF CB54 4743 4DEF E055 40E0 EE40 54BE B334 2C7B 7D0C 07E5
E5AF BA3D 248A 8DC4 D995 85A1 BD5D 4425 2BA4 A2A3 B8D2 CBF8 EB43 5763 6E7F 773E
345F 5B54 5853 5F18 14B7 B474 6CD4 DC4C 5C7C 70FC F6F0 E6E6 F376 603B 3260 64C2
CB84 9743 5CBF B3FC E47B 6E04 0C3E 3F2C 29D7 D1D1 C069 7BC0 CB73 6043 4A60 6FFA
F207 1102 01A9 A939 2351 566B 6646 4FF6 F927 3081 85B0 AC5D 478C 82EF F3F2 E43B
2E04 027E 7E72 79AE A501 1A7D 7F2A 2197 9019 0610 1096 9590 8FCD D0E7 F650 46E6
E8D6 C228 3AB2 B70A 129F 9CE2 FC3C 2B5C 5AA3 AF6A 70C7 CDF0 E3D5 C0AB B9C0 D9C1
"""
PUBLISHED_KEYS = """
FF 17 C0 14 B2 E7 02 82 72 6E 28 A6 BE 6D BF 8D BE 40 A7 E6 2C D3 E2 B2 07 02 77 2A CD 34 BE E0
A7 5D 24 B1 9B A1 BD 22 D4 45 1D D3 D7 EA 76 EE 2C DA 1A FA 28 2D 36 3B 3A 0E 6F 67 CF 06 4C 26
"""
# DLLPs as sent: the first two from captures, the others the constants of openCologne-PCIE's RTL (send_DLLP.v) and
# computed by three implementations in its protocol notes.
PUBLISHED_DLLP = """
50080020 12d9  400800e0 f506  400803f0 35bc  50080001 b1f6  60000000 d892  c00803f0 4fc3  d0080001 cb89  e0000000 a2ed
00000000 b362  00000fff 25a8  10000005 7d70  800280c8 ecf8
"""
# Sequence number and TLP, and the LCRC as sent: a CfgRd0; the check string of every CRC-32 catalogue; a MRd (same notes).
PUBLISHED_LCRC = """
0000040000010000000f01000000 4fa62aff  313233343536373839 2639f4cb  0000000000010100000f00001000 9ae8f8c2
"""


def test_control_symbols_are_the_published_ones():
    rows = re.findall(r"(\d+)\.(\d) (\d{6}) (\d{4}) (\d{6}) (\d{4})", PUBLISHED_K)
    assert len(rows) == 12
    for x, y, *codes in rows:
        value = int(x) | int(y) << 5
        assert t.encode(value, True, -1)[0] == codes[0] + codes[1]
        assert t.encode(value, True, +1)[0] == codes[2] + codes[3]
    with pytest.raises(ValueError, match=r"no K\.3\.7"):
        t.encode(0xE3, True, -1)


def test_data_symbols_are_those_of_another_implementation():
    other = needs.library("encdec8b10b").EncDec8B10B  # PyPI, table from OpenCores
    for value in range(256):
        for disparity in (-1, 1):
            after, code = other.enc_8b10b(value, int(disparity > 0), 0)
            assert t.encode(value, False, disparity) == (f"{code:010b}"[::-1], 1 if after else -1)


def test_code_has_the_properties_it_was_made_for():
    for disparity in (-1, 1):
        codes = [t.encode(v, False, disparity)[0] for v in range(256)]
        assert len(set(codes)) == 256
        assert all(0 <= (c.count("1") - 5) * -disparity <= 1 for c in codes)
    # Over any two data symbols: no run longer than five, and no comma (abcdeif of K28.5).
    for disparity in (-1, 1):
        for first in range(256):
            one, between = t.encode(first, False, disparity)
            for second in range(256):
                two = one + t.encode(second, False, between)[0]
                assert "000000" not in two and "111111" not in two
                assert "0011111" not in two and "1100000" not in two


def test_scrambler_is_the_published_one():
    scrambler = t.Scrambler()
    states, keys = [], []
    for _ in range(128):
        states.append(f"{scrambler.state:04X}")
        keys.append(f"{scrambler.key():02X}")
    assert states == PUBLISHED_STATES.split()
    assert keys[:64] == PUBLISHED_KEYS.split()


def test_what_is_scrambled_and_what_moves_the_register():
    keys = [int(k, 16) for k in PUBLISHED_KEYS.split()]
    link = t.Link(1, skp_interval=0)
    link.skp(3)  # COM resets, SKP holds
    link.idle(2)
    link.on_all([t.STP, t.Symbol(0x55), t.Symbol(0x33, plain=True), t.Symbol(0)])
    sent = link.on_the_wire()[0]
    assert sent == [
        (0xBC, True),
        *[(0x1C, True)] * 3,
        (keys[0], False),
        (keys[1], False),
        (0xFB, True),
        (0x55 ^ keys[3], False),
        (0x33, False),
        (keys[5], False),
    ]


def test_dllp_crc_is_the_published_one():
    words = PUBLISHED_DLLP.split()
    for body, check in zip(words[::2], words[1::2]):
        assert t.dllp_crc(bytes.fromhex(body)).hex() == check


def test_dllp_crc_is_that_of_cocotbext_pcie():
    for kind, seq in ((DllpType.ACK, 5), (DllpType.NAK, 4095), (DllpType.PM_ENTER_L1, 0)):
        dllp = Dllp()
        dllp.type, dllp.seq = kind, seq
        assert dllp.pack_crc() == dllp.pack() + t.dllp_crc(dllp.pack())
    credit = Dllp()
    credit.type, credit.hdr_fc, credit.data_fc = DllpType.UPDATE_FC_P, 9, 77
    assert credit.pack_crc() == credit.pack() + t.dllp_crc(credit.pack())


def test_lcrc_is_the_published_one():
    words = PUBLISHED_LCRC.split()
    for body, check in zip(words[::2], words[1::2]):
        assert t.lcrc(bytes.fromhex(body)).hex() == check


def test_frames():
    tlp = Tlp()
    tlp.fmt_type, tlp.length, tlp.first_be, tlp.address = TlpType.MEM_READ, 1, 0xF, 0x1000
    link = t.Link(1, skp_interval=0, first_sequence=4095)
    link.send(tlp.pack())
    link.send(tlp.pack(), wrong_lcrc=1 << 31)
    link.nullify(tlp.pack())
    assert len(link.columns) == 3 * 20
    frames = [[c[0] for c in link.columns[at : at + 20]] for at in (0, 20, 40)]
    bodies = [bytes(s.value for s in f[1:-1]) for f in frames]
    assert [(f[0], f[-1]) for f in frames] == [(t.STP, t.END), (t.STP, t.END), (t.STP, t.EDB)]
    assert [b[:2] for b in bodies] == [b"\x0f\xff", b"\0\0", b"\0\1"]
    assert all(b[2:14] == bytes(tlp.pack()) for b in bodies)
    assert bodies[0][14:] == t.lcrc(bodies[0][:14])
    assert bodies[1][14:] == t.lcrc(bodies[1][:14])[:3] + bytes([t.lcrc(bodies[1][:14])[3] ^ 0x80])
    assert bodies[2][14:] == bytes(255 - b for b in t.lcrc(bodies[2][:14]))
    assert not any(s.k for f in frames for s in f[1:-1])


def test_replay_buffer():
    replayer = t.Replayer(first=4094)
    sent = [replayer.send(bytes([n])) for n in range(5)]
    assert [s for s, _ in sent] == [4094, 4095, 0, 1, 2]
    assert replayer.nak(4095) == sent[2:]
    replayer.acknowledge(0)
    assert replayer.nak(0) == sent[3:]
    replayer.acknowledge(2)
    assert replayer.nak(2) == []


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_striping_and_the_wires(lanes):
    link = t.Link(lanes, skp_interval=100, skp_count=(1, 5))
    link.training(t.TS1, 2, link=7, numbered=True)
    link.idle(150)
    at = link.dllp(bytes.fromhex("400800e0"))
    link.idle(150)
    striped = [c[n] for c in link.columns[at : at + 8 // lanes] for n in range(lanes)]
    assert [t.name(s) for s in striped] == ["K28.2", "D0.2", "D8.0", "D0.0", "D0.7", "D21.7", "D6.0", "K29.7"]
    assert [s.value for s in link.columns[2]] == list(range(lanes))
    sets = re.findall(
        "S(P+)([^SP]*)",
        "".join("S" if c[0] == t.COM and d[0] == t.SKP else "P" if c[0] == t.SKP else "." for c, d in zip(link.columns, link.columns[1:])),
    )
    assert [len(skips) for skips, _ in sets] == [1, 5, 1][: len(sets)] and len(sets) == 3
    assert all(100 <= len(between) <= 108 for _, between in sets[:-1])
    assert all(len(set(c)) == 1 for c in link.columns if t.SKP in c)
    plain = link.bits()
    skew, shift = [0, 5, 2, 1][:lanes], [3, 0, 9, 5][:lanes]
    wires = link.bits(skew=skew, shift=shift, invert=[n % 2 == 0 for n in range(lanes)], reverse=True)[::-1]
    for n in range(lanes):
        late = wires[n][10 * skew[n] + shift[n] :]
        assert late == (bytes(1 - b for b in plain[n]) if n % 2 == 0 else plain[n])
        assert len(plain[n]) == 10 * len(link.columns)


def test_words_and_errors():
    wire = bytearray([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] + [0] * 8 + [1] * 5)
    assert list(t.words(wire, 10)) == [1, 2] and list(t.words(wire, 20)) == [1 | 2 << 10]
    clean = bytearray(200_000)
    bad, places = t.damaged(clean, 1e-2, random.Random(3))
    assert sum(bad) == len(places) == len(set(places)) and all(bad[p] for p in places)
    assert 1700 < len(places) < 2300
    assert t.damaged(clean, 0, random.Random(3)) == (clean, [])
