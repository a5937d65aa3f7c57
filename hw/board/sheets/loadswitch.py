"""The drive's power: from the slot's 3.3 V through a load switch to the shunt, and the signal that it is good.

The bias also comes from the slot. The drive therefore runs, and sees the same resistance, with and without USB.
"""

from __future__ import annotations

from ..schematic.common import capacitor, resistor, supply_capacitors
from ..schematic.sheet import Sheet
from ..values import number

__all__ = ["RISE_CAPACITOR", "rise_s", "sheet"]

RISE_CAPACITOR = "47n"


def rise_s(capacitance: float) -> float:
    """Return the switch's rise from 10 to 90 % of 3.3 V in s, with 3.3 V of bias, by its capacitor in F.

    The formula is TI's answer for TPS22990 at 3.3 V of bias and input (E2E forum, "TPS22990: Rise Time Calculation", June 2017): an
    estimate without spread.
    """
    return 0.038e6 * capacitance + 22.99e-6


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet("loadswitch", "Load switch of the drive's 3.3 V", 11, comments=("Fed by the slot alone: the drive runs without USB",))
    page.box("From the slot to the shunt", (6, 12), (96, 52))
    page.part(
        "D1100",
        "Device:D_Zener",
        (14, 28),
        {"1": "+3V3_HOST", "2": "GND"},
        rotation=270,
        value="PTVS3V3S1UR",
        footprint="Diode_SMD:Nexperia_CFP3_SOD-123W",
        bom="ptvs3v3s1ur",
        place="near J1",
        value_at=(1.4, -0.4),
    )
    supply_capacitors(page, 1100, (26, 28), "+3V3_HOST", [("100n", "at U1100.4"), ("1u", "at U1100.3"), ("22u", "near U1100")], step=6)
    page.part(
        "U1100",
        "wattbell:TPS22990",
        (60, 28),
        {
            **dict.fromkeys(("3", "4", "11"), "+3V3_HOST"),
            **dict.fromkeys(("8", "9", "10"), "+3V3_SW"),
            "5": "load_switch_on",
            "7": "power_rail_good",
            "1": "load_switch_rise",
            "6": "GND",
            "2": "",
        },
        value="TPS22990",
        footprint="Package_SON:WSON-10-1EP_2x3mm_P0.5mm_EP0.84x2.4mm",
        bom="tps22990",
        place="between J1 and R1000",
        value_at=(-3, -6.6),
    )
    page.rail("+3V3_HOST", ["U1100.3", "U1100.11"])
    page.rail("+3V3_SW", ["U1100.8", "U1100.9", "U1100.10"])
    capacitor(page, "C1103", (76, 34), ("load_switch_rise", "GND"), RISE_CAPACITOR, size="0603", place="at U1100.1")
    page.wire("U1100.1", "C1103.1")
    page.label("load_switch_rise", (69, page.pin("U1100.1")[1]))
    wanted = [("100n", "at U1100.8"), ("1u", "at R1000.1"), ("22u", "near R1000")]
    supply_capacitors(page, 1104, (80, 22), "+3V3_SW", wanted, step=6)
    rise = rise_s(number(RISE_CAPACITOR))
    inrush = 400e-6 * 0.8 * 3.3 / rise
    page.text(
        f"Rise: {RISE_CAPACITOR} (25 V or more) makes {rise * 1e3:.1f} ms from 10 to 90 %, {inrush:.2f} A into 400 uF.\n"
        "VBIAS at the slot too: it may not be below VIN, and USB may be absent. The data sheet has a table for 3.3 V of bias.\n"
        "The version without N discharges the drive (218 ohm) when off. That, the leakage, and all capacitors here lie in front\n"
        "of the shunt: nothing of it is measured. No current limit: over-current is the gateware's, from the coarse path, 2 us late.",
        (8, 42),
        1.4,
    )
    page.box("Closed unless the configured FPGA says no", (6, 58), (96, 86))
    page.part(
        "U1101",
        "74xGxx:74LVC1G07",
        (44, 70),
        {"1": "", "2": "power_load_switch", "3": "GND", "4": "load_switch_on", "5": "+3V3"},
        value="74LVC1G07",
        footprint="Package_TO_SOT_SMD:SOT-353_SC-70-5",
        bom="74lvc1g07",
        value_at=(3, -4),
    )
    resistor(page, "R1100", (20, 66), ("+3V3", "power_load_switch"), "10k")
    resistor(page, "R1101", (58, 66), ("+3V3_HOST", "load_switch_on"), "47k", place="near U1100")
    page.wire("R1100.2", (20, 70), "U1101.2")
    page.label("power_load_switch", (20, 70), (-1, 0))
    page.wire("R1101.2", (58, 70))
    page.wire("U1101.4", (64, 70))
    page.label("load_switch_on", (64, 70))
    supply_capacitors(page, 1110, (82, 70), "+3V3", [("100n", "at U1101.5")])
    page.text(
        "Open drain, and nothing flows into its output without supply (Ioff): so ON goes high from the slot\n"
        "without USB, and from 10 k while the FPGA is not configured.",
        (8, 80),
        1.4,
    )
    page.box("Good: the switch is through, and 3.07 V for 20 ms", (102, 12), (158, 52))
    page.part(
        "U1102",
        "wattbell:TPS3808",
        (124, 28),
        {"5": "+3V3_SW", "3": "+3V3", "4": "", "1": "power_rail_good", "6": "+3V3", "2": "GND"},
        value="TPS3808G33",
        footprint="Package_TO_SOT_SMD:SOT-23-6",
        bom="tps3808g33",
        value_at=(3, -4),
    )
    resistor(page, "R1102", (140, 20), ("+3V3", "power_rail_good"), "10k")
    supply_capacitors(page, 1111, (150, 24), "+3V3", [("100n", "at U1102.6")])
    page.text(
        "Two open drains on one line: the switch's PG and the supervisor.\nSensed in front of the shunt. CT open: 20 ms.",
        (104, 42),
        1.4,
    )
    page.netclass("Power", ("+3V3_SW",))
    return page
