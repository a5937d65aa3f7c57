"""Builds lane_player.cpp with the models of lanes_top.py once per content, and runs it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from wattbell_gateware import verilog
from wattbell_gateware.generate import sources_digest
from wattbell_gateware.link.receiver import COUNTERS
from wattbell_spec.link_events import LinkEvent
from wattbell_spec.registers import by_name

from tests.gateware.lanes.lanes_top import InstrumentTop, ReceiverTop
from tests.gateware.phy.transmitter.fast import words
from tests.gateware.verilate import COMPILER, MAKE, MODEL, find_verilator

HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "build/gateware"
WIRES = 4
TICKS = 4
"""Ticks per cycle of the model."""


class Rate(NamedTuple):
    """A speed: bits per word of a lane, ticks from word to word."""

    number: int
    bits: int
    ticks_per_word: int


RATES = {"2.5": Rate(0, 40, 16), "5": Rate(1, 40, 8), "8": Rate(2, 32, 4)}


class Delivered(NamedTuple):
    """A TLP as delivered by a receiver; `when`: tick of the cycle of its last beat."""

    tick: int
    when: int
    raw: bytes


class Told(NamedTuple):
    """A link event."""

    tick: int
    kind: str
    argument: int


@dataclass
class Run:
    """Results of a run. Lists by direction: 0 from the host, 1 from the drive."""

    stream: bytes
    tlps: tuple[list[Delivered], list[Delivered]]
    events: tuple[list[Told], list[Told]]
    counters: tuple[dict[str, int], dict[str, int]]
    clocks: int
    seconds: float


@dataclass
class Script:
    """Further options; see lane_player.cpp. A capture runs from `start` on, from a drive with PERST# released at 100."""

    end: int
    start: int = 200
    stop: int | None = None
    lines: list[tuple[int, str]] = field(default_factory=list)

    def without_link_events(self) -> Script:
        """Return the script without link events in the stream, which has no room for them all on a link full of replays.

        The receivers' own queue has them all, and so has :class:`Run`.
        """
        self.lines.append((50, f"reg 50 {by_name('LINK_EVENTS').address} 0"))
        return self

    def text(self) -> str:
        lines = [(100, "perst 100 1"), (self.start, f"reg {self.start} 3 1"), (self.end, f"end {self.end}"), *self.lines]
        if self.stop is not None:
            lines.append((self.stop, f"reg {self.stop} 3 0"))
        return "".join(f"{line}\n" for _, line in sorted(lines, key=lambda entry: entry[0]))


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _call(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def _verilog(make: type, name: str) -> str:
    """Return Verilog of the component, generated once per state of the sources."""
    digest = _digest(sources_digest().encode(), (HERE / "lanes_top.py").read_bytes())
    kept = BUILD / f"lanes-{name}.v", BUILD / f"lanes-{name}.made-of"
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / f"lanes-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept[1].exists() or kept[1].read_text() != digest:
            kept[0].write_text(verilog.convert(make(), name))
            kept[1].write_text(digest)
        return kept[0].read_text()


def _model(make: type, name: str) -> Path:
    """Return the folder with V`name`.h and a library of the model, built once per content."""
    text = _verilog(make, name)
    folder = BUILD / f"lanes-{name}-{_digest(text.encode(), repr((MODEL, MAKE)).encode())}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            (folder / f"{name}.v").write_text(text)
            _call(find_verilator(), "--cc", *MODEL, "--prefix", f"V{name}", "--top-module", name, "-Mdir", folder, folder / f"{name}.v")
            ccache = ["OBJCACHE=ccache"] if shutil.which("ccache") else []
            _call("make", "-C", folder, "-f", f"V{name}.mk", "-j", "2", *MAKE, *ccache, f"libV{name}")
            for old in folder.glob("*.gch"):
                old.unlink()
            (folder / "built").touch()
    return folder


def build() -> Path:
    """Build the executable."""
    source = HERE / "lane_player.cpp"
    models = [_model(ReceiverTop, "receiver"), _model(InstrumentTop, "instrument")]
    target = BUILD / f"lane_player-{_digest(source.read_bytes(), *(m.name.encode() for m in models))}"
    if not target.exists():
        root = subprocess.run([find_verilator(), "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=True).stdout.strip()
        _call(
            COMPILER,
            "-std=c++17",
            "-O1",
            *(f"-I{m}" for m in models),
            f"-I{root}/include",
            f"-I{root}/include/vltstd",
            source,
            *models[0].glob("libV*.a"),
            *models[1].glob("libV*.a"),
            models[1] / "libverilated.a",
            "-pthread",
            "-latomic",
            "-o",
            target.with_suffix(f".{os.getpid()}"),
        )
        target.with_suffix(f".{os.getpid()}").rename(target)
    return target


def write_lanes(path: Path, stretches: Sequence[tuple[str, int, list[np.ndarray]]], *, reverse: bool = False) -> int:
    """Write lane words: (speed, tick of the first bit, bits of every wire); return the tick after the last word.

    Further wires carry noise, as open receivers do; wires that end early stay silent. `reverse`: the first wire given is the last
    of the four.
    """
    noise, end = np.random.default_rng(1), 0
    with path.open("wb") as file:
        for speed, tick, wires in stretches:
            rate = RATES[speed]
            columns = [words(wire, rate.bits) for wire in wires]
            count = max(map(len, columns))
            table = np.zeros((count, WIRES), dtype="<u8")
            for n, column in enumerate(columns):
                table[: len(column), n] = column
            for n in range(len(wires), WIRES):
                table[:, n] = noise.integers(0, 1 << rate.bits, count, dtype=np.uint64)
            assert tick % TICKS == 0
            file.write(struct.pack("<IIQQ", rate.number, rate.ticks_per_word // TICKS, tick, count))
            file.write(table[:, ::-1].tobytes() if reverse else table.tobytes())
            end = tick + count * rate.ticks_per_word
    return end


def write_tlps(path: Path, tlps: Iterable[tuple[int, bytes]]) -> None:
    """Write TLPs with their ticks, in order."""
    path.write_bytes(b"".join(struct.pack("<QI", tick, len(raw)) + raw for tick, raw in tlps))


def play(player: Path, mode: str, down: Path, up: Path, script: Script, out: Path) -> Run:
    """Play both directions. `mode` is lanes or tlps; `out` is the prefix of the output files."""
    text = out.with_suffix(".script")
    text.write_text(script.text())
    done = subprocess.run([player, mode, down, up, text, out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    names = [name for name, _ in COUNTERS]
    return Run(
        out.with_suffix(".stream").read_bytes(),
        (_tlps(out.with_suffix(".down")), _tlps(out.with_suffix(".up"))),
        _events(out.with_suffix(".events")),
        tuple(dict(zip(names, said[d], strict=True)) for d in ("down", "up")),
        said["clocks"],
        said["seconds"],
    )


def _tlps(path: Path) -> list[Delivered]:
    data, at, out = path.read_bytes(), 0, []
    while at < len(data):
        tick, when, size = struct.unpack_from("<QQI", data, at)
        out.append(Delivered(tick, when, data[at + 20 : at + 20 + size]))
        at += 20 + size
    return out


def _events(path: Path) -> tuple[list[Told], list[Told]]:
    out = ([], [])
    for tick, direction, kind, argument in struct.iter_unpack("<QIII", path.read_bytes()):
        out[direction].append(Told(tick, LinkEvent(kind).name, argument))
    return out
