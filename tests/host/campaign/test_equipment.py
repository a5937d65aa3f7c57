"""A rig whose tap cannot see the drive's link: the message before a run begins, and the recorder then."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from wattbell.campaign import equipment
from wattbell.campaign.commands import CommandObserver
from wattbell.campaign.equipment import Equipment, How, check_host, equipped
from wattbell.drive import bench
from wattbell.drive.bench import WantedSettings
from wattbell.drive.settings import HostSettings
from wattbell.errors import DriveError

from tests.host.drive.lab import Lab
from tests.host.drive.slot import DRIVE, PORT, Slot

LINK_CONTROL_2, LINK_STATUS = 0x30, 0x12


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(port=SimpleNamespace(virtual=False, serial="ECP5-0001"))
    monkeypatch.setattr(equipment.Rig, "open", lambda _: contextlib.nullcontext(made))
    monkeypatch.setattr(equipment, "open_log", lambda kind, _device, _folder=None: contextlib.nullcontext(kind))
    return made


def chosen(slot: Slot, how: How) -> tuple[Equipment, list[str]]:
    said: list[str] = []
    with equipped(how, "ECP5-0001", slot.device, said.append, slot.sys) as found:
        return found, said


def test_a_link_that_the_tap_sees_is_let_be(tmp_path: Path, rig: Any) -> None:
    found, said = chosen(Slot(tmp_path, now=2, width=2), How())
    assert (found.rig, found.meter, found.log, found.wanted, said) == (rig, None, None, WantedSettings(), [])


def test_nobody_to_ask_is_one_clear_error(tmp_path: Path, rig: Any) -> None:
    with pytest.raises(DriveError, match=r"link is x2 at 16 GT/s, but this tap \(ecp5\) sees up to x2 at up to 5 GT/s.*--link-speed 5"):
        chosen(Slot(tmp_path, width=2), How())
    with pytest.raises(DriveError, match=r"x4 at 5 GT/s.*2 lanes or fewer"):
        chosen(Slot(tmp_path / "wide", now=2, width=4), How(commands=CommandObserver.tap))


def test_whoever_is_asked_decides(tmp_path: Path, rig: Any) -> None:
    asked: list[str] = []
    found, said = chosen(Slot(tmp_path, width=2), How(ask=lambda question: asked.append(question) or True))  # type: ignore[func-returns-value]
    assert (
        found.rig is rig
        and found.wanted == WantedSettings(5.0)
        and asked == ["Set the link to 5 GT/s for this run, and back when it ends?"]
    )
    assert "sees up to x2" in said[0]
    found, _ = chosen(Slot(tmp_path / "no", width=2), How(ask=lambda _: False))
    assert (found.rig, found.meter, found.log) == (None, "rig:ECP5-0001", "trace"), "the host's log instead of the tap"
    with pytest.raises(DriveError, match="would be missing"):
        chosen(Slot(tmp_path / "tap", width=2), How(commands=CommandObserver.tap, ask=lambda _: False))


def test_the_speed_that_is_asked_for_is_what_the_tap_must_see(tmp_path: Path, rig: Any) -> None:
    slot = Slot(tmp_path, width=2)
    assert chosen(slot, How(wanted=WantedSettings(5.0)))[0].rig is rig
    with pytest.raises(DriveError, match=r"will be x2 at 8 GT/s, but"):
        chosen(slot, How(wanted=WantedSettings(8.0)))


def test_the_hosts_log_is_taken_where_it_is_asked_for(tmp_path: Path, rig: Any) -> None:
    found, said = chosen(Slot(tmp_path), How(commands=CommandObserver.trace))
    assert (found.rig, found.meter, found.log) == (None, "rig:ECP5-0001", "trace") and "The tap is not used" in said[0]
    found, _ = chosen(Slot(tmp_path / "b", now=2, width=2), How(commands=CommandObserver.trace))
    assert (found.rig, found.log) == (rig, "trace"), "a tap that sees stays, with the log beside it"


def test_the_best_log_that_works_is_taken(tmp_path: Path, rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_log(kind: str, _device: str, _folder: Path | None = None) -> Any:
        if kind != "fio":
            raise DriveError(f"no {kind} here.")
        return contextlib.nullcontext()

    monkeypatch.setattr(equipment, "open_log", open_log)
    found, said = chosen(Slot(tmp_path, width=2), How(ask=lambda _: False))
    assert found.log == "fio" and said[-1] == "commands: from fio's own logs"
    with pytest.raises(DriveError, match="no trace here"):
        chosen(Slot(tmp_path / "b", width=2), How(commands=CommandObserver.trace))


def test_what_the_host_cannot_do_is_said_before_anything_is_written(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    with pytest.raises(DriveError, match="no speed of PCI Express"):
        check_host(How(wanted=WantedSettings(6.0)), slot.device, slot.tools(), slot.sys)
    with pytest.raises(DriveError, match="no frequency governor"):
        check_host(How(wanted=WantedSettings(governor="performance")), slot.device, slot.tools(), slot.sys)
    policy = slot.sys / "devices/system/cpu/cpufreq/policy0"
    policy.mkdir(parents=True)
    (policy / "scaling_available_governors").write_text("performance powersave\n")
    (policy / "scaling_governor").write_text("powersave\n")
    with pytest.raises(DriveError, match="has no governor turbo; it has performance, powersave"):
        check_host(How(wanted=WantedSettings(governor="turbo")), slot.device, slot.tools(), slot.sys)
    check_host(How(wanted=WantedSettings(5.0, "performance")), slot.device, slot.tools(), slot.sys)
    assert "=" not in slot.log.read_text() and (policy / "scaling_governor").read_text() == "powersave\n"


def test_a_session_sets_link_and_governor_and_puts_them_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real setpci on a tree of files; the session's own drive, rig and nvme are the lab's."""
    slot = Slot(tmp_path / "slot")
    policy = slot.sys / "devices/system/cpu/cpufreq/policy0"
    policy.mkdir(parents=True)
    (policy / "scaling_available_governors").write_text("performance powersave\n")
    (policy / "scaling_governor").write_text("powersave\n")
    (tmp_path / "lab").mkdir()
    lab = Lab(tmp_path / "lab", monkeypatch)
    lab.device, lab.tools = slot.device, slot.tools(nvme=str(lab.root / "nvme"), fio=str(lab.root / "fio"))
    monkeypatch.setattr(bench, "HostSettings", lambda device, tools, journal: HostSettings(device, tools, journal, slot.sys))
    monkeypatch.setattr(bench, "read_link", lambda device: equipment.read_link(device, slot.sys))
    (phase,) = lab.run({"name": "i", "idle_s": 0.1}, wanted=WantedSettings(5.0, "performance"))
    assert (phase["conditions"]["link_speed"], phase["conditions"]["governor"]) == ("set to 5 GT/s", "performance")
    told = __import__("json").loads((lab.root / "capture/meta.json").read_text())["conditions"]["link"]
    assert told["text"].startswith("5 GT/s x4 (both ends: 16 GT/s x4)"), "as it was while the work ran"
    assert slot.register(PORT, LINK_CONTROL_2, 1) == 4 and slot.register(DRIVE, LINK_STATUS, 1) & 0xF == 4
    assert (policy / "scaling_governor").read_text() == "powersave"
