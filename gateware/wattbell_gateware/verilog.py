"""Amaranth component -> Verilog text, with the native Yosys of the ``pyosys`` package.

Amaranth's own ``verilog.convert`` stumbles over always-ready streams at the top level and calls the WebAssembly Yosys.
The passes are the same as there: everything that means something stays Amaranth's RTLIL.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Value
from amaranth.lib import wiring

_SCRIPT = """
import sys
from pyosys import libyosys as ys
rtlil, out = sys.argv[1:]
design = ys.Design()
for command in (
    f"read_rtlil {rtlil}",
    "proc -nomux -norom",
    "memory_collect",
    "attrmap -remove generator -remove top -remove src -remove amaranth.hierarchy -remove amaranth.decoding",
    "attrmap -modattr -remove generator -remove top -remove src -remove amaranth.hierarchy -remove amaranth.decoding",
    f"write_verilog -norename {out}",
):
    ys.run_pass(command, design)
"""

_CONSTANT = re.compile(r"always @\*\n( +\S+ (?:\[[0-9:]+\] )?(?:\[[0-9:]+\] )?= [0-9]+'h[0-9a-f]+;)")


class ConversionError(Exception):
    """Yosys refused the design; the message is what it said."""


def ports_of(component: Elaboratable) -> list[Value]:
    """The signals of the component's signature, leaving out the members that are constants."""
    ports = []
    for _path, _member, value in component.signature.flatten(component):
        signal = Value.cast(value)
        if not hasattr(signal, "value"):  # the constant `ready` of an always-ready stream
            ports.append(signal)
    return ports


def convert(component: Elaboratable, name: str) -> str:
    """Verilog of `component` as module `name`; its ports are called ``member__submember``."""
    if not isinstance(component.signature, wiring.Signature):
        raise TypeError(f"{component!r} has no signature to make ports of")
    text = rtlil.convert(component, name=name, ports=ports_of(component), emit_src=False)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "design.il"), Path(folder, "design.v")
        source.write_text(text)
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(source), str(target)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0 or not target.exists():
            raise ConversionError(f"Yosys could not convert {name}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        # A constant part of a signal comes out as a process without inputs, which no simulator ever runs.
        return _CONSTANT.sub(r"initial\n\1", target.read_text())
