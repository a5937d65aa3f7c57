"""Clocks: the counter's oscillator, and the deserialisers' oscillators."""

from __future__ import annotations

from ..schematic.common import capacitor, resistor, supply_capacitors
from ..schematic.sheet import Sheet

__all__ = ["sheet"]


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet("clocks", "Clocks", 5)
    page.box("Counter: every instant in a capture is as good as this", (8, 12), (54, 30))
    page.part(
        "Y300",
        "wattbell:TCXO",
        (26, 20),
        {"1": "", "2": "GND", "3": "tcxo_out", "4": "+3V3"},
        value="25 MHz TCXO",
        footprint="Oscillator:Oscillator_SMD_Abracon_ASE-4Pin_3.2x2.5mm",
        bom="tcxo",
    )
    _, row = page.pin("Y300.3")
    resistor(page, "R300", (40, row), ("tcxo_out", "clk25"), "33", lying=True, place="at Y300.3")
    page.wire("Y300.3", "R300.1")
    page.label("tcxo_out", (33, row))
    supply_capacitors(page, 300, (12, 26), "+3V3", [("100n", "at Y300.4")])
    for n in range(2):
        x = 8 + 52 * n
        y = f"Y{301 + n}"
        page.box(f"DCU {n}: {'host' if n == 0 else 'drive'}'s lanes", (x, 36), (x + 48, 66))
        page.part(
            y,
            "wattbell:OSC_LVDS",
            (x + 18, 46),
            {"1": "+3V3", "2": "", "3": "GND", "4": f"osc{n}_p", "5": f"osc{n}_n", "6": "+3V3"},
            value="250 MHz LVDS",
            footprint="Oscillator:Oscillator_SMD_SiTime_SiT9121-6Pin_3.2x2.5mm",
            bom="osc-250m-lvds",
        )
        for leg, pin, step in (("p", "4", 0), ("n", "5", 1)):
            c = f"C{310 + 10 * n + step}"
            end, line = page.pin(f"{y}.{pin}")
            capacitor(
                page,
                c,
                (x + 34, line + 2 * step - 1),
                (f"osc{n}_{leg}", f"dcu_reference{n}_{leg}"),
                "100n",
                size="0201",
                lying=True,
                place=f"near {y}",
            )
            turn = end + 3 - step
            page.wire(f"{y}.{pin}", (turn, line), (turn, line + 2 * step - 1), f"{c}.1")
            page.label(f"osc{n}_{leg}", (x + 27, line + 2 * step - 1))
        supply_capacitors(page, 314 + 10 * n, (x + 6, 58), "+3V3", [("100n", f"at {y}.6"), ("10u", f"near {y}")])
        page.netclass("LVDS", (f"osc{n}_p", f"osc{n}_n"))
    page.text(
        "Two oscillators, not one and a fan-out: a deserialiser only needs a clock that is near the link's, as the data bring their own.\n"
        "The slot's REFCLK is not used: it stops in L1.2.",
        (8, 70),
        1.4,
    )
    return page
