"""The controller: soft core, memory, registers."""

from __future__ import annotations

from collections.abc import Iterable

from amaranth import DomainRenamer, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from .bus import Bus
from .core import Core
from .crossing import RegisterCrossing
from .peripherals import PINS, Peripherals

__all__ = ["RAM_BYTES", "ROM_BYTES", "Controller"]

ROM_BYTES, RAM_BYTES = 36864, 8192
"""Sizes of the memories, as in firmware/Makefile."""


class Controller(wiring.Component):
    """Runs the firmware in the clock of the instrument.

    A register access takes three clocks, a memory access two. With ``halved``, core and memory are in the slower domain ``half``, a
    register access takes seven clocks of ``half``, and block RAMs get slices of the read-only memory.

    The component does not contain the Verilog of the core: a board's platform gets it, a simulation adds :func:`.core.verilog_path`.

    Ports
    -----
    now to deadline : the pins, :data:`.peripherals.PINS`.
    reg_addr : the instrument's register bus, word addresses 00h..7Fh and F0h..FFh.
    reg_wdata : value of a write.
    reg_we : high for one clock, never in two clocks running.
    reg_rdata : value read.
    reg_re : high in the clock that takes ``reg_rdata``.

    Parameters
    ----------
    image : the firmware, little-endian words (``firmware.hex``).
    rom_bytes, ram_bytes : sizes of the memories.
    halved : see above.
    """

    def __init__(self, image: Iterable[int], *, rom_bytes: int = ROM_BYTES, ram_bytes: int = RAM_BYTES, halved: bool = False):
        self._halved = halved
        self._memory = (list(image), rom_bytes, ram_bytes)
        super().__init__({**PINS, "reg_addr": Out(8), "reg_wdata": Out(32), "reg_we": Out(1), "reg_re": Out(1), "reg_rdata": In(32)})

    def elaborate(self, platform):
        m = Module()
        own = Peripherals()
        if self._halved:
            core, bus, registers = self._half(m, own)
        else:
            core, bus = Core(), Bus(*self._memory)
            registers = bus
            m.d.comb += [core.hold.eq(own.core_reset), own.fault.eq(bus.fault), core.irq.eq(own.irq)]
        m.submodules.core, m.submodules.bus, m.submodules.peripherals = core, bus, own
        wiring.connect(m, core.ibus, bus.ibus)
        wiring.connect(m, core.dbus, bus.dbus)
        for name, member in PINS.items():
            outer, inner = getattr(self, name), getattr(own, name)
            if not member.is_port:
                if member.flow is In:
                    wiring.connect(m, wiring.flipped(outer), inner)
                else:
                    wiring.connect(m, inner, wiring.flipped(outer))
            elif member.flow is In:
                m.d.comb += inner.eq(outer)
            else:
                m.d.comb += outer.eq(inner)
        wiring.connect(m, own.write, registers.aside)
        ours = registers.reg_addr[7] & ~registers.reg_addr[4:7].all()  # the self-test's registers are where its pattern is
        m.d.comb += [
            own.bus_addr.eq(registers.reg_addr),
            own.bus_wdata.eq(registers.reg_wdata),
            own.bus_we.eq(registers.reg_we & ours),
            own.bus_re.eq(registers.reg_re & ours),
            self.reg_addr.eq(registers.reg_addr),
            self.reg_wdata.eq(registers.reg_wdata),
            self.reg_we.eq(registers.reg_we & ~ours),
            self.reg_re.eq(registers.reg_re & ~ours),
            registers.reg_rdata.eq(Mux(ours, own.bus_rdata, self.reg_rdata)),
        ]
        return m

    def _half(self, m: Module, own: Peripherals) -> tuple[Core, Bus, RegisterCrossing]:
        """Place core and memory in ``half``; return both, and the crossing to the registers."""
        half = DomainRenamer("half")
        core, bus = half(Core()), half(Bus(*self._memory, sliced=True))
        m.submodules.crossing = crossing = RegisterCrossing()
        m.submodules += [
            FFSynchronizer(own.core_reset, core.hold, o_domain="half"),
            FFSynchronizer(own.irq, core.irq, o_domain="half"),
            FFSynchronizer(bus.fault, own.fault),
        ]
        m.d.comb += [
            crossing.addr.eq(bus.reg_addr),
            crossing.wdata.eq(bus.reg_wdata),
            crossing.we.eq(bus.reg_we),
            crossing.re.eq(bus.reg_re),
            bus.reg_rdata.eq(crossing.rdata),
            bus.reg_wait.eq(crossing.wait),
        ]
        return core, bus, crossing
