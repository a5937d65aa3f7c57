"""The link of a drive: its readings against lspci, and its speed set with setpci and put back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.drive.device import Device
from wattbell.drive.link import Link, LinkEnd, read_link, unseen, upstream_port
from wattbell.drive.settings import HostSettings, restore_left_over
from wattbell.errors import DriveError
from wattbell_spec.boards import ECP5, KINTEX7, board_of

from tests.host.drive.slot import DRIVE, PORT, Slot
from tests.host.fuzzing import examples

LINK_CAPABILITIES, LINK_CONTROL, LINK_STATUS, LINK_CONTROL_2 = 0x0C, 0x10, 0x12, 0x30


def of(slot: Slot) -> Link:
    found = read_link(slot.device, slot.sys)
    assert found is not None
    return found


@pytest.mark.parametrize(("aspm", "word"), [(0, "off"), (1, "L0s"), (2, "L1"), (3, "L0s, L1")])
def test_both_ends_are_read_as_lspci_reads_them(tmp_path: Path, aspm: int, word: str) -> None:
    slot = Slot(tmp_path, drive_most=3, port_most=5, now=3)
    for address in (PORT, DRIVE):
        slot.poke(address, LINK_CONTROL, 0x40 | aspm)
    link = of(slot)
    assert link.port is not None and (link.port.kind, link.drive.kind) == ("root port", "endpoint")
    for end in (link.drive, link.port):
        said = slot.lspci(end.address)
        assert f"LnkCap: Port #0, Speed {end.max_speed_gt_s:g}GT/s, Width x{end.max_width}" in said
        assert re.search(rf"LnkSta: Speed {end.speed_gt_s:g}GT/s( \(\w+\))?, Width x{end.width} ", said)
        assert f"LnkCtl2: Target Link Speed: {end.target_gt_s:g}GT/s" in said
        assert f"DevCap: MaxPayload {end.mps_most_bytes} bytes" in said
        assert f"MaxPayload {end.mps_bytes} bytes, MaxReadReq {end.mrrs_bytes} bytes" in said
        assert f"LnkCtl: ASPM {'Disabled' if not aspm else word.replace(', ', ' ') + ' Enabled'};" in said
        assert f"Width x{end.max_width}, ASPM {end.aspm_offered}," in said
        assert end.aspm == word and end.l1_substates is not None and end.l1_substates_offered is not None
        enabled = said.partition("L1SubCtl1: ")[2]
        for name in ("PCI-PM L1.2", "PCI-PM L1.1", "ASPM L1.2", "ASPM L1.1"):
            assert (f"{name.replace(' ', '_')}+" in enabled.partition(" T_")[0]) == (name in end.l1_substates)
            assert f"{name.replace(' ', '_')}+" in said.partition("L1SubCap: ")[2].partition("L1SubCtl1")[0]
    assert link.drive.l1_substates == ("PCI-PM L1.2", "ASPM L1.2", "ASPM L1.1")
    assert link.text == f"8 GT/s x4 (drive: 8 GT/s x4, slot: 32 GT/s x4), ASPM {word}, payload up to 256 bytes"
    assert json.loads(json.dumps(link.to_json()))["port"]["max_speed_gt_s"] == 32


def test_what_sysfs_says_in_words_goes_before_registers(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    node = slot.tree / "devices" / DRIVE
    for name, text in {"current_link_speed": "5.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe", "current_link_width": "2"}.items():
        (node / name).write_text(text + "\n")
    link = of(slot)
    assert (link.speed_gt_s, link.width, link.drive.max_speed_gt_s, link.drive.max_width) == (5.0, 2, 16.0, 4)
    assert link.text.startswith("5 GT/s x2 (both ends: 16 GT/s x4)")


@pytest.mark.parametrize(("words", "speed"), [("8 GT/s", 8.0), ("2.5 GT/s PCIe", 2.5), ("Unknown", None), ("", None), ("fast", None)])
def test_without_root_the_words_are_all_there_is(tmp_path: Path, words: str, speed: float | None) -> None:
    slot = Slot(tmp_path)
    node = slot.tree / "devices" / DRIVE
    (node / "config").write_bytes((node / "config").read_bytes()[:64])
    (node / "current_link_speed").write_text(words)
    (node / "current_link_width").write_text("255" if speed is None else "4")
    link = of(slot)
    assert (link.speed_gt_s, link.width, link.drive.aspm) == (speed, None if speed is None else 4, None)
    assert link.text == ("not known" if speed is None else f"{speed:g} GT/s x4 (both ends: 16 GT/s x4)")


@pytest.mark.parametrize("width", ["0", "00", "-1", "33", "255", "Unknown", "x4", ""])
@pytest.mark.parametrize("ends", [("current_link_width",), ("current_link_width", "max_link_width")])
def test_a_width_that_no_link_has_is_not_known(tmp_path: Path, width: str, ends: tuple[str, ...]) -> None:
    """0, and 255 in some kernels, are said of a link that is down. Not ``x0``, and no bound for a tap."""
    slot = Slot(tmp_path)
    node = slot.tree / "devices" / DRIVE
    (node / "config").write_bytes((node / "config").read_bytes()[:64])
    (node / "current_link_speed").write_text("8.0 GT/s PCIe\n")
    for name in ends:
        (node / name).write_text(f"{width}\n")
    link = of(slot)
    assert link.width is None and link.text == "not known" and "x0" not in json.dumps(link.to_json())
    assert unseen(KINTEX7, link) is None


def test_a_width_of_0_in_the_registers_is_not_known(tmp_path: Path) -> None:
    """Negotiated Link Width, bits 9:4 of Link Status."""
    slot = Slot(tmp_path)
    slot.poke(DRIVE, LINK_STATUS, 0x0003)
    assert of(slot).width is None and of(slot).text == "not known"
    slot.poke(DRIVE, LINK_STATUS, 0x0023)
    assert of(slot).width == 2


def test_an_integrated_endpoint_has_no_link(tmp_path: Path) -> None:
    """Every drive of QEMU that is not behind a root port is one."""
    slot = Slot(tmp_path)
    slot.poke(DRIVE, 0x02, 9 << 4 | 2)
    link = of(slot)
    assert link.drive.speed_gt_s is None and link.text == "the drive is part of the root complex: there is no link"
    assert unseen(KINTEX7, link) is None


def test_a_drive_that_has_gone_is_not_described(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    (slot.tree / "devices" / DRIVE / "config").write_bytes(b"\xff" * 4096)
    assert of(slot).drive == LinkEnd(DRIVE)


@examples(200)
@given(content=st.binary(max_size=300), list_at=st.integers(0, 255))
def test_no_configuration_space_is_too_broken(tmp_path: Path, content: bytes, list_at: int) -> None:
    node = tmp_path / "bus/pci/devices" / DRIVE
    node.mkdir(parents=True, exist_ok=True)
    space = bytearray(content)
    if len(space) > 0x34:
        space[0x34] = list_at
    (node / "config").write_bytes(space)
    found = read_link(Device("", "", "", "", "", "", 1, 1, DRIVE, 1), tmp_path)
    assert found is not None and found.text


# -- what a tap sees -------------------------------------------------------------------------------------------------


def link(speed: float | None, width: int | None) -> Link:
    return Link(LinkEnd(DRIVE, "endpoint", speed, width), None)


@pytest.mark.parametrize(
    ("board", "speed", "width", "said"),
    [
        (ECP5, 5.0, 2, None),
        (ECP5, 2.5, 1, None),
        (ECP5, 8.0, 2, "--link-speed 5"),
        (ECP5, 5.0, 4, "adapter of 2 lanes"),
        (KINTEX7, 8.0, 4, None),
        (KINTEX7, 16.0, 4, "--link-speed 8"),
        (KINTEX7, None, None, None),
    ],
)
def test_whether_a_tap_sees_the_link(board: Any, speed: float | None, width: int | None, said: str | None) -> None:
    found = unseen(board, link(speed, width))
    assert found is None if said is None else found is not None and said in found and "--commands trace" in found
    if said and "adapter" in said:
        assert found is not None and "--link-speed" not in found, "no speed makes four lanes two"


def test_a_rig_is_known_by_its_number() -> None:
    assert (board_of("ECP5-0001"), board_of("KINTEX7-0001"), board_of("WB0007"), board_of("")) == (ECP5, KINTEX7, None, None)


# -- Target Link Speed -----------------------------------------------------------------------------------------------


def settings(slot: Slot) -> HostSettings:
    return HostSettings(slot.device, slot.tools(), slot.root / "restore.json", slot.sys)


def test_the_link_is_slowed_and_put_back(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    before = {address: (slot.tree / "devices" / address / "config").read_bytes() for address in (PORT, DRIVE)}
    with settings(slot) as changed:
        changed.link_speed(5.0)
        assert of(slot).speed_gt_s == 5.0 and changed.conditions["link_speed"] == "set to 5 GT/s"
        assert "LnkCtl2: Target Link Speed: 5GT/s" in slot.lspci(PORT)
        assert slot.register(DRIVE, LINK_CONTROL_2, 2) == 4, "the drive's own register is let be"
        (saved,) = json.loads((tmp_path / "restore.json").read_text())["saved"]
        assert saved == {"kind": "link_speed", "where": PORT, "value": "4"}
    assert {address: (slot.tree / "devices" / address / "config").read_bytes() for address in before} == before
    assert not (tmp_path / "restore.json").exists()


def test_a_link_that_stays_as_it_was_is_an_error_and_put_back(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    slot.stuck.touch()
    with pytest.raises(DriveError, match="was to run at 5 GT/s and runs at 16 GT/s"), settings(slot) as changed:
        changed.link_speed(5.0)
    assert slot.register(PORT, LINK_CONTROL_2, 1) == 4


@pytest.mark.parametrize("gt_s", [6.0, 0.0])
def test_no_such_speed(tmp_path: Path, gt_s: float) -> None:
    slot = Slot(tmp_path)
    with pytest.raises(DriveError, match="no speed of PCI Express"), settings(slot) as changed:
        changed.link_speed(gt_s)
    assert not slot.log.exists()


def test_a_port_without_the_register_is_let_be(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    slot.poke(PORT, LINK_CONTROL_2, 0)
    with pytest.raises(DriveError, match="has no Target Link Speed"), settings(slot) as changed:
        changed.link_speed(5.0)
    assert "=" not in slot.log.read_text()


def test_a_drive_without_a_port_above_it(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    (slot.tree / "devices" / DRIVE).unlink()
    lone = slot.sys / "devices/pci0000:3b" / DRIVE
    lone.mkdir(parents=True)
    (slot.tree / "devices" / DRIVE).symlink_to(lone)
    assert upstream_port(slot.device, slot.sys) is None
    with pytest.raises(DriveError, match="no port above it"), settings(slot) as changed:
        changed.link_speed(5.0)


def test_what_a_killed_run_left_is_put_back(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    changed = settings(slot)
    changed.link_speed(2.5)
    assert of(slot).speed_gt_s == 2.5
    assert restore_left_over(tmp_path / "restore.json", slot.device, slot.tools(), slot.sys)
    assert of(slot).speed_gt_s == 16.0


@pytest.mark.parametrize(
    ("kind", "where", "value"),
    [
        ("link_speed", "0000:00:02.0", "1"),  # somebody else's port
        ("link_speed", DRIVE, "1"),
        ("link_speed", PORT, "0"),
        ("link_speed", PORT, "7"),
        ("link_speed", PORT, "3:f CAP_EXP+10.w=10"),
        ("setpci", "0000:00:02.0", "0000"),
        ("Link_speed", PORT, "3"),
    ],
)
def test_a_journal_from_elsewhere_retrains_nothing(tmp_path: Path, kind: str, where: str, value: str) -> None:
    slot = Slot(tmp_path)
    saved = [{"kind": kind, "where": where, "value": value}]
    (tmp_path / "restore.json").write_text(json.dumps({"device": "/dev/nvme9n1", "serial": "S1", "saved": saved}))
    with pytest.raises(DriveError, match="which no run changes"):
        restore_left_over(tmp_path / "restore.json", slot.device, slot.tools(), slot.sys)
    assert not slot.log.exists()


# -- ASPM by setpci, where the kernel has no files for it ------------------------------------------------------------


def test_aspm_is_set_at_both_ends_and_put_back(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    slot.poke(PORT, LINK_CONTROL, 0x41)
    with settings(slot) as changed:
        changed.power(apst=False, aspm="l1", power_state=None)
        assert all("LnkCtl: ASPM L1 Enabled" in slot.lspci(address) for address in (PORT, DRIVE))
        assert changed.conditions["aspm"] == "l1 by setpci (L1 substates as the firmware set them)"
        assert of(slot).drive.aspm == "L1"
    assert [slot.register(address, LINK_CONTROL, 2) for address in (PORT, DRIVE)] == [0x41, 0x40]


def test_a_port_is_not_told_to_use_what_it_does_not_offer(tmp_path: Path) -> None:
    """A root port that offers L0s alone, as QEMU's does."""
    slot = Slot(tmp_path)
    slot.poke(PORT, LINK_CAPABILITIES + 1, 1 << 2)
    slot.poke(PORT, LINK_CONTROL, 0x41)
    assert "ASPM L0s," in slot.lspci(PORT)
    with settings(slot) as changed:
        changed.power(apst=False, aspm="l1", power_state=None)
        assert [slot.register(address, LINK_CONTROL, 2) for address in (PORT, DRIVE)] == [0x40, 0x40]
        assert changed.conditions["aspm"] == "off: the link has no L1"
    assert [slot.register(address, LINK_CONTROL, 2) for address in (PORT, DRIVE)] == [0x41, 0x40]


