"""Data stream of an 8 GT/s link: takes blocks, gives symbols in order."""

from __future__ import annotations

from amaranth import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..pcs.blocks import TIME_BITS, BlockKind, block_link_word

__all__ = ["DataStream", "stream_word"]


def stream_word(lanes: int) -> data.StructLayout:
    """Layout of one clock of the data stream.

    - ``data``: `lanes` * 4 symbols in the order of the stream, the first in bits 7:0; zero if not ``filled``.
    - ``filled``: the word has data.
    - ``restart``: with ``filled``: a token begins at its first symbol, whatever came before.
    - ``last``: with ``filled``: last word of its block.
    - ``end``: without ``filled``: the data stream is over.
    - ``time``: time of its first symbol.
    """
    return data.StructLayout({"data": 32 * lanes, "filled": 1, "restart": 1, "last": 1, "end": 1, "time": TIME_BITS})


class DataStream(wiring.Component):
    """Extracts the data stream from the blocks of a link; takes a word a clock, latency 1 clock.

    A data stream begins with the data block after an SDS or an SKP ordered set. It ends with any ordered set but SKP, with data of
    a lane that has no known register, and when the lanes are not ``aligned``. (In training, an SKP ordered set is followed by
    training sequences. Data after an SKP ordered set therefore always belongs to a data stream; a tap that attaches later begins
    there.)

    Ports
    -----
    words : :func:`block_link_word`.
    aligned : the lanes are deskewed.
    width : log2 of the lanes in use (0, 1, 2).
    out : :func:`stream_word`; with fewer lanes only the first symbols are used. Every ordered set gives a word without data.
    """

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "words": In(stream.Signature(block_link_word(lanes))),
                "aligned": In(1),
                "width": In(2),
                "out": Out(stream.Signature(stream_word(lanes))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word, out = self.words.payload, self.out.payload
        inside, behind, told = Signal(), Signal(), Signal(init=1)
        is_data = Signal()
        m.d.comb += [is_data.eq(word.kind == BlockKind.DATA), self.words.ready.eq(~self.out.valid | self.out.ready)]
        with m.If(self.words.ready):
            m.d.sync += self.out.valid.eq(0)
            with m.If(self.words.valid):
                m.d.sync += [
                    out.filled.eq(is_data & inside),
                    out.restart.eq(is_data & inside & behind & word.first),
                    out.last.eq(word.last),
                    out.end.eq(0),
                    out.time.eq(word.time),
                    self.out.valid.eq(word.first | (is_data & inside)),
                    out.data.eq(0),
                ]
                with m.If(is_data & inside):
                    with m.Switch(self.width):
                        for width in range(self._lanes.bit_length()):
                            with m.Case(width):
                                # Symbol s of lane l is symbol s * lanes + l of the stream.
                                m.d.sync += out.data.eq(Cat(word.data[n][8 * s : 8 * s + 8] for s in range(4) for n in range(1 << width)))
                    m.d.sync += behind.eq(0)
                with m.Elif(~is_data):
                    with m.If((word.kind == BlockKind.SOS) | (word.kind == BlockKind.SDS)):
                        m.d.sync += [inside.eq(1), behind.eq(1), told.eq(0)]
                    with m.Else():
                        m.d.sync += [inside.eq(0), out.end.eq(1), told.eq(1)]
            with m.Elif(~self.aligned & ~told):
                m.d.sync += [
                    out.filled.eq(0),
                    out.data.eq(0),
                    out.restart.eq(0),
                    out.end.eq(1),
                    self.out.valid.eq(1),
                    inside.eq(0),
                    told.eq(1),
                ]
        return m
