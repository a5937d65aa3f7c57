"""No number of NVMe and no unit of a sample is outside spec/ and the files made from it. Tests are witnesses and not asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattbell_spec import __main__ as command
from wattbell_spec import nvme

ROOT = Path(__file__).parents[2]
PRODUCT = ("host/wattbell", "gateware/wattbell_gateware", "sim", "firmware", "hw", "tools")
MORE = {"dataset_management", "create_sq", "create_cq", "delete_sq", "delete_cq", "marker_fid", "power_fid", "aer"}
"""Names used for them in the past."""
OPCODES = "|".join(sorted({entry.name for table in (nvme.IO, nvme.ADMIN) for entry in table} | MORE, key=len, reverse=True))
FEATURES = "|".join(entry.name for entry in nvme.FEATURES)
OPCODE = re.compile(rf"""(?x) \b _? (OPCODE_)? (({OPCODES.upper()}) | ({FEATURES.upper()})) _? (OPCODE|FID)? \b # a name of several
    (\s*,\s* \w+)* \s* (:\s*\w+)? \s* = \s* (0x[0-9A-Fa-f]{{1,2}} | (?(3)\d{{1,3}}|!)) \b (?!\s*<<)         # that gets a number
    | 0x[0-9A-Fa-f]{{2}} \s* (:|=>|,) \s* ["'] ({OPCODES}) ["']                                             # or a table""")
UNIT = re.compile(r"\b(20e-6|500e-9|0\.00002|5e-7|655_?360|0x000A0000)\b")
OTHERS = {
    "gateware/wattbell_gateware/boards/spi.py": "WRITE, READ = 0x02, 0x03",  # of an SPI memory
    "sim/ssd/src/admin/selftest.rs": "const ABORT: u8 = 0xF;",  # a code of Device Self-test
    "host/wattbell/analysis/earlier.py": "_SHORT_OF_S = 20e-6",
    "sim/ssd/src/driver/truth.rs": 'assert!((figure(0, "duration_s") - 20e-6).abs() < 1e-15);',
    "hw/afe/studies.py": "DRIVE_CAPACITANCES_F = (20e-6, 100e-6, 400e-6)",
}
"""Lines that look like a match but are not."""


def sources() -> Iterator[tuple[str, Path]]:
    made = command.texts()
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in (".py", ".rs", ".c", ".h", ".cpp", ".def") and not name.startswith("sim/target/") and name not in made:
                yield name, path


@pytest.mark.parametrize("pattern", [OPCODE, UNIT], ids=["opcodes", "units"])
def test_it_stands_in_the_specification_alone(pattern: re.Pattern[str]) -> None:
    found = []
    for name, path in sources():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = line.partition("//" if path.suffix == ".rs" else "#" if path.suffix == ".py" else "/*")[0]
            if pattern.search(code) and OTHERS.get(name, "?") not in line and '"""' not in code:
                found.append(f"{name}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "IDENTIFY, SET_FEATURES = 0x06, 0x09",
        "pub const DSM: u8 = 0x09;",
        '    0x7C: "doorbell_buffer_config",',
        "_OPCODE_IDENTIFY = 6",
        "READ, WRITE = 2, 1",
        "MARKER_FID = 0xD0",
        '0x02 => "read",',
    ],
)
def test_what_stood_here_once_would_be_found(line: str) -> None:
    assert OPCODE.search(line)
