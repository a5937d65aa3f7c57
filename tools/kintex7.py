#!/usr/bin/env python3
"""Makes the Vivado project of the 8 GT/s x4 tap (Kintex-7), and the table of docs/target-8gt.md.

    tools/kintex7.py [--out build/kintex7] [--resources] [--docs]

Writes ``tap.v``, ``tap.xdc``, ``tap.tcl`` and ``build_tap.sh``, which runs Vivado with them (not part of this project, and never run by it:
no timing of this target has been proven). ``--resources`` maps the design with Yosys, for what it takes of the part; ``--docs`` writes
that.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "target-8gt.md"
BEGIN, END = "<!-- generated: tools/kintex7.py -->", "<!-- end of generated -->"
NAME = "tap"
PART = {"LUT": 101_400, "FF": 202_800, "block RAM (36 kbit)": 325, "DSP": 600, "GTX": 8}
"""What an XC7K160T has (DS180)."""
LUTS_OF = {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "SRL16E": 1, "SRLC32E": 1}
"""LUTs that a cell of distributed memory takes (UG474)."""

_YOSYS = """
import sys
from pyosys import libyosys as ys
design = ys.Design()
for command in sys.argv[1:]:
    ys.run_pass(command, design)
"""


class ProjectError(Exception):
    """Ends the run; the message says what to do."""


def constraints(clocks: list[str]) -> str:
    """What Amaranth's XDC lacks. Paths between clocks are built so that any placement will do (docs/bitstream.md)."""
    groups = " ".join(f"-group [get_clocks -include_generated_clocks {{{clock}}}]" for clock in clocks)
    return f"set_clock_groups -asynchronous {groups}"


def elaborate(out: Path, top=None) -> None:
    """``tap.il`` and the files for Vivado. Warnings are errors. `top`: in place of the whole tap."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from wattbell_gateware.boards.kintex7.platform import Kintex7TapPlatform
        from wattbell_gateware.boards.kintex7.top import Kintex7Tap

        asynchronous = constraints(["clock_sync clock_setup", "clock_link0", "clock_link1", "ulpi_0__clk__io"])
        try:
            files = Kintex7TapPlatform().prepare(top or Kintex7Tap(), NAME, add_constraints=asynchronous).files
        except Warning as warning:
            raise ProjectError(f"elaboration warns: {warning}") from warning
    for name, content in files.items():
        # Instances with floating attributes and the like are in the RTLIL; a build for Windows or by Amaranth's own runner is not wanted.
        if not name.endswith((".bat", ".json")):
            (out / name).write_text(content if isinstance(content, str) else content.decode())


def yosys(passes: list[str], log: Path, cwd: Path) -> None:
    """Raises ProjectError with the end of the log."""
    with log.open("w") as out:
        done = subprocess.run([sys.executable, "-c", _YOSYS, *passes], cwd=cwd, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise ProjectError(f"yosys failed (all it said is in {log}):\n" + "\n".join(log.read_text(errors="replace").splitlines()[-10:]))


def verilog(out: Path) -> None:
    """``tap.v``, with the names that the XDC uses."""
    strip = "attrmap -remove generator -remove src -remove amaranth.hierarchy -remove amaranth.decoding"
    yosys(
        [f"read_rtlil {NAME}.il", "proc -nomux -norom", "memory_collect", strip, strip.replace("attrmap", "attrmap -modattr"),
         f"write_verilog -norename {NAME}.v"],
        out / "verilog.log", out,
    )  # fmt: skip


def resources(out: Path) -> dict[str, int]:
    """What the design takes, by Yosys' mapping, before placement."""
    plain = re.sub(r"(?<=\s)[\\$]\S*", lambda name: name[0].replace("[", "<").replace("]", ">"), (out / f"{NAME}.il").read_text())
    (out / f"{NAME}.plain.il").write_text(plain)
    yosys(
        [f"read_rtlil {NAME}.plain.il", f"hierarchy -top {NAME}", "proc", "flatten",
         f"synth_xilinx -family xc7 -top {NAME} -noiopad -noclkbuf", "tee -o stat.json stat -json"],
        out / "yosys.log", out,
    )  # fmt: skip
    text = (out / "stat.json").read_text()
    cells = json.loads(text[text.index("{") :])["design"]["num_cells_by_type"]
    return counted(cells)


def counted(cells: dict[str, int]) -> dict[str, int]:
    """Cells of Yosys by the kinds of :data:`PART`."""

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
    """The generated part of the docs."""
    from importlib.metadata import version

    lines = [f"Made by `tools/kintex7.py --resources --docs` with amaranth=={version('amaranth')}, pyosys=={version('pyosys')}.", ""]
    lines += ["| cells | used | of | |", "|---|---|---|---|"]
    lines += [f"| {kind} | {used[kind]} | {there} | {used[kind] / there * 100:.0f} % |" for kind, there in PART.items()]
    return "\n".join(lines)


def write_docs(text: str, path: Path = DOCS) -> None:
    """Put the table between its marks."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ProjectError(f"{path} has lost its marks {BEGIN!r} and {END!r}; put them back where the table goes.")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "kintex7", help="folder to write to (default: build/kintex7)")
    parser.add_argument("--resources", action="store_true", help="map the design with Yosys and say what it takes")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/target-8gt.md (with --resources)")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        elaborate(options.out)
        verilog(options.out)
        print(f"{options.out / 'build_tap.sh'} ({time.monotonic() - begin:.0f} s)")
        if options.resources:
            text = table(resources(options.out))
            print(f"{text}\n({time.monotonic() - begin:.0f} s)")
            if options.docs:
                write_docs(text)
    except ProjectError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: cannot use {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
