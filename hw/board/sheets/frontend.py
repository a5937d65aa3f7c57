"""The analog front end, as in hw/afe: shunt, first pair, coarse and fine path, voltage, three converters, reference.

Values are hw/afe's, rounded to the nearest standard value; each use states the allowed deviation.
"""

from __future__ import annotations

from afe import design as afe
from afe.parts import load

from ..schematic.common import capacitor, resistor, supply_capacitors
from ..schematic.sheet import Point, Sheet
from ..values import E24, E96, parallel, standard, written

__all__ = ["sheet"]

PARTS, _ = load()
FILTER = PARTS["filter"]
RESISTOR_WITHIN, CAPACITOR_WITHIN = 5e-4, 5e-4
"""Greatest relative deviations of a fitted filter from hw/afe, for its standard values: 1 ns of a path's delay each."""
CLAMP_WITHIN = 3e-3
"""The same for the clamp's resistors, which only make a pole of 4 ns."""
VOCM_OHM = 4990.0

SOIC = "Package_SO:SOIC-8_3.9x4.9mm_P1.27mm"
MSOP = "Package_SO:MSOP-8-1EP_3x3mm_P0.65mm_EP1.68x1.88mm"
DRIVER = "Package_CSP:LFCSP-16-1EP_3x3mm_P0.5mm_EP1.3x1.3mm_ThermalVias"
INNER = "+12VA_FE"
"""+12VA after a diode: see the note on the page."""


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet(
        "frontend",
        "Analog front end of the 3.3 V rail",
        10,
        paper="A2",
        comments=("Circuit, values and error budget: hw/afe; held against its decks by 'make board'",),
    )
    _shunt(page)
    amplifiers = (1001, "first pair, x 25", (62, 10)), (1002, "second pair of the fine path, x 16", (62, 56))
    ends = (("first_in", "kelvin_n", "first"), ("clamp_p", "clamp_n", "second"))
    for (number, title, corner), (plus, minus, stem), values in zip(amplifiers, ends, (afe.FIRST_PAIR, afe.SECOND_PAIR), strict=True):
        _pair(page, number, title[0].upper() + title[1:], corner, (plus, minus), stem, values)
    _clamp(page)
    _driver(page, 0, "coarse", (116, 10), "first", afe.COARSE_DRIVER, "LT5400-7", FILTER.coarse)
    _driver(page, 1, "fine", (116, 56), "second", afe.FINE_DRIVER, "LT5400-8", FILTER.fine)
    _voltage(page)
    _reference(page)
    _supplies(page)
    _digital(page)
    page.netclass("Kelvin", ("kelvin_p", "kelvin_n", "first_in", "volt_in"))
    analog = [f"{stem}_{leg}" for stem in ("first", "first_fb", "second", "second_fb", "clamp") for leg in "pn"]
    analog += [f"{path}_{what}_{leg}" for path in ("coarse", "fine") for what in ("sum", "out", "adc") for leg in "pn"]
    page.netclass("Analog", [*analog, "volt_buffer", "volt_divided", "volt_out", "volt_adc", "vref", "vocm"])
    return page


