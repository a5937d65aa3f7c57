"""Register bus of the instrument, made from the map in :mod:`wattbell_spec.registers`."""

from __future__ import annotations

from collections.abc import Iterable

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.registers import MAP, Access

__all__ = ["RegisterFile"]


class RegisterFile(wiring.Component):
    """Stores the RW registers, and gives write strobes and the read value.

    Ports
    -----
    addr : address of a register.
    wdata : value to write.
    we : write ``wdata`` in this clock.
    rdata : value of the register at ``addr``, in the same clock.
    quiet : no write is happening, and no strobe is high.
    x : port of register ``X``. RW: its value, out. RO: the value to show, in. WO: the written value, out; 0 except in the clock
        after a write.
    x_written : RW and WO: high in the clock after a write.

    Parameters
    ----------
    reset : power-on values by register name, which replace the map's. They depend on the build.
    absent : names of registers that this build does not have; their addresses read 0.
    """

    def __init__(self, reset: dict[str, int], absent: Iterable[str] = ()):
        self._map = [register for register in MAP if register.name not in frozenset(absent)]
        members = {"addr": In(8), "wdata": In(32), "we": In(1), "rdata": Out(32), "quiet": Out(1)}
        for register in self._map:
            name = register.name.lower()
            if register.access is Access.RO:
                members[name] = In(register.width)
                continue
            members[name] = Out(register.width, init=reset.get(register.name, register.reset))
            members[f"{name}_written"] = Out(1)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        strobes = []
        with m.Switch(self.addr):
            for register in self._map:
                if register.access is not Access.WO:
                    with m.Case(register.address):
                        m.d.comb += self.rdata.eq(getattr(self, register.name.lower()))
        for register in self._map:
            if register.access is Access.RO:
                continue
            value = getattr(self, register.name.lower())
            written = getattr(self, f"{register.name.lower()}_written")
            strobes.append(written)
            hit = Signal(name=f"{register.name.lower()}_hit")
            m.d.comb += hit.eq(self.we & (self.addr == register.address))
            m.d.sync += written.eq(hit)
            with m.If(hit):
                m.d.sync += value.eq(self.wdata)
            if register.access is Access.WO:
                with m.Elif(written):
                    m.d.sync += value.eq(0)
        m.d.comb += self.quiet.eq(~self.we & ~Cat(strobes).any())
        return m
