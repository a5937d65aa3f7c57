"""Decoder of 8b/10b.

The tables are derived here from the structure of the code, seen from the receiver's side (A. X. Widmer, P. A. Franaszek, IBM J.
Res. Develop. 27, 1983). Most six-bit blocks carry x unchanged in their first five bits; the others are few. The tests compare the
tables with the transmitter's tables for all 1024 codes. The transmitter's tables are written from the encoder's side.
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
_CODE = data.StructLayout(
    {
        "data": 8,
        "k": 1,
        "error": 1,
        "needs_minus": 1,
        "needs_plus": 1,  # required running disparity before the code
        "to_minus": 1,
        "to_plus": 1,  # running disparity after the code, whatever it was
    }
)
_MARKS = {"known": 1, "plus": 1, "minus": 1, "needs_minus": 1, "needs_plus": 1}
_SIX = data.StructLayout(
    {
        "value": 5,
        "k28": 1,
        **_MARKS,
        "k28_minus": 1,  # form of K28 at positive disparity
        "must_plus": 1,
        "must_minus": 1,  # the next .7 must be alternate at positive, negative disparity
        "kx7": 1,  # the next .7 may be alternate
    }
)
_FOUR = data.StructLayout({"value": 3, **_MARKS})


def _six(code: int) -> tuple[int, bool] | None:
    """Return (x, may be K28) of a six-bit block, `a` in bit 0; None if the code has no such block."""
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
    return {0b1001: (0, False), 0b1010: (15, False), 0b0110: (16, False), 0b0011: (24, False), 0b0101: (31, False), 0b1100: (_K28, True)}[
        low
    ]


def _behind(code: int) -> dict[str, int]:
    """Return the facts that a six-bit block fixes for the four-bit block after it: :data:`_SIX` from ``k28_minus`` on."""
    found = _six(code)
    x, k28 = found or (0, False)
    return {
        "k28_minus": k28 and _disparity(code, 6) < 0,
        "must_plus": k28 or (found is not None and x in (11, 13, 14)),
        "must_minus": k28 or (found is not None and x in (17, 18, 20)),
        "kx7": found is not None and x in (23, 27, 29, 30),
    }


def _four(code: int) -> int | None:
    """Return y of a four-bit block, `f` in bit 0; 7 for both forms of D.x.7; None for 0000 and 1111."""
    ones = code.bit_count()
    if ones in (0, 4):
        return None
    if ones != 2:
        return {0b1101: 0, 0b1011: 4, 0b0111: 7, 0b1110: 7}[code if ones == 3 else code ^ 15]
    return 3 if code in (0b0011, 0b1100) else code & 7 if not code & 8 else {0b1001: 1, 0b1010: 2}[code]


def _disparity(code: int, bits: int) -> int:
    """Return the running disparity after a block: +1, -1, or 0 for unchanged.

    An unbalanced block gives the sign of its balance. 111000 and 1100 leave -1; 000111 and 0011 leave +1.
    """
    ones, half = code.bit_count(), bits // 2
    if ones != half:
        return 1 if ones > half else -1
    return -1 if code == (1 << half) - 1 else 1 if code == ((1 << half) - 1) << half else 0


def _block(code: int, bits: int, known: bool) -> dict[str, int]:
    """Return the running disparity that a block requires before it and leaves after it.

    An unbalanced block inverts the disparity. 111000, 1100 and their complements keep it.
    """
    after = _disparity(code, bits)
    before = after if code.bit_count() == bits // 2 else -after
    return {
        "known": known,
        "plus": after > 0,
        "minus": after < 0,
        "needs_minus": known and before < 0,
        "needs_plus": known and before > 0,
    }


class Decoder8b10b(wiring.Component):
    """Decodes aligned codes to symbols; one word a clock, latency 2 clocks (:data:`LATENCY`).

    ``error`` marks a code in neither column of the table. ``disparity`` marks a code in the other column only. The running
    disparity follows the received codes (IEEE 802.3 36.2.4.4). One bit error is therefore reported at most twice: at its place, or
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
        super().__init__(
            {
                "codes": In(stream.Signature(10 * symbols, always_ready=True)),
                "out": Out(stream.Signature(self._layout, always_ready=True)),
                "bad": Out(1),
            }
        )

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
        """Return the decoding of ten bits, without regard to the running disparity."""
        out = Signal(_CODE, name=f"decoded{n}")
        six, four = code[:6], code[6:]
        first, second = Signal(_SIX, name=f"six{n}"), Signal(_FOUR, name=f"four{n}")
        x, y, k28 = first.value, Signal(3, name=f"y{n}"), first.k28
        with m.Switch(six):
            for value in range(64):
                with m.Case(value):
                    found = _six(value)
                    says = _block(value, 6, found is not None) | dict(zip(("value", "k28"), found or ())) | _behind(value)
                    m.d.comb += first.eq(_SIX.const(says))
        with m.Switch(four):
            for value in range(16):
                with m.Case(value):
                    m.d.comb += second.eq(_FOUR.const(_block(value, 4, _four(value) is not None) | {"value": _four(value) or 0}))
        # K28 complements its balanced y's with the block before, so every y after 110000 is inverted and read as after 001111.
        flipped, y_flipped = Signal(4, name=f"flipped{n}"), Signal(3, name=f"y_flipped{n}")
        m.d.comb += [flipped.eq(~four), y.eq(Mux(first.k28_minus, y_flipped, second.value))]
        with m.Switch(flipped):
            for value in range(1, 15):
                with m.Case(value):
                    m.d.comb += y_flipped.eq(_four(value))

        # D.x.7 and K.x.7: 0111 and 1000 are the alternate form, 1110 and 0001 the primary one.
        alternate, primary = (four == 0b1110) | (four == 0b0001), (four == 0b0111) | (four == 0b1000)
        must, may = Signal(name=f"must{n}"), Signal(name=f"may{n}")  # be the alternate form
        upper = (four == 0b1110) | (four == 0b0111)  # the forms at negative disparity
        m.d.comb += [
            must.eq(Mux(upper, first.must_minus, first.must_plus)),
            may.eq(must | first.kx7),
            out.data.eq(Cat(x, y)),
            out.k.eq(k28 | (alternate & first.kx7)),
            # The second block must suit the disparity that an unbalanced (or paired) first block left.
            out.error.eq(
                ~first.known
                | ~second.known
                | (alternate & ~may)
                | (primary & must)
                | (first.plus & second.needs_minus)
                | (first.minus & second.needs_plus)
            ),
            out.needs_minus.eq(first.needs_minus | (~first.needs_plus & second.needs_minus)),
            out.needs_plus.eq(first.needs_plus | (~first.needs_minus & second.needs_plus)),
            out.to_plus.eq(second.plus | (~second.minus & first.plus)),
            out.to_minus.eq(second.minus | (~second.plus & first.minus)),
        ]
        return out
