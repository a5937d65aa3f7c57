"""Trigger in and out, for an oscilloscope or another rig."""

from __future__ import annotations

from ..schematic.common import resistor, supply_capacitors
from ..schematic.sheet import Sheet

__all__ = ["sheet"]

JACK = "Connector_Coaxial:MMCX_Molex_73415-0961_Horizontal_0.8mm-PCB"


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet("trigger", "Trigger in and out", 9)
    page.box("In: 5 V tolerant, 100 ohm and diodes against what a cable brings", (6, 10), (106, 38))
    page.part(
        "J700",
        "Connector:Conn_Coaxial",
        (16, 20),
        {"1": "trigger_in_jack", "2": "GND"},
        mirror="y",
        value="in",
        value_at=(-2, -3),
        footprint=JACK,
        bom="mmcx-0.8",
    )
    resistor(page, "R700", (30, 20), ("trigger_in_jack", "trigger_in_line"), "100", lying=True)
    page.wire("J700.1", "R700.1")
    page.label("trigger_in_jack", (21, 20))
    page.part(
        "D700",
        "Diode:BAV99",
        (54, 30),
        {"1": "GND", "2": "+3V3", "3": "trigger_in_line"},
        value="BAV99",
        footprint="Package_TO_SOT_SMD:SOT-23",
        bom="bav99",
        value_at=(0, -4),
    )
    resistor(page, "R701", (40, 30), ("trigger_in_line", "GND"), "10k")
    page.part(
        "U700",
        "74xGxx:74LVC2G34",
        (76, 20),
        {"1": "trigger_in_line", "6": "trigger_in", "3": "trigger_out", "4": "trigger_out_drive", "5": "+3V3", "2": "GND"},
        value="74LVC2G34",
        footprint="Package_TO_SOT_SMD:SOT-363_SC-70-6",
        bom="74lvc2g34",
    )
    page.wire("R700.2", "U700.1")
    page.label("trigger_in_line", (54, 20))
    page.box("Out: 3.3 V, 50 ohm", (6, 42), (106, 66))
    page.unit("U700", 2, (40, 52))
    page.unit("U700", 3, (92, 54), value_at=(5, 0))
    resistor(page, "R702", (56, 52), ("trigger_out_drive", "trigger_out_jack"), "33", lying=True)
    page.part(
        "J701", "Connector:Conn_Coaxial", (76, 52), {"1": "trigger_out_jack", "2": "GND"}, value="out", footprint=JACK, bom="mmcx-0.8"
    )
    page.wire("U700.4", "R702.1")
    page.label("trigger_out_drive", (48, 52))
    page.wire("R702.2", "J701.1")
    page.label("trigger_out_jack", (60, 52))
    supply_capacitors(page, 700, (102, 56), "+3V3", [("100n", "at U700.5")])
    return page
