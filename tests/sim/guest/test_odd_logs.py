"""Incomplete logs: they start in the middle, lack events, are damaged, or hold several runs."""

from __future__ import annotations

import os
import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sim.guest.conftest import as_10_0, log_lines, write_log
from tests.sim.guest.tap import Tap, items

NAME = "fio-11.1"


def opcodes(lines: list[str]) -> Counter[int]:
    """Count I/O commands by opcode with a regular expression."""
    return Counter(int(m[1], 16) for m in re.finditer(r"pci_nvme_io_cmd .* opc 0x(\w+)", "\n".join(lines)))


def seen(tap: Tap) -> Counter[int]:
    return Counter(c.opcode for c in tap.commands if c.sqid)


def small() -> list[str]:
    """Return the part of the log from Linux's own start to the end of the first jobs."""
    lines = log_lines(NAME)
    start = next(i for i, line in enumerate(lines) if "create_sq" in line and "qsize=1023" in line)
    end = next(i for i, line in enumerate(lines) if "cdw11 0x302" in line)
    return lines[start - 40 : end]


def short() -> list[str]:
    """Return the log up to the end of the fourth job: SeaBIOS, Linux's start, small reads and writes."""
    lines = log_lines(NAME)
    return lines[: next(i for i, line in enumerate(lines) if "cdw11 0x402" in line)]


@pytest.mark.parametrize("skip", [1, 30, 2200, 3001, 4002])
def test_a_log_that_starts_in_the_middle(convert: Any, tmp_path: Path, skip: int) -> None:
    lines = log_lines(NAME)[skip:]
    done = convert(write_log(tmp_path / "log", lines), tmp_path / "t.wbt")
    assert done.returncode == 0, done.stderr
    tap = Tap(tmp_path / "t.wbt")
    assert seen(tap) == opcodes(lines)
    io = [c for c in tap.commands if c.sqid]
    assert sum(c.cqe_ps is None for c in io) == 0
    assert sum(c.doorbell_ps is None for c in io) == 0
    assert {c.nsid for c in tap.commands if (c.sqid, c.opcode, c.dword(10)) == (0, 6, 0)} >= {c.nsid for c in io}


def test_latency_in_a_log_that_starts_in_the_middle_is_that_of_the_whole(convert: Any, tmp_path: Path) -> None:
    lines = log_lines(NAME)
    cut = next(i for i, line in enumerate(lines) if "cdw11 0x101" in line) + 7
    taps = []
    for i, part in enumerate((lines, lines[cut:])):
        assert convert(write_log(tmp_path / f"log{i}", part), tmp_path / f"{i}.wbt").returncode == 0
        taps.append(Tap(tmp_path / f"{i}.wbt"))
    whole, late = (
        [(c.cid, c.slba, c.cqe_ps - c.doorbell_ps) for c in t.commands if c.sqid and c.doorbell_ps]  # type: ignore[operator]
        for t in taps
    )
    common = min(len(whole), len(late))  # the very first lost its doorbell to the truncation
    differ = [(a, b) for a, b in zip(whole[1 - common :], late[1 - common :], strict=True) if a[:2] != b[:2] or abs(a[2] - b[2]) > 2e6]
    assert common > 300
    assert differ == []


EVENTS = [
    "doorbell_sq",
    "doorbell_cq",
    "map_prp",
    "map_sgl",
    "irq_msix",
    "mmio_",
    "admin_cmd",
    "create_",
    "identify",
    "io_cmd",
    "pci_nvme_read ",
    "getfeat",
    "pci_reset",
    "aqattr|asqaddr|acqaddr",
]


@pytest.mark.parametrize("absent", EVENTS)
def test_a_log_without_an_event(convert: Any, tmp_path: Path, absent: str) -> None:
    lines = [line for line in short() if not re.search(absent, line)]
    done = convert(write_log(tmp_path / "log", lines), tmp_path / "t.wbt")
    assert done.returncode == 0, done.stderr
    tap = Tap(tmp_path / "t.wbt")
    want = opcodes(short())
    if absent == "io_cmd":
        want = Counter({1: want[1], 2: want[2]})
    assert seen(tap) == want
    if absent != "pci_nvme_read ":
        # SeaBIOS's two reads and Linux's own count too
        size = sum(map(int, re.findall(r"pci_nvme_read .* count (\d+)", "\n".join(lines))))
        assert sum(c.blocks for c in tap.commands if c.sqid and c.opcode == 2) * 512 == size


