"""The test load with everything that its writes pass: the core's bus and the instrument's register file."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_gateware.controller.bus import Bus
from wattbell_gateware.controller.load import Load
from wattbell_gateware.regfile import RegisterFile
from wattbell_spec.controller_registers import BASE

__all__ = ["LoadTop"]


class LoadTop(wiring.Component):
    """Ports
    -----
    marked : the instrument sees a write to MARKER in this cycle; the event gets this cycle's tick.
    mark : value of that write.
    reading : while high, the core reads one register after the other.
    """

    now: In(64)
    data: In(32)
    written: In(1)
    control: In(2)
    allowed: In(1)
    restart: In(1)
    reading: In(1)
    marked: Out(1)
    mark: Out(32)
    load: Out(2)
    left: Out(11)
    deadline: Out(64)

    def elaborate(self, platform):
        m = Module()
        m.submodules.load = load = Load()
        m.submodules.bus = bus = Bus([], 64, 64)
        m.submodules.regs = regs = RegisterFile({})
        wiring.connect(m, load.write, bus.aside)
        m.d.comb += [
            load.now.eq(self.now),
            load.data.eq(self.data),
            load.load_pulses_written.eq(self.written),
            load.load_control.eq(self.control),
            load.allowed.eq(self.allowed),
            load.restart.eq(self.restart),
            bus.dbus.cyc.eq(self.reading),
            bus.dbus.stb.eq(self.reading),
            bus.dbus.adr.eq(BASE // 4),
            bus.dbus.sel.eq(0xF),
            regs.addr.eq(bus.reg_addr),
            regs.wdata.eq(bus.reg_wdata),
            regs.we.eq(bus.reg_we),
            bus.reg_rdata.eq(regs.rdata),
            self.marked.eq(regs.marker_written),
            self.mark.eq(regs.marker),
            self.load.eq(load.load),
            self.left.eq(load.load_pulses),
            self.deadline.eq(load.deadline),
        ]
        return m
