"""The virtual rig's instrument as gates of the ECP5, Verilated: the result of synthesis, for the same rig. For docs/gateware.md.

    python -m tools.gates [--out FOLDER]

Synthesises `instrument_x4_word` as the board's build does (boards/ecp5/build.py: its mapping, its script, block RAMs that promise nothing
for the address that is being written), and hands the netlist to sim/rig/build-rtl.sh in the place of the RTL: FOLDER/lib_x4_word.so, which
``wattbell-rig --lib`` takes. LUTs, carry chains, flip-flops and distributed RAM are Yosys' own models of the cells, block RAMs and
multipliers ours (sim/rig/cells), since Yosys has none. It is the rig's instrument, at 250 MHz and in its sizes, not the board's.

Some LUTs are drawn to be faulty at will: with the number of one in the file `gates-fault` of the working folder, its table is the
other way round. Without the file no LUT is faulty. Ends with status 1 when a step fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from wattbell_gateware.boards.ecp5.build import MAPPING, SCRIPT, no_collisions
from wattbell_gateware.generate import VARIANTS
from wattbell_gateware.instrument import Instrument
from wattbell_gateware.toolchain import ROOT, BuildError, digest, fresh, made, plain_names, sources, timed, versions, yosys
from wattbell_gateware.verilog import rtlil_of

TOP = "instrument_x4_word"
OUT = ROOT / "build" / "gates"
CELLS = sorted((ROOT / "sim/rig/cells").glob("*.v"))
YOSYS_CELLS = ("common_sim.vh", "ccu2c_sim.vh")
KNOWN = {"LUT4", "CCU2C", "PFUMX", "L6MUX21", "TRELLIS_FF", "TRELLIS_DPR16X4", "DP16KD", "MULT18X18D"}
FAULTS, SEED = 32, 1
FAULT_FILE = "gates-fault"

_FAULTY = f"""
// A LUT whose table is the other way round when the file `{FAULT_FILE}` says so.
module LUT4_FAULTY(input A, B, C, D, output Z);
    parameter [15:0] INIT = 0;
    parameter NUMBER = 0;
    integer file, chosen = -1, read;
    initial begin
        file = $fopen("{FAULT_FILE}", "r");
        if (file != 0) begin
            read = $fscanf(file, "%d", chosen);
            $fclose(file);
        end
    end
    assign Z = INIT[{{D, C, B, A}}] ^ (chosen == NUMBER);
endmodule
"""


def synthesise(out: Path) -> dict[str, int]:
    """``netlist.v``; returns the number of cells by type. Raises BuildError when there is a cell that no model is of."""
    target, count = out / "netlist.v", out / "netlist.json"
    passes = [
        "read_rtlil netlist.il",
        f"hierarchy -top {TOP}",
        "proc",
        "flatten",
        "opt_clean",
        SCRIPT,
        f"synth_ecp5 {MAPPING} -top {TOP}",
        f"tee -q -o {count.name} stat -json",
        f"write_verilog -noattr {target.name}",
    ]
    inputs = (*sources(), *passes, versions(["amaranth", "pyosys"]))
    if not (fresh(target, *inputs) and count.exists()):
        instrument = Instrument(VARIANTS[TOP])
        text = rtlil_of(instrument, TOP)
        (out / "netlist.il").write_text(no_collisions(plain_names(text)))
        yosys(passes, out / "yosys.log", out)
        made(target, *inputs)
    cells: dict[str, int] = json.loads(count.read_text())["design"]["num_cells_by_type"]
    cells.pop("$scopeinfo", None)  # where names came from
    if unknown := cells.keys() - KNOWN:
        raise BuildError(f"no model of {', '.join(sorted(unknown))}: see KNOWN in tools/gates.py")
    return cells


def faulty(netlist: str) -> str:
    """The netlist with :data:`FAULTS` of its LUTs, drawn by :data:`SEED`, made faulty at will."""
    first, *others = re.split(r"(?m)^ *LUT4 #\(", netlist)
    number = {place: number for number, place in enumerate(random.Random(SEED).sample(range(len(others)), FAULTS))}
    luts = (f"LUT4_FAULTY #(.NUMBER({number[k]}),{rest}" if k in number else f"LUT4 #({rest}" for k, rest in enumerate(others))
    return first + "".join(luts)


def library(out: Path) -> Path:
    """The Verilated netlist, built with the rig's own script."""
    models = files("pyosys") / "share" / "lattice"
    texts = [
        faulty((out / "netlist.v").read_text()),
        "`define NO_INCLUDES",
        *((models / name).read_text() for name in YOSYS_CELLS),
        _FAULTY,
        *(path.read_text() for path in CELLS),
    ]
    source, text = out / f"{TOP}.v", "\n".join(texts)
    if not source.exists() or digest(source) != digest(text):
        source.write_text(text)
    environment = {**os.environ, "WATTBELL_RTL_DIR": str(out)}
    log = out / "verilator.log"
    with log.open("w") as said:
        done = subprocess.run([ROOT / "sim/rig/build-rtl.sh", "--quick", "x4_word"], env=environment, stdout=said, stderr=said, check=False)
    if done.returncode:
        raise BuildError(f"build-rtl.sh failed:\n{log.read_text()[-3000:]}")
    return out / "lib_x4_word.so"


def build(out: Path = OUT) -> tuple[Path, dict[str, int]]:
    """Return the library, and the cells of the netlist by type. Steps with unchanged inputs are not done again."""
    out.mkdir(parents=True, exist_ok=True)
    cells = timed("synthesising", lambda: synthesise(out))
    return timed("Verilating", lambda: library(out)), cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    try:
        path, cells = build(parser.parse_args().out.resolve())
    except (BuildError, OSError) as error:
        print(f"gates: error: {error}", file=sys.stderr)
        return 1
    print(f"{path}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(cells.items())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
