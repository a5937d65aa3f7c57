"""The map of host pages where many commands share pages: PRP lists from pools, sectors of one buffer, deep queues.

Every record is compared with the model's, and nothing may be counted as lost.
"""

from __future__ import annotations

import cocotb

from tests.gateware.nvme.expect import READ, WRITE
from tests.gateware.nvme.memory import Pool
from tests.gateware.nvme.model import Model
from tests.gateware.nvme.scenario import SEED, boot, make, run

GIB = 1 << 30


def keep_busy(model: Model, commands: int, depth: int, submit) -> None:
    """`depth` commands in flight on queue 1 until `commands` were submitted; `submit(number)` makes one."""
    numbers = iter(range(commands))

    def more(count: int) -> None:
        for _ in range(count):
            number = next(numbers, None)
            if number is not None:
                submit(number).done = lambda _c: model.clock.after(200, lambda: more(1))
        model.ring(1)

    model.clock.after(100, lambda: more(depth))
    model.clock.run()


def start(seed: int, depth: int, **options):
    clock, link, model = make(seed, **options)
    boot(model, 1, sizes=(2 * depth, 2 * depth))
    model.brief = True
    model.work = (10_000, 10_000 * depth)  # the queue is really deep, and lists come no faster than with all the data
    model.fetch_burst = 64
    return clock, link, model


def pooled(model: Model, block: int, commands: int, depth: int, blocks: int = 256, last: int = 0) -> None:
    """Lists as Linux makes them: blocks of a pool, the first `last` of them handed out last; data at random in 4 GiB."""
    model.lists = Pool(block, model.pages(-(-2 * depth * block // model.page)), model.page)
    free = model.lists.free
    free[-depth:] = free[len(free) - last :] + free[-depth : len(free) - last]
    model.window = 4 * GIB
    keep_busy(model, commands, depth, lambda _n: model.io(1, model.random.choice((READ, WRITE)), blocks, offset=0))


@cocotb.test()
async def lists_from_a_pool_of_256_bytes(dut):
    """QD32 x 128 KiB, as Linux does it: 16 lists of different commands in one page."""
    _, link, model = start(SEED + 20, 32)
    pooled(model, 256, 96, 32)
    await run(dut, model, link)


@cocotb.test()
async def lists_in_a_page_of_8_kib(dut):
    """The same with CC.MPS = 1: 32 lists of different commands in one page, the one at its start coming last."""
    _, link, model = start(SEED + 26, 32, mps=1)
    pooled(model, 256, 80, 32, blocks=512, last=1)
    await run(dut, model, link)


@cocotb.test()
async def lists_from_a_pool_of_512_bytes(dut):
    """QD64; drives that read lists in pieces, read on to the end of the block, and read twice."""
    _, link, model = start(SEED + 21, 64)
    model.list_read, model.list_step, model.reread = 64, 512, 0.3
    pooled(model, 512, 100, 64, blocks=136)
    await run(dut, model, link)


@cocotb.test()
async def lists_in_blocks_of_4096(dut):
    """LBAs of 4096 bytes: lists are longer than the tracker can be sure of."""
    _, link, model = start(SEED + 22, 32, lba=4096)
    model.list_read = 128
    pooled(model, 256, 50, 32, blocks=32)
    pooled(model, 1024, 20, 32, blocks=100)
    await run(dut, model, link)


@cocotb.test()
async def pages_that_meet_in_one_way(dut):
    """40 pages in flight that map to the same place in the first way: the other ways separate them."""
    _, link, model = start(SEED + 27, 8)
    model.lists = Pool(256, model.pages(1), model.page)
    meeting = iter([number << 22 | number << 12 for number in range(1, 64)])
    model.pages = lambda count, scattered=False: [next(meeting) for _ in range(count)]
    model.work = (100_000, 110_000)
    keep_busy(model, 5, 5, lambda _n: model.io(1, model.random.choice((READ, WRITE)), 64, offset=0))
    await run(dut, model, link)


@cocotb.test()
async def sectors_of_shared_pages(dut):
    """512 bytes at a queue depth of 192 on a buffer of 24 pages: 8 commands in each."""
    _, link, model = start(SEED + 23, 192)
    base = model.contiguous(24 * model.page)
    free = list(range(192))

    def submit(_number: int):
        sector = free.pop(model.random.randrange(len(free)))
        command = model.io(1, model.random.choice((READ, WRITE)), 1, buffer=base + 512 * sector)
        command.sector = sector
        return command

    finish = model.give_back
    model.give_back = lambda c: (finish(c), free.append(c.sector) if hasattr(c, "sector") else None)
    keep_busy(model, 600, 192, submit)
    await run(dut, model, link)


@cocotb.test()
async def unaligned_buffers(dut):
    """Contiguous buffers at any double word, of 512 bytes to 8 KiB; then the same with LBAs of 4096 bytes."""
    for number, lba in enumerate((512, 4096)):
        _, link, model = start(SEED + 24 + number, 48, lba=lba)
        place = [model.contiguous(1 << 20) + 4 * model.random.randrange(1024)]

        def submit(_number: int, model=model, place=place, lba=lba):
            blocks = model.random.choice((1, 1, 2, 3, 4, 16) if lba == 512 else (1, 1, 2))
            at = place[0]
            place[0] += blocks * lba
            return model.io(1, model.random.choice((READ, WRITE)), blocks, buffer=at)

        model.lists = Pool(256, model.pages(8), model.page)
        keep_busy(model, 150, 48, submit)
        await run(dut, model, link)
