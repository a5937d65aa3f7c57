"""The trigger: watches one kind of event, remembers the tick of the first, and acts a while later."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.controller_registers import board_by_name
from wattbell_spec.nvme import LBA_OPCODES, admin, feature
from wattbell_spec.registers import by_name
from wattbell_spec.wire import TRIGGER_MARK

from ..nvme import COMPLETION
from .bus import WRITE
from .system import NEVER

__all__ = ["SAMPLE", "Trigger", "TriggerSource"]

_SET_FEATURES, _POWER_MANAGEMENT = admin("set_features"), feature("power_management")
_LBA_BITS = 40
"""Bits of a command's LBA, as in its record."""
SAMPLE = data.StructLayout({"tick": 64, "v": signed(24), "i": signed(24), "p": signed(32)})
"""A conversion, its power in units of TRIGGER_LEVEL."""


class TriggerSource:
    """Values of TRIGGER_CONTROL.SOURCE."""

    AT_ONCE, FORCE, VOLTAGE, CURRENT, POWER, CLKREQ, PERST, LINK, COMMAND, POWER_STATE = range(10)


class Trigger(wiring.Component):
    """Fires at one kind of event, keeps the tick of the first, and acts after TRIGGER_DELAY.

    TRIGGER_STATE.FIRED follows an edge, a link state or a conversion after three clocks, and a completion after four. The action begins
    four clocks later, or at TRIGGER_TICK + TRIGGER_DELAY. TRIGGER_TICK is the event's own tick, however long the event took to get here.
    Throughput: one event a clock; completions and conversions come at least 10 clocks apart.

    The trigger ignores all events before it is armed: a level must have been on the other side since. Opcodes without SLBA and NLB, DSM
    among them, have no LBA. A successful Set Features 02h enters a power state.

    Ports
    -----
    now : ticks.
    data : register, see :class:`.bank.Bank`.
    trigger_* : registers, see :class:`.bank.Bank`.
    perst_n : level.
    clkreq_n : level.
    link_state : level.
    sampled : a conversion comes.
    sample : the conversion; it stays for two clocks more.
    completed : see :class:`..instrument.Instrument`.
    completion : see :class:`..instrument.Instrument`.
    write : to a register of the instrument, for the action.
    start_gate : starts a gate, as METER_COMMAND.START does.
    wants_samples : a conversion may fire it.
    watched : for a simulator: bit 0: a change of the levels may fire it; bit 1: a completion may; bit 2: an action is to come.
    deadline : for a simulator: tick of the action, all ones for none.
    """

    def __init__(self):
        wide = {
            name.lower(): In(register.width)
            for name in (
                "TRIGGER_CONTROL",
                "TRIGGER_LEVEL",
                "TRIGGER_HYSTERESIS",
                "TRIGGER_OPCODE",
                "TRIGGER_LATENCY",
                "TRIGGER_MATCH",
                "TRIGGER_ACTION",
                "TRIGGER_DELAY",
            )
            for register in (board_by_name(name),)
        }
        super().__init__(
            {
                "now": In(64),
                "data": In(32),
                **wide,
                "trigger_lba_first": In(64),
                "trigger_lba_last": In(64),
                "trigger_command_written": In(1),
                "trigger_state": Out(2),
                "trigger_tick": Out(64),
                "perst_n": In(1),
                "clkreq_n": In(1),
                "link_state": In(4),
                "sampled": In(1),
                "sample": In(SAMPLE),
                "completed": In(1),
                "completion": In(COMPLETION),
                "write": Out(stream.Signature(WRITE)),
                "start_gate": Out(1),
                "wants_samples": Out(1),
                "watched": Out(3),
                "deadline": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = {b.name: self.trigger_control[b.low : b.low + b.width] for b in board_by_name("TRIGGER_CONTROL").bits}
        self._source, self._falling = bits["SOURCE"], bits["FALLING"]
        command = {b.name: self.trigger_command_written & self.data[b.low] for b in board_by_name("TRIGGER_COMMAND").bits}
        armed, fired = Signal(), Signal()
        starts = Signal()
        m.d.comb += [starts.eq(command["ARM"] | command["DISARM"]), self.trigger_state.eq(Cat(armed, fired))]
        rail, pins, command_source = Signal(), Signal(), Signal()
        m.d.comb += [
            rail.eq((self._source >= TriggerSource.VOLTAGE) & (self._source <= TriggerSource.POWER)),
            pins.eq((self._source >= TriggerSource.CLKREQ) & (self._source <= TriggerSource.LINK)),
            command_source.eq((self._source == TriggerSource.COMMAND) | (self._source == TriggerSource.POWER_STATE)),
            self.wants_samples.eq(armed & rail),
            self.watched[:2].eq(Cat(armed & pins, armed & command_source)),
        ]

        hits = [
            self._level(m, armed & rail & ~starts, starts),
            self._pins(m, armed & pins & ~starts),
            self._command(m, armed & command_source & ~starts, bits),
        ]
        fires, tick = Signal(), Signal(64)
        forced = (command["FORCE"] & (armed | command["ARM"])) | (command["ARM"] & (self._source == TriggerSource.AT_ONCE))
        m.d.comb += [tick.eq(self.now), fires.eq(forced | (armed & ~starts & Cat(hit for hit, _ in hits).any()))]
        with m.If(~forced):
            for hit, at in hits:
                with m.If(hit):
                    m.d.comb += tick.eq(at)
        with m.If(starts):
            m.d.sync += [armed.eq(command["ARM"]), fired.eq(0)]
        with m.If(fires):
            m.d.sync += [armed.eq(0), fired.eq(1), self.trigger_tick.eq(tick)]
        self._act(m, fires, starts)
        return m

    def _level(self, m: Module, armed: Value, starts: Value) -> tuple[Value, Value]:
        """Downwards is upwards with all bits inverted: ~x falls when x rises."""
        value, level, other_side = Signal(signed(32)), Signal(signed(32)), Signal(signed(34))
        chosen = Signal(signed(32))
        with m.Switch(self._source):
            with m.Case(TriggerSource.VOLTAGE):
                m.d.comb += chosen.eq(self.sample.v)
            with m.Case(TriggerSource.CURRENT):
                m.d.comb += chosen.eq(self.sample.i)
            with m.Default():
                m.d.comb += chosen.eq(self.sample.p)
        invert = self._falling.replicate(32)
        judged, decided, back, passed, was_back = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.sync += [
            level.eq(self.trigger_level ^ invert),
            other_side.eq(level - self.trigger_hysteresis.as_signed()),
            value.eq(chosen ^ invert),
            judged.eq(self.sampled & armed),
            decided.eq(judged & armed),
            back.eq(value <= other_side),
            passed.eq(value > level),
        ]
        with m.If(starts):
            m.d.sync += was_back.eq(0)
        with m.Elif(decided & back):
            m.d.sync += was_back.eq(1)
        return decided & was_back & passed, self.sample.tick

    def _pins(self, m: Module, armed: Value) -> tuple[Value, Value]:
        levels, before = Signal(6), Signal(6, init=0b000010)
        tick, edge, hit, state = Signal(64), Signal(), Signal(), Signal(4)
        perst, clkreq, link = levels[0], levels[1], levels[2:]
        m.d.comb += levels.eq(Cat(self.perst_n, self.clkreq_n, self.link_state))
        m.d.sync += [before.eq(levels), tick.eq(self.now), state.eq(link), edge.eq(0)]
        with m.Switch(self._source):
            with m.Case(TriggerSource.PERST):
                m.d.sync += edge.eq(armed & (perst != before[0]) & (perst != self._falling))
            with m.Case(TriggerSource.CLKREQ):
                m.d.sync += edge.eq(armed & (clkreq != before[1]) & (clkreq != self._falling))
            with m.Case(TriggerSource.LINK):
                m.d.sync += edge.eq(armed & (link != before[2:]))
        at = Signal(64)
        m.d.sync += [
            hit.eq(edge & armed & ((self._source != TriggerSource.LINK) | self.trigger_match.bit_select(state, 1))),
            at.eq(tick),
        ]
        return hit, at

    def _command(self, m: Module, armed: Value, bits: dict[str, Value]) -> tuple[Value, Value]:
        c = Signal(COMPLETION)
        got, judged, hit = Signal(), Signal(), Signal()
        m.d.sync += [got.eq(self.completed & armed), judged.eq(got & armed), hit.eq(0)]
        with m.If(self.completed & armed):
            m.d.sync += c.eq(self.completion)

        opcode = {b.name: self.trigger_opcode[b.low : b.low + b.width] for b in board_by_name("TRIGGER_OPCODE").bits}
        first, last, behind = self.trigger_lba_first, self.trigger_lba_last, Signal(_LBA_BITS + 1)
        fits, state_entered = Signal(4), Signal()
        has_lba = ~c.admin & Cat(c.opcode == op for op in LBA_OPCODES).any()
        m.d.sync += [
            behind.eq(c.lba + c.blocks),
            fits.eq(
                Cat(
                    ~bits["OPCODE"]
                    | ((((c.opcode ^ opcode["VALUE"]) & opcode["MASK"]) == 0) & Mux(c.admin, opcode["ADMIN"], opcode["IO"])),
                    ~bits["LBA"] | (has_lba & (last[_LBA_BITS:].any() | (c.lba <= last[:_LBA_BITS]))),
                    ~bits["LATENCY"] | (c.latency > self.trigger_latency),
                    ~bits["ERROR"] | c.error,
                )
            ),
            state_entered.eq(c.admin & (c.opcode == _SET_FEATURES) & (c.lba[:8] == _POWER_MANAGEMENT) & ~c.error),
        ]
        reaches = ~bits["LBA"] | (~first[_LBA_BITS + 1 :].any() & (behind > first[: _LBA_BITS + 1]))
        with m.If(self._source == TriggerSource.COMMAND):
            m.d.sync += hit.eq(judged & armed & fits.all() & reaches)
        with m.Else():
            m.d.sync += hit.eq(judged & armed & state_entered & self.trigger_match.bit_select(c.blocks[:5], 1))
        return hit, c.tick

    def _act(self, m: Module, fires: Value, starts: Value) -> None:
        """The action, from tick and delay on: the capture starts before a mark is made, and stops after it."""
        wanted = {b.name: self.trigger_action[b.low] for b in board_by_name("TRIGGER_ACTION").bits}
        control, run, marker = by_name("CONTROL").address, 1 << by_name("CONTROL").bits[0].low, by_name("MARKER").address
        steps = (("RUN", control, run), ("MARKER", marker, TRIGGER_MARK), ("STOP", control, 0))
        idle, add, wait, first = range(4)
        phase, due, reached = Signal(range(first + len(steps))), Signal(64), Signal()
        m.d.sync += [due.eq(self.trigger_tick + self.trigger_delay), reached.eq((phase == wait) & (self.now >= due))]
        m.d.comb += [self.deadline.eq(Mux(phase == wait, due, NEVER)), self.watched[2].eq(phase != idle)]
        with m.Switch(phase):
            with m.Case(add):
                m.d.sync += phase.eq(wait)
            with m.Case(wait):
                with m.If(reached):
                    m.d.comb += self.start_gate.eq(wanted["METER"])
                    m.d.sync += phase.eq(first)
            for k, (name, address, value) in enumerate(steps, first):
                with m.Case(k):
                    m.d.comb += [self.write.valid.eq(wanted[name]), self.write.p.address.eq(address), self.write.p.value.eq(value)]
                    with m.If(self.write.ready | ~wanted[name]):
                        m.d.sync += phase.eq(k + 1 if k + 1 < first + len(steps) else idle)
        with m.If(starts):
            m.d.sync += phase.eq(idle)
        with m.If(fires):
            m.d.sync += phase.eq(add)
