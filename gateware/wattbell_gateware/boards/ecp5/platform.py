"""Part and pins of the ECP5 tap.

The pins are the schematic's in ``hw/board``; a test there compares balls and nets in both directions. No board has been built.
"""

from __future__ import annotations

from amaranth.build import Attrs, Clock, DiffPairs, Pins, PinsN, Resource, Subsignal
from amaranth.vendor import LatticeECP5Platform

__all__ = ["BOARD_CLOCK_HZ", "DCU_REFERENCE_HZ", "ULPI_CLOCK_HZ", "Ecp5TapPlatform"]

BOARD_CLOCK_HZ = 25_000_000
"""TCXO of the board. The tick counter, and so every time in a capture, is as accurate as this oscillator."""
DCU_REFERENCE_HZ = 250_000_000
"""LVDS oscillator of the deserialisers, fanned out to both reference inputs: x20 is 5 Gb/s.

It only has to be near the link's clock, as the data carry their own clock. The slot's REFCLK does not serve: it stops in L1.2.
"""
ULPI_CLOCK_HZ = 60_000_000

_IO = Attrs(IO_TYPE="LVCMOS33")
_FAST = Attrs(IO_TYPE="LVCMOS33", SLEWRATE="FAST")


class Ecp5TapPlatform(LatticeECP5Platform):
    """Platform of the LFE5UM5G-85F in caBGA381, speed grade 8. The lanes' pins belong to the DCUs alone."""

    device = "LFE5UM5G-85F"
    package = "BG381"
    speed = "8"
    default_clk = None

    resources = [
        Resource("clk25", 0, Pins("H2", dir="i"), Clock(BOARD_CLOCK_HZ), _IO),
        # Lanes. DCU 0 listens to the host, DCU 1 to the drive.
        Resource("lane", 0, DiffPairs("Y5", "Y6", dir="i")),
        Resource("lane", 1, DiffPairs("Y7", "Y8", dir="i")),
        Resource("lane", 2, DiffPairs("Y14", "Y15", dir="i")),
        Resource("lane", 3, DiffPairs("Y16", "Y17", dir="i")),
        Resource("dcu_reference", 0, DiffPairs("Y11", "Y12", dir="i")),
        Resource("dcu_reference", 1, DiffPairs("Y19", "W20", dir="i")),
        # Loss of signal at the amplifiers of lanes 0 to 3, which hide electrical idle. The gateware does not use it yet.
        Resource("tap_los", 0, Pins("P2 P3 P4 N2", dir="i"), _IO),
        # Trigger to and from other instruments; not in the gateware yet.
        Resource("trigger", 0, Subsignal("in", Pins("N3", dir="i")), Subsignal("out", Pins("M3", dir="o")), _IO),
        # Sidebands of the slot, through level translators that only listen.
        Resource("sideband", 0, Subsignal("perst_n", Pins("K1", dir="i")), Subsignal("clkreq_n", Pins("K2", dir="i")), _IO),
        # The two serial ADCs (voltage, current): common CNV and SCK.
        Resource(
            "adc",
            0,
            Subsignal("cnv", Pins("L1", dir="o")),
            Subsignal("sck", Pins("L2", dir="o")),
            Subsignal("sdo_v", Pins("M1", dir="i")),
            Subsignal("sdo_i", Pins("N1", dir="i")),
            _FAST,
        ),
        # ADC of the fine current path, on the same CNV and SCK; the build without the soft core does not use it.
        Resource("adc_fine", 0, Subsignal("sdo", Pins("P1", dir="i")), _FAST),
        # USB 2.0 PHY, 60 MHz from the PHY.
        Resource(
            "ulpi",
            0,
            Subsignal("data", Pins("A18 B18 A17 B17 C17 A16 B16 C16", dir="io")),
            Subsignal("clk", Pins("B12", dir="i"), Clock(ULPI_CLOCK_HZ)),
            Subsignal("dir", Pins("D16", dir="i")),
            Subsignal("nxt", Pins("D15", dir="i")),
            Subsignal("stp", Pins("C15", dir="o")),
            Subsignal("rst", PinsN("B15", dir="o")),
            _FAST,
        ),
        # The drive's power and sidebands: the load switch's gate, a comparator of the rail behind it, transistors that pull PERST#
        # and CLKREQ# low. Pulled up outside: the drive has power while the FPGA has no configuration.
        Resource(
            "power",
            0,
            Subsignal("load_switch", Pins("B2", dir="o")),
            Subsignal("rail_good", Pins("C2", dir="i")),
            Subsignal("perst_low", Pins("C1", dir="o")),
            Subsignal("clkreq_low", Pins("D2", dir="o")),
            _IO,
        ),
        # Switches that short the inputs of the voltage and the current channel.
        Resource("afe", 0, Subsignal("zero", Pins("D1 E2", dir="o")), _IO),
        # Gates of the test loads behind the shunt: 1 A, 90 mA. Pulled down outside.
        Resource("load", 0, Subsignal("gate", Pins("F4 F5", dir="o")), _FAST),
        # EEPROM and temperature sensor; pulled up outside.
        Resource("i2c", 0, Subsignal("scl", Pins("E1", dir="io")), Subsignal("sda", Pins("H3", dir="io")), _IO),
        # A microcontroller (SPI mode 0) is the user of the register bus in the build without the soft core.
        Resource(
            "controller",
            0,
            Subsignal("cs", PinsN("A8", dir="i")),
            Subsignal("sck", Pins("B8", dir="i")),
            Subsignal("copi", Pins("C8", dir="i")),
            Subsignal("cipo", Pins("D8", dir="o")),
            Subsignal("irq", PinsN("E8", dir="o")),
            _IO,
        ),
        *(Resource("led", n, PinsN(pin, dir="o"), _IO) for n, pin in enumerate(("C6", "D6", "E6", "C7"))),
    ]
    connectors: list[object] = []
