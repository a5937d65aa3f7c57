"""QEMU's log as a bus trace: a tap's view of the trace must match fio's report and the log.

The reference is fio's JSON of the same run, and regular expressions over the log. tap.py reads the trace.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.sim.guest.conftest import HERE, as_10_0, log_lines, write_log
from tests.sim.guest.tap import Command, Tap, header_json

FLUSH, WRITE, READ, COMPARE, WRITE_ZEROES, DSM, VERIFY, COPY = 0, 1, 2, 5, 8, 9, 12, 0x19
DIRECTION = {READ: "read", WRITE: "write", DSM: "trim", FLUSH: "sync"}


def fio_truth(name: str) -> dict[int, dict[str, Any]]:
    return {p["phase"]: p for p in json.loads((HERE / "data" / f"{name}.json").read_text())}


def by_phase(tap: Tap) -> dict[int, list[Command]]:
    """Return the I/O commands between the in-band markers."""
    phase, found = 0, {}
    for command in tap.commands:
        if command.sqid == 0 and command.opcode == 0x0A and command.dword(10) & 0xFF == 0xD0:
            number, what = divmod(command.dword(11), 256)
            phase = number if what == 1 else 0
        elif command.sqid:
            found.setdefault(phase, []).append(command)
    return found


def figures(commands: list[Command], lba: int = 512) -> dict[str, tuple[int, int]]:
    """Return commands and bytes by fio's direction."""
    out: dict[str, tuple[int, int]] = {}
    for command in commands:
        if command.opcode == DSM:
            size = sum(n for _, n in command.ranges) * lba
        else:
            size = command.blocks * lba if command.opcode in (READ, WRITE) else 0
        name = DIRECTION[command.opcode]
        count, total = out.get(name, (0, 0))
        out[name] = count + 1, total + size
    return out


@pytest.fixture(scope="module")
def fio_tap(convert: Any, tmp_path_factory: pytest.TempPathFactory) -> Tap:
    folder = tmp_path_factory.mktemp("fio")
    done = convert(write_log(folder / "log", log_lines("fio-11.1")), folder / "t.wbt", "--stats", folder / "s.json")
    assert done.returncode == 0, done.stderr
    tap = Tap(folder / "t.wbt")
    tap.folder = folder  # type: ignore[attr-defined]
    return tap


def test_commands_and_bytes_of_every_job_equal_fios(fio_tap: Tap) -> None:
    found = by_phase(fio_tap)
    for number, truth in fio_truth("fio-11.1").items():
        want = {d: (truth[d]["total_ios"], truth[d]["io_bytes"]) for d in DIRECTION.values() if d in truth}
        assert figures(found[number]) == want, truth["name"]


@pytest.fixture(scope="module")
def old_tap(convert: Any, tmp_path_factory: pytest.TempPathFactory) -> Tap:
    """Follow a log by QEMU 10.0.13: two CPUs, and a trim by nvme-cli with the ranges in an SGL."""
    folder = tmp_path_factory.mktemp("old")
    done = convert(write_log(folder / "log", log_lines("fio-10.0")), folder / "t.wbt")
    assert done.returncode == 0, done.stderr
    return Tap(folder / "t.wbt")


def test_a_log_of_qemu_10_0_gives_fios_commands_and_bytes(old_tap: Tap) -> None:
    found = by_phase(old_tap)
    for number, truth in fio_truth("fio-10.0").items():
        want = {d: (truth[d]["total_ios"], truth[d]["io_bytes"]) for d in DIRECTION.values() if d in truth}
        assert figures(found[number]) == want, truth["name"]
    assert figures(found[8]) == {"trim": (1, 48 * 512)}
    assert all(c.doorbell_ps is not None for c in old_tap.commands)
    assert (old_tap.lone_completions, old_tap.skipped) == (0, 0)


def test_ranges_in_an_sgl_are_shown_by_prp(old_tap: Tap) -> None:
    assert any("map_sgl type 0x0 len 48" in line for line in log_lines("fio-10.0"))
    assert [c.ranges for c in by_phase(old_tap)[8]] == [[(100, 8), (200, 16), (300, 24)]]


