"""The gateware's CRC steps against zlib and the published DLLP vectors. (tests/gateware/formal shows them for every input.)"""

import gc
import random
import warnings
import zlib

import pytest
import transmitter as t
from amaranth.hdl import UnusedElaboratable
from amaranth.sim import Simulator
from wattbell_gateware.link import DLLP_CRC, LCRC, CrcStep


def states(step, pieces):
    """State behind each of `pieces` (bytes), from the initial state."""
    out = []

    async def bench(ctx):
        state = step._crc.init
        for piece in pieces:
            ctx.set(step.before, state)
            ctx.set(step.count, len(piece))
            ctx.set(step.data, int.from_bytes(piece + b"\xa5" * (len(step.data) // 8 - len(piece)), "little"))
            await ctx.delay(1e-9)
            state = ctx.get(step.after)
            out.append(state)

    simulator = Simulator(step)
    simulator.add_testbench(bench)
    simulator.run()
    return out


@pytest.mark.parametrize(("width", "counts"), [(2, (2,)), (4, (2, 4)), (8, (2, 4, 8)), (16, (2, 4, 8, 12, 16))])
def test_lcrc(width, counts):
    r = random.Random(width)
    pieces = [r.randbytes(r.choice(counts)) for _ in range(40)]
    got = states(CrcStep(LCRC, width, counts), pieces)
    whole = b"".join(pieces)
    assert got[-1] ^ 0xFFFFFFFF == zlib.crc32(whole)
    check = [t.lcrc(whole)[n : n + min(width, 4)] for n in range(0, 4, min(width, 4))]
    assert states(CrcStep(LCRC, width, counts), pieces + check)[-1] == LCRC.residue


@pytest.mark.parametrize("width", [2, 4])
def test_dllp_crc(width):
    step = CrcStep(DLLP_CRC, width, (2, width))
    for body, check in (("50080020", "12d9"), ("400800e0", "f506"), ("800280c8", "ecf8")):
        whole = bytes.fromhex(body + check)
        pieces = [whole[n : n + 2] for n in (0, 2, 4)] if width == 2 else [whole[:4], whole[4:]]
        got = states(step, pieces)
        assert got[-2] ^ 0xFFFF == int.from_bytes(bytes.fromhex(check), "little")
        assert got[-1] == DLLP_CRC.residue


def test_counts_are_checked():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        with pytest.raises(ValueError, match=r"must be 1 \.\. 4, not \[5\]"):
            CrcStep(LCRC, 4, [5])
        gc.collect()
