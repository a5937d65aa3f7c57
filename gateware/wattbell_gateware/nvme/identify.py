"""Whether an Identify may be on its way: then the drive's long payload is kept."""

from __future__ import annotations

from amaranth.hdl import Module, Signal

__all__ = ["Identify"]

_HOLD = 1100
"""Clocks. The data of an Identify has 1024 double words, which go out one a clock, and some more of headers."""


class Identify:
    """Counts of what may be an Identify.

    expected : an Identify may be on its way.
    armed : it may be, or may have been `_HOLD` clocks ago; a port of the engine. While raw TLPs go out the engine is late by up to a TLP
    and some: without these clocks it would come to the end of an Identify when data of the next one is here already. So it is in a reset.
    announced, known : strobes: an admin command was announced whose SQE is not known yet (so it may be Identify); that of one is known.
    count : Identify commands in flight.
    """

    def __init__(self, *, armed: Signal) -> None:
        self._armed = armed
        self.expected, self.announced, self.known = Signal(), Signal(), Signal()
        self._stays = Signal()
        self._hold = Signal(range(_HOLD + 1))
        self.arm = Signal(5)
        self.count = Signal(5)

    def stay(self, m: Module) -> None:
        """In the present state, one of a long loop: the payload of what comes meanwhile is kept."""
        m.d.comb += self._stays.eq(1)

    def forget(self, m: Module) -> None:
        """In the present state: none is on its way."""
        m.d.sync += [self.arm.eq(0), self.count.eq(0)]

    def connect(self, m: Module) -> None:
        m.d.comb += [self.expected.eq((self.arm != 0) | (self.count != 0)), self._armed.eq(self.expected | (self._hold != 0))]
        with m.If(self.expected | self._stays):
            m.d.sync += self._hold.eq(_HOLD)
        with m.Elif(self._hold != 0):
            m.d.sync += self._hold.eq(self._hold - 1)
        with m.If(self.announced & ~self.arm.all()):
            m.d.sync += self.arm.eq(self.arm + 1)
        with m.If(self.known & (self.arm != 0)):
            m.d.sync += self.arm.eq(self.arm - 1)
