"""Hosts that do what a driver may do but Linux does not: completion queues shared by submission queues of other numbers, doorbells far
apart, namespaces of two LBA sizes, queues deleted amid traffic whose memory is data from then on, shadow doorbells in one session of the
controller out of several, other interrupt messages in each."""

from __future__ import annotations

import struct

from tests.gateware.nvme.link import DOWN, UP, Clockwork, Link
from tests.gateware.nvme.memory import Pool
from tests.gateware.nvme.model import Model
from tests.gateware.nvme.scenario import boot, create_queues, delete_cq, delete_sq, make
from tests.gateware.nvme.scenario import workload as any_workload

SECTORS = {1: 512, 2: 4096}
"""Logical block size in bytes by namespace."""


def make_host(seed: int, stride: int, **options) -> tuple[Clockwork, Link, Model]:
    clock, link, model = make(seed, stride=stride, lbas=SECTORS, **options)
    model.brief, model.ends, model.lazy, model.cqes = True, True, 0.5, 3
    model.list_read = 64
    # Drivers that use few CIDs, all of which start one chain of the tracker's (store.rs, hash), and leave the previous content in PRP2.
    model.cid_step, model.cid_count = 0x401, 32
    model.left_over = 0.3
    model.small = 0.5
    return clock, link, model


def workload(model: Model, commands: int) -> None:
    """With 4096-byte blocks long commands would come faster than the tracker can take their TLPs."""
    any_workload(model, commands, most=80)


def part(model: Model, ticks: int) -> None:
    """Runs the model for `ticks`, then pauses it."""
    end = model.clock.now + ticks
    queue = model.clock._queue
    while queue and queue[0][0] <= end:
        model.clock.step()
    model.clock.now = max(model.clock.now, end)


def draw_queues(model: Model, count: int) -> None:
    """`count` submission queues of any numbers that complete to fewer completion queues, of other numbers."""
    r = model.random
    numbers = r.sample(range(1, 64), 2 * count)
    sqs, cqs = numbers[:count], numbers[count : count + (count + 1) // 2]
    completing = dict(zip(sqs, [*cqs, *r.choices(cqs, k=count - len(cqs))], strict=True))
    create_queues(model, count, (4, 200), only=sqs, completing=completing)


def use_shadow_doorbells(model: Model) -> None:
    """Doorbell Buffer Config; doorbells are then rung only now and then, and the drive looks at the buffers."""
    buffers = model.pages(2)

    def on(command) -> None:
        model.events.append((command.ticks["cqe"], "SHADOW_DOORBELLS", 0, 0, 0))
        model.shadow, model.elide = True, 0.7

    command = model.admin(0x7C, done=on)
    command.sqe = model.sqe(0x7C, command.cid, 0, buffers[0], buffers[1], (0,) * 6)
    model.ring(0)
    model.clock.run()

    def drive_looks() -> None:
        if model.live and model.shadow:
            model.link.write(UP, buffers[1] + 8 * model.random.randrange(1, 3), struct.pack("<L", model.random.getrandbits(6)))
            model.clock.after(model.random.randrange(500, 3000), drive_looks)

    model.clock.after(2500, drive_looks)


def neighbours(model: Model) -> None:
    """Writes to registers of other devices, whose addresses equal the drive's doorbells except for the upper half, or lie before BAR0, for
    as long as there is traffic."""
    r = model.random
    if model.live:
        doorbell = 0x1000 + r.randrange(8) * (4 << model.stride)
        for address in (model.bar0 + (r.randrange(1, 16) << 32) + doorbell, model.bar0 - r.randrange(1, 1 << 12) * 4):
            model.link.write(DOWN, address, struct.pack("<L", r.randrange(64)))
        model.clock.after(r.randrange(2000, 9000), lambda: neighbours(model))


def delete_some(model: Model) -> None:
    """An SQ amid its traffic; its CQ too if nothing else completes to it. Then its doorbells are rung once more."""
    r = model.random
    qid = r.choice([n for n in model.queues if n])
    q = delete_sq(model, qid)
    model.clock.run()
    model.doorbell(qid, 0, r.randrange(q.size))
    if not any(other.cq is q.cq for other in model.queues.values()):
        cq = q.cq
        delete_cq(model, cq)
        model.clock.run()
        model.admin(0x04, cdw=(cq.cqid, 0))  # which this drive acknowledges again
        model.ring(0)
        model.clock.run()
        model.doorbell(cq.cqid, 1, r.randrange(cq.size))
    model.clock.now += 2000


def admin_alone(model: Model) -> None:
    """A power state, Get Features and Identify, with whatever doorbells are in use."""
    state = model.random.randrange(5)
    model.admin(0x09, cdw=(2, state), done=lambda c: model.events.append((c.ticks["cqe"], "POWER_STATE", state, 0, 0)))
    model.ring(0)
    model.clock.run()
    for opcode, length in ((0x0A, 0), (0x06, model.page)):
        model.admin(opcode, cdw=(1, 0), prp1=model.pages(1)[0] if length else 0, length=length)
        model.ring(0)
        model.clock.run()


def live(model: Model, queues: int, commands: int, *, shadow: bool, kill: bool) -> None:
    """A session of the controller, from CC.EN = 1 to CC.EN = 0 amid traffic (`kill`) or to the end of its work, which some CQ head
    doorbells do not report."""
    r = model.random
    model.lists = Pool(256, model.pages(1), model.page) if shadow else None
    draw_queues(model, queues)
    for _ in range(2):
        workload(model, commands // 4)
        model.clock.after(2500, lambda: neighbours(model))
        part(model, r.choice((6_000, 15_000, 40_000)))
        delete_some(model)
        workload(model, commands // 4)  # in the memory of the queue, too
        model.clock.run()
    create_queues(model, 1, (4, 200), only=r.sample([n for n in range(1, 64) if n not in model.queues and n not in model.cqs], 1))
    if shadow:
        use_shadow_doorbells(model)
    workload(model, commands)
    model.clock.after(2500, lambda: neighbours(model))
    part(model, 60_000)
    admin_alone(model)
    if kill:
        workload(model, commands)
        part(model, 60_000)
        model.link.drain()
        model.disable()
    else:
        model.clock.run()
        model.lazy = 1.0  # no doorbell for the last ones
        workload(model, 6 * queues)
        admin_alone(model)
    model.clock.run()
    model.link.drain()


def enable_again(model: Model, pause: int) -> None:
    """Another session: its interrupt messages belong to other vectors, and at its beginning, doorbells of the last one's queues are
    rung."""
    r = model.random
    gone = [q for q in model.queues.values() if q.qid]
    model.elide = 0.0
    model.clock.now += pause
    model.turn = (model.turn + r.randrange(1, 8)) % 8
    model.enable(r.randrange(4, 40), r.randrange(4, 40), wide=r.random() < 0.5)
    for q in gone:
        model.doorbell(q.qid, 0, r.randrange(q.size))
        model.doorbell(q.cq.cqid, 1, r.randrange(q.cq.size))
    model.clock.now += 2000


def several_lives(model: Model, commands: int, queues: int = 5, pause: int = 100_000) -> None:
    """One with shadow doorbells, ended by CC.EN = 0 amid traffic, one without, one that comes to its end; `pause` ticks before each."""
    boot(model, 0)
    live(model, queues, commands, shadow=True, kill=True)
    enable_again(model, pause)
    live(model, queues - 1, commands // 2, shadow=False, kill=True)
    enable_again(model, pause)
    live(model, queues - 2, commands // 2, shadow=True, kill=False)
