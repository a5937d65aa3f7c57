"""The bus side of a list of registers, made from their description."""

from __future__ import annotations

from collections.abc import Iterable

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.registers import Access, Register

__all__ = ["Bank"]


class Bank(wiring.Component):
    """Holds storage, strobes and the read multiplexer of word addresses 80h..FFh.

    ``rdata`` follows ``addr`` in the same clock; addresses without a register read 0. A register ``X`` has these ports:

    - RW: ``x``, the value, as registers.md says; not for registers in ``elsewhere``;
    - RO, TAKE, W1C, and RW in ``elsewhere``: ``x``, the value to show (in);
    - WO, W1C, and RW in ``elsewhere``: ``x_written``, high in the clock after a write, with ``data``;
    - TAKE: ``x_taken``, high in the clock of the read.

    Registers in ``outside`` have no ports of their own and read ``word``.

    Parameters
    ----------
    registers : the registers of the bank.
    elsewhere : names of RW registers with a value that their user keeps, because not only writes change it.
    outside : names of RO registers in a memory, which the user addresses.
    """

    def __init__(self, registers: Iterable[Register], elsewhere: Iterable[str] = (), outside: Iterable[str] = ()):
        registers, outside = tuple(registers), frozenset(outside)
        self._registers = tuple(register for register in registers if register.name not in outside)
        self._outside = tuple(register for register in registers if register.name in outside)
        self._elsewhere = frozenset(elsewhere)
        members = {"addr": In(7), "wdata": In(32), "we": In(1), "re": In(1), "rdata": Out(32), "data": Out(32)}
        if self._outside:
            members["word"] = In(32)
        for register in self._registers:
            name = register.name.lower()
            if self._kept(register):
                members[name] = Out(register.width, init=register.reset)
            elif register.access is not Access.WO:
                members[name] = In(register.width)
            if self._strobed(register):
                members[f"{name}_written"] = Out(1)
            if register.access is Access.TAKE:
                members[f"{name}_taken"] = Out(1)
        super().__init__(members)

    def _kept(self, register: Register) -> bool:
        return register.access is Access.RW and register.name not in self._elsewhere

    def _strobed(self, register: Register) -> bool:
        return register.access in (Access.WO, Access.W1C) or (register.access is Access.RW and not self._kept(register))

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.data.eq(self.wdata)
        with m.Switch(self.addr):
            for register in self._registers:
                if register.access is not Access.WO:
                    with m.Case(register.address & 0x7F):
                        m.d.comb += self.rdata.eq(getattr(self, register.name.lower()))
            if self._outside:
                with m.Case(*(register.address & 0x7F for register in self._outside)):
                    m.d.comb += self.rdata.eq(self.word)
        for register in self._registers:
            name = register.name.lower()
            hit = Signal(name=f"{name}_hit")
            m.d.comb += hit.eq(self.addr == register.address & 0x7F)
            if self._kept(register):
                with m.If(hit & self.we):
                    m.d.sync += getattr(self, name).eq(self.wdata)
            if self._strobed(register):
                m.d.sync += getattr(self, f"{name}_written").eq(hit & self.we)
            if register.access is Access.TAKE:
                m.d.comb += getattr(self, f"{name}_taken").eq(hit & self.re)
        return m
