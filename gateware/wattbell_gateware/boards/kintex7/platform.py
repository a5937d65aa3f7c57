"""Part and pins of the 8 GT/s tap.

There is neither a board nor a schematic. The transceivers' pins are the package's, without a choice; the other pins are legal and
plausible.

Choice of the part: a tap on four lanes needs eight receivers. The GTX of a Kintex-7 reach 10.3 Gb/s in speed grade 2 and FF
packages, and 6.6 Gb/s in grade 1 and in FB packages (DS182). The smallest Kintex-7 with eight of these is the XC7K160T in FFG676.
They are in the two quads 115 and 116, one for each direction. The vendor's free licence covers this part. An UltraScale+ part would
make the tracker's clock easier. But Yosys knows this part's fabric well enough to count the cells of the design.
"""

from __future__ import annotations

from amaranth.build import Attrs, Clock, DiffPairs, Pins, PinsN, Resource, Subsignal
from amaranth.vendor import XilinxPlatform

__all__ = ["BOARD_CLOCK_HZ", "GTX_REFERENCE_HZ", "ULPI_CLOCK_HZ", "Kintex7TapPlatform"]

BOARD_CLOCK_HZ = 25_000_000
"""TCXO of the board, as on the ECP5."""
GTX_REFERENCE_HZ = 100_000_000
"""LVDS oscillator of the transceivers, one output for each quad. x 25 is the channels' PLLs (5 and 2.5 GT/s), x 80 the quads' (8
GT/s).
"""
ULPI_CLOCK_HZ = 60_000_000

_IO = Attrs(IOSTANDARD="LVCMOS33")
_FAST = Attrs(IOSTANDARD="LVCMOS33", SLEW="FAST")
_LANES = ("R4 R3", "N4 N3", "L4 L3", "J4 J3", "G4 G3", "E4 E3", "C4 C3", "B6 B5")
"""RXP and RXN of quad 115, channels 0 to 3, and of quad 116."""


class Kintex7TapPlatform(XilinxPlatform):
    """Platform of the XC7K160T-2FFG676. Lanes 0 to 3 listen to the host, 4 to 7 to the drive."""

    device = "xc7k160t"
    package = "ffg676"
    speed = "2"
    default_clk = None

    resources = [
        Resource("clk25", 0, Pins("R22", dir="i"), Clock(BOARD_CLOCK_HZ), _IO),
        *(Resource("lane", n, DiffPairs(*pins.split(), dir="i")) for n, pins in enumerate(_LANES)),
        Resource("gtx_reference", 0, DiffPairs("H6", "H5", dir="i"), Clock(GTX_REFERENCE_HZ)),
        Resource("gtx_reference", 1, DiffPairs("D6", "D5", dir="i"), Clock(GTX_REFERENCE_HZ)),
        Resource("sideband", 0, Subsignal("perst_n", Pins("R26", dir="i")), Subsignal("clkreq_n", Pins("P26", dir="i")), _IO),
        Resource(
            "adc",
            0,
            Subsignal("cnv", Pins("T24", dir="o")),
            Subsignal("sck", Pins("T25", dir="o")),
            Subsignal("sdo_v", Pins("U24", dir="i")),
            Subsignal("sdo_i", Pins("U25", dir="i")),
            _FAST,
        ),
        Resource(
            "ulpi",
            0,
            Subsignal("data", Pins("M24 L24 J24 J25 K25 K26 J26 H26", dir="io")),
            Subsignal("clk", Pins("P23", dir="i"), Clock(ULPI_CLOCK_HZ)),
            Subsignal("dir", Pins("N26", dir="i")),
            Subsignal("nxt", Pins("M26", dir="i")),
            Subsignal("stp", Pins("M25", dir="o")),
            Subsignal("rst", PinsN("L25", dir="o")),
            _FAST,
        ),
        Resource(
            "controller",
            0,
            Subsignal("cs", PinsN("T22", dir="i")),
            Subsignal("sck", Pins("T23", dir="i")),
            Subsignal("copi", Pins("T20", dir="i")),
            Subsignal("cipo", Pins("R20", dir="o")),
            Subsignal("irq", PinsN("R25", dir="o")),
            _IO,
        ),
        *(Resource("led", n, PinsN(pin, dir="o"), _IO) for n, pin in enumerate(("P24", "N24", "M21", "M22"))),
    ]
    connectors: list[object] = []

    @property
    def file_templates(self):
        """Templates that write the design as RTLIL, which the build turns into Verilog with the native Yosys; no copy for a
        debugger.
        """
        templates = dict(super().file_templates)
        del templates["{{name}}.v"], templates["{{name}}.debug.v"]
        return templates | {"{{name}}.il": "{{emit_rtlil()}}"}
