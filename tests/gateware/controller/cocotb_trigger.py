"""The trigger through its registers: its events, the kept tick, its actions and their times."""

import random

import cocotb
from wattbell_gateware.nvme import COMPLETION
from wattbell_spec.registers import by_name

from tests.gateware.controller.bench import CLOCK_TICKS, Bench

AT_ONCE, FORCE, VOLTAGE, CURRENT, POWER, CLKREQ, PERST, LINK, COMMAND, POWER_STATE = range(10)
FALLING, BY_OPCODE, BY_LBA, BY_LATENCY, BY_ERROR = 1 << 4, 1 << 8, 1 << 9, 1 << 10, 1 << 11
ARM, DISARM, FORCE_NOW = 1, 2, 4
MARK, METER, RUN, STOP = 1, 2, 4, 8
ARMED, FIRED = 1, 2
IRQ = 1 << 5
CONTROL, MARKER = by_name("CONTROL").address, by_name("MARKER").address


class Watched(Bench):
    """Records the trigger's writes to the instrument, and their times."""

    async def clock(self, count=1, jump=0):
        for _ in range(count):
            if self.ready and self.dut.write__valid.value == 1:  # the present write is taken at the next rising edge
                word = int(self.dut.write__payload.value)
                self.written.append((self.now, word & 0xFF, word >> 8))
            await super().clock(1, jump)
            jump = 0

    async def arm(self, control, **registers):
        for name, value in registers.items():
            await self.write(f"TRIGGER_{name.upper()}", value)
        await self.write("TRIGGER_CONTROL", control)
        await self.write("TRIGGER_COMMAND", ARM)
        self.written.clear()

    async def arm_wide(self, control, first, last, **registers):
        for name, value in (("FIRST", first), ("LAST", last)):
            await self.write(f"TRIGGER_LBA_{name}_LO", value)
            await self.write(f"TRIGGER_LBA_{name}_HI", value >> 32)
        await self.arm(control, **registers)

    async def state(self):
        state = await self.read("TRIGGER_STATE")
        assert bool(await self.read("IRQ_PENDING") & IRQ) == bool(state & FIRED)
        return state

    async def fired(self):
        """Return the tick, if the trigger has fired."""
        await self.clock(6)
        return await self.wide("TRIGGER_TICK") if await self.state() == FIRED else None

    async def convert(self, v=0, i=0):
        """Deliver a conversion of a microsecond ago; return its tick."""
        await self.clock(40)
        dut, tick = self.dut, self.now - 1000
        dut.rail_tick.value, dut.rail_v.value, dut.rail_i.value, dut.rail_valid.value = tick, v & 0xFFFFFF, i & 0xFFFFFF, 1
        await self.clock()
        dut.rail_valid.value = 0
        return tick

    async def complete(self, **members):
        """Deliver a command with its CQE half a microsecond ago; return its tick."""
        tick = self.now - 500
        value = 0
        for name, field in COMPLETION:
            value |= (members.pop(name, tick if name == "tick" else 0) & ((1 << field.width) - 1)) << field.offset
        assert not members
        self.dut.completion.value, self.dut.completed.value = value, 1
        await self.clock()
        self.dut.completed.value, self.dut.completion.value = 0, (1 << COMPLETION.size) - 1
        await self.clock(9)
        return tick


async def begin(dut):
    bench = Watched(dut)
    bench.written, bench.ready = [], 1
    await bench.begin()
    return bench


@cocotb.test()
async def at_once_by_force_and_not_at_all(dut):
    bench = await begin(dut)
    assert await bench.state() == 0
    await bench.write("TRIGGER_COMMAND", FORCE_NOW)
    assert await bench.state() == 0, "it was not armed"
    before = bench.now
    await bench.arm(AT_ONCE)
    assert before < await bench.fired() < bench.now
    await bench.arm(FORCE)
    assert await bench.state() == ARMED
    await bench.clock(50)
    assert await bench.state() == ARMED
    before = bench.now
    await bench.write("TRIGGER_COMMAND", FORCE_NOW)
    tick = await bench.fired()
    assert 0 < tick - before <= 2 * CLOCK_TICKS
    await bench.write("TRIGGER_COMMAND", FORCE_NOW)
    assert await bench.fired() == tick, "once"
    await bench.write("TRIGGER_COMMAND", DISARM)
    assert await bench.state() == 0
    await bench.write("TRIGGER_COMMAND", FORCE_NOW)
    assert await bench.state() == 0


