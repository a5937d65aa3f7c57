"""The drive's identity from memory writes on the wire, with structures packed by hand from the specification."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture.identify import memory_write, parse_controller

from tests.host.wire import encoder as e


def controller(model: bytes = b"INTEL SSDPEKNW010T8") -> bytes:
    data = bytearray(4096)
    data[0:2] = struct.pack("<H", 0x8086)
    data[4:24] = b"PHNH0000".ljust(20)
    data[24:64] = model.ljust(40)
    data[64:72] = b"004C".ljust(8)
    data[80:84] = struct.pack("<I", 0x00010300)
    data[263] = 4
    data[265] = 1
    data[96:100] = struct.pack("<I", 1 << 1)  # CTRATT: non-operational power state permissive mode
    data[272:276] = struct.pack("<I", 16)  # HMPRE, in 4 KiB
    data[322:324] = struct.pack("<H", 1)  # HCTMA
    data[525] = 0b110  # VWC: bit 0 (present) is clear
    data[266:270] = struct.pack("<HH", 273 + 77, 273 + 80)
    states = [(400, 0, 0, 0), (300, 0, 0, 0), (200, 0, 0, 0), (250, 3, 5000, 5000), (40, 3, 5000, 9000)]
    for number, (power, flags, entry, leave) in enumerate(states):
        descriptor = bytearray(32)
        struct.pack_into("<HBBII", descriptor, 0, power, 0, flags, entry, leave)
        if number == 4:
            struct.pack_into("<HB", descriptor, 16, 38, 1 << 6)  # idle power 38 x 0.0001 W
        if number == 0:
            struct.pack_into("<HB", descriptor, 20, 350, 2 << 6 | 1)  # active power 350 x 0.01 W, workload 1
        data[2048 + 32 * number : 2080 + 32 * number] = descriptor
    return bytes(data)


def namespace(exponent: int = 12, form: int = 1) -> bytes:
    data = bytearray(4096)
    data[0:24] = struct.pack("<QQQ", 1000, 900, 5)
    data[26] = form
    data[128 + 4 * form : 132 + 4 * form] = struct.pack("<HBB", 8, exponent, 0)
    return bytes(data)


def write_tlp(address: int, data: bytes, wide: bool) -> bytes:
    first = struct.pack(">BBH", 0x60 if wide else 0x40, 0, len(data) // 4 & 0x3FF)
    where = struct.pack(">Q", address) if wide else struct.pack(">I", address)
    return first + struct.pack(">HBB", 0x0100, 0, 0xFF) + where + data


Record = tuple[int, int, int, bytes]


def writes(tick: int, pages: list[tuple[int, bytes]], piece: int, wide: bool = True) -> list[Record]:
    """Raw TLP records of data written to some address ranges, one TLP every 100 ticks."""
    found = []
    for address, data in pages:
        for start in range(0, len(data), piece):
            found.append((tick + 100 * len(found), 1, 2, write_tlp(address + start, data[start : start + piece], wide)))
    return found


def identify(cqe: int, records: list[Record], cns: int, nsid: int, status: int = 0) -> Any:
    ticks = [record[0] for record in records]
    return e.Command(
        cqe,
        cqe - ticks[0] + 900,
        cqe - ticks[0] + 500,
        cqe - ticks[0],
        cqe - ticks[-1],
        opcode=6,
        qid=0,
        nsid=nsid,
        slba=cns,
        blocks=0,
        status=status,
    )


def capture(path: Path, commands: list[Any], records: list[Record]) -> dict[str, Any] | None:
    sequence, stream = 0, b""
    for record in records:
        stream += e.tlps(sequence, record[0], [record])
        sequence += 1
    if commands:
        stream += e.commands(sequence, commands[0].cqe_tick, commands)
    with CaptureWriter(path) as writer:
        writer.feed(stream)
    drive: dict[str, Any] | None = open_capture(path).meta["drive"]
    return drive


@pytest.mark.parametrize(("piece", "wide"), [(128, True), (256, False), (512, True)])
def test_controller_and_namespace(tmp_path: Path, piece: int, wide: bool) -> None:
    one = writes(10_000, [(0x1000_0000, controller())], piece, wide)
    two = writes(90_000, [(0x1000_0000, namespace())], piece, wide)  # the same buffer again
    drive = capture(tmp_path / "c", [identify(50_000, one, 1, 0), identify(120_000, two, 0, 1)], one + two)
    assert drive is not None
    assert (drive["model"], drive["serial"], drive["firmware"]) == ("INTEL SSDPEKNW010T8", "PHNH0000", "004C")
    assert (drive["nvme_version"], drive["apst"], drive["warning_temperature_c"]) == ("1.3.0", True, 77)
    assert (drive["hctm"], drive["nopspm"], drive["volatile_write_cache"]) == (True, True, False)
    assert drive["hmb_preferred_bytes"] == 65536
    states = drive["power_states"]
    assert [s["max_power_w"] for s in states] == [4.0, 3.0, 2.0, 0.025, 0.004]
    assert [s["non_operational"] for s in states] == [False, False, False, True, True]
    assert (states[4]["entry_latency_s"], states[4]["exit_latency_s"]) == (0.005, 0.009)
    assert states[4]["idle_power_w"] == pytest.approx(0.0038)
    assert (states[0]["active_power_w"], states[0]["active_power_workload"]) == (3.5, 1)
    assert states[1]["idle_power_w"] is None
    assert drive["namespaces"] == [{"nsid": 1, "size_blocks": 1000, "capacity_blocks": 900, "lba_size_bytes": 4096, "metadata_bytes": 8}]
    assert open_capture(tmp_path / "c").lba_size_bytes(1) == 4096


@pytest.mark.parametrize(("cns", "model"), [(0, "told"), (1, "INTEL SSDPEKNW010T8")])
def test_what_the_drive_was_told_to_be_stands_until_the_wire_shows_its_controller(tmp_path: Path, cns: int, model: str) -> None:
    """A namespace alone has no power states."""
    records = writes(10_000, [(0x1000_0000, namespace() if cns == 0 else controller())], 512)
    stream = b"".join(e.tlps(number, record[0], [record]) for number, record in enumerate(records))
    with CaptureWriter(tmp_path / "c") as writer:
        writer.meta["drive"] = {**parse_controller(controller(b"told")), "source": "nvme-cli"}
        writer.feed(stream + e.commands(len(records), 50_000, [identify(50_000, records, cns, cns ^ 1)]))
    drive = open_capture(tmp_path / "c").meta["drive"]
    assert drive["model"] == model and len(drive["power_states"]) == 5


def test_a_buffer_over_two_pages_that_are_apart(tmp_path: Path) -> None:
    data = controller()
    records = writes(10_000, [(0x2000_0400, data[:0xC00]), (0x1000_0000, data[0xC00:])], 256)
    drive = capture(tmp_path / "c", [identify(50_000, records, 1, 0)], records)
    assert drive is not None
    assert drive["model"] == "INTEL SSDPEKNW010T8"
    assert len(drive["power_states"]) == 5


def test_two_in_flight_at_once(tmp_path: Path) -> None:
    one = writes(10_000, [(0x1000_0000, controller())], 512)
    two = writes(10_050, [(0x3000_0000, namespace(9, 0))], 512)
    mixed = sorted(one + two)
    drive = capture(tmp_path / "c", [identify(50_000, one, 1, 0), identify(50_001, two, 0, 3)], mixed)
    assert drive is not None
    assert drive["model"] == "INTEL SSDPEKNW010T8"
    assert [(n["nsid"], n["lba_size_bytes"]) for n in drive["namespaces"]] == [(3, 512)]


def test_lists_and_failed_commands_are_no_identity(tmp_path: Path) -> None:
    listed = writes(10_000, [(0x1000_0000, struct.pack("<I", 1).ljust(4096, b"\0"))], 512)
    failed = writes(60_000, [(0x1000_0000, namespace())], 512)
    commands = [identify(50_000, listed, 2, 0), identify(90_000, failed, 0, 1, status=0x0B)]
    assert capture(tmp_path / "c", commands, listed + failed) is None


def test_a_lost_command_record_still_gives_the_controller(tmp_path: Path) -> None:
    records = writes(10_000, [(0x1000_0000, controller())], 512)
    drive = capture(tmp_path / "c", [], records)
    assert drive is not None
    assert drive["model"] == "INTEL SSDPEKNW010T8"


def test_a_lost_piece_is_no_identity(tmp_path: Path) -> None:
    records = writes(10_000, [(0x1000_0000, controller())], 512)
    del records[3]
    assert capture(tmp_path / "c", [identify(50_000, records, 1, 0)], records) is None


def test_what_is_no_memory_write() -> None:
    assert memory_write(b"") is None
    assert memory_write(bytes(16)) is None
    assert memory_write(write_tlp(0x1000, bytes(64), True)[:-4]) is None
    assert memory_write(write_tlp(0x1_0000_1000, b"abcd", True)) == (0x1_0000_1000, b"abcd")
    assert memory_write(write_tlp(0x1000, b"abcd", False)) == (0x1000, b"abcd")