def _shunt(page: Sheet) -> None:
    """Draw the shunt, the switch for autozero, and the diode of the inputs' supply."""
    page.box("Shunt with its own sense terminals; autozero", (6, 10), (58, 52))
    page.part(
        "R1000",
        "Device:R_Shunt",
        (14, 22),
        {"1": "+3V3_SW", "2": "kelvin_p", "3": "kelvin_n", "4": "+3V3_DRIVE"},
        value=written(PARTS["shunt"].resistance),
        footprint="wattbell:R_Shunt_VCS1625",
        bom="vcs1625-10m",
        place="shunt",
        value_at=(-6, -0.5),
        note="VCS1625, 0.1 %",
    )
    for pin, net in (("2", "kelvin_p"), ("3", "kelvin_n")):
        x, y = page.pin(f"R1000.{pin}")
        page.wire(f"R1000.{pin}", (x + 4, y))
        page.label(net, (x + 4, y))
    page.part(
        "U1000",
        "wattbell:ADG1636",
        (40, 24),
        {
            "1": "afe_zero1",
            "2": "kelvin_n",
            "3": "first_in",
            "4": "kelvin_p",
            "9": "afe_zero0",
            "10": "GND",
            "11": "volt_in",
            "12": "kelvin_n",
            "13": INNER,
            "14": "+3V3",
            "5": "GND",
            "6": "GND",
            **dict.fromkeys(("7", "8", "15", "16"), ""),
        },
        value="ADG1636",
        footprint="Package_SO:TSSOP-16_4.4x5mm_P0.65mm",
        bom="adg1636",
        place="at R1000",
    )
    page.rail("GND", ["U1000.5", "U1000.6"])
    for n, net in enumerate(("afe_zero0", "afe_zero1")):
        resistor(page, f"R{1001 + n}", (10 + 7 * n, 38), (net, "GND"), "100k")
    supply_capacitors(page, 1000, (27, 38), INNER, [("100n", "at U1000.13"), ("1u", "at U1000.13")], step=6)
    page.part(
        "D1000",
        "Device:D_Schottky",
        (46, 38),
        {"1": INNER, "2": "+12VA"},
        rotation=180,
        value="BAT54W",
        footprint="Diode_SMD:D_SOD-323",
        bom="schottky-30v-sod323",
        value_at=(-1.5, -2),
    )
    page.flag(INNER, (54, 30))
    page.flag("+3V3_DRIVE", (20, 30))
    page.text(
        "afe_zero1 high: both inputs of the first pair at the shunt's drive side.\n"
        "afe_zero0 high: the voltage path at ground. Low (as without a configured FPGA): both measure.\n"
        "The drive's rail is there without USB, the analog supplies are not. It then lifts what hangs\n"
        "on " + INNER + " through these parts' input diodes, to 2.7 V; the diode keeps it from the rest of +12VA.",
        (8, 44),
        1.27,
    )


def _split(page: Sheet, ref: str, unit: int, at: Point, ohm: float, *, lying: bool = False) -> None:
    """Draw another resistor of a network on the page, with its value."""
    page.unit(ref, unit, at, rotation=90 if lying else 0)
    _ohm(page, at, ohm, lying)


def _ohm(page: Sheet, at: Point, ohm: float, lying: bool) -> None:
    x, y = at
    page.text(written(ohm), (x - 0.5, y + 0.6) if lying else (x - 2.4, y - 0.3), 1.27)


def _pair(page: Sheet, number: int, title: str, corner: Point, inputs: tuple[str, str], stem: str, values: tuple[float, float]) -> None:
    """Draw two amplifiers with a common resistor between their inverting inputs."""
    x, y = corner
    page.box(title, corner, (x + 50, y + 42))
    amplifier, network = f"U{number}", f"RN{number - 1}"
    between, feedback = values
    pins = {"3": inputs[0], "2": f"{stem}_fb_p", "1": f"{stem}_p", "5": inputs[1], "6": f"{stem}_fb_n", "7": f"{stem}_n"}
    page.part(
        amplifier,
        "Device:Opamp_Dual",
        (x + 20, y + 8),
        pins | {"8": INNER, "4": "-5VA"},
        value="OPA2189",
        footprint=SOIC,
        bom="opa2189",
        place="at R1000" if number == 1001 else "",
        value_at=(-1, -4.2),
    )
    page.unit(amplifier, 2, (x + 20, y + 32), mirror="x", value_at=(-1, 4))
    column = x + 30.0
    nets = {"8": f"{stem}_p", "1": f"{stem}_fb_p", "7": f"{stem}_fb_n", "2": f"{stem}_n", "6": f"{stem}_fb_p", "3": f"{stem}_fb_n"}
    page.part(
        network,
        "Device:R_Pack04_Split",
        (column, y + 13),
        nets | {"4": "", "5": ""},
        value="SMN",
        note=f"{written(feedback)} {written(feedback)} {written(between)} -",
        footprint=SOIC,
        bom=f"smn-{stem}",
        place=f"near {amplifier}",
        value_at=(1, -0.4),
    )
    _ohm(page, (column, y + 13), feedback, False)
    _split(page, network, 3, (column, y + 20), between)
    _split(page, network, 2, (column, y + 27), feedback)
    page.unit(network, 4, (x + 44, y + 36))
    page.wire(f"{amplifier}.1", (column, y + 8), f"{network}.8")
    page.wire(f"{network}.1", (column, y + 16.5), f"{network}.6")
    page.wire(f"{network}.3", (column, y + 23.5), f"{network}.7")
    page.wire(f"{network}.2", (column, y + 32), f"{amplifier}.7")
    left = x + 14.0
    for pin, row in (("2", y + 16.5), ("6", y + 23.5)):
        _, end = page.pin(f"{amplifier}.{pin}")
        page.wire((column, row), (left, row), (left, end), f"{amplifier}.{pin}")
    page.label(f"{stem}_fb_p", (left + 2, y + 16.5))
    page.label(f"{stem}_fb_n", (left + 2, y + 23.5))
    for row, leg in ((y + 8, "p"), (y + 32, "n")):
        page.wire((column, row), (column + 4, row))
        page.label(f"{stem}_{leg}", (column + 4, row))
    for pin, net in (("3", inputs[0]), ("5", inputs[1])):
        ex, ey = page.pin(f"{amplifier}.{pin}")
        page.wire(f"{amplifier}.{pin}", (ex - 2, ey))
        page.label(net, (ex - 2, ey), (-1, 0))


