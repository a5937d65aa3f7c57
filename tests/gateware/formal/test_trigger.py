"""The trigger fires at most once per arming, with the first event since then and its tick.

Its actions are then done once, in order and not early, or dropped because it was armed or disarmed again.

The proof is bounded, from power-on, with every input free: any register, command, edge, conversion and completion in any cycle. The
assumptions are the guarantees of docs/registers.md and of the surrounding blocks. Settings change only while nothing is armed or
pending. Hysteresis is not negative. Nothing is forced in the write that disarms. Conversions and completions come at least three
cycles apart (really at least 10), and a conversion stays for two cycles. Time advances by a cycle, or by more at once, as in a
simulation.
"""

import os

import pytest
from amaranth import Cat, Elaboratable, Module, Mux, Signal, Value, signed
from amaranth.hdl import Assert, Assume
from wattbell_gateware.controller.trigger import Trigger, TriggerSource
from wattbell_spec.nvme import LBA_OPCODES
from wattbell_spec.registers import by_name

from tests.gateware.formal import smt

LONG = os.environ.get("WATTBELL_FORMAL") == "all"
DEPTH = 14 if LONG else 12
"""Cycles. 12 hold an arming, an event, its action and the next arming; `make formal` uses some more."""
ARM, DISARM, FORCE = range(3)
SETTINGS = (
    "trigger_control",
    "trigger_level",
    "trigger_hysteresis",
    "trigger_opcode",
    "trigger_latency",
    "trigger_match",
    "trigger_action",
    "trigger_delay",
    "trigger_lba_first",
    "trigger_lba_last",
)
INPUTS = ("data", "trigger_command_written", "perst_n", "clkreq_n", "link_state", "sampled", "sample", "completed", "completion")


class Claim(Elaboratable):
    """The trigger with free inputs, which are this component's ports, and the assumptions about them.

    ``sources``: the only allowed sources. ``settled``: the settings stay as in the first cycle.
    """

    depth, settled = DEPTH, False

    def __init__(self, sources=range(10), wrong=None):
        self.wrong, self.sources = wrong, sources
        self.dut = dut = Trigger()
        self.ports = []
        for name in (*SETTINGS, *INPUTS):
            free = Signal(len(Value.cast(getattr(dut, name))), name=f"free_{name}")
            setattr(self, name, free)
            self.ports.append(free)
        self.jump, self.ready = Signal(12), Signal()
        self.ports += [self.jump, self.ready]

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        for name in INPUTS:
            m.d.comb += Value.cast(getattr(dut, name)).eq(getattr(self, name))
        now = Signal(64, init=1 << 20)
        m.d.sync += now.eq(now + 4 + (self.jump << 2))
        m.d.comb += [dut.now.eq(now), dut.write.ready.eq(self.ready)]

        self.arms, self.disarms, self.forces = (self.trigger_command_written & self.data[bit] for bit in (ARM, DISARM, FORCE))
        self.starts = self.arms | self.disarms
        self.armed, self.fired, self.acting = dut.trigger_state[0], dut.trigger_state[1], dut.watched[2]
        m.d.comb += Assume(~(self.forces & self.disarms))
        # Settings are those of the last cycle in which nothing was armed or pending (or of the first cycle).
        set_once = Signal()
        m.d.sync += set_once.eq(1)
        for name in SETTINGS:
            register = getattr(dut, name)
            kept = Signal(len(register), name=f"kept_{name}")
            m.d.sync += kept.eq(register)
            m.d.comb += register.eq(Mux(self.armed | self.acting | (set_once if self.settled else 0), kept, getattr(self, name)))
        m.d.comb += [Assume(~self.trigger_hysteresis[31]), Assume(Cat(self.trigger_control[:4] == s for s in self.sources).any())]
        # At most one event of a kind in three cycles, and a conversion that stays.
        for came in (self.sampled, self.completed):
            before = Signal(2)
            m.d.sync += before.eq(Cat(came, before))
            m.d.comb += Assume(~came | ~before.any())
        held, stays = Signal.like(self.sample), Signal(2)
        m.d.sync += [held.eq(self.sample), stays.eq(Mux(self.sampled, 2, Mux(stays == 0, 0, stays - 1)))]
        m.d.comb += Assume((stays == 0) | (self.sample == held))

        # Whether it fires, given its present and previous state.
        self.fires, was_fired, was_starting = Signal(), Signal(), Signal()
        m.d.sync += [was_fired.eq(self.fired), was_starting.eq(self.starts)]
        m.d.comb += self.fires.eq(self.fired & (~was_fired | was_starting))
        self.claim(m, now)
        return m


