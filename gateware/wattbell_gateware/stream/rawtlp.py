"""Builder of TLP blocks: takes raw TLPs from the tracker word by word."""

from __future__ import annotations

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In
from wattbell_spec.wire import MAX_PAYLOAD, TLP_HEADER_SIZE

from ..nvme import RAW
from .buffer import PAYLOAD_WORDS
from .openblock import OpenBlock, block_ports

__all__ = ["RawBuilder"]

HEADER_WORDS = TLP_HEADER_SIZE // 4
LONGEST = MAX_PAYLOAD - TLP_HEADER_SIZE
CUT_SHORT = 1


class RawBuilder(wiring.Component):
    """Writes raw TLPs into blocks, a word a clock (see :class:`.openblock.OpenBlock`).

    A block also ends before a TLP that does not fit, and before a TLP with a tick beyond a signed 32-bit offset from the first. A
    TLP that would not fit an empty block is cut to its first 2040 bytes and marked.

    Ports
    -----
    raw : raw TLPs from the tracker. The first word carries the length of the TLP, so nothing is buffered here.
    lost : the tracker's running count of lost raw TLPs. Its increase since the last block is ``dropped`` of the next block.
    now : see :func:`.openblock.block_ports`.
    flush : see :func:`.openblock.block_ports`.
    fill : see :func:`.openblock.block_ports`.
    idle : see :func:`.openblock.block_ports`.
    quiet : see :func:`.openblock.block_ports`.
    deadline : see :func:`.openblock.block_ports`.
    """

    def __init__(self, *, slow: bool = False):
        self._slow = slow
        super().__init__({**block_ports(), "raw": In(stream.Signature(RAW)), "lost": In(32)})

    def elaborate(self, platform):
        m = Module()
        raw = self.raw.p
        # One bit more than an address, for the comparison with the end.
        block = OpenBlock(m, self, valid=self.raw.valid, tick=raw.tick, steps=HEADER_WORDS, slow=self._slow, address_bits=10)
        address, step = block.address, block.step
        reported = Signal(32)
        left = Signal(10)
        fits, fitted = Signal(), Signal()  # fitted: a clock later, in time for LOOK; `slow`: two (`needs`), for LOOKED
        size = Signal(16)  # bytes kept
        needs = Signal(10)  # words, header included
        m.d.comb += [
            size.eq(Mux(raw.length > LONGEST, LONGEST, raw.length)),
            fits.eq((address + needs <= PAYLOAD_WORDS) & block.near),
        ]
        m.d["sync" if self._slow else "comb"] += needs.eq(HEADER_WORDS + ((size + 3) >> 2))
        m.d.sync += fitted.eq(fits)
        header = Array(
            [
                block.offset[:32],
                Cat(size, raw.direction, Const(0, 7), raw.flags | (raw.length > LONGEST) * CUT_SHORT),
            ]
        )
        write = [self.fill.write.eq(1)]
        with m.FSM():
            begin = [block.dropped.eq(self.lost - reported), reported.eq(self.lost)]
            block.opening(m, "HEADER", begin=begin, ends=~fitted)
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
            block.closing(m)
        return m
