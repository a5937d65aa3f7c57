"""Clocks and resets of the 8 GT/s tap."""

from __future__ import annotations

from amaranth import ClockDomain, ClockSignal, Elaboratable, Instance, Module, Signal
from amaranth.lib.cdc import ResetSynchronizer

__all__ = ["CORE_HZ", "SETUP_HZ", "WORD_HZ", "Kintex7Clocks"]

CORE_HZ = 250_000_000
"""``sync``: the instrument, 4 ticks a clock."""
SETUP_HZ = 62_500_000
"""``setup``: the clock that brings the transceivers up."""
WORD_HZ = 250_000_000
"""Word clock of a transceiver at 8 GT/s and at 5 GT/s."""
_PHY_RESET_CLOCKS = round(SETUP_HZ * 10e-6)
_PHY_START_CLOCKS = round(SETUP_HZ * 2e-3)


class Kintex7Clocks(Elaboratable):
    """Drives the domains, and gives the tools their frequencies.

    | domain | clock | reset |
    |---|---|---|
    | ``sync`` | 250 MHz, PLL from the board's 25 MHz | until the PLL is locked |
    | ``setup`` | 62.5 MHz, the same PLL | as ``sync`` |
    | ``usb`` | 60 MHz from the PHY | until 2 ms after the PHY's |
    | ``link0``, ``link1`` | lane 0 of each direction, recovered, 250 MHz at 8 and 5 GT/s | none |

    Attributes
    ----------
    board : in: clock of the board.
    ulpi : in: clock of the PHY.
    links : in: the recovered clock of each direction.
    phy_reset : out: resets the PHY.
    """

    @staticmethod
    def domains() -> list[ClockDomain]:
        """Return the domains, for the module above to add."""
        return [*(ClockDomain(name) for name in ("sync", "setup", "usb")), *(ClockDomain(f"link{n}", reset_less=True) for n in range(2))]

    def __init__(self):
        self.board, self.ulpi, self.phy_reset = Signal(), Signal(), Signal(init=1)
        self.links = [Signal(), Signal()]

    def elaborate(self, platform):
        m = Module()
        feedback, locked, started = Signal(), Signal(), Signal()
        outputs = {"sync": Signal(), "setup": Signal()}
        m.submodules.pll = Instance(
            "PLLE2_BASE",
            p_CLKIN1_PERIOD=40.0,
            p_CLKFBOUT_MULT=40,
            p_DIVCLK_DIVIDE=1,
            p_CLKOUT0_DIVIDE=4,
            p_CLKOUT1_DIVIDE=16,
            i_CLKIN1=self.board,
            i_CLKFBIN=feedback,
            i_RST=0,
            i_PWRDWN=0,
            o_CLKFBOUT=feedback,
            o_CLKOUT0=outputs["sync"],
            o_CLKOUT1=outputs["setup"],
            o_LOCKED=locked,
        )
        sources = {}
        for name, output in outputs.items():
            sources[name] = Signal(name=f"buffered_{name}")
            m.submodules[f"buffer_{name}"] = Instance("BUFG", i_I=output, o_O=sources[name])
            m.submodules[f"{name}_reset"] = ResetSynchronizer(~locked, domain=name)
        m.submodules.usb_reset = ResetSynchronizer(~started, domain="usb")
        waited = Signal(range(_PHY_START_CLOCKS + 1))
        m.d.setup += [self.phy_reset.eq(waited < _PHY_RESET_CLOCKS), started.eq(waited == _PHY_START_CLOCKS)]
        with m.If(waited != _PHY_START_CLOCKS):
            m.d.setup += waited.eq(waited + 1)

        m.d.comb += ClockSignal("usb").eq(self.ulpi)
        clocks = [("sync", sources["sync"], CORE_HZ), ("setup", sources["setup"], SETUP_HZ)]
        clocks += [(f"link{n}", source, WORD_HZ) for n, source in enumerate(self.links)]
        for name, source, frequency in clocks:
            # Kept, because the constraint names this net after synthesis.
            clock = Signal(name=f"clock_{name}", attrs={"keep": "TRUE"})
            m.d.comb += [clock.eq(source), ClockSignal(name).eq(clock)]
            platform.add_clock_constraint(clock, frequency)
        return m
