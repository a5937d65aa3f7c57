"""A rig's two ports in a separate process, for cases that tests/e2e/feeder.py lacks: other rigs on the same ports, overflowing
buffers.

Run as a program: ``python -m tests.faults.faultrig FOLDER SERIAL``. FOLDER has the ``script.json`` of :func:`play`, or the
``lossy.json`` of :func:`lossy`. The size of ``FOLDER/wire`` is the number of bytes sent so far; ``FOLDER/lost`` lists the
overflows.
"""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.e2e import feeder
from tests.faults.faultbench import Bench, wait_for
from tests.faults.faultstream import COMMANDS, EVENTS, RAIL, STATUS
from tests.host.wire import encoder
from tests.patience import PATIENCE_S

_ROOT = Path(__file__).parents[2]
SERIAL = "FAULT"
_CUT_S = 0.3
_LOST_AT = {COMMANDS: 80, EVENTS: 84, RAIL: 88}
"""Place in a STATUS of the loss counter of each kind."""
_RECORDS, _RAIL_LOST = 5, 7
"""Sources of LOSS events."""


@dataclass(frozen=True)
class Step:
    """A rig on the ports.

    - ``file``: the stream it sends, in the folder.
    - ``cut``: the line is cut before.
    - ``waits``: it sends nothing before INITiate.
    - ``ask``: the next step begins when the recorder, which now reads this step's data, has asked for the identity.
    - ``most_s``: if positive, the next step begins after this time at the latest.
    """

    serial: str
    file: str
    cut: bool = False
    waits: bool = False
    ask: bool = False
    most_s: float = 0.0


class Rig:
    """Answers on the control port."""

    def __init__(self, folder: Path, serial: str) -> None:
        self.folder, self.serial = folder, serial
        self.place = Path(os.environ["WATTBELL_RUNTIME"]) / "rigs"
        self.ports = feeder.Ports(SERIAL, self.place)
        self.running = self.stopped = False
        self.asked = 0
        self._line = b""
        self._wire = open(folder / "wire", "ab")  # noqa: SIM115

    def wait(self, seconds: float, *, send: bool = False) -> bool:
        """Answer for at most this long; with ``send``, return True as soon as the data port takes data."""
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            readable, writable, _ = select.select([self.ports.control], [self.ports.data] if send else [], [], max(0.0, left))
            if readable:
                self._answer()
            if writable:
                return True
            if left <= 0:
                return False

    def write(self, data: bytes) -> int:
        """Send as much as the port takes; return the number of bytes."""
        count = os.write(self.ports.data, data[:4096])
        self._wire.write(data[:count])
        self._wire.flush()
        return count

    def replug(self) -> None:
        """Cut the line and reconnect it."""
        self.ports.let_read(2.0)
        self.ports.close()
        time.sleep(_CUT_S)
        self.ports = feeder.Ports(SERIAL, self.place)
        self.running, self._line = False, b""

    def _answer(self) -> None:
        try:
            self._line += os.read(self.ports.control, 4096)
        except OSError:
            time.sleep(0.01)
            return
        while b"\n" in self._line:
            text, _, self._line = self._line.partition(b"\n")
            self.running = self.running or text == b"INIT"
            self.stopped = self.stopped or text == b"ABOR"
            self.asked += text == b"*IDN?"
            heard = {b"*IDN?": f"Wattbell,fault,{self.serial},0.1", b"SYST:ERR?": '0,"No error"'}
            answer = heard.get(text, f"state={'RUN' if self.running else 'READY'}" if text == b"STAT:RIG?" else None)
            if answer is not None:
                os.write(self.ports.control, answer.encode() + b"\n")


def play(rig: Rig, steps: Sequence[Step]) -> None:
    """Play one rig after the other on the same ports; the last one falls silent at the end."""
    for step in steps:
        if step.cut:
            rig.replug()
        rig.serial = step.serial
        until = time.monotonic() + (step.most_s or PATIENCE_S)
        while step.waits and not rig.running and time.monotonic() < until:
            rig.wait(0.02)
        asked = rig.asked
        rest = (rig.folder / step.file).read_bytes() if rig.running or not step.waits else b""
        while rest and time.monotonic() < until:
            if rig.wait(0.1, send=True):
                rest = rest[rig.write(rest) :]
        while step.ask and rig.asked == asked and time.monotonic() < until:
            rig.wait(0.02)
        (rig.folder / "step").write_text(step.file)
    (rig.folder / "over").touch()
    rig.wait(PATIENCE_S)


def lossy(rig: Rig, seconds: float, buffer: int, seed: int) -> None:
    """Play a rig that measures in real time with a limited buffer for data that its port does not take.

    The rest is lost and reported: in ``dropped`` of the next block of that kind, in LOSS events and by the counters of STATUS.
    """
    while not rig.running:
        rig.wait(0.02)
    made = _Made(rig.folder, buffer, seed)
    began = time.monotonic()
    made.begin()
    number = 0
    while number < seconds * 100:
        number += 1
        made.round(number)
        while (left := began + number * 0.01 - time.monotonic()) > 0:
            if rig.wait(left, send=bool(made.waiting)):
                del made.waiting[: rig.write(bytes(made.waiting[:4096]))]
    made.end(number)
    while made.waiting:
        if rig.wait(0.1, send=True):
            del made.waiting[: rig.write(bytes(made.waiting[:4096]))]
    (rig.folder / "over").touch()
    rig.wait(PATIENCE_S)