def test_only_commands_and_completions(convert: Any, tmp_path: Path) -> None:
    keep = ("io_cmd", "pci_nvme_read ", "pci_nvme_write ", "enqueue_req_completion", "dsm_deallocate")
    lines = [line for line in log_lines(NAME) if any(k in line for k in keep)]
    lines = [line for line in lines if not re.search(r"completion cid \d+ cqid 0 ", line)]
    assert convert(write_log(tmp_path / "log", lines), tmp_path / "t.wbt").returncode == 0
    tap = Tap(tmp_path / "t.wbt")
    assert seen(tap) == opcodes(lines)
    assert all(c.cqe_ps is not None and c.doorbell_ps is not None for c in tap.commands)
    assert sum(n for c in tap.commands for _, n in c.ranges) * 512 == 20 * 65536


def test_no_completions_means_none_complete(convert: Any, tmp_path: Path) -> None:
    lines = [line for line in log_lines(NAME) if "enqueue_req_completion" not in line]
    assert convert(write_log(tmp_path / "log", lines), tmp_path / "t.wbt").returncode == 0
    assert b"no command completes" in (tmp_path / "t.wbt").read_bytes()[:4000]


def test_commands_that_never_complete(convert: Any, tmp_path: Path) -> None:
    lost = re.compile(r"enqueue_req_completion cid \d*7 cqid [12] ")
    lines = [line for line in small() if not lost.search(line)]
    missing = len(small()) - len(lines)
    assert missing > 3
    assert convert(write_log(tmp_path / "log", lines), tmp_path / "t.wbt").returncode == 0
    # Linux reuses an identifier only after its completion, so a reuse ends such a command's record
    raw = list(items(tmp_path / "t.wbt"))
    cqes = [i for i in raw if i.kind == "tlp" and i.direction == 2 and len(i.data) in (28, 32) and i.data[3] == 4]
    assert len(cqes) >= sum("enqueue_req_completion" in line for line in lines)


def test_foreign_and_damaged_lines(convert: Any, tmp_path: Path) -> None:
    lines = short()
    noisy = []
    for i, line in enumerate(lines):
        if i % 50 == 0:
            noisy.append("qemu-system-x86_64: warning: something else, see pci_nvme_io_cmd")
            noisy.append(line[:19] + ".000000Z virtio_blk_req_complete vdev 0x1 req 0x2 status 0")
            noisy.append("\x00\x01\udc80 garbage".encode("utf-8", "surrogateescape").decode("latin-1"))
        noisy.append(line)
    noisy.append(lines[-1][:60])
    path = tmp_path / "log"
    path.write_bytes("\n".join(noisy).encode("latin-1"))
    done = convert(path, tmp_path / "t.wbt")
    assert done.returncode == 0
    assert "warning: 1 of" in done.stderr
    assert seen(Tap(tmp_path / "t.wbt")) == opcodes(lines)


def test_lines_that_ran_into_each_other(convert: Any, tmp_path: Path) -> None:
    lines = short()
    text = "\n".join(lines[:2500]) + "\n" + "".join(lines[2500:2502]) + "\n" + "\n".join(lines[2502:]) + "\n"
    (tmp_path / "log").write_text(text)
    assert convert(tmp_path / "log", tmp_path / "t.wbt").returncode == 0
    assert seen(Tap(tmp_path / "t.wbt")) == opcodes(lines)


def test_two_runs_in_one_log(convert: Any, tmp_path: Path) -> None:
    first, second = log_lines("nvme-cli-11.1"), log_lines(NAME)  # the second was recorded earlier
    done = convert(write_log(tmp_path / "log", first + as_10_0(second)), tmp_path / "t.wbt")
    assert done.returncode == 0, done.stderr
    tap = Tap(tmp_path / "t.wbt")
    assert seen(tap) == opcodes(first) + opcodes(second)
    perst = [value for _, signal, value in tap.side if signal == 1]
    assert perst == [0, 1, 0, 1]


