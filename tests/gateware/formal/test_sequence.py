"""The sequence filter passes every TLP on at most once, in order except for late ones, across any wrap of the numbers.

The proof is by induction: one step from every state consistent with the past (``Assume``) to such a state (``Assert``), and the
first step from none.
"""

import pytest
from amaranth import Elaboratable, Module, Mux, Signal, signed
from amaranth.hdl import Assert, Assume
from amaranth.lib import data
from wattbell_gateware.link.sequence import ORDER, SequenceOrder, SequenceWindow

from tests.gateware.formal import smt

WINDOW = 64
STATE = data.StructLayout({"known": 1, "zero": 1, "expected": 12, "had": WINDOW})


class EveryTlpOnce(Elaboratable):
    """TLPs have 20-bit serial numbers. The filter sees twelve of their bits. Any number within the window of 4096 around the next
    may come: again after a replay, or early after losses.

    One arbitrary serial number is ``watched``; ``passed``: it was passed on. ``begun``: the first number since power-on or
    `forget`, or the missed ones before it. ``following``: one more than the newest.
    """

    def __init__(self, wrong=None):
        self.wrong = wrong
        self.state = Signal(STATE)
        self.strobe, self.serial, self.forget, self.begin = Signal(), Signal(20), Signal(), Signal()
        self.watched, self.passed, self.begun, self.following = Signal(20), Signal(), Signal(20), Signal(20)
        self.ports = [
            self.state.as_value(),
            self.strobe,
            self.serial,
            self.forget,
            self.begin,
            self.watched,
            self.passed,
            self.begun,
            self.following,
        ]

    def _agrees(self, m, name, state, passed, begun, following):
        """Require that the state belongs to a filter that has seen the numbers from `begun` to before `following`."""
        behind = Signal(signed(22), name=f"{name}_behind")
        in_window = Signal(name=f"{name}_in_window")
        agrees = Signal(name=f"{name}_agrees")
        m.d.comb += [
            behind.eq(following - self.watched - 1),
            in_window.eq((behind >= 0) & (behind < WINDOW)),
            agrees.eq(
                ~state.known
                | (
                    (state.expected == following[:12])
                    & (begun < following)
                    & (~passed | ((self.watched >= begun) & (behind >= 0)))
                    & (~in_window | (state.had.bit_select(self.watched[:6], 1) == ((self.watched < begun) | passed)))
                )
            ),
        ]
        return agrees

    def elaborate(self, platform):
        m = Module()
        m.submodules.order = order = SequenceOrder(WINDOW)
        m.submodules.window = dut = SequenceWindow(WINDOW)
        state, serial, following_state = self.state, self.serial, Signal(STATE)
        # The two are a cycle apart; their states are independent, so that they may be taken as one.
        for name in ORDER.members:
            m.d.comb += [order.before[name].eq(state[name]), following_state[name].eq(order.after[name])]
        m.d.comb += [order.strobe.eq(self.strobe), order.number.eq(serial[:12]), order.forget.eq(self.forget), order.begin.eq(self.begin)]
        m.d.comb += [dut.before.eq(state.had), dut.judged.eq(order.judged), following_state.had.eq(dut.after)]
        away = Signal(signed(22))
        fresh, missed = Signal(), Signal(12)  # the next number is the first, except for this many before it
        at_zero = self.begin | (state.zero & ~self.forget)
        m.d.comb += missed.eq(Mux(at_zero & (serial[:12] < WINDOW), serial[:12], 0))
        near = [self.watched, serial, self.following, self.begun]
        m.d.comb += [
            away.eq(serial - self.following),
            fresh.eq(self.forget | self.begin | ~state.known),
            *(Assume((n > 8192) & (n < (1 << 20) - 20000)) for n in near),
            Assume(fresh | ~self.strobe | ((away >= -2048) & (away < 2048))),
            # The past: the filter knows the same numbers.
            Assume(self._agrees(m, "before", state, self.passed, self.begun, self.following)),
        ]

        with m.If(self.strobe & ~fresh):
            m.d.comb += [
                Assert(~(away >= 0) | (dut.deliver & ~dut.late & (dut.lost == away))),  # the next, or ahead
                Assert(~(away < 0) | (dut.deliver == dut.late)),  # behind: only what had counted as lost
                Assert(dut.deliver == ~dut.duplicate),
                Assert((away >= 0) | (dut.lost == 0)),
            ]
            again = Signal()
            m.d.comb += again.eq(serial == self.watched)
            m.d.comb += Assert(~(again & (self.passed | (serial < self.begun))) | ~dut.deliver | (away >= 0))  # never twice
            if self.wrong != "lost":  # and a lost TLP is not lost for good, if it comes again soon
                m.d.comb += Assert(~(again & ~self.passed & (serial >= self.begun) & (away >= -WINDOW)) | dut.deliver)
            else:
                m.d.comb += Assert(~(again & ~self.passed & (serial >= self.begun)) | dut.deliver)
        with m.Elif(self.strobe):
            # Numbers from 0 on were missed if `begin` announced them, and they are few.
            m.d.comb += [Assert(dut.deliver & ~dut.duplicate & ~dut.late), Assert(dut.lost == missed)]
        with m.Else():
            m.d.comb += Assert(~dut.deliver & ~dut.duplicate & ~dut.late & (dut.lost == 0))

        # Claims afterwards
        passed, begun, following = Signal(), Signal(20), Signal(20)
        first = self.strobe & fresh
        m.d.comb += [
            passed.eq((self.passed & ~fresh) | (dut.deliver & (serial == self.watched))),
            begun.eq(Mux(first, serial - missed, self.begun)),
            following.eq(Mux(first | (self.strobe & ~fresh & (away >= (1 if self.wrong == "next" else 0))), serial + 1, self.following)),
            Assert(self._agrees(m, "after", following_state, passed, begun, following)),
            Assert(following_state.known == (self.strobe | (state.known & ~self.forget & ~self.begin))),
            Assert(self.strobe | (following_state.zero == (self.begin | (state.zero & ~self.forget)))),
        ]
        return m


def test_every_tlp_once_in_order(tmp_path):
    top = EveryTlpOnce()
    smt.prove(top, top.ports, tmp_path, depth=1)


@pytest.mark.parametrize("wrong", ["lost"])
def test_a_wrong_claim_is_refuted(wrong, tmp_path):
    top = EveryTlpOnce(wrong)
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, top.ports, tmp_path, depth=1)
