import os
import struct
import zlib
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, First, RisingEdge, Timer, ValueChange
from wattbell_spec.controller_registers import BASE, BOARD, RESTART_KEY

from tests.gateware.controller.bench import Eeprom
from tests.gateware.controller.core_top import assemble

AT = {r.name: BASE + 4 * r.address for r in BOARD}
NAMES = "\n".join(f".equ {name}, {address}" for name, address in AT.items())
CLOCK_NS = 16
SAY = """
.macro say register
    li t6, CONSOLE_OUT
    sw \\register, (t6)
.endm
"""


async def clocks_pass(count):
    """Let clock cycles pass without a look at each, which takes longer than to simulate it."""
    await Timer(count * CLOCK_NS, unit="ns")


class Board:
    """Loads a program, starts the core and plays the other end of console and I2C."""

    def __init__(self, dut, eeprom):
        self.dut, self.eeprom, self.said = dut, eeprom, bytearray()

    async def start(self, words):
        dut = self.dut
        dut.rst.value, dut.poke.value, dut.console_in__valid.value, dut.console_out__ready.value = 1, 0, 0, 1
        dut.scl_i.value = dut.sda_i.value = 1
        Clock(dut.clk, CLOCK_NS, unit="ns").start()
        await FallingEdge(dut.clk)  # otherwise the first word may miss its edge: a previous test may have ended just after an edge
        dut.poke.value = 1
        for address in range(9216):
            dut.poke_address.value, dut.poke_word.value = address, words[address] if address < len(words) else 0
            await FallingEdge(dut.clk)
        dut.poke.value, dut.rst.value = 0, 0
        cocotb.start_soon(self._listen())
        cocotb.start_soon(self._lines())

    async def _listen(self):
        while True:
            if self.dut.console_out__valid.value != 1:
                await RisingEdge(self.dut.console_out__valid)
            await FallingEdge(self.dut.clk)
            if self.dut.console_out__valid.value == 1:
                self.said.append(int(self.dut.console_out__payload.value))

    async def _lines(self):
        dut = self.dut
        while True:
            await First(ValueChange(dut.scl_low), ValueChange(dut.sda_low))
            await FallingEdge(dut.clk)
            for _ in range(2):  # SDA also changes when the slave drives it
                scl, sda = dut.scl_low.value != 1, not (dut.sda_low.value == 1 or self.eeprom.low)
                self.eeprom.levels(int(scl), int(sda))
            dut.scl_i.value, dut.sda_i.value = int(scl), int(not (dut.sda_low.value == 1 or self.eeprom.low))

    async def bytes_said(self, count, clocks):
        """Wait for this many bytes; fail if they do not arrive within this many cycles."""
        for _ in range(clocks // 100):
            if len(self.said) >= count:
                break
            await clocks_pass(100)
        assert len(self.said) >= count, bytes(self.said)
        found = bytes(self.said[:count])
        del self.said[:count]
        return found

    async def send(self, text):
        await FallingEdge(self.dut.clk)
        for byte in text.encode() + b"\n":
            self.dut.console_in__payload.value, self.dut.console_in__valid.value = byte, 1
            await FallingEdge(self.dut.clk)
            while self.dut.console_in__ready.value != 1:
                await FallingEdge(self.dut.clk)
        self.dut.console_in__valid.value = 0

    async def ask(self, text, clocks=400_000):
        await self.send(text)
        for _ in range(clocks // 100):
            if self.said.endswith(b"\n"):
                break
            await clocks_pass(100)
        assert self.said.endswith(b"\n"), (text, bytes(self.said))
        found = self.said.decode().removesuffix("\n")
        self.said.clear()
        return found

    async def until(self, signal, value, clocks=200_000):
        for _ in range(clocks // 100):
            if signal.value == value:
                return
            await clocks_pass(100)
        raise AssertionError(f"{signal} is not {value}")

    async def asleep(self, clocks):
        """Return how many of this many cycles the core slept."""
        before = int(self.dut.slept.value)
        await clocks_pass(clocks)
        return int(self.dut.slept.value) - before


async def begin(dut, program):
    board = Board(dut, Eeprom())
    await board.start(program if isinstance(program, list) else assemble(NAMES + SAY + program))
    return board


@cocotb.test()
async def the_watchdog_restarts_the_core_only(dut):
    """The program counts its starts in a register that survives restarts, opens the switch at the first start, then hangs."""
    board = await begin(
        dut,
        """
        li a0, CRASH_CAUSE
        lw a1, (a0)
        addi a1, a1, 1
        sw a1, (a0)
        say a1
        li a2, RESET_CAUSE
        lw a2, (a2)
        say a2
        li a3, 1
        bne a1, a3, 1f
        li a4, POWER_CONTROL
        li a5, 2
        sw a5, (a4)
    1:  li a4, WATCHDOG_TIMEOUT
        sw a3, (a4)
    2:  j 2b
    """,
    )
    assert await board.bytes_said(2, 2000) == bytes((1, 1))
    await clocks_pass(300)
    assert (dut.load_switch.value, dut.perst_low.value) == (0, 1)
    assert await board.bytes_said(4, 3 * 66_000) == bytes((2, 3, 3, 3))
    assert (dut.load_switch.value, dut.perst_low.value) == (0, 1)


@cocotb.test()
async def accesses_to_nowhere(dut):
    """Each start tries the next access. A load or store restarts the core as the watchdog does; a fetch is an exception (mcause 2).

    The allowed accesses follow: unused registers, parts of a word in RAM, constants.
    """
    load, store, byte, fetch, allowed = range(5)
    faults = [
        (0x20000000, load),
        (0x20000000, store),
        (9216 * 4, load),
        (0x10000000 + 8192, store),
        (0x10000000 + 8192, load),
        (0, store),
        (BASE + 0x400, load),
        (BASE - 4, store),
        (AT["CRASH_PC"], byte),
        (0xFFFFFFFC, load),
    ]
    fetches = [(0x10000000, fetch), (9216 * 4, fetch)]
    table = "\n".join(f".word {address}, {access}" for address, access in (*faults, *fetches, (0, allowed)))
    board = await begin(
        dut,
        f"""
        li a0, CRASH_CAUSE
        lw a1, (a0)
        addi a2, a1, 1
        sw a2, (a0)
        li a0, RESET_CAUSE
        lw a3, (a0)
        sw a3, (a0)
        say a3
        la t0, trap
        csrw mtvec, t0
        la t0, table
        slli a1, a1, 3
        add t0, t0, a1
        lw a0, (t0)
        lw a1, 4(t0)
        beqz a1, 1f
        addi a1, a1, -1
        beqz a1, 2f
        addi a1, a1, -1
        beqz a1, 3f
        addi a1, a1, -1
        beqz a1, 4f
        li a0, {BASE + 4 * 0xFE}
        sw a0, (a0)
        lw a3, (a0)
        say a3
        li a0, 0x10001FFC
        li a1, 0x11223344
        sw a1, (a0)
        li a2, 0x99
        sb a2, 2(a0)
        sh a2, (a0)
        lw a3, (a0)
        srli a4, a3, 24
        say a4
        srli a4, a3, 16
        say a4
        srli a4, a3, 8
        say a4
        say a3
        la a0, table
        lbu a3, 3(a0)
        say a3
    0:  j 0b
    1:  lw a0, (a0)
        j 5f
    2:  sw a0, (a0)
        j 5f
    3:  sb a0, (a0)
        j 5f
    4:  jr a0
    5:  li a0, 0xEE
        say a0
    6:  j 6b
        .align 2
    trap:
        csrr a0, mcause
        addi a0, a0, 0x40
        say a0
        li a0, RESTART
        li a1, {RESTART_KEY}
        sw a1, (a0)
    7:  j 7b
        .align 2
    table:
        {table}
    """,
    )
    expected = [1, *[2] * len(faults), 0x42, 4, 0x42, 4, 0, 0x11, 0x99, 0, 0x99, 0x20]
    assert list(await board.bytes_said(len(expected), 20_000)) == expected


@cocotb.test()
async def asked_for_restart(dut):
    board = await begin(
        dut,
        f"""
        li a0, RESET_CAUSE
        lw a1, (a0)
        say a1
        li a2, 1
        bne a1, a2, 1f
        li a0, RESTART
        li a1, {RESTART_KEY}
        sw a1, (a0)
    1:  j 1b
    """,
    )
    assert await board.bytes_said(2, 3000) == bytes((1, 5))


def identity_record():
    """Return the record in the layout of firmware/src/store.c: head with magic, version, count, sequence and CRC; model and serial
    number.
    """
    content = b"bench".ljust(20, b"\0") + b"SN-0042".ljust(20, b"\0")
    sequence = struct.pack("<I", 1)
    return struct.pack("<BBHII", 0x57, 1, len(content), 1, zlib.crc32(sequence + content)) + content


@cocotb.test()
async def firmware(dut):
    """The real firmware answers SCPI, reads its name from the EEPROM and sleeps when idle."""
    words = [int(word, 16) for word in Path(os.environ["FIRMWARE"]).read_text().split()]
    board = Board(dut, Eeprom(identity_record()))
    await board.start(words)
    assert await board.ask("*IDN?", 800_000) == "Wattbell,bench,SN-0042,0.3.0"
    assert await board.ask("SYST:ERR?") == '0,"No error"'
    await board.send("nonsense:line 1")
    assert (await board.ask("SYST:ERR?")).startswith("-113,")
    assert await board.ask("SYST:ERR?") == '0,"No error"'
    assert await board.ask("OUTP?") == "1", "on at power-on"
    await board.send("OUTP OFF")
    await board.until(dut.perst_low, 1)
    assert dut.load_switch.value == 1, "an orderly end: PERST# first"
    await board.until(dut.load_switch, 0)
    assert await board.ask("OUTP?") == "0"
    await board.send("OUTP ON")
    await board.until(dut.load_switch, 1)
    assert await board.ask("SYST:ERR?;:OUTP?") == '0,"No error";1'
    await clocks_pass(100_000)
    asleep = await board.asleep(50_000)
    cocotb.log.info("asleep in %d of 50000 clocks", asleep)
    assert asleep > 47_500
    assert (await board.ask("*IDN?")).startswith("Wattbell"), "it wakes up"