class FiresOncePerArming(Claim):
    """The trigger fires once per arming, and never when disarmed. ``licensed``: armed, and has not fired since."""

    def claim(self, m, now):
        licensed, asked, tick = Signal(), Signal(), Signal(64)
        m.d.sync += [asked.eq(self.arms), tick.eq(self.dut.trigger_tick)]
        may = licensed | (0 if self.wrong else asked)  # wrong: as if an arming could not fire at once
        with m.If(self.fires):
            m.d.comb += Assert(may)
            m.d.sync += licensed.eq(0)
        with m.Elif(asked):
            m.d.sync += licensed.eq(1)
        disarmed = Signal()
        m.d.sync += disarmed.eq(self.disarms & ~self.arms)
        with m.If(disarmed):
            m.d.sync += licensed.eq(0)
            m.d.comb += Assert(self.dut.trigger_state == 0)
        m.d.comb += Assert(~(self.armed & self.fired))
        with m.If(self.fired & ~self.fires):
            m.d.comb += Assert(self.dut.trigger_tick == tick)


class ActsOnce(Claim):
    """Actions come in order: capture, marker, stop; the meter once.

    Nothing comes early, without firing, or after an arming or disarming, and nothing is left when idle. ``left``: actions still to
    be done.
    """

    def claim(self, m, now):
        dut = self.dut
        marker, meter, run, stop = (dut.trigger_action[bit] for bit in range(4))
        left, metered, wanted, gone = Signal(3), Signal(), Signal(), Signal()
        control, mark = by_name("CONTROL").address, by_name("MARKER").address
        word = dut.write.p
        done = dut.write.valid & self.ready
        writes = ((control, 1), (mark, 0xFFFFFFFF), (control, 0))
        now_left = Signal(3)
        due = Signal(64)
        m.d.comb += [
            now_left.eq(Mux(self.fires, Cat(run, marker, stop), left)),
            due.eq(dut.trigger_tick + dut.trigger_delay),
        ]
        m.d.sync += left.eq(now_left)
        with m.If(dut.write.valid | dut.start_gate):
            m.d.comb += [Assert(self.fired), Assert(now >= due), Assert(~dut.start_gate | meter)]
        for n, (address, value) in enumerate(writes):
            first = now_left[n] & ~now_left[:n].any()
            with m.If(done & first):
                m.d.comb += [Assert(word.address == address), Assert(word.value == value)]
                m.d.sync += left[n].eq(0)
        with m.If(dut.write.valid):
            m.d.comb += Assert(now_left.any())
        # The meter is started once.
        with m.If(self.fires):
            m.d.sync += [metered.eq(0), wanted.eq(meter)]
        with m.If(dut.start_gate):
            m.d.comb += Assert(self.fires | ~metered)
            m.d.sync += metered.eq(1)
        with m.If(self.starts):
            m.d.sync += [left.eq(0), gone.eq(1)]
        with m.If(self.fires):
            m.d.sync += gone.eq(self.starts)
        # It is idle once all is done.
        with m.If(self.fired & ~self.fires & ~self.acting & ~gone):
            m.d.comb += [Assert(left == (1 if self.wrong else 0)), Assert(metered == wanted)]


class ActsInTime(Claim):
    """With an instrument that accepts each write at once, the trigger is done five cycles after it has fired and its time has come."""

    def claim(self, m, now):
        since = Signal(4)
        late = now >= self.dut.trigger_tick + self.dut.trigger_delay
        m.d.comb += Assume(self.ready)
        m.d.sync += since.eq(Mux(self.fired & late & ~self.starts & ~self.fires, Mux(since == 15, 15, since + 1), 0))
        with m.If(since >= (4 if self.wrong else 5)):
            m.d.comb += Assert(~self.acting)


class ItsTick(Claim):
    """The trigger fires if there was an event since the arming, with the first event's tick, or the forcing command's.

    Events are defined as in registers.md, evaluated in the cycle in which they come. The trigger has fired this many cycles later.
    """

    latency = 3

    def claim(self, m, now):
        event, tick = self.event(m, now)
        first, first_tick, age = Signal(), Signal(64), Signal(4)
        forced, forced_tick = Signal(), Signal(64)
        m.d.sync += [forced_tick.eq(now), forced.eq((self.forces & (self.armed | self.arms)) | (self.arms & (self.source == 0)))]
        with m.If(self.starts):
            m.d.sync += [first.eq(0), age.eq(0)]
        with m.Elif(event & self.armed & ~first):
            m.d.sync += [first.eq(1), first_tick.eq(tick), age.eq(1)]
        with m.Elif(first & (age != 15)):
            m.d.sync += age.eq(age + 1)
        with m.If(self.fires & ~forced):
            m.d.comb += [Assert(first), Assert(self.dut.trigger_tick == first_tick + (4 if self.wrong else 0))]
        with m.If(self.fires & forced):
            m.d.comb += Assert(self.dut.trigger_tick == forced_tick)
        with m.If(first & (age >= self.latency)):
            m.d.comb += Assert(self.fired)

    @property
    def source(self):
        return self.dut.trigger_control[:4]

    @property
    def falling(self):
        return self.dut.trigger_control[4]


