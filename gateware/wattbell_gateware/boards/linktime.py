"""The tick counter in the clock of a link."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["LOW_BITS", "FineTime", "LinkTime", "whole_tick"]

LOW_BITS = 24
"""Bits of the tick that go back and forth between the domains: 16 ms, longer than anything stays in between."""
_AVERAGE = 16
_JUMP_BITS = 6
"""2**6 ticks away it jumps; a power of two, which is seen without a comparison."""


class FineTime(wiring.Component):
    """The tick counter of ``sync`` on a clock of twice its frequency that rises with it: half the step.

    Ports
    -----
    now : in ``sync``; grows by ``2 * ticks_per_clock`` each clock. fine : in ``fast``; grows by ``ticks_per_clock``, two clocks of
    ``fast`` behind.
    """

    def __init__(self, *, ticks_per_clock: int):
        if ticks_per_clock & (ticks_per_clock - 1):
            raise ValueError(f"ticks_per_clock must be a power of two, not {ticks_per_clock!r}")
        self._shift = ticks_per_clock.bit_length() - 1
        super().__init__({"now": In(64), "fine": Out(64)})

    def elaborate(self, platform):
        m = Module()
        whole = self.now[self._shift + 1 :]
        seen, second = Signal.like(whole), Signal()
        # The second half of a clock of `sync` is the one that shows what the first did.
        m.d.fast += [seen.eq(whole), second.eq(seen[0] == whole[0]), self.fine[self._shift :].eq(Cat(second, seen))]
        return m


class LinkTime(wiring.Component):
    """A counter of ticks in the domain ``link`` that follows ``now`` of the domain ``core``.

    It grows by a word's ticks each clock, as the link's symbols do, and is drawn towards ``now`` by one tick (two, where a clock
    is twice as long) every 16 clocks: 0.78 %, more than a link's spread spectrum. So within a TLP and between neighbouring ones
    time is the link's own (no steps of a ``core`` clock), and in the long run it is the counter's. More than 64 ticks away (the
    link's clock stood), it jumps. What ``now`` was is known to a clock of ``core``; that, and not the link's resolution, is the
    uncertainty against the rail's samples.

    Only the low 24 bits (:data:`LOW_BITS`) follow; the bits above count on by themselves, for whoever needs long intervals.

    Ports
    -----
    now : in ``core``; grows by ``ticks_per_clock`` each clock. slow : in ``link``: a clock is twice as long.
    tick : in ``link``.

    Parameters
    ----------
    ticks_per_clock : of ``core``, and of ``link`` at the higher speed. behind : ticks that ``now`` is late by.
    core, link : the domains.
    """

    def __init__(self, *, ticks_per_clock: int, behind: int = 0, core: str = "sync", link: str = "link"):
        if ticks_per_clock & (ticks_per_clock - 1):
            raise ValueError(f"ticks_per_clock must be a power of two, not {ticks_per_clock!r}")
        self._ticks, self._shift, self._core, self._link = ticks_per_clock, ticks_per_clock.bit_length() - 1, core, link
        self._behind = behind
        super().__init__({"now": In(64), "slow": In(1), "tick": Out(64)})

    def elaborate(self, platform):
        m = Module()
        bits = LOW_BITS - self._shift
        count = self.now[self._shift : LOW_BITS]
        gray, gray_here, count_here = Signal(bits), Signal(bits), Signal(bits)
        m.d[self._core] += gray.eq(count ^ (count >> 1))
        m.submodules.sync = FFSynchronizer(gray, gray_here, o_domain=self._link)
        # Gray to binary, a third of the bits a step: all at once are too slow.
        step_bits = -(-bits // 3)
        value = gray_here
        for top in (bits, bits - step_bits, bits - 2 * step_bits):
            bottom, above = max(0, top - step_bits), value[top] if top < bits else 0
            later = Signal(bits, name=f"down_to_{bottom}") if bottom else count_here
            m.d[self._link] += later.eq(Cat(value[:bottom], *(value[n:top].xor() ^ above for n in range(bottom, top)), value[top:]))
            value = later

        # `count_here` is old when it is compared: a clock of `core` and four of `link`, and half of what `now` steps by for the time
        # that passes between two steps. The tests hold the mean of the difference to it.
        age = Signal(range(10 * self._ticks + self._behind))
        m.d[self._link] += age.eq(Mux(self.slow, 19 * self._ticks // 2, 11 * self._ticks // 2) + self._behind)
        error = Signal(signed(LOW_BITS))
        m.d[self._link] += error.eq((count_here << self._shift) + age - self.tick)
        far = Signal()
        m.d[self._link] += far.eq(error[_JUMP_BITS:].any() & ~error[_JUMP_BITS:].all())
        turn = Signal(range(_AVERAGE))
        step, pull = Signal(range(4 * self._ticks)), Signal(2)
        # What is added is made ready a clock before: 64 bits and a choice are too much for one.
        add = Signal(signed(LOW_BITS + 1))
        m.d[self._link] += [
            turn.eq(turn + 1),
            step.eq(Mux(self.slow, 2 * self._ticks, self._ticks)),
            pull.eq(Mux(self.slow, 2, 1)),
            add.eq(step),
            self.tick.eq(self.tick + add),
        ]
        with m.If(turn == _AVERAGE - 1):
            with m.If(far):
                m.d[self._link] += add.eq(error + step)
            with m.Elif(error > 0):
                m.d[self._link] += add.eq(step + pull)
            with m.Elif(error < 0):
                m.d[self._link] += add.eq(step - pull)
        return m


def whole_tick(m: Module, now, low):
    """The tick below ``now`` that has these low bits (:data:`LOW_BITS`); combinational."""
    round_ = Signal()
    m.d.comb += round_.eq(now[:LOW_BITS] < low)
    return Cat(low, (now[LOW_BITS:] - round_)[: 64 - LOW_BITS])