def test_a_drive_without_a_link_has_no_aspm(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    slot.poke(DRIVE, 0x02, 9 << 4 | 2)
    with settings(slot) as changed:
        changed.power(apst=False, aspm="l1.2", power_state=None)
        assert changed.conditions["aspm"] == "none: the drive has no PCI Express link"
    assert not slot.log.exists()


# -- ASPM by the kernel's files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "there", "then", "said"),
    [
        ("l1.2", {"clkpm": 0, "l0s_aspm": 1, "l1_aspm": 0, "l1_1_aspm": 0, "l1_2_aspm": 0}, "1 0 1 1 1", "l1.2"),
        ("l1", {"clkpm": 0, "l0s_aspm": 1, "l1_aspm": 0, "l1_1_aspm": 1, "l1_2_aspm": 1}, "0 0 1 0 0", "l1"),
        ("off", {"clkpm": 1, "l0s_aspm": 1, "l1_aspm": 1, "l1_1_aspm": 1, "l1_2_aspm": 1}, "1 0 0 0 0", "off"),
        ("l1.2", {"l0s_aspm": 0, "l1_aspm": 0}, "0 1", "l1: the link has no L1.2"),
        ("l1.2", {"clkpm": 0}, "0", "off: the link has no L1"),
        ("l1", {"l0s_aspm": 1}, "0", "off: the link has no L1"),
        ("off", {"clkpm": 1}, "1", "off"),
    ],
)
def test_aspm_by_the_kernels_files(tmp_path: Path, wanted: str, there: dict[str, int], then: str, said: str) -> None:
    slot = Slot(tmp_path)
    folder = slot.link_files(**there)

    def now() -> list[int]:
        return [int((folder / name).read_text()) for name in there]

    with settings(slot) as changed:
        changed.power(apst=False, aspm=wanted, power_state=None)
        assert now() == [int(word) for word in then.split()]
        assert changed.conditions["aspm"] == said
    assert now() == list(there.values())
    assert not slot.log.exists(), "setpci goes behind the kernel's back"
    assert not (tmp_path / "restore.json").exists()


