"""The tap of lanes 0 and 1, both directions: series resistors at the pass-through, a limiting amplifier each, into the deserialisers.

Build T only.
"""

from __future__ import annotations

from typing import Any

from ..schematic.common import capacitor, resistor, supply_capacitors
from ..schematic.sheet import Sheet

__all__ = ["sheet"]

CHANNELS = (
    ("HOST_TX0", "TAP_H0", "LANE0"),
    ("HOST_TX1", "TAP_H1", "LANE1"),
    ("DRIVE_TX0", "TAP_D0", "LANE2"),
    ("DRIVE_TX1", "TAP_D1", "LANE3"),
)
"""Tapped pair, name after the resistors, and the deserialiser's input. The host's lanes go to DCU 0, the drive's to DCU 1."""


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet("tap", "Tap of lanes 0 and 1", 3, paper="A2", comments=("Build T only: build P has none of these parts",))
    for n, (source, behind, lane) in enumerate(CHANNELS):
        _channel(page, n, source, behind, lane, (16 + 110 * (n % 2), 36 + 66 * (n // 2)))
    page.text(
        "The resistors' near pads lie on the pass-through itself: in build P nothing hangs on the lanes.\n"
        "The amplifier hides electrical idle; its LOS tells the FPGA. Inputs are 50 ohm to the amplifier's own bias, so the\n"
        "capacitors carry what lies between that and the link. VAR: output swing. TH: level of LOS. Values: docs/signal.md.",
        (16, 138),
        2.0,
    )
    return page


def _channel(page: Sheet, n: int, source: str, behind: str, lane: str, corner: tuple[float, float]) -> None:
    """Draw one pair: resistors, coupling, amplifier, coupling."""
    x, y = corner
    base = 100 + 10 * n
    page.box(f"{source}: to {lane}", (x - 4, y - 14), (x + 98, y + 30))
    amplifier = f"U{100 + n}"
    page.part(
        amplifier,
        "wattbell:ONET1191P",
        (x + 48, y + 4),
        {
            "7": f"{behind}_AC_P",
            "8": f"{behind}_AC_N",
            "6": f"{behind}_COC_P",
            "5": f"{behind}_COC_N",
            "11": "GND",
            "15": f"{behind}_OUT_P",
            "14": f"{behind}_OUT_N",
            "10": f"tap_los{n}",
            "12": f"{behind}_VAR",
            "9": f"{behind}_TH",
            **dict.fromkeys(("1", "2"), "+3V3_TAP"),
            **dict.fromkeys(("3", "4", "13", "16", "17"), "GND"),
        },
        value="ONET1191P",
        footprint="Package_DFN_QFN:QFN-16-1EP_3x3mm_P0.5mm_EP1.75x1.75mm",
        bom="onet1191p",
        builds="T",
    )
    page.rail("+3V3_TAP", [f"{amplifier}.1", f"{amplifier}.2"])
    page.rail("GND", [f"{amplifier}.{pin}" for pin in ("3", "4", "13", "16", "17")])
    lying: dict[str, Any] = {"lying": True, "builds": "T"}
    for leg, pin, out, step in (("P", "7", "15", 0), ("N", "8", "14", 1)):
        _, row = page.pin(f"{amplifier}.{pin}")
        offset = 2 * step - 1
        r, c_in, c_out = f"R{base + step}", f"C{base + step}", f"C{base + 2 + step}"
        resistor(page, r, (x + 8, row + offset), (f"{source}_{leg}", f"{behind}_{leg}"), "100", size="0201", place=f"tap {source}", **lying)
        nets = (f"{behind}_{leg}", f"{behind}_AC_{leg}")
        capacitor(page, c_in, (x + 22, row + offset), nets, "1n", size="0201", place=f"tap {source}", **lying)
        page.wire(f"{r}.2", f"{c_in}.1")
        page.label(f"{behind}_{leg}", (x + 12, row + offset))
        x_in, _ = page.pin(f"{amplifier}.{pin}")
        turn = x_in - 6 + step
        page.wire(f"{c_in}.2", (turn, row + offset), (turn, row), f"{amplifier}.{pin}")
        page.label(f"{behind}_AC_{leg}", (x + 26, row + offset))
        _, out_row = page.pin(f"{amplifier}.{out}")
        nets = (f"{behind}_OUT_{leg}", f"{lane}_{leg}")
        capacitor(page, c_out, (x + 78, out_row + offset), nets, "100n", size="0201", place=f"near {amplifier}", **lying)
        x_out, _ = page.pin(f"{amplifier}.{out}")
        turn = x_out + 6 - step
        page.wire(f"{amplifier}.{out}", (turn, out_row), (turn, out_row + offset), f"{c_out}.1")
        page.label(f"{behind}_OUT_{leg}", (x + 66, out_row + offset))
    _support(page, base, amplifier, behind, f"tap_los{n}", corner)
    page.netclass("LVDS", [f"{name}_{leg}" for name in (behind, f"{behind}_AC", f"{behind}_OUT") for leg in "PN"])


def _support(page: Sheet, base: int, amplifier: str, behind: str, net_of_los: str, corner: tuple[float, float]) -> None:
    """Draw the offset loop's capacitor, the resistors that set swing and level, LOS's pull-up, and decoupling."""
    x, y = corner
    offset = (f"{behind}_COC_P", f"{behind}_COC_N")
    capacitor(page, f"C{base + 4}", (x + 12, y + 18), offset, "100n", builds="T", place=f"at {amplifier}.6")
    for step, (net, value) in enumerate(((f"{behind}_VAR", "0"), (f"{behind}_TH", "4k75"))):
        resistor(page, f"R{base + 4 + step}", (x + 24 + 10 * step, y + 18), (net, "GND"), value, builds="T", place=f"near {amplifier}")
    # LOS is an open drain in this family
    resistor(page, f"R{base + 6}", (x + 46, y + 18), ("+3V3_TAP", net_of_los), "10k", builds="T", place=f"near {amplifier}")
    wanted = [("100n", f"at {amplifier}.1"), ("100n", f"at {amplifier}.2"), ("10u", f"near {amplifier}")]
    supply_capacitors(page, base + 5, (x + 62, y + 20), "+3V3_TAP", wanted, small="0201", step=8, builds="T")
