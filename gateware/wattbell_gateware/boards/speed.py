"""Speed of a link: follows the negotiation, or finds the speed by trying."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["SpeedSearch"]

_SLOWLY = 64


class SpeedSearch(wiring.Component):
    """Sets the rate of the receivers of both directions.

    - By negotiation: a direction goes into electrical idle from RECOVERY, and a change of speed was asked for. The rate becomes the
      board's highest rate that both directions advertise (PCIe Base 3.0, 4.2.6.4.1).
    - By trying: receivers are up, and no lane is locked for ``patience_s``. The rate before the last change is tried first, then
      the other rates in turn. A lane may lock by chance, without a training sequence or packet; this time counts as a 64th.

    A link begins at a new rate with training sequences. The aligners lock within a microsecond, or the rate is wrong. The search
    misses only training sequences meanwhile: at most ``patience_s`` for each rate tried, plus the settling of the receivers.

    Parameters
    ----------
    lanes : number of lanes of both directions together.
    clock_hz : frequency of the domain.
    rates : rates of the board, of 0, 1, 2 (2.5, 5, 8 GT/s); the first is the rate after reset. Others raise :class:`ValueError`.
    patience_s : time in s without lock before another rate is tried.

    Ports
    -----
    up : receivers with good words.
    locked : lanes with lock; asynchronous.
    rates : of each direction, see :class:`~wattbell_gateware.link.receiver.Receiver`; asynchronous.
    leaving : of each direction, see :class:`~wattbell_gateware.link.receiver.Receiver`; asynchronous.
    heard : of each direction, see :class:`~wattbell_gateware.link.receiver.Receiver`; asynchronous.
    rate : 0, 1, 2 for 2.5, 5, 8 GT/s.
    """

    def __init__(self, lanes: int, *, clock_hz: int, rates: Sequence[int] = (0, 1), patience_s: float = 10e-6):
        if not rates or set(rates) - {0, 1, 2}:
            raise ValueError(f"rates are of 0, 1 and 2, not {rates!r}")
        self._patience = _SLOWLY * round(clock_hz * patience_s)
        self._rates = list(rates)
        super().__init__(
            {
                "up": In(lanes),
                "locked": In(lanes),
                "rates": In(data.ArrayLayout(8, 2)),
                "leaving": In(2),
                "heard": In(2),
                "rate": Out(2, init=rates[0]),
            }
        )

    def elaborate(self, platform):
        m = Module()
        locked, rates, leaving, heard = (Signal.like(port) for port in (self.locked, self.rates, self.leaving, self.heard))
        # `rates` have been constant for some symbols when `leaving` comes.
        for port, here in ((self.locked, locked), (self.rates.as_value(), rates.as_value()), (self.leaving, leaving), (self.heard, heard)):
            m.submodules += FFSynchronizer(port, here)
        common, agreed, known = Signal(8), Signal(2), Signal()
        m.d.comb += common.eq(rates[0] & rates[1])
        for rate in sorted(self._rates):
            with m.If(common[rate + 1]):
                m.d.comb += [agreed.eq(rate), known.eq(1)]
        left, leaves = Signal(), Signal()
        m.d.sync += left.eq(leaving.any())
        m.d.comb += leaves.eq(leaving.any() & ~left & known & (rates[0][7] | rates[1][7]))

        following = Signal(2)
        with m.Switch(self.rate):
            for rate, after in zip(self._rates, [*self._rates[1:], self._rates[0]]):
                with m.Case(rate):
                    m.d.comb += following.eq(after)
        waited, passed = Signal(range(self._patience + _SLOWLY)), Signal(range(_SLOWLY + 1))
        before, back = Signal(2, init=self._rates[0]), Signal()  # back: the rate before was not tried yet
        m.d.comb += passed.eq(Mux((locked & self.up).any(), 1, _SLOWLY))
        with m.If(leaves):
            m.d.sync += [waited.eq(0), self.rate.eq(agreed), before.eq(self.rate), back.eq(self.rate != agreed)]
        with m.Elif(~self.up.any() | heard.any()):
            m.d.sync += waited.eq(0)
            with m.If(heard.any()):
                m.d.sync += back.eq(0)
        with m.Elif(waited >= self._patience):
            m.d.sync += [waited.eq(0), back.eq(0), self.rate.eq(Mux(back, before, following))]
        with m.Else():
            m.d.sync += waited.eq(waited + passed)
        return m
