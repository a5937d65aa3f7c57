"""Building blocks of the engine: tables in block RAM, and subroutines in a state machine."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory


class Table:
    """A memory whose named fields are read together and written one by one.

    Set ``ra`` combinationally in one state; ``r[name]`` holds the entry from the next clock on, until ``ra`` is set
    again. A write is seen by a read of the same clock and by the entry held (it is read again at every clock).
    """

    def __init__(self, m: Module, name: str, depth: int, fields: Mapping[str, object]) -> None:
        bits = max(1, (depth - 1).bit_length())
        self.ra = Signal(bits, name=f"{name}_ra")
        self.wa = Signal(bits, name=f"{name}_wa")
        self.r, self.w, self.we = {}, {}, {}
        self.held = held = Signal(bits, name=f"{name}_held")
        m.d.comb += self.ra.eq(held)
        m.d.sync += held.eq(self.ra)
        for field, shape in fields.items():
            memory = Memory(shape=shape, depth=depth, init=[])
            m.submodules[f"{name}_{field}"] = memory
            write = memory.write_port()
            read = memory.read_port(transparent_for=(write,))
            self.w[field] = Signal(shape, name=f"{name}_w_{field}")
            self.we[field] = Signal(name=f"{name}_we_{field}")
            self.r[field] = Signal(shape, name=f"{name}_r_{field}")
            m.d.comb += [
                read.addr.eq(self.ra),
                self.r[field].eq(read.data),
                write.addr.eq(self.wa),
                write.en.eq(self.we[field]),
                write.data.eq(self.w[field]),
            ]

    def write(self, m: Module, address, **values) -> None:
        """In the present state, write `values` (field=value) to the entry `address`."""
        m.d.comb += self.wa.eq(address)
        for field, value in values.items():
            m.d.comb += [self.we[field].eq(1), self.w[field].eq(value)]


class Subroutine:
    """States shared by several callers: remembers where to go on.

    ``call(m, back)`` in a state jumps to the subroutine's first state. ``leave(m)`` in its last state jumps to the
    `back` of that call; it has to be built after every ``call``. Where that order cannot be had, ``leave_later(m)``
    goes through a state of its own, built by ``return_state(m)`` at the end.
    """

    def __init__(self, entry: str) -> None:
        self.entry = entry
        self.back = Signal(5, name=f"{entry.lower()}_back")
        self.places: list[str] = []
        self.left = False

    def call(self, m: Module, back: str) -> None:
        assert not self.left, f"{self.entry} was closed before this call"
        if back not in self.places:
            self.places.append(back)
        m.d.sync += self.back.eq(self.places.index(back))
        m.next = self.entry

    def leave(self, m: Module) -> None:
        self.left = True
        with m.Switch(self.back):
            for number, place in enumerate(self.places):
                with m.Case(number):
                    m.next = place

    def leave_later(self, m: Module) -> None:
        m.next = f"{self.entry}_RETURN"

    def return_state(self, m: Module) -> None:
        with m.State(f"{self.entry}_RETURN"):
            self.leave(m)
