"""One direction of a link at 8 GT/s, from the deserialisers' words to checked TLPs."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..pcs.block_deskew import BlockDeskew
from ..pcs.block_lane import BlockLane
from ..pcs.blocks import TIME_BITS, BlockKind
from .layouts import DLLP, framed_beat
from .token_framer import TokenFramer
from .token_parser import Mode, TokenParser, parsed_word
from .token_stream import DataStream

__all__ = ["BLOCK_EVENTS", "BlockReceiver", "ordered_set"]

BLOCK_EVENTS = data.StructLayout({
    "bad_header": 4, "moved": 4, "corrected_register": 4, "damaged_skp": 4, "parity": 4,
    "lanes_differ": 1, "overflow": 1, "corrected_token": 1, "lost_token": 1, "regained": 1, "bad_dllp": 1,
})  # fmt: skip
"""Strobes; the first five of each wire. See the parts they come from: :class:`BlockAligner`, :class:`BlockDescrambler`,
:class:`BlockDeskew`, :class:`TokenParser`, :class:`TokenFramer`."""


def ordered_set(lanes: int) -> data.StructLayout:
    """An ordered set: kind, tick, the first four symbols of each lane (TS1 and TS2 descrambled: identifier, link, lane, N_FTS)."""
    return data.StructLayout({"kind": BlockKind, "symbols": data.ArrayLayout(32, lanes), "tick": 64})


class BlockReceiver(wiring.Component):
    """`lanes`: 1, 2 or 4 that are wired; the link may use fewer.

    Ports
    -----
    width : lanes the link has trained to: 0, 1, 2 for 1, 2, 4. What is going on when it changes is broken off.
    raw : 32 bits of each wire, first bit received in bit 0; valid : of all. tick : at which the first of these bits came. All are of
    one clock, which the lanes of a link share.
    reverse : lane 0 is the last wire. (Lanes in use are the first ones from there.)
    frames : :func:`framed_beat` of 32 bits a wired lane. dllps : :data:`DLLP`. sets : :func:`ordered_set`.
    locked, known, inverted : of each wire. aligned; in_stream : a data stream is being read, and where its tokens are is known.
    events : :data:`BLOCK_EVENTS`.
    """

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__({
            "raw": In(data.ArrayLayout(32, lanes)), "valid": In(1), "tick": In(64), "reverse": In(1), "width": In(2),
            "frames": Out(stream.Signature(framed_beat(32 * lanes), always_ready=True)),
            "dllps": Out(stream.Signature(DLLP, always_ready=True)),
            "sets": Out(stream.Signature(ordered_set(lanes), always_ready=True)),
            "locked": Out(lanes), "known": Out(lanes), "inverted": Out(lanes), "aligned": Out(1), "in_stream": Out(1),
            "events": Out(BLOCK_EVENTS),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        lanes = self._lanes
        m.submodules.deskew = deskew = BlockDeskew(lanes)
        m.submodules.stream = blocks = DataStream(lanes)
        widths = range(lanes.bit_length())
        m.submodules.framer = framer = TokenFramer(lanes)
        width, changing = Signal(2, init=lanes.bit_length() - 1), Signal()
        for n in range(lanes):
            m.submodules[f"lane{n}"] = lane = BlockLane()
            m.d.comb += [
                lane.raw.payload.eq(self.raw[n]), lane.raw.valid.eq(self.valid), lane.time.eq(self.tick[:TIME_BITS]),
                lane.lane.eq(Mux(self.reverse, lanes - 1 - n, n)),
                deskew.words[n].eq(lane.out.payload), deskew.valid[n].eq(lane.out.valid), deskew.moved[n].eq(lane.moved | changing),
                self.locked[n].eq(lane.locked), self.known[n].eq(lane.known), self.inverted[n].eq(lane.inverted),
                self.events.bad_header[n].eq(lane.bad_header), self.events.moved[n].eq(lane.moved),
                self.events.corrected_register[n].eq(lane.corrected), self.events.damaged_skp[n].eq(lane.damaged),
                self.events.parity[n].eq(lane.parity),
            ]  # fmt: skip
        connect(m, deskew.out, blocks.words)
        # A parser for each width there may be; the one in use gets the stream.
        m.d.comb += [
            changing.eq(width != self.width),
            framer.cut.eq(changing),
            deskew.active.eq(Cat(width >= (0, 1, 2, 2)[n] for n in range(lanes))),
        ]
        with m.If(changing & ~framer.open):
            m.d.sync += width.eq(self.width)
        corrected, lost, regained, hunting = Signal(), Signal(), Signal(), Signal(init=1)
        for n in widths:
            parser = TokenParser(1 << n)
            m.submodules[f"parser{1 << n}"] = ResetInserter(changing | (width != n))(parser)
            given, taken = parser.words.payload, parser.out.payload
            for field in ("filled", "restart", "last", "end", "time"):
                m.d.comb += getattr(given, field).eq(getattr(blocks.out.payload, field))
            m.d.comb += given.data.eq(blocks.out.payload.data)
            with m.If(width == n):
                for field, _ in parsed_word(1 << n):
                    m.d.comb += Value.cast(getattr(framer.words.payload, field)).eq(getattr(taken, field))
                m.d.comb += [
                    parser.words.valid.eq(blocks.out.valid), blocks.out.ready.eq(parser.words.ready),
                    framer.words.valid.eq(parser.out.valid),
                    parser.out.ready.eq(framer.words.ready), corrected.eq(parser.corrected), lost.eq(parser.lost),
                    regained.eq(parser.regained),
                    hunting.eq(Cat(parser.mode == mode for mode in (Mode.HUNT, Mode.CANDIDATE, Mode.STOPPED)).any()),
                ]  # fmt: skip
        connect(m, framer.frames, flipped(self.frames))
        connect(m, framer.dllps, flipped(self.dllps))
        m.d.comb += [
            deskew.reverse.eq(self.reverse), blocks.aligned.eq(deskew.aligned), framer.tick.eq(self.tick), self.aligned.eq(deskew.aligned),
            blocks.width.eq(width), self.in_stream.eq(~hunting),
            self.events.lanes_differ.eq(deskew.differs), self.events.overflow.eq(deskew.overflow),
            self.events.corrected_token.eq(corrected), self.events.lost_token.eq(lost), self.events.regained.eq(regained),
            self.events.bad_dllp.eq(framer.bad_dllp),
        ]  # fmt: skip
        word = deskew.out.payload
        m.d.sync += [
            self.sets.valid.eq(deskew.out.valid & deskew.out.ready & word.first & (word.kind != BlockKind.DATA)),
            self.sets.payload.kind.eq(word.kind), self.sets.payload.symbols.eq(word.data),
            self.sets.payload.tick.eq(self.tick - (self.tick[:TIME_BITS] - word.time)[:TIME_BITS]),
        ]  # fmt: skip
        return m
