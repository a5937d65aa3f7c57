"""The host memory buffer: memory of the host that the drive uses as its own. NVMe: Host Memory Buffer."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value
from wattbell_spec import wire as spec

from ..tlp import TlpKind
from . import tables
from .places import Place
from .present import Present
from .report import Report
from .settings import Settings
from .store import FieldTable, Subroutine
from .tags import Tags

__all__ = ["HostBuffer"]

_UNIT_BITS = 4
"""Addresses and sizes of ranges count 16 bytes: a descriptor."""
_COUNT_BITS = 32
_PAGE_UNITS_BITS = 12 - _UNIT_BITS
_LIST_BITS = 12
"""A list of 2**_LIST_BITS descriptors or more is not followed."""


class HostBuffer:
    """A table of ranges: the list of descriptors that Set Features names, and the memory that the descriptors lend.

    The drive reads the list while it executes the command, and uses the memory from then on. The ranges stay until the host takes them
    back, or until a reset. A range that begins in a known one adds nothing, because the drive may read its list again. A range right
    behind the last one makes that one longer. A range without room is a LOSS event PAGES. A look-up takes a clock a range, and four more.

    Attributes
    ----------
    lent : the table has ranges.
    start, count, is_list : the range that :meth:`add` puts in, in units of 16 bytes.
    used : pulse: the TLP in hand is in the buffer.
    """

    def __init__(self, m: Module, *, tlp: Present, report: Report, settings: Settings, tags: Tags, key_bits: int, used: Signal) -> None:
        self.tlp, self.report, self.settings, self.tags, self.used = tlp, report, settings, tags, used
        bits = self._bits = key_bits + _PAGE_UNITS_BITS
        fields = {"start": bits, "count": _COUNT_BITS, "list": 1}
        self._table = FieldTable(m, "lent", tables.LENT, fields, together=(tuple(fields),))
        self._size = Signal(range(tables.LENT + 1))
        self.lent = Signal()
        self.start, self.count, self.is_list = Signal(bits), Signal(_COUNT_BITS), Signal()
        self._last_count, self._last_end, self._last_list = Signal(_COUNT_BITS), Signal(bits), Signal()
        self._last_start = Signal(bits)
        self._at = Signal(bits)  # what is looked for
        self._next = Signal(range(tables.LENT + 3))
        self._behind, self._behind_count, self._behind_list = Signal(bits), Signal(_COUNT_BITS), Signal()  # of the range two before `_next`
        self._found = Signal()
        self._left = Signal(_COUNT_BITS)  # from there to its end
        self._look, self._add = Subroutine("LENT_LOOK"), Subroutine("LENT_ADD")

    def connect(self, m: Module) -> None:
        m.d.comb += self.lent.eq(self._size != 0)

    def forget(self, m: Module) -> None:
        """Forget all lent memory, in the present state."""
        m.d.sync += self._size.eq(0)

    def begin_list(self, m: Module, address: Value, entries: Value) -> None:
        """Begin a range in the present state: a list at `address` with `entries` descriptors."""
        m.d.sync += [self.start.eq(address[_UNIT_BITS:]), self.count.eq(entries), self.is_list.eq(1)]

    def begin_pages(self, m: Module, address: Value, pages: Value) -> None:
        """Begin a range in the present state: `pages` memory pages from that at `address` on."""
        first = Cat(self.settings.page_key(address))
        units = (pages << self.settings.mps) << _PAGE_UNITS_BITS
        m.d.sync += [self.start.eq(first << _PAGE_UNITS_BITS), self.count.eq(units), self.is_list.eq(0)]

    @staticmethod
    def is_long_list(entries: Value) -> Value:
        """Whether a list of so many is not followed."""
        return entries[_LIST_BITS:] != 0

    def is_long(self, pages: Value) -> Value:
        """Whether a range of so many memory pages is not followed."""
        return (pages << self.settings.mps)[_COUNT_BITS - _PAGE_UNITS_BITS :] != 0

    def add(self, m: Module, back: str) -> None:
        """Add the next range, as it stands in the next clock; go on at `back`."""
        self._add.call(m, back)

    def states(self, m: Module) -> None:
        tlp, report, table, tags = self.tlp, self.report, self._table, self.tags

        # --- LENT_ADD: `start` to `count` units behind it --------------------------------------------------------------
        with m.State("LENT_ADD"):
            m.d.sync += self._at.eq(self.start)
            self._look.call(m, "LENT_LOOKED")

        with m.State("LENT_LOOKED"):
            longer = Signal(_COUNT_BITS + 1, name="lent_longer")
            m.d.comb += longer.eq(self._last_count + self.count)
            joins = (self._size != 0) & ~self._last_list & ~self.is_list & (self._last_end == self.start) & ~longer[_COUNT_BITS]
            self._add.leave(m)
            with m.If(self._found):
                pass
            with m.Elif(joins):
                table.write(m, self._size - 1, start=self._last_start, count=longer[:_COUNT_BITS], list=0)
                m.d.sync += [self._last_count.eq(longer), self._last_end.eq(self.start + self.count)]
            with m.Elif(self._size == tables.LENT):
                report.lost(m, spec.LossSource.PAGES)
            with m.Else():
                table.write(m, self._size[: table.wa.shape().width], start=self.start, count=self.count, list=self.is_list)
                m.d.sync += [
                    self._size.eq(self._size + 1),
                    self._last_start.eq(self.start),
                    self._last_count.eq(self.count),
                    self._last_end.eq(self.start + self.count),
                    self._last_list.eq(self.is_list),
                ]

        # --- a read or write of the drive that is in no page of the map -------------------------------------------------
        with m.State(Place.HOST_BUFFER):
            m.d.sync += self._at.eq(tlp.header.address[_UNIT_BITS : _UNIT_BITS + self._bits])
            self._look.call(m, "HOST_BUFFER_LOOKED")

        with m.State("HOST_BUFFER_LOOKED"):
            is_read, aligned = tlp.header.kind == TlpKind.MRD, tlp.header.address[2:_UNIT_BITS] == 0
            m.next = Place.PAGE_MISSED
            with m.If(self._found & ~self._behind_list):
                m.d.comb += self.used.eq(1)
                m.next = Place.DONE
                with m.If(is_read):
                    m.next = Place.TAG_UNKNOWN
            with m.Elif(self._found & is_read & aligned):
                m.next = "HOST_BUFFER_LIST"
            with m.Elif(self._found):
                m.d.comb += report.unmatched.eq(1)
                m.next = Place.DONE
                with m.If(is_read):
                    m.next = Place.TAG_UNKNOWN

        with m.State("HOST_BUFFER_LIST"):
            tlp.may_finish(m)
            tags.put(
                m,
                tlp.header.tag,
                valid=1,
                kind=tables.TagKind.BUFFER_LIST,
                index=tables.first_half(self._left << 2),
                remaining=tlp.header.length,
            )
            tlp.finish(m)

        # --- LENT_LOOK: which range has `_at`; each takes a clock --------------------------------------------------------
        with m.State("LENT_LOOK"):
            m.d.comb += table.ra.eq(0)
            m.d.sync += [self._next.eq(1), self._found.eq(0)]
            m.next = "LENT_NEXT"
            with m.If(self._size == 0):
                self._look.leave_later(m)

        with m.State("LENT_NEXT"):
            m.d.comb += table.ra.eq(self._next[: table.ra.shape().width])
            m.d.sync += [
                self._next.eq(self._next + 1),
                self._behind.eq(self._at - table.r["start"]),
                self._behind_count.eq(table.r["count"]),
                self._behind_list.eq(table.r["list"]),
            ]
            within = self._behind < self._behind_count
            with m.If((self._next != 1) & within):
                m.d.sync += [self._found.eq(1), self._left.eq(self._behind_count - self._behind), self._behind_list.eq(self._behind_list)]
                self._look.leave_later(m)
            with m.Elif(self._next == self._size + 1):
                self._look.leave_later(m)

    def return_states(self, m: Module) -> None:
        """Build the states that return; after all states that call a subroutine of this file."""
        self._look.return_state(m)
