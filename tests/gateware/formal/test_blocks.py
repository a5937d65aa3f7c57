"""8 GT/s, for every input: the descrambler equals the serial register, and nothing outside of frames is passed on."""

import os

import pytest
from amaranth import Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.hdl import Assert, Assume
from wattbell_gateware.link.token_framer import TokenFramer
from wattbell_gateware.link.token_parser import TokenParser, parsed_word
from wattbell_gateware.link.token_stream import stream_word
from wattbell_gateware.pcs.block_descramble import BlockDescrambleStep
from wattbell_gateware.pcs.blocks import BlockKind

from tests.gateware.formal import smt

LONG = os.environ.get("WATTBELL_FORMAL") == "all"

# --- descrambler --------------------------------------------------------------------------------------------------------


class BlockDescramblerIsSerial(Elaboratable):
    """From any register, for any word at any place of any kind of block: the same symbols and the same register.

    The serial form is the figure of PCIe Base 3.0, 4.2.2.4, one shift per bit. With `claim`, equality is asserted for registers of
    at most one set bit; without it, both forms are outputs.
    """

    def __init__(self, claim=True, wrong=False):
        self.claim, self.wrong = claim, wrong
        self.lfsr, self.seed, self.word = Signal(23, name="lfsr"), Signal(23, name="seed"), Signal(32, name="word")
        self.kind, self.first, self.last = Signal(4, name="kind"), Signal(), Signal()
        self.outputs = [Signal(32, name=n) for n in ("serial_data", "data")] + [Signal(23, name=n) for n in ("serial", "register")]
        self.ports = [self.lfsr, self.seed, self.word, self.kind, self.first, self.last, *([] if claim else self.outputs)]

    def elaborate(self, platform):
        m = Module()
        m.submodules.step = step = BlockDescrambleStep()
        m.d.comb += [
            step.before.eq(self.lfsr),
            step.seed.eq(self.seed),
            step.data.eq(self.word),
            Value.cast(step.kind).eq(self.kind),
            step.first.eq(self.first),
            step.last.eq(self.last),
        ]
        register, key = self.lfsr, []
        for n in range(32):
            out = register[22]
            following = Signal(23, name=f"register{n}")
            m.d.comb += following.eq(Cat(out, *(register[k - 1] ^ (out if k in (2, 5, 8, 16, 21) else 0) for k in range(1, 23))))
            key.append(out)
            register = following
        training = (self.kind == BlockKind.TS1.value) | (self.kind == BlockKind.TS2.value)
        serial_data, data, serial, after = self.outputs
        keyed = [Mux((self.kind == BlockKind.DATA.value) | (training & ~(self.first & (n < 8))), bit, 0) for n, bit in enumerate(key)]
        ends_eieos = (self.kind == BlockKind.EIEOS.value) & self.last
        m.d.comb += [
            serial_data.eq(self.word ^ Cat(keyed)),
            data.eq(step.out),
            after.eq(step.after),
            serial.eq(Mux(self.kind == BlockKind.SOS.value, self.lfsr, Mux(ends_eieos, self.seed, register))),
        ]
        if self.claim:
            m.d.comb += [
                Assume((self.lfsr & (self.lfsr - 1)[:23]) == 0),
                Assert(data == serial_data),
                Assert(after == serial ^ (self.lfsr[9] if self.wrong else 0)),
            ]
        return m


def test_parallel_block_descrambler_is_the_serial_register(tmp_path):
    # Affine maps of the register are equal if they agree on 0 and every single bit (see test_phy.py).
    top = BlockDescramblerIsSerial(claim=False)
    assert smt.affine_in(top, top.ports, ("lfsr",), tmp_path) > 50
    top = BlockDescramblerIsSerial()
    smt.prove(top, top.ports, tmp_path, depth=1)


# --- framing ------------------------------------------------------------------------------------------------------------