def bursts(lines: list[str]) -> list[tuple[datetime, list[str]]]:
    """Split a log where QEMU's device begins a new action. The lines in between stay together in a shared log too."""
    found: list[tuple[datetime, list[str]]] = []
    for line in lines:
        if not found or re.search(r"_mmio_|_cmd cid|completion|pci_reset|irq", line):
            found.append((datetime.fromisoformat(line[:27]), []))
        found[-1][1].append(line)
    return found


def test_two_controllers_in_one_log_are_shown_as_one(convert: Any, tmp_path: Path) -> None:
    """Two recorded logs are interleaved in time: identifiers and queue numbers collide, every command counts."""
    first, second = short(), log_lines("nvme-cli-11.1")[:3000]
    start = [bursts(lines)[0][0] for lines in (first, second)]
    shared = [(time - start[0], burst) for time, burst in bursts(first)]
    shared += [(time - start[1] + timedelta(microseconds=300), burst) for time, burst in bursts(second)]
    lines = []
    for offset, burst in sorted(shared, key=lambda entry: entry[0]):
        lines += [f"{(start[0] + offset).isoformat(timespec='microseconds')[:26]}Z{line[27:]}" for line in burst]
    done = convert(write_log(tmp_path / "log", lines), tmp_path / "t.wbt")
    assert done.returncode == 0, done.stderr
    tap = Tap(tmp_path / "t.wbt")
    assert seen(tap) == opcodes(first) + opcodes(second)
    assert tap.lone_completions == 0
    assert b"two controllers share this log" in (tmp_path / "t.wbt").read_bytes()[:4000]
    for opcode, verb in ((1, "write .*CMD_WRITE' "), (2, "read ")):
        blocks = sum(map(int, re.findall(rf"pci_nvme_{verb}.*nlb (\d+)", "\n".join(lines))))
        assert sum(c.blocks for c in tap.commands if c.sqid and c.opcode == opcode) >= blocks


def test_a_namespace_formatted_to_larger_blocks_keeps_its_bytes(convert: Any, tmp_path: Path) -> None:
    """The driver starts a second time with blocks of 4096 bytes: eight times the size, an eighth of the numbers."""

    def eighth(match: re.Match[str]) -> str:
        blocks, base = int(match[2]), 16 if match[4].startswith("0x") else 10
        lba = int(match[4], base) // 8
        return f"{match[1]}{blocks // 8}{match[3]}{lba:#x}" if blocks % 8 == 0 else match[0]

    size = re.compile(r"(pci_nvme_(?:read|write) .*nlb )(\d+)( count \d+ lba )(0x\w+)")
    lines = short() + [size.sub(eighth, line) for line in short()]
    assert convert(write_log(tmp_path / "log", lines), tmp_path / "t.wbt").returncode == 0
    tap = Tap(tmp_path / "t.wbt")
    want = sum(map(int, re.findall(r"pci_nvme_(?:read|write) .* count (\d+)", "\n".join(lines))))
    assert sum(c.blocks for c in tap.commands if c.sqid and c.opcode in (1, 2)) * 512 == want
    assert {c.payload[130] for c in tap.commands if (c.sqid, c.opcode, c.dword(10), c.nsid) == (0, 6, 0, 1)} == {9}
    assert b"changed its LBA size" in (tmp_path / "t.wbt").read_bytes()[:4000]


