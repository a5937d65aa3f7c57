"""Runs cocotb tests of the package's models from pytest, on a module without a circuit: the models need a simulator, and no design."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from cocotb_tools.runner import get_runner

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "cocotbext"


def paths() -> str:
    """Return PYTHONPATH of a simulation: the package and the tests, and nothing else of this repository."""
    return os.pathsep.join((str(PACKAGE), str(ROOT)))


def run(module: str, folder: Path, *, testcase: str | None = None, env: dict[str, str] | None = None, before: Sequence[str] = ()) -> None:
    """Run a cocotb module in Icarus Verilog. Raises AssertionError with the end of the log if a test fails or none ran.

    module: name in this folder, or full name
    before: modules that cocotb imports before it
    """
    top = folder / "top.v"
    top.write_text("module top;\nendmodule\n")
    runner = get_runner("icarus")
    log = folder / "run.log"
    runner.build(sources=[top], hdl_toplevel="top", build_dir=folder, timescale=("1ns", "1ps"), log_file=folder / "build.log")
    try:
        results = runner.test(
            test_module=[*before, module if "." in module else f"tests.nvmetap_models.{module}"],
            hdl_toplevel="top",
            build_dir=folder,
            test_dir=folder,
            results_xml=str(folder / "results.xml"),
            testcase=testcase,
            seed=1,
            timescale=("1ns", "1ps"),
            extra_env={"PYTHONPATH": paths(), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            log_file=log,
        )
    except (SystemExit, RuntimeError) as stop:
        raise AssertionError(f"the simulation broke off ({stop}):\n{log.read_text()[-6000:]}") from None
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    failed = [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    assert cases and not failed, f"failed: {failed}\n{log.read_text()[-6000:]}"
