"""The FPGA: banks, deserialisers, configuration pins, supplies and their capacitors."""

from __future__ import annotations

from ..schematic.common import resistor, supply_capacitors
from ..schematic.sheet import Sheet
from ..schematic.symbols import symbol

__all__ = ["sheet"]

SYMBOL = "FPGA_Lattice:LFE5UM5G-85F-8BG381x"
REF = "U200"

BALLS = {
    # bank 0, 3.3 V: the port of an outer controller, and the lights
    "A8": "controller_cs",
    "B8": "controller_sck",
    "C8": "controller_copi",
    "D8": "controller_cipo",
    "E8": "controller_irq",
    "C6": "led0",
    "D6": "led1",
    "E6": "led2",
    "C7": "led3",
    # bank 1, 3.3 V: ULPI
    "A18": "ulpi_data0",
    "B18": "ulpi_data1",
    "A17": "ulpi_data2",
    "B17": "ulpi_data3",
    "C17": "ulpi_data4",
    "A16": "ulpi_data5",
    "B16": "ulpi_data6",
    "C16": "ulpi_data7",
    "B12": "ulpi_clk",
    "D16": "ulpi_dir",
    "D15": "ulpi_nxt",
    "C15": "ulpi_stp",
    "B15": "ulpi_rst",
    # bank 6, 3.3 V: clock, slot's sidebands, converters
    "H2": "clk25",
    "K1": "sideband_perst_n",
    "K2": "sideband_clkreq_n",
    "L1": "adc_cnv",
    "L2": "adc_sck",
    "M1": "adc_sdo_v",
    "N1": "adc_sdo_i",
    "P1": "adc_fine_sdo",
    "P2": "tap_los0",
    "P3": "tap_los1",
    "P4": "tap_los2",
    "N2": "tap_los3",
    "N3": "trigger_in",
    "M3": "trigger_out",
    # bank 7, 3.3 V: power, front end, loads, I2C
    "B2": "power_load_switch",
    "C2": "power_rail_good",
    "C1": "power_perst_low",
    "D2": "power_clkreq_low",
    "D1": "afe_zero0",
    "E2": "afe_zero1",
    "F4": "load_gate0",
    "F5": "load_gate1",
    "E1": "i2c_scl",
    "H3": "i2c_sda",
    # bank 8: configuration flash
    "U3": "flash_clk",
    "R2": "flash_cs",
    "W2": "flash_d0",
    "V2": "flash_d1",
    "Y2": "flash_d2",
    "W1": "flash_d3",
    "W3": "fpga_program_n",
    "V3": "fpga_init_n",
    "Y3": "fpga_done",
    "U4": "GND",
    "T4": "+3V3",
    "R4": "GND",
    "V4": "jtag_tdo",
    "T5": "jtag_tck",
    "R5": "jtag_tdi",
    "U5": "jtag_tms",
    # deserialisers: DCU 0 listens to the host, DCU 1 to the drive; nothing is sent
    "Y5": "LANE0_P",
    "Y6": "LANE0_N",
    "Y7": "LANE1_P",
    "Y8": "LANE1_N",
    "Y14": "LANE2_P",
    "Y15": "LANE2_N",
    "Y16": "LANE3_P",
    "Y17": "LANE3_N",
    "Y11": "dcu_reference0_p",
    "Y12": "dcu_reference0_n",
    "Y19": "dcu_reference1_p",
    "W20": "dcu_reference1_n",
}
"""Net of each connected ball that is no supply. This list is independent; a check compares it with the gateware's platform."""

SUPPLIES = {
    "VCC": "+1V2_CORE",
    "GND": "GND",
    "VCCAUX": "+2V5",
    "VCCAUXA0": "+2V5_SERDES",
    "VCCAUXA1": "+2V5_SERDES",
    "VCCA0": "+1V2_SERDES",
    "VCCA1": "+1V2_SERDES",
    **{f"VCCIO{n}": "+3V3" for n in (0, 1, 2, 3, 6, 7, 8)},
}
"""Net of each supply by the balls' name; names that begin with VCCH are the deserialisers' 1.2 V."""

