"""A rig starts after the drive was set up, and learns its queues from SCPI lines.

A host would read the lines from its own driver. Here the test reads them from the part of the trace that the rig does not see: the
registers' writes and the queue creation commands.
"""

from __future__ import annotations

import itertools
import json
import struct
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from wattbell.capture import open_capture

from tests.e2e.virtual import MARKS, finished, wattbell

pytestmark = MARKS

JOB = """
[global]
filename=/dev/nvme0n1
direct=1
size=1g
io_size=1m
[read]
startdelay=1ms
rw=randread
bs=4k
iodepth=4
[write]
stonewall
rw=write
bs=128k
"""
DOWN, BURST = 1, 3
AQA, ASQ, ACQ = 0x24, 0x28, 0x30
CREATE_SQ, CREATE_CQ = 0x01, 0x05


@dataclass
class Record:
    start: int
    kind: int
    time_ps: int
    body: bytes


def records(trace: bytes) -> list[Record]:
    """Return the records of a bus trace (docs/bus-trace.md)."""
    at = 12 + struct.unpack_from("<I", trace, 8)[0]
    out = []
    while at < len(trace):
        kind, _, length, time_ps = struct.unpack_from("<BBHQ", trace, at)
        out.append(Record(at, kind, time_ps, trace[at + 12 : at + 12 + length]))
        at += 12 + length
    return out


def tlp(body: bytes) -> tuple[int, int, bytes]:
    """Return fmt and type, address (0 without one), payload."""
    wide = body[0] >> 5 & 1
    start = 16 if wide else 12
    address = int.from_bytes(body[8 : 16 if wide else 12], "big") if body[0] & 0x1F == 0 else 0
    return body[0], address, body[start:]


def set_up(found: list[Record]) -> tuple[list[str], int]:
    """Return the host's set-up of the drive as SCPI lines, and the index of the first record after it."""
    lines: dict[str, str] = {}
    bar0 = behind = 0
    for number, record in enumerate(found):
        if record.kind != DOWN:
            continue
        kind, address, payload = tlp(record.body)
        if kind in (0x40, 0x60) and not bar0 and address & 0x3FFF == AQA:
            bar0 = address - AQA
        register = address - bar0
        if bar0 and kind in (0x40, 0x60) and register == AQA:
            sizes = struct.unpack("<I", payload)[0]
            admin = {ASQ: ("SQ", (sizes & 0xFFF) + 1), ACQ: ("CQ", (sizes >> 16) + 1)}
        elif bar0 and kind in (0x40, 0x60) and register in (ASQ, ACQ):
            word, size = admin[register]
            lines[word + "0"] = f"NVME:QUE {word},0,{int.from_bytes(payload, 'little')},{size}"
        elif kind == 0x4A and len(payload) >= 64 and len(payload) % 64 == 0:
            for sqe in range(0, len(payload), 64):
                (prp1,) = struct.unpack_from("<Q", payload, sqe + 24)
                cdw10, cdw11 = struct.unpack_from("<II", payload, sqe + 40)
                if payload[sqe] in (CREATE_SQ, CREATE_CQ) and cdw10 and cdw11 & 1:
                    word = "SQ" if payload[sqe] == CREATE_SQ else "CQ"
                    link = f",{cdw11 >> 16}" if word == "SQ" else ""
                    lines[f"{word}{cdw10 & 0xFFFF}"] = f"NVME:QUE {word},{cdw10 & 0xFFFF},{prp1},{(cdw10 >> 16) + 1}{link}"
                    behind = number
    ordered = [lines[key] for key in sorted(lines)]  # CQ before SQ
    return [f"NVME:BAR0 {bar0}", "NVME:DSTR 0", *ordered, "NVME:ATT"], behind


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write `whole`, recorded from power-on, and `late`, from the first quiet moment after the queues were created."""
    folder = tmp_path_factory.mktemp("late")
    (folder / "job.fio").write_text(JOB)
    run = ("run", folder / "job.fio", "--virtual", "intel-660p-1tb", "--out", folder / "whole", "--decimation", 100)
    finished(wattbell(folder, *run, "--keep-trace", "--json"))
    trace = (folder / "whole" / "workload" / "trace.wbt").read_bytes()
    found = records(trace)
    lines, behind = set_up(found)
    assert len(lines) >= 2 + 2 + 2 + 1, "admin queues and at least one pair of I/O queues"
    # the first gap of 5 us on the bus after the set-up: nothing is in flight there
    bus = [n for n in range(behind, len(found)) if found[n].kind <= BURST]
    quiet = next(b for a, b in itertools.pairwise(bus) if found[b].time_ps - found[a].time_ps > 5_000_000)
    assert found[quiet].kind == DOWN
    (folder / "late.wbt").write_bytes(trace[: found[0].start] + trace[found[quiet].start :])
    (folder / "queues.scpi").write_text("# from the driver\n" + "\n".join(lines) + "\n")
    return folder


def replay(folder: Path, name: str, *options: object) -> dict[str, object]:
    arguments = ("sim", "replay", "--bus-trace", folder / "late.wbt", "--out", folder / name, "--decimation", 100, "--json")
    found: dict[str, object] = json.loads(finished(wattbell(folder, *arguments, *options))[0])
    return found


def test_told_of_its_queues_the_rig_sees_every_command(late: Path) -> None:
    replay(late, "late", "--attach", late / "queues.scpi")
    keys = ("opcode", "qid", "cid", "slba", "blocks", "doorbell_tick", "cqe_tick")
    want = open_capture(late / "whole").commands.filter(pl.col("qid") > 0).select(keys).collect()
    got = open_capture(late / "late").commands.filter(pl.col("qid") > 0).select(keys).collect()
    assert want.height == 256 + 8
    assert got.equals(want)


def test_its_bytes_are_counted_and_the_assumed_block_size_is_said(late: Path) -> None:
    replay(late, "again", "--attach", late / "queues.scpi")
    result = json.loads(finished(wattbell(late, "analyze", late / "again", "--json"))[0])
    by_opcode = result["commands"]["by_opcode"]
    assert (by_opcode["read"]["count"], by_opcode["read"]["bytes"]) == (256, 1 << 20)
    assert (by_opcode["write"]["count"], by_opcode["write"]["bytes"]) == (8, 1 << 20)
    assert any("512" in warning for warning in result["warnings"])


def test_not_told_it_records_no_command_of_queues_it_cannot_know(late: Path) -> None:
    replay(late, "untold")
    assert open_capture(late / "untold").commands.collect().height == 0


def test_a_wrong_line_is_one_clear_error(late: Path) -> None:
    (late / "wrong.scpi").write_text("NVME:BAR0 #H4000\nNVME:QUE XX,1,2,3\n")
    arguments = ("sim", "replay", "--bus-trace", late / "late.wbt", "--out", late / "wrong", "--attach", late / "wrong.scpi")
    _, err = finished(wattbell(late, *arguments), 1)
    assert "NVME:QUE" in err
