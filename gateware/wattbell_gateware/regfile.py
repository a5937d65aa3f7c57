"""The register bus of the instrument, made from the map in :mod:`.registers`."""

from __future__ import annotations

from collections.abc import Iterable

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.registers import MAP, Access

__all__ = ["RegisterFile"]


class RegisterFile(wiring.Component):
    """Storage of the RW registers, write strobes, and the read multiplexer (``rdata`` in the clock of ``addr``).

    A register ``X`` has the port ``x``: the value (RW, out), the value to show (RO, in), or the value written (WO, out,
    0 but in the clock after the write). RW registers also have ``x_written``, and WO registers too, high in the clock
    after a write.

    Parameters
    ----------
    reset : power-on values that depend on the build, by register name, in place of the map's.
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
