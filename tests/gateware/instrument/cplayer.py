"""Builds player.cpp with a variant of the instrument, once per content, and runs it."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from wattbell_gateware import generate
from wattbell_gateware.instrument import Instrument, Options
from wattbell_gateware.layouts import tlp_beat
from wattbell_gateware.nvme import tracker
from wattbell_gateware.tlp import TlpMerge
from wattbell_gateware.verilog import convert

from tests.gateware.verilate import MAKE, MODEL, find_verilator

HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "build"
SLOW = {"instrument_slow": Options(width=128, ticks_per_clock=4, adc="serial", slow=True)}
"""Like the ECP5's, except for its sizes."""
PACE = {"instrument_slow": ("16",)}
"""Ticks per beat on the link, if not a cycle's."""
LATE = {"instrument_late": generate.VARIANTS["instrument_x4_word"]}
"""The same with a tracker that rests now and then."""
VARIANTS = generate.VARIANTS | SLOW | LATE


class RestingMerge(wiring.Component):
    """A merge that pauses for up to 63 clocks after about every sixteenth header, and for up to 2047 clocks after one in 256.

    This is longer than any part takes outside a burst, and shorter than ``RELEASE_CLOCKS``.
    """

    def __init__(self, *args, **options) -> None:
        self._inner = TlpMerge(*args, **options)
        super().__init__(self._inner.signature)

    def elaborate(self, _platform) -> Module:
        m = Module()
        m.submodules.inner = inner = self._inner
        noise, rest = Signal(16, init=0xACE1), Signal(11)
        m.d.sync += noise.eq(Cat(noise[15] ^ noise[13] ^ noise[12] ^ noise[10], noise[:15]))
        for name, member in self.signature.members.items():
            if name == "out":
                m.d.comb += [
                    self.out.payload.eq(inner.out.payload),
                    self.out.valid.eq(inner.out.valid & (rest == 0)),
                    inner.out.ready.eq(self.out.ready & (rest == 0)),
                ]
            elif member.is_signature:
                wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(inner, name))
            elif member.flow == wiring.Out:
                m.d.comb += getattr(self, name).eq(getattr(inner, name))
            else:
                m.d.comb += getattr(inner, name).eq(getattr(self, name))
        with m.If(rest != 0):
            m.d.sync += rest.eq(rest - 1)
        with m.Elif(self.out.valid & self.out.ready & (noise[:4] == 0)):
            m.d.sync += rest.eq(Mux(noise[4:8] == 0, noise[5:], noise[8:14]))
        return m


@dataclass(frozen=True)
class Run:
    """Result of a run: the stream, the tick at which each of its words was taken, cycles evaluated, cycles of the tracker."""

    stream: bytes
    ticks: tuple[int, ...]
    clocks: int
    bus_clocks: int


def build(variant: str) -> Path:
    """Return the executable for one of :data:`VARIANTS`."""
    options = VARIANTS[variant]
    width, ticks, serial = options.width, options.ticks_per_clock, options.adc == "serial"
    rtl = BUILD / "rtl"
    rtl.mkdir(parents=True, exist_ok=True)
    with (rtl / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if variant in LATE:
            with patch.object(tracker, "TlpMerge", RestingMerge):
                generate.write(rtl / f"{variant}.v", convert(Instrument(options), variant))
        elif variant in SLOW:
            generate.write(rtl / f"{variant}.v", convert(Instrument(options), variant))
        else:
            generate.generate(rtl, [variant])
    sources = [HERE / "top.v", rtl / f"{variant}.v", HERE / "player.cpp"]
    made_by = repr((MODEL, MAKE, width, ticks, serial)).encode()
    digest = hashlib.sha256(b"".join([made_by, *(path.read_bytes() for path in sources)])).hexdigest()[:16]
    folder = BUILD / "gateware" / f"player-{variant}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "player").exists():
            command = [
                find_verilator(),
                "--cc",
                "--exe",
                "--build",
                "-j",
                "2",
                "--prefix",
                "Vtop",
                "--top-module",
                "top",
                "-Mdir",
                str(folder / "obj"),
                "-o",
                "../player.new",
                f"+define+BEAT={tlp_beat(width).size}",
                f"+define+INSTRUMENT={variant}",
                *MODEL,
                "-CFLAGS",
                f"-DWIDTH={width} -DTICKS={ticks}{' -DSERIAL' if serial else ''}",
                "-MAKEFLAGS",
                " ".join((*MAKE, *(["OBJCACHE=ccache"] if shutil.which("ccache") else []))),
                *(["+define+SERIAL"] if serial else []),
                *map(str, sources),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
            (folder / "player.new").rename(folder / "player")
            shutil.rmtree(folder / "obj")
    return folder / "player"


def play(player: Path, script: Path, out: Path, *modes: str) -> Run:
    """Run a script in the modes `modes` of player.cpp."""
    done = subprocess.run([str(player), str(script), str(out), *modes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    clocks, bus_clocks, *_ = done.stdout.split()
    ticks = struct.iter_unpack("<Q", Path(f"{out}.ticks").read_bytes())
    return Run(out.read_bytes(), tuple(tick for (tick,) in ticks), int(clocks), int(bus_clocks))
