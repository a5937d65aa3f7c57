"""Builds the example's SoC with LiteX, simulates it, and prints the tap's records.

    build/litex/bin/python examples/litex/run.py

Exit code 1 if the records are not what the host did.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from cocotb_tools import config
from cocotb_tools.runner import get_runner
from soc import write_verilog
from wattbell_gateware.tap import generate

HERE = Path(__file__).resolve().parent
TAP = "wattbell_tap_64_small"
NS_A_TICK = 2
"""A clock of 8 ns has four ticks."""


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/litex/example"), help="folder for everything made (default: %(default)s)")
    parser.add_argument("--endianness", choices=["big", "little"], default="big", help="the PHY's order of payload bytes: 7 series is big")
    arguments = parser.parse_args()
    folder = arguments.out.resolve() / arguments.endianness
    tap_file = arguments.out.resolve() / f"{TAP}.v"
    generate(tap_file.parent, [TAP], "0")
    sources = write_verilog(folder, tap_file, arguments.endianness)
    verilate(folder, sources)
    records = folder / "records.json"
    for old in folder.glob("records.*.json"):
        old.unlink()
    env = {"ENDIANNESS": arguments.endianness, "RECORDS": str(records), "PYTHONPATH": str(HERE)}
    results = get_runner("verilator").test(
        test_module="bench",
        hdl_toplevel="drive_soc",
        hdl_toplevel_lang="verilog",
        build_dir=folder,
        test_dir=folder,
        extra_env=env,
        log_file=folder / "run.log",
        results_xml=str(folder / "results.xml"),
    )
    for made in sorted(folder.glob("records.*.json")):
        print(f"interrupt messages by {made.stem.partition('.')[2]}:")
        show(json.loads(made.read_text(encoding="utf-8")))
    cases = list(ElementTree.parse(results).iter("testcase"))
    failed = not cases or any(case.find("failure") is not None or case.find("error") is not None for case in cases)
    print(
        "the records are not what the host did" if failed else "each record is what the host did", file=sys.stderr if failed else sys.stdout
    )
    return int(failed)


def verilate(folder: Path, sources: list[Path]) -> None:
    """Compile the SoC for cocotb, which sees the ports of the top module alone: the tap's inner signals would cost minutes."""
    public = folder / "public.vlt"
    public.write_text('`verilator_config\npublic_flat_rw -module "drive_soc" -var "*"\n', encoding="utf-8")
    libraries, bench = config.libs_dir, Path(config.share_dir) / "lib" / "verilator" / "verilator.cpp"
    linking = f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator"
    options = ["--cc", "--exe", "--vpi", "-Mdir", str(folder), "--top-module", "drive_soc", "--prefix", "Vtop", "-o", "drive_soc"]
    options += ["-Wno-fatal", "--timescale", "1ns/1ps", "--output-split", "20000", "-LDFLAGS", linking]
    with (folder / "build.log").open("w", encoding="utf-8") as log:
        command = ["verilator", *options, str(bench), str(public), *map(str, sources)]
        subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=True)
        make = ["make", "-C", str(folder), "-f", "Vtop.mk", "-j", "2", "OPT_FAST=-O0", "OPT_SLOW=-O0", "OPT_GLOBAL=-O0"]
        subprocess.run(make, stdout=log, stderr=log, check=True)


def show(records: list[dict[str, int]]) -> None:
    """Print a line for each record, times in ns."""
    print("queue  CID  opcode  SLBA  blocks  doorbell-fetch  fetch-data  data  data-CQE  CQE-head  (ns)")
    for r in records:
        data = bool(r["qid"])
        ages = [r["doorbell_before"] - r["fetch_before"]]
        ages += (
            [r["fetch_before"] - r["first_data_before"], r["first_data_before"] - r["last_data_before"], r["last_data_before"]]
            if data
            else []
        )
        times = [str(NS_A_TICK * age) for age in ages] + [""] * (4 - len(ages)) + [str(NS_A_TICK * r["cq_head_after"])]
        place = [str(r["slba"]), str(r["blocks"])] if data else ["", ""]
        cells = [str(r["qid"]), f"{r['cid']:03x}", f"{r['opcode']:02x}h", *place, *times]
        print("".join(cell.rjust(width) for cell, width in zip(cells, (5, 5, 8, 6, 8, 16, 12, 6, 10, 10), strict=True)))


if __name__ == "__main__":
    sys.exit(main())
