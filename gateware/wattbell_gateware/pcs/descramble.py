"""Descrambling at 2.5 and 5 GT/s, a word a clock."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .symbols import K, symbol_word

__all__ = ["LATENCY", "STATE", "DescrambleStep", "Descrambler"]

LATENCY = 1
_BITS = 16
_POLYNOMIAL = 1 << 16 | 1 << 5 | 1 << 4 | 1 << 3 | 1
_SEED = 0xFFFF
_TRAINING = 15
"""Symbols behind the COM of a training sequence."""

STATE = data.StructLayout({"lfsr": 16, "training": range(_TRAINING), "after_com": 1})
"""Between two symbols: the register; how many symbols of a training sequence are still to come; the last one was COM."""


def _times_x(value: int, power: int) -> int:
    """`value` * x**`power` modulo the polynomial: the register after so many shifts."""
    for _ in range(power):
        value <<= 1
        if value >> _BITS:
            value ^= _POLYNOMIAL
    return value


def _advanced(lfsr, symbols: int):
    """The register after `symbols` symbols, as parities of its bits."""
    if symbols == 0:
        return lfsr
    columns = [_times_x(1 << n, 8 * symbols) for n in range(_BITS)]
    return Cat((lfsr & sum((columns[k] >> n & 1) << k for k in range(_BITS))).xor() for n in range(_BITS))


def _key(lfsr):
    """The next eight bits that leave the register: none of its taps is among the upper eight, so they leave unchanged."""
    return Cat(lfsr[15 - n] for n in range(8))


class DescrambleStep(wiring.Component):
    """The combinational step of a word: ``after`` and ``out`` from ``before`` and ``symbols``.

    COM sets the register to FFFFh, SKP holds it, any other symbol takes it on by eight shifts. Data symbols are combined
    with the key, but for the 15 symbols behind the COM of a training sequence (which is one if a data symbol or PAD follows)
    or of an EIEOS (EIE follows): these get ``plain``. (Base 2.1, 4.2.3.) A symbol with an error counts as any other.

    The register after a word is one of n + 1 advances of the register before it or a constant, and which one does not
    depend on the register: the feedback is one level of parities and one choice.
    """

    def __init__(self, symbols: int):
        word = symbol_word(symbols)
        self._symbols = symbols
        super().__init__({"before": In(STATE), "symbols": In(word), "bypass": In(1), "after": Out(STATE), "out": Out(word)})

    def elaborate(self, platform):
        m = Module()
        n_symbols = self._symbols
        advances = [_advanced(self.before.lfsr, n) for n in range(n_symbols + 1)]
        seeds = [Const(_times_x(_SEED, 8 * n), _BITS) for n in range(n_symbols)]

        def register(name, seeded, count):
            value = Signal(_BITS, name=name)
            with m.If(seeded):
                with m.Switch(count):
                    for n, seed in enumerate(seeds):
                        with m.Case(n):
                            m.d.comb += value.eq(seed)
            with m.Else():
                with m.Switch(count):
                    for n, advance in enumerate(advances):
                        with m.Case(n):
                            m.d.comb += value.eq(advance)
            return value

        seeded, count = Const(0, 1), Const(0, range(n_symbols + 1))
        training, after_com = self.before.training, self.before.after_com
        for n in range(n_symbols):
            symbol, out = self.symbols[n], self.out[n]
            control = symbol.k & ~symbol.error
            com = Signal(name=f"com{n}")
            skp = Signal(name=f"skp{n}")
            starts, plain = Signal(name=f"starts{n}"), Signal(name=f"plain{n}")
            m.d.comb += [
                com.eq(control & (symbol.data == K.COM)),
                skp.eq(control & (symbol.data == K.SKP)),
                starts.eq(after_com & (~symbol.k | (control & ((symbol.data == K.PAD) | (symbol.data == K.EIE))))),
                plain.eq(~com & (starts | (training != 0))),
                out.eq(symbol),
                out.plain.eq(plain),
            ]
            with m.If(~symbol.k & ~plain & ~self.bypass):
                m.d.comb += out.data.eq(symbol.data ^ _key(register(f"lfsr{n}", seeded, count)))

            next_seeded, next_count = Signal(name=f"seeded{n}"), Signal(range(n_symbols + 1), name=f"count{n}")
            next_training = Signal(range(_TRAINING), name=f"training{n}")
            m.d.comb += [
                next_seeded.eq(seeded | com),
                next_count.eq(Mux(com, 0, Mux(skp, count, count + 1))),
                next_training.eq(Mux(com, 0, Mux(starts, _TRAINING - 1, Mux(training == 0, 0, training - 1)))),
            ]
            seeded, count, training, after_com = next_seeded, next_count, next_training, com
        m.d.comb += [
            self.after.lfsr.eq(register("lfsr_after", seeded, count)),
            self.after.training.eq(training),
            self.after.after_com.eq(after_com),
        ]
        return m


class Descrambler(wiring.Component):
    """Symbols of one lane in, descrambled out; one word a clock, latency 1 clock. What comes before the first COM is garbage.

    ``bypass``: the link was trained with scrambling disabled. ``out`` has ``plain`` set in training sequences. The words go
    through a :class:`DescrambleStep`.
    """

    def __init__(self, symbols: int):
        word = stream.Signature(symbol_word(symbols), always_ready=True)
        self._symbols = symbols
        super().__init__({"symbols": In(word), "bypass": In(1), "out": Out(word)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.step = step = DescrambleStep(self._symbols)
        state = Signal(STATE)
        m.d.comb += [step.before.eq(state), step.symbols.eq(self.symbols.payload), step.bypass.eq(self.bypass)]
        m.d.sync += self.out.valid.eq(self.symbols.valid)
        with m.If(self.symbols.valid):
            m.d.sync += [state.eq(step.after), self.out.payload.eq(step.out)]
        return m