def test_a_full_completion_queue_holds_completions_back(convert: Any, tmp_path: Path) -> None:
    """A completion queue of two entries, by hand, accepts one entry until the host releases it."""
    events = [
        "mmio_aqattr wrote MMIO, admin queue attributes=0x1f001f",
        "mmio_asqaddr wrote MMIO, admin submission queue address=0x10000",
        "mmio_acqaddr wrote MMIO, admin completion queue address=0x20000",
        "mmio_cfg wrote MMIO, config controller config=0x460001",
        "mmio_doorbell_sq sqid 0 new_tail 2",
        "admin_cmd cid 0 sqid 0 opc 0x5 opname 'NVME_ADM_CMD_CREATE_CQ'",
        "create_cq create completion queue, addr=0x30000, cqid=1, vector=1, qsize=1, qflags=3, ien=1",
        "enqueue_req_completion cid 0 cqid 0 dw0 0x0 dw1 0x0 status 0x0",
        "admin_cmd cid 1 sqid 0 opc 0x1 opname 'NVME_ADM_CMD_CREATE_SQ'",
        "create_sq create submission queue, addr=0x40000, sqid=1, cqid=1, qsize=7, qflags=1",
        "enqueue_req_completion cid 1 cqid 0 dw0 0x0 dw1 0x0 status 0x0",
        "mmio_doorbell_cq cqid 0 new_head 2",
        "mmio_doorbell_sq sqid 1 new_tail 2",
        "io_cmd cid 5 nsid 0x1 sqid 1 opc 0x2 opname 'NVME_NVM_CMD_READ'",
        "read cid 5 nsid 1 nlb 8 count 4096 lba 0x0",
        "io_cmd cid 6 nsid 0x1 sqid 1 opc 0x2 opname 'NVME_NVM_CMD_READ'",
        "read cid 6 nsid 1 nlb 8 count 4096 lba 0x8",
        "enqueue_req_completion cid 5 cqid 1 dw0 0x0 dw1 0x0 status 0x0",
        "enqueue_req_completion cid 6 cqid 1 dw0 0x0 dw1 0x0 status 0x0",
        "mmio_doorbell_cq cqid 1 new_head 1",
        "mmio_doorbell_cq cqid 1 new_head 0",
    ]
    lines = [f"7@1700000000.{1000 + 100 * i:06}:pci_nvme_{event}" for i, event in enumerate(events)]
    assert convert(write_log(tmp_path / "log", lines), tmp_path / "t.wbt").returncode == 0
    first, second = (c for c in Tap(tmp_path / "t.wbt").commands if c.sqid)
    assert first.cqe_ps is not None
    assert second.cqe_ps is not None
    assert 190e6 < second.cqe_ps - first.cqe_ps < 210e6  # the doorbell two lines later, not the next line


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_line_ends(convert: Any, tmp_path: Path, end: str) -> None:
    lines = short()
    (tmp_path / "log").write_bytes((end.join(lines) + end).encode())
    assert convert(tmp_path / "log", tmp_path / "t.wbt").returncode == 0
    assert convert(write_log(tmp_path / "log", lines), tmp_path / "u.wbt").returncode == 0
    assert (tmp_path / "t.wbt").read_bytes() == (tmp_path / "u.wbt").read_bytes()


def test_a_last_line_without_an_end_counts_and_is_told(convert: Any, tmp_path: Path) -> None:
    lines = short()
    last = max(i for i, line in enumerate(lines) if "enqueue_req_completion" in line and "cqid 1" in line)
    (tmp_path / "log").write_text("\n".join(lines[: last + 1]))
    assert convert(tmp_path / "log", tmp_path / "t.wbt").returncode == 0
    assert all(c.cqe_ps is not None for c in Tap(tmp_path / "t.wbt").commands if c.sqid)
    assert b"last line has no end" in (tmp_path / "t.wbt").read_bytes()[:4000]


def test_commands_in_flight_at_the_end_of_a_cut_log_are_ended_by_a_reset_and_told(convert: Any, tmp_path: Path) -> None:
    lines = short()
    cut = max(i for i, line in enumerate(lines) if "io_cmd" in line) + 2
    assert convert(write_log(tmp_path / "log", lines[:cut]), tmp_path / "t.wbt").returncode == 0
    tap = Tap(tmp_path / "t.wbt")
    assert seen(tap) == opcodes(lines)
    assert sum(c.cqe_ps is None for c in tap.commands if c.sqid) == 1
    assert tap.enabled is False
    assert b"ends with 1 I/O command in flight" in (tmp_path / "t.wbt").read_bytes()[:4000]