def test_every_command_has_its_doorbell_and_its_completion(fio_tap: Tap) -> None:
    unfinished = [c for c in fio_tap.commands if c.cqe_ps is None]
    assert all(c.sqid == 0 and c.opcode == 0x0C for c in unfinished), "only Asynchronous Event Requests stay open"
    assert all(c.doorbell_ps is not None for c in fio_tap.commands)
    assert (fio_tap.lone_completions, fio_tap.skipped) == (0, 0)
    assert fio_tap.msix > 0


def test_there_is_no_rail_and_the_header_says_so(fio_tap: Tap) -> None:
    header = json.loads(header_json(fio_tap.folder / "t.wbt"))  # type: ignore[attr-defined]
    assert fio_tap.rail == 0
    assert (header["rail"], header["timing"]) == ("none", "qemu-log")
    assert any("no rail" in note for note in header["notes"])


def log_latencies_us(lines: list[str], first: str, last: str) -> list[float]:
    """Return doorbell to completion of each I/O command between two markers, with one command in flight."""
    found, doorbell, inside = [], 0.0, False
    for line in lines:
        time_s = datetime.fromisoformat(line[:27]).timestamp()
        if "getfeat" in line and "0xd0" in line:
            inside = (inside or first in line) and last not in line
        elif inside and re.search(r"doorbell_sq sqid [12] ", line):
            doorbell = time_s
        elif inside and re.search(r"enqueue_req_completion cid \d+ cqid [12] ", line):
            found.append((time_s - doorbell) * 1e6)
    return found


@pytest.mark.parametrize(("phase", "direction"), [(1, "read"), (4, "write")])
def test_latency_at_queue_depth_1_is_the_logs_and_below_fios(fio_tap: Tap, phase: int, direction: str) -> None:
    want = log_latencies_us(log_lines("fio-11.1"), f"cdw11 0x{phase:x}01", f"cdw11 0x{phase:x}02")
    got = [(c.cqe_ps - c.doorbell_ps) / 1e6 for c in by_phase(fio_tap)[phase]]  # type: ignore[operator]
    assert len(got) == len(want) == 40
    # the log's microsecond, and the link's serialisation
    assert all(abs(a - b) <= 1.5 for a, b in zip(got, want, strict=True))
    assert max(got) <= fio_truth("fio-11.1")[phase][direction]["lat_max_ns"] / 1e3


def test_statistics_count_what_the_lines_say(fio_tap: Tap) -> None:
    text = "\n".join(log_lines("fio-11.1"))
    log = json.loads((fio_tap.folder / "s.json").read_text())["log"]  # type: ignore[attr-defined]
    opcodes = Counter(re.findall(r"pci_nvme_io_cmd .* opc 0x(\w+)", text))
    sizes = {d: sum(map(int, re.findall(rf"pci_nvme_{d} .* count (\d+)", text))) for d in ("read", "write")}
    trimmed = 512 * sum(map(int, re.findall(r"dsm_deallocate .* nlb (\d+)", text)))
    assert log["io"]["read"] == {"count": opcodes["2"], "bytes": sizes["read"]}
    assert log["io"]["write"] == {"count": opcodes["1"], "bytes": sizes["write"]}
    assert log["io"]["dsm"] == {"count": opcodes["9"], "bytes": trimmed}
    assert log["io"]["flush"]["count"] == opcodes["0"]
    assert log["completions"] == text.count("enqueue_req_completion")


def test_both_log_formats_give_the_same_trace(convert: Any, fio_tap: Tap, tmp_path: Path) -> None:
    old = write_log(tmp_path / "old", as_10_0(log_lines("fio-11.1")))
    assert convert(old, tmp_path / "old.wbt").returncode == 0
    assert (tmp_path / "old.wbt").read_bytes() == (fio_tap.folder / "t.wbt").read_bytes()  # type: ignore[attr-defined]


def identify(tap: Tap, cns: int, nsid: int) -> bytes:
    return next(bytes(c.payload) for c in tap.commands if (c.sqid, c.opcode, c.dword(10) & 0xFF, c.nsid) == (0, 6, cns, nsid))


