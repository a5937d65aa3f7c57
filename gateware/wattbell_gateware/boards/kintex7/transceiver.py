"""Transceivers of the Kintex-7 tap: two quads of GTX, one a direction, with four lanes each."""

from __future__ import annotations

from amaranth import DomainRenamer, Module
from wattbell_spec.boards import KINTEX7

from ..direction import Direction
from .clocks import SETUP_HZ
from .gtx import QuadReceiver
from .words import LATE_BLOCKS_TICKS, LATE_TICKS, SYMBOLS, WordGear

__all__ = ["GtxTransceiver"]


class GtxTransceiver:
    """Implements :class:`..transceiver.Transceiver` with quads of GTX.

    Parameters
    ----------
    make : replaces the class :class:`..direction.Direction` in tests of the parts around it.
    """

    lanes = KINTEX7.lanes
    rates = tuple(range(len(KINTEX7.rates_gt_s)))
    domain, clock_hz = "setup", SETUP_HZ

    def __init__(self, make: type[Direction] = Direction):
        self._make = make

    def direction(self) -> Direction:
        """Return the direction behind a :class:`.words.WordGear`."""
        return self._make(
            self.lanes,
            SYMBOLS,
            ticks_per_clock=KINTEX7.ticks_per_clock,
            late_ticks=LATE_TICKS,
            late_blocks_ticks=LATE_BLOCKS_TICKS,
            blocks=True,
        )

    def receive(self, m: Module, platform, clocks, n: int, rate):
        """Add quad `n`, its gearbox and its direction."""
        lanes = [platform.request("lane", self.lanes * n + lane, dir="-") for lane in range(self.lanes)]
        reference = platform.request("gtx_reference", n, dir="-")
        quad = QuadReceiver(n, lanes, reference, clock_hz=self.clock_hz, words=f"link{n}")
        m.submodules[f"quad{n}"] = DomainRenamer(self.domain)(quad)
        own = DomainRenamer({"link": f"link{n}"})
        m.submodules[f"words{n}"] = words = own(WordGear())
        m.submodules[f"direction{n}"] = direction = own(self.direction())
        m.d.comb += [
            quad.rate.eq(rate),
            clocks.links[n].eq(quad.clk),
            words.word.eq(quad.word),
            words.up.eq(quad.up),
            words.rate.eq(rate),
            direction.raw.eq(words.raw),
            direction.raw_valid.eq(words.raw_valid),
            direction.raw8.eq(words.raw8),
            direction.raw8_valid.eq(words.raw8_valid),
        ]
        return direction, quad.up
