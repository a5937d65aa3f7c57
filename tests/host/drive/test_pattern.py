"""The pattern of reads that marks a drive's rail: a drive that cannot be read is one error."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell.drive.device import Device
from wattbell.drive.pattern import play
from wattbell.errors import DriveError


def test_a_drive_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    gone = tmp_path / "nvme9n1"
    with pytest.raises(DriveError, match=rf"^{gone} cannot be read \(No such file or directory\)\.$"):
        play(Device(str(gone), "nvme9n1", "nvme9", "M", "S", "F", 1 << 30, 512, "", 1))
