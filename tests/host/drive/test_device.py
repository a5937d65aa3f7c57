"""Reasons not to touch a drive, on sysfs, procfs and configfs as Linux writes them. For the kernel's own see tests/e2e."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from wattbell.drive import device as identity
from wattbell.drive import inuse as subject
from wattbell.drive.device import Device, Node, inspect, refuse_wrong_serial
from wattbell.drive.inuse import refuse_in_use
from wattbell.errors import DriveError


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


_node_of = identity.node_of


def node_of(path: Path) -> Node | None:
    """Answers as the real function; a plain file of text ``b 259:0`` or ``c 247:0`` means the node of that number."""
    found = _node_of(path)
    if found is None and path.is_file():
        kind, _, number = path.read_text(errors="replace")[:20].partition(" ")
        return Node(kind == "b", number.strip()) if kind in ("b", "c") else None
    return found


class Machine:
    """A sysfs with nvme0: namespaces nvme0n1 (partition nvme0n1p1) and nvme0n2, each with its ``ng``; and a disk, sda."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sys, self.proc, self.dev = root / "sys", root / "proc", root / "dev"
        node = self.sys / "devices/pci0000:00/0000:01:00.0/nvme/nvme0"
        for name, text in {
            "model": "GOOD DRIVE   ",
            "serial": "SN 1",
            "firmware_rev": "1.0",
            "transport": "pcie",
            "subsysnqn": "nqn.a",
        }.items():
            write(node / name, text)
        (node / "device").symlink_to(node.parent.parent)
        (self.sys / "class/nvme").mkdir(parents=True)
        (self.sys / "class/nvme/nvme0").symlink_to(node)
        (self.sys / "class/block").mkdir()
        (self.sys / "dev/block").mkdir(parents=True)
        (self.sys / "class/nvme-generic").mkdir()
        self.dev.mkdir()
        write(node / "dev", "243:0")
        (self.dev / "nvme0").write_text("c 243:0")
        self.block(self.sys / "devices/sda", "8:0")
        for number, name in enumerate(("nvme0n1", "nvme0n2")):
            block = node / name
            write(block / "size", "2048")
            write(block / "queue/logical_block_size", "512")
            write(block / "nsid", str(1 + 4 * number))
            (block / "device").symlink_to(node)
            self.block(block, f"259:{number * 2}")
            generic = node / f"ng0n{number + 1}"
            write(generic / "dev", f"247:{number}")
            (self.sys / "class/nvme-generic" / generic.name).symlink_to(generic)
            (self.dev / generic.name).write_text(f"c 247:{number}")
        self.node = node
        write(self.proc / "self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw")
        write(self.proc / "swaps", "Filename Type Size Used Priority")
        self.partition("nvme0n1", 1, "259:1")
        monkeypatch.setattr(identity, "node_of", node_of)
        monkeypatch.setattr(subject, "node_of", node_of)
        self.device = inspect(self.dev / "nvme0n1", self.sys)

    def partition(self, of: str, number: int, dev: str) -> None:
        name = f"{of}p{number}"
        part = self.node / of / name
        write(part / "partition", str(number))
        self.block(part, dev)

    def block(self, folder: Path, dev: str) -> None:
        """A block device with its node in /dev."""
        write(folder / "dev", dev)
        (folder / "holders").mkdir(exist_ok=True)
        (self.sys / "class/block" / folder.name).symlink_to(folder)
        (self.sys / "dev/block" / dev).symlink_to(folder)
        (self.dev / folder.name).write_text(f"b {dev}")

    def holds(self, above: str, below: str, dev: str, uuid: str = "", name: str = "") -> None:
        """Device ``above`` is built upon ``below``."""
        folder = self.sys / "devices/virtual/block" / above
        if not folder.exists():
            self.block(folder, dev)
        write(folder / "dm/uuid", uuid)
        write(folder / "dm/name", name)
        (folder / "slaves").mkdir(exist_ok=True)
        (folder / "slaves" / below).symlink_to((self.sys / "class/block" / below).resolve())
        (self.sys / "class/block" / below / "holders" / above).symlink_to(folder)

    def opens(self, pid: int, node: Path, flags: str = "0100002") -> None:
        write(self.proc / f"{pid}/comm", "qemu")
        write(self.proc / f"{pid}/fdinfo/5", f"pos: 0\nflags:\t{flags}\nmnt_id: 9")
        (self.proc / f"{pid}/fd").mkdir()
        (self.proc / f"{pid}/fd/5").symlink_to(node)

    def refuse(self) -> None:
        refuse_in_use(self.device, self.sys, self.proc, self.dev)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_what_the_drive_is(machine: Machine) -> None:
    found = machine.device
    path = str(machine.dev / "nvme0n1")
    assert found == Device(path, "nvme0n1", "nvme0", "GOOD DRIVE", "SN 1", "1.0", 1 << 20, 512, "0000:01:00.0", nsid=1)
    assert inspect(machine.dev / "nvme0n2", machine.sys).nsid == 5, "the kernel counts block devices, the drive names namespaces"
    assert found.character_device == "/dev/nvme0"
    machine.refuse()


