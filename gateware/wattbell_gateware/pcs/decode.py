"""8b/10b, decoding direction only.

The tables are made here from the structure of the code, seen from the receiver's side (A. X. Widmer, P. A. Franaszek, IBM
J. Res. Develop. 27, 1983): most six-bit blocks carry x in their first five bits as it is, and the others are few. The
tests compare them with the transmitter's tables, which are written from the encoder's side, for all 1024 codes.
"""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .symbols import symbol_word

__all__ = ["LATENCY", "Decoder8b10b"]

LATENCY = 2
"""Clocks from a word of codes to its symbols."""
_K28 = 28
_CODE = data.StructLayout({
    "data": 8, "k": 1, "error": 1,
    "needs_minus": 1, "needs_plus": 1,  # the running disparity before it must be this
    "to_minus": 1, "to_plus": 1,        # the running disparity after it is this, whatever it was
})  # fmt: skip


def _six(code: int) -> tuple[int, bool] | None:
    """(x, may be K28) of a six-bit block, `a` in bit 0; None if the code has no such block."""
    ones = code.bit_count()
    low, e, i = code & 15, code >> 4 & 1, code >> 5
    if ones == 3:
        # D.7 is sent as 111000 or 000111 in turn, so that 000111 is not D.24.
        return (7, False) if low in (0b0111, 0b1000) and e == i == low >> 3 else (code & 31, False)
    if ones == 2:
        return _six(code ^ 63)  # the other form of an unbalanced block
    if ones != 4 or (i == 0 and e == 0):
        return None  # too unbalanced, or 111100
    if i == 0:
        return code & 31, False
    if e == 0:
        return low ^ 15, False  # of D.1, D.2, D.4 and D.8 abcd is complemented
    return {0b1001: (0, False), 0b1010: (15, False), 0b0110: (16, False), 0b0011: (24, False), 0b0101: (31, False),
            0b1100: (_K28, True)}[low]  # fmt: skip


def _four(code: int) -> int | None:
    """y of a four-bit block, `f` in bit 0, 7 for both forms of D.x.7; None for 0000 and 1111."""
    ones = code.bit_count()
    if ones in (0, 4):
        return None
    if ones != 2:
        return {0b1101: 0, 0b1011: 4, 0b0111: 7, 0b1110: 7}[code if ones == 3 else code ^ 15]
    return 3 if code in (0b0011, 0b1100) else code & 7 if not code & 8 else {0b1001: 1, 0b1010: 2}[code]


def _disparity(code: int, bits: int) -> int:
    """Running disparity behind a block: the sign of its balance; 111000 and 1100 leave -1, 000111 and 0011 +1; 0 as before."""
    ones, half = code.bit_count(), bits // 2
    if ones != half:
        return 1 if ones > half else -1
    return -1 if code == (1 << half) - 1 else 1 if code == ((1 << half) - 1) << half else 0