CAPACITORS = (
    # net, balls with a capacitor of 100 nF each, larger capacitors for the net
    ("+1V2_CORE", ("H8", "H13", "N8", "N13", "K8", "K13", "H10", "N11"), ("10u", "10u", "47u")),
    ("+1V2_SERDES", ("T6", "T15", "T7", "T8", "T9", "T10", "T11", "T12", "T13", "T14"), ("10u", "10u")),
    ("+2V5_SERDES", ("V10", "V17"), ("10u",)),
    ("+2V5", ("F6", "F15", "P6", "P15"), ("10u",)),
    ("+3V3", ("F9", "F12", "H14", "L15", "L7", "H7", "P9"), ("10u", "10u")),
)
PLACES = (
    (9, 205, 24),
    (8, 198, 48),
    (10, 200, 74),
    (11, 200, 92),
    (2, 30, 42),
    (3, 60, 42),
    (7, 90, 42),
    (6, 120, 42),
    (4, 144, 42),
    (5, 166, 42),
    (1, 186, 119),
)
"""Place of each unit of the symbol."""


def _net(ball: str, name: str) -> str:
    if ball in BALLS:
        return BALLS[ball]
    if name.startswith("VCCH"):
        return "+1V2_SERDES"
    return SUPPLIES.get(name, "")


def sheet() -> Sheet:
    """Return the sheet."""
    note = "Balls as in gateware/wattbell_gateware/boards/ecp5/platform.py"
    page = Sheet("fpga", "FPGA: banks, deserialisers, supplies", 4, paper="A2", comments=(note,))
    pins = {pin.number: _net(pin.number, pin.name) for pin in symbol(SYMBOL).pins}
    (first, x, y), *others = PLACES
    page.part(
        REF,
        SYMBOL,
        (x, y),
        pins,
        value="LFE5UM5G-85F-8BG381C",
        footprint="Package_BGA:Lattice_caBGA-381_17x17mm_Layout20x20_P0.8mm",
        bom="ecp5",
        unit=first,
    )
    for unit, x, y in others:
        page.unit(REF, unit, (x, y))
    page.rail("+1V2_SERDES", [f"{REF}.T{n}" for n in range(7, 15)])
    # each higher than the last, so that their names do not overlap
    page.rail("+2V5_SERDES", [f"{REF}.V11", f"{REF}.V18"], 3)
    page.rail("+2V5", [f"{REF}.P15"], 5)
    page.rail("+1V2_SERDES", [f"{REF}.T6", f"{REF}.T15"], 7)
    for title, x in (
        ("Bank 0: outer controller, lights", 16),
        ("Bank 1: ULPI", 46),
        ("Bank 7: power, front end, I2C", 76),
        ("Bank 6: clock, slot, converters", 106),
    ):
        page.text(title, (x, 13), 2.0)
    page.text("Banks 2 and 3: spare", (138, 13), 2.0)
    page.text("Bank 8 and configuration: SPI flash, CFG[2:0] = 010", (184, 13), 2.0)
    page.text("Deserialisers: DCU 0 listens to the host, DCU 1 to the drive.\nNothing is sent: transmit pins are open.", (184, 62), 2.0)
    _capacitors(page)
    for n, net in enumerate(("fpga_program_n", "fpga_init_n", "fpga_done")):
        resistor(page, f"R{200 + n}", (212 + 6 * n, 36), ("+3V3", net), "10k")
    page.netclass("PCIe", [f"LANE{n}_{leg}" for n in range(4) for leg in "PN"])
    page.netclass("LVDS", [f"dcu_reference{n}_{leg}" for n in range(2) for leg in "pn"])
    return page


def _capacitors(page: Sheet) -> None:
    """Draw a row for each supply, in reading order: the small capacitors at their balls, then the plane's."""
    number = 200
    for row, (net, balls, large) in enumerate(CAPACITORS):
        y = 80 + 14 * row
        page.box(f"{net}: 100 nF at {', '.join(balls)}; {', '.join(large)} beside", (12, y - 5), (132, y + 5))
        wanted = [*(("100n", f"at {REF}.{ball}") for ball in balls), *((value, f"near {REF}") for value in large)]
        supply_capacitors(page, number, (18, y), net, wanted, small="0201", step=8)
        number += len(wanted)
