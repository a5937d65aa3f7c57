"""Building blocks of the engine: tables in block RAM, and subroutines in a state machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.memory import Memory


class FieldTable:
    """A memory with named fields: all are read together, and each is written alone, or a group of them `together` (fewer block RAMs).

    Set ``ra`` combinationally in one state; ``r[name]`` holds the entry from the next clock on, until ``ra`` is set again. The table reads
    at every clock, so a held entry shows a write: in the next clock of a `transparent` table, else one clock later. Without
    `transparent`, the clock after a write to the address being read gives an undefined value. Block RAMs differ there, and equal
    behaviour costs a register and a choice for every bit. No state may use that value.
    """

    garbles = False
    """For tests: undefined values have every bit wrong."""

    def __init__(
        self,
        m: Module,
        name: str,
        depth: int,
        fields: Mapping[str, object],
        *,
        together: Sequence[Sequence[str]] = (),
        transparent: bool = False,
    ) -> None:
        bits = max(1, (depth - 1).bit_length())
        self.ra = Signal(bits, name=f"{name}_ra")
        self.wa = Signal(bits, name=f"{name}_wa")
        self.r, self.w, self.we = {}, {}, {}
        self.held = held = Signal(bits, name=f"{name}_held")
        m.d.comb += self.ra.eq(held)
        m.d.sync += held.eq(self.ra)
        alone = [(field,) for field in fields if not any(field in group for group in together)]
        self.groups = [*alone, *together]
        for group in self.groups:
            layout = data.StructLayout({field: fields[field] for field in group})
            memory = Memory(shape=layout, depth=depth, init=[])
            m.submodules[f"{name}_{group[0]}"] = memory
            write = memory.write_port()
            read = memory.read_port(transparent_for=(write,) if transparent else ())
            enable = Signal(name=f"{name}_we_{group[0]}")
            m.d.comb += [read.addr.eq(self.ra), write.addr.eq(self.wa), write.en.eq(enable)]
            wrong = Signal(name=f"{name}_wrong_{group[0]}")
            if self.garbles and not transparent:
                m.d.sync += wrong.eq(enable & (self.wa == self.ra))
            given = layout(read.data.as_value() ^ wrong.replicate(layout.size))
            for field in group:
                self.we[field] = enable
                self.w[field] = Signal(fields[field], name=f"{name}_w_{field}")
                self.r[field] = Signal(fields[field], name=f"{name}_r_{field}")
                m.d.comb += [self.r[field].eq(given[field]), write.data[field].eq(self.w[field])]

    def write(self, m: Module, address, **values) -> None:
        """Write `values` (field=value), in the present state, to the entry `address`. None keeps the values of ``w``."""
        for group in self.groups:
            if not values.keys().isdisjoint(group) and not values.keys() >= set(group):
                raise ValueError(f"{group} are written together, not {sorted(values)}")
        m.d.comb += [self.wa.eq(address), *(self.we[field].eq(1) for field in values)]
        m.d.comb += [self.w[field].eq(value) for field, value in values.items() if value is not None]


class Subroutine:
    """States shared by several callers; remembers where to go on.

    ``call(m, back)`` in a state jumps to the subroutine's first state. ``leave(m)`` in its last state jumps to the `back` of that call, and
    has to be built after every ``call``. If that order is impossible, ``leave_later(m)`` goes through a state of its own, which
    ``return_state(m)`` builds at the end.
    """

    def __init__(self, entry: str) -> None:
        self.entry = entry
        self.back = Signal(5, name=f"{entry.lower()}_back")
        self.places: list[str] = []
        self.left = False

    def call(self, m: Module, back: str, *, entry: str | None = None) -> None:
        """`entry`: another of its states, to begin with."""
        assert not self.left, f"{self.entry} was closed before this call"
        if back not in self.places:
            self.places.append(back)
        m.d.sync += self.back.eq(self.places.index(back))
        m.next = entry or self.entry

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
