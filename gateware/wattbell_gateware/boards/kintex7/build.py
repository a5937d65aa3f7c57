"""The Vivado project of the 8 GT/s x4 tap (Kintex-7), and the table of docs/target-8gt.md.

    python -m wattbell_gateware.build --board kintex7 [--resources]

Writes ``tap.v``, ``tap.xdc``, ``tap.tcl`` and ``build_tap.sh``, which runs Vivado with these files. Vivado is not part of this
project, and this project never ran it: no timing of this target has been proven. ``--resources`` maps the design with Yosys and
counts the cells it takes.
"""

from __future__ import annotations

import argparse
import json
import re
from functools import partial
from pathlib import Path

from ...toolchain import NAME, ROOT, check_packages, plain_names, prepare, timed, versions, write_docs, yosys

OUT = "kintex7"
DOCS = ROOT / "docs" / "target-8gt.md"
COMMAND = "python -m wattbell_gateware.build --board kintex7"
BEGIN = f"<!-- generated: {COMMAND} -->"
NEEDED = {"amaranth": "amaranth", "pyosys": "pyosys", "luna": "luna-usb", "luna_soc": "luna-soc"}
"""Module -> package."""
PART = {"LUT": 101_400, "FF": 202_800, "block RAM (36 kbit)": 325, "DSP": 600, "GTX": 8}
"""Cells of an XC7K160T (DS180)."""
LUTS_OF = {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "SRL16E": 1, "SRLC32E": 1}
"""LUTs that a cell of distributed memory takes (UG474)."""


def constraints(clocks: list[str]) -> str:
    """Return constraints that Amaranth's XDC lacks. Paths between clocks are built so that any placement works (docs/bitstream.md)."""
    groups = " ".join(f"-group [get_clocks -include_generated_clocks {{{clock}}}]" for clock in clocks)
    return f"set_clock_groups -asynchronous {groups}"


def elaborate(out: Path, tap=None) -> None:
    """Write ``tap.il`` and the files for Vivado. `tap`: a design in place of the whole tap."""
    from .board import BOARD

    asynchronous = constraints(["clock_sync clock_setup", "clock_link0", "clock_link1", "ulpi_0__clk__io"])
    for name, content in prepare(BOARD, tap, add_constraints=asynchronous).items():
        # The RTLIL has instances with attributes such as floating-point numbers. Builds for Windows and for Amaranth's own runner
        # are not wanted.
        if not name.endswith((".bat", ".json")):
            (out / name).write_text(content if isinstance(content, str) else content.decode())


def verilog(out: Path) -> None:
    """Write ``tap.v``, with the names that the XDC uses."""
    from ...verilog import PASSES

    yosys([f"read_rtlil {NAME}.il", *PASSES, f"write_verilog -norename {NAME}.v"], out / "verilog.log", out)


def resources(out: Path) -> dict[str, int]:
    """Return the cells that the design takes, by Yosys' mapping, before placement."""
    (out / f"{NAME}.plain.il").write_text(plain_names((out / f"{NAME}.il").read_text()))
    yosys(
        [
            f"read_rtlil {NAME}.plain.il",
            f"hierarchy -top {NAME}",
            "proc",
            "flatten",
            f"synth_xilinx -family xc7 -top {NAME} -noiopad -noclkbuf",
            "tee -o stat.json stat -json",
        ],
        out / "yosys.log",
        out,
    )
    text = (out / "stat.json").read_text()
    return counted(json.loads(text[text.index("{") :])["design"]["num_cells_by_type"])


def counted(cells: dict[str, int]) -> dict[str, int]:
    """Return Yosys' cells by the kinds of :data:`PART`."""

    def of(pattern: str) -> int:
        return sum(count for kind, count in cells.items() if re.fullmatch(pattern, kind))

    return {
        "LUT": of("LUT[1-6]|INV") + sum(cells.get(kind, 0) * luts for kind, luts in LUTS_OF.items()),
        "FF": of("FD[RSCP]E(_1)?"),
        "block RAM (36 kbit)": of("RAMB36E1") + -(-of("RAMB18E1") // 2),
        "DSP": of("DSP48E1"),
        "GTX": of("GTXE2_CHANNEL"),
    }


def table(used: dict[str, int]) -> str:
    """Return the generated part of the docs."""
    lines = [f"Made by `{COMMAND} --resources --docs` with {versions(['amaranth', 'pyosys'])}.", ""]
    lines += ["| cells | used | of | |", "|---|---|---|---|"]
    lines += [f"| {kind} | {used[kind]} | {there} | {used[kind] / there * 100:.0f} % |" for kind, there in PART.items()]
    return "\n".join(lines)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this flow."""
    parser.add_argument("--resources", action="store_true", help="map the design with Yosys and say what it takes")


def build(options: argparse.Namespace) -> int:
    """Run the whole build; return the exit status. Raises BuildError, OSError."""
    check_packages(NEEDED)
    options.out.mkdir(parents=True, exist_ok=True)
    timed("elaborating", partial(elaborate, options.out))
    timed("Verilog", partial(verilog, options.out))
    print(options.out / f"build_{NAME}.sh")
    if options.resources:
        text = table(timed("mapping", partial(resources, options.out)))
        print(text)
        if options.docs:
            write_docs(DOCS, BEGIN, text)
    return 0