def _diodes(page: Sheet, ref: str, at: Point, nets: tuple[str, str], value: str) -> None:
    """Draw two diodes in one case, one each way between two nets."""
    one, other = nets
    page.part(
        ref,
        "Diode:BAV99",
        at,
        {"1": one, "2": one, "3": other},
        value=value,
        footprint="Package_TO_SOT_SMD:SOT-23",
        bom=value.lower(),
        value_at=(-2, -2.4),
    )
    x, y = at
    page.wire(f"{ref}.1", (x - 3, y - 1.5), (x + 3, y - 1.5), f"{ref}.2")
    page.wire((x - 3, y - 1.5), (x - 5, y - 1.5))
    page.label(one, (x - 5, y - 1.5), (-1, 0))


def _clamp(page: Sheet) -> None:
    """Draw the clamp in front of the second pair, which cuts off voltages above its range."""
    page.box("Clamp in front of the fine path", (6, 56), (58, 98))
    each = written(standard(afe.CLAMP_RESISTANCE / 2, E96, CLAMP_WITHIN))
    for n, leg in enumerate("pn"):
        y = 66 + 16 * n
        resistor(page, f"R{1003 + n}", (22, y), (f"first_{leg}", f"clamp_{leg}"), each, size="0603", grade="-thin", lying=True)
        page.wire(f"R{1003 + n}.1", (16, y))
        page.label(f"first_{leg}", (16, y), (-1, 0))
        page.wire(f"R{1003 + n}.2", (48, y))
        page.label(f"clamp_{leg}", (48, y))
    page.part(
        "D1001",
        "Diode:BAV99",
        (37, 73),
        {"1": "clamp_p", "2": "clamp_p", "3": "clamp_n"},
        value="BAV199",
        footprint="Package_TO_SOT_SMD:SOT-23",
        bom="bav199",
        value_at=(4, 1),
    )
    page.wire((34, 66), "D1001.1")
    page.wire((40, 66), "D1001.2")
    page.wire("D1001.3", (37, 82))
    page.text("One diode each way in one case: pins 1 and 2 joined.\nLow leakage, so that 1 kohm does not bend the scale.", (8, 90), 1.27)


