"""APST's table as nvme-cli hands it on: the table that the kernel programmed goes into the phases."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell.drive.settings import HostSettings, get_apst_table

from tests.host.drive.slot import Slot

# NVM Express Base 2.1, Autonomous Power State Transition: PS0 to PS2 into PS3 (18h: bits 7:3) after 100 ms, PS3 into PS4 after 2000 ms.
INTO_PS3, INTO_PS4, NEVER = b"\x18\x64\0\0\0\0\0\0", b"\x20\xd0\x07\0\0\0\0\0", bytes(8)
TABLE = 3 * INTO_PS3 + INTO_PS4 + 28 * NEVER
ENTRIES = [(0, 3, 100), (1, 3, 100), (2, 3, 100), (3, 4, 2000)]


def nvme(root: Path, said: bytes, code: int = 0) -> str:
    """nvme-cli that answers Get Features 0Ch, asked for its data as it is, and nothing else."""
    (root / "table").write_bytes(said)
    script = root / "nvme"
    script.write_text(f'#!/bin/sh\n[ "$1 $3 $4 $5" = "get-feature -f 0xc --raw-binary" ] || exit 9\ncat {root}/table\nexit {code}\n')
    script.chmod(0o755)
    return str(script)


def test_the_table_is_read_as_the_drive_has_it(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    assert get_apst_table(slot.tools(nvme=nvme(tmp_path, TABLE)), slot.device) == ENTRIES


@pytest.mark.parametrize(("said", "code"), [(TABLE[:-8], 0), (b"", 0), (b"NVMe status: Invalid Field in Command\n", 1), (TABLE, 1)])
def test_a_drive_that_does_not_say_has_no_table_and_no_error(tmp_path: Path, said: bytes, code: int) -> None:
    slot = Slot(tmp_path)
    assert get_apst_table(slot.tools(nvme=nvme(tmp_path, said, code)), slot.device) is None


def test_a_phase_with_apst_has_it_and_one_without_has_none(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    latency = slot.sys / "class/nvme/nvme9/power/pm_qos_latency_tolerance_us"
    latency.parent.mkdir(parents=True, exist_ok=True)
    latency.write_text("0\n")
    with HostSettings(slot.device, slot.tools(nvme=nvme(tmp_path, TABLE)), tmp_path / "restore.json", slot.sys) as settings:
        found = []
        for on in (True, False, True, None):
            settings.power(apst=on, aspm=None, power_state=None)
            found.append(settings.apst_table)
    assert found == [ENTRIES, None, ENTRIES, None]
