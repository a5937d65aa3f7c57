"""Which of the two speeds of 8b/10b a link runs at, found by trying."""

from __future__ import annotations

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["SpeedSearch"]


class SpeedSearch(wiring.Component):
    """Tries the other speed when receivers are up and no lane has found its symbols for ``patience_s``.

    A link changes its speed in electrical idle, and begins with training sequences, a COM every 16 symbols: within a
    microsecond the aligners lock, or the speed is the wrong one. What is sent until then, at most ``patience_s`` and the
    receivers' settling, is not seen: training sequences.

    Ports
    -----
    up : receivers with good words. locked : lanes with symbol lock, any domain. slow : 2.5 GT/s.
    """

    def __init__(self, lanes: int, *, clock_hz: int, patience_s: float = 10e-6):
        self._patience = round(clock_hz * patience_s)
        super().__init__({"up": In(lanes), "locked": In(lanes), "slow": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        locked = Signal.like(self.locked)
        m.submodules.sync = FFSynchronizer(self.locked, locked)
        waited = Signal(range(self._patience))
        with m.If(~self.up.any() | (locked & self.up).any()):
            m.d.sync += waited.eq(0)
        with m.Elif(waited == self._patience - 1):
            m.d.sync += [waited.eq(0), self.slow.eq(~self.slow)]
        with m.Else():
            m.d.sync += waited.eq(waited + 1)
        return m