def _driver(
    page: Sheet, n: int, path: str, corner: Point, source: str, values: tuple[float, float], network_type: str, capacitance: float
) -> None:
    """Draw a path's driver, filter and converter."""
    x, y = corner
    current = "+-4.096 A" if n == 0 else "+-113.8 mA"
    page.box(f"{path.capitalize()} path: driver x {values[1] / values[0]:g}, filter, converter, {current}", corner, (x + 110, y + 42))
    driver, network, adc = f"U{1004 + n}", f"RN{1003 + n}", f"U{1006 + n}"
    at = (x + 28.0, y + 18.0)
    page.part(
        driver,
        "Amplifier_Difference:ADA4940-1xCP",
        at,
        {
            "2": f"{path}_sum_p",
            "3": f"{path}_sum_n",
            "4": f"{path}_fb_p",
            "1": f"{path}_fb_n",
            "10": f"{path}_out_p",
            "11": f"{path}_out_n",
            "9": "vocm",
            "12": "+5V2A",
            **dict.fromkeys(("5", "6", "7", "8"), "+5V2A"),
            **dict.fromkeys(("13", "14", "15", "16", "17"), "-1VA"),
        },
        value="ADA4940-1",
        footprint=DRIVER,
        bom="ada4940-1",
        value_at=(3, -3.4),
    )
    # R1 and R4 of the network are the feedback, R2 and R3 at the inputs
    inputs, feedback = values
    page.part(
        network,
        "wattbell:LT5400",
        (x + 28, y + 10),
        {
            "8": f"{path}_sum_n",
            "1": f"{path}_fb_p",
            "7": f"{source}_n",
            "2": f"{path}_sum_n",
            "6": f"{source}_p",
            "3": f"{path}_sum_p",
            "5": f"{path}_sum_p",
            "4": f"{path}_fb_n",
            "9": "GND",
        },
        value=network_type,
        footprint=MSOP,
        bom=network_type.lower(),
        place=f"at {driver}",
        rotation=90,
    )
    _ohm(page, (x + 28, y + 10), feedback, True)
    _split(page, network, 4, (x + 28, y + 26), feedback, lying=True)
    _split(page, network, 2, (x + 14, y + 16), inputs, lying=True)
    _split(page, network, 3, (x + 14, y + 20), inputs, lying=True)
    page.unit(network, 5, (x + 6, y + 36))
    # a turned unit's upper pin is the left one
    for leg, row, turn, first, second, sums, back, amp in (
        ("n", y + 16, y + 10, "7", "2", "8", "1", "4"),
        ("p", y + 20, y + 26, "6", "3", "5", "4", "1"),
    ):
        page.wire(f"{network}.{first}", (x + 9, row))
        page.label(f"{source}_{leg}", (x + 9, row), (-1, 0))
        page.wire(f"{network}.{second}", f"{driver}.{'3' if leg == 'n' else '2'}")
        page.wire((x + 20, row), (x + 20, turn), f"{network}.{sums}")
        page.label(f"{path}_sum_{leg}", (x + 20, row - 3 if leg == "n" else row + 3), (1, 0))
        above = turn + (2 if leg == "n" else -2)
        page.wire(f"{network}.{back}", (x + 33, turn), (x + 33, above), (x + 28, above), f"{driver}.{amp}")
        page.label(f"{path}_fb_{'p' if leg == 'n' else 'n'}", (x + 33, turn))
        other = turn + (-4 if leg == "n" else 4)
        ref = f"C{1003 + 2 * n + (leg == 'p')}"
        nets = (f"{path}_sum_{leg}", f"{path}_fb_{'p' if leg == 'n' else 'n'}")
        capacitor(
            page, ref, (x + 28, other), nets, written(PARTS["driver"].feedback), grade="-c0g", lying=True, place=f"at {network}.{sums}"
        )
        page.wire((x + 20, turn), (x + 20, other), f"{ref}.1")
        page.wire(f"{ref}.2", (x + 33, other), (x + 33, turn))
    _converter(page, adc, (x + 88, y + 18), (f"{path}_adc_p", f"{path}_adc_n"), f"{path}_sdo", "AD4003")
    _filter(page, n, path, (x + 36, y + 18), driver, capacitance)
    _diodes(page, f"D{1002 + n}", (x + 24, y + 34), (f"{path}_sum_p", f"{path}_sum_n"), "BAV99")
    page.text("Across the driver's inputs, which are at one voltage\nunless the path is overloaded.", (x + 34, y + 32), 1.27)


def _filter(page: Sheet, n: int, path: str, at: Point, driver: str, capacitance: float) -> None:
    """Draw both legs' resistors and the capacitors between them."""
    x, y = at
    ohm = written(standard(FILTER.resistance, E96, RESISTOR_WITHIN))
    for leg, pin, row in (("p", "10", y - 4), ("n", "11", y + 4)):
        ref = f"R{1005 + 2 * n + (leg == 'n')}"
        resistor(page, ref, (x + 10, row), (f"{path}_out_{leg}", f"{path}_adc_{leg}"), ohm, size="0603", grade="-thin", lying=True)
        _, out = page.pin(f"{driver}.{pin}")
        page.wire(f"{driver}.{pin}", (x, out), (x, row), f"{ref}.1")
        page.label(f"{path}_out_{leg}", (x + 2, row))
        page.wire(f"{ref}.2", (x + 38, row), (x + 38, y - 1 if leg == "p" else y + 1), f"U{1006 + n}.{'3' if leg == 'p' else '4'}")
        page.label(f"{path}_adc_{leg}", (x + 31, row))
    for step, value in enumerate(parallel(capacitance, CAPACITOR_WITHIN)):
        ref = f"C{1010 + 2 * n + step}"
        size = "0603" if value > 1e-9 else "0402"
        nets = (f"{path}_adc_p", f"{path}_adc_n")
        capacitor(page, ref, (x + 16 + 7 * step, y), nets, written(value), size=size, grade="-c0g", place=f"at U{1006 + n}.3")
        page.wire((x + 16 + 7 * step, y - 4), f"{ref}.1")
        page.wire(f"{ref}.2", (x + 16 + 7 * step, y + 4))


