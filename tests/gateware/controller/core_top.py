"""The controller with the instrument's register file and a board around it, as one Verilog module, and programs for it."""

import subprocess
import tempfile
from pathlib import Path

from amaranth import Cat, ClockDomain, ClockSignal, Module, ResetSignal, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_gateware.controller import Controller, verilog_path
from wattbell_gateware.controller.rom import SLICE
from wattbell_gateware.regfile import RegisterFile
from wattbell_gateware.verilog import ports_of
from wattbell_spec.registers import ID, VERSION

__all__ = ["CLOCK_TICKS", "CoreTop", "assemble", "wrapper"]

CLOCK_TICKS = 64
"""Ticks of a clock, four times a board's: I2C, which dominates the time, then takes a quarter of the cycles to simulate."""


class CoreTop(wiring.Component):
    """A small board: the rail is good when the switch is closed, the rig drives the sidebands, and the test gets the lines.

    `halved`: option of the controller; its ``half`` is every second cycle.
    """

    console_in: In(stream.Signature(8))
    console_out: Out(stream.Signature(8))
    load_switch: Out(1)
    perst_low: Out(1)
    decimation: Out(13)
    scl_i: In(1)
    sda_i: In(1)
    scl_low: Out(1)
    sda_low: Out(1)

    def __init__(self, *, halved: bool = False):
        super().__init__()
        self.halved = halved

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = own = Controller([], halved=self.halved)
        if self.halved:
            m.domains.half, turn = ClockDomain("half"), Signal(reset_less=True)
            m.d.sync += turn.eq(~turn)
            m.d.comb += [ClockSignal("half").eq(turn), ResetSignal("half").eq(ResetSignal())]
        m.submodules.regs = regs = RegisterFile({"ADC_PERIOD": 1000 // CLOCK_TICKS})
        wiring.connect(m, wiring.flipped(self.console_in), own.console_in)
        wiring.connect(m, own.console_out, wiring.flipped(self.console_out))
        m.d.sync += own.now.eq(own.now + CLOCK_TICKS)
        m.d.comb += [
            regs.addr.eq(own.reg_addr),
            regs.wdata.eq(own.reg_wdata),
            regs.we.eq(own.reg_we),
            own.reg_rdata.eq(regs.rdata),
            Cat(regs.now_lo, regs.now_hi).eq(own.now),
            regs.id.eq(ID),
            regs.version.eq(VERSION[0] << 16 | VERSION[1] << 8 | VERSION[2]),
            regs.build.eq(CLOCK_TICKS | 16 << 8),
            self.decimation.eq(regs.decimation),
            own.rail_good.eq(own.load_switch),
            own.perst_n.eq(~own.perst_low),
            own.clkreq_n.eq(~own.clkreq_low),
            self.load_switch.eq(own.load_switch),
            self.perst_low.eq(own.perst_low),
            own.scl_i.eq(self.scl_i),
            own.sda_i.eq(self.sda_i),
            self.scl_low.eq(own.scl_low),
            self.sda_low.eq(own.sda_low),
        ]
        return m


def wrapper(top: CoreTop, name: str) -> str:
    """Return Verilog around ``top`` as module ``name``, including the core's.

    The test writes the read-only memory, so one model runs all programs. It also counts the cycles in which the core sleeps.
    """
    ports = [("input", "clk", 1), ("input", "rst", 1)]
    for path, member, _ in top.signature.flatten(top):
        ports.append(("input" if member.flow is In else "output", "__".join(map(str, path)), Shape.cast(member.shape).width))
    assert len(ports) == len(ports_of(top)) + 2
    own = [("input", "poke", 1), ("input", "poke_address", 14), ("input", "poke_word", 32), ("output reg", "slept", 32)]
    declared = ",\n".join(f"  {way} [{width - 1}:0] {port}" for way, port, width in (*ports, *own))
    connected = ", ".join(f".{port}({port})" for _, port, _ in ports)
    rom = "dut.controller.bus.rom"
    if top.halved:
        slices = "\n      ".join(f"{rom}.slice{k}[poke_address[12:0]] <= poke_word[{k * SLICE} +: {SLICE}];" for k in range(32 // SLICE))
        poke = f"if (poke_address[13]) {rom}.rest[poke_address[9:0]] <= poke_word;\n      else begin\n      {slices}\n      end"
    else:
        poke = f"{rom}.words[poke_address] <= poke_word;"
    return f"""
module {name}(
{declared});
  {name}_dut dut({connected});
  initial slept = 0;
  always @(posedge clk) begin
    if (poke) begin
      {poke}
    end
    if (dut.controller.core.vexriscv.CsrPlugin_inWfi) slept <= slept + 1;
  end
endmodule
{verilog_path().read_text()}"""


def assemble(text: str) -> list[int]:
    """Return the words of an assembly program for address 0."""
    with tempfile.TemporaryDirectory() as folder:
        source, elf, binary = (Path(folder, f"program.{end}") for end in ("S", "elf", "bin"))
        source.write_text(text)
        cross = "riscv64-unknown-elf-"
        subprocess.run([f"{cross}gcc", "-march=rv32imc_zicsr", "-mabi=ilp32", "-nostdlib", "-Wl,-Ttext=0", source, "-o", elf], check=True)
        subprocess.run([f"{cross}objcopy", "-O", "binary", elf, binary], check=True)
        data = binary.read_bytes()
    return [int.from_bytes(data[k : k + 4], "little") for k in range(0, len(data), 4)]
