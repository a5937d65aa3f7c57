"""Identify commands that may be on their way: meanwhile the parsers keep the drive's long payload."""

from __future__ import annotations

from amaranth.hdl import Module, Signal

__all__ = ["Identify"]

_HOLD = 1100
"""Clocks. The data of an Identify has 1024 double words, one a clock, and some headers."""


class Identify:
    """Counts commands that may be Identify.

    expected : an Identify may be on its way.
    armed : ``expected`` is high, or was within the last `_HOLD` clocks; a port of the engine. Raw TLPs on their way out make the engine
        late by more than a TLP. Without these clocks it would reach the end of an Identify only after data of the next one has come. High
        throughout a reset.
    announced : strobe: an admin command was announced; its SQE is not known yet, so it may be Identify.
    known : strobe: the SQE of such a command is known.
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
        """Keep payload in the present state, one of a long loop."""
        m.d.comb += self._stays.eq(1)

    def forget(self, m: Module) -> None:
        """Forget an Identify on its way, in the present state."""
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
