"""The kernel traces and Identify files of ``../shared/cases/host``: each has a README with the right result, which stands here again.

A clone without that folder has no such cases. tests/host/hostlog/test_trace_text.py and test_identity_files.py have small ones of
each kind.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from wattbell.errors import CaptureError
from wattbell.hostlog.files import read_log
from wattbell.importer.identity import read_identity

from tests.host.sharedcases import unpacked_cases

TRACES = ("base", "52", "blockonly", "cpuempty", "crlf", "mixed", "opcode", "perf", "stack")
BLOCK = {  # of each opcode: how many, bytes, median us
    "base": {2: (2000, 4096, 100)},
    "fwfs": {1: (1000, 4096, 100), 0: (1000, 0, 48)},
    "merge": {1: (1000, 8192, 100)},
    "partial": {2: (1000, 8192, 300)},
    "requeue": {2: (1000, 4096, 100)},
    "split": {1: (2000, 524288, 501)},
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_cases(tmp_path_factory.mktemp("cases"), "tr-", "blk-", "id-")


def of_log(path: Path) -> dict[int, tuple[int, int, int]]:
    """Figures of each opcode: how many commands, bytes of each, median us."""
    found = pl.from_arrow(read_log(path).table)
    assert isinstance(found, pl.DataFrame)
    us = ((pl.col("cqe_tick") - pl.col("doorbell_tick")) / 1000).median()
    rows = found.group_by("opcode").agg(pl.len(), (pl.col("blocks").unique() * 512).alias("sizes"), us.alias("us"))
    return {opcode: (count, sizes[0], round(us)) for opcode, count, sizes, us in rows.iter_rows() if len(sizes) == 1}


@pytest.mark.parametrize("name", TRACES)
def test_every_kernel_trace_has_the_2000_reads(cases: Path, name: str) -> None:
    assert of_log(cases / f"tr-{name}/trace.txt") == {2: (2000, 4096, 100)}


@pytest.mark.parametrize("name", BLOCK)
def test_every_log_of_the_block_layer(cases: Path, name: str) -> None:
    assert of_log(cases / f"blk-{name}/blk.txt") == BLOCK[name]


def test_what_was_skipped_is_named(cases: Path) -> None:
    notes = {name: " ".join(read_log(cases / f"tr-{name}/trace.txt").notes) for name in TRACES}
    assert "8000 lines of stacks" in notes["stack"] and "2000 block_rq_issue, 2000 nvme_sq" in notes["mixed"]
    assert "opcode (2000)" in notes["opcode"] and "no NVMe events" in notes["blockonly"]
    assert [notes[name] for name in ("base", "52", "cpuempty", "crlf", "perf")] == [""] * 5


IDENTIFY = {  # model, max W and whether each is non-operational
    "1x": ("EXAMPLE NVME DRIVE", [(6.2, False), (0.04, True), (0.005, True)]),
    "ctrlchar": ("EXAMPLE NVME DRIVE", [(6.0, False), (0.005, True)]),
    "hugecap": ("EXAMPLE NVME DRIVE", [(6.0, False), (0.005, True)]),
    "latin": ("EXAMPLE NVME DRIVE", [(6.0, False), (0.005, True)]),
    "raw-nonascii": ("RAW DRIVE", [(9 - number / 4, False) for number in range(32)]),
    "raw-nulpad": ("RAW DRIVE", [(9 - number / 4, False) for number in range(32)]),
    "raw31": ("RAW DRIVE", [(9 - number / 4, False) for number in range(32)]),
    "solidigm": ("BIG QLC DRIVE 15T", [(25, False), (15, False), (10, False)]),
    "strings": ("EXAMPLE NVME DRIVE", [(6.0, False), (0.005, True)]),
    "verbose": ("CLOUD BLOCK STORE", [(None, False)]),
}
SPACES = {"ns-4k": 4096, "ns-nulbaf": None, "ns-verbose": 4096}
REFUSED = {"smartctl": "smartctl's JSON", "text": "plain text .* -o json"}


def file_of(cases: Path, name: str) -> Path:
    (found,) = (path for path in (cases / f"id-{name}").iterdir() if path.name != "README")
    return found


@pytest.mark.parametrize("name", IDENTIFY)
def test_every_controller(cases: Path, name: str) -> None:
    drive = read_identity([file_of(cases, name)])
    assert (drive["model"], [(state["max_power_w"], state["non_operational"]) for state in drive["power_states"]]) == IDENTIFY[name]
    assert drive["namespaces"] == []


def test_what_odd_bytes_become(cases: Path) -> None:
    assert [read_identity([file_of(cases, name)])["serial"] for name in ("ctrlchar", "latin")] == ["SN\ufffd\ufffd01", "SN\ufffd\ufffd03"]


def test_the_rest_of_the_15_tb_drive(cases: Path) -> None:
    drive = read_identity([file_of(cases, "solidigm")])
    assert (drive["rtd3_resume_s"], drive["rtd3_entry_s"], drive["volatile_write_cache"]) == (10, 9, False)
    for state in drive["power_states"]:
        assert (state["idle_power_w"], state["active_power_w"], state["active_power_workload"]) == (5.06, state["max_power_w"], 2)
        assert (state["entry_latency_s"], state["exit_latency_s"]) == (0.06, 0.06)


@pytest.mark.parametrize("name", SPACES)
def test_every_namespace(cases: Path, name: str) -> None:
    (space,) = read_identity([file_of(cases, name)])["namespaces"]
    assert (space["size_blocks"], space["lba_size_bytes"]) == (1000215216, SPACES[name])


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_called_what_it_is(cases: Path, name: str) -> None:
    with pytest.raises(CaptureError, match=REFUSED[name]):
        read_identity([file_of(cases, name)])


def test_no_case_is_left_out(cases: Path) -> None:
    there = {path.name for path in cases.iterdir() if re.match("(tr|blk|id)-", path.name)}
    known = {f"tr-{name}" for name in TRACES} | {f"blk-{name}" for name in BLOCK}
    assert there == known | {f"id-{name}" for name in (*IDENTIFY, *SPACES, *REFUSED)}