def test_the_wrong_thing_is_refused(machine: Machine) -> None:
    with pytest.raises(DriveError, match="partition"):
        inspect(machine.dev / "nvme0n1p1", machine.sys)
    with pytest.raises(DriveError, match="no NVMe namespace"):
        inspect(machine.dev / "sda", machine.sys)
    with pytest.raises(DriveError, match="cannot be looked at"):
        inspect(machine.dev / "nvme7n1", machine.sys)


def test_what_is_no_block_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nvme0n1").write_bytes(b"")
    with pytest.raises(DriveError, match="not a block device"):
        inspect(tmp_path / "nvme0n1")
    with pytest.raises(DriveError, match="is the controller"):
        inspect("/dev/null")


@pytest.mark.parametrize("serial", [None, "", " ", "\t", "SN 2", "sn 1", "SN"])
def test_the_serial_number_must_be_spelled_out(machine: Machine, serial: str | None) -> None:
    with pytest.raises(DriveError, match="serial number"):
        refuse_wrong_serial(machine.device, serial)
    refuse_wrong_serial(machine.device, "SN 1")


@pytest.mark.parametrize(
    ("mount", "where"),
    [
        ("30 22 259:0 / /data rw - xfs /dev/nvme0n1 rw", "/data"),
        ("30 22 259:1 / /data rw - ext4 /dev/nvme0n1p1 rw", "/data"),
        ("30 22 259:2 / /other rw - ext4 /dev/nvme0n2 rw", "/other"),  # another namespace of the same drive
        ("30 22 0:44 /@ /b rw shared:1 - btrfs /dev/nvme0n1p1 rw", "/b"),
    ],
)
def test_a_mounted_drive_is_refused(machine: Machine, mount: str, where: str) -> None:
    write(machine.proc / "self/mountinfo", mount)
    with pytest.raises(DriveError, match=f"mounted on {where}.*Nothing was written"):
        machine.refuse()


def test_swap_and_holders_are_refused(machine: Machine) -> None:
    write(machine.proc / "swaps", f"Filename Type Size Used Priority\n{machine.dev}/nvme0n1p1 partition 1 0 -2")
    with pytest.raises(DriveError, match="swap"):
        machine.refuse()
    write(machine.proc / "swaps", "Filename Type Size Used Priority")
    (machine.node / "nvme0n1/nvme0n1p1/holders/dm-0").mkdir()
    with pytest.raises(DriveError, match="held by dm-0"):
        machine.refuse()


def test_a_drive_that_cannot_be_opened_is_refused(machine: Machine) -> None:
    os.unlink(machine.dev / "nvme0n1")
    with pytest.raises(DriveError, match="cannot be opened"):
        machine.refuse()


