"""Outputs of the engine besides command records: events, losses, TLPs that fitted nothing."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream
from wattbell_spec import wire as spec

from .present import Present
from .tables import NEVER

__all__ = ["Report"]

_ONCE = (
    spec.GuessReason.SECOND_FUNCTION,
    spec.GuessReason.SQE_PARTS,
    spec.GuessReason.SQES_UNREAD,
    spec.GuessReason.ADDRESS_SPACES,
)
"""Reasons that a capture gives in one event GUESSING each. Its description begins with these reasons."""


class Report:
    """Events and losses, with the tick of the TLP in hand.

    wanted : outputs of the TLP, mark or sweep in hand go into a capture.
    unmatched : pulse: the TLP fitted nothing.
    told : by reason: an event GUESSING of this capture gives it (:meth:`once`).
    epoch : rises when bus data was lost; entries of an older epoch may be wrong.
    loss_seen : bus data was lost.
    loss_tick : tick of the last such loss.
    """

    def __init__(self, tlp: Present, *, port: stream.Interface, lose: Signal, lose_tick: Signal, unmatched: Signal) -> None:
        self._tlp, self._port, self._lose, self._lose_tick = tlp, port, lose, lose_tick
        self.unmatched = unmatched
        self.wanted = Signal()
        self.epoch = Signal(16)
        self.told = {reason: Signal(name=f"told_{reason.name.lower()}") for reason in _ONCE}
        self.loss_seen = Signal()
        self.loss_tick = Signal(64)

    def connect(self, m: Module, *, run: Signal, now: Signal) -> None:
        """Connect the ports. `run`: high at the ticks of a capture."""
        was, begun, ended, tick = Signal(), Signal(64, init=NEVER), Signal(64), self._tlp.header.tick
        m.d.sync += was.eq(run)
        with m.If(run & ~was):
            m.d.sync += [begun.eq(now), *(told.eq(0) for told in self.told.values())]
        with m.If(~run & was):
            m.d.sync += ended.eq(now)
        # A clock after the header: no state makes anything before. What begins or ends in this clock is later than any header's tick.
        m.d.sync += self.wanted.eq((tick >= begun) & (was | (tick < ended)))
        m.d.comb += [self._port.payload.tick.eq(tick), self._lose_tick.eq(tick)]

    def lost_before(self, m: Module) -> None:
        """Note, in the present state, that TLPs before the TLP in hand were lost."""
        m.d.sync += [self.epoch.eq(self.epoch + 1), self.loss_tick.eq(self._tlp.header.tick), self.loss_seen.eq(1)]

    def event(self, m: Module, type_: spec.EventType, *, tick: Value | None = None, arg8=0, arg16=0, arg32=0) -> None:
        """Send an event in the present state. Without `tick` it has the TLP's."""
        p = self._port.payload
        if tick is not None:
            m.d.comb += p.tick.eq(tick)
        m.d.comb += [
            self._port.valid.eq(self.wanted),
            p.type.eq(int(type_)),
            p.arg8.eq(arg8),
            p.arg16.eq(arg16),
            p.arg32.eq(arg32),
        ]

    def once(self, m: Module, reason: spec.GuessReason, arg16: Value) -> None:
        """Send an event GUESSING with `reason` in the present state, if it is the capture's first."""
        m.d.sync += self.told[reason].eq(self.wanted)
        with m.If(~self.told[reason]):
            self.event(m, spec.EventType.GUESSING, arg8=int(reason), arg16=arg16)

    def lost(self, m: Module, source: spec.LossSource) -> None:
        """Count a loss in the present state, at the TLP's tick."""
        m.d.comb += [self._lose[int(source)].eq(1), self._lose_tick.eq(self._tlp.header.tick)]