def _converter(page: Sheet, ref: str, at: Point, inputs: tuple[str, str], output: str, value: str) -> None:
    """Draw a converter with its capacitors, and the resistor in its data line."""
    page.part(
        ref,
        "Analog_ADC:AD40xxBRMZ",
        at,
        {
            "1": "vref",
            "2": "+1V8A",
            "3": inputs[0],
            "4": inputs[1],
            "5": "GND",
            "6": "afe_cnv",
            "7": output,
            "8": "afe_sck",
            "9": "+3V3",
            "10": "+3V3",
        },
        value=value,
        footprint="Package_SO:MSOP-10_3x3mm_P0.5mm",
        bom=value.lower(),
        value_at=(3, 3.6),
    )
    x, y = at
    for pin, net, bend in (("1", "vref", -3), ("2", "+1V8A", 0), ("10", "+3V3", 3)):
        ex, ey = page.pin(f"{ref}.{pin}")
        page.wire(f"{ref}.{pin}", (ex, ey - 1), (ex + bend, ey - 1), *(() if bend else ((ex, ey - 2),)))
        page.label(net, (ex + bend, ey - 1 if bend else ey - 2), (bend // 3, 0) if bend else (0, -1))
    first = 1020 + 10 * (int(ref[1:]) - 1006)
    supply_capacitors(page, first, (x - 6, y + 16), "vref", [("10u", f"at {ref}.1")])
    supply_capacitors(page, first + 1, (x + 2, y + 16), "+1V8A", [("100n", f"at {ref}.2")])
    supply_capacitors(page, first + 2, (x + 10, y + 16), "+3V3", [("100n", f"at {ref}.10")])


def _voltage(page: Sheet) -> None:
    """Draw follower, divider, follower, filter and converter."""
    page.box("Voltage at the shunt's drive side: follower, divider, follower, 0 to 5 V", (6, 102), (112, 146))
    pins = {"3": "volt_in", "2": "volt_buffer", "1": "volt_buffer", "5": "volt_divided", "6": "volt_out", "7": "volt_out"}
    page.part(
        "U1003",
        "Device:Opamp_Dual",
        (20, 116),
        pins | {"8": INNER, "4": "-5VA"},
        value="OPA2189",
        footprint=SOIC,
        bom="opa2189",
        value_at=(-1, -3.2),
    )
    page.unit("U1003", 2, (48, 117), value_at=(-1, -3.2))
    upper, lower = afe.DIVIDER_OHM
    page.part(
        "RN1002",
        "Device:R_Pack04_Split",
        (30, 116),
        {"8": "volt_buffer", "1": "volt_divided", "7": "volt_divided", "2": "GND", "6": "", "3": "", "5": "", "4": ""},
        rotation=90,
        value="SMN",
        note=f"{written(upper)} {written(lower)} - -",
        footprint=SOIC,
        bom="smn-divider",
        place="near U1003",
    )
    _ohm(page, (30, 116), upper, True)
    _split(page, "RN1002", 2, (37, 121), lower)
    for n in (3, 4):
        page.unit("RN1002", n, (28 + 8 * n, 132))
    near = written(standard(afe.DIVIDER_CAPACITANCE, E24, 0.03))
    capacitor(page, "C1002", (41, 121), ("volt_divided", "GND"), near, grade="-c0g", place="at U1003.5")
    ohm = written(standard(FILTER.voltage_resistance, E96, RESISTOR_WITHIN))
    resistor(page, "R1009", (57, 117), ("volt_out", "volt_adc"), ohm, size="0603", grade="-thin", lying=True)
    page.label("volt_in", "U1003.3", (-1, 0))
    page.wire("U1003.3", (17, 115))
    for pin, out, x, y in (("2", "1", 20, 116), ("6", "7", 48, 117)):
        page.wire(f"U1003.{pin}", (x - 3, y + 4), (x + 4, y + 4), (x + 4, y), f"U1003.{out}")
    page.wire((24, 116), "RN1002.8")
    page.label("volt_buffer", (20, 120))
    page.wire("RN1002.1", "U1003.5")
    page.wire((37, 116), "RN1002.7")
    page.wire((41, 116), "C1002.1")
    page.label("volt_divided", (33, 116))
    page.wire((52, 117), "R1009.1")
    page.label("volt_out", (48, 121))
    page.wire("R1009.2", (78, 117))
    page.label("volt_adc", (74, 117))
    for step, value in enumerate(parallel(FILTER.voltage, CAPACITOR_WITHIN)):
        ref = f"C{1014 + step}"
        nets = ("volt_adc", "GND")
        capacitor(
            page, ref, (62 + 6 * step, 121), nets, written(value), size="0603" if value > 1e-9 else "0402", grade="-c0g", place="at U1008.3"
        )
        page.wire((62 + 6 * step, 117), f"{ref}.1")
    _converter(page, "U1008", (90, 118), ("volt_adc", "GND"), "volt_sdo", "AD4002")
    page.wire((78, 117), "U1008.3")
    page.text(
        "A follower, as nothing may draw current behind the shunt. Both current paths' converters are AD4003;\n"
        "this one is AD4002, against ground. SDI at VIO: three-wire mode, no registers, so no high-impedance\n"
        "mode; the filters are made for that.",
        (8, 140),
        1.27,
    )


def _reference(page: Sheet) -> None:
    """Draw 4.096 V for all converters, and half of this voltage for the drivers' common mode."""
    page.box("Reference", (116, 102), (166, 122))
    page.part(
        "U1009",
        "Reference_Voltage:ADR444xRZ",
        (130, 111),
        {"2": "+5V2A", "4": "GND", "6": "vref", "5": "", **dict.fromkeys(("1", "3", "7", "8"), "")},
        value="ADR444B",
        footprint=SOIC,
        bom="adr444b",
        value_at=(3, -3),
    )
    supply_capacitors(page, 1050, (121, 113), "+5V2A", [("100n", "at U1009.2")])
    supply_capacitors(page, 1051, (141, 113), "vref", [("1u", "at U1009.6")])
    half = written(standard(VOCM_OHM, E96, 1e-3))
    resistor(page, "R1010", (150, 108), ("vref", "vocm"), half)
    resistor(page, "R1011", (150, 114), ("vocm", "GND"), half)
    page.wire("R1010.2", "R1011.1")
    page.label("vocm", (150, 111))
    capacitor(page, "C1052", (158, 114), ("vocm", "GND"), "100n", place="at U1004.9")
    capacitor(page, "C1053", (163, 114), ("vocm", "GND"), "100n", place="at U1005.9")


def _digital(page: Sheet) -> None:
    """Draw the resistors in the converters' lines, at their senders."""
    page.box("Converters' lines: resistors at the sender", (116, 126), (166, 146))
    lines = (
        ("adc_cnv", "afe_cnv"),
        ("adc_sck", "afe_sck"),
        ("coarse_sdo", "adc_sdo_i"),
        ("fine_sdo", "adc_fine_sdo"),
        ("volt_sdo", "adc_sdo_v"),
    )
    places = ("at U200.L1", "at U200.L2", "at U1006.7", "at U1007.7", "at U1008.7")
    for n, (nets, place) in enumerate(zip(lines, places, strict=True)):
        at = (130 + 24 * (n // 3), 131 + 5 * (n % 3))
        resistor(page, f"R{1020 + n}", at, nets, "33", lying=True, place=place)


def _supplies(page: Sheet) -> None:
    """Draw the amplifiers' supply pins, each with its capacitors."""
    page.box("Supplies of the amplifiers", (170, 102), (226, 142))
    for n in range(3):
        ref, x = f"U{1001 + n}", 177 + 17 * n
        page.unit(ref, 3, (x - 1, 111), value_at=(1, -0.4))
        supply_capacitors(page, 1060 + 4 * n, (x + 8, 108), INNER, [("100n", f"at {ref}.8")])
        supply_capacitors(page, 1061 + 4 * n, (x + 8, 119), "-5VA", [("100n", f"at {ref}.4")])
    for n in range(2):
        ref, x = f"U{1004 + n}", 177 + 26 * n
        page.unit(ref, 2, (x - 1, 131.5), value_at=(1.5, -0.4))
        supply_capacitors(page, 1080 + 8 * n, (x + 10, 127), "+5V2A", [("100n", f"at {ref}.5"), ("10u", f"near {ref}")], step=6)
        supply_capacitors(page, 1082 + 8 * n, (x + 10, 137.5), "-1VA", [("100n", f"at {ref}.13"), ("10u", f"near {ref}")], step=6)
