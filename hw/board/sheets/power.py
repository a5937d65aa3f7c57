"""Power: from USB's 5 V to every rail of the board. The drive's own 3.3 V is the slot's (sheets connectors, loadswitch) and never
passes here.

``power.toml`` has the values, their purpose and their sources. ``checks/power.py`` computes them again from the netlist.
"""

from __future__ import annotations

from ..schematic.common import capacitor, resistor, supply_capacitors, two_pins
from ..schematic.sheet import Point, Sheet

__all__ = ["sheet"]

TEST_POINTS = (
    "+5V_USB",
    "+5V",
    "+1V2_CORE",
    "+1V2_SERDES",
    "+3V3",
    "+2V5",
    "+2V5_SERDES",
    "+3V3_TAP",
    "+13V3_PRE",
    "-6V3_PRE",
    "+5V2A",
    "-1VA",
    "+12VA",
    "-5VA",
    "+1V8A",
    "GND",
    "GND",
)
FLAGS = ("split_vin", "+5V_ANALOG", "+1V2_CORE", "+1V2_QUIET", "+1V2_SERDES", "+3V3", "+3V3_TAP", "+13V3_PRE", "-6V3_PRE")
"""Nets fed through a coil, a bead or a diode, which KiCad's check does not take for a source."""


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet("power", "Power: USB 5 V to all rails", 13, paper="A2", comments=("The drive is fed by the slot, not from here",))
    _input(page, (6, 12))
    _advertised(page, (70, 12))
    _reset(page, (122, 12))
    _tap(page, (178, 12))
    _buck(page, (6, 46), 1303, "+1V2_CORE", "pwr_5v_good", "pwr_core_good", ("100k", "100k"))
    _buck(page, (62, 46), 1304, "+1V2_SERDES", "pwr_core_good", "pwr_serdes_good", ("100k", "100k"), quiet="+1V2_QUIET")
    _buck(page, (118, 46), 1305, "+3V3", "pwr_serdes_good", "pwr_3v3_good", ("453k", "100k"))
    _small(page, (176, 46))
    _split(page, (6, 82))
    _positive(page, (90, 82), 1309, "+5V2A", ("52k3", "147k"), "pwr_5v2a_good", divided=("+13V3_PRE", "78k7"))
    _positive(page, (90, 116), 1310, "+12VA", ("120k", "348k"), "pwr_analog_good", enable="pwr_5v2a_good")
    _negative(page, (148, 82), 1311, "-1VA", "10k", "pwr_3v3_good")
    _negative(page, (148, 116), 1312, "-5VA", "49k9", "pwr_5v2a_good")
    _lights(page, (6, 133))
    _test_points(page, (196, 82))
    for n, net in enumerate(FLAGS):
        page.flag(net, (52 + 12 * (n % 3), 138 + 6 * (n // 3)))
    page.text(
        "Order: 5 V, then core, SERDES, 3.3 V, each by the power good of the one before; 2.5 V, 1.8 V and the split supply\n"
        "behind 3.3 V. Of the analog rails the drivers' (+5.2, -1) come before the amplifiers' (+12, -5), so that nothing is\n"
        "pushed into a circuit without supply. FPGA out of reset 20 ms after 3.3 V. The drive waits for none of it (sheet 11).",
        (90, 151),
        1.6,
    )
    page.netclass("Power", ("+5V", "+5V_ANALOG", "+1V2_CORE", "+1V2_SERDES", "+3V3", "+3V3_TAP"))
    return page


def _bead(page: Sheet, ref: str, at: Point, nets: tuple[str, str], *, builds: str = "TP") -> None:
    """Draw a ferrite bead, lying."""
    page.part(
        ref,
        "Device:FerriteBead",
        at,
        {"1": nets[0], "2": nets[1]},
        rotation=90,
        value="120R 2A",
        footprint="Inductor_SMD:L_0805_2012Metric",
        bom="bead-120r-0805",
        builds=builds,
        value_at=(-2, -2.4),
    )


def _divider(
    page: Sheet, refs: tuple[str, str], at: Point, nets: tuple[str, str, str], values: tuple[str, str], *, place: str, exact: bool = False
) -> None:
    """Draw two resistors one above the other, with their middle at a point. ``exact``: 0.1 %."""
    x, y = at
    for ref, middle, ends, value in zip(refs, (y - 3, y + 3), (nets[:2], nets[1:]), values, strict=True):
        resistor(page, ref, (x, middle), (ends[0], ends[1]), value, grade="-thin" if exact else "", place=place)
    page.wire(f"{refs[0]}.2", at)
    page.wire(at, f"{refs[1]}.1")


def _input(page: Sheet, corner: Point) -> None:
    """Draw over-current, over-voltage and slope control of the 5 V after USB's fuse, and their power good."""
    x, y = corner
    page.box("5 V from USB: limited to 2.2 A, clamped at 6.1 V, 5 ms of rise; good above 4.0 V", (x, y), (x + 60, y + 30))
    page.part(
        "U1301",
        "Power_Management:TPS2592xx",
        (x + 18, y + 10),
        {
            **dict.fromkeys(("3", "4", "5"), "+5V_USB"),
            "11": "GND",
            "2": "efuse_en",
            "9": "",
            **dict.fromkeys(("6", "7", "8"), "+5V"),
            "10": "efuse_limit",
            "1": "efuse_slope",
        },
        value="TPS2592BA",
        footprint="Package_SON:VSON-10-1EP_3x3mm_P0.5mm_EP1.65x2.4mm_ThermalVias",
        bom="tps2592ba",
        value_at=(2, -4),
    )
    _divider(page, ("R1301", "R1302"), (x + 8, y + 10), ("+5V_USB", "efuse_en", "GND"), ("100k", "100k"), place="near U1301")
    page.wire((x + 8, y + 10), "U1301.2")
    page.label("efuse_en", (x + 9, y + 10))
    resistor(page, "R1303", (x + 30, y + 17), ("efuse_limit", "GND"), "49k9", place="near U1301")
    capacitor(page, "C1301", (x + 25, y + 17), ("efuse_slope", "GND"), "1n", place="near U1301")
    page.wire("U1301.10", (x + 30, y + 10), "R1303.1")
    page.label("efuse_limit", (x + 24, y + 10))
    page.wire("U1301.1", (x + 25, y + 11), "C1301.1")
    page.label("efuse_slope", (x + 25, y + 12))
    supply_capacitors(page, 1302, (x + 6, y + 24), "+5V_USB", [("1u", "at U1301.3")])
    supply_capacitors(page, 1303, (x + 38, y + 24), "+5V", [("22u", "at U1301.6"), ("22u", "near U1301"), ("100n", "at U1302.6")])
    page.part(
        "U1302",
        "wattbell:TPS3808",
        (x + 50, y + 10),
        {"6": "+5V", "2": "GND", "5": "sense_5v", "3": "+5V", "4": "", "1": "pwr_5v_good"},
        value="TPS3808G01",
        footprint="Package_TO_SOT_SMD:SOT-23-6",
        bom="tps3808g01",
        value_at=(2, -4),
    )
    _divider(page, ("R1304", "R1305"), (x + 38, y + 9), ("+5V", "sense_5v", "GND"), ("88k7", "10k"), place="near U1302")
    page.wire((x + 38, y + 9), "U1302.5")
    page.label("sense_5v", (x + 39, y + 9))
    resistor(page, "R1306", (x + 22, y + 27), ("+5V", "pwr_5v_good"), "100k", lying=True, place="near U1302")


def _advertised(page: Sheet, corner: Point) -> None:
    """Draw the light for a source that offers 1.5 A, which USB-C shows by the voltage at CC."""
    x, y = corner
    page.box("Light: the source offers 1.5 A or 3 A (CC above 0.66 V)", (x, y), (x + 48, y + 30))
    _divider(page, ("R1307", "R1308"), (x + 7, y + 10), ("+3V3", "cc_threshold", "GND"), ("40k2", "10k"), place="near U1315")
    page.label("cc_threshold", (x + 7, y + 10))
    page.part(
        "U1315",
        "Comparator:LM393",
        (x + 24, y + 9),
        {
            "3": "cc_threshold",
            "2": "usb_cc1",
            "1": "usb_1a5_n",
            "5": "cc_threshold",
            "6": "usb_cc2",
            "7": "usb_1a5_n",
            "8": "+5V",
            "4": "GND",
        },
        value="LM393",
        footprint="Package_SO:SOIC-8_3.9x4.9mm_P1.27mm",
        bom="lm393",
        place="near J400",
    )
    page.unit("U1315", 2, (x + 24, y + 18))
    page.unit("U1315", 3, (x + 38, y + 22), value_at=(2, 0))
    supply_capacitors(page, 1306, (x + 44, y + 22), "+5V", [("100n", "at U1315.8")])
    _light(page, 1301, (x + 40, y + 7), "+3V3", "usb_1a5_n")


def _light(page: Sheet, number: int, at: Point, supply: str, cathode: str) -> None:
    """Draw a light and its resistor, one above the other."""
    x, y = at
    anode = f"led_a{number}"
    resistor(page, f"R{number + 60}", (x, y - 2), (supply, anode), "1k")
    page.part(
        f"D{number}",
        "Device:LED",
        (x, y + 3),
        {"1": cathode, "2": anode},
        rotation=90,
        value="green",
        footprint="LED_SMD:LED_0603_1608Metric",
        bom="led-green-0603",
    )
    page.wire(f"R{number + 60}.2", f"D{number}.2")
    page.label(anode, (x, y + 0.5))


def _buck(page: Sheet, corner: Point, number: int, out: str, enable: str, good: str, divider: tuple[str, str], *, quiet: str = "") -> None:
    """Draw a step-down converter of 2 A.

    ``quiet``: name of its output if a bead and more capacitors follow before the rail; its divider is then of 0.1 %.
    """
    x, y = corner
    u, base = f"U{number}", 1310 + 20 * (number - 1303)
    switch, feedback, local = f"sw_{number}", f"fb_{number}", quiet or out
    page.box(f"{out}: behind {enable}", (x, y), (x + 53, y + 32))
    page.part(
        u,
        "Regulator_Switching:TPS62822DLC",
        (x + 14, y + 9),
        {"7": "+5V", "1": enable, "8": good, "5": "GND", "3": "GND", "4": "", "6": switch, "2": feedback},
        value="TPS62822",
        footprint="Package_SON:Texas_VSON-HR-8_1.5x2mm_P0.5mm",
        bom="tps62822",
        place=f"near {out}",
    )
    supply_capacitors(page, base, (x + 5, y + 20), "+5V", [("10u", f"at {u}.7"), ("100n", f"at {u}.7")])
    resistor(page, f"R{base}", (x + 6, y + 29), ("+5V", good), "100k", lying=True, place=f"near {u}")
    _, row = page.pin(f"{u}.6")
    coil = f"L{number}"
    two_pins(
        page, coil, (x + 25, row), (switch, local), "470n", "Inductor_SMD:L_1008_2520Metric", "l-470n-2520", lying=True, place=f"at {u}.6"
    )
    page.wire(f"{u}.6", f"{coil}.1")
    page.label(switch, (x + 19, row))
    page.wire(f"{coil}.2", (x + 30, row))
    page.label(local, (x + 30, row), (0, -1))
    refs = (f"R{base + 1}", f"R{base + 2}")
    _divider(page, refs, (x + 30, y + 16), (local, feedback, "GND"), divider, place=f"near {u}", exact=bool(quiet))
    c = f"C{base + 2}"
    capacitor(page, c, (x + 36, y + 13), (local, feedback), "120p", place=f"near {u}")
    _, low = page.pin(f"{u}.2")
    page.wire(f"{u}.2", (x + 22, low), (x + 22, y + 16), (x + 30, y + 16))
    page.wire((x + 30, y + 16), (x + 36, y + 16), f"{c}.2")
    page.label(feedback, (x + 23, y + 16))
    supply_capacitors(page, base + 3, (x + 22, y + 27), local, [("22u", f"near {u}"), ("22u", f"near {u}")])
    if quiet:
        _bead(page, f"FB{number}", (x + 41, row), (quiet, out))
        page.wire((x + 30, row), f"FB{number}.1")
        page.wire(f"FB{number}.2", (x + 46, row))
        page.label(out, (x + 46, row), (0, -1))
        supply_capacitors(page, base + 5, (x + 42, y + 27), out, [("22u", f"near FB{number}")])


def _fixed(page: Sheet, at: Point, number: int, value: str, out: str, first: int) -> None:
    """Draw a small linear regulator from the 3.3 V, with its two capacitors."""
    x, y = at
    u, before, behind = f"U{number}", f"C{first}", f"C{first + 1}"
    page.part(
        u,
        f"Regulator_Linear:{value}",
        (x, y),
        {"1": "+3V3", "3": "pwr_3v3_good", "2": "GND", "4": "", "5": out},
        value=value,
        footprint="Package_TO_SOT_SMD:SOT-23-5",
        bom=value.lower(),
        value_at=(1, 3.4),
    )
    capacitor(page, before, (x - 13, y + 2), ("+3V3", "GND"), "1u", place=f"at {u}.1")
    capacitor(page, behind, (x + 9, y + 2), (out, "GND"), "1u", place=f"at {u}.5")
    for pin, c, side in (("1", before, -1), ("5", behind, 1)):
        end, _ = page.pin(f"{c}.1")
        page.wire(f"{u}.{pin}", (end, y - 1), f"{c}.1")
        page.label(out if side > 0 else "+3V3", (end, y - 1), (side, 0))


def _small(page: Sheet, corner: Point) -> None:
    """Draw three rails of little current from the 3.3 V."""
    x, y = corner
    page.box("2.5 V and 1.8 V out of 3.3 V: behind pwr_3v3_good", (x, y), (x + 46, y + 32))
    _fixed(page, (x + 22, y + 5), 1306, "LP5907MFX-2.5", "+2V5", 1370)
    _fixed(page, (x + 22, y + 15), 1307, "LP5907MFX-2.5", "+2V5_SERDES", 1372)
    _fixed(page, (x + 22, y + 25), 1308, "LP5907MFX-1.8", "+1V8A", 1374)


def _tap(page: Sheet, corner: Point) -> None:
    """Draw the amplifiers' 3.3 V, separated from the logic's by a bead."""
    x, y = corner
    page.box("3.3 V of the tap's amplifiers: build T", (x, y), (x + 44, y + 30))
    _bead(page, "FB1305", (x + 14, y + 10), ("+3V3", "+3V3_TAP"), builds="T")
    supply_capacitors(page, 1376, (x + 28, y + 16), "+3V3_TAP", [("22u", "near FB1305")], builds="T")


def _reset(page: Sheet, corner: Point) -> None:
    """Draw the reset: the FPGA stays unconfigured until 20 ms after 3.3 V. Flash and oscillators are ready by then."""
    x, y = corner
    page.box("Reset: PROGRAMN low until 20 ms after 3.3 V", (x, y), (x + 50, y + 30))
    page.part(
        "U1314",
        "wattbell:TPS3808",
        (x + 22, y + 10),
        {"6": "+3V3", "2": "GND", "5": "+3V3", "3": "fpga_reset_button", "4": "", "1": "fpga_program_n"},
        value="TPS3808G33",
        footprint="Package_TO_SOT_SMD:SOT-23-6",
        bom="tps3808g33",
        value_at=(2, -4),
    )
    supply_capacitors(page, 1377, (x + 40, y + 20), "+3V3", [("100n", "at U1314.6")])
    page.part(
        "SW1301",
        "Switch:SW_Push",
        (x + 16, y + 22),
        {"1": "fpga_reset_button", "2": "GND"},
        value="configure anew",
        footprint="Button_Switch_SMD:SW_SPST_PTS810",
        bom="button-pts810",
    )


def _split(page: Sheet, corner: Point) -> None:
    """Draw one converter in front of the analog regulators, which remove the rest of its switching."""
    x, y = corner
    page.box("Split supply of the analog rails: +13.3 V, -6.3 V", (x, y), (x + 80, y + 48))
    _bead(page, "FB1301", (x + 10, y + 5), ("+5V", "+5V_ANALOG"))
    u = "U1316"
    page.part(
        u,
        "Regulator_Switching:TPS65131RGE",
        (x + 34, y + 16),
        {
            "1": "sw_pos",
            "24": "sw_pos",
            "7": "",
            "5": "+5V_ANALOG",
            "6": "+5V_ANALOG",
            "4": "split_vin",
            "8": "pwr_3v3_good",
            "9": "GND",
            "10": "pwr_3v3_good",
            "11": "GND",
            "20": "",
            "12": "",
            "19": "GND",
            "25": "GND",
            "2": "GND",
            "3": "GND",
            "23": "+13V3_PRE",
            "22": "split_fbp",
            "17": "split_ref",
            "16": "split_fbn",
            "15": "-6V3_PRE",
            "13": "sw_neg",
            "14": "sw_neg",
            "18": "split_cn",
            "21": "split_cp",
        },
        value="TPS65131",
        footprint="Package_DFN_QFN:VQFN-24-1EP_4x4mm_P0.5mm_EP2.45x2.45mm_ThermalVias",
        bom="tps65131",
        value_at=(-4, -8),
    )
    coil = "Inductor_SMD:L_Bourns-SRN4018"
    two_pins(page, "L1306", (x + 10, y + 13), ("+5V_ANALOG", "sw_pos"), "4u7", coil, "l-4u7-4018", place=f"at {u}.1")
    two_pins(page, "L1307", (x + 50, y + 30), ("sw_neg", "GND"), "4u7", coil, "l-4u7-4018", place=f"at {u}.13")
    diodes = (("D1305", (x + 50, y + 8), "+13V3_PRE", "sw_pos"), ("D1306", (x + 50, y + 20), "sw_neg", "-6V3_PRE"))
    for ref, at, cathode, anode in diodes:
        page.part(
            ref,
            "Device:D_Schottky",
            at,
            {"1": cathode, "2": anode},
            rotation=270,
            value="MBR0540",
            footprint="Diode_SMD:D_SOD-123",
            bom="mbr0540",
            place=f"near {u}",
        )
    resistor(page, "R1380", (x + 20, y + 10), ("+5V_ANALOG", "split_vin"), "100", place=f"at {u}.4")
    capacitor(page, "C1380", (x + 20, y + 16), ("split_vin", "GND"), "100n", place=f"at {u}.4")
    page.wire("R1380.2", "C1380.1")
    page.label("split_vin", (x + 20, y + 13), (-1, 0))
    _divider(page, ("R1381", "R1382"), (x + 62, y + 11), ("+13V3_PRE", "split_fbp", "GND"), ("1M", "100k"), place=f"at {u}.22")
    capacitor(page, "C1381", (x + 70, y + 8), ("+13V3_PRE", "split_fbp"), "6p8", place=f"at {u}.22")
    page.wire((x + 62, y + 11), (x + 70, y + 11), "C1381.2")
    page.label("split_fbp", (x + 63, y + 11))
    _divider(page, ("R1384", "R1383"), (x + 62, y + 29), ("split_ref", "split_fbn", "-6V3_PRE"), ("100k", "523k"), place=f"at {u}.16")
    capacitor(page, "C1382", (x + 70, y + 32), ("split_fbn", "-6V3_PRE"), "15p", place=f"at {u}.16")
    page.wire((x + 62, y + 29), (x + 70, y + 29), "C1382.1")
    page.label("split_fbn", (x + 63, y + 29))
    for n, (net, value, pin) in enumerate((("split_ref", "220n", "17"), ("split_cn", "4n7", "18"), ("split_cp", "10n", "21"))):
        capacitor(page, f"C{1383 + n}", (x + 5 + 8 * n, y + 42), (net, "GND"), value, place=f"at {u}.{pin}")
    supply_capacitors(
        page, 1386, (x + 5, y + 30), "+5V_ANALOG", [("10u", f"at {u}.5"), ("10u", "near FB1301"), ("100n", f"at {u}.5")], step=7
    )
    for n in range(3):
        capacitor(page, f"C{1389 + n}", (x + 31 + 7 * n, y + 42), ("+13V3_PRE", "GND"), "4u7", size="0805", place=f"near {u}")
        capacitor(page, f"C{1392 + n}", (x + 54 + 7 * n, y + 42), ("GND", "-6V3_PRE"), "4u7", size="0805", place=f"near {u}")


def _positive(
    page: Sheet,
    corner: Point,
    number: int,
    out: str,
    values: tuple[str, str],
    good: str,
    *,
    enable: str = "",
    divided: tuple[str, str] = ("", ""),
) -> None:
    """Draw a quiet regulator: SET's resistor is the voltage. ``values``: this resistor, and the upper one of power good's divider.

    ``enable`` starts it, or a voltage and the upper resistor of its divider.
    """
    x, y = corner
    u, base = f"U{number}", 1400 + 20 * (number - 1309)
    page.box(f"{out}: behind {enable or divided[0]}", (x, y), (x + 54, y + 32))
    start = enable or f"en_{number}"
    setting, monitor = f"set_{number}", f"pgfb_{number}"
    page.part(
        u,
        "Regulator_Linear:LT3045xMSE",
        (x + 26, y + 9),
        {
            **dict.fromkeys(("1", "2", "3"), "+13V3_PRE"),
            "4": start,
            "6": "GND",
            "8": setting,
            "9": "GND",
            "13": "GND",
            **dict.fromkeys(("11", "12", "10"), out),
            "7": monitor,
            "5": good,
        },
        value="LT3045",
        footprint="Package_SO:MSOP-12-1EP_3x4.039mm_P0.65mm_EP1.651x2.845mm",
        bom="lt3045",
        place="near frontend",
    )
    _set(page, u, base, setting, values[0], (x + 13, y + 18))
    refs = (f"R{base + 1}", f"R{base + 2}")
    _divider(page, refs, (x + 44, y + 10), (out, monitor, "GND"), (values[1], "10k"), place=f"near {u}")
    page.wire(f"{u}.7", (x + 44, y + 10))
    page.label(monitor, (x + 36, y + 10))
    resistor(page, f"R{base + 3}", (x + 38, y + 27), ("+3V3", good), "100k", lying=True, place=f"near {u}")
    if divided[0]:
        _divider(page, (f"R{base + 4}", f"R{base + 5}"), (x + 7, y + 9), (divided[0], start, "GND"), (divided[1], "10k"), place=f"near {u}")
        page.wire((x + 7, y + 9), f"{u}.4")
        page.label(start, (x + 9, y + 9))
    capacitor(page, f"C{base + 1}", (x + 6, y + 26), ("+13V3_PRE", "GND"), "4u7", size="0805", place=f"at {u}.1")
    capacitor(page, f"C{base + 2}", (x + 26, y + 26), (out, "GND"), "10u", size="1206", place=f"at {u}.11")


def _set(page: Sheet, u: str, base: int, net: str, value: str, at: Point) -> None:
    """Draw SET's resistor and the capacitor that makes it quiet, wired to pin 8."""
    x, y = at
    resistor(page, f"R{base}", (x, y), (net, "GND"), value, place=f"at {u}.8")
    capacitor(page, f"C{base}", (x + 6, y), (net, "GND"), "470n", place=f"at {u}.8")
    _, row = page.pin(f"{u}.8")
    page.wire(f"{u}.8", (x + 6, row), f"C{base}.1")
    page.wire((x + 6, row), (x, row), f"R{base}.1")
    page.label(net, (x + 0.5, row))


def _negative(page: Sheet, corner: Point, number: int, out: str, value: str, enable: str) -> None:
    """Draw the same regulator for a negative voltage. Its power good is unused, so PGFB is tied to its input."""
    x, y = corner
    u, base = f"U{number}", 1400 + 20 * (number - 1309)
    page.box(f"{out}: behind {enable}", (x, y), (x + 44, y + 32))
    page.part(
        u,
        "Regulator_Linear:LT3094xMSE",
        (x + 24, y + 9),
        {
            **dict.fromkeys(("1", "2", "13"), "-6V3_PRE"),
            "3": enable,
            "4": "",
            "7": "",
            "8": f"set_{number}",
            "9": "GND",
            **dict.fromkeys(("10", "11", "12"), out),
            "5": "-6V3_PRE",
            "6": "GND",
        },
        value="LT3094",
        footprint="Package_SO:MSOP-12-1EP_3x4.039mm_P0.65mm_EP1.651x2.845mm",
        bom="lt3094",
        place="near frontend",
    )
    _set(page, u, base, f"set_{number}", value, (x + 10, y + 18))
    capacitor(page, f"C{base + 1}", (x + 32, y + 27), ("GND", "-6V3_PRE"), "4u7", size="0805", place=f"at {u}.1")
    capacitor(page, f"C{base + 2}", (x + 38, y + 20), ("GND", out), "10u", size="1206", place=f"at {u}.11")


def _lights(page: Sheet, corner: Point) -> None:
    """Draw the lights that a person sees first."""
    x, y = corner
    page.box("Lights: 5 V; 3.3 V good; analog good", (x, y), (x + 38, y + 26))
    _light(page, 1302, (x + 6, y + 8), "+5V", "GND")
    for n, gate in enumerate(("pwr_3v3_good", "pwr_analog_good")):
        q = f"Q{1301 + n}"
        _light(page, 1303 + n, (x + 18 + 14 * n, y + 8), "+3V3", f"led_k{1303 + n}")
        page.part(
            q,
            "Transistor_FET:BSS138",
            (x + 17 + 14 * n, y + 19),
            {"1": gate, "2": "GND", "3": f"led_k{1303 + n}"},
            value="BSS138",
            footprint="Package_TO_SOT_SMD:SOT-23",
            bom="bss138",
            value_at=(2, -0.3),
        )
        page.wire(f"D{1303 + n}.1", f"{q}.3")
        page.label(f"led_k{1303 + n}", (x + 18 + 14 * n, y + 14))


def _test_points(page: Sheet, corner: Point) -> None:
    """Draw a probe pad at every rail, and two grounds."""
    x, y = corner
    page.box("Test points", (x, y), (x + 28, y + 58))
    for n, net in enumerate(TEST_POINTS):
        page.part(
            f"TP{1301 + n}",
            "Connector:TestPoint",
            (x + 6 + 14 * (n % 2), y + 4.5 + 6 * (n // 2)),
            {"1": net},
            mirror="x" if net[:1] == "+" else "",
            value=net,
            footprint="TestPoint:TestPoint_Pad_D1.0mm",
            bom="none",
            value_at=(1, -0.5),
        )