@cocotb.test()
async def levels(dut):
    """Each source and both slopes are tested at the level and at the edge of the hysteresis; events before arming do not count."""
    bench = await begin(dut)
    scale = {VOLTAGE: lambda x: {"v": x, "i": -x}, CURRENT: lambda x: {"v": -x, "i": x}, POWER: lambda x: {"v": 1 << 16, "i": x}}
    for source, of in scale.items():
        for level, hysteresis in ((1000, 50), (-3, 0), (-70_000, 1), (0, 0x7FFFFF)):
            for slope in (1, -1):

                def at(offset, level=level, slope=slope, of=of):
                    return of(max(-(1 << 23), min((1 << 23) - 1, level + slope * offset)))

                await bench.convert(**at(-(1 << 22)))
                await bench.arm(source | (FALLING if slope < 0 else 0), level=level, hysteresis=hysteresis)
                assert (dut.rail_wanted.value, dut.watched.value) == (1, 0)
                await bench.convert(**at(1))
                assert await bench.state() == ARMED, "it has not been on the other side since it was armed"
                if hysteresis < 0x7FFFFF:
                    await bench.convert(**at(-hysteresis + 1))
                    await bench.convert(**at(1) if hysteresis else at(0))
                    assert await bench.state() == ARMED, "not far enough on the other side"
                    await bench.convert(**at(-hysteresis))
                    await bench.convert(**at(0))
                    assert await bench.state() == ARMED, "at the level is not above it"
                    tick = await bench.convert(**at(1))
                    assert await bench.fired() == tick
                    assert dut.rail_wanted.value == 0
                    await bench.convert(**at(-hysteresis))
                    await bench.convert(**at(1))
                    assert await bench.fired() == tick, "once"
                else:
                    await bench.convert(**at(-(1 << 23) + 3))
                    await bench.convert(**at(1))
                    assert await bench.state() == ARMED
                    await bench.write("TRIGGER_COMMAND", DISARM)
    # A product that fills all its bits.
    await bench.arm(POWER, level=(1 << 30) - 1, hysteresis=0)
    await bench.convert(v=-(1 << 23), i=(1 << 23) - 1)
    assert await bench.state() == ARMED
    tick = await bench.convert(v=-(1 << 23), i=-(1 << 23))
    assert await bench.fired() == tick


@cocotb.test()
async def pins_and_link_states(dut):
    bench = await begin(dut)
    for source, pin, other in ((CLKREQ, dut.clkreq_n, dut.perst_n), (PERST, dut.perst_n, dut.clkreq_n)):
        for falling in (0, 1):
            pin.value = 1 - falling
            await bench.clock(4)
            await bench.arm(source | (FALLING if falling else 0))
            assert (dut.rail_wanted.value, dut.watched.value) == (0, 1)
            await bench.clock(5)
            other.value = 1 - int(other.value)
            dut.link_state.value = 5
            await bench.clock(5)
            assert await bench.state() == ARMED
            pin.value = falling
            await bench.clock(5)
            assert await bench.state() == ARMED, "the other edge"
            pin.value = 1 - falling
            tick = bench.now
            await bench.clock(1)
            pin.value = falling
            await bench.clock(1)
            pin.value = 1 - falling
            assert await bench.fired() == tick, "the first of two"
            pin.value = 1
    for state in range(16):
        dut.link_state.value = state ^ 1
        await bench.clock(4)
        await bench.arm(LINK, match=1 << state)
        for passed in (state ^ 2, state ^ 15, state ^ 1):
            dut.link_state.value = passed
            await bench.clock(5)
        assert await bench.state() == ARMED
        dut.link_state.value = state
        tick = bench.now
        await bench.clock(1)
        dut.link_state.value = state ^ 3
        assert await bench.fired() == tick
    await bench.arm(LINK, match=0xFFFF)
    await bench.clock(20)
    assert await bench.state() == ARMED, "the state that it is in is not entered"


