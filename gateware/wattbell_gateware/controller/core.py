"""VexRiscv, from the Python package luna-soc: RV32IMC, machine mode, an instruction cache, two Wishbone buses."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from amaranth import ClockSignal, Const, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Core", "verilog_path", "wishbone"]

_FILE = "gateware/cpu/verilog/vexriscv/vexriscv_imc.v"


def verilog_path() -> Path:
    """Return the core's Verilog in the installed package, without importing the package.

    Raises FileNotFoundError, which says how to install it.
    """
    found = importlib.util.find_spec("luna_soc")
    path = Path(found.submodule_search_locations[0], _FILE) if found and found.submodule_search_locations else None
    if path is None or not path.exists():
        raise FileNotFoundError("the soft core's Verilog is in the Python package luna-soc: pip install luna-soc==0.3.2")
    return path


def wishbone() -> wiring.Signature:
    """Return the signature: Wishbone B4, classic cycles, 32 bits, word addresses.

    There is no ``err``: the core's data bus ignores it and waits on.
    """
    return wiring.Signature(
        {
            "cyc": Out(1),
            "stb": Out(1),
            "we": Out(1),
            "adr": Out(30),
            "sel": Out(4),
            "dat_w": Out(32),
            "dat_r": In(32),
            "ack": In(1),
        }
    )


class Core(wiring.Component):
    """Starts at address 0 when ``hold`` goes low. ``irq`` is bit 0 of its external interrupts, which ends WFI."""

    def __init__(self):
        super().__init__({"hold": In(1), "irq": In(1), "ibus": Out(wishbone()), "dbus": Out(wishbone())})

    def elaborate(self, platform):
        m = Module()
        if platform is not None:
            path = verilog_path()
            platform.add_file(path.name, path.read_text())
        ports: dict[str, object] = {}
        for name, bus in (("iBusWishbone", self.ibus), ("dBusWishbone", self.dbus)):
            ports |= {
                f"o_{name}_{theirs}": getattr(bus, ours)
                for theirs, ours in (("CYC", "cyc"), ("STB", "stb"), ("WE", "we"), ("ADR", "adr"), ("SEL", "sel"), ("DAT_MOSI", "dat_w"))
            }
            ports |= {f"i_{name}_DAT_MISO": bus.dat_r, f"i_{name}_ACK": bus.ack, f"i_{name}_ERR": Const(0, 1)}
        m.submodules.vexriscv = Instance(
            "VexRiscv",
            i_clk=ClockSignal(),
            i_reset=ResetSignal() | self.hold,
            i_externalResetVector=Const(0, 32),
            i_externalInterruptArray=self.irq,
            i_timerInterrupt=Const(0),
            i_softwareInterrupt=Const(0),
            **ports,
        )
        return m
