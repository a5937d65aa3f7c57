"""Conversion of an Amaranth component to Verilog text, with the native Yosys of the ``pyosys`` package.

Amaranth's own ``verilog.convert`` fails on always-ready streams at the top level and calls the WebAssembly Yosys. The passes are
the same as there: every part with a meaning stays Amaranth's RTLIL.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Fragment, Value
from amaranth.lib import wiring

from .toolchain import yosys

_NOT_OURS = "-remove generator -remove top -remove src -remove amaranth.hierarchy -remove amaranth.decoding"
PASSES = ("proc -nomux -norom", "memory_collect", f"attrmap {_NOT_OURS}", f"attrmap -modattr {_NOT_OURS}")

_CONSTANT = re.compile(r"always @\*\n( +\S+ (?:\[[0-9:]+\] )?(?:\[[0-9:]+\] )?= [0-9]+'h[0-9a-f]+;)")


def ports_of(component: Elaboratable) -> list[Value]:
    """Return the signals of the component's signature, without members that are constants."""
    ports = []
    for _path, _member, value in component.signature.flatten(component):
        signal = Value.cast(value)
        if not hasattr(signal, "value"):  # the constant `ready` of an always-ready stream
            ports.append(signal)
    return ports


def rtlil_of(component: Elaboratable, name: str) -> str:
    """Return RTLIL of a component with a signature, the same in every process.

    Amaranth makes ports of the clocks that a design uses and does not define, in the order of a set. Here their names give the order.
    """
    ports = ports_of(component)
    design = Fragment.get(component, None).prepare(ports, hierarchy=(name,))
    design.ports[len(ports) :] = sorted(design.ports[len(ports) :], key=lambda port: port[0])
    text, _names = rtlil.convert_fragment(design, name=name, emit_src=False)
    return text


def convert(component: Elaboratable, name: str) -> str:
    """Return Verilog of `component` as module `name`; its ports are called ``member__submember``.

    Raises :class:`TypeError` for a component without a signature, and :class:`.toolchain.BuildError` if Yosys fails.
    """
    if not isinstance(component.signature, wiring.Signature):
        raise TypeError(f"{component!r} has no signature to make ports of")
    text = rtlil_of(component, name)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "design.il"), Path(folder, "design.v")
        source.write_text(text)
        yosys([f"read_rtlil {source}", *PASSES, f"write_verilog -norename {target}"], Path(folder, "log"), Path(folder))
        # Yosys writes a constant part of a signal as a process without inputs, which no simulator ever runs.
        return _CONSTANT.sub(r"initial\n\1", target.read_text())