@cocotb.test()
async def commands(dut):
    """Random conditions and commands, mostly at the boundaries, agree with the statements in registers.md."""
    bench = await begin(dut)
    draw = random.Random(11)
    lba_opcodes = (1, 2, 4, 5, 8, 12)
    seen = [0, 0]
    for _ in range(400):
        first = draw.choice((0, 100, (1 << 40) - 8, 1 << 40, 1 << 63, draw.randrange(1 << 40)))
        last = first + draw.choice((0, 1, 7, 1 << 20))
        latency = draw.choice((0, 1000, 0xFFFFFFFE, 0xFFFFFFFF))
        value, mask = draw.randrange(256), draw.choice((0xFF, 0, 0x0F, 1))
        kinds = draw.randrange(4)
        control = sum(bit for bit in (BY_OPCODE, BY_LBA, BY_LATENCY, BY_ERROR) if draw.random() < 0.5)
        await bench.arm_wide(COMMAND | control, first, last, opcode=value | mask << 8 | kinds << 16, latency=latency)
        assert dut.watched.value == 2
        blocks = draw.choice((1, 2, 8, 65536))
        lba = draw.choice((first, last, first - blocks, first - blocks + 1, last + 1, draw.randrange(1 << 40))) & ((1 << 40) - 1)
        opcode = draw.choice((value, value ^ 0x10, value ^ 1, *lba_opcodes, 9))
        command = {
            "opcode": opcode,
            "lba": lba,
            "blocks": blocks,
            "admin": draw.randrange(2),
            "error": draw.randrange(2),
            "latency": draw.choice((latency, min(latency + 1, 0xFFFFFFFF), max(latency - 1, 0))),
        }
        fires = all(
            (
                not control & BY_OPCODE or ((opcode ^ value) & mask == 0 and bool(kinds & (1 if command["admin"] else 2))),
                not control & BY_LBA or (not command["admin"] and opcode in lba_opcodes and lba <= last and lba + blocks - 1 >= first),
                not control & BY_LATENCY or command["latency"] > latency,
                not control & BY_ERROR or command["error"] == 1,
            )
        )
        tick = await bench.complete(**command)
        assert await bench.fired() == (tick if fires else None), (control, command)
        seen[fires] += 1
    assert min(seen) > 50, seen


@cocotb.test()
async def power_states(dut):
    bench = await begin(dut)
    right = {"admin": 1, "opcode": 9, "lba": 0x8000_0002}
    for state in (0, 4, 31):
        await bench.arm(POWER_STATE, match=1 << state)
        assert dut.watched.value == 2
        for other in ({"admin": 0}, {"opcode": 10}, {"lba": 3}, {"error": 1}, {"blocks": state ^ 1}):
            await bench.complete(**({"blocks": state} | right | other))
            assert await bench.state() == ARMED, other
        tick = await bench.complete(**right, blocks=0b101 << 5 | state)  # with workload hint and more above it
        assert await bench.fired() == tick


@cocotb.test()
async def actions(dut):
    """Actions come in order, once the delay is over, however busy the bus. They include a start of the meter. None comes after
    disarming.
    """
    bench = await begin(dut)
    for delay in (0, 200, 1000, (1 << 32) - 1):
        for action, words in (
            (0, []),
            (MARK, [(MARKER, 0xFFFFFFFF)]),
            (RUN, [(CONTROL, 1)]),
            (STOP, [(CONTROL, 0)]),
            (MARK | RUN | STOP, [(CONTROL, 1), (MARKER, 0xFFFFFFFF), (CONTROL, 0)]),
        ):
            await bench.arm(FORCE, action=action, delay=delay)
            await bench.write("TRIGGER_COMMAND", FORCE_NOW)
            tick = await bench.wide("TRIGGER_TICK")
            if delay > 1000:
                assert int(dut.deadline.value) == tick + delay
                await bench.clock(10)
                await bench.clock(jump=tick + delay - bench.now - 10 * CLOCK_TICKS)
                assert bench.written == []
            await bench.clock(100)
            assert [word[1:] for word in bench.written] == words
            if words:
                assert 0 <= bench.written[0][0] - tick - delay <= 8 * CLOCK_TICKS
            assert await bench.state() == FIRED
    dut.write__ready.value = bench.ready = 0
    await bench.arm(AT_ONCE, action=MARK | STOP, delay=0)
    await bench.clock(30)
    assert bench.written == []
    dut.write__ready.value = bench.ready = 1
    await bench.clock(5)
    assert [word[1:] for word in bench.written] == [(MARKER, 0xFFFFFFFF), (CONTROL, 0)]
    await bench.write("METER_COUNT", 5)
    await bench.arm(AT_ONCE, action=METER, delay=3000)
    assert await bench.read("METER_STATE") & 1 == 0
    await bench.clock(300)
    assert await bench.read("METER_STATE") & 1 == 1 and bench.written == []
    for command in (DISARM, ARM):
        await bench.arm(AT_ONCE, action=MARK, delay=5000)
        await bench.write("TRIGGER_CONTROL", FORCE)
        await bench.write("TRIGGER_COMMAND", command)
        await bench.clock(500)
        assert bench.written == [] and await bench.state() == (ARMED if command == ARM else 0)
