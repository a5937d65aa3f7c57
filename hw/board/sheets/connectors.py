"""The two M.2 connectors and the lines between them.

Lanes 0 and 1 and the clock run straight through. Lanes 2 and 3 have links that only build P has. In build T they end here, so any
host and drive train to x2. There are no coupling capacitors: each sender brings its own, as without an interposer.
"""

from __future__ import annotations

from ..schematic.common import resistor
from ..schematic.sheet import Sheet

__all__ = ["sheet"]

STRAIGHT = {
    "49": "HOST_TX0_P",
    "47": "HOST_TX0_N",
    "43": "DRIVE_TX0_P",
    "41": "DRIVE_TX0_N",
    "37": "HOST_TX1_P",
    "35": "HOST_TX1_N",
    "31": "DRIVE_TX1_P",
    "29": "DRIVE_TX1_N",
    "55": "REFCLK_P",
    "53": "REFCLK_N",
    "52": "CLKREQ_N",
    "54": "PEWAKE_N",
    "38": "DEVSLP",
    "68": "SUSCLK",
    "40": "SMB_CLK",
    "42": "SMB_DATA",
    "44": "ALERT_N",
    "10": "LED1_N",
    "69": "CONFIG_1",
}
LINKED = {
    "25": "HOST_TX2_P",
    "23": "HOST_TX2_N",
    "19": "DRIVE_TX2_P",
    "17": "DRIVE_TX2_N",
    "13": "HOST_TX3_P",
    "11": "HOST_TX3_N",
    "7": "DRIVE_TX3_P",
    "5": "DRIVE_TX3_N",
}
"""Nets with a link, by contact. On the drive's side of the link a name ends in _D."""
SUPPLY = ("2", "4", "12", "14", "16", "18", "70", "72", "74")
GROUND = ("1", "3", "9", "15", "21", "27", "33", "39", "45", "51", "57", "71", "73", "75")
OPEN = ("6", "8", "20", "22", "24", "26", "28", "30", "32", "34", "36", "46", "48", "56", "58", "67")
PERST = "50"


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet(
        "connectors", "M.2 connectors and pass-through", 2, comments=("Lanes 2 and 3: links in build P only, so build T trains to x2",)
    )
    common = dict.fromkeys(GROUND, "GND") | dict.fromkeys(OPEN, "") | STRAIGHT
    page.part(
        "J1",
        "wattbell:M2_M_EDGE",
        (40, 46),
        common | LINKED | dict.fromkeys(SUPPLY, "+3V3_HOST") | {PERST: "PERST_HOST_N"},
        value="M.2 edge, key M",
        footprint="wattbell:M2_M_edge",
        bom="none",
    )
    page.part(
        "J2",
        "wattbell:M2_M_SOCKET",
        (116, 46),
        common | {pin: f"{net}_D" for pin, net in LINKED.items()} | dict.fromkeys(SUPPLY, "+3V3_DRIVE") | {PERST: "PERST_DRIVE_N"},
        value="M.2 socket, key M",
        footprint="wattbell:M2_M_socket",
        bom="m2-socket",
    )
    for connector, net in (("J1", "+3V3_HOST"), ("J2", "+3V3_DRIVE")):
        page.rail(net, [f"{connector}.{pin}" for pin in SUPPLY])
        page.rail("GND", [f"{connector}.{pin}" for pin in GROUND])
    for pin, net in STRAIGHT.items():
        page.wire(f"J1.{pin}", f"J2.{pin}")
        x, y = page.pin(f"J1.{pin}")
        page.label(net, (x + 3, y))
    for n, (pin, net) in enumerate(LINKED.items()):
        ref = f"R{1 + n}"
        x, y = page.pin(f"J1.{pin}")
        resistor(page, ref, (78, y), (net, f"{net}_D"), "0", size="0201", lying=True, builds="P", place=f"link {net}")
        page.wire(f"J1.{pin}", f"{ref}.1")
        page.wire(f"{ref}.2", f"J2.{pin}")
        page.label(net, (x + 3, y))
        page.label(f"{net}_D", (90, y))
    x, y = page.pin(f"J1.{PERST}")
    resistor(page, "R9", (78, y), ("PERST_HOST_N", "PERST_DRIVE_N"), "470", lying=True)
    page.wire(f"J1.{PERST}", "R9.1")
    page.wire("R9.2", f"J2.{PERST}")
    page.label("PERST_HOST_N", (x + 3, y))
    page.label("PERST_DRIVE_N", (90, y))
    page.flag("+3V3_HOST", (20, 90))
    page.flag("GND", (28, 90))
    page.text(
        "PERST#: 470 ohm lets a transistor on the drive's side (sheet sideband) hold the drive in reset against a host that\n"
        "drives the line. All other sidebands run straight through.",
        (60, 88),
        1.6,
    )
    page.text("PET: the host sends (HOST_TX). PER: the drive sends (DRIVE_TX).", (60, 94), 1.6)
    page.netclass("PCIe", [net for net in STRAIGHT.values() if "_TX" in net or "REFCLK" in net])
    page.netclass("PCIe", [name for net in LINKED.values() for name in (net, f"{net}_D")])
    page.netclass("Power", ("+3V3_HOST", "+3V3_DRIVE"))
    return page
