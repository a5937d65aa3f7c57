"""Runs cocotb tests on an Amaranth component under Verilator, from pytest.

    def test_it():
        harness.run(Component(...), name="component_64", test_module="cocotb_component", here=__file__)

The cocotb module is beside the pytest file and not named ``test_*``, so pytest does not collect it. Models are built once per
content in ``build/gateware``, so an unchanged design costs nothing the second time. The test sees only the ports of the component.
The rest stays open to Verilator's optimiser, which makes it several times faster. Port ``a.b`` of the component is ``dut.a__b``;
clock and reset are ``dut.clk`` and ``dut.rst``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path

import cocotb_tools.config
from cocotb_tools.runner import get_runner
from wattbell_gateware import verilog

from tests.gateware.verilate import COMPILER, find_verilator

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "gateware"
PATHS = (str(ROOT), str(ROOT / "hw"))
"""Modules imported by name in simulated tests: tests.gateware.phy.traffic, afe.merge."""
OPTIMISE = "-O1"
"""C++ compiler options: models here run for seconds, so a quick build wins over a quick model."""

_ROWS = re.compile(r"^  initial begin\n((?:    (\S+)\[\d+\] = (\S+);\n)(?:    \2\[\d+\] = \3;\n)+)  end\n", re.M)


class SimulationError(AssertionError):
    """Reports that the model could not be built or a cocotb test failed; the message holds the end of the log."""


def _call(command: list[str], log: Path) -> None:
    with log.open("a") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise SimulationError(f"{' '.join(command[:3])} ... failed:\n{log.read_text()[-4000:]}")


def _loops(text: str) -> str:
    """Return Verilog that initialises memories with equal first rows by a loop. Yosys writes row by row, half of the compiler's
    input.
    """

    def loop(found: re.Match[str]) -> str:
        rows, memory, value = found.groups()
        row, count = f"{memory}_row", len(rows.splitlines())
        return f"  integer {row};\n  initial for ({row} = 0; {row} < {count}; {row} = {row} + 1) {memory}[{row}] = {value};\n"

    return _ROWS.sub(loop, text)


_RUNTIME = ("verilated", "verilated_dpi", "verilated_vpi", "verilated_threads")


def _runtime(model: Path, verilator: str) -> str:
    """Return Verilator's own library as object files, separated by blanks.

    The makefile of the first model builds it once, as it takes longer than most models.
    """
    version = subprocess.run([verilator, "--version"], capture_output=True, text=True, check=True).stdout
    folder = BUILD / f"runtime-{hashlib.sha256(f'{version}{COMPILER}{OPTIMISE}{sys.prefix}'.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            objects = [f"{name}.o" for name in _RUNTIME]
            _call(["make", "-C", str(model), "-f", "Vtop.mk", f"CXX={COMPILER}", f"OPT_GLOBAL={OPTIMISE}", *objects], model / "build.log")
            for name in objects:
                shutil.move(model / name, folder / name)
            (folder / "built").touch()
    return " ".join(str(folder / f"{name}.o") for name in _RUNTIME)


def build(component, name: str, *, wrapper: str | None = None) -> Path:
    """Verilate `component` as module `name` for cocotb; return the folder of the executable `name`.

    `wrapper` is Verilog text of a module `name` around the component, which is then called `name`_dut.
    """
    verilator = find_verilator()
    text = _loops(verilog.convert(component, name if wrapper is None else f"{name}_dut")) + (wrapper or "")
    digest = hashlib.sha256(f"{text}{COMPILER}{OPTIMISE}{Path(__file__).read_bytes()}".encode()).hexdigest()[:16]
    folder = BUILD / f"{name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "built").exists():
            return folder
        log = folder / "build.log"
        log.write_text("")
        (folder / f"{name}.v").write_text(text)
        (folder / "public.vlt").write_text(f'`verilator_config\npublic_flat_rw -module "{name}" -var "*"\n')
        libs = cocotb_tools.config.libs_dir
        bench = Path(cocotb_tools.config.share_dir) / "lib" / "verilator" / "verilator.cpp"
        _call(
            [
                verilator,
                "--cc",
                "--exe",
                "--vpi",
                "-Mdir",
                str(folder),
                "--top-module",
                name,
                "--prefix",
                "Vtop",
                "-o",
                name,
                "-Wno-fatal",
                "-Wno-WIDTH",
                "--timescale",
                "1ns/1ps",
                "-O3",
                "--output-split",
                "100000",
                "-LDFLAGS",
                f"-Wl,-rpath,{libs} -L{libs} -lcocotbvpi_verilator",
                str(bench),
                str(folder / "public.vlt"),
                str(folder / f"{name}.v"),
            ],
            log,
        )
        make = [
            "make",
            "-C",
            str(folder),
            "-f",
            "Vtop.mk",
            "-j",
            "2",
            f"CXX={COMPILER}",
            f"OPT_FAST={OPTIMISE}",
            "OPT_SLOW=-O0",
            "VM_GLOBAL_FAST=",
            f"USER_LDLIBS={_runtime(folder, verilator)}",
        ]
        if shutil.which("ccache"):
            make.append("OBJCACHE=ccache")
        _call(make, log)
        (folder / "built").touch()
    return folder


def run(
    component,
    *,
    name: str,
    test_module: str,
    here: str,
    env: Mapping[str, str] | None = None,
    testcase: str | None = None,
    seed: int = 1,
    wrapper: str | None = None,
) -> None:
    """Build `component` and run the cocotb module `test_module` of the folder of `here` on it.

    `component` may be the folder that :func:`build` returned: elaborating a large component takes seconds. The tests get `env`;
    `testcase` picks one test. Raises :class:`SimulationError` if a test fails or none ran.
    """
    folder = component if isinstance(component, Path) else build(component, name, wrapper=wrapper)
    tag = hashlib.sha256(repr((test_module, testcase, sorted((env or {}).items()), seed)).encode()).hexdigest()[:12]
    runs = folder / f"run-{test_module}-{testcase or 'all'}-{tag}"
    shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir()
    package = ".".join(Path(here).resolve().parent.relative_to(ROOT).parts)
    log = runs / "run.log"
    try:
        results = get_runner("verilator").test(
            test_module=[f"{package}.{module}" for module in test_module.split(",")],
            hdl_toplevel=name,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=runs,
            results_xml=str(runs / "results.xml"),
            testcase=testcase,
            seed=seed,
            extra_env={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join((*PATHS, *filter(None, sys.path))), **(env or {})},
            log_file=log,
        )
    except (SystemExit, RuntimeError) as stop:
        raise SimulationError(f"{name}: the simulation broke off ({stop}):\n{_tail(log)}") from None
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    failed = [c.get("name") for c in cases if c.find("failure") is not None or c.find("error") is not None]
    if failed or not cases:
        raise SimulationError(f"{name}: {f'failed: {failed}' if failed else 'no test ran'}:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text()[-6000:] if log.exists() else "(no log)"
