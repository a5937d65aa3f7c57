"""Descrambling at 2.5 and 5 GT/s, a word a clock."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .symbols import K, symbol_word

__all__ = ["LATENCY", "STATE", "DescrambleStep", "Descrambler"]

LATENCY = 3
_BITS = 16
_POLYNOMIAL = 1 << 16 | 1 << 5 | 1 << 4 | 1 << 3 | 1
_SEED = 0xFFFF
_TRAINING = 15
"""Symbols after the COM of a training sequence."""

PLACE = data.StructLayout({"training": range(_TRAINING), "after_com": 1})
"""Place between two symbols. ``training``: symbols of a training sequence still to come. ``after_com``: the last symbol was COM."""
STATE = data.StructLayout({"lfsr": _BITS, "place": PLACE})
"""State of the descrambler: the register and the place."""


def classed_word(symbols: int) -> data.StructLayout:
    """Layout of a word with the class of each symbol.

    ``com`` and ``skp`` mark these symbols. ``starts`` marks a symbol that begins a training sequence if it follows COM.
    """
    return data.StructLayout({"symbols": symbol_word(symbols), "com": symbols, "skp": symbols, "starts": symbols})


def marked_word(symbols: int) -> data.StructLayout:
    """Layout of a word with ``plain`` set, and the register before each symbol and after the last.

    The register is ``count`` symbols past a starting point: FFFFh (``seeded``) or the register at the beginning of the word.
    """
    count = range(symbols + 1)
    return data.StructLayout(
        {
            "symbols": symbol_word(symbols),
            "seeded": symbols,
            "count": data.ArrayLayout(count, symbols),
            "seeded_after": 1,
            "count_after": count,
        }
    )


def _times_x(value: int, power: int) -> int:
    """Return `value` * x**`power` modulo the polynomial: the register after `power` shifts."""
    for _ in range(power):
        value <<= 1
        if value >> _BITS:
            value ^= _POLYNOMIAL
    return value


def _advanced(lfsr, symbols: int):
    """Return the register after `symbols` symbols, as parities of its bits."""
    if symbols == 0:
        return lfsr
    columns = [_times_x(1 << n, 8 * symbols) for n in range(_BITS)]
    return Cat((lfsr & sum((columns[k] >> n & 1) << k for k in range(_BITS))).xor() for n in range(_BITS))


def _key(lfsr):
    """Return the next eight bits that leave the register. None of its taps is among the upper eight, so these leave unchanged."""
    return Cat(lfsr[15 - n] for n in range(8))


class ClassStep(wiring.Component):
    """First part of a :class:`DescrambleStep`: classifies each symbol by itself; combinational.

    Ports
    -----
    symbols : :func:`symbol_word`.
    out : :func:`classed_word`.
    """

    def __init__(self, symbols: int):
        self._symbols = symbols
        super().__init__({"symbols": In(symbol_word(symbols)), "out": Out(classed_word(symbols))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.out.symbols.eq(self.symbols)
        for n in range(self._symbols):
            symbol = self.symbols[n]
            control = symbol.k & ~symbol.error
            m.d.comb += [
                self.out.com[n].eq(control & (symbol.data == K.COM)),
                self.out.skp[n].eq(control & (symbol.data == K.SKP)),
                self.out.starts[n].eq(~symbol.k | (control & ((symbol.data == K.PAD) | (symbol.data == K.EIE)))),
            ]
        return m


class MarkStep(wiring.Component):
    """Second part of a :class:`DescrambleStep`: marks plain symbols and counts shifts, without the register; combinational.

    Ports
    -----
    before : :data:`PLACE` before the word.
    word : :func:`classed_word`.
    after : :data:`PLACE` after the word.
    out : :func:`marked_word`.
    """

    def __init__(self, symbols: int):
        self._symbols = symbols
        super().__init__({"before": In(PLACE), "word": In(classed_word(symbols)), "after": Out(PLACE), "out": Out(marked_word(symbols))})

    def elaborate(self, platform):
        m = Module()
        seeded, count, after_com = Const(0, 1), Const(0, range(self._symbols + 1)), self.before.after_com
        # Training began before the word (until `ended`), or at its last start of a training sequence (`begun`, until a COM).
        ended, begun, left = Const(0, 1), Const(0, 1), Const(0, range(_TRAINING))
        for n in range(self._symbols):
            symbol, out = self.word.symbols[n], self.out.symbols[n]
            com, skp, starts = self.word.com[n], self.word.skp[n], Signal(name=f"starts{n}")
            m.d.comb += [
                starts.eq(after_com & self.word.starts[n]),
                out.eq(symbol),
                out.plain.eq(~com & (starts | begun | (~ended & (self.before.training > n)))),
                self.out.seeded[n].eq(seeded),
                self.out.count[n].eq(count),
            ]
            next_seeded, next_count = Signal(name=f"seeded{n}"), Signal(range(self._symbols + 1), name=f"count{n}")
            next_ended, next_begun = Signal(name=f"ended{n}"), Signal(name=f"begun{n}")
            next_left = Signal(range(_TRAINING), name=f"left{n}")
            m.d.comb += [
                next_seeded.eq(seeded | com),
                next_count.eq(Mux(com, 0, Mux(skp, count, count + 1))),
                next_ended.eq(ended | com | starts),
                next_begun.eq(~com & (begun | starts)),
                next_left.eq(Mux(starts, _TRAINING - 1 - (self._symbols - 1 - n), left)),
            ]
            seeded, count, after_com, ended, begun, left = next_seeded, next_count, com, next_ended, next_begun, next_left
        before, behind = self.before.training, Signal(range(_TRAINING))
        m.d.comb += [
            behind.eq(Mux(before > self._symbols, before - self._symbols, 0)),
            self.after.training.eq(Mux(begun, left, Mux(ended, 0, behind))),
            self.after.after_com.eq(after_com),
            self.out.seeded_after.eq(seeded),
            self.out.count_after.eq(count),
        ]
        return m


class KeyStep(wiring.Component):
    """Third part of a :class:`DescrambleStep`: advances the register and descrambles marked symbols; combinational.

    The register after a word is a constant advanced, or one of n + 1 advances of the register before. The choice does not depend on
    the register, so the feedback is one level of parities and one choice.

    Ports
    -----
    before : register before the word.
    marked : :func:`marked_word`.
    bypass : scrambling is disabled.
    after : register after the word.
    out : :func:`symbol_word`, descrambled.
    """

    def __init__(self, symbols: int):
        self._symbols = symbols
        super().__init__(
            {
                "before": In(_BITS),
                "marked": In(marked_word(symbols)),
                "bypass": In(1),
                "after": Out(_BITS),
                "out": Out(symbol_word(symbols)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        advances = [_advanced(self.before, n) for n in range(self._symbols + 1)]
        seeds = [Const(_times_x(_SEED, 8 * n), _BITS) for n in range(self._symbols)]

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

        for n in range(self._symbols):
            symbol, out = self.marked.symbols[n], self.out[n]
            m.d.comb += out.eq(symbol)
            with m.If(~symbol.k & ~symbol.plain & ~self.bypass):
                m.d.comb += out.data.eq(symbol.data ^ _key(register(f"lfsr{n}", self.marked.seeded[n], self.marked.count[n])))
        m.d.comb += self.after.eq(register("lfsr_after", self.marked.seeded_after, self.marked.count_after))
        return m


class DescrambleStep(wiring.Component):
    """Descrambles one word; combinational.

    COM sets the register to FFFFh, SKP holds it, and any other symbol advances it by eight shifts. Data symbols are combined with
    the key, except the 15 symbols after the COM of a training sequence or of an EIEOS; these get ``plain``. A COM begins a training
    sequence if a data symbol or PAD follows, and an EIEOS if EIE follows (PCIe Base 2.1, 4.2.3). A symbol with an error counts as
    any other.

    The step joins :class:`ClassStep`, :class:`MarkStep` and :class:`KeyStep`. :class:`Descrambler` has registers between these
    parts. This component has none, so tests can compare it with the serial register.

    Ports
    -----
    before : :data:`STATE` before the word.
    symbols : :func:`symbol_word`.
    bypass : scrambling is disabled.
    after : :data:`STATE` after the word.
    out : :func:`symbol_word`, descrambled.
    """

    def __init__(self, symbols: int):
        word = symbol_word(symbols)
        self._symbols = symbols
        super().__init__({"before": In(STATE), "symbols": In(word), "bypass": In(1), "after": Out(STATE), "out": Out(word)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.kinds, m.submodules.mark, m.submodules.key = kinds, mark, key = _steps(self._symbols)
        m.d.comb += [
            kinds.symbols.eq(self.symbols),
            mark.before.eq(self.before.place),
            mark.word.eq(kinds.out),
            self.after.place.eq(mark.after),
            key.before.eq(self.before.lfsr),
            key.marked.eq(mark.out),
            key.bypass.eq(self.bypass),
            self.after.lfsr.eq(key.after),
            self.out.eq(key.out),
        ]
        return m


def _steps(symbols: int) -> tuple[ClassStep, MarkStep, KeyStep]:
    return ClassStep(symbols), MarkStep(symbols), KeyStep(symbols)


class Descrambler(wiring.Component):
    """Descrambles the symbols of one lane as :class:`DescrambleStep` does; one word a clock, latency 3 clocks.

    Output before the first COM is garbage. ``out`` has ``plain`` set in training sequences.

    Ports
    -----
    symbols : :func:`symbol_word`.
    bypass : the link was trained with scrambling disabled.
    out : :func:`symbol_word`, descrambled.
    """

    def __init__(self, symbols: int):
        word = stream.Signature(symbol_word(symbols), always_ready=True)
        self._symbols = symbols
        super().__init__({"symbols": In(word), "bypass": In(1), "out": Out(word)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.kinds, m.submodules.mark, m.submodules.key = kinds, mark, key = _steps(self._symbols)
        place, lfsr, marked, between = Signal(PLACE), Signal(_BITS), Signal(marked_word(self._symbols)), Signal()
        classed = Signal()
        m.d.comb += [kinds.symbols.eq(self.symbols.payload), mark.before.eq(place)]
        m.d.comb += [key.before.eq(lfsr), key.marked.eq(marked), key.bypass.eq(self.bypass)]
        m.d.sync += [classed.eq(self.symbols.valid), between.eq(classed), self.out.valid.eq(between)]
        with m.If(self.symbols.valid):
            m.d.sync += mark.word.eq(kinds.out)
        with m.If(classed):
            m.d.sync += [place.eq(mark.after), marked.eq(mark.out)]
        with m.If(between):
            m.d.sync += [lfsr.eq(key.after), self.out.payload.eq(key.out)]
        return m
