"""Clocks: the counter's oscillator."""

from __future__ import annotations

from ..schematic.sheet import Sheet

__all__ = ["sheet"]


def sheet() -> Sheet:
    """The sheet."""
    page = Sheet("clocks", "Clocks", 5)
    page.part("Y300", "wattbell:TCXO", (20, 20), {"1": "", "2": "GND", "3": "tcxo_out", "4": "+3V3"},
              value="25 MHz TCXO", footprint="Oscillator:Oscillator_SMD_Abracon_ASE-4Pin_3.2x2.5mm", bom="tcxo")  # fmt: skip
    page.part("R300", "Device:R", (28, 19), {"1": "tcxo_out", "2": "clk25"}, rotation=90, value="33",
              footprint="Resistor_SMD:R_0402_1005Metric", bom="r-33-0402")  # fmt: skip
    page.part("C300", "Device:C", (14, 22), {"1": "+3V3", "2": "GND"}, value="100n", footprint="Capacitor_SMD:C_0402_1005Metric",
              bom="c-100n-0402", place="at Y300.4")  # fmt: skip
    page.wire("Y300.3", "R300.1")
    page.label("tcxo_out", (25, 19))
    page.flag("GND", (40, 20))
    page.flag("+3V3", (46, 20))
    return page
