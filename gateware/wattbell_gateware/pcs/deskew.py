"""Lane-to-lane deskew at 2.5 and 5 GT/s."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .symbols import K, symbol_word

__all__ = ["LATENCY", "MAX_SKEW", "Deskew", "link_word"]

LATENCY = 5
"""Clocks from a word to the word that ends with the same symbol, for the latest lane."""
MAX_SKEW = 5
"""Symbol times between the first and the last lane (PCIe Base 2.1, table 4-5: 20 ns at 2.5 GT/s, 8 ns at 5 GT/s at a receiver)."""
_OLD = 31
_CONFIRM = 2


def link_word(lanes: int, symbols: int) -> data.ArrayLayout:
    """Layout of `symbols` symbols of each of `lanes` lanes, lane 0 first. `lanes` is 1, 2 or 4; other numbers raise
    :class:`ValueError`.
    """
    if lanes not in (1, 2, 4):
        raise ValueError(f"a link has 1, 2 or 4 lanes, not {lanes!r}")
    return data.ArrayLayout(symbol_word(symbols), lanes)


class Deskew(wiring.Component):
    """Removes the skew between the lanes; one word a clock.

    All lanes send COM at the same time. The symbol after COM tells sets apart: COMs of SKP sets, training sequences and EIEOS are
    marks. COMs of FTS are not: they come every four symbols. The skew is known when every active lane had a mark, and the first and
    the last mark are at most :data:`MAX_SKEW` symbol times apart. If not ``aligned``, the skew is applied at once, and the set that
    showed it comes out aligned, except its words that had left. If aligned, a different skew must be seen twice, which a bit error
    does not cause.

    Every lane is delayed by ``delay`` symbols and 5 clocks (:data:`LATENCY`). SKP sets stay in: they are never inside a packet.

    Ports
    -----
    lanes : :func:`link_word`.
    locked : lock of each lane, as wired. An active lane without lock ends ``aligned``.
    active : lanes in use, as wired.
    reverse : the lanes come out in reverse order.
    out : :func:`link_word`.
    aligned : the lanes are deskewed.
    delay : delay of each lane, as wired, 0 .. 5 symbols.
    """

    def __init__(self, lanes: int, symbols: int):
        word = link_word(lanes, symbols)
        self._lanes, self._symbols = lanes, symbols
        super().__init__(
            {
                "lanes": In(stream.Signature(word, always_ready=True)),
                "locked": In(lanes),
                "active": In(lanes),
                "reverse": In(1),
                "out": Out(stream.Signature(word, always_ready=True)),
                "aligned": Out(1),
                "delay": Out(data.ArrayLayout(3, lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        n_symbols, bits = self._symbols, self.lanes.payload[0].shape().size
        one = bits // n_symbols
        valid = self.lanes.valid

        # 1: part of a mark that each symbol can be
        had_words = Signal()
        seen_words: list[Signal] = []
        seen_coms: list[Signal] = []
        seen_kinds: list[Signal] = []
        m.d.sync += had_words.eq(valid)
        for n in range(self._lanes):
            seen = Signal(bits, name=f"seen{n}")
            coms, kinds = Signal(n_symbols, name=f"coms{n}"), Signal(n_symbols, name=f"kinds{n}")
            for collected, signal in ((seen_words, seen), (seen_coms, coms), (seen_kinds, kinds)):
                collected.append(signal)
            with m.If(valid):
                m.d.sync += seen.eq(self.lanes.payload[n])
                for at, symbol in enumerate(self.lanes.payload[n]):
                    control = symbol.k & ~symbol.error
                    m.d.sync += [
                        coms[at].eq(control & (symbol.data == K.COM)),
                        kinds[at].eq((control & (symbol.data == K.SKP)) | symbol.plain),
                    ]

        # 2: age of each lane's mark at the end of the word, in symbol times
        ages = [Signal(range(_OLD + 1), name=f"age{n}", init=_OLD) for n in range(self._lanes)]
        words = [Signal(bits, name=f"word{n}") for n in range(self._lanes)]
        marked, had = Signal(self._lanes), Signal()
        m.d.sync += had.eq(had_words)
        with m.If(had_words):
            for n, age in enumerate(ages):
                com_before = Signal(name=f"com{n}")
                marks = Cat(com_before, seen_coms[n][:-1]) & seen_kinds[n]
                m.d.sync += [com_before.eq(seen_coms[n][-1]), marked[n].eq(marks.any()), words[n].eq(seen_words[n])]
                m.d.sync += age.eq(Mux(age > _OLD - n_symbols, _OLD, age + n_symbols))
                for at, mark in enumerate(marks):
                    with m.If(mark):
                        m.d.sync += age.eq(n_symbols - 1 - at)

        # 3: the skew; 4: check that it is possible
        youngest = Signal(range(_OLD + 1))
        delays = [Signal(range(_OLD + 1), name=f"late{n}") for n in range(self._lanes)]
        complete, same, settled = Signal(), Signal(), Signal()
        found = [Signal(range(_OLD + 1), name=f"skew{n}") for n in range(self._lanes)]
        behind, behind_had = [Signal(bits, name=f"behind{n}") for n in range(self._lanes)], Signal()
        m.d.sync += [
            behind_had.eq(had),
            *(later.eq(word) for later, word in zip(behind, words)),
            settled.eq(complete),
            *(skew.eq(late) for skew, late in zip(found, delays)),
        ]
        strikes = Signal(range(_CONFIRM))
        candidates = [Mux(self.active[n], age, _OLD) for n, age in enumerate(ages)]
        while len(candidates) > 1:
            candidates = [Mux(a < b, a, b) for a, b in zip(candidates[::2], candidates[1::2])]
        m.d.comb += [
            youngest.eq(candidates[0]),
            *(late.eq(Mux(self.active[n], ages[n] - youngest, 0)) for n, late in enumerate(delays)),
            complete.eq(had & (marked & self.active).any() & Cat((ages[n] != _OLD) | ~self.active[n] for n in range(self._lanes)).all()),
            same.eq(Cat(late == self.delay[n] for n, late in enumerate(found)).all()),
        ]
        with m.If((self.active & ~self.locked).any()):
            m.d.sync += self.aligned.eq(0)
        with m.Elif(settled & Cat(late <= MAX_SKEW for late in found).all()):
            m.d.sync += [self.aligned.eq(1), strikes.eq(0)]
            with m.If(self.aligned & ~same & (strikes != _CONFIRM - 1)):
                m.d.sync += strikes.eq(strikes + 1)
            with m.Else():
                m.d.sync += [self.delay[n].eq(late) for n, late in enumerate(found)]

        # 4, 5: keep this clock's words and as many earlier symbols as the greatest delay takes; select one word
        room = n_symbols + MAX_SKEW
        ready = Signal()
        m.d.sync += [ready.eq(behind_had), self.out.valid.eq(ready)]
        cut = []
        for n in range(self._lanes):
            kept = Signal(room * one, name=f"kept{n}")
            with m.If(behind_had):
                m.d.sync += kept.eq(Cat(kept, behind[n])[-room * one :])
            chosen = Signal(bits, name=f"chosen{n}")
            with m.Switch(self.delay[n]):
                for late in range(MAX_SKEW + 1):
                    with m.Case(late):
                        m.d.comb += chosen.eq(kept[(MAX_SKEW - late) * one :][:bits])
            cut.append(chosen)
        with m.If(ready):
            for n in range(self._lanes):
                m.d.sync += self.out.payload[n].eq(Mux(self.reverse, cut[-1 - n], cut[n]))
        return m
