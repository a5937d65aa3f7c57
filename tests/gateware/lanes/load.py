"""NVMe commands at a steady rate: every TLP of every command, on queues that a host has set up."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.gateware import blockparser
from tests.gateware.lanes import chain
from tests.gateware.lanes import lane_player as lp
from tests.gateware.lanes.bus_trace import Timed
from tests.gateware.nvme.link import DOWN, UP
from tests.gateware.nvme.scenario import boot, make

QUEUES, DEPTH = 8, 1024
_BUFFERS, _BUFFER_PAGES = 0x5A_0000_0000, 2048
READ, FLUSH = 2, 0


class Host:
    """A drive that is set up: `setup`, its TLPs with shortened pauses."""

    def __init__(self, seed: int = 1, longest_gap_ns: int = 400):
        _, self._link, self._model = make(seed, stride=0)
        boot(self._model, QUEUES, sizes=(DEPTH, DEPTH))
        self.setup: list[Timed] = []
        at = before = 0
        for sent in sorted(self._link.sent, key=lambda s: s.tick):
            at += min(sent.tick - before, longest_gap_ns)
            before = sent.tick
            self.setup.append(Timed(at, sent.direction, sent.raw))
        self.first = len(self._model.records)
        """Commands of the set-up."""

    def commands(self, rate: float, count: int, *, data_bytes: int = 0, payload: int = 256) -> list[Timed]:
        """Return `count` commands, `rate` per second, evenly spaced: Flush, or Read of `data_bytes` in TLPs of `payload` bytes.

        Each command has its own doorbell, fetch of the SQE, completion with it, data, CQE, interrupt and CQ head doorbell, each
        some time after the previous one. A busy direction sends later. Read k has starting LBA k.
        """
        clock, link = self._link.clockwork, self._link
        clock.now, link.sent, link._busy_until = self.setup[-1].ns + 5000, [], [0, 0]
        for k in range(count):
            clock.after(int(k * 1e9 / rate), partial(self._begin, k, data_bytes, payload))
        clock.run()
        return [Timed(s.tick, s.direction, s.raw) for s in sorted(link.sent, key=lambda s: s.tick)]

    def _begin(self, k: int, data_bytes: int, payload: int) -> None:
        model, link, q = self._model, self._link, self._model.queues[1 + k % QUEUES]
        cid, tag, buffer = k // QUEUES & 0xFFFF, k % 256, _BUFFERS + 4096 * (k % _BUFFER_PAGES)
        slot, blocks = q.tail, max(1, data_bytes // 512)
        q.tail = (q.tail + 1) % q.size
        sqe = struct.pack(
            "<BBHL8x8xQQ6L",
            READ if data_bytes else FLUSH,
            0,
            cid,
            1,
            buffer if data_bytes else 0,
            0,
            k if data_bytes else 0,
            0,
            blocks - 1 if data_bytes else 0,
            0,
            0,
            0,
        )

        def fetch() -> None:
            self._then(link.read(UP, q.base + 64 * slot, 64, tag), 400, complete)

        def complete() -> None:
            self._then(link.completion(DOWN, q.base + 64 * slot, sqe, tag, 64), 2300, move)

        def move() -> None:
            tick = self._link.clockwork.now
            for at in range(0, data_bytes, payload):
                tick = link.write(UP, buffer + at, bytes(payload))
            self._then(tick, 100, post)

        def post() -> None:
            cq = q.cq
            place, phase = cq.tail, cq.phase
            cq.tail = (cq.tail + 1) % cq.size
            cq.phase ^= cq.tail == 0
            head = cq.tail
            link.write(UP, cq.base + 16 * place, struct.pack("<LLHHHH", 0, 0, (slot + 1) % q.size, q.qid, cid, phase))
            tick = link.write(UP, 0xFEE00000 + (cq.vector << 12), struct.pack("<L", 0x4020 + cq.vector))
            self._then(tick, 900, lambda: model.doorbell(cq.cqid, 1, head))

        self._then(model.doorbell(q.qid, 0, q.tail), 300, fetch)

    def _then(self, tick: int, later_ns: int, what: Callable[[], object]) -> None:
        clock = self._link.clockwork
        clock.after(tick - clock.now + later_ns, what)


USB_BYTES_PER_S = 42_000_000
"""USB 2.0 high speed in practice."""
_LOSS = 8


@dataclass(frozen=True)
class Outcome:
    """Result of a load.

    - `records`: records of the commands at the steady rate.
    - `marked`: records with any flag.
    - `dropped`: records lost for lack of room.
    - `losses`: LOSS events, {source: number}.
    - `stream_bytes`: bytes of the whole stream.
    """

    commands_per_s: float
    commands: int
    records: int
    marked: int
    dropped: int
    losses: dict[int, int]
    stream_bytes: int

    @property
    def lossless(self) -> bool:
        return self.records == self.commands and not self.marked and not self.dropped and not self.losses


def play(
    player: Path,
    rate: float,
    milliseconds: float,
    folder: Path,
    *,
    data_bytes: int = 0,
    usb: bool = True,
    speed: str | None = "8",
    lanes: int = 4,
    drain_ns: int = 1_200_000,
) -> Outcome:
    """Play a drive that is set up, then `rate` commands per second for `milliseconds`.

    `usb`: the stream is limited to :data:`USB_BYTES_PER_S`. `speed` None: TLPs bypass the lanes. `drain_ns`: time from the last
    word of the lanes to the end; the capture continues for half this time.
    """
    host = Host()
    count = round(rate * milliseconds / 1000)
    traffic = host.setup + host.commands(rate, count, data_bytes=data_bytes)
    if speed is None:
        mode, end = "tlps", traffic[-1].ns + chain.START
        for direction, name in enumerate(("down", "up")):
            lp.write_tlps(folder / f"{name}.tlps", [(t.ns + chain.START, t.raw) for t in traffic if t.direction == direction])
    else:
        mode, end = "lanes", 0
        for name, sender in zip(("down", "up"), chain.send(traffic, speed, lanes, seed=1, faults=chain.Faults(acks=0.2)).senders):
            end = max(end, lp.write_lanes(folder / f"{name}.lanes", sender.wires()))
    script = lp.Script(end=end // 4 * 4 + drain_ns, stop=end // 4 * 4 + drain_ns // 2)
    # words of four bytes in cycles of 4 ns
    script.lines += [(10, f"take 10 {USB_BYTES_PER_S // 4 // 500_000} 500")] if usb else []
    run = lp.play(player, mode, folder / f"down.{mode}", folder / f"up.{mode}", script, folder / "load")
    blocks = blockparser.blocks(run.stream)
    dropped = sum(b.dropped for b in blocks if b.kind == blockparser.COMMANDS)
    losses = Counter()
    for block in blocks:
        if block.kind == blockparser.EVENTS:
            for event in blockparser.events(block):
                losses[event.arg8] += event.arg32 if event.type == _LOSS else 0
    mine = [r for r in chain.records(run.stream, whole=False) if r["qid"] and (r["opcode"] == READ) == bool(data_bytes)]
    mine = mine[0 if data_bytes else QUEUES :]  # the setup has a Flush for each queue
    if data_bytes:
        assert sorted({r["slba"] for r in mine}) == sorted(r["slba"] for r in mine), "a command twice"
    return Outcome(rate, count, len(mine), sum(r["flags"] != 0 for r in mine), dropped, dict(+losses), len(run.stream))


__all__ = ["DEPTH", "DOWN", "QUEUES", "Host", "Outcome", "play"]