class Decoder8b10b(wiring.Component):
    """Aligned codes in, symbols out; one word a clock, latency 2 clocks (:data:`LATENCY`).

    ``error``: the code is in neither column of the table. ``disparity``: it is in the other column only. The running
    disparity follows what is received (IEEE 802.3 36.2.4.4), so that one bit error is told at most twice: where it is, or
    at the next unbalanced symbol.

    Ports
    -----
    codes : words of 10 * `symbols` bits, `a` of the first symbol in bit 0.
    out : :func:`symbol_word` of `symbols`.
    bad : with ``out``: a symbol of this word has ``error`` or ``disparity``.
    """

    def __init__(self, symbols: int):
        self._layout = symbol_word(symbols)
        self._symbols = symbols
        super().__init__({
            "codes": In(stream.Signature(10 * symbols, always_ready=True)),
            "out": Out(stream.Signature(self._layout, always_ready=True)), "bad": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        stage = [Signal(_CODE, name=f"code{n}") for n in range(self._symbols)]
        staged = Signal()
        m.d.sync += [staged.eq(self.codes.valid), self.out.valid.eq(staged)]
        with m.If(self.codes.valid):
            for n, code in enumerate(stage):
                m.d.sync += code.eq(self._decoded(m, self.codes.payload[10 * n : 10 * n + 10], n))

        plus = Signal()  # the running disparity
        running = plus
        wrong = []
        for n, code in enumerate(stage):
            symbol = self.out.payload[n]
            disparity = Signal(name=f"disparity{n}")
            m.d.comb += disparity.eq(~code.error & Mux(running, code.needs_minus, code.needs_plus))
            wrong += [disparity, code.error]
            with m.If(staged):
                m.d.sync += [symbol.data.eq(code.data), symbol.k.eq(code.k), symbol.error.eq(code.error), symbol.disparity.eq(disparity)]
            after = Signal(name=f"plus{n}")
            m.d.comb += after.eq(code.to_plus | (running & ~code.to_minus))
            running = after
        with m.If(staged):
            m.d.sync += [plus.eq(running), self.bad.eq(Cat(wrong).any())]
        return m

    def _decoded(self, m: Module, code, n: int):
        """What the ten bits say by themselves."""
        out = Signal(_CODE, name=f"decoded{n}")
        six, four = code[:6], code[6:]
        x, y = Signal(5, name=f"x{n}"), Signal(3, name=f"y{n}")
        known, k28 = Signal(name=f"known{n}"), Signal(name=f"k28_{n}")
        six_plus, six_minus = Signal(name=f"plus6_{n}"), Signal(name=f"minus6_{n}")
        needs_minus, needs_plus = Signal(name=f"needs_minus6_{n}"), Signal(name=f"needs_plus6_{n}")
        with m.Switch(six):
            for value in range(64):
                found, after = _six(value), _disparity(value, 6)
                with m.Case(value):
                    m.d.comb += [six_plus.eq(after > 0), six_minus.eq(after < 0)]
                    if found is not None:
                        balanced = value.bit_count() == 3
                        m.d.comb += [
                            x.eq(found[0]), k28.eq(found[1]), known.eq(1),
                            # An unbalanced block turns the disparity round, 111000 and 000111 leave it.
                            needs_minus.eq(after < 0 if balanced else after > 0), needs_plus.eq(after > 0 if balanced else after < 0),
                        ]  # fmt: skip

        # K28 complements its balanced y's with the block before, so 110000 is read as 001111 would be.
        flipped = Signal(4, name=f"four{n}")
        four_known, four_plus, four_minus = (Signal(name=f"{s}{n}") for s in ("known4_", "plus4_", "minus4_"))
        m.d.comb += flipped.eq(four ^ (k28 & six_minus).replicate(4))
        y_data, y_k28 = Signal(3, name=f"y_data{n}"), Signal(3, name=f"y_k28_{n}")
        for selector, target in ((four, y_data), (flipped, y_k28)):
            with m.Switch(selector):
                for value in range(1, 15):
                    with m.Case(value):
                        m.d.comb += target.eq(_four(value))
        needs_minus4, needs_plus4 = Signal(name=f"needs_minus4_{n}"), Signal(name=f"needs_plus4_{n}")
        with m.Switch(four):
            for value in range(16):
                after = _disparity(value, 4)
                balanced = value.bit_count() == 2
                with m.Case(value):
                    m.d.comb += [
                        four_plus.eq(after > 0), four_minus.eq(after < 0), four_known.eq(_four(value) is not None),
                        needs_minus4.eq(after < 0 if balanced else after > 0), needs_plus4.eq(after > 0 if balanced else after < 0),
                    ]  # fmt: skip
        m.d.comb += y.eq(Mux(k28, y_k28, y_data))

        # D.x.7 and K.x.7: 0111 and 1000 are the alternate form, 1110 and 0001 the primary one.
        alternate, primary = (four == 0b1110) | (four == 0b0001), (four == 0b0111) | (four == 0b1000)
        k_x_7 = Signal(name=f"kx7_{n}")
        must, may = Signal(name=f"must{n}"), Signal(name=f"may{n}")  # be the alternate form
        upper = (four == 0b1110) | (four == 0b0111)  # the forms at negative disparity
        for_minus = (x == 17) | (x == 18) | (x == 20)
        for_plus = (x == 11) | (x == 13) | (x == 14)
        m.d.comb += [
            k_x_7.eq((x == 23) | (x == 27) | (x == 29) | (x == 30)),
            must.eq(k28 | Mux(upper, for_minus, for_plus)),
            may.eq(must | k_x_7),
            out.data.eq(Cat(x, y)),
            out.k.eq(k28 | (alternate & k_x_7)),
            # The second block must suit the disparity that an unbalanced (or paired) first block left.
            out.error.eq(~known | ~four_known | (alternate & ~may) | (primary & must)
                         | (six_plus & needs_minus4) | (six_minus & needs_plus4)),
            out.needs_minus.eq(needs_minus | (~needs_plus & needs_minus4)),
            out.needs_plus.eq(needs_plus | (~needs_minus & needs_plus4)),
            out.to_plus.eq(four_plus | (~four_minus & six_plus)),
            out.to_minus.eq(four_minus | (~four_plus & six_minus)),
        ]  # fmt: skip
        return out
