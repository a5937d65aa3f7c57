import random

import cocotb
from wattbell_spec.controller_registers import BOARD, RESTART_KEY, WATCHDOG_KEY

from tests.gateware.controller.bench import ADDRESS, Bench, Eeprom

CONSOLE_IN, CONSOLE_OUT, WAKE, METER, POWER, TRIGGER, I2C = (1 << k for k in range(7))
UNIT = 1 << 20


async def begin(dut, **more):
    bench = Bench(dut, **more)
    await bench.begin()
    return bench


@cocotb.test()
async def every_address(dut):
    """Reset values; unused registers read 0 and store nothing; read/write registers store exactly their bits."""
    bench = await begin(dut)
    there = {r.address: r for r in BOARD if r.address <= 0xEF}
    changed = {"CONSOLE_OUT", "CONSOLE_STATE", "IRQ_PENDING", "POWER_STATE", "WATCHDOG_KICK", "RESTART", "METER_COMMAND", "TRIGGER_COMMAND"}
    for address in range(0x80, 0x100):
        register = there.get(address)
        if register is None or register.name not in changed:
            assert await bench.read_at(address) == (register.reset if register else 0), hex(address)
    for address in range(0x80, 0x100):
        register = there.get(address)
        if register is None and address != ADDRESS["METER_COMMAND"]:
            dut.bus_addr.value, dut.bus_wdata.value, dut.bus_we.value = address & 0x7F, 0xFFFFFFFF, 1
            await bench.clock()
            dut.bus_we.value = 0
            await bench.clock(2)
    for address in range(0x80, 0x100):
        if address not in there:
            assert await bench.read_at(address) == 0, hex(address)
    for name in (
        "IRQ_ENABLE",
        "WAKE_LO",
        "WAKE_HI",
        "WATCHDOG_TIMEOUT",
        "CRASH_CAUSE",
        "CRASH_PC",
        "POWER_CONTROL",
        "OCP_LEVEL",
        "OCP_COUNT",
        "INRUSH_LEVEL",
        "INRUSH_TICKS",
        "I2C_PERIOD",
    ):
        for value in (0x5A5AA5A5, 0xFFFFFFFF):
            await bench.write(name, value)
            assert await bench.read(name) == value & ((1 << there[ADDRESS[name]].width) - 1), name
    assert dut.core_reset.value == 0


@cocotb.test()
async def console(dut):
    """Both FIFOs keep order up to their last entry; one byte too many waits (in) or is lost (out)."""
    bench = await begin(dut)
    assert await bench.read("CONSOLE_IN") == 0
    assert await bench.read("IRQ_PENDING") & (CONSOLE_IN | CONSOLE_OUT) == CONSOLE_OUT
    sent = 0
    dut.console_in__valid.value = 1
    for _ in range(100):
        dut.console_in__payload.value = sent & 0xFF
        if dut.console_in__ready.value == 1:
            sent += 1
        await bench.clock()
    dut.console_in__valid.value = 0
    assert 64 <= sent < 70
    await bench.write("IRQ_ENABLE", CONSOLE_IN)
    assert dut.irq.value == 1
    assert [await bench.read("CONSOLE_IN") for _ in range(sent)] == [0x100 | k for k in range(sent)]
    assert await bench.read("CONSOLE_IN") == 0 and dut.irq.value == 0

    took = 0
    while await bench.read("CONSOLE_STATE"):
        await bench.write("CONSOLE_OUT", took)
        took += 1
        assert took < 100
    assert took >= 64 and await bench.read("IRQ_PENDING") & CONSOLE_OUT == 0
    await bench.write("CONSOLE_OUT", 0xEE)
    got = []
    dut.console_out__ready.value = 1
    for _ in range(100):
        if dut.console_out__valid.value == 1:
            got.append(int(dut.console_out__payload.value))
        await bench.clock()
    assert got == list(range(took))
    assert await bench.read("CONSOLE_STATE") == 1


