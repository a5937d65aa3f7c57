"""One direction of a link at 8 GT/s, from the deserialisers' words to checked TLPs."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..pcs.block_deskew import BlockDeskew
from ..pcs.block_lane import BlockLane
from ..pcs.blocks import TIME_BITS
from .block_training import BlockSetReader
from .layouts import DLLP, framed_beat
from .token_framer import TokenFramer
from .token_parser import TokenParser, parsed_word
from .token_stream import DataStream
from .training import TRAINING_SET

__all__ = ["BLOCK_EVENTS", "BlockReceiver"]

BLOCK_EVENTS = data.StructLayout({
    "bad_header": 4, "moved": 4, "corrected_register": 4, "damaged_skp": 4, "parity": 4,
    "lanes_differ": 1, "overflow": 1, "corrected_token": 1, "lost_token": 1, "regained": 1, "bad_dllp": 1,
    "lost_dllps": 2,
})  # fmt: skip
"""What was met in this clock; the first five are of each wire in use.

- ``bad_header``: a block whose sync header is neither of the two. ``moved``: lock was lost, or the blocks began elsewhere.
- Of an SKP ordered set: ``corrected_register``: the scrambler's register in it was another than the one in use, and was taken.
  ``damaged_skp``: its register differs, or its end is wrong. ``parity``: the parity in it is not that of the data blocks before.
