"""The virtual rig's instrument as gates of the ECP5 (tools/gates.py) gives the RTL's bytes: `make gates` (docs/gateware.md, As gates).

The traces are a real Linux driver's, as QEMU logged them. Their pauses are cut to 5 us, so 14 s of idling become 14 ms, and every clock
with work is simulated. The rail changes meanwhile. Skipped without WATTBELL_GATES.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.gateware.lanes import bus_trace
from tests.sim.rig.rig_process import ROOT, find
from tests.sim.rig.rig_trace import END, US, encode, end, rail, records, squeeze
from tools import gates

BRIEF_US = 1500
"""Part of a trace, for a faulty LUT: the driver's start, and 60 commands."""
pytestmark = [pytest.mark.timeout(0), pytest.mark.skipif("WATTBELL_GATES" not in os.environ, reason="`make gates` sets WATTBELL_GATES")]


def linux(name: str, folder: Path, limit_us: float = float("inf")) -> Path:
    """A trace without its pauses, and with a rail; its first `limit_us`."""
    rows = [row for row in squeeze(records(bus_trace.linux(name, folder)), 5.0) if row[2] <= limit_us * US]
    last_us = rows[-1][2] / 1e6
    changes = [rail(7.3 * k, 3.3 - 0.01 * (k % 5), 0.05 * (k % 11)) for k in range(1, int(last_us / 7.3))]
    body = sorted([row for row in rows if row[0] != END] + changes, key=lambda row: row[2])
    trace = folder / f"{name}-short.wbt"
    trace.write_bytes(encode([*body, end(last_us)]))
    return trace


@pytest.fixture(scope="module")
def library() -> Path:
    return gates.build()[0]


def compared(trace: Path, library: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The netlist, or the RTL, beside the fast instrument: every block's bytes and its clock."""
    command = [find("wattbell-rig"), "compare", trace, "--lib", library]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["fio-10.0", "fio-shadow-11.1", "nvme-cli-11.1"])
def test_the_netlist_gives_the_bytes_of_the_rtl(name: str, library: Path, tmp_path: Path) -> None:
    trace = linux(name, tmp_path)
    done = compared(trace, library, tmp_path)
    assert done.returncode == 0, done.stderr
    met = done.stderr.count("read where it is written")
    print(f"\n{name}: {done.stdout.strip()}; block RAMs read where they are written: {met}")
    assert met > 0  # else their wrong bits there would show nothing
    assert json.loads(done.stdout)["commands"] > 400
    assert compared(trace, ROOT / "build/rtl/lib_x4_word.so", tmp_path).stdout == done.stdout


def test_faults_in_one_lut_are_noticed(library: Path, tmp_path: Path) -> None:
    trace = linux("fio-shadow-11.1", tmp_path, BRIEF_US)
    assert compared(trace, library, tmp_path).returncode == 0
    tried, unnoticed = range(int(os.environ["WATTBELL_GATES"])), []
    for number in tried:
        (tmp_path / gates.FAULT_FILE).write_text(f"{number}\n")
        done = compared(trace, library, tmp_path)
        if done.returncode == 0:
            unnoticed.append(number)
        else:
            assert "differ" in done.stderr or "is equal, but rtl sends" in done.stderr, done.stderr  # another byte, or another clock
    print(f"\nfaulty LUTs unnoticed: {len(unnoticed)} of {len(tried)}: {unnoticed}")
    assert 3 * len(unnoticed) <= 2 * len(tried)  # the others are in what a driver's first 60 commands do not use
