"""Everything on the Kintex-7: lanes -> TLPs -> instrument -> USB, and the controller's bus."""

from __future__ import annotations

from amaranth import Cat, DomainRenamer, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import FFSynchronizer

from ...instrument import Instrument
from ..direction import Direction
from ..ecp5.top import Ecp5Tap
from ..speed import SpeedSearch
from .clocks import SETUP_HZ, Clocks
from .gtx import LANES, QuadReceiver
from .words import LATE_BLOCKS_TICKS, LATE_TICKS, SYMBOLS, WordGear

__all__ = ["INSTRUMENT", "Kintex7Tap", "board_direction"]

_TICKS = 4
INSTRUMENT = {"width": 128, "ticks_per_clock": _TICKS, "adc": "serial", "lanes": True}
"""Parameters of the instrument: four lanes at 8 GT/s are 128 bits at 250 MHz."""


def board_direction(make: type[Direction] = Direction) -> Direction:
    """One direction, as this board has it behind a :class:`.words.WordGear`."""
    return make(LANES, SYMBOLS, ticks_per_clock=_TICKS, late_ticks=LATE_TICKS, late_blocks_ticks=LATE_BLOCKS_TICKS, blocks=True)

class Kintex7Tap(Ecp5Tap):
    """The tap, with the surroundings of the smaller one: the same ADCs, sidebands, controller and USB.

    Of ``LINK`` (:class:`..ecp5.top.Ecp5Tap`) it has only what fits: lanes 0 and 1 of each direction stand for all.

    Parameters
    ----------
    instrument, direction : in place of :class:`~wattbell_gateware.instrument.Instrument` of :data:`INSTRUMENT` and of the class
        :class:`..direction.Direction`, for tests of what is around them.
    """

    def __init__(self, instrument=None, direction=Direction):
        super().__init__(Instrument(**INSTRUMENT) if instrument is None else instrument)
        self._direction = direction

    def elaborate(self, platform):
        m = Module()
        m.domains += Clocks.domains()
        m.submodules.clocks = clocks = Clocks()
        instrument = self._instrument
        m.submodules.instrument = DomainRenamer({"bus": "sync"})(instrument)
        m.submodules.speed = speed = DomainRenamer("setup")(SpeedSearch(2 * LANES, clock_hz=SETUP_HZ, rates=(0, 1, 2)))
        m.submodules.clk25 = clk25 = io.Buffer("i", platform.request("clk25", 0, dir="-"))
        m.d.comb += clocks.board.eq(clk25.i)
        rate = Signal(2)  # for a moment it may be one that was not meant, at a change
        m.submodules.rate = FFSynchronizer(speed.rate, rate)

        directions, ups = [], []
        for n in range(2):
            lanes = [platform.request("lane", LANES * n + lane, dir="-") for lane in range(LANES)]
            reference = platform.request("gtx_reference", n, dir="-")
            quad = QuadReceiver(n, lanes, reference, clock_hz=SETUP_HZ, words=f"link{n}")
            m.submodules[f"quad{n}"] = DomainRenamer("setup")(quad)
            own = DomainRenamer({"link": f"link{n}"})
            m.submodules[f"words{n}"] = words = own(WordGear())
            m.submodules[f"direction{n}"] = direction = own(board_direction(self._direction))
            m.d.comb += [
                quad.rate.eq(speed.rate), clocks.links[n].eq(quad.clk),
                words.word.eq(quad.word), words.up.eq(quad.up), words.rate.eq(speed.rate),
                direction.raw.eq(words.raw), direction.raw_valid.eq(words.raw_valid),
                direction.raw8.eq(words.raw8), direction.raw8_valid.eq(words.raw8_valid),
                direction.rate.eq(rate), direction.now.eq(instrument.now),
                speed.rates[n].eq(direction.rates), speed.leaving[n].eq(direction.leaving), speed.heard[n].eq(direction.heard),
            ]  # fmt: skip
            directions.append(direction)
            ups.append(quad.up)
        m.d.comb += [speed.up.eq(Cat(ups)), speed.locked.eq(Cat(direction.locked for direction in directions))]
        up = Signal(4)
        m.submodules.up = FFSynchronizer(Cat(ups[0][:2], ups[1][:2]), up)
        self._behind(m, platform, clocks, directions, slow=rate == 0, up=up)
        return m
