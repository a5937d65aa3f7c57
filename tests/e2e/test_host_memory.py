"""A drive without DRAM on the virtual rig: its traffic to the host memory buffer, counted by the instrument and by the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wattbell.analysis.bystanders import bystanders
from wattbell.capture import open_capture

from tests.e2e.virtual import MARKS, finished, wattbell

pytestmark = MARKS
PROFILE = "toshiba-rc100"
PLAN = """
[[step]]
name = "reads"
fio = "reads.fio"
[[step]]
name = "writes"
fio = "writes.fio"
[[step]]
name = "again"
restart = { }
[[step]]
name = "sequence"
fio = "sequence.fio"
"""
HEAD = "[a]\nioengine=libaio\ndirect=1\niodepth=4\n"
JOBS = {
    "reads": f"{HEAD}rw=randread\nbs=4k\nsize=100%\nnumber_ios=400\n",
    "writes": f"{HEAD}rw=randwrite\nbs=4k\nsize=100%\nnumber_ios=1500\n",
    "sequence": f"{HEAD}rw=rw\nbs=128k\nsize=64m\nnumber_ios=60\n",
}


@pytest.mark.parametrize("fidelity", ["fast", "rtl"])
def test_the_instrument_counts_what_the_model_moved(tmp_path: Path, fidelity: str) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    for name, text in JOBS.items():
        (tmp_path / f"{name}.fio").write_text(text)
    out = tmp_path / "capture"
    command = ("run", tmp_path / "plan.toml", "--virtual", PROFILE, "--fidelity", fidelity, "--interval", "1e-5", "--out", out, "--json")
    result = json.loads(finished(wattbell(tmp_path, *command))[0])
    assert result["truth"]["pass"]
    truth = json.loads((out / "workload/truth.json").read_text())["host_memory_buffer"]
    found = bystanders(open_capture(out))
    assert {name: getattr(found, name) for name in truth} == truth
    assert (found.unmatched, found.unmatched_reads) == (0, 0)
    assert truth["writes"] > truth["written_bytes"] // 4096  # pages in TLPs of the largest payload, and single entries
    assert truth["read_bytes"] > 64 * truth["reads"] > 0  # lines, and pages that are written back
    info, _ = finished(wattbell(tmp_path, "info", out))
    assert found.buffer_text().split(",")[0] in info and "matches no command" not in info