class _Made:
    """Makes a rig's data of 10 ms: a block of 100 samples, a block of some commands, now and then a STATUS."""

    first, ticks = 3_000_000_000, 10_000_000

    def __init__(self, folder: Path, buffer: int, seed: int) -> None:
        self.waiting = bytearray()
        self._room, self._seed = buffer, seed
        self._lost_file = open(folder / "lost", "wb")  # noqa: SIM115
        self._sequence = self._uid = self._commands = self._adc = self._energy = 0
        self._dropped = dict.fromkeys((COMMANDS, RAIL, EVENTS, STATUS), 0)
        self._lost = dict.fromkeys((COMMANDS, RAIL, EVENTS), 0)
        self._told = dict(self._lost)

    def _put(self, kind: int, tick: int, payload: bytes, records: int) -> None:
        block = encoder.block(kind, self._sequence, tick, payload, self._dropped[kind], run=77)
        if len(self.waiting) + len(block) > self._room:
            self._lost_file.write(block)
            self._lost_file.flush()
            self._dropped[kind] += records
            if kind in self._lost:
                self._lost[kind] += records
            return
        self.waiting += block
        self._sequence += 1
        self._dropped[kind] = 0

    def _status(self, tick: int, running: int) -> None:
        payload = bytearray(struct.pack("<IIHHHHHBBIIIHH", 0x00010000, 1000, 4, 128, 64, 1024, 18, running, 0, 20, 500, 100_000, 1, 0))
        payload += struct.pack("<QQQ", tick, 0, self._commands) + bytes(44)
        for kind, at in _LOST_AT.items():
            struct.pack_into("<I", payload, at, self._lost[kind])
        self._put(STATUS, tick, bytes(payload), 1)

    def _event(self, tick: int, *event: int) -> None:
        self._put(EVENTS, tick, struct.pack("<QBBHI", tick, *event), 1)

    def begin(self) -> None:
        self._status(self.first, 1)
        self._event(self.first, 15, 1, 0, 0)

    def round(self, number: int) -> None:
        tick = self.first + number * self.ticks
        if number == 20:
            self._event(tick, 7, 0, 0, 1 << 8 | 1)
        current = 200_000 + (self._seed + number) % 1000 * 100
        self._adc += 100
        self._energy += 100 * 165_000 * current
        samples = (165_000).to_bytes(3, "little") + current.to_bytes(3, "little")
        about = struct.pack("<IHHQQi", 100_000, 100, 0, self._adc, self._energy & (2**64 - 1), self._energy >> 64)
        self._put(RAIL, tick - self.ticks, about + samples * 100, 100)
        commands = []
        for k in range(5):
            self._uid += 1
            at = tick - self.ticks + k * 1_900_000
            ages = (90_000 + self._uid % 1000, 80_000, 70_000, 20_000, 300, 700)
            commands.append(encoder.Command(at + ages[0], *ages, opcode=1 + k % 2, cid=self._uid & 0xFFFF, slba=8 * self._uid))
        self._commands += len(commands)
        self._put(COMMANDS, commands[0].cqe_tick, b"".join(one.pack(commands[0].cqe_tick) for one in commands), len(commands))
        for kind, source in ((COMMANDS, _RECORDS), (RAIL, _RAIL_LOST)):
            more = self._lost[kind] - self._told[kind]
            if more and len(self.waiting) + 2000 < self._room:
                self._event(tick, 8, source, 0, more)
                self._told[kind] = self._lost[kind]
        if number % 13 == 0:
            self._status(tick, 1)

    def end(self, number: int) -> None:
        tick = self.first + (number + 1) * self.ticks
        self._room = 1 << 30
        self._event(tick, 7, 0, 0, 1 << 8 | 2)
        self._event(tick, 15, 0, 0, 0)
        self._status(tick, 0)


class RigBench(Bench):
    """A bench with such a rig in place of the feeder."""

    def begin(self, name: str, content: Any) -> subprocess.Popen[str]:
        (self.folder / name).write_text(json.dumps(content))
        self.env["PYTHONPATH"] = str(_ROOT)
        rig = self.start([sys.executable, "-m", "tests.faults.faultrig", str(self.folder), SERIAL], cwd=_ROOT)
        wait_for((self.folder / "runtime" / "rigs" / f"{SERIAL}.json").exists, "the rig")
        return rig

    def play(self, steps: Sequence[Step]) -> subprocess.Popen[str]:
        return self.begin("script.json", [asdict(step) for step in steps])

    def lossy(self, seconds: float, buffer: int, seed: int) -> subprocess.Popen[str]:
        return self.begin("lossy.json", {"seconds": seconds, "buffer": buffer, "seed": seed})

    @property
    def over(self) -> bool:
        """Return whether the rig has sent everything."""
        return (self.folder / "over").exists()

    @property
    def sent(self) -> int:
        try:
            return (self.folder / "wire").stat().st_size
        except OSError:
            return 0


def _main() -> None:
    folder = Path(sys.argv[1])
    rig = Rig(folder, sys.argv[2])
    try:
        if (folder / "script.json").exists():
            play(rig, [Step(**step) for step in json.loads((folder / "script.json").read_text())])
        else:
            lossy(rig, **json.loads((folder / "lossy.json").read_text()))
    finally:
        rig.ports.close()


if __name__ == "__main__":
    _main()
