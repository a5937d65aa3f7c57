"""The rig's own loads for its self-test, behind the shunt, and the terminals at which it is calibrated.

Values, edges and leakage: hw/afe (``[test_load]`` of parts.toml, decks/selftest-load.cir).
"""

from __future__ import annotations

from afe.parts import load

from ..schematic.common import resistor, supply_capacitors
from ..schematic.sheet import Point, Sheet
from ..values import E24, standard, written

__all__ = ["sheet"]

LOAD = load()[0]["test_load"]
TERMINAL = "TerminalBlock_Phoenix:TerminalBlock_Phoenix_MKDS-1,5-2-5.08_1x02_P5.08mm_Horizontal"


def sheet() -> Sheet:
    """The sheet."""
    page = Sheet(
        "selftest", "Self-test loads and calibration terminals", 12, comments=("Loads hang behind the shunt: what they leak is measured",)
    )
    _load(page, 0, "Coarse path: 1 A", (6, 12), LOAD.resistance_coarse, 2)
    _load(page, 1, "Fine path: 90 mA", (66, 12), LOAD.resistance_fine, 1)
    page.unit("U1200", 3, (12, 62), value_at=(3, -0.4))
    supply_capacitors(page, 1200, (28, 62), "+3V3", [("100n", "at U1200.5"), ("1u", "near U1200")], step=6)
    page.text(
        "Two transistors, and the point between them at the rail in front of the shunt: off, the upper one\n"
        "has no voltage across it, and what the lower one leaks does not pass the shunt. On for 147 us at\n"
        "most (gateware); pulled down while there is no FPGA. Edges and leakage: docs/front-end.md.\n"
        "The temperature sensor beside the shunt is U502 (page 7).",
        (40, 58),
        1.4,
    )
    _terminals(page)
    page.netclass("Power", ("load_drain0",))
    return page


def _load(page: Sheet, n: int, title: str, corner: Point, ohm: float, beside: int) -> None:
    """One load: buffer, gates, two transistors, ``beside`` resistors side by side."""
    x, y = corner
    page.box(title, corner, (x + 54, y + 40))
    upper, lower = f"Q{1200 + 2 * n}", f"Q{1201 + 2 * n}"
    gate, drain, middle = f"load_drive{n}", f"load_drain{n}", f"load_middle{n}"
    gates = [f"load_upper{n}", f"load_lower{n}"]
    if n == 0:
        page.part(
            "U1200",
            "74xGxx:74LVC2G34",
            (x + 12, y + 19),
            {"1": "load_gate0", "6": "load_drive0", "3": "load_gate1", "4": "load_drive1", "5": "+3V3", "2": "GND"},
            value="74LVC2G34",
            footprint="Package_TO_SOT_SMD:SOT-363_SC-70-6",
            bom="74lvc2g34",
            value_at=(-2, -4),
        )
    else:
        page.unit("U1200", 2, (x + 12, y + 19), value_at=(-2, -4))
    pins = ("1", "6") if n == 0 else ("3", "4")
    resistor(page, f"R{1200 + 10 * n}", (x + 4, y + 26), (f"load_gate{n}", "GND"), "100k")
    page.wire(f"U1200.{pins[0]}", (x + 4, y + 19), f"R{1200 + 10 * n}.1")
    page.label(f"load_gate{n}", (x + 4, y + 19), (0, -1))
    page.wire(f"U1200.{pins[1]}", (x + 18, y + 19))
    page.wire((x + 18, y + 15), (x + 18, y + 23))
    page.label(gate, (x + 18, y + 19))
    for step, (q, net, row) in enumerate(((upper, gates[0], y + 15), (lower, gates[1], y + 23))):
        ends = {"1": net, "3": drain if step == 0 else middle, "2": middle if step == 0 else "GND"}
        page.part(
            q,
            "Transistor_FET:BSS214NW",
            (x + 35, row),
            ends,
            value="BSS214NW",
            footprint="Package_TO_SOT_SMD:SOT-323_SC-70",
            bom="bss214nw",
            place="near R1000",
            value_at=(2, -0.3),
        )
        ref = f"R{1201 + 10 * n + step}"
        resistor(page, ref, (x + 24, row), (gate, net), written(LOAD.gate_resistance), lying=True, place=f"at {q}.1")
        page.wire((x + 18, row), f"{ref}.1")
        page.wire(f"{ref}.2", f"{q}.1")
        page.label(net, (x + 26, row))
    each = written(standard(ohm * beside, E24, 1e-3))
    for k in range(beside):
        ref = f"R{1203 + 10 * n + k}"
        resistor(page, ref, (x + 36 + 7 * k, y + 8), ("+3V3_DRIVE", drain), each, size="2512", place="near R1000")
        page.wire(f"{ref}.2", (x + 36 + 7 * k, y + 11))
    if beside > 1:
        page.wire((x + 36, y + 11), (x + 36 + 7 * (beside - 1), y + 11))
    page.rail("+3V3_DRIVE", [f"R{1203 + 10 * n + k}.1" for k in range(beside)])
    page.wire((x + 36, y + 11), f"{upper}.3")
    page.label(drain, (x + 36, y + 12))
    page.wire(f"{upper}.2", f"{lower}.3")
    guard = f"R{1206 + 10 * n}"
    resistor(page, guard, (x + 48, y + 17), ("+3V3_SW", middle), written(LOAD.guard), size="0603", place=f"at {upper}.2")
    page.wire((x + 36, y + 19), (x + 48, y + 19), f"{guard}.2")
    page.label(middle, (x + 39, y + 19))


def _terminals(page: Sheet) -> None:
    """Draw the terminals for a bench source and a meter."""
    page.box("Calibration: no drive in the socket, PERST# low", (126, 12), (158, 52))
    page.part(
        "J1200",
        "Connector_Generic:Conn_01x02",
        (140, 20),
        {"1": "+3V3_DRIVE", "2": "GND"},
        value="bench, sinks to 4 A",
        footprint=TERMINAL,
        bom="terminal-2x5.08",
        place="near J2",
        value_at=(1.5, -0.2),
    )
    for step, (net, inner, ohm, value, place) in enumerate(
        (("kelvin_n", "cal_sense", "10", "V, drive's side", "near R1000"), ("vref", "cal_vref", "1k", "4.096 V", "near U1009"))
    ):
        row = 30 + 7 * step
        resistor(page, f"R{1220 + step}", (138, row), (net, inner), ohm, lying=True, place=place)
        page.part(
            f"TP{1200 + step}",
            "Connector:TestPoint",
            (148, row),
            {"1": inner},
            value=value,
            footprint="TestPoint:TestPoint_Pad_D1.5mm",
            bom="none",
            value_at=(1, -1.6),
        )
        page.wire(f"R{1220 + step}.2", f"TP{1200 + step}.1")
        page.label(inner, (141, row))
    page.part(
        "TP1202",
        "Connector:TestPoint",
        (148, 44),
        {"1": "GND"},
        value="beside R1000",
        footprint="TestPoint:TestPoint_Pad_D1.5mm",
        bom="none",
        value_at=(1, -1.6),
    )