class OfAnEdge(ItsTick):
    def event(self, m, now):
        before = Signal(6, init=0b000010)
        levels = Cat(self.perst_n, self.clkreq_n, self.link_state)
        m.d.sync += before.eq(levels)
        went = [(level != was) & (level != self.falling) for level, was in zip(levels[:2], before[:2])]
        entered = (self.link_state != before[2:]) & self.dut.trigger_match.bit_select(self.link_state, 1)
        event = Signal()
        m.d.comb += event.eq(
            ((self.source == TriggerSource.PERST) & went[0])
            | ((self.source == TriggerSource.CLKREQ) & went[1])
            | ((self.source == TriggerSource.LINK) & entered)
        )
        return event, now


class OfALevel(ItsTick):
    depth, settled = 9, True  # an arming, two conversions, and it has fired: more takes the solver too long

    def event(self, m, now):
        sample, wide = self.dut.sample, signed(36)
        value, level, hysteresis = Signal(wide), Signal(wide), Signal(wide)
        with m.Switch(self.source):
            with m.Case(TriggerSource.VOLTAGE):
                m.d.comb += value.eq(sample.v)
            with m.Case(TriggerSource.CURRENT):
                m.d.comb += value.eq(sample.i)
            with m.Case(TriggerSource.POWER):
                m.d.comb += value.eq(sample.p)
        m.d.comb += [level.eq(self.dut.trigger_level.as_signed()), hysteresis.eq(self.dut.trigger_hysteresis)]
        back, event = Signal(), Signal()
        # Downwards is upwards between the complements: TheComplements.
        turned = [Mux(self.falling, ~x, x) for x in (value, level)]
        with m.If(self.starts):
            m.d.sync += back.eq(0)
        with m.Elif(self.sampled & self.armed & (turned[0] <= turned[1] - hysteresis)):
            m.d.sync += back.eq(1)
        m.d.comb += event.eq(self.sampled & back & (turned[0] > turned[1]))
        return event, sample.tick


class TheComplements(Elaboratable):
    """The statement of registers.md about both directions, which OfALevel assumes."""

    def __init__(self, wrong=False):
        self.value, self.level, self.hysteresis, self.wrong = Signal(signed(32)), Signal(signed(32)), Signal(31), wrong

    def elaborate(self, platform):
        m = Module()
        value, level, hysteresis = self.value, self.level, self.hysteresis
        m.d.comb += [
            Assert((value < level) == (~value > ~level)),
            Assert((value >= level + hysteresis) == (~value <= (~level - hysteresis if not self.wrong else ~(level - hysteresis)))),
        ]
        return m


class OfACommand(ItsTick):
    latency = 4

    def event(self, m, now):
        dut, c = self.dut, self.dut.completion
        value, mask, admin, io = dut.trigger_opcode[:8], dut.trigger_opcode[8:16], dut.trigger_opcode[16], dut.trigger_opcode[17]
        by_opcode, by_lba, by_latency, by_error = (dut.trigger_control[bit] for bit in range(8, 12))
        event, has_lba, behind = Signal(), Signal(), Signal(42)
        m.d.comb += [
            has_lba.eq(~c.admin & Cat(c.opcode == opcode for opcode in LBA_OPCODES).any()),
            behind.eq(c.lba + c.blocks),
        ]
        with m.If(self.source == TriggerSource.COMMAND):
            m.d.comb += event.eq(
                (~by_opcode | (((c.opcode & mask) == (value & mask)) & Mux(c.admin, admin, io)))
                & (~by_lba | (has_lba & (c.lba <= dut.trigger_lba_last) & (behind > dut.trigger_lba_first)))
                & (~by_latency | (c.latency > dut.trigger_latency))
                & (~by_error | c.error)
            )
        with m.Else():
            m.d.comb += event.eq(
                c.admin & (c.opcode == 0x09) & (c.lba[:8] == 0x02) & ~c.error & dut.trigger_match.bit_select(c.blocks[:5], 1)
            )
        both = Signal()
        m.d.comb += both.eq(self.completed & event)
        return both, c.tick


PROOFS = [
    (FiresOncePerArming, range(10)),
    (ActsOnce, range(10)),
    (ActsInTime, range(10)),
    (OfAnEdge, range(5, 8)),
    (OfALevel, range(2, 5)),
    (OfACommand, range(8, 10)),
    (OfAnEdge, range(2)),
]


@pytest.mark.parametrize(("claim", "sources"), PROOFS)
def test_the_trigger(claim, sources, tmp_path):
    top = claim(sources)
    smt.prove(top, top.ports, tmp_path, depth=top.depth)


def test_falling_is_rising_of_the_complements(tmp_path):
    top = TheComplements()
    smt.prove(top, [top.value, top.level, top.hysteresis], tmp_path, depth=1)


def test_that_is_no_matter_of_course(tmp_path):
    top = TheComplements(wrong=True)
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, [top.value, top.level, top.hysteresis], tmp_path, depth=1)


@pytest.mark.parametrize(("claim", "sources"), PROOFS[:-1])
def test_a_wrong_claim_is_refuted(claim, sources, tmp_path):
    top = claim(sources, wrong=True)
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, top.ports, tmp_path, depth=top.depth)
