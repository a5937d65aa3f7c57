"""Writes a bus trace of a host of tests/gateware/nvme (packed by cocotbext-pcie), and the tracker's expected output.

    python -m tests.sim.rig.host_trace SEED STRIDE TRACE EXPECTED [--crowded | --polled | --misled]

The controller is enabled several times, tens of milliseconds apart, so that the instrument's timeouts expire in between. EXPECTED
gets, as JSON, the expected command records and tracker events, with ticks from the beginning of the trace.

With --crowded the host exceeds the tracker's tables. With --polled it looks for CQEs before their interrupts, and its drive reads
beyond the end of lists. With --misled it gets the interrupts of other queues. For these three nothing is predicted. The module is a
separate program because the environment sets the host's width and clock.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["WIDTH"], os.environ["TICKS"] = "128", "4"

from wattbell_spec.wire import LinkState  # noqa: E402

from tests.gateware.nvme.cocotb_pages import keep_busy  # noqa: E402
from tests.gateware.nvme.expect import FLUSH, READ, WRITE  # noqa: E402
from tests.gateware.nvme.hosts import make_host, several_lives  # noqa: E402
from tests.gateware.nvme.link import UP  # noqa: E402
from tests.gateware.nvme.memory import Pool  # noqa: E402
from tests.gateware.nvme.model import Model  # noqa: E402
from tests.gateware.nvme.scenario import boot, create_queues, workload  # noqa: E402
from tests.sim.rig.rig_trace import CLKREQ_N, LINK_STATE, PERST_N, TLP_DOWN, TLP_UP, encode, end, missed, rail, sideband  # noqa: E402

START = 20_000
"""Ticks from the beginning of the trace by which the tracker has cleared its tables."""
PAUSE = 22_000_000
"""Ticks between sessions. The tracker gives a missing CQ head doorbell up at 2**24."""
END_US = 150_000
"""End after the first regular STATUS block, in us."""


def crowd(model: Model) -> None:
    """Exceed the tracker's tables in several ways.

    - More PRP lists in a page than it has places, again 9 ms and 18 ms later.
    - A queue beyond the table.
    - CQ head doorbells that are never rung, for CQEs that a host takes without an interrupt.
    - SQEs in completions with a forbidden split, so that nobody knows their content.
    - Interrupts when some of the waiting CQEs are too old.
    """
    model.cid_count = 96
    boot(model, 1, sizes=(128, 128))
    create_queues(model, 1, (16, 64), only=(64,))
    model.work = (10_000, 640_000)
    model.lists = Pool(16, model.pages(1), model.page)
    model.window = 1 << 32
    for commands, pause in ((100, 9_000_000), (10, 18_000_000), (40, 2_000_000)):
        keep_busy(model, commands, 64, lambda _n: model.io(1, model.random.choice((READ, WRITE)), 24, offset=0))
        model.clock.now += pause
    model.lazy, model.poll = 1.0, 0.3
    for _ in range(4):
        workload(model, 6)
        model.clock.run()
        model.clock.now += 1_500_000
    model.boundary = 8
    workload(model, 20)
    model.clock.run()
    model.boundary, model.poll = 64, 1.0
    for pause in (16_200_000, 15_000_000):
        for _ in range(3):
            model.io(1, READ, 1)
            model.ring(1)
            model.clock.run()
        model.clock.now += pause
    interrupt_late(model, 0)
    interrupt_late(model, 11_000_000)


def mislead(model: Model) -> None:
    """While one queue waits, send the message of another queue again and again.

    The first message comes right after TLPs that the tap missed, when it teaches nothing; the next comes 2 ms later.
    """
    boot(model, 2, sizes=(16, 64))
    interrupt, held = model.interrupt, []
    for calm in (0, 2_000_000):
        model.interrupt = held.append
        model.io(2, FLUSH)
        model.ring(2)
        model.clock.run()
        model.interrupt = interrupt
        model.clock.now += calm
        for number in range(20):
            model.link.write(UP, 0xFEE00000 + (1 << 12), struct.pack("<L", 0x4020 + 1))
            model.link.sent[-1].lost = not calm and not number
            model.clock.now += 3000
        interrupt(held.pop())
        model.clock.run()


def interrupt_late(model: Model, pause: int) -> None:
    """Send an interrupt, two cycles later the CQ head doorbell, and two cycles later an unrelated write.

    The doorbell then waits only for the engine. With a `pause`, the host has taken the first of two CQEs before it.
    """
    interrupt, held, later = model.interrupt, [], model.later
    model.interrupt, model.poll, model.lazy = held.append, 0.0, 0.0
    for _ in range(2 if pause else 1):
        model.io(1, READ, 1)
        model.ring(1)
        model.clock.run()
    (cq,) = held
    if pause:
        last = cq.unseen.pop()
        model.take(cq)
        cq.unseen.append(last)
        model.clock.now += pause

    def at_once(_tick: int, _delay: int, what: Callable[[], None]) -> None:
        model.clock.now += 8
        what()

    model.later = at_once
    interrupt(cq)
    model.clock.now += 8
    model.link.write(UP, 0xFEE0F000, bytes(4))
    model.interrupt, model.later = interrupt, later
    model.clock.now += 20_000


seed, stride = map(int, sys.argv[1:3])
clock, link, model = make_host(seed, stride)
clock.now = START
if "--polled" in sys.argv:
    model.poll, model.list_step = 0.7, 32
if "--crowded" in sys.argv:
    crowd(model)
elif "--misled" in sys.argv:
    mislead(model)
else:
    several_lives(model, 80, pause=PAUSE)
rows = [sideband(1, PERST_N, 1), sideband(2, CLKREQ_N, 0)]
for s in link.sent:
    kind = TLP_UP if s.direction == UP else TLP_DOWN
    rows += [missed(s.tick * 1000, kind)] if s.lost else []
    rows.append((kind, 0, s.tick * 1000, s.raw))
rows += [rail(500 * k, 3.3 - 0.01 * (k % 3), 0.05 + 0.4 * (k % 7)) for k in range(END_US // 500)]
rows += [sideband(1700.3 * k, LINK_STATE, k % LinkState.DETECT) for k in range(1, END_US // 1701)]  # Detect ends all queues
Path(sys.argv[3]).write_bytes(encode([*sorted(rows, key=lambda row: row[2]), end(END_US)]))
expected = {"records": model.records, "perhaps_partial": sorted(model.perhaps_partial), "events": model.events}
Path(sys.argv[4]).write_text(json.dumps(expected))