@cocotb.test()
async def alarm(dut):
    bench = await begin(dut)
    await bench.write("IRQ_ENABLE", WAKE)
    assert dut.irq.value == 0
    due = (1 << 33) + 5000
    await bench.write("WAKE_LO", due & 0xFFFFFFFF)
    await bench.write("WAKE_HI", due >> 32)
    await bench.clock(3, jump=(1 << 32) + 100)
    assert dut.irq.value == 0
    await bench.clock(jump=due - bench.now - 60)
    while bench.now < due:
        assert dut.irq.value == 0
        await bench.clock()
    await bench.clock(3)
    assert dut.irq.value == 1 and await bench.read("IRQ_PENDING") & WAKE
    await bench.write("WAKE_HI", 0xFFFFFFFF)
    assert dut.irq.value == 0


async def reset_seen(bench, dut, clocks=60):
    length = 0
    for _ in range(clocks):
        await bench.clock()
        length += dut.core_reset.value == 1
    return length


@cocotb.test()
async def watchdog(dut):
    """The watchdog fires when its time is up and not before, or on a wrong key; the drive's power is unaffected."""
    bench = await begin(dut)
    assert await bench.read("RESET_CAUSE") == 1
    await bench.write("RESET_CAUSE", 1)
    await bench.write("POWER_CONTROL", 0b1010)
    await bench.write("CRASH_PC", 0x1234)
    await bench.clock(5, jump=100 * UNIT)
    assert await reset_seen(bench, dut) == 0, "it is off"
    await bench.write("WATCHDOG_TIMEOUT", 3)
    assert await reset_seen(bench, dut) == 0, "time begins when it is switched on"
    await bench.write("WATCHDOG_TIMEOUT", 0)
    assert await bench.read("WATCHDOG_TIMEOUT") == 3, "it cannot be switched off"
    for _ in range(4):
        await bench.clock(jump=3 * UNIT - 3000)
        assert await reset_seen(bench, dut) == 0
        await bench.write("WATCHDOG_KICK", WATCHDOG_KEY)
    await bench.write("IRQ_ENABLE", 0x7F)
    await bench.clock(jump=3 * UNIT)
    assert await reset_seen(bench, dut) >= 8
    assert await bench.read("RESET_CAUSE") == 2
    assert await bench.read("WATCHDOG_TIMEOUT") == 0 and await bench.read("IRQ_ENABLE") == 0 and dut.irq.value == 0
    assert await bench.read("POWER_CONTROL") == 0b1010 and await bench.read("CRASH_PC") == 0x1234
    assert (dut.load_switch.value, dut.perst_low.value, dut.clkreq_low.value) == (0, 1, 0)
    await bench.write("WATCHDOG_KICK", WATCHDOG_KEY)
    await bench.write("RESTART", RESTART_KEY ^ 1)
    assert await reset_seen(bench, dut) == 0
    dut.bus_addr.value, dut.bus_wdata.value, dut.bus_we.value = ADDRESS["WATCHDOG_KICK"] & 0x7F, 0, 1
    await bench.clock()
    dut.bus_we.value = 0
    assert await reset_seen(bench, dut) >= 8, "a wrong key"
    dut.bus_addr.value, dut.bus_wdata.value, dut.bus_we.value = ADDRESS["RESTART"] & 0x7F, RESTART_KEY, 1
    await bench.clock()
    dut.bus_we.value = 0
    assert await reset_seen(bench, dut) >= 8
    assert await bench.read("RESET_CAUSE") == 6
    await bench.write("RESET_CAUSE", 2)
    assert await bench.read("RESET_CAUSE") == 4


async def convert(bench, dut, *currents, beyond=0):
    """Conversions of these currents, one per microsecond; returns their ticks. The meter's current is another, as in its fine range."""
    ticks = []
    for current in currents:
        await bench.clock(62)
        ticks.append(bench.now - 40)
        dut.rail_valid.value, dut.rail_i.value, dut.rail_tick.value = 1, 1500 - current & 0xFFFFFF, ticks[-1]
        dut.rail_guard.value, dut.rail_beyond.value = current & 0xFFFFFF, beyond
        await bench.clock()
        dut.rail_valid.value = 0
        await bench.clock(3)
    return ticks


