"""The PHY's parallel forms equal the serial ones, for every input.

The serial forms here are written from the specification, one bit per step, independently of the gateware's.
"""

import os

import pytest
from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Assert, Assume
from wattbell_gateware.link import DLLP_CRC, LCRC, CrcStep
from wattbell_gateware.pcs import STATE, DescrambleStep, symbol_word

from tests.gateware.formal import smt

# --- CRC ----------------------------------------------------------------------------------------------------------------

POLYNOMIALS = {"lcrc": (LCRC, 32, 0x04C11DB7), "dllp": (DLLP_CRC, 16, 0x100B)}
WIDTHS = {"lcrc": (2, 4, 8, 12, 16) if os.environ.get("WATTBELL_FORMAL") == "all" else (2, 4), "dllp": (2, 4)}
"""Bytes per step: the widths proven by `make formal`, and the widths in every test run."""


def serial_crc(m, before, data, bits, polynomial):
    """Return the state before each bit of `data`, and the last one, of the specification's shift register.

    x^15 or x^31 is at the end; the bits are reversed, as the gateware keeps them.
    """
    state, states = before[::-1], [before]
    for k, bit in enumerate(data):
        following = Signal(bits, name=f"serial_{k}")
        feedback = state[-1] ^ bit
        m.d.comb += following.eq(Cat(Const(0, 1), state[:-1]) ^ Cat(feedback if polynomial >> n & 1 else 0 for n in range(bits)))
        state = following
        states.append(state[::-1])
    return states


class Crcs(Elaboratable):
    """Every width of one CRC, parallel and serial, either with an assertion that they agree, or with both as outputs."""

    def __init__(self, kind, claim=True, wrong=False):
        self.kind, self.claim, self.wrong = kind, claim, wrong
        _, self.bits, self.polynomial = POLYNOMIALS[kind]
        self.widest = max(WIDTHS[kind])
        self.before, self.data = Signal(self.bits, name="before"), Signal(8 * self.widest, name="data")
        self.outputs = [Signal(self.bits, name=f"{form}_{w}") for w in WIDTHS[kind] for form in ("serial", "parallel")]
        self.ports = [self.before, self.data, *([] if claim else self.outputs)]

    def elaborate(self, platform):
        m = Module()
        both = Cat(self.before, self.data)
        if self.claim:
            m.d.comb += Assume((both & (both - 1)[: len(both)]) == 0)
        states = serial_crc(m, self.before, self.data, self.bits, self.polynomial)
        for width, serial, parallel in zip(WIDTHS[self.kind], self.outputs[::2], self.outputs[1::2]):
            m.submodules[f"crc{width}"] = crc = CrcStep(POLYNOMIALS[self.kind][0], width)
            m.d.comb += [crc.before.eq(self.before), crc.data.eq(self.data)]
            m.d.comb += [serial.eq(states[8 * width]), parallel.eq(crc.after)]
            if self.claim:
                m.d.comb += Assert(parallel == serial ^ (self.data[3] if self.wrong else 0))
        return m


@pytest.mark.parametrize("kind", POLYNOMIALS)
def test_parallel_crc_is_the_bit_serial_crc(kind, tmp_path):
    # Affine maps over GF(2) are equal if they agree on 0 and every single bit (see test_proofs.py).
    top = Crcs(kind, claim=False)
    assert smt.affine_in(top, top.ports, ("before", "data"), tmp_path) > 100
    top = Crcs(kind)
    smt.prove(top, top.ports, tmp_path, depth=1)


# --- descrambler --------------------------------------------------------------------------------------------------------


class SerialDescrambler:
    """Descrambles one symbol after the other, one shift after the other (PCIe Base 2.1, 4.2.3)."""

    def __init__(self, m, before):
        self.m, self.register, self.training, self.after_com = m, before.lfsr, before.place.training, before.place.after_com

    def symbol(self, n, symbol, bypass):
        m = self.m
        register, key = self.register, []
        for k in range(8):
            # D15 leaves, and is added to the inputs of D0, D3, D4 and D5
            out = register[15]
            following = Signal(16, name=f"register_{n}_{k}")
            m.d.comb += following.eq(Cat(out, register[:2], *(register[tap] ^ out for tap in (2, 3, 4)), register[5:15]))
            key.append(out)
            register = following
        control = symbol.k & ~symbol.error
        com, skp = control & (symbol.data == 0xBC), control & (symbol.data == 0x1C)
        data, plain = Signal(8, name=f"data_{n}"), Signal(name=f"plain_{n}")
        # A training sequence: COM, then a data symbol or PAD (link number); an EIEOS: COM, then EIE. Fifteen symbols; COM ends it.
        begins = self.after_com & (~symbol.k | (control & ((symbol.data == 0xF7) | (symbol.data == 0xFC))))
        following = Signal(16, name=f"register_{n}")
        training = Signal(4, name=f"training_{n}")
        m.d.comb += [
            plain.eq(~com & (begins | (self.training > 0))),
            data.eq(symbol.data ^ Mux(symbol.k | plain | bypass, 0, Cat(key))),
            following.eq(Mux(com, 0xFFFF, Mux(skp, self.register, register))),
        ]
        with m.If(com):
            m.d.comb += training.eq(0)
        with m.Elif(begins):
            m.d.comb += training.eq(14)
        with m.Elif(self.training > 0):
            m.d.comb += training.eq(self.training - 1)
        self.register, self.training, self.after_com = following, training, com
        return data, plain