- ``lanes_differ``: on the kind of a block. ``overflow``: the lanes' queues were full, the stream is lost up to the next SKP ordered set.
- ``corrected_token``: one wrong bit of a token was put right. ``lost_token``: no token stood where one must. ``regained``: found again.
- ``bad_dllp``: a wrong CRC. ``lost_dllps``: no room for so many, see :class:`.token_framer.TokenFramer`.
"""
_IDLE_WORDS = 2


class BlockReceiver(wiring.Component):
    """`lanes`: 1, 2 or 4 that are wired; the link may use fewer.

    Ports
    -----
    raw : 32 bits of each wire, first bit received in bit 0; valid : of all. tick : at which the first of these bits came. All are of
    one clock, which the lanes of a link share.
    width : lanes the link has trained to: 0, 1, 2 for 1, 2, 4. reverse : lane 0 is the last wire. (Lanes in use are the first ones
    from there.) What is going on when one of them changes is broken off.
    enable : low: what was going on is broken off, and what was known of the stream (but for the polarity) is forgotten.
    frames : :func:`framed_beat` of 32 bits a wired lane. dllps : :data:`DLLP`.
    found, values, eios : of each wire, see :class:`.block_training.BlockSetReader`; sets_tick : of one of those of this clock.
    idle, idle_tick : two words of the data stream of nothing but logical idle, tick of the second.
    pending, pending_tick : see :class:`.token_framer.TokenFramer`.
    locked, inverted : of each wire. aligned. events : :data:`BLOCK_EVENTS`.
    """

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__({
            "raw": In(data.ArrayLayout(32, lanes)), "valid": In(1), "tick": In(64),
            "reverse": In(1), "width": In(2), "enable": In(1, init=1),
            "frames": Out(stream.Signature(framed_beat(32 * lanes), always_ready=True)),
            "dllps": Out(stream.Signature(DLLP, always_ready=True)),
            "found": Out(lanes), "values": Out(data.ArrayLayout(TRAINING_SET, lanes)), "eios": Out(lanes), "sets_tick": Out(64),
            "idle": Out(1), "idle_tick": Out(64), "pending": Out(1), "pending_tick": Out(64),
            "locked": Out(lanes), "inverted": Out(lanes), "aligned": Out(1), "events": Out(BLOCK_EVENTS),
        })  # fmt: skip

    def _extended(self, time):
        """The tick whose low bits are `time`, at most 2^TIME_BITS - 1 ago."""
        return (self.tick - (self.tick[:TIME_BITS] - time)[:TIME_BITS])[:64]

    def elaborate(self, platform):
        m = Module()
        lanes = self._lanes
        m.submodules.deskew = deskew = BlockDeskew(lanes)
        m.submodules.stream = blocks = DataStream(lanes)
        m.submodules.framer = framer = TokenFramer(lanes)
        width, reverse, changing, used = Signal(2, init=lanes.bit_length() - 1), Signal(), Signal(), Signal(lanes)
        set_time = Signal(TIME_BITS)
        m.d.comb += [used.eq(Mux(reverse, deskew.active[::-1], deskew.active)), self.sets_tick.eq(self._extended(set_time))]
        for n in range(lanes):
            m.submodules[f"lane{n}"] = lane = BlockLane()
            m.submodules[f"sets{n}"] = sets = BlockSetReader()
            m.d.comb += [
                lane.raw.payload.eq(self.raw[n]), lane.raw.valid.eq(self.valid & self.enable), lane.time.eq(self.tick[:TIME_BITS]),
                lane.lane.eq(Mux(reverse, lanes - 1 - n, n)), lane.forget.eq(~self.enable),
                sets.words.payload.eq(lane.out.payload), sets.words.valid.eq(lane.out.valid),
                self.found[n].eq(sets.found), self.values[n].eq(sets.value), self.eios[n].eq(sets.eios),
                deskew.words[n].eq(lane.out.payload), deskew.valid[n].eq(lane.out.valid), deskew.moved[n].eq(lane.moved | changing),
                self.locked[n].eq(lane.locked), self.inverted[n].eq(lane.inverted),
                self.events.bad_header[n].eq(lane.bad_header & used[n]), self.events.moved[n].eq(lane.moved & used[n]),
                self.events.corrected_register[n].eq(lane.corrected & used[n]), self.events.damaged_skp[n].eq(lane.damaged & used[n]),
                self.events.parity[n].eq(lane.parity & used[n]),
            ]  # fmt: skip
            with m.If(sets.found | sets.eios):
                m.d.comb += set_time.eq(sets.time)
        connect(m, deskew.out, blocks.words)
        m.d.comb += [
            changing.eq((width != self.width) | (reverse != self.reverse) | ~self.enable),
            framer.cut.eq(changing), framer.tick.eq(self.tick),
            deskew.active.eq(Cat(width >= (0, 1, 2, 2)[n] for n in range(lanes))), deskew.reverse.eq(reverse),
            blocks.aligned.eq(deskew.aligned), blocks.width.eq(width), self.aligned.eq(deskew.aligned),
            self.pending.eq(framer.pending), self.pending_tick.eq(framer.pending_tick),
            self.events.lanes_differ.eq(deskew.differs), self.events.overflow.eq(deskew.overflow), self.events.bad_dllp.eq(framer.bad_dllp),
            self.events.lost_dllps.eq(framer.lost_dllps),
        ]  # fmt: skip
        with m.If(changing & ~framer.open):
            m.d.sync += [width.eq(self.width), reverse.eq(self.reverse)]
        self._parse(m, blocks, framer, width, changing)
        connect(m, framer.frames, flipped(self.frames))
        connect(m, framer.dllps, flipped(self.dllps))

        idles, word = Signal(range(_IDLE_WORDS)), blocks.out.payload
        m.d.sync += self.idle.eq(0)
        with m.If(blocks.out.valid & blocks.out.ready):
            with m.If(word.filled & (word.data == 0) & ~changing):
                m.d.sync += [self.idle.eq(idles == _IDLE_WORDS - 1), self.idle_tick.eq(self._extended(word.time))]
                with m.If(idles != _IDLE_WORDS - 1):
                    m.d.sync += idles.eq(idles + 1)
            with m.Else():
                m.d.sync += idles.eq(0)
        return m

    def _parse(self, m: Module, blocks, framer, width, changing) -> None:
        """A parser for each width there may be; the one in use gets the stream."""
        for n in range(self._lanes.bit_length()):
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
                    framer.words.valid.eq(parser.out.valid), parser.out.ready.eq(framer.words.ready),
                    self.events.corrected_token.eq(parser.corrected), self.events.lost_token.eq(parser.lost),
                    self.events.regained.eq(parser.regained),
                ]  # fmt: skip
