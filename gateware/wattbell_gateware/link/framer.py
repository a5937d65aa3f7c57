"""Framing at 2.5 and 5 GT/s: descrambled words of a link -> TLPs with a verdict, DLLPs."""

from __future__ import annotations

from amaranth import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from ..pcs.deskew import link_word
from .check import LcrcChecker
from .delimit import FrameDelimiter, quads_of, quads_per_clock
from .dllps import DllpReceiver
from .layouts import DLLP, framed_beat
from .pack import TlpPacker

__all__ = ["FAULTS", "Framer"]

_DEPTH = 32

FAULTS = data.StructLayout({"broken": 3, "headless": 3, "short": 1, "bad_dllp": 1, "lost_dllps": 2, "overrun": 1, "stray": 1})
"""What went wrong in this clock, in numbers of frames.

- ``broken``: given up, whether or not anything of it had come out (a TLP of which something had comes out with BAD_FRAME).
- ``headless``: an END or EDB without a frame. ``short``: an end before the shortest TLP could end.
- ``bad_dllp``: a wrong CRC. ``lost_dllps``: no room, see :class:`.dllps.DllpReceiver`.
- ``overrun``: a word of quads found no room; see :class:`Framer`.
- ``stray``: data other than idle outside of frames in this word.
"""


class Framer(wiring.Component):
    """See :mod:`.delimit`, :mod:`.pack`, :mod:`.check`, :mod:`.dllps`.

    An intact frame comes out intact whatever was before it on the link; nothing outside of frames comes out.

    Where a word has 16 symbols, TLPs of 4n + 1 double words one right after the other take a clock in eight (n = 1) more than
    there is; 32 words are kept back, so that at least 200 such TLPs may follow each other without a pause. More is an
    ``overrun``: the words that find no room are as if damaged.

    Ports
    -----
    word, tick, width, enable : see :class:`.delimit.FrameDelimiter`. ``fast``: 5 GT/s, a symbol time is 2 ticks; else 4.
    tlps : :func:`.layouts.framed_beat`, 32 bits a quad of a word. dllps : :data:`.layouts.DLLP`. faults : :data:`FAULTS`.
    """

    def __init__(self, lanes: int, symbols: int):
        self._lanes, self._symbols, self._quads = lanes, symbols, quads_per_clock(lanes, symbols)
        super().__init__({
            "word": In(stream.Signature(link_word(lanes, symbols), always_ready=True)), "tick": In(64),
            "width": In(2), "enable": In(1), "fast": In(1),
            "tlps": Out(stream.Signature(framed_beat(32 * self._quads), always_ready=True)),
            "dllps": Out(stream.Signature(DLLP, always_ready=True)), "faults": Out(FAULTS),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.delimiter = delimiter = FrameDelimiter(self._lanes, self._symbols)
        m.submodules.packer = packer = TlpPacker(self._lanes, self._symbols)
        m.submodules.checker = checker = LcrcChecker(32 * self._quads)
        m.submodules.dllp = dllp = DllpReceiver(self._lanes, self._symbols)
        connect(m, flipped(self.word), delimiter.word)
        connect(m, packer.beats, checker.packed)
        connect(m, checker.out, flipped(self.tlps))
        connect(m, dllp.out, flipped(self.dllps))
        found, quads = delimiter.out, packer.quads
        m.d.comb += [
            delimiter.tick.eq(self.tick), delimiter.width.eq(self.width), delimiter.enable.eq(self.enable),
            delimiter.fast.eq(self.fast), dllp.quads.valid.eq(found.valid), dllp.quads.payload.eq(found.payload),
            self.faults.broken.eq(delimiter.broken), self.faults.headless.eq(delimiter.headless), self.faults.stray.eq(delimiter.stray),
            self.faults.short.eq(packer.short), self.faults.bad_dllp.eq(dllp.bad), self.faults.lost_dllps.eq(dllp.lost),
        ]  # fmt: skip
        if self._quads < 4:  # the packer is always ready
            m.d.comb += [quads.valid.eq(found.valid), quads.payload.eq(found.payload)]
        else:
            self._queue(m, found, quads)
        return m

    def _queue(self, m: Module, found, quads) -> None:
        shape = quads_of(self._lanes, self._symbols)
        m.submodules.queue = queue = SyncFIFOBuffered(width=shape.size, depth=_DEPTH)
        m.d.comb += [
            queue.w_data.eq(found.payload), queue.w_en.eq(found.valid), self.faults.overrun.eq(found.valid & ~queue.w_rdy),
            quads.valid.eq(queue.r_rdy), quads.payload.eq(queue.r_data), queue.r_en.eq(quads.ready),
        ]  # fmt: skip
