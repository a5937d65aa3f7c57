"""Tick counter in the clock of a link."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["LOW_BITS", "FineTime", "LinkTime", "whole_tick"]

LOW_BITS = 24
"""Bits of the tick that cross between the domains: 16 ms, longer than any value stays in the crossing."""
_AVERAGE = 16
_JUMP_BITS = 6
"""The counter jumps if it is 2**6 ticks away; a power of two needs no comparison."""


class FineTime(wiring.Component):
    """Refines the tick counter of ``sync`` on a clock of twice its frequency that rises with it: half the step.

    Raises :class:`ValueError` if ``ticks_per_clock`` is not a power of two.

    Ports
    -----
    now : in ``sync``; grows by ``2 * ticks_per_clock`` each clock.
    fine : in ``fast``; grows by ``ticks_per_clock`` each clock, two clocks of ``fast`` behind.
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
        # In the second half of a clock of `sync` the value is the same as in the first.
        m.d.fast += [seen.eq(whole), second.eq(seen[0] == whole[0]), self.fine[self._shift :].eq(Cat(second, seen))]
        return m


class LinkTime(wiring.Component):
    """Counts ticks in the domain ``link``, and follows ``now`` of the domain ``core``.

    The counter grows by a word's ticks each clock, as the link's symbols do. Every 16 clocks it moves towards ``now`` by one tick,
    or by two if a clock is twice as long. That is 0.78 %, more than a link's spread spectrum. Within a TLP and between neighbouring
    TLPs the time is therefore the link's own, without steps of a ``core`` clock. In the long run it is the counter's. If it is more
    than 64 ticks away (the link's clock stopped), it jumps. ``now`` is known to a clock of ``core``. This sets the uncertainty
    against the rail's samples, not the link's resolution.

    Only the low 24 bits (:data:`LOW_BITS`) follow ``now``. The bits above count on by themselves, for users of long intervals.

    Ports
    -----
    now : in ``core``; grows by ``ticks_per_clock`` each clock.
    slow : in ``link``: a clock is twice as long.
    tick : in ``link``: the counter.

    Parameters
    ----------
    ticks_per_clock : ticks of a clock of ``core``, and of ``link`` at the higher speed; a power of two, otherwise
        :class:`ValueError`.
    behind : ticks that ``now`` is late by.
    core : name of the domain of ``now``.
    link : name of the domain of ``tick``.
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
        # Gray to binary, a third of the bits a step: all bits at once are too slow.
        step_bits = -(-bits // 3)
        value = gray_here
        for top in (bits, bits - step_bits, bits - 2 * step_bits):
            bottom, above = max(0, top - step_bits), value[top] if top < bits else 0
            later = Signal(bits, name=f"down_to_{bottom}") if bottom else count_here
            m.d[self._link] += later.eq(Cat(value[:bottom], *(value[n:top].xor() ^ above for n in range(bottom, top)), value[top:]))
            value = later

        # `count_here` is old when it is compared: a clock of `core`, four clocks of `link`, and on average half a step of `now`.
        # The tests check the mean of the difference.
        age = Signal(range(10 * self._ticks + self._behind))
        m.d[self._link] += age.eq(Mux(self.slow, 19 * self._ticks // 2, 11 * self._ticks // 2) + self._behind)
        error = Signal(signed(LOW_BITS))
        m.d[self._link] += error.eq((count_here << self._shift) + age - self.tick)
        far = Signal()
        m.d[self._link] += far.eq(error[_JUMP_BITS:].any() & ~error[_JUMP_BITS:].all())
        turn = Signal(range(_AVERAGE))
        step, pull = Signal(range(4 * self._ticks)), Signal(2)
        # The addend is prepared a clock before: a choice and a sum of 64 bits are too slow for one clock.
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
    """Return the latest tick up to ``now`` with the given low bits (:data:`LOW_BITS`); combinational."""
    round_ = Signal()
    m.d.comb += round_.eq(now[:LOW_BITS] < low)
    return Cat(low, (now[LOW_BITS:] - round_)[: 64 - LOW_BITS])
