"""Lane-to-lane deskew at 8 GT/s."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .blocks import BLOCK_WORD, BlockKind, block_link_word

__all__ = ["MAX_SKEW_BITS", "BlockDeskew"]

MAX_SKEW_BITS = 48
"""Skew in bits between the first and the last lane: 6 ns at 8 GT/s (PCIe Base 3.0, L_RX-SKEW). The tests hold the deskew to it."""
_WAIT = 4
"""Clocks between the marks of the lanes, at most: 48 bits are less than two words, and blocks begin anywhere in their words."""
_DEPTH = 32
_MARKS = (BlockKind.SOS, BlockKind.SDS, BlockKind.EIEOS)


class BlockDeskew(wiring.Component):
    """Joins the words of each lane to words of all lanes without skew; one word a clock.

    Each lane has a queue. The link becomes ``aligned`` when SKP ordered sets, SDS or EIEOS come to the heads of all queues within
    four clocks. From then on one word of each lane leaves at a time. The link stays aligned until the blocks of one lane end
    elsewhere than the other lanes' blocks, a lane loses its blocks, or a queue is full (``overflow``). The time of a word is taken
    before the queue, so the queue's delay does not enter.

    The first lane with a valid sync header decides the kind of a block.

    Ports
    -----
    words : :data:`BLOCK_WORD` of each wire.
    valid : the word of each wire is valid.
    moved : the words of each wire do not continue those before.
    reverse : lane 0 of the link is the last wire.
    active : lanes of the link (not wires) in use. Other lanes come out too.
    out : :func:`block_link_word`.
    aligned : level: the lanes are deskewed.
    differs : strobe: the lanes disagree on the kind of a block.
    overflow : strobe: a queue was full.
    """

    def __init__(self, lanes: int):
        word = block_link_word(lanes)
        self._lanes = lanes
        super().__init__(
            {
                "words": In(data.ArrayLayout(BLOCK_WORD, lanes)),
                "valid": In(lanes),
                "moved": In(lanes),
                "reverse": In(1),
                "active": In(lanes),
                "out": Out(stream.Signature(word)),
                "aligned": Out(1),
                "differs": Out(1),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        n_lanes = self._lanes
        heads = [Signal(BLOCK_WORD, name=f"head{n}") for n in range(n_lanes)]
        filled, full, mark = Signal(n_lanes), Signal(n_lanes), Signal(n_lanes)
        pop, flush = Signal(n_lanes), Signal()
        lanes = Array(heads)
        used = Signal(n_lanes)  # of each wire
        m.d.comb += used.eq(Mux(self.reverse, self.active[::-1], self.active))
        for n in range(n_lanes):
            m.submodules[f"queue{n}"] = queue = Memory(shape=BLOCK_WORD, depth=_DEPTH, init=[])
            write, read = queue.write_port(), queue.read_port(domain="comb")
            put, get = Signal(range(2 * _DEPTH), name=f"put{n}"), Signal(range(2 * _DEPTH), name=f"get{n}")
            m.d.comb += [
                write.addr.eq(put),
                write.data.eq(self.words[n]),
                write.en.eq(self.valid[n]),
                read.addr.eq(get),
                heads[n].eq(read.data),
                filled[n].eq(put != get),
                full[n].eq((put - get)[: len(put)] == _DEPTH),
                mark[n].eq(filled[n] & heads[n].first & Cat(heads[n].kind == k for k in _MARKS).any()),
            ]
            m.d.sync += put.eq(put + self.valid[n])
            with m.If(flush):
                m.d.sync += get.eq(put)
            with m.Elif(pop[n] | (filled[n] & ~used[n])):
                m.d.sync += get.eq(get + 1)

        logical = [Mux(self.reverse, heads[-1 - n].as_value(), heads[n].as_value()) for n in range(n_lanes)]
        ordered = [Signal(BLOCK_WORD, name=f"lane{n}") for n in range(n_lanes)]
        m.d.comb += [o.as_value().eq(v) for o, v in zip(ordered, logical)]
        chosen = Signal(range(n_lanes))
        for n in reversed(range(n_lanes)):
            with m.If(used[n] & ~heads[n].bad_header):
                m.d.comb += chosen.eq(n)
        kind = Signal(BlockKind)
        same_kind, same_first = Signal(), Signal()
        m.d.comb += [
            kind.eq(lanes[chosen].kind),
            same_kind.eq(Cat((h.kind == kind) | ~u for h, u in zip(heads, used)).all()),
            same_first.eq(Cat((h.first == ordered[0].first) | ~u for h, u in zip(heads, used)).all()),
        ]

        wait = Signal(range(_WAIT + 1))
        free = Signal()
        m.d.comb += free.eq(~self.out.valid | self.out.ready)
        m.d.sync += [self.differs.eq(0), self.overflow.eq(0)]
        with m.If(free):
            m.d.sync += self.out.valid.eq(0)
        too_many = full & self.valid & used
        with m.If((self.moved & used).any() | too_many.any()):
            m.d.comb += flush.eq(1)
            m.d.sync += [self.aligned.eq(0), wait.eq(0), self.overflow.eq(too_many.any())]
        with m.Elif(~self.aligned):
            with m.If((mark | ~used).all() & same_kind):
                m.d.sync += [self.aligned.eq(1), wait.eq(0)]
            with m.Elif(wait == _WAIT):
                m.d.comb += pop.eq(filled)
                m.d.sync += wait.eq(0)
            with m.Else():
                m.d.comb += pop.eq(filled & ~mark)
                m.d.sync += wait.eq(Mux((mark & used).any(), wait + 1, 0))
        with m.Elif((filled | ~used).all()):
            with m.If(~same_first):
                m.d.comb += flush.eq(1)
                m.d.sync += self.aligned.eq(0)
            with m.Elif(free):
                m.d.comb += pop.eq(filled)
                out = self.out.payload
                m.d.sync += [
                    self.out.valid.eq(1),
                    self.differs.eq(~same_kind & ordered[0].first),
                    *(out.data[n].eq(o.data) for n, o in enumerate(ordered)),
                    out.kind.eq(kind),
                    out.first.eq(ordered[0].first),
                    out.last.eq(lanes[chosen].last),
                    out.time.eq(ordered[0].time),
                ]
        return m
