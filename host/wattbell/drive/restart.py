"""Shut a drive in a slot down and bring it up again, by the rig in its connector: its rail, or PERST# alone.

A slot that is not built for hot plug does not notice. So the kernel is first asked to let go of the drive, which shuts it down (CC.SHN),
and afterwards to look for it again. Source: Documentation/ABI/testing/sysfs-bus-pci of the Linux kernel, remove and rescan.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import DriveError, RigError, UsageError
from ..rig import Rig
from ..rig.scpi import ScpiConnection
from ..suites.step import Restart
from ..suites.suite import Test
from .device import Device, inspect
from .link import upstream_port

KIND = "power-on"
RESET_S = 0.1
"""How long PERST# alone is held low; at least 100 us (PCI Express Card Electromechanical Specification, T_PERST)."""
CONFIGURE_S = 0.1
"""From PERST# rising to the first configuration request (PCI Express Base Specification, Conventional Reset)."""
BACK_S = 40.0
"""How long a drive may take to be there again: CAP.TO of the drives of a desktop is below that."""
_POLL_S = 0.02


class Restarter:
    """Restarts ``device`` by the rig behind ``control``. ``look``: finds the drive at a path (:func:`.device.inspect`)."""

    def __init__(
        self,
        device: Device,
        control: ScpiConnection,
        sys: Path = Path("/sys"),
        look: Callable[[str], Device] = inspect,
        back_s: float = BACK_S,
    ) -> None:
        self.device, self._control, self._look, self._back_s = device, control, look, back_s
        self._devices = sys / "bus/pci/devices"
        self._port = upstream_port(device, sys)

    def __call__(self, restart: Restart) -> None:
        """DriveError or RigError when the drive does not come back; interrupted too, it has its supply again and is looked for."""
        if self._port is None:
            raise DriveError(f"{self.device.path} has no PCI port above it that could be told to look for it again.")
        self._tell(self._devices / self.device.pci / "remove")
        try:
            if restart.off_s is not None:
                self._command("OUTP OFF")
                time.sleep(restart.off_s)
            else:
                self._command("OUTP:PERS ON")
                time.sleep(RESET_S)
        finally:
            self._bring_up(cold=restart.off_s is not None)
        self._await()

    def _bring_up(self, *, cold: bool) -> None:
        try:
            self._command("OUTP ON" if cold else "OUTP:PERS OFF")
            time.sleep(CONFIGURE_S)
        finally:
            self._tell(self._devices / str(self._port) / "rescan")

    def _command(self, text: str) -> None:
        """Send a command and wait for its end: a power sequence goes on after the rig took the command."""
        self._control.command(text)
        self._control.query("*OPC?")
        self._control.check(text)

    def _tell(self, file: Path) -> None:
        try:
            file.write_text("1")
        except OSError as error:
            raise DriveError(
                f"{file} does not take 1 ({error.strerror}); are you root, and is the drive in a slot of this computer?"
            ) from None

    def _await(self) -> None:
        """Wait until the same drive is at the same path."""
        deadline = time.monotonic() + self._back_s
        while True:
            with contextlib.suppress(DriveError):
                found = self._look(self.device.path)
                if found.serial == self.device.serial:
                    return
                raise UsageError(f"{self.device.path} is another drive after the restart ({found.model}, serial number {found.serial}).")
            if time.monotonic() > deadline:
                raise DriveError(
                    f"{self.device.path} is not there {self._back_s:g} s after its restart, though its rail is on: see `nvme list` for "
                    "another name, and `dmesg` for the reason."
                )
            time.sleep(_POLL_S)


def restarts(tests: Sequence[Test]) -> bool:
    """Whether one of the tests restarts the drive."""
    return any(test.kind == KIND for test in tests)


def refuse_without_switch(rig: Rig | None) -> None:
    """UsageError, with the reason, when nothing on the bench can switch the drive's supply."""
    if rig is None:
        raise UsageError(
            f"A test of kind {KIND} switches the drive's 3.3 V off and on, which takes a Wattbell rig whose tap sees the drive's link; "
            "another meter only measures. Leave these tests out (--tests), or run them with --rig."
        )
    if rig.port.virtual:
        raise UsageError(
            f"A test of kind {KIND} switches the drive's 3.3 V off and on, and rig {rig.port.serial} is a virtual one: its switch is "
            "in nobody's supply. On the drive model: wattbell run power-on --virtual PROFILE."
        )
    try:
        rig.control.query("OUTP?")
    except RigError as error:
        raise UsageError(f"Rig {rig.port.serial} does not switch the drive's 3.3 V ({error}); it takes firmware with OUTPut.") from None
