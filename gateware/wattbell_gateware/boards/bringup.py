"""Reset sequence of a deserialiser."""

from __future__ import annotations

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["ReceiverReset"]


class ReceiverReset(wiring.Component):
    """Brings a receiver up: releases clock recovery from reset, and the word FIFO once the clock has been locked for a while.

    The word FIFO must be in reset while the recovered clock is not stable, or its pointers stay wrong. The sequence begins again
    when lock or signal is lost (electrical idle), or when the rate changes.

    Ports
    -----
    los : loss of signal; asynchronous.
    lol : loss of lock; asynchronous.
    rate : rate of the link.
    cdr_reset : resets the clock recovery.
    word_reset : resets the word FIFO.
    up : words are good.

    Parameters
    ----------
    clock_hz : frequency of the domain.
    pulse_s : length of the reset pulse in s.
    settle_s : time in s that lock must last before the word FIFO is released.
    """

    def __init__(self, *, clock_hz: int, pulse_s: float = 1e-6, settle_s: float = 4e-6):
        self._pulse, self._settle = round(clock_hz * pulse_s), round(clock_hz * settle_s)
        super().__init__(
            {
                "los": In(1),
                "lol": In(1),
                "rate": In(2),
                "cdr_reset": Out(1, init=1),
                "word_reset": Out(1, init=1),
                "up": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        los, lol = Signal(init=1), Signal(init=1)
        m.submodules += [FFSynchronizer(self.los, los, init=1), FFSynchronizer(self.lol, lol, init=1)]
        timer = Signal(range(max(self._pulse, self._settle)))
        before = Signal(2)
        m.d.sync += before.eq(self.rate)

        with m.FSM():
            with m.State("reset"):
                m.d.sync += [self.cdr_reset.eq(1), self.word_reset.eq(1), timer.eq(timer + 1)]
                with m.If(timer == self._pulse - 1):
                    m.d.sync += [self.cdr_reset.eq(0), timer.eq(0)]
                    m.next = "lock"
            with m.State("lock"):
                m.d.sync += timer.eq(timer + 1)
                with m.If(los | lol):
                    m.d.sync += timer.eq(0)
                with m.Elif(timer == self._settle - 1):
                    m.d.sync += [self.word_reset.eq(0), timer.eq(0), self.up.eq(1)]
                    m.next = "up"
                with m.If(before != self.rate):
                    m.d.sync += timer.eq(0)
                    m.next = "reset"
            with m.State("up"):
                with m.If(los | lol | (before != self.rate)):
                    m.d.sync += [self.up.eq(0), self.word_reset.eq(1)]
                    m.next = "reset"
        return m