@pytest.mark.parametrize("name", ["nvme0n1", "nvme0n1p1", "nvme0n2", "nvme0n2p3"])
def test_every_block_device_of_the_drive_must_be_free(machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Devices that the kernel claims without an entry in procfs: a member of btrfs or ZFS, another program's exclusive open."""
    if name == "nvme0n2p3":
        machine.partition("nvme0n2", 3, "259:7")
    truly = os.open

    def busy(path: Path, flags: int, *more: int) -> int:
        if Path(path).name == name and flags & os.O_EXCL:
            raise OSError(errno.EBUSY, "Device or resource busy")
        return truly(path, flags, *more)

    machine.refuse()
    monkeypatch.setattr(os, "open", busy)
    with pytest.raises(DriveError, match=rf"/{name} cannot be opened.*Device or resource busy.*Nothing was written"):
        machine.refuse()


def test_what_the_kernel_has_claimed_is_refused(machine: Machine, tmp_path: Path) -> None:
    """A real block device in place of the drive's second namespace, opened exclusively."""
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    losetup = shutil.which("losetup")
    made = losetup and subprocess.run([losetup, "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if not losetup or not made or made.returncode:
        pytest.skip("needs a loop device: root, and a kernel that has them")
    loop = made.stdout.strip()
    try:
        (machine.dev / "nvme0n2").unlink()
        (machine.dev / "nvme0n2").symlink_to(loop)
        found = os.stat(loop).st_rdev
        write(machine.node / "nvme0n2/dev", f"{os.major(found)}:{os.minor(found)}")
        machine.refuse()
        claim = os.open(loop, os.O_RDONLY | os.O_EXCL)
        try:
            with pytest.raises(DriveError, match="nvme0n2 cannot be opened alone, and is part of the same drive .Device or resource busy"):
                machine.refuse()
        finally:
            os.close(claim)
        machine.refuse()
    finally:
        subprocess.run([losetup, "--detach", loop], check=True)


def test_a_member_of_a_btrfs_is_refused_whatever_mountinfo_names(machine: Machine) -> None:
    write(machine.proc / "self/mountinfo", "30 22 0:44 / /b rw - btrfs /dev/sdb rw")
    members = machine.sys / "fs/btrfs/0f3a/devices"
    members.mkdir(parents=True)
    (members / "sdb").mkdir()
    machine.refuse()
    (members / "nvme0n2").mkdir()
    with pytest.raises(DriveError, match="nvme0n2 is in use .member of the btrfs 0f3a"):
        machine.refuse()


def test_a_mount_by_another_name_of_the_device_is_refused(machine: Machine) -> None:
    link = machine.dev / "by-uuid-1"
    link.symlink_to(machine.dev / "nvme0n2")
    write(machine.proc / "self/mountinfo", f"30 22 0:44 / /b rw - btrfs {link} rw")
    with pytest.raises(DriveError, match="mounted on /b"):
        machine.refuse()


@pytest.mark.parametrize("backing", ["DEV/nvme0n1p1", "DEV/other", "/dev/nvme0n1p1 (deleted)"])
def test_a_loop_device_before_the_drive_is_refused(machine: Machine, backing: str) -> None:
    (machine.dev / "other").write_text("b 259:1")
    write(machine.sys / "class/block/loop3/loop/backing_file", backing.replace("DEV", str(machine.dev)))
    with pytest.raises(DriveError, match="nvme0n1p1 is in use .behind /dev/loop3"):
        machine.refuse()


@pytest.mark.parametrize("why", [errno.ENXIO, errno.EACCES])
def test_a_loop_device_that_cannot_be_asked_is_nothing_and_no_error(why: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENXIO: nothing is attached. EACCES: another user's."""
    monkeypatch.setattr(subject, "node_of", lambda _: Node(True, "7:9"))

    def no(*_: object) -> int:
        raise OSError(why, os.strerror(why))

    monkeypatch.setattr(subject.os, "open", no)
    assert subject._behind(tmp_path / "loop9") is None


@pytest.mark.parametrize(
    ("node", "flags", "refused"),
    [
        ("nvme0n2", "0100002", True),  # O_RDWR, as a virtual machine has it
        ("nvme0n2", "0100001", True),
        ("nvme0n2", "0100000", False),  # reading, as udev does
        ("ng0n2", "0100000", True),  # enough for pass-through commands
        ("nvme0", "0100000", True),
        ("nvme1n1", "0100002", False),
        ("sda", "0100002", False),
    ],
)
def test_a_program_that_works_with_the_drive_is_refused(machine: Machine, node: str, flags: str, refused: bool) -> None:
    if node == "nvme1n1":
        machine.block(machine.sys / "devices/nvme1n1", "259:40")
    machine.opens(77, machine.dev / node, flags)
    if not refused:
        machine.refuse()
        return
    with pytest.raises(DriveError, match=rf"{node} is in use .open in process 77, qemu"):
        machine.refuse()


def test_namespaces_of_the_drives_other_controller_count(machine: Machine) -> None:
    """Without native multipath each controller of a drive has its own block devices."""
    other = machine.sys / "devices/pci0000:00/0000:02:00.0/nvme/nvme1"
    for name, dev, of in (("nvme1n1", "259:9", other), ("nvme2n1", "259:11", other.parent / "nvme2")):
        machine.block(of / name, dev)
        (machine.sys / "class/nvme" / of.name).symlink_to(of)
    write(other / "subsysnqn", "nqn.a")
    write(other.parent / "nvme2/subsysnqn", "nqn.b")
    write(machine.proc / "self/mountinfo", "30 22 259:11 / /another rw - ext4 /dev/nvme2n1 rw")
    machine.refuse()
    write(machine.proc / "self/mountinfo", "30 22 259:9 / /same rw - ext4 /dev/nvme1n1 rw")
    with pytest.raises(DriveError, match="nvme1n1 is in use .mounted on /same"):
        machine.refuse()


@pytest.mark.parametrize("reported", ["", "  ", "\0\0", "--"])
@pytest.mark.parametrize("given", [None, "", " ", "--", "\0\0", "0"])
def test_a_drive_without_a_serial_number_is_always_refused(machine: Machine, reported: str, given: str | None) -> None:
    write(machine.node / "serial", reported)
    drive = inspect(machine.dev / "nvme0n1", machine.sys)
    with pytest.raises(DriveError, match="reports no serial number.*Nothing was written"):
        refuse_wrong_serial(drive, given)


@pytest.mark.parametrize(("file", "text"), [("size", "0"), ("size", "many"), ("size", "9" * 5000), ("queue/logical_block_size", "-1")])
def test_a_drive_without_a_size_is_refused(machine: Machine, file: str, text: str) -> None:
    write(machine.node / "nvme0n1" / file, text)
    with pytest.raises(DriveError, match="expected a number above 0"):
        inspect(machine.dev / "nvme0n1", machine.sys)


def test_native_multipath_and_two_controllers(machine: Machine) -> None:
    subsystem = machine.sys / "devices/virtual/nvme-subsys0"
    subsystem.mkdir(parents=True)
    block = machine.node / "nvme0n1"
    (block / "device").unlink()
    (block / "device").symlink_to(subsystem)
    (subsystem / "nvme0").symlink_to(machine.node)
    assert inspect(machine.dev / "nvme0n1", machine.sys).controller == "nvme0"
    (subsystem / "nvme1").mkdir()
    with pytest.raises(DriveError, match="2 controllers"):
        inspect(machine.dev / "nvme0n1", machine.sys)


def test_another_node_of_the_drive_is_the_drive(machine: Machine) -> None:
    """A node of mknod: its number says which drive it is, not its name. A node of the drive's name that is another device is refused."""
    (machine.dev / "mine").write_text("b 259:2")
    found = inspect(machine.dev / "mine", machine.sys)
    assert (found.name, found.nsid, found.path) == ("nvme0n2", 5, str(machine.dev / "mine"))
    (machine.dev / "nvme0n1").write_text("b 8:0")
    with pytest.raises(DriveError, match="no NVMe namespace"):
        inspect(machine.dev / "nvme0n1", machine.sys)
    with pytest.raises(DriveError, match="opens device 8:0, but the kernel's nvme0n1 is 259:0.*Nothing was written"):
        machine.refuse()
    (machine.dev / "nvme0n1").write_text("b 99:1")
    with pytest.raises(DriveError, match="block device 99:1, which the kernel does not have"):
        inspect(machine.dev / "nvme0n1", machine.sys)


@pytest.mark.parametrize(("number", "part"), [("b 259:0", "nvme0n1"), ("b 259:1", "nvme0n1p1"), ("c 247:1", "ng0n2"), ("c 243:0", "nvme0")])
def test_a_program_with_another_node_of_the_drive_is_refused(machine: Machine, number: str, part: str) -> None:
    (machine.dev / "scratch").write_text(number)
    machine.opens(78, machine.dev / "scratch")
    with pytest.raises(DriveError, match=f"/{part} is in use .open in process 78, qemu"):
        machine.refuse()


@pytest.mark.parametrize(("access", "refused"), [("rw-s", True), ("r--s", False), ("rw-p", False)])
def test_a_program_that_has_the_drive_mapped_is_refused(machine: Machine, access: str, refused: bool) -> None:
    """A mapping outlives the descriptor that it was made with."""
    (machine.dev / "scratch").write_text("b 259:2")
    write(machine.proc / "79/comm", "writer")
    write(machine.proc / "79/maps", f"7f00-7f10 {access} 00000000 00:05 412        {machine.dev}/scratch")
    (machine.proc / "79/map_files").mkdir()
    (machine.proc / "79/map_files/7f00-7f10").symlink_to(machine.dev / "scratch")
    if not refused:
        machine.refuse()
        return
    with pytest.raises(DriveError, match="nvme0n2 is in use .open in process 79, writer"):
        machine.refuse()


@pytest.mark.parametrize("number", ["b 259:0", "b 259:2"])
def test_swap_and_mounts_over_another_node_are_refused(machine: Machine, number: str) -> None:
    (machine.dev / "my swap").write_text(number)
    path = str(machine.dev / "my swap").replace(" ", "\\040")
    write(machine.proc / "swaps", f"Filename Type Size Used Priority\n{path} partition 1 0 -2")
    with pytest.raises(DriveError, match="is in use .swap"):
        machine.refuse()
    write(machine.proc / "swaps", "Filename Type Size Used Priority")
    write(machine.proc / "self/mountinfo", f"30 22 0:44 / /a\\040b rw - btrfs {path} rw")
    with pytest.raises(DriveError, match="is in use .mounted on /a b"):
        machine.refuse()


EXPORTS = [
    ("nvmet/subsystems/nqn.t/namespaces/1/device_path", "enable", "NVMe target"),
    ("nvmet/subsystems/nqn.t/passthru/device_path", "enable", "NVMe target"),
    ("target/core/iblock_0/disk/udev_path", "enable", "SCSI target"),
    ("usb_gadget/g1/functions/mass_storage.0/lun.0/file", "", "USB gadget"),
]


@pytest.mark.parametrize(("file", "switch", "kind"), EXPORTS)
@pytest.mark.parametrize("number", ["b 259:1", "c 243:0"])
def test_a_drive_that_is_exported_is_refused(machine: Machine, file: str, switch: str, kind: str, number: str) -> None:
    """An export opens the drive without a claim, and no process has it open."""
    (machine.dev / "scratch").write_text(number)
    path = machine.sys / "kernel/config" / file
    write(path, str(machine.dev / "sda"))
    if switch:
        write(path.parent / switch, "1")
    machine.refuse()
    write(path, str(machine.dev / "scratch"))
    with pytest.raises(DriveError, match=f"is in use .exported by the {kind} .*Nothing was written"):
        machine.refuse()
    write(path, str(machine.dev / "gone"))
    with pytest.raises(DriveError, match=f"perhaps exported by the {kind} .*/gone cannot be looked at"):
        machine.refuse()
    if switch:
        write(path, str(machine.dev / "scratch"))
        write(path.parent / switch, "0")
        machine.refuse()


@pytest.mark.parametrize("part", ["nvme0n1", "nvme0n1p1", "nvme0n2"])
def test_a_tree_of_devices_above_the_drive_is_told(machine: Machine, part: str) -> None:
    machine.holds("dm-0", part, "253:0", "CRYPT-LUKS2-0f3a-vault", "vault")
    machine.holds("dm-1", "dm-0", "253:1", "LVM-abc", "vg-data")
    with pytest.raises(DriveError, match=rf"{part} is in use .held by dm-0 .LUKS vault. below dm-1 .LVM vg-data."):
        machine.refuse()
    (machine.sys / "class/block" / part / "holders/dm-0").unlink()  # the other end of the same link
    with pytest.raises(DriveError, match=rf"{part} is in use .held by dm-0"):
        machine.refuse()


def test_a_part_of_a_bcache_is_refused(machine: Machine) -> None:
    (machine.node / "nvme0n2/bcache").mkdir()
    with pytest.raises(DriveError, match="nvme0n2 is in use .part of a bcache"):
        machine.refuse()


def test_the_path_of_a_multipath_head_is_the_drive(machine: Machine) -> None:
    """Controller 1 reaches namespace nvme0n2 too; the head's node, held by dm-multipath, is the drive's."""
    (machine.node / "nvme0n2").rename(machine.node / "nvme0c0n2")
    head = machine.sys / "devices/virtual/nvme-subsys0/nvme0n2"
    for link in (machine.sys / "class/block/nvme0n2", machine.sys / "dev/block/259:2"):
        link.unlink()
    machine.block(head, "259:2")
    machine.refuse()
    machine.holds("dm-0", "nvme0n2", "253:0", "mpath-eui.1", "mpatha")
    with pytest.raises(DriveError, match=r"nvme0n2 is in use .held by dm-0 .multipath mpatha"):
        machine.refuse()


WRITER = "import os, sys; fd = os.open(sys.argv[1], int(sys.argv[2])); print(flush=True); sys.stdin.read()"


def test_a_process_that_writes_through_a_second_node_of_a_real_device(machine: Machine, tmp_path: Path) -> None:
    """The kernel's own procfs and a loop device, opened by a node that mknod made and that is removed again."""
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    losetup = shutil.which("losetup")
    made = losetup and subprocess.run([losetup, "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if not losetup or not made or made.returncode:
        pytest.skip("needs a loop device: root, and a kernel that has them")
    loop, second = made.stdout.strip(), tmp_path / "second"
    number = os.stat(loop).st_rdev
    try:
        try:
            os.mknod(second, 0o600 | stat.S_IFBLK, number)
            os.close(os.open(second, os.O_RDONLY))
        except OSError as error:
            pytest.skip(f"no second node can be made and opened: {error.strerror}")
        write(machine.node / "nvme0n2/dev", f"{os.major(number)}:{os.minor(number)}")
        (machine.dev / "nvme0n2").unlink()
        (machine.dev / "nvme0n2").symlink_to(loop)
        for flags, refused in ((os.O_RDONLY, False), (os.O_RDWR, True)):
            with subprocess.Popen(
                [sys.executable, "-c", WRITER, str(second), str(flags)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as writer:
                assert writer.stdout and writer.stdout.readline() == "\n"
                if refused:
                    second.unlink()
                (machine.proc / str(writer.pid)).symlink_to(f"/proc/{writer.pid}")
                if refused:
                    with pytest.raises(DriveError, match=f"nvme0n2 is in use .open in process {writer.pid}"):
                        machine.refuse()
                else:
                    machine.refuse()
                writer.communicate()
        machine.refuse()
    finally:
        subprocess.run([losetup, "--detach", loop], check=True)


def test_a_loop_device_over_a_node_that_is_gone(machine: Machine, tmp_path: Path) -> None:
    """The kernel still knows the number of the device behind a loop device."""
    losetup = shutil.which("losetup")
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    made: list[str] = []
    try:
        for behind in (image, tmp_path / "second"):
            if made:
                os.mknod(behind, 0o600 | stat.S_IFBLK, os.stat(made[0]).st_rdev)
            got = losetup and subprocess.run([losetup, "--find", "--show", str(behind)], capture_output=True, text=True, check=False)
            if not got or got.returncode:
                pytest.skip("needs two loop devices: root, and a kernel that has them")
            made.append(got.stdout.strip())
        (tmp_path / "second").unlink()
        number = os.stat(made[0]).st_rdev
        write(machine.node / "nvme0n2/dev", f"{os.major(number)}:{os.minor(number)}")
        (machine.dev / "nvme0n2").unlink()
        (machine.dev / "nvme0n2").symlink_to(made[0])
        machine.refuse()
        above = Path(made[1]).name
        (machine.dev / above).symlink_to(made[1])
        write(machine.sys / "class/block" / above / "loop/backing_file", f"{tmp_path}/second (deleted)")
        with pytest.raises(DriveError, match=f"nvme0n2 is in use .behind /dev/{above}"):
            machine.refuse()
    finally:
        for loop in reversed(made):
            subprocess.run([str(losetup), "--detach", loop], check=True)
