"""``*TST?`` on an instrument that was broken before it was built: the tracker (the rail: tests/sim/rig/test_selftest.py)."""

import os
import subprocess
from pathlib import Path

import pytest
from wattbell_gateware import generate
from wattbell_gateware.nvme import tables

from tests.sim.rig.rig_process import Rig
from tests.sim.rig.rig_trace import encode, end, rail, sideband

ROOT = Path(__file__).parents[2]

RECORDS = 32


def no_submission_queues(monkeypatch: pytest.MonkeyPatch) -> int:
    """The tracker takes another opcode for Create I/O Submission Queue."""
    monkeypatch.setattr(tables, "CREATE_SQ", 0x11)
    return RECORDS


@pytest.mark.parametrize("breaks", [no_submission_queues], ids=lambda breaks: breaks.__name__)
def test_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks) -> None:
    failed = breaks(monkeypatch)
    (tmp_path / "instrument_x4_word.v").write_text(generate.verilog("instrument_x4_word"))
    subprocess.run([ROOT / "sim/rig/build-rtl.sh", "--quick", "x4_word"], check=True, env={**os.environ, "WATTBELL_RTL_DIR": str(tmp_path)})
    trace = tmp_path / "idle.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 0.5), sideband(10, 1, 1), end(1000)]))
    one = Rig(tmp_path, trace, "--lib", tmp_path / "lib_x4_word.so")
    assert int(one.ask("*TST?")) == failed
    assert one.ask("SYST:ERR?").startswith("-330,")
    one.close()
