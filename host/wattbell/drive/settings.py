"""Settings of the drive, its link and its block device: changed for a test, put back after it.

The old value of a setting is written to a journal, and the journal to the disk, before the setting is changed. A killed run leaves the
journal behind, and :func:`restore_left_over` restores everything.
"""

from __future__ import annotations

import json
import os
import re
import struct
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
from wattbell_spec.nvme import feature

from .. import door, durable
from ..errors import DriveError
from .device import Device
from .host import POLICIES, policies
from .interruption import guarded
from .link import SPEEDS_GT_S, rate, read_link, upstream_port
from .tools import Tools

POWER_MANAGEMENT, WRITE_CACHE, APST = feature("power_management"), feature("write_cache"), feature("apst")
_APST = struct.Struct("<32Q")
ApstEntry = tuple[int, int, int]
"""From which state, into which, after how many ms of idle time."""
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SYSFS = (
    r"class/block/nvme\d+n\d+/queue/(nomerges|scheduler)",
    r"bus/pci/devices/[0-9a-f:.]+/(power/control|link/(clkpm|l0s_aspm|l1_aspm|l1_1_aspm|l1_2_aspm))",
    r"class/nvme/nvme\d+/power/pm_qos_latency_tolerance_us",
    POLICIES + r"/policy\d+/scaling_governor",
)
"""The files of sysfs that a run changes."""
_VALUE = re.compile(r"value:\s*(?:0x)?([0-9a-fA-F]+)", re.IGNORECASE)
LINK_CONTROL = "CAP_EXP+10.w"
"""Link Control register of the PCI Express capability, bits 1:0 are ASPM Control, bit 5 is Retrain Link."""
_LINK_STATUS, _LINK_CONTROL_2 = "CAP_EXP+12.w", "CAP_EXP+30.w"
"""Bits 3:0 are Current Link Speed and Target Link Speed, bit 11 of Link Status is Link Training."""
_RETRAIN, _TRAINING = 0x20, 0x800
_TRAINED_S, _TRAINED_WITHIN_S = 0.2, 2.0
"""A link trains within some 100 ms (PCI Express Base Specification, Link Training and Status State Machine)."""
ASPM_BITS = {"off": 0, "l1": 2, "l1.2": 2}
_NO_L1 = "off: the link has no L1"
_LINK_FILES = {
    "off": {"l0s_aspm": 0, "l1_aspm": 0, "l1_1_aspm": 0, "l1_2_aspm": 0},
    "l1": {"l0s_aspm": 0, "l1_aspm": 1, "l1_1_aspm": 0, "l1_2_aspm": 0},
    "l1.2": {"clkpm": 1, "l0s_aspm": 0, "l1_aspm": 1, "l1_1_aspm": 1, "l1_2_aspm": 1},
}


@dataclass(frozen=True)
class Saved:
    """A setting as it was. ``kind``: ``sysfs`` (``where`` a file), ``feature`` (a number), ``setpci`` (Link Control of a PCI address),
    ``link_speed`` (Target Link Speed of a PCI address, as its code)."""

    kind: str
    where: str
    value: str


