"""Real Linux lends a modelled drive without DRAM a Host Memory Buffer: its traffic by the tap, by the drive, and by the trace's own TLPs.

The oracle of this file reads descriptors and addresses from the bus trace, without our decoder. Linux 6.12 decides size and pieces.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
import struct
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from wattbell.analysis.bystanders import bystanders
from wattbell.capture import open_capture

from tests.sim.rig.rig_trace import TLP_DOWN, TLP_UP, records

ROOT = Path(__file__).resolve().parents[2]
JOBS = ROOT / "sim/guest/jobs/hmb"
PROFILE = "toshiba-rc100"
PREFERRED_MIB, MINIMUM_MIB = 38, 10
SET_FEATURES, FEATURE = 0x09, 0x0D
ENABLE, RETURN = 1, 2
PAGE, SQE, DESCRIPTOR = 4096, 64, 16
BURST = 3
MOST_ASKED = 2
"""Reads of lent memory that the model has outstanding (LENT_READS)."""
CPLD, CPLD_HEADER = 0x4A, 12
MEMORY = {0x00: (12, False), 0x20: (16, False), 0x40: (12, True), 0x60: (16, True)}
"""Format and type of memory requests: bytes of the header, and whether it is a write."""
LONGEST_CQ_HEAD, SATURATED_CQ_HEAD = (1 << 24) - 2, 1 << 5
"""Ticks from the CQE to the head doorbell that a record can hold, and the mark of a longer time (docs/wire-format.md)."""
TICKS = ("doorbell", "fetch", "first_data", "last_data", "cqe", "msix", "cq_head")

pytestmark = [pytest.mark.xdist_group("real-linux")]


@dataclass
class Traffic:
    """TLPs and bytes, as `truth.json` names them."""

    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    written_bytes: int = 0


@dataclass(frozen=True)
class Request:
    """A memory request of the drive: byte length from its length and byte enables."""

    write: bool
    address: int
    nbytes: int
    tag: int

    @classmethod
    def of(cls, header: bytes) -> Request | None:
        known = MEMORY.get(header[0])
        if known is None:
            return None
        size, write = known
        dwords = ((header[2] & 3) << 8 | header[3]) or 1024
        first, last = header[7] & 0xF, header[7] >> 4
        lost = 4 - first.bit_length() + (4 - last.bit_length() if dwords > 1 else 0)
        skipped = (first & -first).bit_length() - 1
        address = int.from_bytes(header[8:size], "big") & ~3
        tag = header[6] | (header[1] >> 7) << 9 | (header[1] >> 3 & 1) << 8
        return cls(write, address + skipped, 4 * dwords - lost - skipped, tag)


class Wire:
    """The trace's own account: every Set Features 0Dh with its descriptors, and the traffic in the lent pages."""

    def __init__(self, trace: Path) -> None:
        self.asked: list[tuple[int, int]] = []
        """CDW11 and pages (CDW12) of each."""
        self.ranges: list[list[tuple[int, int]]] = []
        """Lent ranges of each loan: address, bytes."""
        self.traffic = Traffic()
        self._lent: list[tuple[int, int]] = []
        self._list: tuple[int, int] | None = None
        self._tag: int | None = None
        self._descriptors = b""
        for kind, _, _, body in records(trace):
            if kind == TLP_DOWN and body[0] == CPLD:
                self._down(body)
            elif kind == TLP_UP:
                self._up(Request.of(body), 1)
            elif kind == BURST and body[0] == 2:
                header, count = body[12 : 12 + body[1]], int.from_bytes(body[2:4], "little")
                self._up(Request.of(header), count)

    def _down(self, body: bytes) -> None:
        tag = body[10] | (body[1] >> 7) << 9 | (body[1] >> 3 & 1) << 8
        payload = body[CPLD_HEADER:]
        if self._list is not None and tag == self._tag:
            self._descriptors += payload
            _, entries = self._list
            if len(self._descriptors) >= entries * DESCRIPTOR:
                found = [struct.unpack_from("<QI", self._descriptors, DESCRIPTOR * k) for k in range(entries)]
                self._lent = [(address, pages * PAGE) for address, pages in found if pages]
                self.ranges.append(self._lent)
                self._list = self._tag = None
            return
        if not payload or len(payload) % SQE:
            return
        for at in range(0, len(payload), SQE):
            cdw10, cdw11, pages, low, high, entries = struct.unpack_from("<6I", payload, at + 40)
            if payload[at] == SET_FEATURES and cdw10 & 0xFF == FEATURE and payload[at + 24 : at + 40] == bytes(16):
                self.asked.append((cdw11, pages))
                self._list, self._descriptors = ((low | high << 32, entries), b"") if cdw11 & ENABLE else (None, b"")
                self._lent = [] if not cdw11 & ENABLE else self._lent

    def _up(self, request: Request | None, count: int) -> None:
        if request is None:
            return
        if self._list is not None and not request.write and request.address == self._list[0]:
            self._tag = request.tag
        if not any(at <= request.address < at + size for at, size in self._lent):
            return
        if request.write:
            self.traffic.writes += count
            self.traffic.written_bytes += count * request.nbytes
        else:
            self.traffic.reads += count
            self.traffic.read_bytes += count * request.nbytes


