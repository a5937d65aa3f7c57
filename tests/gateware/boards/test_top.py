"""The whole board elaborates without a warning, every port has a pin, every clock has a frequency, and the soft core is present.

The build without the soft core has the surroundings of the larger target, which test_kintex7.py elaborates.
"""

import re
import warnings

import pytest
from amaranth import Module
from wattbell_gateware.boards.ecp5.board import BOARD
from wattbell_gateware.boards.ecp5.clocks import Ecp5Clocks
from wattbell_gateware.boards.tap import Tap
from wattbell_gateware.controller.rom import SLICE
from wattbell_gateware.instrument import Instrument

FIRMWARE = [0x0000_0297, 0xC0DE_0001, 0xC0DE_0002]


class Ports(Instrument):
    """The instrument's ports without an instrument, which has its own tests and takes a minute to elaborate."""

    def elaborate(self, _platform):
        m = Module()
        m.d.sync += self.now.eq(self.now + self.options.ticks_per_clock)
        return m


@pytest.fixture(scope="module")
def files():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return BOARD.platform().prepare(Tap(BOARD, firmware=FIRMWARE, instrument=Ports), "tap").files


def ports(rtlil: str) -> dict[str, int]:
    """Return the ports of the top module and their widths (wires with an ``input``, ``output`` or ``inout`` number)."""
    top = rtlil[rtlil.index("module \\tap\n") :]
    top = top[: top.index("\nend\n")]
    found = re.findall(r"wire (?:width (\d+) )?(?:input|output|inout) \d+ +(?:signed +)?\\(\S+)", top)
    return {name: int(width or 1) for width, name in found}


def test_every_port_has_a_pin_and_no_pin_two(files):
    located = dict(re.findall(r'LOCATE COMP "(\S+)" SITE "(\S+)"', files["tap.lpf"]))
    wanted = set()
    for name, width in ports(files["tap.il"]).items():
        wanted |= {name} if width == 1 else {f"{name}[{bit}]" for bit in range(width)}
    assert len(wanted) > 40
    assert wanted == set(located)
    assert len(set(located.values())) == len(located)


def test_every_clock_has_its_frequency(files):
    frequencies = {name: float(hz) for name, hz in re.findall(r'FREQUENCY (?:NET|PORT) "(\S+)" (\S+) HZ', files["tap.lpf"])}
    clocks = {name.split(".")[-1].removeprefix("clock_"): hz for name, hz in frequencies.items()}
    assert clocks["sync"] == 1e9 / BOARD.instrument.ticks_per_clock == BOARD.facts.clock_hz
    assert clocks["fast"] == 2 * clocks["sync"] == 4 * clocks["half"]
    assert clocks["ulpi_0__clk__io"] == 60e6
    # 5 GT/s over 20 bits, and half of it.
    assert {name: hz for name, hz in clocks.items() if name[:-1] in ("words", "other", "link")} == {
        **{f"{name}{n}": 5e9 / 20 for name in ("words", "other") for n in range(2)},
        **{f"link{n}": 5e9 / 40 for n in range(2)},
    }
    # The nets exist in the named modules, and synthesis keeps their names.
    inside = files["tap.il"][files["tap.il"].index("module \\tap.clocks\n") :]
    inside = inside[: inside.index("\nend\n")]
    for name in frequencies:
        if name.startswith("clocks."):
            wire = rf"wire (?:width 1 )?(?:(?:input|output) \d+ +)?\\{name.removeprefix('clocks.')}\b"
            assert re.search(rf"attribute \\keep 1\n *{wire}", inside), name
    # Every clock domain has a frequency: there are exactly these domains.
    named = {f"{domain}{n}" for domain in ("words", "other", "link") for n in range(2)}
    assert set(clocks) == {"sync", "fast", "half", *named, "clk25_0__io", "ulpi_0__clk__io"}
    assert {domain.name for domain in Ecp5Clocks.domains()} == {"sync", "fast", "half", "usb", *named}


def test_the_soft_core_has_its_verilog_its_firmware_and_its_pins(files):
    assert re.search(r"^module VexRiscv\b", files["vexriscv_imc.v"], re.MULTILINE)
    rtlil = files["tap.il"]
    core = rtlil[rtlil.index("module \\tap.controller.core\n") :]
    core = core[: core.index("\nend\n")]
    assert "cell \\VexRiscv \\vexriscv" in core
    rom = rtlil[rtlil.index("module \\tap.controller.bus.rom\n") :]
    words = [0] * 4
    for n in range(32 // SLICE):  # the first word is the last bits of the initial content
        content = re.search(rf'MEMID "\\\\slice{n}"\n(?:.*\n){{4,5}}\s+connect \\DATA \d+\'([01]+)', rom)[1]
        for k in range(4):
            words[k] |= int(content[len(content) - SLICE * (k + 1) : len(content) - SLICE * k], 2) << SLICE * n
    assert words == [*FIRMWARE, 0]
    named = ports(rtlil).keys()
    assert {"power_0__load_switch__io", "power_0__rail_good__io", "i2c_0__scl__io", "i2c_0__sda__io", "afe_0__zero__io"} <= named
    assert {"adc_0__sdo_i__io", "adc_fine_0__sdo__io", "load_0__gate__io"} <= named
    assert not any(name.startswith("controller_") for name in named)