class HostSettings:
    """Changes settings and puts them back; a context manager.

    conditions: the drive's settings that a result must state
    """

    def __init__(self, device: Device, tools: Tools, journal: Path, sys: Path = Path("/sys")) -> None:
        self.device, self.tools, self.journal, self.sys = device, tools, journal, sys
        self.saved: list[Saved] = []
        self.conditions: dict[str, str | bool | int | None] = {}
        self.apst_table: Sequence[ApstEntry] | None = None
        """The table that the kernel programmed, read from the drive; None if APST is off or left alone, or the drive does not report it."""
        self.gone: list[str] = []
        """Settings that :meth:`restore` could not restore since the drive had gone; a drive that comes back begins with its own."""

    def __enter__(self) -> HostSettings:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    # -- requests of a test ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """One fio I/O is one command: no merging, no scheduler. The device stays in D0."""
        queue = self.sys / "class/block" / self.device.name / "queue"
        self._sysfs(queue / "nomerges", "2")
        self._sysfs(queue / "scheduler", "none")
        if self.device.pci:
            self._sysfs(self.sys / "bus/pci/devices" / self.device.pci / "power/control", "on")

    def power(self, *, apst: bool | None, aspm: str | None, power_state: int | None) -> None:
        """Set how the drive and its link may save power from now on. None: unchanged (``power_state``: or left to APST)."""
        if apst is None:
            self.conditions["apst"] = "as it was"
            self.apst_table = None
        else:
            self._apst(apst)
        if aspm is None:
            self.conditions["aspm"] = "as it was"
        else:
            self._aspm(aspm)
        wanted = power_state if power_state is not None else 0
        if power_state is not None or any(s.kind == "feature" and s.where == str(POWER_MANAGEMENT) for s in self.saved):
            self.feature(POWER_MANAGEMENT, wanted)
        self.conditions["power_state"] = power_state

    def write_cache(self, on: bool) -> None:
        """The drive's volatile write cache (feature 06h)."""
        self.feature(WRITE_CACHE, int(on))
        self.conditions["write_cache"] = on

    def link_speed(self, gt_s: float) -> None:
        """Retrain the drive's link at ``gt_s``: Target Link Speed of the slot's end, which limits both ends.

        Raises DriveError when the slot cannot, or the link does not come back at that speed.
        """
        port, code, before = self.check_link_speed(gt_s)
        if not any(s.kind == "link_speed" for s in self.saved):
            self._save(Saved("link_speed", port, str(before)))
        now = _retrain(self.tools, port, code)
        if now != code:
            found = rate(SPEEDS_GT_S[now]) if now in SPEEDS_GT_S else "no known speed"
            raise DriveError(f"The link of {self.device.path} was to run at {rate(gt_s)} and runs at {found}: its ends allow nothing else.")
        self.conditions["link_speed"] = f"set to {rate(gt_s)}"

    def check_link_speed(self, gt_s: float) -> tuple[str, int, int]:
        """Return the slot's end, the speed's code, and the code that is set; change nothing.

        Raises DriveError if the speed cannot be set.
        """
        port = upstream_port(self.device, self.sys)
        code = next((code for code, speed in SPEEDS_GT_S.items() if speed == gt_s), None)
        if code is None:
            raise DriveError(f"{gt_s:g} GT/s is no speed of PCI Express; it has {', '.join(f'{s:g}' for s in SPEEDS_GT_S.values())}.")
        if port is None:
            raise DriveError(f"{self.device.path} has no port above it whose link could be set to {rate(gt_s)}.")
        before = int(self._register(port, _LINK_CONTROL_2), 16) & 0xF
        if before not in SPEEDS_GT_S:
            raise DriveError(
                f"The port above {self.device.path} ({port}) has no Target Link Speed: its link cannot be set to {rate(gt_s)}."
            )
        return port, code, before

    def _register(self, address: str, register: str) -> str:
        said = self.tools.run("setpci", "-s", address, register).strip()
        if not said:
            raise DriveError(f"setpci -s {address} {register} gave no value: there is no such PCI function any more.")
        return said

    def governor(self, name: str) -> None:
        """The frequency governor of every policy. Raises DriveError when there is none, or no such one."""
        for folder in self.check_governor(name):
            self._sysfs(folder / "scaling_governor", name)
        self.conditions["governor"] = name

    def check_governor(self, name: str) -> list[Path]:
        """The policies, which all know the governor; nothing is changed."""
        found = policies(self.sys)
        if not found:
            raise DriveError("The kernel offers no frequency governor here (a virtual machine has none): leave --governor out.")
        for folder in found:
            offered = (folder / "scaling_available_governors").read_text().split()
            if name not in offered:
                raise DriveError(f"{folder.name} has no governor {name}; it has {', '.join(offered)}.")
        return found

    def feature(self, number: int, value: int) -> None:
        """Set Features of ``number``."""
        if not any(s.kind == "feature" and s.where == str(number) for s in self.saved):
            self._save(Saved("feature", str(number), str(get_feature(self.tools, self.device, number))))
        _set_feature(self.tools, self.device, number, value)

    def _apst(self, on: bool) -> None:
        """The kernel programs APST's table from the latency it may take (drivers/nvme/host/core.c): 0 switches it off."""
        path = self.sys / "class/nvme" / self.device.controller / "power/pm_qos_latency_tolerance_us"
        if not path.exists():
            self.conditions["apst"] = "the drive has none"
            self.apst_table = None
            return
        longest = self.sys / "module/nvme_core/parameters/default_ps_max_latency_us"
        limit = longest.read_text().strip() if longest.exists() else "100000"
        if on and limit == "0":
            raise DriveError("The kernel was booted with nvme_core.default_ps_max_latency_us=0: APST cannot be switched on.")
        self._sysfs(path, limit if on else "0")
        self.conditions["apst"] = on
        self.apst_table = get_apst_table(self.tools, self.device) if on else None

    def _aspm(self, wanted: str) -> None:
        link = read_link(self.device, self.sys)
        if link is None or link.integrated:
            self.conditions["aspm"] = "none: the drive has no PCI Express link"
            return
        files = self.sys / "bus/pci/devices" / self.device.pci / "link"
        if files.is_dir() and any(files.iterdir()):
            self.conditions["aspm"] = self._aspm_by_kernel(files, wanted)
        elif not self.tools.has("setpci"):
            self.conditions["aspm"] = "not under our control: the kernel offers no ASPM on this link, and setpci is not installed"
        else:
            setting = wanted if link.has_l1 else "off"  # a port that is set to a feature it does not offer may hang the link
            for address in _link_ends(self.device, self.sys):
                self._setpci(address, ASPM_BITS[setting])
            note = "" if setting == "off" else " (L1 substates as the firmware set them)"
            self.conditions["aspm"] = f"{setting} by setpci{note}" if setting == wanted else _NO_L1

    def _aspm_by_kernel(self, files: Path, wanted: str) -> str:
        """Set ASPM and return the resulting setting. The kernel has a file for each feature of both ends, takes any value, and obeys its
        policy.
        """
        offered = {name: (files / name).exists() for name in ("l1_aspm", "l1_2_aspm")}
        for name, value in _LINK_FILES[wanted if offered["l1_aspm"] else "off"].items():
            if (files / name).exists():
                self._sysfs(files / name, str(value))
        on = {name for name, there in offered.items() if there and current(files / name) == "1"}
        policy = self.sys / "module/pcie_aspm/parameters/policy"
        refused = f"not switched on by the kernel ({policy} is {current(policy) if policy.exists() else 'not there'})"
        if wanted == "off":
            return "off" if not on else f"on: not switched off by the kernel ({', '.join(sorted(on))})"
        if "l1_aspm" not in on:
            return f"off: L1 is {refused}" if offered["l1_aspm"] else _NO_L1
        if wanted == "l1" or "l1_2_aspm" in on:
            return wanted
        return f"l1: L1.2 is {refused}" if offered["l1_2_aspm"] else "l1: the link has no L1.2"

    # -- the kinds of setting ----------------------------------------------------------------------------------------

    def _sysfs(self, path: Path, value: str) -> None:
        if not path.exists():
            return
        before = current(path)
        if before == value:
            return
        if not any(s.where == str(path) for s in self.saved):
            self._save(Saved("sysfs", str(path), before))
        _write(path, value)

    def _setpci(self, address: str, bits: int) -> None:
        before = self._register(address, LINK_CONTROL)
        if not any(s.kind == "setpci" and s.where == address for s in self.saved):
            self._save(Saved("setpci", address, before))
        self.tools.run("setpci", "-s", address, f"{LINK_CONTROL}={bits:x}:3")

    def _save(self, setting: Saved) -> None:
        self.saved.append(setting)
        content = {"device": self.device.path, "serial": self.device.serial, "saved": [asdict(s) for s in self.saved]}
        part = self.journal.with_suffix(".part")
        with part.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        durable.replace(part, self.journal)

    def restore(self) -> None:
        """Put back all changes, the last first, whatever signals come meanwhile; KeyboardInterrupt reports them afterwards.

        Raises DriveError with the settings that could not be restored; the journal stays. A drive that has gone took its settings along
        (:attr:`gone`).
        """
        with guarded():
            failed, self.gone = _put_back(self.saved, self.device, self.tools, self.sys)
            if failed:
                raise DriveError(f"Settings were not restored: {'; '.join(failed)}. They are listed in {self.journal}.")
            self.saved.clear()
            self.journal.unlink(missing_ok=True)