class ParserKeepsFrames(Elaboratable):
    """For any stream: a frame begins where none is open and ends where one is open.

    Double words are passed on only inside a frame. A frame that ends intact had as many as its token said, minus two. Two words
    reach every state (the first may have a token of any length); the words after them show the steps from there.
    """

    def __init__(self, lanes, wrong=False):
        self.lanes, self.wrong = lanes, wrong
        self.word, self.valid = Signal(stream_word(lanes)), Signal()
        self.ports = [self.word.as_value(), self.valid]

    def elaborate(self, platform):
        m = Module()
        m.submodules.parser = parser = TokenParser(self.lanes)
        m.d.comb += [parser.words.payload.eq(self.word), parser.words.valid.eq(self.valid), parser.out.ready.eq(1)]
        m.d.comb += Assume(~self.word.restart | self.word.filled) if not self.wrong else Assume(1)
        out, is_open = parser.out.payload, Signal()
        new = out.body & ~out.old_body
        with m.If(parser.out.valid):
            m.d.sync += is_open.eq(out.begins | (is_open & ~out.ends))
            m.d.comb += [
                Assert(~out.begins | ~is_open | out.ends),
                Assert(~out.ends | is_open),
                Assert((out.old_body == 0) | is_open),
                Assert((out.old_body & ~out.body) == 0),
                Assert((new == 0) | out.begins),
                Assert(~out.broken | out.ends),
            ]
            if self.wrong:
                m.d.comb += Assert(~out.broken)
        return m


DEPTH = 8 if LONG else 5


@pytest.mark.parametrize("lanes", [1, 2, 4] if LONG else [4])
def test_nothing_outside_of_frames(lanes, tmp_path):
    top = ParserKeepsFrames(lanes)
    smt.prove(top, top.ports, tmp_path, depth=DEPTH)


class FramerKeepsFrames(Elaboratable):
    """For such words: every beat belongs to a frame, which begins once and ends once; all beats but the last are full."""

    def __init__(self, lanes, wrong=False):
        self.lanes, self.wrong = lanes, wrong
        self.word, self.valid, self.cut, self.tick = Signal(parsed_word(lanes)), Signal(), Signal(), Signal(64)
        self.ports = [self.word.as_value(), self.valid, self.cut]

    def elaborate(self, platform):
        m = Module()
        m.submodules.framer = framer = TokenFramer(self.lanes)
        word, lanes = self.word, self.lanes
        m.d.comb += [framer.words.payload.eq(word), framer.words.valid.eq(self.valid), framer.cut.eq(self.cut), framer.tick.eq(0)]
        is_open, taken = Signal(), Signal()
        m.d.comb += taken.eq(self.valid & framer.words.ready)
        new = word.body & ~word.old_body
        with m.If(taken):
            m.d.sync += is_open.eq(word.begins | (is_open & ~word.ends))
            # The parser guarantees (above) that the body of the old frame comes first, and the body of the new one last.
            m.d.comb += Assume((~word.begins | ~is_open | word.ends) & (~word.ends | is_open) & ((word.old_body == 0) | is_open))
            m.d.comb += Assume(((word.old_body & ~word.body) == 0) & ((new == 0) | word.begins))
            m.d.comb += Assume((word.old_body & (word.old_body + 1)[:lanes]) == 0)
        with m.If(self.cut):
            m.d.sync += is_open.eq(0)
            m.d.comb += Assume(~taken)
        # The assumption is about the parser, which a truncation resets: no double words of the old frame follow.
        frame, inside = framer.frames.payload, Signal()
        with m.If(framer.frames.valid):
            m.d.sync += inside.eq(~frame.last)
            m.d.comb += [
                Assert(frame.first != inside),
                Assert((frame.dws <= lanes) & (frame.last | (frame.dws == lanes))),
            ]
            if self.wrong:
                m.d.comb += Assert(~frame.last | (frame.dws != 0))
        return m


@pytest.mark.parametrize("lanes", [4])
def test_beats_are_of_frames(lanes, tmp_path):
    top = FramerKeepsFrames(lanes)
    smt.prove(top, top.ports, tmp_path, depth=DEPTH + 1)


@pytest.mark.parametrize(
    ("make", "depth"),
    [(lambda: BlockDescramblerIsSerial(wrong=True), 1), (lambda: ParserKeepsFrames(1, wrong=True), DEPTH)],
    ids=["descrambler", "parser"],
)
def test_a_wrong_claim_is_refuted(make, depth, tmp_path):
    top = make()
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, top.ports, tmp_path, depth=depth)
