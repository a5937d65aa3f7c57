"""From a seed to a bus trace and the truth of every command."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from wattbell_spec.nvme import admin, feature

from tests.traffic import packets
from tests.traffic.drive import Drive
from tests.traffic.host import Host, HostSq, end_deed
from tests.traffic.kernel import NS, US, Group, Kernel, Process
from tests.traffic.kinds import Setup
from tests.traffic.link import L0, LINK_STATE, PERST, Link, encode
from tests.traffic.memory import PAGE, Memory
from tests.traffic.namespaces import Namespace
from tests.traffic.packets import DOWN, UP
from tests.traffic.resets import RESETS
from tests.traffic.root import DEVICE, Root
from tests.traffic.truth import INSTANTS, Deed, to_json

_TAIL = 300 * US
"""Pause between the last TLP and the end of the trace."""
_ATTACH = 5_000 * US
"""First TLP of a trace that begins late: each fact of an attach takes a rig 33 us (docs/gateware.md)."""


@dataclass
class Traffic:
    """A trace and its truth. ``records``: time in ps, type, flags, body."""

    setup: Setup
    records: list[tuple[int, int, int, bytes]]
    deeds: list[Deed]
    """In the order in which the host submitted."""
    end: int
    attach: list[str] = field(default_factory=list)
    """SCPI lines by which a host gives a rig the facts that it missed (docs/scpi.md); empty unless the trace begins late."""

    def trace(self) -> bytes:
        """The bus trace."""
        return encode(self.records, {"notes": [f"seed {self.setup.seed}", *self.setup.kinds]}, self.end)

    def write(self, path: Path) -> None:
        """The trace, and beside it the truth as JSON."""
        path.write_bytes(self.trace())
        truth = {"seed": self.setup.seed, "kinds": self.setup.kinds, "commands": [to_json(deed) for deed in self.deeds]}
        path.with_suffix(".truth.json").write_text(json.dumps(truth, indent=1))


def generate(setup: Setup) -> Traffic:
    """Let a host and a drive of `setup` play."""
    play = _Play(setup)
    script = play.script()
    play.kernel.spawn(script, Group())
    play.kernel.run(script)
    return play.result()


class _Play:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.rng = rng = random.Random(f"play {setup.seed}")
        self.kernel = Kernel()
        self.link = Link(self.kernel, rng, setup.generation, setup.lanes)
        memory = Memory(rng, setup.zones)
        root = Root(self.kernel, self.link, memory, rng, setup)
        self.deeds: list[Deed] = []
        self.hosts = []
        for function in range(setup.functions):
            spaces = [Namespace(nsid + 1, name) for nsid, name in enumerate(setup.formats)]
            drive = Drive(self.kernel, self.link, root, rng, setup, function, spaces)
            self.hosts.append(Host(self.kernel, self.link, root, memory, rng, setup, drive, self.deeds))
        self.queues: list[str] = []
        self.cut = 0

    def script(self) -> Process:
        rng, link, host = self.rng, self.link, self.hosts[0]
        link.sideband(PERST, 0)
        yield 5 * US
        link.sideband(PERST, 1)
        yield int(rng.uniform(10, 100) * US)
        link.retrain(up=True)
        link.sideband(LINK_STATE, L0)
        yield US
        link.send(DOWN, packets.message(packets.SET_SLOT_POWER, DEVICE, bytes((25, 0, 0, 0))))
        yield 10 * US
        for one in self.hosts:
            yield from one.enumerate()
        for one in self.hosts:
            yield from one.start()
        if self.setup.reset:
            rounds = rng.choice((2, 3))
            for _ in range(rounds):
                yield from self._work(self.setup.commands // (rounds + 1), interrupt=True)
                yield from RESETS[self.setup.reset](host)
                yield from host.start()
            yield from self._work(self.setup.commands // (rounds + 1))
        elif self.setup.format_nvm:
            yield from self._work(self.setup.commands // 2)
            yield from self._format(host)
            yield from self._work(self.setup.commands // 2)
        else:
            yield from self._work(self.setup.commands)
        yield int(rng.uniform(20, 200) * US)

    def _work(self, commands: int, interrupt: bool = False) -> Process:
        """Run I/O commands on all queues. ``interrupt``: return amid them."""
        rng, setup = self.rng, self.setup
        side = Group()
        for host in self.hosts:
            queues = [sq for sq in host.sqs.values() if sq.qid]
            host.working = len(queues)
            for sq in queues:
                sq.left = max(1, commands // (len(queues) * len(self.hosts)))
                self.kernel.spawn(host.worker(sq), sq.group, int(rng.random() * 10 * US))
            if setup.admin_mix:
                self.kernel.spawn(self._administer(host), host.group)
            if setup.aers and rng.random() < 0.7:
                self.kernel.spawn(self._events(host), host.group)
        self.kernel.spawn(self._noise(), side)
        if setup.delete_queues:
            yield from self._renew_queues(self.hosts[0])
        if interrupt:
            wanted = len(self.deeds) + max(1, int(commands * rng.uniform(0.2, 0.9)))
            while self.hosts[0].working and len(self.deeds) < wanted:
                yield US
        else:
            if setup.late:
                goal = len(self.deeds) + int(commands * rng.uniform(0.1, 0.6))
                while len(self.deeds) < goal and self.hosts[0].working:
                    yield US
                self._attach(self.hosts[0])
            for host in self.hosts:
                while host.working:
                    yield host.finished
        side.alive = False
        setup.admin_mix, mixed = False, setup.admin_mix
        if mixed and not interrupt:
            while any(order.done is not None for host in self.hosts for order in host.sqs[0].flying.values()):
                yield 2 * US
        setup.admin_mix = mixed

    def _attach(self, host: Host) -> None:
        """From here on the trace is seen."""
        self.cut = self.kernel.now
        lines = [f"NVME:BAR0 #H{host.bar:X}", f"NVME:DSTR {self.setup.dstrd}"]
        lines += [f"NVME:QUE CQ,{cq.qid},#H{cq.base:X},{cq.size}" for cq in host.cqs.values()]
        lines += [f"NVME:QUE SQ,{sq.qid},#H{sq.base:X},{sq.size},{sq.cq.qid}" for sq in host.sqs.values()]
        self.queues = [*lines, "NVME:ATT"]

    def _noise(self) -> Process:
        """Messages that belong to no command: LTR (PCIe 6.18)."""
        rng = self.rng
        pace = int(10 ** rng.uniform(7, 9))
        while True:
            yield int(rng.expovariate(1 / pace)) + US
            value = rng.randrange(1 << 10) | 2 << 10 | 1 << 15
            self.link.send(UP, packets.message(packets.LTR, 0x0100, words=value << 16 | value))

    def _events(self, host: Host) -> Process:
        """An asynchronous event now and then; the host reads the log and submits a request again."""
        rng = self.rng
        for _ in range(rng.randrange(1, 4)):
            yield int(rng.uniform(50, 400) * US)
            before = len(host.drive.events)
            host.drive.raise_event()
            if before:
                yield int(rng.uniform(20, 60) * US)
                if host.sqs[0].free() > 8:
                    host.expect_events(1)

    def _administer(self, host: Host) -> Process:
        """Admin commands amid I/O."""
        rng = self.rng
        for _ in range(max(2, self.setup.commands // 10)):
            if not host.working:
                return
            yield int(rng.expovariate(1 / (30 * US)))
            what = rng.randrange(7)
            if what == 0:
                yield from host.admin(admin("identify"), 0, (1,), PAGE)
            elif what == 1:
                dwords = rng.choice((128, 1024, 4096))
                yield from host.admin(admin("get_log_page"), 0xFFFFFFFF, (2 | (dwords - 1) << 16,), 4 * dwords)
            elif what == 2:
                yield from host.admin(admin("set_features"), 0, (feature("apst"), 1), 256)
            elif what == 3:
                yield from host.admin(admin("get_features"), 0, (feature("timestamp"),), 8)
            elif what == 4:
                yield from host.admin(admin("get_features"), 0, (feature("arbitration"),))
            elif what == 5:
                yield from host.admin(admin("abort"), 0, (1 | rng.randrange(16) << 16,))
            else:
                yield from host.admin(admin("set_features"), 0, (feature("timestamp"), 0), 8)

    def _format(self, host: Host) -> Process:
        """Change the format of the only namespace, and identify it again."""
        rng = self.rng
        flbas = rng.choice((1, 2, 4, 0x14))
        space = host.drive.namespaces[0]
        yield from host.admin(admin("format_nvm"), space.nsid, (flbas,))
        yield from host.admin(admin("identify"), space.nsid, (0,), PAGE)

    def _renew_queues(self, host: Host) -> Process:
        """Delete queues with commands in flight and create them with another size, elsewhere (NVMe, Create and Delete I/O Queue)."""
        rng = self.rng
        for _ in range(rng.randrange(1, 5)):
            yield int(rng.uniform(20, 400) * US)
            sqs = [sq for sq in host.sqs.values() if sq.qid and sq.left > 0]
            if not sqs:
                return
            yield from self._renew(host, rng.choice(sqs))

    def _renew(self, host: Host, sq: HostSq) -> Process:
        rng, kernel = self.rng, self.kernel
        sq.group.alive = False
        if sq.unannounced:
            host._announce(sq)
            yield US
        deletion = yield from host.admin(admin("delete_io_sq"), 0, (sq.qid,))
        while sq.cq.arrived or sq.cq.taken:
            yield US
        for order in sq.flying.values():
            end_deed(order.deed, deletion.doorbell, deletion.cqe)
            host.drive.orders.pop((sq.qid, order.deed.cid), None)
            order.give_back(host.memory)
        del host.sqs[sq.qid]
        yield from host.admin(admin("delete_io_cq"), 0, (sq.cq.qid,))
        sq.cq.group.alive = False
        del host.cqs[sq.cq.qid]
        entries = rng.choice((32, 64, 200))
        yield from host.create_cq(sq.qid, max(entries, self.setup.depth + 1))
        yield from host.create_sq(sq.qid, host.cqs[sq.qid], max(entries, self.setup.depth + 1))
        new = host.sqs[sq.qid]
        new.left = sq.left
        kernel.spawn(host.worker(new), new.group)

    def result(self) -> Traffic:
        end = self.kernel.now + 10 * NS
        records = [record for record in self.link.records if record[0] <= end]
        deeds = []
        for deed in self.deeds:
            deed.lacks_after(end)
            deed.settle()
            if deed.begun():
                deeds.append(deed)
        if self.cut:
            records, deeds = self._late(records, deeds)
            end += _ATTACH - self.cut
        return Traffic(self.setup, records, deeds, end + _TAIL, self.queues)

    def _late(self, records: list[tuple[int, int, int, bytes]], deeds: list[Deed]) -> tuple[list[tuple[int, int, int, bytes]], list[Deed]]:
        """The trace from the cut on, and the truth that it shows. It begins late enough for a rig to take the facts of its attach."""
        later = _ATTACH - self.cut
        kept = [(0, 5, 0, bytes((PERST, 1)))]
        kept += [(time_ps + later, kind, flags, body) for time_ps, kind, flags, body in records if time_ps >= self.cut]
        for deed in deeds:
            deed.unseen = (deed.cqe or deed.reset or self.cut) < self.cut
            for name in (*INSTANTS, "named"):
                value = getattr(deed, name)
                if value is not None:
                    setattr(deed, name, value + later if value >= self.cut else None)
        return kept, [deed for deed in deeds if not deed.unseen and (deed.begun() or deed.cqe is not None)]