def _link_ends(device: Device, sys: Path) -> list[str]:
    """The port above the drive, and the drive: ASPM is set at both ends."""
    above = upstream_port(device, sys)
    return [device.pci] if above is None else [above, device.pci]


def _retrain(tools: Tools, port: str, code: int) -> int:
    """Set Target Link Speed of a port and retrain its link; the code of the speed at which it then runs. Raises DriveError when it does not
    come back.
    """
    tools.run("setpci", "-s", port, f"{_LINK_CONTROL_2}={code:x}:f")
    tools.run("setpci", "-s", port, f"{LINK_CONTROL}={_RETRAIN:x}:{_RETRAIN:x}")
    began = time.monotonic()
    while True:
        status = int(tools.run("setpci", "-s", port, _LINK_STATUS), 16)
        passed = time.monotonic() - began
        # the bit may not be set yet at the first look
        if not status & _TRAINING and (status & 0xF == code or passed > _TRAINED_S):
            return status & 0xF
        if passed > _TRAINED_WITHIN_S:
            raise DriveError(f"The link below {port} does not come back from training.")
        time.sleep(0.01)


def get_feature(tools: Tools, device: Device, number: int) -> int:
    """Current value of a feature (Get Features, SEL 0)."""
    said = tools.run("nvme", "get-feature", device.character_device, "-f", hex(number))
    found = _VALUE.search(said)
    if found is None:
        raise DriveError(f"nvme get-feature -f {number:#x} gave no value: {said.strip()[:80]}")
    return int(found[1], 16)


