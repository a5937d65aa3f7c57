"""Models of cells that Yosys has no model for (sim/rig/cells), for the gate-level run of tests/slow/test_gates.py."""

from pathlib import Path

from tests.gateware import harness
from tests.gateware.cells.cells import Bench

CELLS = harness.ROOT / "sim/rig/cells"


def test_cells() -> None:
    name = "cells"
    bench = Bench()
    ports = [(path[0], member) for path, member, _ in bench.signature.flatten(bench)]
    pins = ", ".join(f"{'input' if member.flow.name == 'In' else 'output'} [{member.shape - 1}:0] {port}" for port, member in ports)
    wrapper = f"module {name}({pins});\n{name}_dut dut({', '.join(f'.{port}({port})' for port, _ in ports)});\nendmodule\n"
    models = "\n".join(path.read_text() for path in sorted(CELLS.glob("*.v")))
    harness.run(bench, name=name, test_module="cocotb_cells", here=Path(__file__), wrapper=wrapper + models)
