"""The log of the kernel's tracepoints: its settings, its events, its remains, and when it refuses."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from wattbell.capture.hostcommands import HostCommands, joined
from wattbell.capture.marking import BY_FEATURE, Marking
from wattbell.errors import DriveError, UsageError
from wattbell.hostlog import tracefs as module
from wattbell.hostlog.log import CommandLog, open_log
from wattbell.hostlog.target import Target, target_of
from wattbell.hostlog.tracefs import TraceLog, find_tracefs

from tests.host.hostlog.fake_tracefs import FakeTracefs
from tests.host.hostlog.recorded import page_reader, recorded, text

DRIVE = Target("/dev/nvme0n1", 0, 1, ("nvme0n1",))


@pytest.fixture
def tracefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTracefs:
    return FakeTracefs(tmp_path / "tracing", monkeypatch)


def log(tracefs: FakeTracefs) -> TraceLog:
    return TraceLog(DRIVE, tracefs=tracefs.root)


def settings(instance: Path) -> dict[str, str]:
    names = ["trace_clock", "tracing_on", "buffer_size_kb", "options/overwrite"]
    names += [f"events/nvme/{event}/{what}" for event in ("nvme_setup_cmd", "nvme_complete_rq") for what in ("enable", "filter")]
    return {name: (instance / name).read_text() for name in names}


def test_what_the_kernel_is_told(tracefs: FakeTracefs) -> None:
    with TraceLog(Target("/dev/nvme3n1", 3, 1, ("nvme3n1",)), tracefs=tracefs.root) as made:
        told = settings(tracefs.instance(3))
        assert told["trace_clock"] == "mono_raw" and told["tracing_on"] == told["options/overwrite"] == "1"
        assert told["buffer_size_kb"] == "16384"
        assert told["events/nvme/nvme_setup_cmd/filter"] == told["events/nvme/nvme_complete_rq/filter"] == "ctrl_id == 3"
        assert told["events/nvme/nvme_setup_cmd/enable"] == told["events/nvme/nvme_complete_rq/enable"] == "1"
        assert made.about["clock"] == "mono_raw"
    assert not tracefs.instance(3).exists()


def test_every_command_comes_once_whenever_it_is_asked_for(tracefs: FakeTracefs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers of CPUs are read one after the other: an event later than the call waits, so that no completion is taken before its
    set-up."""
    source: CommandLog = log(tracefs)
    parts: list[HostCommands] = []
    now = 0
    monkeypatch.setattr(module, "host_ns", lambda: now)
    with source:
        for cpu in (1, 0):
            tracefs.write(cpu, recorded(f"whole-cpu{cpu}"))
        for now in (14_100_000_000, 14_910_637_000, 14_930_000_000):  # noqa: B007 - host_ns reads it
            parts.append(source.take())
        parts.append(source.stop())
    assert all(len(part) for part in parts)
    whole = joined(parts)
    assert len(whole) == 645 and whole.lost == [] and source.about["notes"] == []
    assert max(parts[0].table["cqe_tick"].to_pylist()) <= 14_100_000_000
    assert [value for _, value in whole.markers] == [0x101, 0x102, 0x103]
    assert len(source.stop()) == 0


def test_what_overran_is_a_gap_and_no_event_is_lost_twice(tracefs: FakeTracefs) -> None:
    with log(tracefs) as made:
        tracefs.write(0, recorded("overrun-cpu0"))
        tracefs.stats(tracefs.instance(), 0, overrun=576)
        tracefs.stats(tracefs.instance(), 1, overrun=40, dropped=2)
        found = made.stop()
    marked, counted = found.lost
    assert marked.count == 287 and "overran (CPU 0)" in marked.reason
    assert counted.count == 21 and "counted more" in counted.reason
    # 400 reads: two without their set-up are there
    assert len(found) == 113 and len(found) + marked.count == 400
    assert any("NO_SQE" in note for note in made.about["notes"])  # type: ignore[attr-defined]


def test_pages_that_cannot_be_understood_are_one_error(tracefs: FakeTracefs) -> None:
    with (
        pytest.raises(DriveError, match=r"^The kernel's trace of NVMe commands cannot be understood: CPU 1: 4196 bytes"),
        log(tracefs) as made,
    ):
        tracefs.write(1, recorded("whole-cpu1")[:4196])
        made.stop()


def test_a_command_in_flight_at_the_end_is_told(tracefs: FakeTracefs) -> None:
    page = recorded("whole-cpu1")[:4096]
    events, _ = page_reader().read(1, page)
    flying: set[tuple[int, int]] = set()
    for kind, qid, cid in zip(events.kind.tolist(), events.qid.tolist(), events.cid.tolist()):
        (flying.discard if kind else flying.add)((qid, cid))
    with log(tracefs) as made:
        tracefs.write(1, page)
        found = made.stop()
    assert flying and len(found) == (len(events) - len(flying)) // 2
    assert made.about["notes"] == [f"{len(flying)} commands were in flight when the log ended; they are not in it."]


def test_the_instance_is_removed_after_an_error(tracefs: FakeTracefs) -> None:
    with pytest.raises(RuntimeError), log(tracefs):
        assert tracefs.instance().exists()
        raise RuntimeError
    assert not tracefs.instance().exists()