@pytest.mark.parametrize(
    ("idle", "said"),
    [("l1_aspm", "off: L1 is not switched on by the kernel"), ("l1_2_aspm", "l1: L1.2 is not switched on by the kernel")],
)
def test_what_the_kernel_takes_and_does_not_do_is_not_claimed(tmp_path: Path, idle: str, said: str) -> None:
    """The kernel's default policy switches on no more than the firmware had on; the file takes the value and reads 0 as before."""
    slot = Slot(tmp_path)
    folder = slot.link_files(l1_aspm=0, l1_2_aspm=0)
    (folder / idle).unlink()
    (folder / idle).symlink_to("/dev/null")
    policy = slot.sys / "module/pcie_aspm/parameters/policy"
    policy.parent.mkdir(parents=True)
    policy.write_text("[default] performance powersave powersupersave \n")
    with settings(slot) as changed:
        changed.power(apst=False, aspm="l1.2", power_state=None)
        assert changed.conditions["aspm"] == f"{said} ({policy} is default)"


def test_the_kernels_files_are_put_back_after_a_kill(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    folder = slot.link_files(l1_aspm=0, l1_2_aspm=0)
    settings(slot).power(apst=False, aspm="l1.2", power_state=None)
    assert (folder / "l1_2_aspm").read_text() == "1"
    assert restore_left_over(tmp_path / "restore.json", slot.device, slot.tools(), slot.sys)
    assert [(folder / name).read_text() for name in ("l1_aspm", "l1_2_aspm")] == ["0", "0"]
