"""Configuration flash, JTAG, EEPROM and temperature sensor on I2C, lights, the outer controller's port."""

from __future__ import annotations

from ..schematic.common import resistor, supply_capacitors
from ..schematic.sheet import Sheet

__all__ = ["sheet"]


def sheet() -> Sheet:
    """Return the sheet."""
    page = Sheet("config", "Configuration, I2C, lights", 7)
    page.box("Configuration flash", (6, 12), (64, 44))
    page.part(
        "U500",
        "Memory_Flash:W25Q128JVS",
        (34, 24),
        {"1": "flash_cs", "2": "flash_d1", "3": "flash_d2", "4": "GND", "5": "flash_d0", "6": "flash_clk", "7": "flash_d3", "8": "+3V3"},
        value="W25Q128JVSIQ",
        footprint="Package_SO:SOIC-8_5.3x5.3mm_P1.27mm",
        bom="w25q128",
    )
    for n, net in enumerate(("flash_cs", "flash_d2", "flash_d3")):
        resistor(page, f"R{500 + n}", (12 + 8 * n, 38), ("+3V3", net), "10k")
    supply_capacitors(page, 500, (44, 38), "+3V3", [("100n", "at U500.8")])
    page.box("JTAG", (70, 12), (120, 44))
    page.part(
        "J500",
        "Connector_Generic:Conn_02x05_Odd_Even",
        (94, 24),
        {
            "1": "+3V3",
            "2": "jtag_tms",
            "3": "GND",
            "4": "jtag_tck",
            "5": "GND",
            "6": "jtag_tdo",
            "7": "",
            "8": "jtag_tdi",
            "9": "GND",
            "10": "fpga_program_n",
        },
        value="JTAG 1.27 mm",
        footprint="Connector_PinHeader_1.27mm:PinHeader_2x05_P1.27mm_Vertical_SMD",
        bom="header-2x5-1.27",
    )
    resistor(page, "R503", (78, 38), ("+3V3", "jtag_tms"), "4k7")
    resistor(page, "R504", (86, 38), ("+3V3", "jtag_tdi"), "4k7")
    resistor(page, "R505", (100, 38), ("jtag_tck", "GND"), "4k7")
    page.box("I2C: identity and calibration, temperature beside the shunt", (6, 50), (92, 84))
    page.part(
        "U501",
        "Memory_EEPROM:24LC64",
        (26, 62),
        {"1": "GND", "2": "GND", "3": "GND", "4": "GND", "5": "i2c_sda", "6": "i2c_scl", "7": "GND", "8": "+3V3"},
        value="24LC64 (50h)",
        footprint="Package_SO:TSSOP-8_4.4x3mm_P0.65mm",
        bom="24lc64",
    )
    page.part(
        "U502",
        "Sensor_Temperature:TMP102xxDRL",
        (62, 62),
        {"1": "i2c_scl", "2": "GND", "3": "", "4": "GND", "5": "+3V3", "6": "i2c_sda"},
        value="TMP102 (48h)",
        footprint="Package_TO_SOT_SMD:SOT-563",
        bom="tmp102",
        place="near shunt",
    )
    resistor(page, "R506", (14, 76), ("+3V3", "i2c_scl"), "2k2")
    resistor(page, "R507", (22, 76), ("+3V3", "i2c_sda"), "2k2")
    supply_capacitors(page, 501, (36, 77), "+3V3", [("100n", "at U501.8"), ("100n", "at U502.5")])
    page.box("Lights, low is on", (98, 50), (156, 84))
    for n in range(4):
        page.part(
            f"D{500 + n}",
            "Device:LED",
            (108 + 12 * n, 70),
            {"1": f"led{n}", "2": f"led{n}_a"},
            rotation=90,
            value="green",
            footprint="LED_SMD:LED_0603_1608Metric",
            bom="led-green-0603",
        )
        resistor(page, f"R{510 + n}", (108 + 12 * n, 60), ("+3V3", f"led{n}_a"), "1k")
        page.wire(f"R{510 + n}.2", f"D{500 + n}.2")
        page.label(f"led{n}_a", (108 + 12 * n, 65))
    page.box("Outer controller, for the build without the soft core", (126, 12), (160, 44))
    page.part(
        "J501",
        "Connector_Generic:Conn_02x05_Odd_Even",
        (142, 26),
        {
            "1": "+3V3",
            "2": "GND",
            "3": "controller_cs",
            "4": "controller_sck",
            "5": "controller_copi",
            "6": "controller_cipo",
            "7": "controller_irq",
            "8": "",
            "9": "GND",
            "10": "GND",
        },
        value="SPI",
        bom="header-2x5-1.27",
        footprint="Connector_PinHeader_1.27mm:PinHeader_2x05_P1.27mm_Vertical_SMD",
    )
    return page
