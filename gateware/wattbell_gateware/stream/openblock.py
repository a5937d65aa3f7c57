"""The block that a builder has open: where its next word goes, and when it must be closed."""

from __future__ import annotations

from amaranth import Module, Signal, Value
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import FLUSH_TICKS

from ..deadlines import reached
from .buffer import fill_port

__all__ = ["OpenBlock", "block_ports"]


def block_ports() -> dict:
    """Ports that all builders have.

    - ``now``: the tick counter.
    - ``flush``: close the block as soon as nothing waits.
    - ``fill``: to a :class:`.buffer.BlockBuffer`.
    - ``idle``: no block is open, nothing waits.
    - ``quiet``, ``deadline``: see docs/architecture.md.
    """
    return {
        "now": In(64), "flush": In(1), "fill": Out(fill_port()), "idle": Out(1), "quiet": Out(1), "deadline": Out(64),
    }  # fmt: skip


class OpenBlock:
    """Signals and states of the open block, in the module of its builder. Its first tick is that of the first entry.

    It is closed 10 ms after its first entry, on ``flush``, when :meth:`opening` is told that the next entry does not fit, and when the
    builder goes to the state CLOSE. `slow`: the offset is a register, so an entry takes two clocks more and the 10 ms are noticed a clock
    later; idle clocks cannot be left out.

    Attributes
    ----------
    address : word at which the builder writes next. step : counts the words of an entry from 0; both are the builder's to move.
    offset : from the block's first tick to that of the entry. near : it is a signed number of 32 bits.
    dropped : what the header says.

    Parameters
    ----------
    builder : has :func:`block_ports`. valid : an entry waits. tick : its. steps : words of an entry. address_bits : of ``address``.
    """

    def __init__(self, m: Module, builder, *, valid: Value, tick: Value, steps: int, slow: bool, address_bits: int = 9):
        self._builder, self._valid, self._tick, self._slow = builder, valid, tick, slow
        self._open, self._first_tick, self._close_at = Signal(name="open_"), Signal(64, name="first_tick"), Signal(64, name="close_at")
        self._due = Signal(name="due")
        self.dropped, self.address = Signal(32, name="dropped"), Signal(address_bits, name="address")
        self.step, self.offset = Signal(range(steps), name="step"), Signal(64, name="offset")
        self.near = (self.offset[31:] == 0) | self.offset[31:].all()
        late, distance = reached(builder.now, self._close_at), tick - self._first_tick
        if slow:
            was = Signal()
            m.d.sync += [was.eq(self._open & late), self.offset.eq(distance)]
            m.d.comb += self._due.eq(self._open & was)
        else:
            m.d.comb += [self._due.eq(self._open & late), self.offset.eq(distance)]
        self._idle = Signal(name="idle")
        fill = builder.fill
        m.d.comb += [
            builder.deadline.eq(self._open.replicate(64) & self._close_at | ~self._open.replicate(64)),
            fill.words.eq(self.address), fill.first_tick.eq(self._first_tick), fill.dropped.eq(self.dropped), fill.address.eq(self.address),
            builder.idle.eq(self._idle & ~valid & ~self._open),
            builder.quiet.eq(self._idle & ~valid & ~self._due & ~(builder.flush & self._open)),
        ]  # fmt: skip

    def opening(self, m: Module, then: str, *, begin: list, ends: Value) -> None:
        """The states up to `then`, the first that writes. `begin`: what a new block assigns besides. `ends`: the entry goes into the next
        block; looked at a clock after the entry came (`slow`: two)."""
        with m.State("IDLE"):
            m.d.comb += self._idle.eq(1)
            m.d.sync += self.step.eq(0)
            with m.If(self._due | (self._builder.flush & self._open & ~self._valid)):
                m.next = "CLOSE"
            with m.Elif(self._valid & self._open):
                m.next = "LOOK"
            with m.Elif(self._valid & self._builder.fill.free):
                m.d.sync += [
                    self._open.eq(1), self._first_tick.eq(self._tick), self._close_at.eq(self._builder.now + FLUSH_TICKS),
                    self.address.eq(0), *begin,
                ]  # fmt: skip
                m.next = "FIRST" if self._slow else then
        if self._slow:  # the offset is there in the next clock, and what it means in the one after
            with m.State("FIRST"):
                m.next = then
            with m.State("LOOK"):
                m.next = "LOOKED"
        with m.State("LOOKED" if self._slow else "LOOK"):
            m.next = then
            with m.If(ends):
                m.next = "CLOSE"

    def closing(self, m: Module) -> None:
        """The state CLOSE."""
        with m.State("CLOSE"):
            m.d.comb += self._builder.fill.close.eq(1)
            m.d.sync += self._open.eq(0)
            m.next = "IDLE"
