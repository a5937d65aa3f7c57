"""The gateware's CRC steps against zlib and the published DLLP vectors. (tests/gateware/formal shows them for every input.)"""

import gc
import random
import warnings
import zlib

import pytest
from amaranth.hdl import UnusedElaboratable
from amaranth.sim import Simulator
from wattbell_gateware.link import DLLP_CRC, LCRC, CrcStep

from tests.gateware.phy import transmitter as t


def states(step, pieces):
    """Return the state after each of `pieces` (bytes), from the initial state."""
    out = []

    async def bench(ctx):
        state = step._crc.init
        for piece in pieces:
            ctx.set(step.before, state)
            ctx.set(step.data, int.from_bytes(piece, "little"))
            await ctx.delay(1e-9)
            state = ctx.get(step.after)
            out.append(state)

    simulator = Simulator(step)
    simulator.add_testbench(bench)
    simulator.run()
    return out


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_lcrc(width):
    r = random.Random(width)
    whole = r.randbytes(40 * width)
    got = states(CrcStep(LCRC, width), [whole[n : n + width] for n in range(0, len(whole), width)])
    assert got[-1] ^ 0xFFFFFFFF == zlib.crc32(whole)
    # The residue, and the effect of zeros after it
    tail = t.lcrc(whole) + bytes(-len(t.lcrc(whole)) % width)
    pieces = [(whole + tail)[n : n + width] for n in range(0, len(whole + tail), width)]
    assert states(CrcStep(LCRC, width), pieces)[-1] == LCRC.shifted(LCRC.residue, 8 * (len(tail) - 4))


def test_dllp_crc():
    for body, check in (("50080020", "12d9"), ("400800e0", "f506"), ("800280c8", "ecf8")):
        whole = bytes.fromhex(body + check)
        got = states(CrcStep(DLLP_CRC, 2), [whole[n : n + 2] for n in (0, 2, 4)])
        assert got[-2] ^ 0xFFFF == int.from_bytes(bytes.fromhex(check), "little")
        assert got[-1] == DLLP_CRC.residue
        assert states(CrcStep(DLLP_CRC, 4), [whole[:4]]) == got[1:2]


def test_a_step_of_nothing_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        with pytest.raises(ValueError, match="at least a byte at a time, not 0"):
            CrcStep(LCRC, 0)
        gc.collect()
