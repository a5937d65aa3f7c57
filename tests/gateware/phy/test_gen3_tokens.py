"""The gateware's token decoder against the transmitter's tokens, with no, one and two bit errors."""

import random

import pytest
from amaranth.sim import Simulator
from wattbell_gateware.link.tokens import TokenDecoder

from tests.gateware.phy.transmitter.gen3_tokens import EDB, EDS, SDP, stp

NUMBER = {*range(16, 20), *range(24, 32)}
"""Bits of the sequence number, which only the LCRC protects."""


def decoded(words):
    """Return (stp, exact, length, sequence, sdp, edb, eds, idle, wrong) of each word."""
    decoder, out = TokenDecoder(), []

    async def bench(ctx):
        for word in words:
            ctx.set(decoder.word, word)
            await ctx.delay(1e-9)
            names = ("stp", "exact", "length", "sequence", "sdp", "edb", "eds", "idle", "wrong")
            out.append({name: ctx.get(getattr(decoder, name)) for name in names})

    simulator = Simulator(decoder)
    simulator.add_testbench(bench)
    simulator.run()
    return out


def word(token):
    return int.from_bytes(token, "little")


def test_every_length():
    lengths = range(2048)
    for length, got in zip(lengths, decoded([word(stp(n, n % 4096)) for n in lengths])):
        assert got["stp"] == (5 <= length <= 1151) and got["eds"] == (length == 1)
        if got["stp"]:
            assert got["exact"] and got["length"] == length and got["sequence"] == length % 4096 and not got["wrong"]


@pytest.mark.parametrize("length", [5, 6, 20, 64, 511, 1031, 1151])
def test_one_wrong_bit_is_put_right(length):
    token = word(stp(length, 0x5A5))
    for bit, got in enumerate(decoded([token ^ 1 << bit for bit in range(32)])):
        assert got["stp"] and got["length"] == length
        assert got["exact"] == (bit in NUMBER) and got["wrong"] == (bit not in NUMBER)
        assert (got["sequence"] == 0x5A5) == (bit not in NUMBER)


def test_two_wrong_bits_are_no_token():
    r = random.Random(1)
    code = [n for n in range(32) if n not in NUMBER]
    cases = [(r.randrange(5, 1152), *r.sample(code, 2)) for _ in range(300)]
    words = [word(stp(length, 0)) ^ 1 << a ^ 1 << b for length, a, b in cases]
    assert not any(got["exact"] and got["stp"] for got in decoded(words))
    assert not any(got["stp"] for got in decoded(words))


def test_the_other_tokens():
    for token, name in ((SDP + b"\x12\x34", "sdp"), (EDB, "edb"), (EDS, "eds"), (bytes(4), "idle")):
        span = 16 if name == "sdp" else 32
        right, *near = decoded([word(token)] + [word(token) ^ 1 << bit for bit in range(span)])
        assert right[name] and not right["wrong"] and not right["stp"]
        assert all(got[name] and got["wrong"] and not got["stp"] for got in near)
        others = {"sdp", "edb", "eds", "idle"} - {name}
        assert not any(got[other] for got in near for other in others)
