"""Open block of a builder: the place of its next word, and the time at which it must be closed."""

from __future__ import annotations

from amaranth import Module, Signal, Value
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import FLUSH_TICKS

from ..deadlines import reached
from .buffer import fill_port

__all__ = ["OpenBlock", "block_ports"]


def block_ports() -> dict:
    """Return the ports that all builders have.

    - ``now``: the tick counter.
    - ``flush``: close the block as soon as no entry waits.
    - ``fill``: to a :class:`.buffer.BlockBuffer`.
    - ``idle``: no block is open, and no entry waits.
    - ``quiet``, ``deadline``: see docs/architecture.md.
    """
    return {
        "now": In(64),
        "flush": In(1),
        "fill": Out(fill_port()),
        "idle": Out(1),
        "quiet": Out(1),
        "deadline": Out(64),
    }


class OpenBlock:
    """Signals and states of the open block, in the module of its builder. The block's first tick is its first entry's.

    The block is closed in four cases: 10 ms after its first entry, on ``flush``, if :meth:`opening` finds that the next entry does
    not fit, and if the builder goes to the state CLOSE.

    Attributes
    ----------
    address : word that the builder writes next. The builder moves it.
    step : word of an entry, from 0. The builder moves it.
    offset : ticks from the block's first tick to the entry's tick.
    near : ``offset`` fits a signed number of 32 bits.
    dropped : field of the block's header.

    Parameters
    ----------
    builder : has :func:`block_ports`.
    valid : an entry waits.
    tick : tick of the entry.
    steps : words of an entry.
    slow : register ``offset``. An entry then takes two clocks more, the 10 ms are noticed a clock later, and a simulator cannot
        leave out idle clocks.
    address_bits : bits of ``address``.
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
            fill.words.eq(self.address),
            fill.first_tick.eq(self._first_tick),
            fill.dropped.eq(self.dropped),
            fill.address.eq(self.address),
            builder.idle.eq(self._idle & ~valid & ~self._open),
            builder.quiet.eq(self._idle & ~valid & ~self._due & ~(builder.flush & self._open)),
        ]

    def opening(self, m: Module, then: str, *, begin: list, ends: Value) -> None:
        """Add the states up to `then`, the first state that writes.

        `begin`: further assignments for a new block. `ends`: the entry goes into the next block. It is sampled a clock after the
        entry came (with `slow`: two).
        """
        with m.State("IDLE"):
            m.d.comb += self._idle.eq(1)
            m.d.sync += self.step.eq(0)
            with m.If(self._due | (self._builder.flush & self._open & ~self._valid)):
                m.next = "CLOSE"
            with m.Elif(self._valid & self._open):
                m.next = "LOOK"
            with m.Elif(self._valid & self._builder.fill.free):
                m.d.sync += [
                    self._open.eq(1),
                    self._first_tick.eq(self._tick),
                    self._close_at.eq(self._builder.now + FLUSH_TICKS),
                    self.address.eq(0),
                    *begin,
                ]
                m.next = "FIRST" if self._slow else then
        if self._slow:  # the offset is valid in the next clock, and `ends` in the clock after
            with m.State("FIRST"):
                m.next = then
            with m.State("LOOK"):
                m.next = "LOOKED"
        with m.State("LOOKED" if self._slow else "LOOK"):
            m.next = then
            with m.If(ends):
                m.next = "CLOSE"

    def closing(self, m: Module) -> None:
        """Add the state CLOSE."""
        with m.State("CLOSE"):
            m.d.comb += self._builder.fill.close.eq(1)
            m.d.sync += self._open.eq(0)
            m.next = "IDLE"
