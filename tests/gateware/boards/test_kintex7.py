"""The Vivado project of the 8 GT/s tap, as far as it can be checked without Vivado, and the parts that only that board has."""

import re
import subprocess
import sys

import pytest
from amaranth import ClockDomain, Module, Signal
from amaranth.sim import Simulator
from wattbell_gateware.boards.direction import Direction
from wattbell_gateware.boards.kintex7 import build as kintex7
from wattbell_gateware.boards.kintex7.board import BOARD
from wattbell_gateware.boards.kintex7.clocks import Kintex7Clocks
from wattbell_gateware.boards.kintex7.rates import REGISTERS, RateChange
from wattbell_gateware.boards.kintex7.transceiver import GtxTransceiver
from wattbell_gateware.boards.kintex7.words import LATE_BLOCKS_TICKS, LATE_TICKS, WordGear
from wattbell_gateware.boards.tap import Tap
from wattbell_gateware.instrument import Instrument

CHECK = """
import sys
from pyosys import libyosys as ys
design = ys.Design()
for command in ("read_verilog -lib -specify +/xilinx/cells_sim.v", "read_verilog -lib +/xilinx/cells_xtra.v", f"read_verilog {sys.argv[1]}",
                "hierarchy -check -top tap"):
    ys.run_pass(command, design)
"""


class Ports(Instrument):
    """The instrument's ports without an instrument, which has its own tests."""

    def elaborate(self, _platform):
        m = Module()
        m.d.sync += self.now.eq(self.now + self.options.ticks_per_clock)
        return m


class NoDirection(Direction):
    """The ports of a direction; its receiver alone takes half a minute to elaborate."""

    def elaborate(self, _platform):
        m = Module()
        taken = Signal()
        m.d.link += taken.eq(self.raw.as_value().xor() ^ self.raw8.as_value().xor() ^ self.raw_valid ^ self.raw8_valid)
        m.d.sync += self.lost.eq(taken)
        return m


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    out = tmp_path_factory.mktemp("kintex7")
    kintex7.elaborate(out, Tap(BOARD, GtxTransceiver(NoDirection), instrument=Ports))
    kintex7.verilog(out)
    return {path.name: path.read_text() for path in out.iterdir()} | {"folder": out}


def ports(verilog: str) -> dict[str, int]:
    top = verilog[verilog.index("module tap(") :]
    top = top[: top.index("endmodule")]
    found = re.findall(r"^ +(?:input|output|inout) (?:\[(\d+):0\] )?(\S+?) ?;", top, re.MULTILINE)
    return {name.lstrip("\\"): int(high or 0) + 1 for high, name in found}


def test_every_port_has_a_pin_and_every_pin_a_port(project):
    located = re.findall(r'set_property LOC (\S+) \[get_ports "(\S+)"\]', project["tap.xdc"])
    names = [name.replace("\\", "") for _, name in located]
    wanted = set()
    for name, width in ports(project["tap.v"]).items():
        wanted |= {name} if width == 1 else {f"{name}[{bit}]" for bit in range(width)}
    assert len(wanted) > 40
    assert set(names) == wanted
    assert len({pin for pin, _ in located}) == len(located) == len(names)


def test_every_clock_has_a_frequency_and_a_net_of_its_name(project):
    clocks = {name: float(period) for name, period in re.findall(r"create_clock -name (\S+) -period (\S+)", project["tap.xdc"])}
    assert clocks["clock_sync"] == BOARD.instrument.ticks_per_clock
    # 8 GT/s over 32 bits
    assert clocks["clock_link0"] == clocks["clock_link1"] == 32 / 8
    assert {f"clock_{domain.name}" for domain in Kintex7Clocks.domains()} - set(clocks) == {
        "clock_usb"
    }  # it gets its frequency from the pin
    assert clocks["ulpi_0__clk__io"] == pytest.approx(1000 / 60)
    module = project["tap.v"][project["tap.v"].index("module \\tap.clocks ") :]
    module = module[: module.index("endmodule")]
    for net in re.findall(r'get_nets "clocks/(\w+)"', project["tap.xdc"]):
        assert re.search(rf'keep = "TRUE" \*\)\n *(?:input|output|wire) {net} ?;', module), net
    # Clocks declared asynchronous to each other exist.
    told = re.findall(r"-include_generated_clocks \{([^}]*)\}", project["tap.xdc"])
    assert len(told) == 4
    assert {name for group in told for name in group.split()} <= set(clocks)


