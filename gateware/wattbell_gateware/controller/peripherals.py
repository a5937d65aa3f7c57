"""The controller's peripherals: everything behind its own registers."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.controller_registers import BOARD, board_by_name

from ..deadlines import earliest
from ..nvme import COMPLETION
from ..queue import Queue
from ..rail.config import FLAGS
from .bank import Bank
from .bus import WRITE
from .i2c import I2c
from .load import Load
from .meter import WORDS, PowerMeter
from .power import PowerSwitch
from .system import NEVER, System
from .trigger import Trigger

__all__ = ["CONSOLE_DEPTH", "PINS", "Peripherals"]

CONSOLE_DEPTH = 64
"""Bytes in each direction of the console."""
_LAST = 0xEF
"""The self-test's registers, from F0h on, are the instrument's."""
PINS = {
    "now": In(64), "link": In(32), "link_state": In(4), "perst_n": In(1), "clkreq_n": In(1), "rail_good": In(1),
    "rail_valid": In(1), "rail_tick": In(64), "rail_period": In(32), "rail_v": In(signed(24)), "rail_i": In(signed(24)),
    "rail_flags": In(FLAGS), "rail_v_code": In(18), "rail_i_code": In(18), "rail_f_code": In(18),
    "rail_guard": In(signed(24)), "rail_beyond": In(1),
    "completed": In(1), "completion": In(COMPLETION), "watched": Out(3),
    "convert": Out(1), "rail_wanted": Out(1), "rail_level": Out(signed(24)), "zero": Out(2),
    "console_in": In(stream.Signature(8)), "console_out": Out(stream.Signature(8)),
    "load_switch": Out(1), "load": Out(2), "perst_low": Out(1), "clkreq_low": Out(1),
    "scl_i": In(1), "sda_i": In(1), "scl_low": Out(1), "sda_low": Out(1), "active": Out(1), "deadline": Out(64),
}  # fmt: skip
"""Ports of the controller besides its buses: see docs/controller.md."""


class Peripherals(wiring.Component):
    """Serves word addresses 80h..FFh. ``bus_rdata`` follows ``bus_addr`` in the same clock; a write takes effect two clocks later.

    Ports
    -----
    now to deadline : the pins, :data:`PINS`.
    bus_addr : the lower 7 bits of the word address.
    bus_wdata : value of a write.
    bus_we : one clock for each write.
    bus_re : one clock for each read.
    bus_rdata : value read.
    write : writes of the trigger and the test load to the instrument.
    irq : of the core, see :class:`.system.System`.
    fault : of the core, see :class:`.system.System`.
    core_reset : of the core, see :class:`.system.System`.
    """

    def __init__(self):
        super().__init__(
            {
                **PINS,
                "bus_addr": In(7),
                "bus_wdata": In(32),
                "bus_we": In(1),
                "bus_re": In(1),
                "bus_rdata": Out(32),
                "irq": Out(1),
                "fault": In(1),
                "core_reset": Out(1),
                "write": Out(stream.Signature(WRITE)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        there = [register for register in BOARD if register.address <= _LAST]
        m.submodules.bank = bank = Bank(there, elsewhere=("IRQ_ENABLE", "WATCHDOG_TIMEOUT", "LOAD_PULSES"), outside=WORDS)
        m.submodules.system = system = System()
        m.submodules.power = power = PowerSwitch()
        m.submodules.i2c = i2c = I2c()
        m.submodules.meter = meter = PowerMeter()
        m.d.comb += [
            bank.addr.eq(self.bus_addr),
            bank.wdata.eq(self.bus_wdata),
            bank.we.eq(self.bus_we),
            bank.re.eq(self.bus_re),
            self.bus_rdata.eq(bank.rdata),
            bank.link.eq(self.link),
        ]
        m.submodules.trigger = trigger = Trigger()
        m.submodules.load = load = Load()
        for block in (system, power, meter, trigger, load):
            m.d.comb += [block.now.eq(self.now), block.data.eq(bank.data)]
        has_byte, room = self._console(m, bank)
        self._meter(m, bank, meter)
        self._trigger(m, bank, trigger, meter)
        self._load(m, bank, load, trigger)
        busy, byte = i2c.state[0], Signal(64)
        m.d.comb += byte.eq(Mux(busy, self.now + i2c.left, NEVER))
        pending = {
            "CONSOLE_IN": has_byte,
            "CONSOLE_OUT": room,
            "WAKE": system.wake_pending,
            "METER": ~meter.busy,
            "POWER": power.power_trip.any(),
            "TRIGGER": trigger.trigger_state[1],
            "I2C": ~busy,
        }
        m.d.comb += [
            bank.irq_pending.eq(Cat(pending[b.name] for b in board_by_name("IRQ_PENDING").bits)),
            system.pending.eq(bank.irq_pending),
            system.wake.eq(Cat(bank.wake_lo, bank.wake_hi)),
            self.active.eq(bank.active),
            self.deadline.eq(earliest([system.deadline, byte, trigger.deadline, load.deadline])),
            meter.abort.eq(system.restart),
            self.zero.eq(bank.afe),
            load.restart.eq(system.restart),
            load.allowed.eq(power.load_switch),
            self.load.eq(load.load),
            self.rail_wanted.eq(meter.wanted | power.wanted | trigger.wants_samples),
            self.rail_level.eq(power.level),
            self.convert.eq(bank.meter_control[0]),
            self.irq.eq(system.irq),
            system.fault.eq(self.fault),
            self.core_reset.eq(system.core_reset),
        ]
        _same_names(m, bank, system, "irq_enable", "watchdog_timeout", "watchdog_kick", "reset_cause", "restart")
        self._power(m, bank, power)
        m.d.comb += [
            i2c.now.eq(self.now),
            i2c.command.eq(bank.data),
            i2c.command_written.eq(bank.i2c_command_written),
            i2c.period.eq(bank.i2c_period),
            bank.i2c_state.eq(i2c.state),
            i2c.abort.eq(system.restart),
            i2c.scl_i.eq(self.scl_i),
            i2c.sda_i.eq(self.sda_i),
            self.scl_low.eq(i2c.scl_low),
            self.sda_low.eq(i2c.sda_low),
        ]
        return m

    def _console(self, m: Module, bank: Bank) -> tuple[Value, Value]:
        """Gives whether there is a byte, and whether there is room for one."""
        m.submodules.console_in = into = Queue(8, CONSOLE_DEPTH)
        m.submodules.console_out = out = Queue(8, CONSOLE_DEPTH)
        wiring.connect(m, wiring.flipped(self.console_in), into.i)
        wiring.connect(m, out.o, wiring.flipped(self.console_out))
        m.d.comb += [
            bank.console_in.eq(Mux(into.o.valid, Cat(into.o.payload, Const(1, 1)), 0)),
            into.o.ready.eq(bank.console_in_taken),
            out.i.payload.eq(bank.data),
            out.i.valid.eq(bank.console_out_written),
            bank.console_state.eq(out.i.ready),
        ]
        return into.o.valid, out.i.ready

    def _meter(self, m: Module, bank: Bank, meter: PowerMeter) -> None:
        c = meter.conversion
        m.d.comb += [
            meter.converted.eq(self.rail_valid),
            c.tick.eq(self.rail_tick),
            c.period.eq(self.rail_period),
            c.v.eq(self.rail_v),
            c.i.eq(self.rail_i),
            c.flags.eq(self.rail_flags),
            c.v_code.eq(self.rail_v_code),
            c.i_code.eq(self.rail_i_code),
            c.f_code.eq(self.rail_f_code),
            meter.meter_control.eq(bank.meter_control),
            meter.meter_count.eq(bank.meter_count),
            meter.meter_command_written.eq(bank.meter_command_written),
            bank.meter_state.eq(meter.meter_state),
            meter.addr.eq(self.bus_addr),
            meter.re.eq(self.bus_re),
            bank.word.eq(meter.word),
        ]

    def _trigger(self, m: Module, bank: Bank, trigger: Trigger, meter: PowerMeter) -> None:
        for name in ("control", "level", "hysteresis", "opcode", "latency", "match", "action", "delay"):
            m.d.comb += getattr(trigger, f"trigger_{name}").eq(getattr(bank, f"trigger_{name}"))
        for name in ("perst_n", "clkreq_n", "link_state", "completed", "completion"):
            m.d.comb += getattr(trigger, name).eq(getattr(self, name))
        _same_names(m, bank, trigger, "trigger_command")
        m.d.comb += [
            trigger.trigger_lba_first.eq(Cat(bank.trigger_lba_first_lo, bank.trigger_lba_first_hi)),
            trigger.trigger_lba_last.eq(Cat(bank.trigger_lba_last_lo, bank.trigger_lba_last_hi)),
            bank.trigger_state.eq(trigger.trigger_state),
            Cat(bank.trigger_tick_lo, bank.trigger_tick_hi).eq(trigger.trigger_tick),
            trigger.sampled.eq(meter.sampled),
            trigger.sample.eq(meter.sample),
            meter.start.eq(trigger.start_gate),
        ]

    def _load(self, m: Module, bank: Bank, load: Load, trigger: Trigger) -> None:
        """Connect the load. Its writes give way to the trigger's, and its edge moves with its write."""
        _same_names(m, bank, load, "load_pulses")
        m.d.comb += [
            load.load_control.eq(bank.load_control),
            self.watched.eq(trigger.watched | load.busy << 2),
            self.write.valid.eq(trigger.write.valid | load.write.valid),
            self.write.payload.eq(Mux(trigger.write.valid, trigger.write.payload, load.write.payload)),
            trigger.write.ready.eq(self.write.ready),
            load.write.ready.eq(self.write.ready & ~trigger.write.valid),
        ]

    def _power(self, m: Module, bank: Bank, power: PowerSwitch) -> None:
        control = {b.name: bank.power_control[b.low] for b in board_by_name("POWER_CONTROL").bits}
        for name in ("power_control", "ocp_level", "ocp_count", "inrush_level", "inrush_ticks"):
            m.d.comb += getattr(power, name).eq(getattr(bank, name))
        _same_names(m, bank, power, "power_trip")
        m.d.comb += [
            power.rail_valid.eq(self.rail_valid),
            power.rail_tick.eq(self.rail_tick),
            power.rail_guard.eq(self.rail_guard),
            power.rail_beyond.eq(self.rail_beyond),
            Cat(bank.trip_tick_lo, bank.trip_tick_hi).eq(power.trip_tick),
            bank.trip_current.eq(power.trip_current),
            bank.power_state.eq(Cat(power.load_switch, self.rail_good, self.perst_n, self.clkreq_n, self.link_state)),
            self.load_switch.eq(power.load_switch),
            self.perst_low.eq(control["PERST"]),
            self.clkreq_low.eq(control["CLKREQ"]),
        ]


def _same_names(m: Module, bank: Bank, block: wiring.Component, *names: str) -> None:
    """Connect the registers that ``block`` keeps: their values, and the strobes of writes."""
    for name in names:
        if hasattr(bank, name) and hasattr(block, name):
            m.d.comb += getattr(bank, name).eq(getattr(block, name))
        m.d.comb += getattr(block, f"{name}_written").eq(getattr(bank, f"{name}_written"))