def test_identify_shows_the_block_size_that_reads_and_writes_reveal(fio_tap: Tap) -> None:
    data = identify(fio_tap, 0, 1)
    touched = max(c.slba + c.blocks for c in fio_tap.commands if c.sqid and c.opcode in (READ, WRITE))
    assert len(data) == 4096
    assert data[130] == 9
    assert int.from_bytes(data[:8], "little") == touched
    assert not any(identify(fio_tap, 0, 2)), "a namespace nobody uses is inactive"


def test_shadow_doorbells_are_on_the_bus_as_one_admin_command_and_missing_doorbells(convert: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", log_lines("fio-shadow-11.1"))
    assert convert(log, tmp_path / "t.wbt").returncode == 0
    tap = Tap(tmp_path / "t.wbt")
    assert [c.status for c in tap.commands if (c.sqid, c.opcode) == (0, 0x7C)] == [0]
    assert sum(c.doorbell_ps is None for c in tap.commands) > 20
    found = by_phase(tap)
    for number, truth in fio_truth("fio-shadow-11.1").items():
        want = {d: (truth[d]["total_ios"], truth[d]["io_bytes"]) for d in DIRECTION.values() if d in truth}
        assert figures(found[number]) == want, truth["name"]
    assert any("shadow" in note for note in json.loads(header_json(tmp_path / "t.wbt"))["notes"])


@pytest.fixture(scope="module")
def cli_tap(convert: Any, tmp_path_factory: pytest.TempPathFactory) -> Tap:
    folder = tmp_path_factory.mktemp("cli")
    done = convert(write_log(folder / "log", log_lines("nvme-cli-11.1")), folder / "t.wbt")
    assert done.returncode == 0, done.stderr
    return Tap(folder / "t.wbt")


def test_commands_that_fail_keep_their_status(cli_tap: Tap) -> None:
    status = {(c.opcode, c.status) for c in by_phase(cli_tap)[1]}
    assert (COMPARE, 0) in status
    assert (COMPARE, 0x4285) in status
    assert (READ, 0x4080) in status
    assert (0x99, 0x4001) in status


def test_ranges_of_a_trim_are_read_by_the_drive(cli_tap: Tap) -> None:
    ranges = [c.ranges for c in by_phase(cli_tap)[1] if c.opcode == DSM]
    assert ranges == [[(100, 8), (200, 16), (300, 24)], [(1000, 8), (5000, 80)]]


def test_block_commands_without_data(cli_tap: Tap) -> None:
    found = {c.opcode: (c.slba, c.blocks, c.status) for c in by_phase(cli_tap)[1]}
    assert found[WRITE_ZEROES] == (64, 8, 0)
    assert found[VERIFY] == (64, 16, 0)
    assert COPY in found


def test_two_namespaces_two_queues_and_two_block_sizes(cli_tap: Tap) -> None:
    phases = by_phase(cli_tap)
    assert identify(cli_tap, 0, 1)[130] == 9
    assert identify(cli_tap, 0, 2)[130] == 12
    truth = fio_truth("nvme-cli-11.1")[2]
    reads = [c for c in phases[2] if c.opcode == READ]
    writes = [c for c in phases[2] if c.opcode == WRITE]
    assert (len(reads), sum(c.blocks for c in reads) * 512) == (truth["read"]["total_ios"], truth["read"]["io_bytes"])
    # 1 MiB is two commands at QEMU's largest transfer of 512 KiB
    assert len(writes) == 2 * truth["write"]["total_ios"]
    assert sum(c.blocks for c in writes) * 512 == truth["write"]["io_bytes"]
    assert {c.sqid for c in phases[2]} == {1, 2}
    assert Counter(c.opcode for c in phases[3] if c.nsid == 2) == {READ: 19, WRITE: 21}
    assert {c.blocks for c in phases[3] if c.nsid == 2} == {2}


def test_a_controller_reset_starts_over(cli_tap: Tap) -> None:
    assert cli_tap.enables == 3  # SeaBIOS, Linux, `nvme reset`