def test_primitives_have_the_ports_and_parameters_that_are_given_to_them(project):
    done = subprocess.run([sys.executable, "-c", CHECK, str(project["folder"] / "tap.v")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert project["tap.v"].count("GTXE2_CHANNEL #(") == kintex7.PART["GTX"]


def test_the_script_reads_what_there_is(project):
    assert "create_project -force -name tap -part xc7k160tffg676-2" in project["tap.tcl"]
    for name in re.findall(r"^(?:add_files|read_xdc) (\S+)", project["tap.tcl"], re.MULTILINE):
        assert name in project


@pytest.mark.parametrize("rates", [(1, 2, 0, 2, 1)])
def test_a_change_of_rate_sets_its_bits_and_no_others(rates):
    m = Module()
    m.submodules.dut = dut = RateChange()
    simulator = Simulator(m)
    simulator.add_clock(16e-9)
    others = {address: 0xA5A5 ^ address for address, _, _ in REGISTERS}
    registers = dict(others)

    async def port(ctx):
        address, left = 0, 0
        while True:
            await ctx.tick()
            ctx.set(dut.rdy, left == 1)
            ctx.set(dut.do, registers.get(address, 0) if left == 1 else 0xDEAD)
            left = max(left - 1, 0)
            if ctx.get(dut.en):
                assert left == 0
                address, left = ctx.get(dut.addr), 5
                if ctx.get(dut.we):
                    registers[address] = ctx.get(dut.di)

    async def bench(ctx):
        for rate in rates:
            ctx.set(dut.rate, rate)
            await ctx.tick().repeat(2)
            assert ctx.get(dut.busy)
            for _ in range(300):
                await ctx.tick()
                if not ctx.get(dut.busy):
                    break
            assert not ctx.get(dut.busy)
            for address, mask, values in REGISTERS:
                assert registers[address] == (others[address] & ~mask) | values[rate]

    simulator.add_testbench(port, background=True)
    simulator.add_testbench(bench)
    simulator.run()


def test_words_are_paired_below_8_gts():
    m = Module()
    m.domains += ClockDomain("link", reset_less=True)
    m.submodules.dut = dut = WordGear()
    simulator = Simulator(m)
    simulator.add_clock(4e-9, domain="link")

    async def bench(ctx):
        ctx.set(dut.up, 15)
        for rate, count in ((1, 20), (2, 32)):
            ctx.set(dut.rate, rate)
            await ctx.tick("link").repeat(6)
            bits = []
            for n in range(40):
                word = (n * 0x9E3779B1) >> 3 & ((1 << count) - 1)
                for lane in range(4):
                    ctx.set(dut.word[lane], word ^ lane)
                await ctx.tick("link")
                bits.append(word)
                assert ctx.get(dut.raw_valid) in ((0,) if rate == 2 else (0, 1))
                assert ctx.get(dut.raw8_valid) == (rate == 2)
                for lane in range(4):
                    if rate == 2:
                        assert ctx.get(dut.raw8[lane]) == word ^ lane
                    elif ctx.get(dut.raw_valid) and n:
                        assert ctx.get(dut.raw[lane]) == (bits[-2] ^ lane) | (word ^ lane) << 20
            if rate == 1:
                assert n == 39

    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize(("rate", "words", "late"), [(1, 2, LATE_TICKS), (2, 1, LATE_BLOCKS_TICKS)])
def test_how_late_a_word_is(rate, words, late):
    """The transceiver here has no delay and delivers a word in the cycle after its last bit; a cycle and a word take 4 ticks."""
    dut, there = WordGear(), Module()
    there.domains.link = ClockDomain("link")
    there.submodules.dut = dut
    simulator = Simulator(there)
    simulator.add_clock(4e-9, domain="link")

    async def bench(ctx):
        ctx.set(dut.up, 0xF)
        ctx.set(dut.rate, rate)
        await ctx.tick("link").repeat(6)
        while rate == 1 and not ctx.get(dut.raw_valid):  # the word beside it is the first of the next pair
            await ctx.tick("link")
        ctx.set(dut.word[0], 0x5A5A5)  # its first bit arrived one word earlier
        ticks = 4
        valid, raw = (dut.raw8_valid, dut.raw8) if rate == 2 else (dut.raw_valid, dut.raw)
        for _ in range(words):
            await ctx.tick("link")
            ctx.set(dut.word[0], 0)
            ticks += 4
        assert ctx.get(valid) and ctx.get(raw[0]) & 0xFFFFF == 0x5A5A5 and ticks == late

    simulator.add_testbench(bench)
    simulator.run()
