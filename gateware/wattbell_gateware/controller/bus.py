"""The core's two buses, with read-only memory for the firmware, RAM and the registers behind them."""

from __future__ import annotations

from collections.abc import Iterable

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from wattbell_spec.controller_registers import BASE

from .core import wishbone
from .rom import Rom

__all__ = ["RAM_BASE", "WRITE", "Bus"]

RAM_BASE = 0x1000_0000
"""Base address of the RAM, as in firmware/target/memory.ld; the read-only memory begins at 0."""
_REGISTERS = 256
WRITE = data.StructLayout({"address": 8, "value": 32})
"""A write to a register by another part than the core."""


class Bus(wiring.Component):
    """Serves an access to memory in two clocks and an access to a register in three.

    The core fetches from the read-only memory alone; elsewhere it finds 0, an illegal instruction. Some accesses never end: loads and
    stores at unused addresses, stores to the read-only memory, and stores of less than a word to a register. Then ``fault`` is high,
    and the core must be restarted, because it has no exception for them.

    Ports
    -----
    ibus : the core's bus of instructions.
    dbus : the core's bus of data.
    reg_addr : word address of a register; keeps its value until the next access.
    reg_wdata : value of a write.
    reg_we : strobe of one clock.
    reg_re : strobe of one clock.
    reg_rdata : value read, taken in the first clock from ``reg_re`` on in which ``reg_wait`` is low.
    reg_wait : holds a read.
    fault : the access never ends.
    aside : a write by another part; taken in a clock in which the core begins no access to a register.

    Parameters
    ----------
    image : the firmware, little-endian words.
    rom_bytes, ram_bytes : sizes, multiples of 4.
    sliced : :class:`.rom.Rom`.
    """

    def __init__(self, image: Iterable[int], rom_bytes: int, ram_bytes: int, *, sliced: bool = False):
        self._sliced = sliced
        self._image, self._rom_words, self._ram_words = list(image), rom_bytes // 4, ram_bytes // 4
        if len(self._image) > self._rom_words:
            raise ValueError(f"the firmware has {len(self._image)} words, the memory {self._rom_words}")
        super().__init__(
            {
                "ibus": In(wishbone()),
                "dbus": In(wishbone()),
                "reg_addr": Out(8),
                "reg_wdata": Out(32),
                "reg_we": Out(1),
                "reg_re": Out(1),
                "reg_rdata": In(32),
                "reg_wait": In(1),
                "fault": Out(1),
                "aside": In(stream.Signature(WRITE)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rom = rom = Rom(self._image, self._rom_words, sliced=self._sliced)
        m.submodules.ram = ram = Memory(shape=32, depth=self._ram_words, init=[])
        fetched, constant = rom.ports
        loaded, stored = ram.read_port(), ram.write_port(granularity=8)
        ibus, dbus = self.ibus, self.dbus

        there = Signal()
        m.d.comb += [fetched.addr.eq(ibus.adr), ibus.dat_r.eq(Mux(there, fetched.data, 0))]
        m.d.sync += [ibus.ack.eq(ibus.cyc & ibus.stb & ~ibus.ack), there.eq(ibus.adr < self._rom_words)]

        wanted, in_rom, in_ram, in_registers, under_way, ends = Signal(), Signal(), Signal(), Signal(), Signal(), Signal()
        shown, from_rom, from_ram = Signal(32), Signal(), Signal()
        m.d.comb += [
            ends.eq(under_way & ~self.reg_wait),
            wanted.eq(dbus.cyc & dbus.stb & ~dbus.ack & ~under_way),
            in_rom.eq((dbus.adr < self._rom_words) & ~dbus.we),
            in_ram.eq((dbus.adr >= RAM_BASE // 4) & (dbus.adr < RAM_BASE // 4 + self._ram_words)),
            in_registers.eq((dbus.adr[8:] == BASE // 4 // _REGISTERS) & (~dbus.we | dbus.sel.all())),
            constant.addr.eq(dbus.adr),
            loaded.addr.eq(dbus.adr),
            stored.addr.eq(dbus.adr),
            stored.data.eq(dbus.dat_w),
            self.aside.ready.eq(~(wanted & in_registers)),
            stored.en.eq((wanted & in_ram & dbus.we).replicate(4) & dbus.sel),
        ]
        with m.If(from_rom):
            m.d.comb += dbus.dat_r.eq(constant.data)
        with m.Elif(from_ram):
            m.d.comb += dbus.dat_r.eq(loaded.data)
        with m.Else():
            m.d.comb += dbus.dat_r.eq(shown)
        m.d.sync += [
            dbus.ack.eq((wanted & (in_rom | in_ram)) | ends),
            self.fault.eq(wanted & ~in_rom & ~in_ram & ~in_registers),
            from_rom.eq(wanted & in_rom),
            from_ram.eq(wanted & in_ram),
            under_way.eq((wanted & in_registers) | (under_way & self.reg_wait)),
            self.reg_we.eq((wanted & in_registers & dbus.we) | (self.aside.valid & self.aside.ready)),
            self.reg_re.eq(wanted & in_registers & ~dbus.we),
        ]
        with m.If(wanted & in_registers):
            m.d.sync += [self.reg_addr.eq(dbus.adr), self.reg_wdata.eq(dbus.dat_w)]
        with m.Elif(self.aside.valid):
            m.d.sync += [self.reg_addr.eq(self.aside.p.address), self.reg_wdata.eq(self.aside.p.value)]
        with m.If(ends):
            m.d.sync += shown.eq(self.reg_rdata)
        return m
