"""Clock-domain crossing for wide values, with a handshake."""

from __future__ import annotations

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["Snapshot"]


class Snapshot(wiring.Component):
    """Copies ``i`` of the domain `source` to ``o`` of the domain `sink`, over and over. Each ``o`` is ``i`` of one instant.

    Registers hold ``i`` for at least two clocks of `sink` before ``o`` takes the value, so the bits may take different ways. A copy
    arrives after about three clocks of each domain, and the next copy begins as many clocks later: 7 to 11 clocks a copy. Values
    between two copies are not seen. Copies are only made while both clocks run.

    Ports
    -----
    i : in `source`: the value, of `shape`.
    taken : in `source`: ``i`` is copied in this clock.
    o : in `sink`: the copy.
    fresh : in `sink`: ``o`` is a new copy.
    """

    def __init__(self, shape, *, source: str, sink: str, init=None):
        self._shape, self._source, self._sink, self._init = shape, source, sink, init
        super().__init__({"i": In(shape), "taken": Out(1), "o": Out(shape, init=init), "fresh": Out(1)})

    def elaborate(self, platform):
        m = Module()
        held = Signal.like(self.i, init=self._init) if self._init is not None else Signal.like(self.i)
        offer, offered, taken, returned = Signal(), Signal(), Signal(), Signal()
        m.submodules += [FFSynchronizer(offer, offered, o_domain=self._sink), FFSynchronizer(taken, returned, o_domain=self._source)]
        take = Signal()  # high fan-out
        m.d[self._source] += take.eq((offer == returned) & ~take)
        with m.If(take):
            m.d[self._source] += [held.eq(self.i), offer.eq(~offer)]
        m.d.comb += self.taken.eq(take)
        m.d[self._sink] += self.fresh.eq(offered != taken)
        with m.If(offered != taken):
            m.d[self._sink] += [self.o.eq(held), taken.eq(offered)]
        return m
