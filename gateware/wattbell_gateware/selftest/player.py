"""Plays the pattern: TLPs, PERST# and ADC codes, and what the firmware must know of it."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.controller_registers import BOARD, board_by_name

from ..controller.bank import Bank
from ..deadlines import reached
from ..layouts import tlp_beat
from .pattern import COMMAND, SETUP, beats

__all__ = ["COMMAND_TICKS", "GAP_TICKS", "HIGH_CODE", "HIGH_TICKS", "LOW_CODE", "RESET_TICKS", "SETTLE_TICKS", "V_CODE", "PatternPlayer"]

RESET_TICKS, SETTLE_TICKS = 1 << 10, 1 << 16
"""PERST# is low for so long; then the tracker has so long to clear its tables."""
GAP_TICKS = 1 << 9
"""From the beginning of a TLP to that of the next."""
COMMAND_TICKS, HIGH_TICKS = 8000, 4000
V_CODE = round(3.3 / 5 * (1 << 18))
LOW_CODE, HIGH_CODE = (round(amperes / 4.096 * (1 << 17)) for amperes in (0.1, 2.0))
"""Codes of 3.3 V, 0.1 A and 2 A on the coarse path. The fine path's are at the end of its scale all the time, so they do not count."""
F_CODE = (1 << 17) - 1
_WIDTH = 128


class PatternPlayer(wiring.Component):
    """A TLP each :data:`GAP_TICKS`, a beat a clock; a command each :data:`COMMAND_TICKS`. Its tick is ``now`` of its first beat. Needs 128
    bits and a clock of at most 16 ticks. The codes change in the clock behind the instant of a conversion. Logic alone, no memory.

    Ports
    -----
    now : ticks. addr, wdata, we, rdata : registers TEST_CONTROL .. TEST_DOORBELL_TICK, as :class:`..controller.bank.Bank`.
    on : the pattern comes in the place of TLPs, PERST# and codes, also while none is played.
    down, up : beats. perst_n : level. v, i, f : codes. start : a conversion's instant is in this clock.
    busy : it is played. quiet : nothing changes with the next clock.
    """

    def __init__(self):
        tlps = stream.Signature(tlp_beat(_WIDTH), always_ready=True)
        super().__init__({
            "now": In(64), "addr": In(7), "wdata": In(32), "we": In(1), "rdata": Out(32), "on": Out(1), "down": Out(tlps), "up": Out(tlps),
            "perst_n": Out(1), "start": In(1), "v": Out(18), "i": Out(18), "f": Out(18), "busy": Out(1), "quiet": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        registers = [register for register in BOARD if register.address >= board_by_name("TEST_CONTROL").address]
        m.submodules.bank = bank = Bank(registers)
        m.d.comb += [bank.addr.eq(self.addr), bank.wdata.eq(self.wdata), bank.we.eq(self.we), self.rdata.eq(bank.rdata)]
        go = bank.test_command_written & bank.data[0] & self.on & ~self.busy
        m.d.comb += [
            self.on.eq(bank.test_control[8]),
            bank.test_state.eq(self.busy),
            self.quiet.eq(~self.we & ~bank.test_command_written & ~self.busy),
        ]

        setup, command = beats(SETUP), beats(COMMAND)
        rows = setup + command
        at, n, repeated = Signal(range(len(rows))), Signal(8), Signal(range(max(row.times for row in rows)))
        row, ahead = self._row(m, rows, at, n), Signal()
        due, next_command, low_again = Signal(32), Signal(32), Signal(32)
        doorbell, step = Signal(64), Signal(64)
        stepped, high, in_high = Signal(), Signal(), Signal()
        m.d.comb += [
            Cat(bank.test_doorbell_tick_lo, bank.test_doorbell_tick_hi).eq(doorbell),
            Cat(bank.test_step_tick_lo, bank.test_step_tick_hi).eq(step),
        ]

        # A TLP whose first beat waits for its time; its tick stays the same over its beats.
        tick, shown = Signal(64), Signal()
        last_row = at == len(rows) - 1
        arrived = Signal()
        m.d.sync += arrived.eq(reached(self.now, due))
        m.d.comb += ahead.eq(~row["first"] | arrived)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(go):
                    m.d.sync += [due.eq(self.now + RESET_TICKS), at.eq(0), n.eq(0), stepped.eq(0), arrived.eq(0)]
                    m.next = "RESET"
            with m.State("RESET"):
                with m.If(arrived):
                    m.d.sync += [due.eq(self.now + SETTLE_TICKS), arrived.eq(0)]
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                with m.If(arrived):
                    m.next = "PLAY"
            with m.State("PLAY"):
                with m.If(ahead):
                    m.d.comb += shown.eq(1)
                    with m.If(row["first"]):
                        m.d.sync += [tick.eq(self.now), due.eq(self.now + GAP_TICKS), arrived.eq(0)]
                    with m.If((at == len(setup)) & row["first"]):
                        m.d.sync += [next_command.eq(self.now + COMMAND_TICKS), high.eq(1), low_again.eq(self.now + HIGH_TICKS)]
                        with m.If(n == 0):
                            m.d.sync += doorbell.eq(self.now)
                    with m.If(repeated + 1 != row["times"]):
                        m.d.sync += repeated.eq(repeated + 1)
                    with m.Else():
                        m.d.sync += [repeated.eq(0), at.eq(at + 1)]
                        with m.If(last_row):
                            m.d.sync += [at.eq(len(setup)), n.eq(n + 1), due.eq(next_command), arrived.eq(0)]
                            m.next = "REST"
            with m.State("REST"):  # up to the next command, and after the last: its record is made meanwhile
                with m.If(arrived):
                    m.next = "PLAY"
                    with m.If(n >= bank.test_control[:8]):
                        m.next = "IDLE"
            m.d.comb += [self.busy.eq(~fsm.ongoing("IDLE")), self.perst_n.eq(~fsm.ongoing("RESET"))]
        with m.If(high & reached(self.now, low_again)):
            m.d.sync += high.eq(0)
        for port, up in ((self.down, 0), (self.up, 1)):
            m.d.comb += [
                port.valid.eq(shown & (row["up"] == up)), port.p.data.eq(row["data"]), port.p.dws.eq(row["dws"]),
                port.p.first.eq(row["first"]), port.p.last.eq(row["last"]), port.p.tick.eq(Mux(row["first"], self.now, tick)),
            ]  # fmt: skip

        with m.If(self.start):
            m.d.sync += in_high.eq(high)
            with m.If(high & ~stepped):
                m.d.sync += [stepped.eq(1), step.eq(self.now)]
        m.d.comb += [self.v.eq(V_CODE), self.i.eq(Mux(in_high, HIGH_CODE, LOW_CODE)), self.f.eq(F_CODE)]
        return m

    def _row(self, m: Module, rows, at: Signal, n: Signal) -> dict[str, Signal]:
        """What is at ``at``, patched."""
        row = {"data": Signal(_WIDTH), "dws": Signal(3), "first": Signal(), "last": Signal(), "up": Signal(), "times": Signal(6)}
        after = Signal(8)
        m.d.comb += after.eq(n + 1)
        with m.Switch(at):
            for k, beat in enumerate(rows):
                with m.Case(k):
                    m.d.comb += [row[name].eq(getattr(beat, name)) for name in row]
                    for patch in beat.patches:
                        value = after if patch.ahead else n
                        m.d.comb += row["data"][patch.low : patch.low + patch.width].eq(value[patch.of : patch.of + patch.width])
        return row
