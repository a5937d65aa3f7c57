"""Whether an Identify may be on its way: then the drive's long payload is kept."""

from __future__ import annotations

from amaranth.hdl import Module, Signal

__all__ = ["Identify"]


class Identify:
    """Counts of what may be an Identify.

    armed : an Identify may be on its way; a port of the engine.
    announced, known : strobes: an admin command was announced whose SQE is not known yet (so it may be Identify); that of one is known.
    count : Identify commands in flight.
    """

    def __init__(self, *, armed: Signal) -> None:
        self._armed = armed
        self.announced, self.known = Signal(), Signal()
        self.arm = Signal(5)
        self.count = Signal(5)

    def forget(self, m: Module) -> None:
        """In the present state: none is on its way."""
        m.d.sync += [self.arm.eq(0), self.count.eq(0)]

    def connect(self, m: Module) -> None:
        m.d.comb += self._armed.eq((self.arm != 0) | (self.count != 0))
        with m.If(self.announced & ~self.arm.all()):
            m.d.sync += self.arm.eq(self.arm + 1)
        with m.If(self.known & (self.arm != 0)):
            m.d.sync += self.arm.eq(self.arm - 1)
