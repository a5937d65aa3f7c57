"""One direction of a link at 8 GT/s: from the words of the deserialisers to checked TLPs."""

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

BLOCK_EVENTS = data.StructLayout(
    {
        "bad_header": 4,
        "moved": 4,
        "corrected_register": 4,
        "damaged_skp": 4,
        "parity": 4,
        "lanes_differ": 1,
        "overflow": 1,
        "corrected_token": 1,
        "lost_token": 1,
        "regained": 1,
        "bad_dllp": 1,
        "lost_dllps": 2,
    }
)
"""Events of this clock. The first five have a bit for each wire in use.

- ``bad_header``: a block has an invalid sync header.
- ``moved``: the lane lost lock, or its blocks began at another bit.
- ``corrected_register``: an SKP ordered set carried another scrambler register than the descrambler's, which took it over.
- ``damaged_skp``: an SKP ordered set had a different register, or a wrong end.
- ``parity``: the parity in an SKP ordered set does not match the data blocks before it.
- ``lanes_differ``: the lanes disagree on the kind of a block.
- ``overflow``: the queues of the lanes were full; the stream is lost up to the next SKP ordered set.
- ``corrected_token``: a token had one wrong bit, which was corrected.
- ``lost_token``: a token was missing where one must be.
- ``regained``: the parser found a token again.
- ``bad_dllp``: a DLLP had a wrong CRC.
- ``lost_dllps``: number of DLLPs without room, see :class:`.token_framer.TokenFramer`.
"""
_IDLE_WORDS = 2


class BlockReceiver(wiring.Component):
    """Receives one direction of a link at 8 GT/s on `lanes` wired lanes (1, 2 or 4). The link may use fewer lanes.

    Ports
    -----
    raw : 32 bits of each wire, first received bit in bit 0. All wires share one clock.
    valid : the words of all wires are valid in this clock.
    tick : tick at which the first of these bits came.
    reverse : lane 0 is the last wire; the lanes in use are the first ones from there. A change aborts open frames.
    width : log2 of the lanes that the link has trained to (0, 1, 2). A change aborts open frames.
    enable : low aborts open frames and forgets all state of the stream except the polarity.
    frames : :func:`framed_beat` of 32 bits for each wired lane.
    dllps : :data:`DLLP`.
    found : strobe of each wire, see :class:`.block_training.BlockSetReader`.
    values : training sequence of each wire, see :class:`.block_training.BlockSetReader`.
    eios : strobe of each wire, see :class:`.block_training.BlockSetReader`.
    sets_tick : tick of an ordered set that is reported in this clock.
    idle : two words of the data stream in a row held only logical idle.
    idle_tick : tick of the second of these words.
    pending : see :class:`.token_framer.TokenFramer`.
    pending_tick : see :class:`.token_framer.TokenFramer`.
    locked : each wire has block lock.
    inverted : each wire has inverted polarity.
    aligned : the lanes are deskewed.
    events : :data:`BLOCK_EVENTS`.
    """

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "raw": In(data.ArrayLayout(32, lanes)),
                "valid": In(1),
                "tick": In(64),
                "reverse": In(1),
                "width": In(2),
                "enable": In(1, init=1),
                "frames": Out(stream.Signature(framed_beat(32 * lanes), always_ready=True)),
                "dllps": Out(stream.Signature(DLLP, always_ready=True)),
                "found": Out(lanes),
                "values": Out(data.ArrayLayout(TRAINING_SET, lanes)),
                "eios": Out(lanes),
                "sets_tick": Out(64),
                "idle": Out(1),
                "idle_tick": Out(64),
                "pending": Out(1),
                "pending_tick": Out(64),
                "locked": Out(lanes),
                "inverted": Out(lanes),
                "aligned": Out(1),
                "events": Out(BLOCK_EVENTS),
            }
        )

    def _extended(self, time):
        """Return the full tick from its low bits `time`, which lie at most 2^TIME_BITS - 1 ticks back."""
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
                lane.raw.payload.eq(self.raw[n]),
                lane.raw.valid.eq(self.valid & self.enable),
                lane.time.eq(self.tick[:TIME_BITS]),
                lane.lane.eq(Mux(reverse, lanes - 1 - n, n)),
                lane.forget.eq(~self.enable),
                sets.words.payload.eq(lane.out.payload),
                sets.words.valid.eq(lane.out.valid),
                self.found[n].eq(sets.found),
                self.values[n].eq(sets.value),
                self.eios[n].eq(sets.eios),
                deskew.words[n].eq(lane.out.payload),
                deskew.valid[n].eq(lane.out.valid),
                deskew.moved[n].eq(lane.moved | changing),
                self.locked[n].eq(lane.locked),
                self.inverted[n].eq(lane.inverted),
                self.events.bad_header[n].eq(lane.bad_header & used[n]),
                self.events.moved[n].eq(lane.moved & used[n]),
                self.events.corrected_register[n].eq(lane.corrected & used[n]),
                self.events.damaged_skp[n].eq(lane.damaged & used[n]),
                self.events.parity[n].eq(lane.parity & used[n]),
            ]
            with m.If(sets.found | sets.eios):
                m.d.comb += set_time.eq(sets.time)
        connect(m, deskew.out, blocks.words)
        m.d.comb += [
            changing.eq((width != self.width) | (reverse != self.reverse) | ~self.enable),
            framer.cut.eq(changing),
            framer.tick.eq(self.tick),
            deskew.active.eq(Cat(width >= (0, 1, 2, 2)[n] for n in range(lanes))),
            deskew.reverse.eq(reverse),
            blocks.aligned.eq(deskew.aligned),
            blocks.width.eq(width),
            self.aligned.eq(deskew.aligned),
            self.pending.eq(framer.pending),
            self.pending_tick.eq(framer.pending_tick),
            self.events.lanes_differ.eq(deskew.differs),
            self.events.overflow.eq(deskew.overflow),
            self.events.bad_dllp.eq(framer.bad_dllp),
            self.events.lost_dllps.eq(framer.lost_dllps),
        ]
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
        """Build a parser for each possible width; the parser of the current width gets the stream."""
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
                    parser.words.valid.eq(blocks.out.valid),
                    blocks.out.ready.eq(parser.words.ready),
                    framer.words.valid.eq(parser.out.valid),
                    parser.out.ready.eq(framer.words.ready),
                    self.events.corrected_token.eq(parser.corrected),
                    self.events.lost_token.eq(parser.lost),
                    self.events.regained.eq(parser.regained),
                ]
