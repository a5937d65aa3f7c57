"""The tap of lanes 0 and 1, both directions: series resistors at the pass-through, a limiting amplifier each, into the deserialisers.

Build T only.
"""

from __future__ import annotations

from ..schematic.sheet import Sheet

__all__ = ["sheet"]

CHANNELS = (
    ("HOST_TX0", "TAP_H0", "LANE0"),
    ("HOST_TX1", "TAP_H1", "LANE1"),
    ("DRIVE_TX0", "TAP_D0", "LANE2"),
    ("DRIVE_TX1", "TAP_D1", "LANE3"),
)
"""What is tapped, the name behind the resistors, and the deserialiser's input. The host's lanes go to DCU 0, the drive's to DCU 1."""
R0201, C0201, C0402 = "Resistor_SMD:R_0201_0603Metric", "Capacitor_SMD:C_0201_0603Metric", "Capacitor_SMD:C_0402_1005Metric"
R0402 = "Resistor_SMD:R_0402_1005Metric"


def sheet() -> Sheet:
    """The sheet."""
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
    """One pair: resistors, coupling, amplifier, coupling."""
    x, y = corner
    base = 100 + 10 * n
    page.box(f"{source}: to {lane}", (x - 4, y - 14), (x + 98, y + 30))
    amplifier = f"U{100 + n}"
    # the capacitor of the offset loop is between COC+ and COC-; LOS is an open collector on some of the family: pulled up
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
    for leg, pin, out, step in (("P", "7", "15", 0), ("N", "8", "14", 1)):
        _, row = page.pin(f"{amplifier}.{pin}")
        offset = 2 * step - 1
        r, c_in, c_out = f"R{base + step}", f"C{base + step}", f"C{base + 2 + step}"
        page.part(
            r,
            "Device:R",
            (x + 8, row + offset),
            {"1": f"{source}_{leg}", "2": f"{behind}_{leg}"},
            rotation=90,
            value="100",
            footprint=R0201,
            bom="r-100-0201",
            builds="T",
            place=f"tap {source}",
        )
        page.part(
            c_in,
            "Device:C",
            (x + 22, row + offset),
            {"1": f"{behind}_{leg}", "2": f"{behind}_AC_{leg}"},
            rotation=90,
            value="1n",
            footprint=C0201,
            bom="c-1n-0201",
            builds="T",
            place=f"tap {source}",
        )
        page.wire(f"{r}.2", f"{c_in}.1")
        page.label(f"{behind}_{leg}", (x + 12, row + offset))
        x_in, _ = page.pin(f"{amplifier}.{pin}")
        turn = x_in - 6 + step
        page.wire(f"{c_in}.2", (turn, row + offset), (turn, row), f"{amplifier}.{pin}")
        page.label(f"{behind}_AC_{leg}", (x + 26, row + offset))
        _, out_row = page.pin(f"{amplifier}.{out}")
        page.part(
            c_out,
            "Device:C",
            (x + 78, out_row + offset),
            {"1": f"{behind}_OUT_{leg}", "2": f"{lane}_{leg}"},
            rotation=90,
            value="100n",
            footprint=C0201,
            bom="c-100n-0201",
            builds="T",
            place=f"near {amplifier}",
        )
        x_out, _ = page.pin(f"{amplifier}.{out}")
        turn = x_out + 6 - step
        page.wire(f"{amplifier}.{out}", (turn, out_row), (turn, out_row + offset), f"{c_out}.1")
        page.label(f"{behind}_OUT_{leg}", (x + 66, out_row + offset))
    _support(page, base, amplifier, behind, corner)
    page.netclass("LVDS", [f"{name}_{leg}" for name in (behind, f"{behind}_AC", f"{behind}_OUT") for leg in "PN"])


def _support(page: Sheet, base: int, amplifier: str, behind: str, corner: tuple[float, float]) -> None:
    """The offset loop's capacitor, the resistors that set swing and level, decoupling."""
    x, y = corner
    page.part(
        f"C{base + 4}",
        "Device:C",
        (x + 12, y + 18),
        {"1": f"{behind}_COC_P", "2": f"{behind}_COC_N"},
        value="100n",
        footprint=C0402,
        bom="c-100n-0402",
        builds="T",
        place=f"at {amplifier}.6",
    )
    for step, (net, value, bom) in enumerate(((f"{behind}_VAR", "0", "r-0-0402"), (f"{behind}_TH", "10k", "r-10k-0402"))):
        page.part(
            f"R{base + 4 + step}",
            "Device:R",
            (x + 24 + 10 * step, y + 18),
            {"1": net, "2": "GND"},
            value=value,
            footprint=R0402,
            bom=bom,
            builds="T",
            place=f"near {amplifier}",
        )
    refs = [f"C{base + 5 + k}" for k in range(3)]
    for k, (ref, value, footprint, bom) in enumerate(
        zip(
            refs,
            ("100n", "100n", "10u"),
            (C0201, C0201, "Capacitor_SMD:C_0603_1608Metric"),
            ("c-100n-0201", "c-100n-0201", "c-10u-0603"),
            strict=True,
        )
    ):
        page.part(
            ref,
            "Device:C",
            (x + 62 + 8 * k, y + 20),
            {"1": "+3V3_TAP", "2": "GND"},
            value=value,
            footprint=footprint,
            bom=bom,
            builds="T",
            place=f"at {amplifier}.{k + 1}" if k < 2 else f"near {amplifier}",
        )
    page.rail("+3V3_TAP", [f"{ref}.1" for ref in refs])
    page.rail("GND", [f"{ref}.2" for ref in refs])
