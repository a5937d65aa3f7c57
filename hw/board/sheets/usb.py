"""USB: the connector, which also feeds the board, and the ULPI transceiver."""

from __future__ import annotations

from ..schematic.common import capacitor, resistor, supply_capacitors
from ..schematic.sheet import Sheet

__all__ = ["sheet"]


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet("usb", "USB 2.0", 6)
    page.box("Connector, and what the source can give", (6, 12), (74, 62))
    pins = dict.fromkeys(("A4", "A9", "B4", "B9"), "usb_vbus") | dict.fromkeys(("A1", "A12", "B1", "B12", "S1"), "GND")
    pins |= {
        "A5": "usb_cc1",
        "B5": "usb_cc2",
        "A6": "usb_con_dp",
        "B6": "usb_con_dp",
        "A7": "usb_con_dm",
        "B7": "usb_con_dm",
        "A8": "",
        "B8": "",
    }
    page.part(
        "J400",
        "Connector:USB_C_Receptacle_USB2.0_16P",
        (18, 28),
        pins,
        value="USB-C, 2.0",
        footprint="Connector_USB:USB_C_Receptacle_GCT_USB4105-xx-A_16P_TopMnt_Horizontal",
        bom="usb-c",
    )
    for n, net in enumerate(("usb_cc1", "usb_cc2")):
        resistor(page, f"R{400 + n}", (34 + 9 * n, 54), (net, "GND"), "5k1")
    page.text("5.1 k: a sink. What the source advertises shows at the test points;\nthe firmware does not know it.", (8, 46), 1.3)
    for n, net in enumerate(("usb_cc1", "usb_cc2")):
        page.part(
            f"TP{400 + n}",
            "Connector:TestPoint",
            (54 + 9 * n, 54),
            {"1": net},
            value=net,
            footprint="TestPoint:TestPoint_Pad_D1.0mm",
            bom="none",
        )
    page.part(
        "F400",
        "Device:Polyfuse",
        (50, 18),
        {"1": "usb_vbus", "2": "+5V_USB"},
        rotation=90,
        value="2.6 A hold",
        footprint="Fuse:Fuse_1812_4532Metric",
        bom="polyfuse-2a6",
    )
    page.part(
        "D400",
        "Diode:SMAJ5.0A",
        (66, 26),
        {"1": "+5V_USB", "2": "GND"},
        rotation=90,
        value="SMAJ5.0A",
        footprint="Diode_SMD:D_SMA",
        bom="smaj5.0a",
    )
    capacitor(page, "C400", (58, 28), ("+5V_USB", "GND"), "4u7", size="0805")
    page.flag("+5V_USB", (70, 40))
    page.part(
        "U401",
        "Power_Protection:USBLC6-2SC6",
        (58, 43),
        {"1": "usb_con_dp", "6": "usb_dp", "3": "usb_con_dm", "4": "usb_dm", "5": "+5V_USB", "2": "GND"},
        value="USBLC6-2SC6",
        footprint="Package_TO_SOT_SMD:SOT-23-6",
        bom="usblc6-2",
    )
    page.box("ULPI transceiver: gives the 60 MHz", (80, 12), (160, 62))
    nets = {
        "22": "ulpi_rst",
        "17": "usb_vbus_sense",
        "13": "usb_dp",
        "14": "usb_dm",
        "18": "",
        "20": "usb_xo",
        "21": "usb_xi",
        "19": "usb_rbias",
        "16": "+5V_USB",
        "15": "usb_vdd33",
        "25": "GND",
        "23": "usb_vdd18",
        "9": "+3V3",
        "2": "ulpi_clk_out",
        "1": "ulpi_dir",
        "24": "ulpi_stp",
        "3": "ulpi_nxt",
    }
    nets |= {pin: f"ulpi_data{n}" for n, pin in enumerate(("4", "5", "6", "7", "8", "10", "11", "12"))}
    page.part(
        "U400",
        "Interface_USB:USB3343",
        (112, 30),
        nets,
        value="USB3343",
        footprint="Package_DFN_QFN:QFN-24-1EP_4x4mm_P0.5mm_EP2.5x2.5mm",
        bom="usb3343",
        value_at=(6, -10),
    )
    page.part(
        "Y400",
        "Device:Crystal_GND24",
        (92, 50),
        {"1": "usb_xi", "2": "GND", "3": "usb_xo", "4": "GND"},
        value="26 MHz",
        footprint="Crystal:Crystal_SMD_3225-4Pin_3.2x2.5mm",
        bom="crystal-26m",
    )
    capacitor(page, "C401", (84, 56), ("usb_xi", "GND"), "18p", place="at Y400.1")
    capacitor(page, "C402", (102, 56), ("usb_xo", "GND"), "18p", place="at Y400.3")
    resistor(page, "R402", (112, 54), ("usb_rbias", "GND"), "8k06", place="at U400.19")
    resistor(page, "R403", (120, 54), ("usb_vbus", "usb_vbus_sense"), "20k", place="near U400")
    resistor(page, "R404", (128, 54), ("ulpi_clk_out", "ulpi_clk"), "33", place="at U400.2")
    # VDD33 and VDD18 are outputs of its own regulators, from VBAT
    supply_capacitors(page, 403, (134, 54), "+3V3", [("100n", "at U400.9")])
    supply_capacitors(page, 404, (141, 54), "+5V_USB", [("1u", "at U400.16")])
    capacitor(page, "C405", (149, 54), ("usb_vdd18", "GND"), "1u", place="at U400.23")
    capacitor(page, "C406", (156, 54), ("usb_vdd33", "GND"), "2u2", place="at U400.15")
    page.netclass("USB", ("usb_con_dp", "usb_con_dm", "usb_dp", "usb_dm"))
    page.netclass("Power", ("usb_vbus", "+5V_USB"))
    return page
