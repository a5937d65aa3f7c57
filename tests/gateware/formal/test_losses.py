"""Losses are reported: every offered event comes out or is counted, and every counted loss appears in a LOSS event."""

import os

import pytest
from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Assert
from wattbell_gateware.link.events import EventQueue
from wattbell_gateware.stream.events import LossReporter
from wattbell_spec.wire import LossSource

from tests.gateware.formal import smt

DEPTH = 12 if os.environ.get("WATTBELL_FORMAL") == "all" else 8
"""Cycles: enough for two rounds of LOSS events, and to fill the queues; `make formal` uses some more."""
BITS = 7
"""Width of the sums here; no run is long enough for them to wrap."""


class EveryEventIsTold(Elaboratable):
    """For a queue of two sources: after three cycles without input or output, every input has come out or was counted."""

    def __init__(self, wrong=False):
        self.valid, self.ready = Signal(2), Signal()
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = EventQueue(2, each=2)
        offered, taken, lost, still = Signal(BITS), Signal(BITS), Signal(BITS), Signal(2)
        m.d.comb += [queue.i0.valid.eq(self.valid[0]), queue.i1.valid.eq(self.valid[1]), queue.out.ready.eq(self.ready)]
        m.d.sync += [
            offered.eq(offered + self.valid[0] + self.valid[1]),
            taken.eq(taken + (queue.out.valid & self.ready)),
            lost.eq(lost + (queue.lost & (1 if self._wrong else 3))),
        ]
        with m.If(self.valid.any() | queue.out.valid):
            m.d.sync += still.eq(0)
        with m.Elif(still != 3):
            m.d.sync += still.eq(still + 1)
        with m.If(still == 3):
            m.d.comb += Assert(offered == taken + lost)
        return m


class EveryLossIsTold(Elaboratable):
    """For two sources: when the reporter says that nothing is left, the LOSS events of each add up to its losses."""

    def __init__(self, wrong=False):
        self.add, self.source, self.ready, self.flush, self.late = Signal(2), Signal(), Signal(), Signal(), Signal()
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        m.submodules.reporter = reporter = LossReporter((LossSource.RECORDS, LossSource.EVENTS))
        now = Signal(64)
        m.d.sync += now.eq(now + Mux(self.late, 1_000_000, 4))
        added, told = [Signal(BITS, name=f"added{n}") for n in range(2)], [Signal(BITS, name=f"told{n}") for n in range(2)]
        m.d.comb += [
            reporter.now.eq(now),
            reporter.enable.eq(1),
            reporter.flush.eq(self.flush),
            reporter.o_ready.eq(self.ready),
            reporter.add0.eq(Mux(self.source, 0, self.add)),
            reporter.add1.eq(Mux(self.source, self.add, 0)),
        ]
        took = reporter.o_valid & self.ready
        for n, source in enumerate((LossSource.RECORDS, LossSource.EVENTS)):
            m.d.sync += added[n].eq(added[n] + Mux(self.source == n, self.add, 0))
            with m.If(took & (reporter.o_event.arg8 == (0 if self._wrong else int(source)))):
                m.d.sync += told[n].eq(told[n] + reporter.o_event.arg32)
            with m.If(reporter.clean):
                m.d.comb += Assert(added[n] == told[n])
        return m


PROOFS = [(EveryEventIsTold, ("valid", "ready")), (EveryLossIsTold, ("add", "source", "ready", "flush", "late"))]


@pytest.mark.parametrize("claim, ports", PROOFS)
def test_what_is_lost_is_told(claim, ports, tmp_path):
    top = claim()
    smt.prove(top, [getattr(top, name) for name in ports], tmp_path, depth=DEPTH)


@pytest.mark.parametrize("claim, ports", PROOFS)
def test_a_wrong_claim_is_refuted(claim, ports, tmp_path):
    top = claim(wrong=True)
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, [getattr(top, name) for name in ports], tmp_path, depth=DEPTH)
