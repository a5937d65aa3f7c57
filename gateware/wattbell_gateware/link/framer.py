"""Framing at 2.5 and 5 GT/s: takes descrambled words of a link, gives TLPs with a verdict and DLLPs."""

from __future__ import annotations

from amaranth import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..pcs.deskew import link_word
from ..queue import Queue
from .check import LcrcChecker
from .delimit import FrameDelimiter, quads_of, quads_per_clock
from .dllps import DllpReceiver
from .layouts import DLLP, framed_beat
from .pack import TlpPacker

__all__ = ["FAULTS", "Framer"]

_DEPTH = 32

FAULTS = data.StructLayout({"broken": 3, "headless": 3, "short": 1, "bad_dllp": 1, "lost_dllps": 2, "overrun": 1, "stray": 1})
"""Faults of this clock, as numbers of frames.

- ``broken``: frames given up. If a part of the TLP had already come out, it ends with BAD_FRAME.
- ``headless``: END or EDB without a frame.
- ``short``: a frame ended before the shortest TLP could end.
- ``bad_dllp``: a DLLP with a wrong CRC.
- ``lost_dllps``: DLLPs without room, see :class:`.dllps.DllpReceiver`.
- ``overrun``: a word of quads found no room, see :class:`Framer`.
- ``stray``: data other than idle outside frames in this word.
"""


class Framer(wiring.Component):
    """Frames TLPs and DLLPs: joins :mod:`.delimit`, :mod:`.pack`, :mod:`.check` and :mod:`.dllps`.

    An intact frame comes out intact after any damage on the link. Nothing outside frames comes out.

    With 16 symbols a word, back-to-back TLPs of 4n + 1 double words need one clock in eight (n = 1) more than there is. A queue of
    32 words holds the excess, enough for at least 200 such TLPs without a pause. Beyond that comes an ``overrun``: words without
    room count as damaged.

    Ports
    -----
    word : see :class:`.delimit.FrameDelimiter`.
    tick : see :class:`.delimit.FrameDelimiter`.
    width : see :class:`.delimit.FrameDelimiter`.
    enable : see :class:`.delimit.FrameDelimiter`.
    fast : high: 5 GT/s, a symbol time is 2 ticks. Low: 4 ticks.
    tlps : :func:`.layouts.framed_beat`, 32 bits for each quad of a word.
    dllps : :data:`.layouts.DLLP`.
    faults : :data:`FAULTS`.
    """

    def __init__(self, lanes: int, symbols: int):
        self._lanes, self._symbols, self._quads = lanes, symbols, quads_per_clock(lanes, symbols)
        super().__init__(
            {
                "word": In(stream.Signature(link_word(lanes, symbols), always_ready=True)),
                "tick": In(64),
                "width": In(2),
                "enable": In(1),
                "fast": In(1),
                "tlps": Out(stream.Signature(framed_beat(32 * self._quads), always_ready=True)),
                "dllps": Out(stream.Signature(DLLP, always_ready=True)),
                "faults": Out(FAULTS),
            }
        )

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
            delimiter.tick.eq(self.tick),
            delimiter.width.eq(self.width),
            delimiter.enable.eq(self.enable),
            delimiter.fast.eq(self.fast),
            dllp.quads.valid.eq(found.valid),
            dllp.quads.payload.eq(found.payload),
            self.faults.broken.eq(delimiter.broken),
            self.faults.headless.eq(delimiter.headless),
            self.faults.stray.eq(delimiter.stray),
            self.faults.short.eq(packer.short),
            self.faults.bad_dllp.eq(dllp.bad),
            self.faults.lost_dllps.eq(dllp.lost),
        ]
        if self._quads < 4:  # the packer is always ready with fewer than four quads
            m.d.comb += [quads.valid.eq(found.valid), quads.payload.eq(found.payload)]
        else:
            self._queue(m, found, quads)
        return m

    def _queue(self, m: Module, found, quads) -> None:
        m.submodules.queue = queue = Queue(quads_of(self._lanes, self._symbols), _DEPTH)
        m.d.comb += [queue.i.payload.eq(found.payload), queue.i.valid.eq(found.valid), self.faults.overrun.eq(queue.lost)]
        connect(m, queue.o, quads)
