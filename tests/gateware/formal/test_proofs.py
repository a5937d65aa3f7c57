"""Properties that must hold for every input, proven for every input (CRC) or for every sequence of some length (FIFO)."""

import pytest
from amaranth import Cat, Const, Elaboratable, Module, Signal
from amaranth.hdl import Assert, Assume
from wattbell_gateware.stream.crc import Crc32Word
from wattbell_gateware.stream.fifo import CountingFifo

from tests.gateware.formal import smt

DEPTH = 10


def bit_serial(m, before, word):
    """Return CRC-32 by its definition: a shift register, least significant bit first, 32 steps."""
    state = before
    for k in range(32):
        following = Signal(32, name=f"state{k}")
        feedback = (state[0] ^ word[k]).replicate(32)
        m.d.comb += following.eq(Cat(state[1:], Const(0, 1)) ^ (feedback & 0xEDB88320))
        state = following
    return state


class OneForm(Elaboratable):
    """One of the two forms alone."""

    def __init__(self, parallel):
        self.before, self.word, self.after = Signal(32), Signal(32), Signal(32)
        self._parallel = parallel

    def elaborate(self, platform):
        m = Module()
        if self._parallel:
            m.submodules.crc = crc = Crc32Word()
            m.d.comb += [crc.enable.eq(1), crc.before.eq(self.before), crc.word.eq(self.word), self.after.eq(crc.after)]
        else:
            m.d.comb += self.after.eq(bit_serial(m, self.before, self.word))
        return m


class CrcIsBitSerial(Elaboratable):
    """The parallel step equals 32 steps of the shift register, for inputs with at most one bit set."""

    def __init__(self, wrong=False):
        self.before, self.word = Signal(32), Signal(32)
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = Crc32Word()
        m.d.comb += [crc.enable.eq(1), crc.before.eq(self.before), crc.word.eq(self.word)]
        both = Cat(self.before, self.word)
        m.d.comb += Assume((both & (both - 1)[:64]) == 0)
        m.d.comb += Assert(crc.after == bit_serial(m, self.before, self.word) ^ (self.before[31] if self._wrong else 0))
        return m


class NothingIsLostUncounted(Elaboratable):
    """Everything offered to the FIFO is numbered; the output plus the loss counts have no gap."""

    def __init__(self, wrong=False):
        self.i_valid, self.also, self.o_ready = Signal(), Signal(3), Signal()
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = CountingFifo(5, 3)
        serial, expected = Signal(5), Signal(5)
        m.d.comb += Assume(self.also <= 1)
        # Losses before the FIFO in a cycle come after the entry of that cycle.
        m.d.sync += serial.eq(serial + self.i_valid + self.also)
        m.d.comb += [fifo.i_valid.eq(self.i_valid), fifo.i_data.eq(serial), fifo.also.eq(self.also), fifo.o_ready.eq(self.o_ready)]
        with m.If(fifo.o_valid & self.o_ready):
            m.d.sync += expected.eq(fifo.o_data + 1)
            m.d.comb += Assert(fifo.o_data == (expected + (0 if self._wrong else fifo.o_dropped))[:5])
        with m.If(fifo.lost):
            m.d.comb += Assert(~fifo.room & self.i_valid)
        return m


def test_parallel_crc_is_the_bit_serial_crc(tmp_path):
    # Both forms reduce to XOR gates, so both are linear over GF(2), and linear maps are equal if they agree on 0 and on every single bit.
    # (The direct proof is among the hardest for a SAT solver.)
    for parallel in (True, False):
        folder = tmp_path / f"{parallel}"
        folder.mkdir()
        form = OneForm(parallel)
        assert smt.gates(form, [form.before, form.word, form.after], folder) - {"$scopeinfo"} == {"$_XOR_"}
    top = CrcIsBitSerial()
    smt.prove(top, [top.before, top.word], tmp_path, depth=1)


def test_fifo_loses_nothing_uncounted(tmp_path):
    top = NothingIsLostUncounted()
    smt.prove(top, [top.i_valid, top.also, top.o_ready], tmp_path, depth=DEPTH)


@pytest.mark.parametrize("kind", [CrcIsBitSerial, NothingIsLostUncounted])
def test_a_wrong_claim_is_refuted(kind, tmp_path):
    top = kind(wrong=True)
    ports = [top.before, top.word] if kind is CrcIsBitSerial else [top.i_valid, top.also, top.o_ready]
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, ports, tmp_path, depth=DEPTH)
