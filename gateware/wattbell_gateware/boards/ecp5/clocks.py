"""Clocks and resets of the ECP5 tap."""

from __future__ import annotations

from amaranth import ClockDomain, ClockSignal, Elaboratable, Instance, Module, ResetSignal, Signal
from amaranth.lib.cdc import ResetSynchronizer

__all__ = ["CORE_HZ", "FAST_HZ", "HALF_HZ", "WORD_HZ", "Ecp5Clocks", "clock_buffer"]

CORE_HZ = 62_500_000
"""``sync``: the instrument, 16 ticks a clock. At 128 bits a clock it keeps up with two lanes at 5 GT/s."""
HALF_HZ = CORE_HZ // 2
"""``half``: the soft core and its memory."""
FAST_HZ = 2 * CORE_HZ
"""``fast``: the serial ADCs, and the tick counter for the links' clocks."""
WORD_HZ = 250_000_000
"""Word clock of the DCU at 5 GT/s."""
_PHY_RESET_CLOCKS = round(CORE_HZ * 10e-6)
_PHY_START_CLOCKS = round(CORE_HZ * 2e-3)


def clock_buffer(source, target) -> Instance:
    """Return a global buffer, instantiated by hand, for a clock or for a reset with users everywhere.

    Eight of the part's 16 global clocks reach block RAMs. nextpnr gives these eight first to its own buffers, the buffer with the
    fewest users first. A clock with block RAMs that comes after that goes to the general wires, without a message. Clocks without
    block RAMs that have this buffer come after all others, and take the other eight. Resets need one of the first eight, too. Five
    clocks have block RAMs, so three are left for resets. The build puts the resets before the clocks that have this buffer.
    """
    return Instance("DCCA", i_CLKI=source, o_CLKO=target)


class Ecp5Clocks(Elaboratable):
    """Drives the domains, and gives the tools their frequencies.

    | domain | clock | reset |
    |---|---|---|
    | ``sync`` | 62.5 MHz, PLL from the board's 25 MHz | until the PLL is locked |
    | ``fast`` | 125 MHz, the same PLL, rises with ``sync`` | as ``sync`` |
    | ``half`` | 31.25 MHz, the same PLL, rises with ``sync`` | as ``sync`` |
    | ``usb`` | 60 MHz from the PHY | until 2 ms after the PHY's |
    | ``words0``, ``words1`` | lane 0 of each direction, recovered, 250 MHz at 5 GT/s | none |
    | ``other0``, ``other1`` | lane 1 of each | none |
    | ``link0``, ``link1`` | half of ``words`` | none |

    Domains without reset start from power-on values and recover from any state, as they must after every electrical idle.

    Attributes
    ----------
    board : in: clock of the board.
    ulpi : in: clock of the PHY.
    words : in: recovered clocks, lanes 0 and 1 of each direction.
    halves : in: clocks of ``link0`` and ``link1``.
    phy_reset : out: resets the PHY, which gives no clock while it is in reset.
    """

    @staticmethod
    def domains() -> list[ClockDomain]:
        """Return the domains, for the module above to add."""
        recovered = [f"{name}{n}" for n in range(2) for name in ("words", "other", "link")]
        reset = ("sync", "fast", "half", "usb")
        return [*(ClockDomain(name) for name in reset), *(ClockDomain(name, reset_less=True) for name in recovered)]

    def __init__(self):
        self.board, self.ulpi, self.phy_reset = Signal(), Signal(), Signal(init=1)
        self.words, self.halves = [[Signal(), Signal()] for _ in range(2)], [Signal(), Signal()]

    def elaborate(self, platform):
        m = Module()
        core, fast, half, locked, started = Signal(), Signal(), Signal(), Signal(), Signal()
        m.submodules.pll = Instance(
            "EHXPLLL", a_FREQUENCY_PIN_CLKI="25", a_FREQUENCY_PIN_CLKOP="125", a_FREQUENCY_PIN_CLKOS="62.5",
            a_FREQUENCY_PIN_CLKOS2="31.25",
            p_CLKI_DIV=1, p_CLKFB_DIV=5, p_FEEDBK_PATH="CLKOP",
            # One VCO, 625 MHz, divided by 5, 10 and 20; a phase of the divisor less one is none, so all rise together.
            p_CLKOP_ENABLE="ENABLED", p_CLKOP_DIV=5, p_CLKOP_CPHASE=4, p_CLKOS_ENABLE="ENABLED", p_CLKOS_DIV=10, p_CLKOS_CPHASE=9,
            p_CLKOS2_ENABLE="ENABLED", p_CLKOS2_DIV=20, p_CLKOS2_CPHASE=19,
            i_CLKI=self.board, i_CLKFB=fast, i_RST=0, i_STDBY=0, i_PHASESEL0=0, i_PHASESEL1=0, i_PHASEDIR=0, i_PHASESTEP=0,
            i_PHASELOADREG=0, i_PLLWAKESYNC=0, i_ENCLKOP=0, i_ENCLKOS=0, i_ENCLKOS2=0,
            o_CLKOP=fast, o_CLKOS=core, o_CLKOS2=half, o_LOCK=locked,
        )  # fmt: skip
        for name in ("sync", "half"):
            # The resets of these domains go to 17 000 flip-flops all over the part, too far for general wires.
            early = ClockDomain(f"{name}_early", local=True)
            m.domains += early
            m.d.comb += early.clk.eq(ClockSignal(name))
            m.submodules[f"{name}_reset"] = ResetSynchronizer(~locked, domain=early.name)
            m.submodules[f"{name}_reset_buffer"] = clock_buffer(early.rst, ResetSignal(name))
        m.submodules.fast_reset = ResetSynchronizer(~locked, domain="fast")
        m.submodules.usb_reset = ResetSynchronizer(~started, domain="usb")
        waited = Signal(range(_PHY_START_CLOCKS + 1))
        m.d.sync += [self.phy_reset.eq(waited < _PHY_RESET_CLOCKS), started.eq(waited == _PHY_START_CLOCKS)]
        with m.If(waited != _PHY_START_CLOCKS):
            m.d.sync += waited.eq(waited + 1)

        buffered = Signal()
        m.submodules.fast_buffer = clock_buffer(fast, buffered)

        # The clock of `usb` has its frequency from the pin.
        m.d.comb += ClockSignal("usb").eq(self.ulpi)
        clocks = [("sync", core, CORE_HZ), ("fast", buffered, FAST_HZ), ("half", half, HALF_HZ)]
        for n, ((lane0, lane1), half) in enumerate(zip(self.words, self.halves, strict=True)):
            clocks += [(f"words{n}", lane0, WORD_HZ), (f"other{n}", lane1, WORD_HZ), (f"link{n}", half, WORD_HZ // 2)]
        for name, source, frequency in clocks:
            # Kept, because the constraint names this net after synthesis.
            clock = Signal(name=f"clock_{name}", attrs={"keep": 1})
            m.d.comb += [clock.eq(source), ClockSignal(name).eq(clock)]
            platform.add_clock_constraint(clock, frequency)
        return m
