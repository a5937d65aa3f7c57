"""Queues of typed elements with streams at both ends."""

from __future__ import annotations

from amaranth.hdl import Module, Shape, ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import AsyncFIFOBuffered, SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

__all__ = ["CrossingQueue", "Queue"]


class Queue(wiring.Component):
    """Queues elements in one clock domain, ``sync``.

    A source that can wait keeps its element until ``i.ready``. A tap cannot wait: an element without room is dropped, and the owner
    of the queue counts ``lost``.

    Parameters
    ----------
    shape : shape of an element.
    depth : greatest number of elements.
    quick : an element is at ``o`` one clock after it came, not two. The memory is then read in the same clock: use it for short
        queues, which need no block RAM.

    Ports
    -----
    i : elements in.
    o : elements out, the oldest first.
    lost : an element comes and finds no room.
    level : number of elements in the queue.
    latent : elements are on their way, and none is at ``o`` yet.
    """

    def __init__(self, shape: ShapeLike, depth: int, *, quick: bool = False) -> None:
        self._fifo = (SyncFIFO if quick else SyncFIFOBuffered)(width=Shape.cast(shape).width, depth=depth)
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "lost": Out(1),
                "level": Out(range(depth + 1)),
                "latent": Out(1),
            }
        )

    def elaborate(self, _platform) -> Module:
        m = Module()
        m.submodules.fifo = fifo = self._fifo
        wiring.connect(m, wiring.flipped(self.i), fifo.w_stream)
        wiring.connect(m, fifo.r_stream, wiring.flipped(self.o))
        m.d.comb += [
            self.lost.eq(self.i.valid & ~self.i.ready),
            self.level.eq(fifo.level),
            self.latent.eq((fifo.level != 0) & ~self.o.valid),
        ]
        return m


class CrossingQueue(wiring.Component):
    """Queues elements from one clock domain to another.

    Parameters
    ----------
    shape : shape of an element.
    depth : greatest number of elements.
    writes : domain of ``i``.
    reads : domain of ``o``.

    Ports
    -----
    i : elements in.
    o : elements out, the oldest first.
    """

    def __init__(self, shape: ShapeLike, depth: int, *, writes: str, reads: str) -> None:
        self._fifo = AsyncFIFOBuffered(width=Shape.cast(shape).width, depth=depth, w_domain=writes, r_domain=reads)
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, _platform) -> Module:
        m = Module()
        m.submodules.fifo = fifo = self._fifo
        wiring.connect(m, wiring.flipped(self.i), fifo.w_stream)
        wiring.connect(m, fifo.r_stream, wiring.flipped(self.o))
        return m
