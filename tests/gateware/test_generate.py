"""What is generated from the register map and the wire format."""

import re
import subprocess

import pytest
from wattbell_gateware import constants, generate
from wattbell_gateware.controller_registers import BOARD
from wattbell_gateware.instrument import Instrument
from wattbell_gateware.registers import MAP, Access

# Instruments are made here and not elaborated; Amaranth would warn when they are collected, some time later.
Instrument._MustUse__silence = True


def test_the_committed_table_is_the_generated_one():
    assert generate.DOCS.read_text() == constants.markdown_registers(), "run python -m wattbell_gateware.generate --docs"


def test_map_has_no_collisions():
    both = (*MAP, *BOARD)
    assert len({r.address for r in both}) == len({r.name for r in both}) == len(both)
    assert all(r.address < 0x80 for r in MAP) and all(r.address >= 0x80 for r in BOARD)
    for register in both:
        assert 0 <= register.address < 256 and 1 <= register.width <= 32 and register.reset < 1 << register.width
        assert register.access is Access.RW or register.reset == 0 or register.name in ("ID", "RESET_CAUSE")
        taken = 0
        for bits in register.bits:
            mask = ((1 << bits.width) - 1) << bits.low
            assert not taken & mask and mask < 1 << register.width
            taken |= mask


def test_rust_constants():
    registers = dict(re.findall(r"pub const (\w+): u8 = (0x\w+);", constants.rust_registers()))
    assert {name: int(value, 16) for name, value in registers.items()} == {r.name: r.address for r in MAP}
    controller = dict(re.findall(r"pub const (\w+): u8 = (0x\w+);", constants.rust_controller()))
    assert {name: int(value, 16) for name, value in controller.items()} == {r.name: r.address for r in BOARD}
    wire = constants.rust_wire()
    # Places written down by hand from docs and spec: the fields of the header.
    for line in ("pub const MAGIC: [u8; 4] = [0x57, 0x42, 0x45, 0x4c];", "pub const LENGTH: (usize, usize) = (48, 16);",
                 "pub const FIRST_TICK: (usize, usize) = (128, 64);", "pub const COMMAND_SIZE: usize = 44;"):
        assert line in wire


def test_c_header_is_c(tmp_path):
    """A C compiler reads it, and finds fields whose places are written down here by hand."""
    header = tmp_path / "registers.h"
    header.write_text(constants.c_registers())
    source = tmp_path / "check.c"
    source.write_text('#include "registers.h"\n' + "".join(f"_Static_assert({text}, \"{text}\");\n" for text in (
        "WB_ID == 0x00", "WB_COMMAND_RAIL_APPLY == 4", "WB_I_GAIN_RESET == 0x3e800000u", "WB_BUILD_TLP_WIDTH == 0xff00",
        "WB_BUILD_TLP_WIDTH_SHIFT == 8", "WB_BASE == 0xf0000000u", "WB_CONSOLE_IN == 0x80", "WB_CONSOLE_IN_VALID == 256",
        "WB_TRIGGER_TICK_HI == 0xed", "WB_WATCHDOG_KEY == 0x474f4457u")))
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-fsyntax-only", source], check=True)


@pytest.mark.parametrize("arguments", [{"width": 96}, {"adc": "parallel"}, {"ticks_per_clock": 5}])
def test_bad_parameters_are_refused(arguments):
    with pytest.raises(ValueError) as refused:
        Instrument(**arguments)
    assert str(refused.value).startswith(("adc must", "ticks_per_clock must", "TLP datapath width must"))


def test_unchanged_sources_cost_nothing(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(generate, "convert", lambda component, name: made.append(name) or f"module {name}")
    generate.generate(tmp_path, ["instrument_x4_word"])
    stamp = (tmp_path / "instrument_x4_word.v").stat().st_mtime_ns
    generate.generate(tmp_path, ["instrument_x4_word"])
    assert made == ["instrument_x4_word"] and (tmp_path / "instrument_x4_word.v").stat().st_mtime_ns == stamp
    monkeypatch.setattr(generate, "sources_digest", lambda: "changed")
    generate.generate(tmp_path, ["instrument_x4_word"])
    assert len(made) == 2 and (tmp_path / "instrument_x4_word.v").stat().st_mtime_ns == stamp
