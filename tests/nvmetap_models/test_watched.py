"""The monitor of cocotbext-nvmetap on its models, and the example, in Icarus Verilog and in Verilator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from cocotbext.nvmetap import LinkObserver
from cocotbext.nvmetap.coverage import Coverage
from wattbell.capture import open_capture

from tests import needs
from tests.nvmetap.wbt import watch
from tests.nvmetap_models import simulate

EXAMPLE = simulate.PACKAGE / "examples" / "controller"
FOUND = {1: "CQE_PHASE", 2: "WRITE_OUTSIDE", 3: "INTERRUPT_EARLY"}


@pytest.mark.needs("iverilog")
def test_each_fault_of_the_drive_breaks_its_rule(tmp_path: Path) -> None:
    simulate.run("cocotb_watched", tmp_path)


@pytest.mark.needs("iverilog")
def test_a_bench_that_knows_nothing_of_the_monitor_is_watched(tmp_path: Path) -> None:
    env = {"NVMETAP_REPORT": str(tmp_path / "links.json"), "ISSUED": str(tmp_path / "issued.json")}
    simulate.run("cocotb_unwatched", tmp_path, env=env, before=("cocotbext.nvmetap.watch",))
    busy, idle = json.loads((tmp_path / "links.json").read_text())
    done = [command for command in busy["commands"] if command["sqid"]]
    issued = json.loads((tmp_path / "issued.json").read_text())
    assert [[command["opcode"], command["slba"], command["blocks"]] for command in done] == issued
    assert all(command["status"] == 0 and command["doubts"] == [] for command in done)
    assert busy["tlps"] > 10 * len(done) and busy["breaches"] == {}
    assert idle["tlps"] == 0 and idle["commands"] == []


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_the_example_finds_its_three_bugs(simulator: str, installed: Path, tmp_path: Path) -> None:
    """The example outside the checkout, on the wheels."""
    if simulator == "icarus":
        needs.program("iverilog")
    paths = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    example = shutil.copytree(EXAMPLE, tmp_path / "controller", ignore=shutil.ignore_patterns("build", "__pycache__"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WATTBELL"))}
    done = subprocess.run(
        [installed, "run.py", simulator, "--out", str(tmp_path)],
        cwd=example,
        env={**kept, "PATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    lines = [line for line in done.stdout.splitlines() if line.startswith("bug ")]
    assert lines[0] == "bug 0: the bench passes, rules broken: none"
    for bug, rule in FOUND.items():
        assert lines[bug].startswith(f"bug {bug}: the bench fails, rules broken: ") and rule in lines[bug]
    coverage = Coverage.load(tmp_path / simulator / "bug0" / "coverage.json")
    assert coverage.missing({"opcode": ["02h read"], "pointer": ["PRP"], "depth": ["1", "2", "3-4"], "reset": ["first life"]}) == []
    # identify, two queues, 36 reads, a flush and a read out of range; then two queues and a read
    assert coverage.along("reset") == {"first life": 41, "after a reset": 3, "cut by a reset": 0}
    capture = open_capture(tmp_path / simulator / "bug0" / "capture").commands.collect()
    assert (len(capture), len(capture.filter(pl.col("flags") != 0))) == (44, 0)
    assert capture.filter((pl.col("qid") == 1) & (pl.col("opcode") == 2) & (pl.col("status") == 0)).height == 37
    events = json.loads((tmp_path / simulator / "bug0" / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "b" for event in events) == 44
    assert len(watch((tmp_path / simulator / "bug0" / "run.wbt").read_bytes(), LinkObserver())) == 44
    assert "4 run(s)" in (tmp_path / simulator / "coverage.html").read_text()
