"""Descrambling at 8 GT/s, four symbols of a lane a clock."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .blocks import BLOCK_WORD, BlockKind, near

__all__ = ["LATENCY", "SEEDS", "BlockDescrambleStep", "BlockDescrambler"]

LATENCY = 1
_BITS = 23
_POLYNOMIAL = 1 << 23 | 1 << 21 | 1 << 16 | 1 << 8 | 1 << 5 | 1 << 2 | 1
SEEDS = (0x1DBFBC, 0x0607BB, 0x1EC760, 0x18C0DB)
"""Seeds of lanes 0 to 3 (PCIe Base 3.0, 4.2.2.4)."""
_WORD = 32
_SKP_END = 0xE1
_SAME = 3
"""Most bits by which a register value in an SKP ordered set may differ from the descrambler's and still count as bit errors.

A register that is out of step differs in about eleven bits, and in three or fewer once in 4000 times. The next ordered set then
shows the difference.
"""


def _times_x(value: int, power: int) -> int:
    for _ in range(power):
        value <<= 1
        if value >> _BITS:
            value ^= _POLYNOMIAL
    return value


_AFTER = [_times_x(1 << n, _WORD) for n in range(_BITS)]


class BlockDescrambleStep(wiring.Component):
    """Descrambles one word; combinational.

    Data is combined with the key. TS1 and TS2 are too, except their first symbol. (Their last two symbols may be sent plain for DC
    balance; these come out wrong.) Every other ordered set is sent plain. The register takes 32 shifts for every word, except words
    of SKP ordered sets. It starts from ``seed`` after an EIEOS. (PCIe Base 3.0, 4.2.2.4.)

    Ports
    -----
    before : register before the word.
    seed : seed of the lane.
    data : the word.
    kind : kind of its block.
    first : first word of the block.
    last : last word of the block.
    after : register after the word.
    out : the descrambled word.
    """

    before: In(_BITS)
    seed: In(_BITS)
    data: In(_WORD)
    kind: In(BlockKind)
    first: In(1)
    last: In(1)
    after: Out(_BITS)
    out: Out(_WORD)

    def elaborate(self, platform):
        m = Module()
        # Bit k of the key is bit 22 after k shifts.
        reached = [[_times_x(1 << n, k) >> (_BITS - 1) & 1 for n in range(_BITS)] for k in range(_WORD)]
        key, advanced = Signal(_WORD), Signal(_BITS)
        m.d.comb += [
            key.eq(Cat(Cat(self.before[n] for n in range(_BITS) if row[n]).xor() for row in reached)),
            advanced.eq(Cat(Cat(self.before[k] for k in range(_BITS) if _AFTER[k] >> n & 1).xor() for n in range(_BITS))),
        ]

        training = (self.kind == BlockKind.TS1) | (self.kind == BlockKind.TS2)
        scrambled = (self.kind == BlockKind.DATA) | training
        mask = Cat((scrambled & ~(training & self.first)).replicate(8), scrambled.replicate(_WORD - 8))
        m.d.comb += self.out.eq(self.data ^ (key & mask))
        with m.If(self.kind == BlockKind.SOS):
            m.d.comb += self.after.eq(self.before)
        with m.Elif((self.kind == BlockKind.EIEOS) & self.last):
            m.d.comb += self.after.eq(self.seed)
        with m.Else():
            m.d.comb += self.after.eq(advanced)
        return m


class BlockDescrambler(wiring.Component):
    """Descrambles the words of one lane; latency 1 clock. An SKP ordered set comes out as one word, its last.

    The register is known from the first EIEOS or SKP ordered set on; earlier data comes out as ``OTHER``. If the register value in
    an SKP ordered set differs in more than three bits, the descrambler takes it over.

    Ports
    -----
    words : :data:`BLOCK_WORD`.
    lane : number of the lane, which selects the seed.
    forget : the lane lost its blocks.
    out : :data:`BLOCK_WORD`, descrambled.
    known : the register is known.
    corrected : strobe: the register was out of step and was set from an SKP ordered set.
    damaged : strobe: an SKP ordered set had a wrong value or end.
    parity : strobe: the parity of the data blocks before an SKP ordered set was wrong.
    """

    def __init__(self):
        word = stream.Signature(BLOCK_WORD, always_ready=True)
        super().__init__(
            {
                "words": In(word),
                "lane": In(2),
                "forget": In(1),
                "out": Out(word),
                "known": Out(1),
                "corrected": Out(1),
                "damaged": Out(1),
                "parity": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.step = step = BlockDescrambleStep()
        lfsr = Signal(_BITS)
        word, out = self.words.payload, self.out.payload
        seed = Array(Const(s, _BITS) for s in SEEDS)[self.lane]
        reseed = self.words.valid & word.reseed
        known = Signal()
        m.d.comb += [
            step.before.eq(Mux(reseed, seed, lfsr)),
            step.seed.eq(seed),
            step.data.eq(word.data),
            step.kind.eq(word.kind),
            step.first.eq(word.first),
            step.last.eq(word.last),
            known.eq(self.known | reseed),
        ]

        # evaluation of an SKP ordered set
        ends = self.words.valid & word.last & (word.kind == BlockKind.SOS)
        value = Cat(word.data[24:], word.data[16:24], word.data[8:15])
        differing = Signal(range(_BITS + 1))
        whole, adopt = Signal(), Signal()
        m.d.comb += [
            differing.eq(sum((value ^ lfsr)[n] for n in range(_BITS))),
            whole.eq(near(word.data[:8], _SKP_END)),
            adopt.eq(ends & whole & (~self.known | (differing > _SAME))),
        ]
        # Its highest bit is the parity of the data blocks since the last SKP ordered set or SDS; after an ordered set it is the
        # complement of the value's.
        parity, counted, after_data = Signal(), Signal(), Signal()
        m.d.sync += [
            self.corrected.eq(adopt & self.known),
            self.damaged.eq(ends & self.known & (~whole | (differing != 0))),
            self.parity.eq(ends & whole & self.known & after_data & counted & (word.data[15] != parity)),
        ]
        with m.If(self.words.valid):
            with m.If(word.kind == BlockKind.DATA):
                m.d.sync += [parity.eq(parity ^ word.data.xor()), after_data.eq(1)]
            with m.Elif(ends | (word.kind != BlockKind.SOS)):
                m.d.sync += after_data.eq(0)
                with m.If(ends | (word.kind == BlockKind.SDS)):
                    m.d.sync += [parity.eq(0), counted.eq(1)]

        m.d.sync += self.out.valid.eq(self.words.valid & (ends | (word.kind != BlockKind.SOS)))
        with m.If(self.words.valid):
            m.d.sync += [
                lfsr.eq(Mux(adopt, value, step.after)),
                self.known.eq(known | adopt | ((word.kind == BlockKind.EIEOS) & word.last)),
                out.eq(word),
                out.data.eq(step.out),
                out.first.eq(word.first | (word.kind == BlockKind.SOS)),
            ]
            with m.If((word.kind == BlockKind.DATA) & ~known):
                m.d.sync += out.kind.eq(BlockKind.OTHER)
        with m.If(self.forget):
            m.d.sync += [self.known.eq(0), counted.eq(0), self.out.valid.eq(0)]
        return m
