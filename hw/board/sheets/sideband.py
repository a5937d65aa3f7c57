"""PERST# and CLKREQ#: buffers listen to them, and transistors hold them low."""

from __future__ import annotations

from ..schematic.common import resistor, supply_capacitors
from ..schematic.sheet import Sheet

__all__ = ["sheet"]


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet("sideband", "Sidebands of the slot", 8)
    page.box("Listening: 10 k, then inputs that leak nothing without power (Ioff)", (6, 10), (106, 42))
    page.part(
        "U600",
        "74xGxx:74LVC2G34",
        (56, 18),
        {"1": "sb_perst", "6": "sideband_perst_n", "3": "sb_clkreq", "4": "sideband_clkreq_n", "5": "+3V3", "2": "GND"},
        value="74LVC2G34",
        footprint="Package_TO_SOT_SMD:SOT-363_SC-70-6",
        bom="74lvc2g34",
    )
    page.unit("U600", 2, (56, 28))
    page.unit("U600", 3, (86, 24), value_at=(5, 0))
    for n, (line, inner, pin) in enumerate((("PERST_DRIVE_N", "sb_perst", "1"), ("CLKREQ_N", "sb_clkreq", "3"))):
        _, row = page.pin(f"U600.{pin}")
        resistor(page, f"R{600 + n}", (36, row), (line, inner), "10k", lying=True, place="near J2")
        page.wire(f"R{600 + n}.2", f"U600.{pin}")
        page.label(inner, (42, row))
    supply_capacitors(page, 600, (98, 36), "+3V3", [("100n", "at U600.5")])
    page.box("Holding low: off while the FPGA has no configuration", (6, 46), (106, 74))
    for n, (gate, line, what) in enumerate(
        (("power_perst_low", "PERST_DRIVE_N", "the drive stays in reset"), ("power_clkreq_low", "CLKREQ_N", "the clock is asked for"))
    ):
        x = 14 + 50 * n
        q, r = f"Q{600 + n}", f"R{602 + n}"
        page.part(
            q,
            "Transistor_FET:BSS138",
            (x + 14, 58),
            {"1": gate, "2": "GND", "3": line},
            value="BSS138",
            footprint="Package_TO_SOT_SMD:SOT-23",
            bom="bss138",
            place="near J2",
            value_at=(2, -0.3),
        )
        resistor(page, r, (x, 62), (gate, "GND"), "100k", place=f"at {q}.1")
        page.text(what, (x + 17, 64), 1.3)
    return page
