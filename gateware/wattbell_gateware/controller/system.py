"""Interrupts, the alarm, the watchdog, and restarts of the core."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.controller_registers import RESTART_KEY, WATCHDOG_KEY

__all__ = ["NEVER", "RESET_CLOCKS", "System"]

NEVER = (1 << 64) - 1
"""No deadline."""

RESET_CLOCKS = 32
"""Length of the core's reset. It exceeds an access on the core's bus, so that no answer comes after it."""
_TIMEOUT_UNIT_BITS = 20
_POWER_ON, _WATCHDOG, _RESTART = 1, 2, 4


class System(wiring.Component):
    """Decides when the core runs.

    Ports
    -----
    now : ticks.
    data : register, see :class:`.bank.Bank`.
    wake : register, see :class:`.bank.Bank`.
    wake_pending : register, see :class:`.bank.Bank`.
    irq_enable : register, see :class:`.bank.Bank`.
    irq_enable_written : register, see :class:`.bank.Bank`.
    watchdog_timeout : register, see :class:`.bank.Bank`.
    watchdog_timeout_written : register, see :class:`.bank.Bank`.
    watchdog_kick_written : register, see :class:`.bank.Bank`.
    reset_cause : register, see :class:`.bank.Bank`.
    reset_cause_written : register, see :class:`.bank.Bank`.
    restart_written : register, see :class:`.bank.Bank`.
    pending : IRQ_PENDING without the alarm.
    irq : the core's interrupt, two clocks late.
    deadline : tick of the alarm or the watchdog, whichever is first; all ones for neither. Only a simulator looks at it.
    fault : the core waits for ever; counts as a bite of the watchdog.
    core_reset : high for :data:`RESET_CLOCKS` after the watchdog bit or a restart was asked for.
    restart : high in the first clock of ``core_reset``.
    """

    def __init__(self):
        super().__init__(
            {
                "now": In(64),
                "data": In(32),
                "wake": In(64),
                "wake_pending": Out(1),
                "pending": In(7),
                "irq": Out(1),
                "irq_enable": Out(7),
                "irq_enable_written": In(1),
                "watchdog_timeout": Out(16),
                "watchdog_timeout_written": In(1),
                "watchdog_kick_written": In(1),
                "reset_cause": Out(3, init=_POWER_ON),
                "reset_cause_written": In(1),
                "restart_written": In(1),
                "fault": In(1),
                "core_reset": Out(1),
                "restart": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [self.wake_pending.eq(self.now >= self.wake), self.irq.eq((self.pending & self.irq_enable).any())]

        # Modulo 2^40 ticks, 17 times the longest timeout.
        kicked, since, elapsed = Signal(40), Signal(40), Signal(40)
        late, bites, asked = Signal(), Signal(), Signal()
        kick = self.watchdog_kick_written
        m.d.comb += since.eq(self.now[:40] - kicked)
        m.d.sync += elapsed.eq(Mux(self.watchdog_timeout == 0, 0, since))
        m.d.comb += [
            late.eq((self.watchdog_timeout != 0) & (elapsed[_TIMEOUT_UNIT_BITS:] >= self.watchdog_timeout)),
            bites.eq(late | self.fault | (kick & (self.data != WATCHDOG_KEY))),
            asked.eq(self.restart_written & (self.data == RESTART_KEY)),
            self.restart.eq((bites | asked) & ~self.core_reset),
        ]
        with m.If(kick | (self.watchdog_timeout_written & (self.watchdog_timeout == 0))):
            m.d.sync += kicked.eq(self.now)
        with m.If(self.watchdog_timeout_written & (self.data[:16] != 0)):
            m.d.sync += self.watchdog_timeout.eq(self.data)
        with m.If(self.irq_enable_written):
            m.d.sync += self.irq_enable.eq(self.data)
        with m.If(self.reset_cause_written):
            m.d.sync += self.reset_cause.eq(self.reset_cause & ~self.data)

        alarm, bite = Signal(64), Signal(64)
        m.d.comb += [
            alarm.eq(Mux(self.now >= self.wake, NEVER, self.wake)),
            bite.eq(Mux(self.watchdog_timeout == 0, NEVER, self.now + (self.watchdog_timeout << _TIMEOUT_UNIT_BITS) - since)),
            self.deadline.eq(Mux(alarm < bite, alarm, bite)),
        ]

        left = Signal(range(RESET_CLOCKS + 1))
        m.d.comb += self.core_reset.eq(left != 0)
        with m.If(self.core_reset):
            m.d.sync += left.eq(left - 1)
        with m.If(self.restart):
            m.d.sync += [
                left.eq(RESET_CLOCKS),
                self.irq_enable.eq(0),
                self.watchdog_timeout.eq(0),
                self.reset_cause.eq(self.reset_cause | Mux(bites, _WATCHDOG, 0) | Mux(asked, _RESTART, 0)),
            ]
        return m
