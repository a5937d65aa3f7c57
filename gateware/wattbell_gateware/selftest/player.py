"""Player of the self-test's pattern: plays TLPs, PERST# and ADC codes, and reports their ticks to the firmware."""

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
"""Ticks that PERST# is low, and ticks that the tracker then has to clear its tables."""
GAP_TICKS = 1 << 9
"""Ticks from the beginning of a TLP to the beginning of the next."""
COMMAND_TICKS, HIGH_TICKS = 8000, 4000
V_CODE = round(3.3 / 5 * (1 << 18))
LOW_CODE, HIGH_CODE = (round(amperes / 4.096 * (1 << 17)) for amperes in (0.1, 2.0))
"""Codes of 0.1 A and 2 A on the coarse path; ``V_CODE`` is 3.3 V. The fine path's codes stay at the end of its scale, so they do
not count.
"""
F_CODE = (1 << 17) - 1
_WIDTH = 128


class PatternPlayer(wiring.Component):
    """Plays the pattern: a TLP each :data:`GAP_TICKS`, a beat a clock; a command each :data:`COMMAND_TICKS`.

    The tick of a TLP is ``now`` of its first beat. The player needs a width of 128 bits and a clock of at most 16 ticks. The codes
    change in the clock after the instant of a conversion. The player consists of logic, without memory.

    Ports
    -----
    now : the tick counter.
    addr : register TEST_CONTROL .. TEST_DOORBELL_TICK, see :class:`..controller.bank.Bank`.
    wdata : see :class:`..controller.bank.Bank`.
    we : see :class:`..controller.bank.Bank`.
    rdata : see :class:`..controller.bank.Bank`.
    on : the pattern replaces TLPs, PERST# and codes, even while nothing is played.
    down : beats from the host.
    up : beats from the drive.
    perst_n : level of PERST#.
    start : the instant of a conversion is in this clock.
    v : code of the voltage.
    i : code of the current, coarse path.
    f : code of the current, fine path.
    busy : the pattern is playing.
    quiet : nothing changes with the next clock.
    """

    def __init__(self):
        tlps = stream.Signature(tlp_beat(_WIDTH), always_ready=True)
        super().__init__(
            {
                "now": In(64),
                "addr": In(7),
                "wdata": In(32),
                "we": In(1),
                "rdata": Out(32),
                "on": Out(1),
                "down": Out(tlps),
                "up": Out(tlps),
                "perst_n": Out(1),
                "start": In(1),
                "v": Out(18),
                "i": Out(18),
                "f": Out(18),
                "busy": Out(1),
                "quiet": Out(1),
            }
        )

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

        # The first beat of a TLP waits for its time; the tick stays the same over all beats.
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
            with m.State("REST"):  # until the next command, and after the last one, while its record is made
                with m.If(arrived):
                    m.next = "PLAY"
                    with m.If(n >= bank.test_control[:8]):
                        m.next = "IDLE"
            m.d.comb += [self.busy.eq(~fsm.ongoing("IDLE")), self.perst_n.eq(~fsm.ongoing("RESET"))]
        with m.If(high & reached(self.now, low_again)):
            m.d.sync += high.eq(0)
        for port, up in ((self.down, 0), (self.up, 1)):
            m.d.comb += [
                port.valid.eq(shown & (row["up"] == up)),
                port.p.data.eq(row["data"]),
                port.p.dws.eq(row["dws"]),
                port.p.first.eq(row["first"]),
                port.p.last.eq(row["last"]),
                port.p.tick.eq(Mux(row["first"], self.now, tick)),
            ]

        with m.If(self.start):
            m.d.sync += in_high.eq(high)
            with m.If(high & ~stepped):
                m.d.sync += [stepped.eq(1), step.eq(self.now)]
        m.d.comb += [self.v.eq(V_CODE), self.i.eq(Mux(in_high, HIGH_CODE, LOW_CODE)), self.f.eq(F_CODE)]
        return m

    def _row(self, m: Module, rows, at: Signal, n: Signal) -> dict[str, Signal]:
        """Return row ``at`` of the pattern, patched with ``n``."""
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
