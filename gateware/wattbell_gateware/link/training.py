"""Training sequences and EIOS of one lane at 2.5 and 5 GT/s."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..pcs.symbols import K, symbol_word

__all__ = ["TRAINING_SET", "OrderedSetReader"]

_TS1, _TS2 = 0x4A, 0x45
_PLACES = 16

TRAINING_SET = data.StructLayout(
    {
        "link": 8,
        "link_pad": 1,
        "lane": 8,
        "lane_pad": 1,
        "n_fts": 8,
        "rates": 8,
        "control": 8,
        "ts2": 1,
    }
)
"""A TS1 or TS2 (PCIe Base 2.1, tables 4-2 and 4-3; PCIe Base 3.0, 4.2.4.1).

- ``link``: link number; meaningless with ``link_pad``.
- ``lane``: lane number; meaningless with ``lane_pad``.
- ``n_fts``: number of FTS ordered sets that the sender asks for.
- ``rates``: bit 1: 2.5 GT/s, 2: 5, 3: 8; bit 7: speed change.
- ``control``: bit 0: hot reset, 1: disable link, 2: loopback, 3: disable scrambling.
- ``ts2``: a TS2, otherwise a TS1.
"""


_KIND = data.StructLayout(dict.fromkeys(("com", "idle", "number", "byte", "ts1", "ts2", "k"), 1) | {"data": 8})
"""Kinds that a symbol could be. ``number``: part of a training sequence. ``byte``: the same, but no PAD."""


class OrderedSetReader(wiring.Component):
    """Reads the ordered sets of one lane from descrambled symbols; takes a word a clock, strobes 5 clocks later.

    Symbol 6 of a training sequence is ignored: it may hold equalisation presets. The polarity must be right.

    Ports
    -----
    symbols : from :class:`~wattbell_gateware.pcs.LaneReceiver`.
    found : strobe: the second of two equal training sequences in a row ended.
    value : the training sequence, :data:`TRAINING_SET`.
    eios : strobe: COM IDL IDL came.
    """

    def __init__(self, symbols: int):
        self._symbols = symbols
        super().__init__(
            {
                "symbols": In(stream.Signature(symbol_word(symbols), always_ready=True)),
                "found": Out(1),
                "value": Out(TRAINING_SET),
                "eios": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        times = range(self._symbols)

        # 1: kinds that each symbol could be, at any place
        valid = Signal()
        kinds = [Signal(_KIND, name=f"kind{n}") for n in times]
        m.d.sync += valid.eq(self.symbols.valid)
        with m.If(self.symbols.valid):
            for kind, symbol in zip(kinds, self.symbols.payload, strict=True):
                control, pad = symbol.k & ~symbol.error, symbol.data == K.PAD
                number = symbol.plain & ~symbol.error & (~symbol.k | pad)
                m.d.sync += [
                    kind.com.eq(control & (symbol.data == K.COM)),
                    kind.idle.eq(control & (symbol.data == K.IDL)),
                    kind.number.eq(number),
                    kind.byte.eq(number & ~symbol.k),
                    kind.ts1.eq(number & ~symbol.k & (symbol.data == _TS1)),
                    kind.ts2.eq(number & ~symbol.k & (symbol.data == _TS2)),
                    kind.data.eq(symbol.data),
                    kind.k.eq(symbol.k),
                ]

        # 2: EIOS is three symbols in a row. The place of a symbol in a training sequence depends only on the place of the last COM.
        last, last_but_one = Signal(_KIND), Signal(_KIND)
        row = [last_but_one, last, *kinds]
        eios = [a.com & b.idle & c.idle for a, b, c in zip(row, row[1:], row[2:], strict=False)]
        place = Signal(range(_PLACES + 1), init=_PLACES)  # of this word's first symbol; _PLACES: in no set
        ats = [Signal(5, name=f"at{n}") for n in times]
        placed, placed_kinds = Signal(), [Signal(_KIND, name=f"placed{n}") for n in times]
        placed_ats = [Signal(5, name=f"placed_at{n}") for n in times]
        for n, at in enumerate(ats):
            m.d.comb += at.eq(place + n)
            for k in range(n):  # the last one counts
                with m.If(kinds[k].com):
                    m.d.comb += at.eq(n - k)
        m.d.sync += [placed.eq(valid), Cat(placed_kinds).eq(Cat(kinds)), Cat(placed_ats).eq(Cat(ats))]
        met = Signal(3)  # an EIOS, delayed as a training sequence that ends here is
        m.d.sync += [met.eq(Cat(valid & Cat(eios).any(), met)), self.eios.eq(met[-1])]
        with m.If(valid):
            m.d.sync += [last.eq(row[-1]), last_but_one.eq(row[-2])]
            with m.If(kinds[-1].com):
                m.d.sync += place.eq(1)
            with m.Elif(ats[-1] < _PLACES):
                m.d.sync += place.eq(ats[-1] + 1)
            with m.Else():
                m.d.sync += place.eq(_PLACES)

        # 3: check each symbol against its place, and take its value
        coming, whole = Signal(TRAINING_SET), Signal(TRAINING_SET)
        ts2_behind, fitted = Signal(), Signal()
        m.d.comb += ts2_behind.eq(coming.ts2)
        begins, fit, ends = (Signal(self._symbols, name=name) for name in ("begins", "fit", "ends"))
        for n, (kind, at) in enumerate(zip(placed_kinds, placed_ats, strict=True)):
            fits, named, ts2 = (Signal(name=f"{name}{n}") for name in ("fits", "named", "ts2"))
            # The eighth symbol says which of the two it is.
            m.d.comb += ts2.eq(coming.ts2)
            for k in range(n):
                with m.If(at == 7 + n - k):
                    m.d.comb += ts2.eq(placed_kinds[k].ts2)
            with m.If(at == 7):
                m.d.comb += ts2_behind.eq(kind.ts2)
            m.d.comb += [
                named.eq(Mux(at == 7, kind.ts1 | kind.ts2, Mux(ts2, kind.ts2, kind.ts1))),
                # From the fourth symbol on no PAD; from the eighth on identifiers, all the same
                fits.eq(Mux(at <= 2, kind.number, Mux(at < 7, kind.byte, named)) & (at < _PLACES)),
            ]
            m.d.sync += [begins[n].eq(kind.com), fit[n].eq(fits & (at != _PLACES - 1)), ends[n].eq(fits & (at == _PLACES - 1))]
            with m.If(placed):
                # A field captured outside a live set is captured again inside the next one.
                with m.Switch(at):
                    for where, fields in (
                        (1, ("link", "link_pad")),
                        (2, ("lane", "lane_pad")),
                        (3, ("n_fts",)),
                        (4, ("rates",)),
                        (5, ("control",)),
                    ):
                        with m.Case(where):
                            m.d.sync += coming[fields[0]].eq(kind.data)
                            if len(fields) == 2:
                                m.d.sync += coming[fields[1]].eq(kind.k)
        m.d.sync += fitted.eq(placed)
        with m.If(placed):
            m.d.sync += coming.ts2.eq(ts2_behind)
            # All fields are known at the eighth symbol, and the next set has not begun.
            with m.If((placed_ats[0] >= 8) & (placed_ats[0] < 12)):
                m.d.sync += whole.eq(coming)

        # 4: check whether all symbols since COM fitted
        alive, before, had, over, follows = Signal(), Signal(TRAINING_SET), Signal(), Signal(), Signal()
        lives, ended, fails = alive, [], []
        for n in times:
            goes_on = Signal(name=f"alive{n}")
            ended.append(lives & ends[n])
            m.d.comb += goes_on.eq(begins[n] | (lives & fit[n]))
            fails.append(~goes_on & ~ended[-1])
            lives = goes_on
        m.d.sync += [over.eq(fitted & Cat(ended).any()), follows.eq(had), self.found.eq(0)]
        with m.If(fitted):
            m.d.sync += alive.eq(lives)
            # What fails in the word of an end comes after this end: it breaks the row for the next set, not for this one.
            with m.If(Cat(fails).any()):
                m.d.sync += had.eq(0)
            with m.Elif(Cat(ended).any()):
                m.d.sync += had.eq(1)
        with m.If(over):
            m.d.sync += [before.eq(whole), self.found.eq(follows & (whole == before)), self.value.eq(whole)]
        return m
