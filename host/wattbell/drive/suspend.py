"""A session during which the host computer slept."""

from __future__ import annotations

from ..clocks.host import Wakefulness
from ..errors import DriveError


class Awake(Wakefulness):
    """Watches from its making on."""

    def check(self) -> None:
        """DriveError when it slept: then the drive did, too, and no clock of the host is as long as a meter's."""
        slept_s = self.slept_s
        if slept_s:
            raise DriveError(
                f"The computer was suspended for {slept_s:.1f} s while it measured, and with it the drive. What was recorded is kept; "
                "keep it awake (systemd-inhibit wattbell ...) and run it again."
            )


__all__ = ["Awake"]
