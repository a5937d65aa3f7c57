"""All 1024 codes at both running disparities, in every position of the word, against the transmitter's table."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from tests.gateware.phy import transmitter as t
from tests.gateware.phy.symbols import Received, unpack

CONTROL = (0x1C, 0x3C, 0x5C, 0x7C, 0x9C, 0xBC, 0xDC, 0xFC, 0xF7, 0xFB, 0xFD, 0xFE)
COLUMN = {
    disparity: {
        t.encode(v, k, disparity)[0]: (v, k, t.encode(v, k, disparity)[1])
        for k, values in ((False, range(256)), (True, CONTROL))
        for v in values
    }
    for disparity in (-1, 1)
}
LEAVES = {disparity: next(c for c, (_v, _k, after) in COLUMN[-disparity].items() if after == disparity) for disparity in (-1, 1)}
"""Code that leaves each running disparity."""


def followed(code: str, disparity: int) -> int:
    """Return the running disparity after any ten bits: IEEE 802.3, 36.2.4.4."""
    for block, high in ((code[:6], "000111"), (code[6:], "0011")):
        balance = block.count("1") - block.count("0")
        if balance:
            disparity = 1 if balance > 0 else -1
        elif block == high:
            disparity = 1
        elif block == t_complement(high):
            disparity = -1
    return disparity


def t_complement(code: str) -> str:
    return "".join("10"[int(bit)] for bit in code)


def expected(code: str, disparity: int) -> Received:
    if code in COLUMN[disparity]:
        value, k, after = COLUMN[disparity][code]
        assert followed(code, disparity) == after  # the rule agrees with the table
        return Received(value, k)
    if code in COLUMN[-disparity]:
        return Received(*COLUMN[-disparity][code][:2], disparity=True)
    return Received(0, False, error=True)


@cocotb.test()
async def every_code(dut, symbols=4):
    Clock(dut.clk, 4, unit="ns").start()
    port = {p: getattr(dut, f"decoder{symbols}__{p}") for p in ("codes__payload", "codes__valid", "out__payload", "out__valid", "bad")}
    # Every code comes at either disparity in every position. A code sets the disparity first; further codes lead from one position
    # to the other. The disparity between them follows the rule.
    stream = []
    for place in range(symbols):
        for disparity in (-1, 1):
            for code in range(1024):
                filler = [LEAVES[disparity]] * (place if place else symbols)
                stream += [*filler, f"{code:010b}", *[LEAVES[-disparity]] * (symbols - place - 1)]
    seen = {(n % symbols, d, c): 0 for n in range(symbols) for d in (-1, 1) for c in range(1024)}
    running, want = -1, []
    for n, code in enumerate(stream):
        want.append(expected(code, running))
        seen[n % symbols, running, int(code, 2)] += 1
        running = followed(code, running)
    assert all(seen.values())

    await FallingEdge(dut.clk)
    port["codes__valid"].value = 1
    got = []
    for at in range(0, len(stream) + 2 * symbols, symbols):
        bits = "".join(stream[at : at + symbols])
        port["codes__payload"].value = int(bits[::-1] or "0", 2)
        await FallingEdge(dut.clk)
        if at >= symbols:
            assert port["out__valid"].value == 1
            word = unpack(int(port["out__payload"].value), symbols)
            assert bool(port["bad"].value) == any(s.error or s.disparity for s in word)
            got += word
    assert len(got) == len(want) + symbols
    for n, (is_, should) in enumerate(zip(got, want)):
        if should.error:
            assert is_.error and not is_.disparity, (stream[n], is_)
        else:
            assert is_ == should, (stream[n], is_, should)
