"""Builds the controller for a simulator and runs its bench.

python run.py icarus
"""

import sys
from pathlib import Path

from cocotb_tools.runner import get_runner

HERE = Path(__file__).parent
sim = sys.argv[1]
build = Path(sys.argv[2])
runner = get_runner(sim)
runner.build(
    sources=[HERE / "controller.v"],
    hdl_toplevel="controller",
    build_dir=build,
    timescale=("1ns", "1ps"),
    build_args=["-Wno-fatal", "-O1"] if sim == "verilator" else [],
)
for bug in range(4):
    runner.test(
        test_module="bench",
        hdl_toplevel="controller",
        build_dir=build,
        test_dir=HERE,
        results_xml=str(build / f"r{bug}.xml"),
        plusargs=[f"+bug={bug}"],
        timescale=("1ns", "1ps"),
    )
