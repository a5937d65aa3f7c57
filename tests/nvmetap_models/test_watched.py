"""The monitor of cocotbext-nvmetap on its models, and the example, in Icarus Verilog and in Verilator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cocotbext.nvmetap.coverage import Coverage

from tests import needs
from tests.nvmetap_models import simulate

EXAMPLE = simulate.PACKAGE / "examples" / "controller"
FOUND = {1: "CQE_PHASE", 2: "WRITE_OUTSIDE", 3: "INTERRUPT_EARLY"}


@pytest.mark.needs("iverilog")
def test_each_fault_of_the_drive_breaks_its_rule(tmp_path: Path) -> None:
    simulate.run("cocotb_watched", tmp_path)


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_the_example_finds_its_three_bugs(simulator: str, tmp_path: Path) -> None:
    if simulator == "icarus":
        needs.program("iverilog")
    paths = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [sys.executable, "run.py", simulator, "--out", str(tmp_path)],
        cwd=EXAMPLE,
        env={**os.environ, "PATH": paths, "PYTHONPATH": str(simulate.PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"},
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
    assert "4 run(s)" in (tmp_path / simulator / "coverage.html").read_text()
