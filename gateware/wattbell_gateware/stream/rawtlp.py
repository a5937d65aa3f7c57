"""TLP blocks: raw TLPs, as the tracker hands them out word by word."""

from __future__ import annotations

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import FLUSH_TICKS, MAX_PAYLOAD, TLP_HEADER_SIZE

from ..nvme import RAW
from .buffer import PAYLOAD_WORDS, fill_port

__all__ = ["RawBuilder"]

HEADER_WORDS = TLP_HEADER_SIZE // 4
LONGEST = MAX_PAYLOAD - TLP_HEADER_SIZE
CUT_SHORT = 1


class RawBuilder(wiring.Component):
    """Puts raw TLPs into blocks. A TLP that would not fit an empty block is cut to its first 2040 bytes and marked.

    ``raw`` as the tracker's port: the length of a TLP stands on its first word, so nothing is buffered here. ``lost`` is
    the tracker's running count of raw TLPs lost; what it grew by since the last block is ``dropped`` of the next one.
    A block is closed when the next TLP does not fit, 10 ms after its first, on ``flush``, and before a TLP whose tick is
    further than a signed 32-bit offset from the first. `slow`: as that of :class:`.records.RecordBuilder`.
    """

    def __init__(self, *, slow: bool = False):
        self._slow = slow
        super().__init__({
            "now": In(64), "raw": In(stream.Signature(RAW)), "lost": In(32), "flush": In(1),
            "fill": Out(fill_port()), "idle": Out(1), "quiet": Out(1), "deadline": Out(64),
        })

    def elaborate(self, platform):
        m = Module()
        raw = self.raw.p
        open_ = Signal()
        due = Signal()
        first_tick = Signal(64)
        close_at = Signal(64)
        reported = Signal(32)
        dropped = Signal(32)
        address = Signal(10)
        left = Signal(10)
        offset = Signal(64)
        fits, fitted = Signal(), Signal()  # fitted: a clock later, which is in time for LOOK
        size = Signal(16)  # bytes kept
        needs = Signal(10)  # words, header included
        reached, distance = self.now >= close_at, raw.tick - first_tick
        if self._slow:
            was = Signal()
            m.d.sync += [was.eq(open_ & reached), offset.eq(distance)]
            m.d.comb += due.eq(open_ & was)
        else:
            m.d.comb += [due.eq(open_ & reached), offset.eq(distance)]
        m.d.comb += [
            self.deadline.eq(open_.replicate(64) & close_at | ~open_.replicate(64)),
            size.eq(Mux(raw.length > LONGEST, LONGEST, raw.length)),
            needs.eq(HEADER_WORDS + ((size + 3) >> 2)),
            fits.eq((address + needs <= PAYLOAD_WORDS) & ((offset[31:] == 0) | offset[31:].all())),
            self.fill.words.eq(address), self.fill.first_tick.eq(first_tick), self.fill.dropped.eq(dropped),
            self.fill.address.eq(address),
        ]
        idle = Signal()
        m.d.comb += [
            self.idle.eq(idle & ~self.raw.valid & ~open_),
            self.quiet.eq(idle & ~self.raw.valid & ~due & ~(self.flush & open_)),
        ]
        m.d.sync += fitted.eq(fits)
        step = Signal(range(HEADER_WORDS))
        header = Array([
            offset[:32],
            Cat(size, raw.direction, Const(0, 7), raw.flags | (raw.length > LONGEST) * CUT_SHORT),
        ])
        write = [self.fill.write.eq(1)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += idle.eq(1)
                m.d.sync += step.eq(0)
                with m.If(due | (self.flush & open_ & ~self.raw.valid)):
                    m.next = "CLOSE"
                with m.Elif(self.raw.valid & open_):
                    m.next = "LOOK"
                with m.Elif(self.raw.valid & self.fill.free):
                    m.d.sync += [
                        open_.eq(1), first_tick.eq(raw.tick), address.eq(0), close_at.eq(self.now + FLUSH_TICKS),
                        dropped.eq(self.lost - reported), reported.eq(self.lost),
                    ]
                    m.next = "FIRST" if self._slow else "HEADER"
            if self._slow:  # the offset is there in the next clock, and what it means in the one behind
                with m.State("FIRST"):
                    m.next = "HEADER"
                with m.State("LOOK"):
                    m.next = "LOOKED"
            with m.State("LOOKED" if self._slow else "LOOK"):
                m.next = "HEADER"
                with m.If(~fitted):
                    m.next = "CLOSE"
            with m.State("HEADER"):
                m.d.comb += [*write, self.fill.data.eq(header[step])]
                m.d.sync += [address.eq(address + 1), step.eq(step + 1), left.eq((size + 3) >> 2)]
                with m.If(step == HEADER_WORDS - 1):
                    m.next = "WORDS"
            with m.State("WORDS"):
                m.d.comb += [self.raw.ready.eq(1), self.fill.data.eq(raw.data)]
                with m.If(self.raw.valid):
                    with m.If(left != 0):
                        m.d.comb += write
                        m.d.sync += [address.eq(address + 1), left.eq(left - 1)]
                    with m.If(raw.last):
                        m.next = "IDLE"
            with m.State("CLOSE"):
                m.d.comb += self.fill.close.eq(1)
                m.d.sync += open_.eq(0)
                m.next = "IDLE"
        return m