@cocotb.test()
async def protection(dut):
    """Trips at one conversion too many in a row, remembers it, and stays open until cleared."""
    bench = await begin(dut)
    assert dut.load_switch.value == 1, "at power-on the drive is powered"
    dut.rail_good.value, dut.link_state.value, dut.perst_n.value = 1, 5, 0
    assert await bench.read("POWER_STATE") == 0b0101_1011
    await bench.write("OCP_LEVEL", 2000)
    await bench.write("OCP_COUNT", 3)
    await convert(bench, dut, *[2001] * 5)
    assert dut.load_switch.value == 1, "protection is off"
    await bench.write("POWER_CONTROL", 0b1001)
    await convert(bench, dut, 2001, 2001, 2000, 2001, 2001, -5, 2001, 2001)
    assert dut.load_switch.value == 1
    (tick,) = await convert(bench, dut, 2345)
    assert dut.load_switch.value == 0 and await bench.read("POWER_TRIP") == 1
    await convert(bench, dut, 3000, -7)
    assert (await bench.wide("TRIP_TICK"), await bench.read("TRIP_CURRENT")) == (tick, 2345)
    assert await bench.read("IRQ_PENDING") & POWER
    await bench.write("POWER_CONTROL", 0b1001)
    assert dut.load_switch.value == 0 and await bench.read("POWER_STATE") & 1 == 0
    # After closing again: another level for 20 us.
    await bench.write("INRUSH_LEVEL", 4000)
    await bench.write("INRUSH_TICKS", 20_000)
    await bench.write("POWER_TRIP", 3)
    assert dut.load_switch.value == 1 and await bench.read("POWER_TRIP") == 0
    await convert(bench, dut, *[3999] * 15)
    assert dut.load_switch.value == 1
    await convert(bench, dut, *[3999] * 10)
    assert dut.load_switch.value == 0 and await bench.read("POWER_TRIP") == 1
    await bench.write("POWER_TRIP", 3)
    await convert(bench, dut, *[4001] * 3)
    assert dut.load_switch.value == 0 and await bench.read("POWER_TRIP") == 2
    # Negative levels are negative.
    await bench.write("POWER_TRIP", 3)
    await bench.write("INRUSH_LEVEL", -10)
    await convert(bench, dut, *[-10] * 5)
    assert dut.load_switch.value == 1
    await convert(bench, dut, *[-9] * 3)
    assert await bench.read("POWER_TRIP") == 2 and await bench.read("TRIP_CURRENT") == 0xFFFFFFF7
    # At the end of its scale a code gives a lower bound of the current, and no current to show.
    await bench.write("POWER_TRIP", 3)
    await convert(bench, dut, *[-10] * 5, beyond=1)
    assert dut.load_switch.value == 1
    await convert(bench, dut, *[-9] * 3, beyond=1)
    assert await bench.read("POWER_TRIP") == 2 and await bench.read("TRIP_CURRENT") == 0x7FFFFF


@cocotb.test()
async def i2c_reads_and_writes(dut):
    eeprom = Eeprom(bytes(range(1, 100)))
    bench = await begin(dut, eeprom=eeprom)
    await bench.write("I2C_PERIOD", 512)
    await bench.write("IRQ_ENABLE", I2C)
    for byte, start in ((0xA0, True), (0, False), (0x10, False)):
        assert await bench.i2c(byte, start=start) & 0b111 == 0b010
    assert await bench.i2c(0xA1, start=True) & 0b111 == 0b010
    got = [await bench.i2c(read=True) >> 3 for _ in range(3)]
    got.append(await bench.i2c(read=True, nack=True, stop=True) >> 3)
    assert got == [0x11, 0x12, 0x13, 0x14] and eeprom.stops == 1 and eeprom.role == "idle"
    assert dut.irq.value == 1 and (dut.scl_low.value, dut.sda_low.value) == (0, 0)
    for byte, start, stop in ((0xA0, True, False), (0x1F, False, False), (0xFE, False, False), (0x5A, False, False), (0xC3, False, True)):
        assert await bench.i2c(byte, start=start, stop=stop) & 0b111 == 0b010
    assert bytes(eeprom.bytes[0x1FFE:]) == b"\x5a\xc3" and eeprom.stops == 2
    # Nobody at this address; a byte while another is in progress is ignored.
    assert await bench.i2c(0x90, start=True) & 0b111 == 0
    await bench.write("I2C_COMMAND", 0xFF | 1 << 9)
    await bench.write("I2C_COMMAND", 0xA0 | 1 << 8)
    assert await bench.read("I2C_STATE") & 1 and dut.irq.value == 0
    while await bench.read("I2C_STATE") & 1:
        await bench.clock(10)
    assert eeprom.starts == 4 and eeprom.stops == 3


