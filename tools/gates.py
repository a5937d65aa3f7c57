"""Verilate the virtual rig's instrument as gates of the ECP5: the synthesised RTL, for the same rig. For docs/gateware.md.

    python -m tools.gates [--out FOLDER]

Synthesises `instrument_x4_word` as the board's build does (boards/ecp5/build.py): same mapping, same script, and block RAMs that
promise nothing for an address that is being written. sim/rig/build-rtl.sh then takes the netlist in place of the RTL and makes
FOLDER/lib_x4_word.so, for ``wattbell-rig --lib``. LUTs, carry chains, flip-flops and distributed RAM are Yosys' own models of the
cells. Block RAMs and multipliers are ours (sim/rig/cells), since Yosys has none. The instrument is the rig's, at 250 MHz and in its
sizes, not the board's.

Some randomly drawn LUTs can be made faulty. If the file `gates-fault` in the working folder holds the number of one, its table is
inverted. Without the file no LUT is faulty. The exit status is 1 if a step fails.
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

from amaranth.back import rtlil
from wattbell_gateware.boards.ecp5.build import MAPPING, SCRIPT, no_collisions
from wattbell_gateware.generate import VARIANTS
from wattbell_gateware.instrument import Instrument
from wattbell_gateware.toolchain import ROOT, BuildError, digest, fresh, made, plain_names, sources, timed, versions, yosys
from wattbell_gateware.verilog import ports_of

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
    """Write ``netlist.v``; return the number of cells by type. Raises BuildError if a cell has no model."""
    target, count = out / "netlist.v", out / "netlist.json"
    passes = [
        "read_rtlil netlist.il", f"hierarchy -top {TOP}", "proc", "flatten", "opt_clean", SCRIPT, f"synth_ecp5 {MAPPING} -top {TOP}",
        f"tee -q -o {count.name} stat -json", f"write_verilog -noattr {target.name}",
    ]  # fmt: skip
    inputs = (*sources(), *passes, versions(["amaranth", "pyosys"]))
    if not (fresh(target, *inputs) and count.exists()):
        instrument = Instrument(VARIANTS[TOP])
        text = rtlil.convert(instrument, name=TOP, ports=ports_of(instrument), emit_src=False)
        (out / "netlist.il").write_text(no_collisions(plain_names(text)))
        yosys(passes, out / "yosys.log", out)
        made(target, *inputs)
    cells = json.loads(count.read_text())["design"]["num_cells_by_type"]
    cells.pop("$scopeinfo", None)  # carries the origin of names
    if unknown := cells.keys() - KNOWN:
        raise BuildError(f"no model of {', '.join(sorted(unknown))}: see KNOWN in tools/gates.py")
    return cells


def faulty(netlist: str) -> str:
    """Return the netlist with :data:`FAULTS` LUTs that can be made faulty, drawn by :data:`SEED`."""
    first, *others = re.split(r"(?m)^ *LUT4 #\(", netlist)
    number = {place: number for number, place in enumerate(random.Random(SEED).sample(range(len(others)), FAULTS))}
    luts = (f"LUT4_FAULTY #(.NUMBER({number[k]}),{rest}" if k in number else f"LUT4 #({rest}" for k, rest in enumerate(others))
    return first + "".join(luts)


def library(out: Path) -> Path:
    """Build the Verilated netlist with the rig's own script; return the library's path."""
    models = files("pyosys") / "share" / "lattice"
    texts = [faulty((out / "netlist.v").read_text()), "`define NO_INCLUDES", *((models / name).read_text() for name in YOSYS_CELLS),
             _FAULTY, *(path.read_text() for path in CELLS)]  # fmt: skip
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
    """Return the library, and the cells of the netlist by type. Steps with unchanged inputs are skipped."""
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
