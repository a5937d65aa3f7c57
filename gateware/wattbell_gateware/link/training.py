"""Ordered sets of one lane that tell what the link does, at 2.5 and 5 GT/s: training sequences, EIOS."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..pcs.symbols import K, symbol_word

__all__ = ["TRAINING_SET", "OrderedSetReader"]

_TS1, _TS2 = 0x4A, 0x45
_PLACES = 16

TRAINING_SET = data.StructLayout({
    "link": 8, "link_pad": 1, "lane": 8, "lane_pad": 1, "n_fts": 8, "rates": 8, "control": 8, "ts2": 1,
})  # fmt: skip
"""A TS1 or TS2 (Base 2.1, tables 4-2 and 4-3; Base 3.0, 4.2.4.1).

``link``, ``lane``: numbers, of no meaning with ``link_pad``, ``lane_pad``. ``rates``: bit 1: 2.5 GT/s, 2: 5, 3: 8; bit 7: speed change.
``control``: bit 0 hot reset, 1 disable link, 2 loopback, 3 disable scrambling. ``n_fts``: FTS ordered sets it wants.
"""


class OrderedSetReader(wiring.Component):
    """Reads descrambled symbols of one lane; a word a clock, strobes in the next clock.

    Symbol 6 of a training sequence is not looked at: it may hold equalisation presets. Polarity must be right.

    Ports
    -----
    symbols : from :class:`~wattbell_gateware.pcs.LaneReceiver`.
    found, value : the second of two equal training sequences one behind the other ended, :data:`TRAINING_SET`.
    eios : COM IDL IDL.
    """

    def __init__(self, symbols: int):
        self._symbols = symbols
        super().__init__({
            "symbols": In(stream.Signature(symbol_word(symbols), always_ready=True)),
            "found": Out(1), "value": Out(TRAINING_SET), "eios": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        valid = self.symbols.valid
        coming = Signal(TRAINING_SET)
        place, idles = Signal(range(_PLACES)), Signal()  # place 0: in no set; the symbol before was IDL
        at, at_idles, second = place, idles, coming.ts2
        eios, ended, fails = [], [], []
        for n in range(self._symbols):
            symbol = self.symbols.payload[n]
            control, pad = symbol.k & ~symbol.error, symbol.data == K.PAD
            number = symbol.plain & ~symbol.error & (~symbol.k | pad)
            first_two = (at == 1) | (at == 2)
            next_place, next_second = Signal(range(_PLACES), name=f"place{n}"), Signal(name=f"second{n}")
            next_idles, is_idle = Signal(name=f"idles{n}"), control & first_two & (symbol.data == K.IDL)
            m.d.comb += next_second.eq(Mux(at == 7, symbol.data == _TS2, second))
            fits, named = Signal(name=f"fits{n}"), Signal(name=f"named{n}")
            m.d.comb += [
                named.eq(symbol.data == Mux(next_second, _TS2, _TS1)),
                # From the fourth symbol on no PAD; from the eighth on identifiers, all the same
                fits.eq(number & ((at <= 2) | ~symbol.k) & ((at < 7) | named) & ~at_idles),
            ]
            with m.If(control & (symbol.data == K.COM)):
                m.d.comb += next_place.eq(1)
            with m.Elif((at == 1) & is_idle):
                m.d.comb += [next_place.eq(2), next_idles.eq(1)]
            with m.Elif((at != 0) & fits):
                m.d.comb += next_place.eq(at + 1)  # 0 behind the last one
            eios.append(is_idle & at_idles & (at == 2))
            ended.append((at == _PLACES - 1) & fits)
            fails.append((next_place == 0) & ~ended[-1])
            with m.If(valid):
                with m.Switch(at):
                    for where, fields in ((1, ("link", "link_pad")), (2, ("lane", "lane_pad")), (3, ("n_fts",)), (4, ("rates",)),
                                          (5, ("control",))):  # fmt: skip
                        with m.Case(where):
                            m.d.sync += coming[fields[0]].eq(symbol.data)
                            if len(fields) == 2:
                                m.d.sync += coming[fields[1]].eq(symbol.k)
            at, at_idles, second = next_place, next_idles, next_second

        # By the eighth symbol all is known, and the next set has not begun.
        whole, before, had, over = Signal(TRAINING_SET), Signal(TRAINING_SET), Signal(), Signal()
        m.d.sync += [over.eq(valid & Cat(ended).any()), self.found.eq(0)]
        m.d.sync += self.eios.eq(valid & Cat(eios).any())
        with m.If(valid):
            m.d.sync += [place.eq(at), idles.eq(at_idles), coming.ts2.eq(second)]
            with m.If((place >= 8) & (place < 12)):
                m.d.sync += whole.eq(coming)
            with m.If(Cat(fails).any()):
                m.d.sync += had.eq(0)
        with m.If(over):
            m.d.sync += [before.eq(whole), had.eq(1), self.found.eq(had & (whole == before)), self.value.eq(whole)]
        return m
