"""The board's I2C, a byte at a time. NXP UM10204: conditions 3.1.4, clock stretching 3.1.9, bus clear 3.1.16."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out
from wattbell_spec.controller_registers import board_by_name

__all__ = ["I2c"]

_STUCK_TICKS = 1_000_000
_SHORTEST_PERIOD = 512
_CLEARING_CLOCKS = 9


class _Symbol(enum.Enum, shape=2):
    START = 0
    BIT = 1
    STOP = 2


class I2c(wiring.Component):
    """Drives its bus as the only master. A byte with its acknowledge takes nine SCL periods; start and stop conditions take one more each.

    Each period has four quarters, with SCL low, high, high, low. The master reads levels at the end of the third quarter, and waits
    in the second until SCL is high. Periods below 512 ticks count as 512.

    A restart of the core may leave a slave in the middle of a byte, with SDA low. A start condition that finds SDA low therefore pulses SCL
    until SDA is high, at most nine times. If SDA stays low, the byte ends as STUCK.

    Ports
    -----
    now : ticks, modulo 2^21.
    command : I2C_COMMAND.
    command_written : I2C_COMMAND is written.
    period : I2C_PERIOD.
    state : I2C_STATE.
    left : ticks until it goes on, if the lines stay as they are; all ones when it is idle. Only a simulator looks at it.
    abort : give up, release the lines.
    scl_i : level of the line, from the pin.
    sda_i : level of the line, from the pin.
    scl_low : pull the line low.
    sda_low : pull the line low.
    """

    def __init__(self):
        super().__init__(
            {
                "now": In(21),
                "command": In(12),
                "command_written": In(1),
                "period": In(16),
                "state": Out(11),
                "abort": In(1),
                "scl_i": In(1),
                "sda_i": In(1),
                "scl_low": Out(1),
                "sda_low": Out(1),
                "left": Out(21),
            }
        )

    def elaborate(self, platform):
        m = Module()
        scl, sda = Signal(init=1), Signal(init=1)
        m.submodules.scl = FFSynchronizer(self.scl_i, scl, init=1)
        m.submodules.sda = FFSynchronizer(self.sda_i, sda, init=1)
        field = {b.name: self.command[b.low : b.low + b.width] for b in board_by_name("I2C_COMMAND").bits}

        busy, acked, stuck, received = Signal(), Signal(), Signal(), Signal(8)
        m.d.comb += self.state.eq(Cat(busy, acked, stuck, received))

        symbol, quarter = Signal(_Symbol), Signal(2)
        begun, elapsed, length, over = Signal(21), Signal(21), Signal(14), Signal()
        went_high = Signal()  # SCL, in the second quarter
        m.d.comb += [
            elapsed.eq(self.now - begun),
            length.eq(Mux(self.period < _SHORTEST_PERIOD, _SHORTEST_PERIOD // 4, self.period[2:])),
            over.eq((elapsed >= length) & ((quarter != 1) | went_high)),
        ]

        waits_for_scl, target = Signal(), Signal(21)
        m.d.comb += [
            waits_for_scl.eq((quarter == 1) & ~went_high),
            target.eq(Mux(waits_for_scl, Mux(scl, 0, _STUCK_TICKS), length)),
            self.left.eq(Mux(busy, Mux(elapsed < target, target - elapsed, 0), (1 << 21) - 1)),
        ]

        word, sample, left = Signal(9), Signal(), Signal(range(10))  # goes out on the left, is read into the right
        stops, reads, pulses = Signal(), Signal(), Signal(range(_CLEARING_CLOCKS + 1))

        # The lines are registers: nothing on an open-drain bus may glitch.
        with m.If(busy):
            with m.Switch(symbol):
                with m.Case(_Symbol.START):
                    with m.If(quarter != 0):  # a repeated one finds SCL low, another one high
                        m.d.sync += self.scl_low.eq(quarter == 3)
                    with m.Elif(pulses != 0):
                        m.d.sync += self.scl_low.eq(1)
                    m.d.sync += self.sda_low.eq(quarter[1])
                with m.Case(_Symbol.BIT):
                    m.d.sync += [self.scl_low.eq((quarter == 0) | (quarter == 3)), self.sda_low.eq(~word[8])]
                with m.Case(_Symbol.STOP):
                    m.d.sync += [self.scl_low.eq(quarter == 0), self.sda_low.eq(~quarter[1])]

        def release():
            return [busy.eq(0), stuck.eq(1), self.scl_low.eq(0), self.sda_low.eq(0)]

        with m.If(busy & over):
            m.d.sync += [begun.eq(self.now), quarter.eq(quarter + 1), went_high.eq(0)]
            with m.If(quarter == 2):
                m.d.sync += sample.eq(sda)
            with m.If((symbol == _Symbol.START) & (quarter == 1) & ~sda):
                m.d.sync += [quarter.eq(0), pulses.eq(pulses + 1)]
                with m.If(pulses == _CLEARING_CLOCKS):
                    m.d.sync += release()
            with m.If(quarter == 3):
                with m.Switch(symbol):
                    with m.Case(_Symbol.START):
                        m.d.sync += symbol.eq(_Symbol.BIT)
                    with m.Case(_Symbol.BIT):
                        m.d.sync += [word.eq(Cat(sample, word)), left.eq(left - 1)]
                        with m.If(left == 1):
                            m.d.sync += [acked.eq(~sample & ~reads), symbol.eq(_Symbol.STOP), busy.eq(stops)]
                            with m.If(reads):
                                m.d.sync += received.eq(word)
                    with m.Case(_Symbol.STOP):
                        m.d.sync += busy.eq(0)
        with m.Elif(busy & (quarter == 1) & ~went_high):
            with m.If(scl):
                m.d.sync += [went_high.eq(1), begun.eq(self.now)]
            with m.Elif(elapsed >= _STUCK_TICKS):
                m.d.sync += release()

        with m.If(self.command_written & ~busy):
            m.d.sync += [
                busy.eq(1),
                acked.eq(0),
                stuck.eq(0),
                quarter.eq(0),
                went_high.eq(0),
                begun.eq(self.now),
                pulses.eq(0),
                left.eq(9),
                symbol.eq(Mux(field["START"], _Symbol.START, _Symbol.BIT)),
                stops.eq(field["STOP"]),
                reads.eq(field["READ"]),
                word.eq(Mux(field["READ"], Cat(field["NACK"], Const(0xFF, 8)), Cat(Const(1, 1), field["DATA"]))),
            ]
        with m.If(self.abort):
            m.d.sync += [busy.eq(0), self.scl_low.eq(0), self.sda_low.eq(0)]
        return m
