"""Framing, for any symbols: whole frames come out after any input, and nothing else does.

The reference goes symbol time by symbol time and knows only the definition of a whole frame. It restarts at every STP or SDP. After
any damage, the framer has therefore recovered with the first symbol of the next frame.
"""

import os

import pytest
from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Assert, Assume
from wattbell_gateware.link.delimit import LATENCY, FrameDelimiter, quads_per_clock
from wattbell_gateware.link.pack import TlpPacker

from tests.gateware.formal import smt

ALL = os.environ.get("WATTBELL_FORMAL") == "all"
STP, SDP, END, EDB = 0xFB, 0x5C, 0xFD, 0xFE
SHORTEST = 20
"""Symbols in the shortest TLP's frame: three double words, sequence number and LCRC, STP and END."""
FULL = 24


class Reference:
    """Definition of whole frames. ``count``: symbols of the open frame so far; from 24 on only its remainder modulo 4 is kept."""

    def __init__(self, m, lanes, symbols, word, valid, enable, width):
        self.m = m
        self.open, self.dllp, self.count = Signal(name="r_open"), Signal(name="r_dllp"), Signal(range(32), name="r_count")
        self.kept = Signal(8 * 4, name="r_kept")  # the last four symbols, newest on top
        self.quads = [[] for _ in range(quads_per_clock(lanes, symbols))]
        self.whole_tlp, self.long_tlp = [], []
        at = (self.open, self.dllp, self.count, self.kept)
        for t in range(symbols):
            at = self._time(t, lanes, [word[n][t] for n in range(lanes)], enable, width, at)
        with m.If(valid):
            m.d.sync += [a.eq(b) for a, b in zip((self.open, self.dllp, self.count, self.kept), at)]

    def _time(self, t, lanes, symbols, enable, width, before):
        m = self.m
        was_open, was_dllp, was, kept = before
        out = [Signal(shape, name=f"r_{name}{t}") for name, shape in (("open", 1), ("dllp", 1), ("count", range(32)), ("kept", 32))]
        is_open, dllp, count, newest = out
        ends = Signal(name=f"r_ends{t}")
        m.d.comb += dllp.eq(was_dllp)
        for log in range(lanes.bit_length()):
            n = 1 << log
            used = symbols[:n]
            is_data = [~s.k & ~s.error & ~s.plain for s in used]
            with m.If(width == log):
                first, last = used[0], used[-1]
                starts = first.k & ~first.error & ((first.data == STP) | (first.data == SDP)) & enable
                grown = Signal(range(40), name=f"r_grown{t}_{n}")
                m.d.comb += [grown.eq(was + n), newest.eq(Cat(kept, *(s.data for s in used))[-32:])]
                finish = last.k & ~last.error & ((last.data == END) | ((last.data == EDB) & ~was_dllp))
                with m.If(starts):
                    m.d.comb += [is_open.eq(Cat(Const(1, 1), *is_data[1:]).all()), dllp.eq(first.data == SDP), count.eq(n)]
                with m.Elif(was_open & enable & Cat(is_data).all()):
                    m.d.comb += [is_open.eq(~(was_dllp & (grown == 8))), count.eq(Mux(grown >= FULL + 4, grown - 4, grown))]
                with m.Elif(was_open & enable & finish & Cat(Const(1, 1), *is_data[:-1]).all()):
                    m.d.comb += [count.eq(grown), ends.eq((grown[:2] == 0) & (grown >= 8) & (~was_dllp | (grown == 8)))]
                at_quad = (is_open | ends) & (count[:2] == 0)
                last_is_edb = last.data == EDB
                self.quads[t * n // 4].append((width == log, at_quad, count == 4, dllp, Mux(ends, Mux(last_is_edb, 2, 1), 0), newest))
        self.whole_tlp.append(ends & ~dllp)
        self.long_tlp.append(ends & ~dllp & (count >= SHORTEST))
        return tuple(out)


class Framing(Elaboratable):
    """``wrong``: a violated claim."""

    def __init__(self, lanes, symbols, wrong=None):
        self.lanes, self.symbols, self.wrong = lanes, symbols, wrong
        self.delimiter = FrameDelimiter(lanes, symbols)
        dut = self.delimiter
        self.ports = [dut.word.payload.as_value(), dut.word.valid, dut.enable, dut.width]

    def elaborate(self, platform):
        m = Module()
        m.submodules.delimiter = dut = self.delimiter
        m.submodules.packer = packer = TlpPacker(self.lanes, self.symbols)
        m.d.comb += [packer.quads.valid.eq(dut.out.valid), packer.quads.payload.eq(dut.out.payload)]
        width = Signal(2)
        started = Signal()
        m.d.sync += [width.eq(dut.width), started.eq(1)]
        m.d.comb += Assume((1 << dut.width) <= self.lanes)
        with m.If(started):
            m.d.comb += Assume(width == dut.width)
        reference = Reference(m, self.lanes, self.symbols, dut.word.payload, dut.word.valid, dut.enable, dut.width)
        self._quads(m, dut, reference)
        self._beats(m, dut, packer, reference)
        return m

    def _late(self, m, value, clocks, name):
        for n in range(clocks):
            following = Signal(len(value), name=f"{name}_late{n}")
            m.d.sync += following.eq(value)
            value = following
        return value

    def _quads(self, m, dut, reference):
        valid = dut.word.valid
        is_open = Signal(name="monitor_open")
        now = is_open
        for k, times in enumerate(reference.quads):
            expected = Signal(1 + 1 + 1 + 2 + 32, name=f"expected{k}")
            for mine, at_quad, first, dllp, end, values in times:
                with m.If(mine & at_quad & valid):
                    m.d.comb += expected.eq(Cat(Const(1, 1), first, dllp, Cat(end)[:2], values))
            was = self._late(m, expected, LATENCY, f"expected{k}")
            q = dut.out.payload.quads[k]
            seen = q.valid & dut.out.valid
            m.d.comb += Assert(seen == was[0])
            with m.If(seen):
                m.d.comb += Assert(Cat(q.first, q.dllp, q.end.as_value(), q.data) == was[1:])
            # No quad outside of a frame
            inside = now & ~(q.abort & dut.out.valid)
            m.d.comb += Assert(~seen | (q.first == ~inside))
            following = Signal(name=f"monitor{k}")
            m.d.comb += following.eq(Mux(seen, q.end.as_value() == 0, inside))
            now = following
        m.d.sync += is_open.eq(now)

    def _beats(self, m, dut, packer, reference):
        beat, valid = packer.beats.payload, packer.beats.valid
        inside = Signal(name="inside")
        with m.If(valid):
            m.d.comb += Assert(beat.first == ~inside)
            m.d.comb += Assert(beat.last | (beat.dws == quads_per_clock(self.lanes, self.symbols)))
            m.d.sync += inside.eq(~beat.last)
        whole = Cat(reference.whole_tlp).any() & dut.word.valid
        long = Cat(reference.long_tlp).any() & dut.word.valid
        was_whole, was_long = self._late(m, whole, LATENCY + 2, "whole"), self._late(m, long, LATENCY + 2, "long")
        good = Signal()
        m.d.comb += good.eq(valid & beat.last & ~beat.broken)
        if self.wrong:
            m.d.comb += Assert(~good)
        if quads_per_clock(self.lanes, self.symbols) == 1:
            m.d.comb += [Assert(~was_long | good), Assert(~good | was_whole)]
        else:  # the last beat of two comes a cycle later
            before, more = self._late(m, was_long, 1, "before"), self._late(m, valid & ~beat.last, 1, "more")
            m.d.comb += [Assert(~was_long | good | (valid & ~beat.last)), Assert(~(before & more) | good)]
            m.d.comb += Assert(~good | was_whole | self._late(m, was_whole, 1, "whole_before"))
        m.d.comb += Assert(packer.quads.ready)


# Cycles: some arbitrary symbols, the shortest TLP, and the latency.
SIZES = {(2, 2): 12, **({(1, 2): 19, (2, 4): 11, (4, 2): 11, (1, 4): 13} if ALL else {})}


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_whole_frames_and_nothing_else(size, tmp_path):
    top = Framing(*size)
    smt.prove(top, top.ports, tmp_path, depth=SIZES[size])


def test_a_tlp_fits_into_so_many_clocks(tmp_path):
    """The test shows that the claim above is not vacuous."""
    top = Framing(2, 2, wrong="no TLP ever comes out")
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, top.ports, tmp_path, depth=SIZES[2, 2])