def test_identify_is_answered_no_faster_than_a_tap_can_learn_of_it(convert: Any, tmp_path: Path) -> None:
    """The log has no doorbells, and the added doorbell comes right before the fetch."""
    for name, lines in {"rung": short()[1500:], "silent": [line for line in short() if "doorbell" not in line]}.items():
        assert convert(write_log(tmp_path / name, lines), tmp_path / "t.wbt").returncode == 0
        asked = [c for c in Tap(tmp_path / "t.wbt").commands if (c.sqid, c.opcode) == (0, 6)]
        assert len(asked) >= 2
        assert all(c.answer_ps - c.fetch_ps > 1e6 for c in asked if c.answer_ps is not None)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"\x1f\x8b\x08", "gunzip"),
        (b"\xfd7zXZ\0", "unxz"),
        (b"\x28\xb5\x2f\xfd", "unzstd"),
        (b"PK\x03\x04", "unzip"),
        (b"\xff\xfe2\x000\x00", "iconv"),
        (b"WBBT", "--bus-trace"),
        (bytes(range(256)) * 9, "no NVMe event"),
    ],
)
def test_what_is_no_text_is_one_clear_error(convert: Any, tmp_path: Path, head: bytes, words: str) -> None:
    (tmp_path / "log").write_bytes(head + "\n".join(small()[:50]).encode())
    if words == "no NVMe event":
        (tmp_path / "log").write_bytes(head)
    done = convert(tmp_path / "log", tmp_path / "t.wbt")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert words in done.stderr
    assert not list(tmp_path.glob("t.wbt*"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no NVMe event"),
        ("hello\nworld\n", "no NVMe event"),
        ("pci_nvme_io_cmd cid 1 nsid 0x1 sqid 1 opc 0x2 opname 'X'\n", "timestamp=on"),
        ("2024-01-01T00:00:00.000000Z pci_nvme_io_cmd cid\n", "no NVMe event"),
    ],
)
def test_a_log_with_nothing_in_it_is_one_clear_error(convert: Any, tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "log").write_text(content)
    done = convert(tmp_path / "log", tmp_path / "t.wbt")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert not list(tmp_path.glob("t.wbt*"))


def test_a_log_that_is_not_there(convert: Any, tmp_path: Path) -> None:
    done = convert(tmp_path / "none", tmp_path / "t.wbt")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_a_pipe_or_a_folder_is_one_clear_error(convert: Any, tmp_path: Path) -> None:
    """The converter reads the log twice, and a pipe would be empty the second time."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        done = convert(path, tmp_path / "t.wbt")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "no regular file" in done.stderr


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_crashes_the_converter(convert: Any, tmp_path: Path, data: st.DataObject) -> None:
    """Lines are lost, duplicated, swapped and truncated, and numbers changed: the result is an ordered trace or a clear error."""
    lines = small()
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, len(lines) - 2))
        match data.draw(st.sampled_from(["lose", "double", "swap", "cut", "number", "bytes"])):
            case "lose":
                del lines[at : at + data.draw(st.integers(1, 40))]
            case "double":
                lines.insert(at, lines[data.draw(st.integers(0, len(lines) - 1))])
            case "swap":
                lines[at], lines[at + 1] = lines[at + 1], lines[at]
            case "cut":
                lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
            case "number":
                value = data.draw(st.sampled_from(["0", "1", "65535", "4294967295", "18446744073709551615", "0xfff"]))
                numbers = list(re.finditer(r"(?<=[ =])(0x[0-9a-f]+|\d+)(?=[ ,]|$)", lines[at][28:]))
                if numbers:
                    m = data.draw(st.sampled_from(numbers))
                    lines[at] = lines[at][: 28 + m.start()] + value + lines[at][28 + m.end() :]
            case _:
                lines[at] = data.draw(st.text(max_size=60)) + lines[at]
        if len(lines) < 5:
            break
    path = tmp_path / "log"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    out = tmp_path / "t.wbt"
    out.unlink(missing_ok=True)
    done = convert(path, out)
    assert done.returncode in (0, 1), done.stderr
    assert "panicked" not in done.stderr
    if done.returncode == 0:
        assert sum(1 for _ in items(out)) > 0  # asserts order and END
    else:
        assert done.stderr.startswith("error: ")