@cocotb.test()
async def i2c_stretched_and_stuck(dut):
    """A stretched SCL is waited for, up to 1 ms; a slave holding SDA is clocked free; a restart of the core releases the lines."""
    eeprom = Eeprom(bytes(16))
    bench = await begin(dut, eeprom=eeprom)
    await bench.write("I2C_PERIOD", 512)
    await bench.write("I2C_COMMAND", 0xA0 | 1 << 8)
    bench.scl_held = True
    await bench.clock(20)
    await bench.clock(100, jump=900_000)
    assert await bench.read("I2C_STATE") & 0b101 == 1
    bench.scl_held = False
    while await bench.read("I2C_STATE") & 1:
        await bench.clock(10)
    assert await bench.read("I2C_STATE") & 0b111 == 0b010
    # The core is restarted in the middle of a byte of zeros.
    await bench.i2c(0)
    await bench.i2c(0)
    await bench.i2c(0xA1, start=True)
    await bench.write("I2C_COMMAND", 1 << 10)
    await bench.clock(100)
    await bench.write("RESTART", RESTART_KEY)
    await bench.clock(20)
    assert (dut.scl_low.value, dut.sda_low.value) == (0, 0) and await bench.read("I2C_STATE") & 1 == 0
    assert eeprom.low, "else there is nothing to clear"
    assert await bench.i2c(0xA0, start=True, stop=True) & 0b111 == 0b010
    assert not eeprom.low and eeprom.role == "idle"
    # Both lines held forever.
    bench.sda_held = True
    assert await bench.i2c(0xA0, start=True) & 0b111 == 0b100
    bench.sda_held, bench.scl_held = False, True
    await bench.clock(20)
    await bench.write("I2C_COMMAND", 0xA0 | 1 << 8)
    await bench.clock(20)
    await bench.clock(100, jump=1_000_000)
    assert await bench.read("I2C_STATE") & 0b111 == 0b100
    bench.scl_held = False
    assert await bench.i2c(0xA0, start=True, stop=True) & 0b111 == 0b010


SPACING = 40
"""Minimum number of cycles between conversions."""


async def conversion(bench, tick, v, i, flags=0, v_code=0, i_code=0, f_code=0, period=1000, clocks=SPACING):
    """A conversion arrives from the instrument, and `clocks` cycles pass."""
    dut = bench.dut
    dut.rail_tick.value, dut.rail_period.value, dut.rail_flags.value = tick, period, flags
    dut.rail_v.value, dut.rail_i.value, dut.rail_v_code.value, dut.rail_i_code.value = v & 0xFFFFFF, i & 0xFFFFFF, v_code, i_code & 0x3FFFF
    dut.rail_f_code.value = f_code & 0x3FFFF
    dut.rail_valid.value = 1
    await bench.clock()
    dut.rail_valid.value = 0
    await bench.clock(clocks - 1)


def signed(value, bits=64):
    return value - (value >> (bits - 1) << bits)