class Guest:
    """Files that the guest and the drive left, and the capture of the same trace."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.run, self.capture = folder / "run", folder / "capture"
        command = [sys.executable, ROOT / "sim/guest/run.py", "--drive", "vfio", "--profile", PROFILE, "--jobs", JOBS, "--out", self.run]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        self.wattbell(
            "sim", "replay", "--bus-trace", self.run / "trace.wbt", "--workload", self.run, "--out", self.capture, "--fidelity", "fast"
        )

    def wattbell(self, *words: object) -> str:
        command = [sys.executable, "-m", "wattbell", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @cached_property
    def truth(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run / "truth.json").read_text())
        return found

    @cached_property
    def wire(self) -> Wire:
        return Wire(self.run / "trace.wbt")

    def dw0(self, name: str) -> int:
        """Return the value that nvme-cli shows of feature 0Dh."""
        (found,) = re.findall(r"value: ?(?:0x)?([0-9a-f]{8})", (self.run / f"script-hmb-{name}.txt").read_text())
        return int(found, 16)

    def equal_to_the_drive(self) -> int:
        """Compare each I/O command of the tap with the drive's own list, to the tick; return their number."""
        with (self.run / "truth-commands.csv").open() as file:
            truth = sorted((row for row in csv.DictReader(file) if row["qid"] != "0"), key=lambda row: int(row["cqe_ps"]))
        seen = pl.read_parquet(self.capture / "commands.parquet").filter(pl.col("qid") > 0).sort("cqe_tick")
        assert len(seen) == len(truth) > 0
        offset: int = seen["cqe_tick"][0] - int(truth[0]["cqe_ps"]) // 1000
        for one, row in zip(truth, seen.iter_rows(named=True), strict=True):
            assert all(int(one[name]) == row[name] for name in ("opcode", "qid", "cid", "status", "slba", "blocks")), (one, row)
            ticks: dict[str, int | None] = {name: int(one[f"{name}_ps"]) // 1000 + offset if one[f"{name}_ps"] else None for name in TICKS}
            if int(one["cq_head_ps"] or 0) - int(one["cqe_ps"]) > 1000 * LONGEST_CQ_HEAD:  # of a slow host: a lower bound, or nothing
                assert row["cq_head_tick"] is None or row["saturated"] == SATURATED_CQ_HEAD, (one, row)
                ticks["cq_head"] = row["cq_head_tick"]
            assert ticks == {name: row[f"{name}_tick"] for name in TICKS}, (one, row)
            assert row["flags"] == 0
        return len(seen)

    def fios(self) -> int:
        """Return the number of fio's I/Os."""
        jobs = itertools.chain.from_iterable(json.loads(path.read_text())["jobs"] for path in self.run.glob("fio-*.json"))
        return sum(job["read"]["total_ios"] + job["write"]["total_ios"] for job in jobs)


@pytest.fixture(scope="module")
def lending(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    return Guest(tmp_path_factory.mktemp("lending"))


def test_linux_lends_what_the_drive_asks_for_and_the_same_again_after_a_reset(lending: Guest) -> None:
    d = (lending.run / "script-identify.bin").read_bytes()
    pages = [int.from_bytes(d[at : at + 4], "little") for at in (272, 276)]  # HMPRE, HMMIN
    assert [count * PAGE >> 20 for count in pages] == [PREFERRED_MIB, MINIMUM_MIB]
    assert (lending.dw0("before"), lending.dw0("after")) == (ENABLE, ENABLE | RETURN)
    assert lending.wire.asked == [(ENABLE, pages[0]), (ENABLE | RETURN, pages[0])]
    first, again = lending.wire.ranges
    assert first == again and sum(size for _, size in first) == PREFERRED_MIB << 20
    assert f"allocated {PREFERRED_MIB} MiB host memory buffer" in (lending.run / "dmesg.txt").read_text()


def test_tap_drive_and_trace_count_the_same_traffic_there(lending: Guest) -> None:
    truth, found, wire = lending.truth["host_memory_buffer"], bystanders(open_capture(lending.capture)), lending.wire.traffic
    assert truth == vars(wire) == {name: getattr(found, name) for name in truth}
    assert truth["writes"] > truth["written_bytes"] // PAGE > 500 and truth["read_bytes"] > 64 * truth["reads"] > 0
    assert (found.unmatched, found.unmatched_reads) == (0, 0)
    info = lending.wattbell("info", lending.capture)
    assert found.buffer_text().split(",")[0] in info and "matches no command" not in info


def test_the_drive_reads_what_it_wrote_from_the_guests_memory(lending: Guest) -> None:
    data, traffic = lending.truth["host_memory_buffer_data"], lending.truth["host_memory_buffer"]
    forgotten = data["forgotten_bytes"]  # the drive had asked for them when Linux reset it
    unanswered = traffic["read_bytes"] - data["known_bytes"] - forgotten  # when Linux went down
    assert (data["wrong_bytes"], data["unreachable"]) == (0, 0) and data["known_bytes"] > 64 * 1000
    assert unanswered >= 0 and unanswered + forgotten <= MOST_ASKED * PAGE, data


def test_every_command_beside_that_traffic_is_the_drives(lending: Guest) -> None:
    assert lending.equal_to_the_drive() >= lending.fios() == 1600
    assert lending.wattbell("info", lending.capture)


@pytest.mark.long  # another boot
def test_linux_that_may_lend_nothing_lends_nothing(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "--kernel-arg", "nvme.max_host_mem_size_mb=0")
    assert (guest.dw0("before"), guest.dw0("after"), guest.wire.asked) == (0, 0, [])
    found = bystanders(open_capture(guest.capture))
    assert set(guest.truth["host_memory_buffer"].values()) == {0} and not found.buffer_text() and found.unmatched == 0
    assert guest.equal_to_the_drive() >= guest.fios() == 1600
