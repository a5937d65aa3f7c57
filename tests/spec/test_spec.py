"""The specification and the files generated from it. The expected numbers are written here by hand, as an independent witness."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from wattbell_spec import __main__ as command
from wattbell_spec import c, nvme, rust, units
from wattbell_spec.controller_registers import BOARD
from wattbell_spec.registers import MAP, Access

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(command.texts()))
def test_what_is_kept_is_what_the_specification_makes(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == command.texts()[name], "run python -m wattbell_spec"


def test_check_names_what_is_out_of_date(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "texts", lambda: {"a/b.rs": "1", "c.md": "2"})
    monkeypatch.setattr("sys.argv", ["wattbell_spec", "--check"])
    (tmp_path / "c.md").write_text("2")
    assert command.main() == 1
    assert capsys.readouterr().err == "a/b.rs is out of date: run python -m wattbell_spec\n"
    monkeypatch.setattr("sys.argv", ["wattbell_spec"])
    assert command.main() == 0
    assert (tmp_path / "a/b.rs").read_text() == "1"
    monkeypatch.setattr("sys.argv", ["wattbell_spec", "--check"])
    assert command.main() == 0


def test_opcodes_are_those_of_the_specification() -> None:
    """Copied by hand from NVM Express Base 1.4, figures 139 and 346."""
    names = ("create_io_sq", "identify", "set_features", "get_features", "async_event_request")
    assert [nvme.admin(name) for name in names] == [1, 6, 9, 10, 12]
    assert [nvme.io(name) for name in ("flush", "write", "read", "compare", "write_zeroes", "dsm", "verify")] == [0, 1, 2, 5, 8, 9, 12]
    assert nvme.LBA_OPCODES == (1, 2, 4, 5, 8, 12) and nvme.TRANSFER_OPCODES == (1, 2, 5)
    assert (nvme.feature("power_management"), nvme.feature("apst"), nvme.feature("marker")) == (2, 12, 0xD0)
    with pytest.raises(KeyError):
        nvme.io("identify")


@pytest.mark.parametrize("entries", [nvme.IO, nvme.ADMIN, nvme.FEATURES, nvme.LOG_PAGES, nvme.STATUSES])
def test_no_number_and_no_name_stands_twice(entries: tuple[tuple[int | str, ...], ...]) -> None:
    numbers = [entry[:2] if entries is nvme.STATUSES else entry[0] for entry in entries]
    names = [entry[2] if entries is nvme.STATUSES else entry[1] for entry in entries]
    assert len(set(numbers)) == len(set(names)) == len(entries)
    assert numbers == sorted(numbers)  # type: ignore[type-var]
    assert all(re.fullmatch("[a-z][a-z0-9_]*", str(name)) for name in names)


def test_units() -> None:
    assert (units.VOLTAGE_LSB_V, units.CURRENT_LSB_A, units.ENERGY_LSB_W) == (20e-6, 500e-9, 1e-11)
    assert units.POWER_LSB_PW == 655_360


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
    registers = dict(re.findall(r"pub const (\w+): u8 = (0x\w+);", rust.registers()))
    assert {name: int(value, 16) for name, value in registers.items()} == {r.name: r.address for r in MAP}
    controller = dict(re.findall(r"pub const (\w+): u8 = (0x\w+);", rust.controller()))
    assert {name: int(value, 16) for name, value in controller.items()} == {r.name: r.address for r in BOARD}
    wire = rust.wire()
    # Places written down by hand from docs and spec: the fields of the header.
    for line in (
        "pub const MAGIC: [u8; 4] = [0x57, 0x42, 0x45, 0x4c];",
        "pub const LENGTH: (usize, usize) = (48, 16);",
        "pub const FIRST_TICK: (usize, usize) = (128, 64);",
        "pub const COMMAND_SIZE: usize = 44;",
    ):
        assert line in wire


def test_c_header_is_c(tmp_path):
    """A C compiler reads it, and finds fields at the places written down here by hand."""
    header = tmp_path / "registers.h"
    header.write_text(c.header())
    source = tmp_path / "check.c"
    source.write_text(
        '#include "registers.h"\n'
        + "".join(
            f'_Static_assert({text}, "{text}");\n'
            for text in (
                "WB_ID == 0x00",
                "WB_COMMAND_RAIL_APPLY == 4",
                "WB_I_GAIN_RESET == 0x3e800000u",
                "WB_BUILD_TLP_WIDTH == 0xff00",
                "WB_BUILD_TLP_WIDTH_SHIFT == 8",
                "WB_BASE == 0xf0000000u",
                "WB_CONSOLE_IN == 0x80",
                "WB_CONSOLE_IN_VALID == 256",
                "WB_TRIGGER_TICK_HI == 0xed",
                "WB_WATCHDOG_KEY == 0x474f4457u",
                "WB_VOLTAGE_LSB_NV == 20000",
                "WB_CURRENT_LSB_PA == 500000",
                "WB_PRODUCT_LSB_PW == 10",
                "WB_POWER_LSB_PW == 655360",
            )
        )
    )
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-fsyntax-only", source], check=True)
