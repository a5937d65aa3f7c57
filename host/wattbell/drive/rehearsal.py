"""Find the changes that the steps of a plan would make to a drive's settings, with the code of a run and without changing anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import DriveError
from ..suites.step import Step
from .device import Device
from .link import SPEEDS_GT_S, rate
from .settings import LINK_CONTROL, HostSettings, current, get_feature
from .tools import Tools

_NOWHERE = Path("/nonexistent/restore.json")


class Rehearsal(HostSettings):
    """Notes in ``changes`` the settings that would change: where, the value now, and the values that would be set."""

    def __init__(self, device: Device, tools: Tools, sys: Path = Path("/sys")) -> None:
        super().__init__(device, tools, _NOWHERE, sys)
        self.changes: dict[str, tuple[str, list[str]]] = {}

    def rehearse(self, steps: Sequence[Step], link_speed_gt_s: float | None = None, governor: str | None = None) -> None:
        """Go through the steps and further wishes. Raises DriveError for settings that cannot be made."""
        if link_speed_gt_s is not None:
            self.link_speed(link_speed_gt_s)
        if governor is not None:
            self.governor(governor)
        if any(step.command is None for step in steps):
            self.prepare()
        for step in steps:
            self.power(apst=step.apst, aspm=step.aspm, power_state=step.ps)
            if step.write_cache is not None:
                self.write_cache(step.write_cache)

    def feature(self, number: int, value: int) -> None:
        """Note the feature's value and leave the feature unchanged."""
        try:
            now = str(get_feature(self.tools, self.device, number))
        except DriveError:
            now = "not known"
        self._note(f"feature {number:02x}h", now, str(value))

    def link_speed(self, gt_s: float) -> None:
        """Note the link's speed and leave the link unchanged."""
        port, _, before = self.check_link_speed(gt_s)
        self._note(f"Target Link Speed of {port}", rate(SPEEDS_GT_S[before]), rate(gt_s))

    def _sysfs(self, path: Path, value: str) -> None:
        if path.exists():
            self._note(str(path), current(path), value)

    def _setpci(self, address: str, bits: int) -> None:
        now = int(self._register(address, LINK_CONTROL), 16) & 3
        self._note(f"ASPM Control of {address}", f"{now:02b}b", f"{bits:02b}b")

    def _note(self, where: str, now: str, value: str) -> None:
        known = self.changes.setdefault(where, (now, []))[1]
        if value not in known:
            known.append(value)

    def told(self) -> dict[str, tuple[str, list[str]]]:
        """The changes, without those that change nothing."""
        return {where: change for where, change in self.changes.items() if change[1] != [change[0]]}