@cocotb.test()
async def a_gate_is_its_conversions(dut):
    """Sums, minimum, maximum and flags cover exactly the conversions that began at the start or later, extremes among them."""
    bench = await begin(dut)
    draw = random.Random(7)
    ends = [(1 << 23) - 1, -(1 << 23), 0, -1]
    for count in (1, 3, 40):
        await bench.write("METER_COUNT", count)
        assert await bench.read("IRQ_PENDING") & METER
        before = bench.now
        await bench.write("METER_COMMAND", 1)
        assert await bench.read("METER_STATE") & 1 and not await bench.read("IRQ_PENDING") & METER and dut.rail_wanted.value == 1
        await conversion(bench, before - 500, 5, 5, flags=31)  # started before
        rows = []
        for _ in range(count):
            v, i = (draw.choice(ends) if draw.random() < 0.3 else draw.randrange(-(1 << 23), 1 << 23) for _ in range(2))
            codes = draw.randrange(1 << 18), draw.randrange(-(1 << 17), 1 << 17), draw.randrange(-(1 << 17), 1 << 17)
            rows.append((v, i, draw.choice((0, 0, 1, 2, 4, 8, 16)), *codes))
            assert await bench.read("METER_STATE") & 1
            await conversion(bench, bench.now, *rows[-1], period=1234)
        await conversion(bench, bench.now, 7, 7, flags=31)  # one more than requested
        wanted = {"V": [r[0] for r in rows], "I": [r[1] for r in rows], "P": [r[0] * r[1] for r in rows]}
        for name, values in wanted.items():
            assert signed(await bench.wide(f"{name}_SUM")) == sum(values), name
            small = [value >> 16 for value in values] if name == "P" else values
            found = [signed(await bench.read(f"{name}_{end}"), 32) for end in ("MIN", "MAX")]
            assert found == [min(small), max(small)], name
        assert await bench.wide("V_CODES") == sum(r[3] for r in rows)
        assert signed(await bench.wide("I_CODES")) == sum(r[4] for r in rows)
        assert signed(await bench.wide("F_CODES")) == sum(r[5] for r in rows)
        flags = [any(r[2] & bit for r in rows) for bit in (2, 1, 8, 4, 16)]  # overload V, I, saturated, uncalibrated, fine
        assert await bench.read("METER_STATE") == sum(on << k + 1 for k, on in enumerate(flags))
        assert await bench.read("GATE_CLIPPED") == sum(r[2] & 3 != 0 for r in rows) and await bench.read("GATE_TICKS") == 1234
    await bench.write("METER_COMMAND", 1)
    await bench.write("METER_COMMAND", 2)
    assert await bench.read("METER_STATE") & 1 == 0


@cocotb.test()
async def totals(dut):
    """They count while TOTAL is set; a restart of the core leaves them; LATCH and CLEAR in one write both take effect."""
    bench = await begin(dut)
    await conversion(bench, bench.now, 100, 100)
    await bench.write("METER_CONTROL", 3)
    assert dut.convert.value == 1 and dut.rail_wanted.value == 1
    rows = [(165000, 2000000, 1), (165000, -30, 0), (-7, 11, 3)]
    for v, i, flags in rows:
        await conversion(bench, bench.now, v, i, flags)
    await bench.write("RESTART", RESTART_KEY)
    await bench.clock(40)
    assert await bench.wide("TOTAL_COUNT") == 0
    await bench.write("METER_COMMAND", 12)
    assert signed(await bench.wide("ENERGY")) == sum(v * i for v, i, _ in rows)
    assert signed(await bench.wide("CHARGE")) == sum(i for _, i, _ in rows)
    assert (await bench.wide("TOTAL_COUNT"), await bench.read("TOTAL_CLIPPED")) == (3, 2)
    await bench.write("METER_COMMAND", 4)
    assert await bench.wide("TOTAL_COUNT") == await bench.wide("ENERGY") == 0
    for count in random.Random(10).choices(range(1, 5), k=20):
        shown = await bench.wide("TOTAL_COUNT"), signed(await bench.wide("ENERGY"))
        for _ in range(count):
            await conversion(bench, bench.now, 3, count)
            assert (await bench.wide("TOTAL_COUNT"), signed(await bench.wide("ENERGY"))) == shown, "what was latched stays"
        await bench.write("METER_COMMAND", 4)
        assert await bench.wide("TOTAL_COUNT") == shown[0] + count and await bench.wide("ENERGY") == shown[1] + 3 * count**2
    await bench.write("METER_COMMAND", 12)
    await bench.write("METER_COMMAND", 4)
    await bench.write("METER_CONTROL", 1)
    await conversion(bench, bench.now, 9, 9)
    await bench.write("METER_COMMAND", 4)
    assert await bench.wide("TOTAL_COUNT") == 0 and dut.rail_wanted.value == 0