def get_apst_table(tools: Tools, device: Device) -> Sequence[ApstEntry] | None:
    """Return APST's table (Get Features 0Ch); None if nvme-cli or the drive gives none.

    It has 32 entries of 8 bytes. Bits 7:3 are the next state, and bits 31:8 the ms of idle time before (0: never).
    """
    said = tools.attempt("nvme", "get-feature", device.character_device, "-f", hex(APST), "--raw-binary")
    if said.returncode or len(said.stdout) != _APST.size:
        return None
    entries = _APST.unpack(said.stdout)
    return [(state, entry >> 3 & 0x1F, entry >> 8 & 0xFFFFFF) for state, entry in enumerate(entries) if entry >> 8 & 0xFFFFFF]


def _set_feature(tools: Tools, device: Device, number: int, value: int) -> None:
    tools.run("nvme", "set-feature", device.character_device, "-f", hex(number), f"--value={value:#x}")


def current(path: Path) -> str:
    """A file of sysfs; of a choice, ``[none] mq-deadline``, the chosen one."""
    text = path.read_text().strip()
    chosen = re.search(r"\[(\S+)\]", text)
    return chosen[1] if chosen else text


def _write(path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except OSError as error:
        raise DriveError(f"{path} does not take {value} ({error.strerror}); are you root?") from None


def _put_back(saved: list[Saved], device: Device, tools: Tools, sys: Path) -> tuple[list[str], list[str]]:
    """Restore the saved settings; return those that failed, and those that have gone with the drive."""
    failed, gone = [], []
    for setting in reversed(saved):
        try:
            if setting.kind == "sysfs":
                _write(Path(setting.where), setting.value)
            elif setting.kind == "feature":
                _set_feature(tools, device, int(setting.where), int(setting.value))
            elif setting.kind == "link_speed":
                _retrain(tools, setting.where, int(setting.value))
            else:
                tools.run("setpci", "-s", setting.where, f"{LINK_CONTROL}={setting.value}")
        except (DriveError, OSError) as error:  # the others are put back all the same
            if _went_with(setting, device, sys):
                gone.append(f"{setting.where} = {setting.value}")
            else:
                failed.append(f"{setting.where} = {setting.value} ({error})")
    return failed, gone


def _went_with(setting: Saved, device: Device, sys: Path) -> bool:
    """Whether it was a setting of the drive itself, not of the slot or the computer, and the drive is not there any more."""
    function = sys / "bus/pci/devices" / device.pci
    if setting.kind == "sysfs":
        own = (sys / "class/nvme" / device.controller, sys / "class/block" / device.name, *([function] if device.pci else ()))
        return any(folder in Path(setting.where).parents and not folder.exists() for folder in own)
    of_the_drive = setting.kind == "feature" or (setting.kind == "setpci" and setting.where == device.pci)
    return of_the_drive and bool(device.pci) and not function.exists()


class _Journal(msgspec.Struct):
    """The file that :meth:`HostSettings._save` writes."""

    device: str
    serial: str
    saved: list[Saved]


def restore_left_over(journal: Path, device: Device, tools: Tools, sys: Path = Path("/sys")) -> bool:
    """Restore the settings that a killed run left changed; return False when there are none.

    Raises DriveError when the drive is another one, or when the journal has a setting that our runs never change. Nothing is restored then.
    """
    if not journal.is_file():
        return False
    try:
        content = msgspec.json.decode(door.read_bytes(journal, door.SETTINGS), type=_Journal)
    except OSError as error:
        raise DriveError(f"{journal} cannot be read ({error.strerror}).") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DriveError(f"{journal} is damaged ({error}); put the drive's settings back by hand and remove it.") from None
    if not content.serial or content.serial != device.serial:
        raise DriveError(f"{journal} is about drive {content.serial}, not {device.serial}.")
    for setting in content.saved:
        if not _ours(setting, device, sys):
            what = f"{setting.kind} {setting.where} = {setting.value}"
            raise DriveError(
                f"{journal} names {what}, which no run changes: somebody else wrote it. Remove it, and check the drive's settings."
            )
    with guarded():
        failed, _ = _put_back(content.saved, device, tools, sys)
        if failed:
            raise DriveError(f"Settings were not restored: {'; '.join(failed)}. They are listed in {journal}.")
        journal.unlink()
    return True


def _ours(setting: Saved, device: Device, sys: Path) -> bool:
    """Whether a run may have saved this: the journal lies in a folder of results, and may come from anywhere."""
    if setting.kind == "sysfs":
        where = os.path.normpath(setting.where)
        known = any(re.fullmatch(f"{re.escape(str(sys))}/{pattern}", where) for pattern in _SYSFS)
        return known and where == setting.where and _WORD.fullmatch(setting.value) is not None
    if setting.kind == "feature":
        return setting.where in (str(POWER_MANAGEMENT), str(WRITE_CACHE)) and re.fullmatch(r"[0-9]{1,10}", setting.value) is not None
    if setting.kind == "setpci":
        return setting.where in _link_ends(device, sys) and re.fullmatch(r"[0-9a-f]{1,4}", setting.value) is not None
    if setting.kind == "link_speed":
        return setting.where == upstream_port(device, sys) and re.fullmatch(r"[1-6]", setting.value) is not None
    return False