class DescramblerIsSerial(Elaboratable):
    """From any state, for any symbols: the same data and the same state, wherever COM and SKP are.

    With `claim`, equality is asserted for registers of at most one set bit; without it, both forms are outputs.
    """

    def __init__(self, symbols, claim=True, wrong=False):
        self.symbols, self.claim, self.wrong = symbols, claim, wrong
        self.before, self.word, self.bypass = Signal(STATE), Signal(symbol_word(symbols)), Signal()
        self.lfsr = Signal(16, name="lfsr")
        self.outputs = [Signal(8 * symbols, name=n) for n in ("serial_data", "data")] + [Signal(16, name=n) for n in ("serial", "register")]
        self.ports = [self.lfsr, self.before.as_value(), self.word.as_value(), self.bypass, *([] if claim else self.outputs)]

    def elaborate(self, platform):
        m = Module()
        m.submodules.step = step = DescrambleStep(self.symbols)
        before = Signal(STATE)
        m.d.comb += [before.eq(self.before), before.lfsr.eq(self.lfsr)]
        m.d.comb += [step.before.eq(before), step.symbols.eq(self.word), step.bypass.eq(self.bypass)]
        serial = SerialDescrambler(m, before)
        data = [serial.symbol(n, self.word[n], self.bypass) for n in range(self.symbols)]
        serial_data, parallel_data, serial_register, register = self.outputs
        m.d.comb += [
            serial_data.eq(Cat(d for d, _ in data)),
            serial_register.eq(serial.register),
            parallel_data.eq(Cat(step.out[n].data for n in range(self.symbols))),
            register.eq(step.after.lfsr),
        ]
        if not self.claim:
            return m
        # COM leaves no training in progress, and never more than 14 symbols to come. Both hold after any step (asserted).
        m.d.comb += [
            Assume((before.place.training < 15) & ~(before.place.after_com & (before.place.training != 0))),
            Assume((self.lfsr & (self.lfsr - 1)[:16]) == 0),
            Assert(parallel_data == serial_data),
            Assert(register == serial_register ^ (self.lfsr[7] if self.wrong else 0)),
            Assert((step.after.place.training == serial.training) & (step.after.place.after_com == serial.after_com)),
            Assert((step.after.place.training < 15) & ~(step.after.place.after_com & (step.after.place.training != 0))),
        ]
        for n, (_, plain) in enumerate(data):
            out, symbol = step.out[n], self.word[n]
            m.d.comb += [
                Assert((out.plain == plain) & (out.k == symbol.k)),
                Assert((out.error == symbol.error) & (out.disparity == symbol.disparity)),
            ]
        return m


@pytest.mark.parametrize("symbols", [2, 4])
def test_parallel_descrambler_is_the_serial_register(symbols, tmp_path):
    # For any symbols, both forms are affine in the register. It is therefore enough that they agree for registers with at most one
    # bit set. (The direct proof takes the solver minutes for words of 4.)
    top = DescramblerIsSerial(symbols, claim=False)
    assert smt.affine_in(top, top.ports, ("lfsr",), tmp_path) > 50
    top = DescramblerIsSerial(symbols)
    smt.prove(top, top.ports, tmp_path, depth=1)


class Product(Elaboratable):
    """Not affine: two bits multiplied, or one that selects."""

    def __init__(self, kind):
        self.a, self.b, self.out, self.kind = Signal(2, name="a"), Signal(name="b"), Signal(name="out"), kind

    def elaborate(self, platform):
        m = Module()
        a = self.a
        good = Mux(self.b, a[0], a[1]) ^ (a[1] & self.b)
        m.d.comb += self.out.eq({"and": a[0] & a[1], "mux": Mux(a[0], a[1], self.b), "good": good}[self.kind])
        return m


@pytest.mark.parametrize("kind", ["and", "mux", "good"])
def test_what_is_not_affine_is_refused(kind, tmp_path):
    top = Product(kind)
    ports = [top.a, top.b, top.out]
    if kind == "good":
        assert smt.affine_in(top, ports, ("a",), tmp_path) == 3
    else:
        with pytest.raises(smt.Refuted, match="affine|multiplies"):
            smt.affine_in(top, ports, ("a",), tmp_path)


@pytest.mark.parametrize("make", [lambda: Crcs("dllp", wrong=True), lambda: DescramblerIsSerial(2, wrong=True)], ids=["crc", "descrambler"])
def test_a_wrong_claim_is_refuted(make, tmp_path):
    top = make()
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, top.ports, tmp_path, depth=1)