@cocotb.test()
async def a_gate_that_is_read_all_the_while(dut):
    """Reading sums as fast as possible delays no conversion until the next one is due."""
    bench = await begin(dut)
    draw = random.Random(8)
    rows = [(draw.randrange(-(1 << 23), 1 << 23), draw.randrange(-(1 << 23), 1 << 23)) for _ in range(20)]
    await bench.write("METER_CONTROL", 2)
    await bench.write("METER_COUNT", len(rows))
    await bench.write("METER_COMMAND", 1)
    for name in ("V_SUM", "P_SUM", "F_CODES"):
        assert await bench.wide(name) == 0, "of the gate before"
    for v, i in rows:
        assert await bench.read("METER_STATE") & 1
        await conversion(bench, bench.now, v, i, clocks=1)
        for _ in range(12):
            await bench.read(draw.choice(("V_SUM_LO", "P_MAX", "TOTAL_CLIPPED")))
    assert await bench.read("METER_STATE") & 1 == 0
    await bench.write("METER_COMMAND", 4)
    assert [signed(await bench.wide(name)) for name in ("V_SUM", "I_SUM", "P_SUM", "ENERGY", "CHARGE", "TOTAL_COUNT")] == [
        *map(sum, zip(*rows, strict=True)),
        sum(v * i for v, i in rows),
        sum(v * i for v, i in rows),
        sum(i for _, i in rows),
        len(rows),
    ]


async def totals_of(bench):
    """ENERGY, CHARGE, TOTAL_COUNT, TOTAL_CLIPPED as shown."""
    wide = [signed(await bench.wide(name)) for name in ("ENERGY", "CHARGE", "TOTAL_COUNT")]
    return (*wide, await bench.read("TOTAL_CLIPPED"))


def totals_from(rows):
    """The same computed from conversions (v, i, flags)."""
    return sum(v * i for v, i, _ in rows), sum(i for _, i, _ in rows), len(rows), sum(flags != 0 for *_, flags in rows)


@cocotb.test()
async def a_command_in_every_clock_of_a_conversion(dut):
    """LATCH and CLEAR cover whole conversions, each once; a gate has none that began before START, and ABORT ends it."""
    bench = await begin(dut)
    draw = random.Random(9)
    await bench.write("METER_CONTROL", 2)
    await bench.write("METER_COUNT", 1000)
    latch, clear, start, abort = 4, 8, 1, 2
    counted = []  # since CLEAR
    missed_at, taken_at = set(), set()  # cycles after a conversion at which LATCH came too early, or late enough
    for clocks in range(1, SPACING):
        for command in (latch, clear, latch | clear, start, start | latch, abort, abort | clear):
            await bench.write("METER_COMMAND", start)
            row = draw.randrange(-(1 << 23), 1 << 23), draw.randrange(-(1 << 23), 1 << 23), draw.randrange(4)
            await conversion(bench, bench.now, *row, clocks=clocks)
            await bench.write("METER_COMMAND", command)
            await bench.clock(SPACING)
            if command & latch:
                found = await totals_of(bench)
                missed = found == totals_from(counted)
                assert missed or found == totals_from([*counted, row]), (clocks, command)
                (missed_at if missed else taken_at).add(clocks)
            counted.append(row)
            await bench.write("METER_COMMAND", latch)
            found = await totals_of(bench)
            if command & clear:
                # It may have come just before what it clears was counted at all.
                counted = [] if found[2] == 0 or clocks > 3 else [row]
            assert found == totals_from(counted), (clocks, command)
            under_way, sums = await bench.read("METER_STATE") & 1, [signed(await bench.wide(f"{q}_SUM")) for q in "VIP"]
            if command & start:
                assert under_way and sums == [0, 0, 0] and await bench.read("GATE_CLIPPED") == 0, clocks
            else:
                assert under_way == (not command & abort), clocks
                if not command & abort:
                    assert sums == [row[0], row[1], row[0] * row[1]], clocks
    assert max(missed_at) < min(taken_at) == 29, "as Meter says, less the two clocks until a write does something"