def test_one_that_a_killed_run_left_is_replaced_and_told(tracefs: FakeTracefs) -> None:
    tracefs.instance().mkdir()
    (tracefs.instance() / "old").touch()
    with log(tracefs) as made:
        assert not (tracefs.instance() / "old").exists()
        assert made.about["notes"] == ["a trace instance that a killed run had left was removed"]


def test_one_that_another_run_uses_is_left_alone(tracefs: FakeTracefs) -> None:
    with log(tracefs):
        with pytest.raises(DriveError, match="Another run logs the commands of nvme0 already"):
            log(tracefs).start()
        assert settings(tracefs.instance())["tracing_on"] == "1"
    held = tracefs.instance(0)
    held.mkdir()
    lock = os.open(held, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(DriveError, match="Another run"):
        log(tracefs).start()
    os.close(lock)


def test_a_log_marks_by_the_marking_that_the_run_has(tracefs: FakeTracefs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded guest sent three Get Features D0h, and one Identify with CNS 5. The command that a run marks with shows the markers;
    the other is a command as any."""
    monkeypatch.setattr("wattbell.hostlog.log.target_of", lambda _: DRIVE)
    monkeypatch.setattr(module, "find_tracefs", lambda: tracefs.root)

    def read(marking: Marking) -> HostCommands:
        with open_log("trace", DRIVE.path, marking=marking) as source:
            for cpu in (0, 1):
                tracefs.write(cpu, recorded(f"whole-cpu{cpu}"))
            return source.stop()

    by_feature, by_identify = read(BY_FEATURE), read(Marking(6, 5))
    identified = [line for line in text("whole.txt").splitlines() if "nvme_admin_identify cns=5," in line]
    assert [value for _, value in by_feature.markers] == [0x101, 0x102, 0x103]
    assert [value for _, value in by_identify.markers] == [0] * len(identified) != []
    assert by_feature.table.equals(by_identify.table)


def test_a_kernel_that_cannot_do_it_is_refused_and_nothing_is_left(tracefs: FakeTracefs, tmp_path: Path) -> None:
    with pytest.raises(DriveError, match=r"cannot be read .*: mount -t tracefs"):
        TraceLog(DRIVE, tracefs=tmp_path / "none").start()
    (tracefs.root / "events/nvme/nvme_setup_cmd/format").write_text("name: nvme_setup_cmd\nID: 7\n")
    with pytest.raises(Exception, match="no field disk"):
        log(tracefs).start()
    assert not tracefs.instance().exists()
    (tracefs.root / "events/nvme/nvme_complete_rq").rmdir()
    with pytest.raises(DriveError, match="has no trace event nvme/nvme_complete_rq"):
        log(tracefs).start()


@pytest.mark.parametrize(("user", "says"), [(1000, "run as root"), (0, "root alone is not enough here; run on the host of a container")])
def test_nobody_is_told_to_be_who_he_is(tracefs: FakeTracefs, monkeypatch: pytest.MonkeyPatch, user: int, says: str) -> None:
    def denied(path: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(module.os, "listdir", denied)
    with pytest.raises(DriveError, match=f"may not be read: {says}"):
        log(tracefs).start()


def test_tracefs_is_found_where_it_is_mounted(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("proc /proc proc rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0\n")
    assert find_tracefs(mounts) == Path("/sys/kernel/tracing")
    mounts.write_text("")
    with pytest.raises(DriveError, match="mount -t tracefs tracefs /sys/kernel/tracing"):
        find_tracefs(mounts)


def sysfs(root: Path, multipath: bool = False) -> Path:
    """Controller 1 with namespace 2, as sysfs shows it without and with native multipath."""
    controller = root / "devices/pci0000:00/0000:00:04.0/nvme/nvme1"
    parent = root / "devices/virtual/nvme-subsystem/nvme-subsys0" if multipath else controller
    block = parent / "nvme0n2"
    (block / "queue").mkdir(parents=True)
    controller.mkdir(parents=True, exist_ok=True)
    (controller / "transport").write_text("pcie\n")
    (block / "nsid").write_text("2\n")
    (block / "queue/logical_block_size").write_text("4096\n")
    (block / "device").symlink_to(parent)
    for folder in ("class/block", "class/nvme"):
        (root / folder).mkdir(parents=True)
    (root / "class/block/nvme0n2").symlink_to(block)
    (root / "class/nvme/nvme1").symlink_to(controller)
    if multipath:
        (parent / "nvme1").symlink_to(controller)
    return root


@pytest.mark.parametrize("multipath", [False, True])
def test_whose_commands_a_device_path_means(tmp_path: Path, multipath: bool) -> None:
    found = target_of("/dev/nvme0n2", sysfs(tmp_path, multipath))
    assert (found.controller, found.nsid, found.lba_bytes) == (1, 2, 4096)
    assert found.disks == (("nvme0n2", "nvme0c1n2") if multipath else ("nvme0n2",))
    whole = target_of("/dev/nvme1", tmp_path)
    assert (whole.controller, whole.nsid, whole.wanted().nsid) == (1, None, None)


def test_what_is_no_nvme_drive_is_refused(tmp_path: Path) -> None:
    sysfs(tmp_path)
    for path in ("/dev/sda", "/dev/nvme0n1", "/dev/nvme7", "/dev/nvme0n2p1"):
        with pytest.raises(DriveError, match=path):
            target_of(path, tmp_path)
    with pytest.raises(UsageError, match="trace, blktrace, fio"):
        open_log("strace", "/dev/nvme0n1")
