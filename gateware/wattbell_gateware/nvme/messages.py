"""The host's interrupt messages and its resets of the function, from its accesses to configuration space and to the MSI-X table.

Sections, besides those of ``engine``: PCI Express Base Specification 4.0, 7.5.2 (power management), 7.5.3 (Device Control), 7.7.1 (MSI),
7.7.2 (MSI-X).
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from .places import Place
from .present import Present
from .settings import Settings
from .store import FieldTable

__all__ = ["Messages"]

_POINTER, _FIRST = 0x34 >> 2, 0x40 >> 2
"""Registers of configuration space, in double words: Capabilities Pointer, and the first that a capability may have."""
_POWER_ID, _MSI_ID, _PCIE_ID, _MSIX_ID = 0x01, 0x05, 0x10, 0x11
_D0, _D3HOT = 0, 3
"""Power states of a function."""
_WORDS = ("low", "high", "data")
_MSI, _BEFORE = 0x80, 0x40
"""Entries of the table of messages: the vectors of the MSI-X table from 0 on; the message of MSI; how far behind each its older version."""


class Messages:
    """Capabilities, the MSI-X table, and the states of the accesses to both.

    One of ``by_table``, ``by_msi``, ``wires`` and ``unknown`` is high, a clock late.

    by_table : messages come from the MSI-X table.
    by_msi : messages come from the MSI capability.
    wires : the drive sends no messages to memory: INTx, or no interrupts.
    unknown : nobody saw how the host set up messages.
    shared : with ``wires``: another function may have sent an interrupt. PCIe: INTx Interrupt Signaling (Requester ID)
    lost : TLPs of the host were lost, so any message may have changed.
    asserted : INTA is asserted.
    """

    def __init__(self, m: Module, *, tlp: Present, settings: Settings) -> None:
        self.tlp, self.settings = tlp, settings
        self.by_table, self.by_msi, self.wires, self.unknown = Signal(), Signal(), Signal(), Signal(init=1)
        self.shared = Signal()
        self.lost, self.asserted = Signal(), Signal()
        # A field's highest bit: it is known.
        self._table = FieldTable(m, "vectors", 256, {"low": 31, "high": 33, "data": 33})
        self._beyond = Signal()  # of a vector without an entry
        # A read of configuration space.
        self._asked, self._tag, self._requester, self._register, self._enables = Signal(), Signal(10), Signal(16), Signal(6), Signal(4)
        # Registers at which a capability begins; and whether the last of them was seen.
        self._begins, self._ended = Signal(64), Signal()
        self._found, self._known, self._on = Signal(2), Signal(2), Signal(2)  # MSI, MSI-X; ``on``: where ``known``
        self._msi_at, self._msix_at = Signal(6), Signal(6)
        self._wide = Signal()  # MSI has addresses of 64 bits
        self._is_other = Signal()  # the followed function is another than function 0, a clock late
        self._count = Signal(3)  # logarithm of MSI's messages
        self._place, self._placed = Signal(32), Signal()  # Table Offset and Table BIR
        # Registers with Device Control, and with the function's power state. That one was seen to lack No_Soft_Reset.
        self._control_at, self._has_control, self._power_at, self._has_power = Signal(6), Signal(), Signal(6), Signal()
        self._power, self._resets = Signal(2), Signal()
        self._table_at, self._behind = Signal(32), Signal(32)
        # A double word of a message on its way into the table.
        self._at, self._word, self._value, self._good = Signal(8), Signal(2), Signal(32), Signal()
        self._offset, self._left, self._read, self._whole = Signal(9), Signal(11), Signal(14), Signal()

    def connect(self, m: Module) -> None:
        enabled = self._known & self._on
        off = [(self._known[k] & ~self._on[k]) | (self._ended & ~self._found[k]) for k in range(2)]
        by_table, by_msi, wires = Signal(), Signal(), Signal()
        m.d.comb += [
            by_table.eq(enabled[1] & self._placed & (self._place[:3] == 0)),
            by_msi.eq(~enabled[1] & enabled[0]),
            wires.eq(off[0] & off[1]),
        ]
        m.d.sync += [
            self.by_table.eq(by_table),
            self.by_msi.eq(by_msi),
            self.wires.eq(wires),
            self.unknown.eq(~(by_table | by_msi | wires)),
            self.shared.eq(wires & self.settings.other_functions),
            self._table_at.eq(self.settings.bar0[:32] + Cat(Const(0, 3), self._place[3:])),
            self._is_other.eq(self.settings.is_other_than_0()),
        ]
        # What was seen so far is of another function.
        with m.If(self._is_other != self.settings.is_other_than_0()):
            m.d.sync += [
                each.eq(0)
                for each in (
                    self._begins, self._ended, self._found, self._known, self._placed, self._has_control, self._has_power, self._asked,
                )
            ]  # fmt: skip

    def _is_mine(self) -> Value:
        """Return whether a configuration request is of the followed function, or of function 0 before one is followed."""
        address, settings = self.tlp.header.address, self.settings
        mine = Mux(settings.function_known, address[16:24] == settings.function, address[16:19] == 0)
        return mine & (address[8:16] == 0)

    # --- what other files' states do --------------------------------------------------------------------------------
    def compare(self, m: Module) -> None:
        """Note, in DISPATCH, the distance of the address from the MSI-X table."""
        m.d.sync += self._behind.eq(self.tlp.header.address[:32] - self._table_at)

    def in_table(self) -> Value:
        """Return whether the address lies in the table; for addresses less than 4 GiB behind BAR0."""
        return self._placed & (self._place[:3] == 0) & (self._behind[10:] == 0)

    def answers(self) -> Value:
        """Return whether the TLP answers a read of configuration space."""
        header = self.tlp.header
        return self._asked & (header.tag == self._tag) & (header.requester == self._requester) & header.kept

    def ask_otherwise(self, m: Module) -> None:
        """Note, in the present state, another request of the host that will be answered."""
        header = self.tlp.header
        with m.If((header.tag == self._tag) & (header.requester == self._requester)):
            m.d.sync += self._asked.eq(0)

    def lose(self, m: Module, up: Value) -> None:
        """Note, in the present state, that TLPs of one direction were lost before the TLP in hand."""
        m.d.sync += [self.lost.eq(self.lost | ~up), self._asked.eq(0)]

    def look_up(self, m: Module, vector: Value) -> None:
        """Read the message of a vector in the present state."""
        m.d.comb += self._table.ra.eq(Mux(self.by_msi, _MSI, Cat(vector[:6], Const(0, 2))))
        m.d.sync += self._beyond.eq(~self.by_msi & (vector[6:] != 0))

    def look_before(self, m: Module) -> None:
        """Read the older version of that message, in a later state."""
        m.d.comb += self._table.ra.eq(self._table.held | _BEFORE)

    def known(self) -> Value:
        """Return, a clock after :meth:`look_up`, whether the message is known."""
        return ~self._beyond & Cat(self._table.r[name][-1] for name in _WORDS).all()

    def sure(self) -> Value:
        """Return, a clock after :meth:`look_up`, whether instants by this message are free of doubt."""
        return ~self.lost & ~self.shared & (self.wires | (~self.unknown & self.known()))

    def same(self, vector: Value) -> Value:
        """Return, a clock after :meth:`look_up` or :meth:`look_before`, a bit for each part that the TLP shares with the message.

        Bit 0: low half of the address; 1: high half; 2: data.
        """
        address, word, table = self.tlp.header.address, self.tlp.first, self._table.r
        low = Cat(self._count > bit for bit in range(7)) & self.by_msi.replicate(7)
        mask = Cat(~low, (~self.by_msi).replicate(25) | Const(0x1FF, 25))
        fits = ((word[:7] ^ vector[:7]) & low) == 0
        return Cat(
            table["low"][-1] & (table["low"][:30] == address[2:32]),
            table["high"][-1] & (table["high"][:32] == address[32:]),
            table["data"][-1] & (((table["data"][:32] ^ word) & mask) == 0) & fits,
        )

    def reset(self, m: Module) -> None:
        """Reset in the present state, with the function: nothing is enabled, and registers keep their places."""
        m.d.sync += [
            self._on.eq(0),
            self._known.eq(self._found),
            self._asked.eq(0),
            self._count.eq(0),
            self.lost.eq(0),
            self._power.eq(_D0),
        ]

    def clear(self, m: Module, entry: Value) -> None:
        """Clear an entry of the table in the present state."""
        self._table.write(m, entry[:8], low=0, high=0, data=0)

    def states(self, m: Module) -> None:
        """Build all states of this file."""
        self._read_states(m)
        self._register_state(m)
        self._table_states(m)
        self._store_states(m)

    def _read_states(self, m: Module) -> None:
        """Build CFGRD to CFGRD_TAKE: a read of configuration space. PCIe: Configuration Space; 7.7.1, 7.7.2."""
        tlp = self.tlp
        header, msi, msix = tlp.header, 0, 1
        register, mine = header.address[2:8], self._is_mine()

        with m.State(Place.CFGRD):
            tlp.may_finish(m)
            m.d.sync += [
                self._asked.eq(mine),
                self._tag.eq(header.tag),
                self._requester.eq(header.requester),
                self._register.eq(register),
                self._enables.eq(header.first_be),
            ]
            tlp.finish(m)

        with m.State(Place.CFGRD_DATA):
            m.d.sync += [self._asked.eq(0), self._value.eq(tlp.word)]
            m.next = "CFGRD_TAKE"

        with m.State("CFGRD_TAKE"):
            m.next = Place.DONE  # the next TLP is compared with the table's new place
            value, here, has = self._value, self._register, self._enables
            begins = (here >= _FIRST) & self._begins.bit_select(here, 1)
            is_new = [begins & has[0] & (value[:8] == number) for number in (_MSI_ID, _MSIX_ID)]
            for kind, at in ((msi, self._msi_at), (msix, self._msix_at)):
                with m.If(is_new[kind]):
                    m.d.sync += [at.eq(here), self._found[kind].eq(1)]
            with m.If((here == _POINTER) & has[0]):
                m.d.sync += self._begins.eq(1 << value[2:8])
            with m.If(begins & has[1]):
                m.d.sync += self._begins.bit_select(value[10:16], 1).eq(1)
                with m.If(value[10:16] == 0):
                    m.d.sync += self._ended.eq(1)
            with m.If((is_new[msi] | (self._found[msi] & (here == self._msi_at))) & has[2]):
                m.d.sync += [
                    self._known[msi].eq(1),
                    self._on[msi].eq(value[16]),
                    self._count.eq(value[20:23]),
                    self._wide.eq(value[23]),
                ]
            with m.If((is_new[msix] | (self._found[msix] & (here == self._msix_at))) & has[3]):
                m.d.sync += [self._known[msix].eq(1), self._on[msix].eq(value[31])]
            for number, behind, at, found in (
                (_PCIE_ID, 2, self._control_at, self._has_control),
                (_POWER_ID, 1, self._power_at, self._has_power),
            ):
                with m.If(begins & has[0] & (value[:8] == number)):
                    m.d.sync += [at.eq(here + behind), found.eq(1)]
            with m.If(self._has_power & (here == self._power_at) & has[0]):
                m.d.sync += [self._power.eq(value[:2]), self._resets.eq(~value[3])]
            with m.If(self._found[msix] & ~is_new[msix] & (here == self._msix_at + 1) & has.all()):
                m.d.sync += [self._place.eq(value), self._placed.eq(1)]

    def _register_state(self, m: Module) -> None:
        """Build CFGWR_MESSAGE: a write of another register than BAR0.

        PCIe: 7.5.2.2 (power state), 7.5.3.4 (Device Control), 7.7.1, 7.7.2.
        """
        tlp = self.tlp
        header, msi, msix = tlp.header, 0, 1
        register, mine = header.address[2:8], self._is_mine()

        with m.State(Place.CFGWR_MESSAGE):
            place, has = Signal(8, name="msi_place"), header.first_be
            m.d.comb += place.eq(register - self._msi_at)
            m.d.sync += [
                self._at.eq(_MSI),
                self._left.eq(0),
                self._good.eq(has.all()),
                self._value.eq(tlp.first),
                self._word.eq(Mux(place == 1, 0, Mux((place == 2) & self._wide, 1, 2))),
            ]
            m.next = Place.DONE
            with m.If(mine & self._found[msix] & (register == self._msix_at) & has[3]):
                m.d.sync += [self._known[msix].eq(1), self._on[msix].eq(tlp.first[31]), self.lost.eq(self.lost & ~tlp.first[31])]
            with m.If(mine & self._found[msi]):
                with m.If((place == 0) & has[2] & self._known[msi]):
                    m.d.sync += [
                        self._on[msi].eq(tlp.first[16]),
                        self._count.eq(tlp.first[20:23]),
                        self.lost.eq(self.lost & ~tlp.first[16]),
                    ]
                with m.If((place == 1) | (place == 2) | ((place == 3) & self._wide)):
                    m.next = "MESSAGE_READ"
                with m.If((place == 3) | ((place == 2) & ~self._wide)):
                    m.d.sync += [self._good.eq(has[:2].all()), self._value.eq(tlp.first[:16])]
            with m.If(mine & self._has_power & (register == self._power_at) & has[0]):
                m.d.sync += self._power.eq(tlp.first[:2])
                with m.If((self._power == _D3HOT) & (tlp.first[:2] == _D0) & self._resets):
                    m.next = Place.D3HOT
            with m.If(mine & self._has_control & (register == self._control_at) & has[1] & tlp.first[15]):
                m.next = Place.FLR

    def _table_states(self, m: Module) -> None:
        """Build MESSAGE_TABLE to MESSAGE_WORD: a write into the MSI-X table. PCIe: 7.7.2."""
        tlp, header = self.tlp, self.tlp.header

        with m.State(Place.MESSAGE_TABLE):
            m.d.sync += [
                self._offset.eq(self._behind[2:10]),
                self._left.eq(header.length),
                self._read.eq(tlp.start),
                self._whole.eq(header.first_be.all()),
            ]
            m.next = "MESSAGE_NEXT"

        with m.State("MESSAGE_NEXT"):
            m.d.comb += tlp.read_index.eq(self._read)
            m.next = "MESSAGE_WORD"

        with m.State("MESSAGE_WORD"):
            m.d.sync += [
                self._at.eq(self._offset[2:8]),
                self._word.eq(self._offset[:2]),
                self._value.eq(tlp.word),
                self._good.eq(self._whole),
                self._whole.eq(1),
                self._offset.eq(self._offset + 1),
                self._left.eq(self._left - 1),
                self._read.eq(self._read + 1),
            ]
            m.next = "MESSAGE_READ"
            with m.If((self._offset[:2] == 3) | self._offset[8]):  # Vector Control, or behind the entries that are followed
                m.next = "MESSAGE_NEXT"
                with m.If(self._left == 1):
                    m.next = Place.DONE

    def _store_states(self, m: Module) -> None:
        """Build MESSAGE_READ to MESSAGE_STORE: keep the older version of a message and store a double word (ours)."""
        with m.State("MESSAGE_READ"):
            m.d.comb += self._table.ra.eq(self._at)
            m.next = "MESSAGE_KEEP"

        new = {"low": Cat(self._value[2:], self._good), "high": Cat(self._value, self._good), "data": Cat(self._value, self._good)}
        with m.State("MESSAGE_KEEP"):
            for number, name in enumerate(_WORDS):
                old = self._table.r[name]
                with m.If((self._word == number) & old[-1] & (old != new[name])):
                    self._table.write(m, self._at | _BEFORE, **{name: old})
            m.next = "MESSAGE_STORE"

        with m.State("MESSAGE_STORE"):
            for number, name in enumerate(_WORDS):
                with m.If(self._word == number):
                    self._table.write(m, self._at, **{name: new[name]})
            with m.If((self._at == _MSI) & (self._word == 0) & ~self._wide):
                self._table.write(m, self._at, high=1 << 32)
            m.d.sync += self.settings.dirty.eq(1)
            m.next = "MESSAGE_NEXT"
            with m.If(self._left == 0):
                m.next = Place.DONE
