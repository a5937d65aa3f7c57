"""Formats of namespaces, from Identify data and Format NVM (NVMe: Identify Namespace, Format NVM)."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data
from wattbell_spec import wire as spec

from .store import FieldTable

__all__ = ["Namespaces"]

_COUNT_BITS, _FORMAT_BITS, _PLACE_BITS = 5, 4, 10
_FLBAS, _LBAF = 6, 32
"""Double words of Identify data: FLBAS (byte 26), and the first LBA format."""
_FORMAT = data.StructLayout({"metadata": 16, "lbads": 8})
"""An LBA format: MS and LBADS."""


class Namespaces:
    """Formats of 32 namespaces: one for each value of the low bits of an NSID.

    dws : double words of a block in the data buffer, of the namespace looked up two clocks before (:meth:`look_up`).
    known : ``dws`` is known.
    metadata : bytes of a block's metadata in a buffer of its own.
    fits : ``metadata`` is known.
    """

    def __init__(self, m: Module) -> None:
        count = 1 << _COUNT_BITS
        self._table = FieldTable(m, "namespaces", count, {"nsid": 16, "flbas": 7})
        self._formats = FieldTable(m, "formats", count << _FORMAT_BITS, {"entry": _FORMAT})
        self._listed, self._valid = Signal(count), Signal(count)  # its formats are known; which one it has is known, too
        self.fits, self._extended = Signal(), Signal()
        # The Identify command whose data is being taken, and what of it was seen: each LBA format, and FLBAS.
        self._of, self._nsid = Signal(data.StructLayout({"valid": 1, "slot": 16, "generation": 16})), Signal(16)
        self._seen, self._place, self._ends = Signal((1 << _FORMAT_BITS) + 1), Signal(_PLACE_BITS), Signal()
        self.dws, self.known, self.metadata = Signal(15), Signal(), Signal(16)

    def connect(self, m: Module) -> None:
        m.d.sync += self._ends.eq(0)
        with m.If(self._ends & self._seen.all()):
            m.d.sync += [each.bit_select(self._index(self._nsid), 1).eq(1) for each in (self._listed, self._valid)]
        format_, block, is_block = self._formats.r["entry"], Signal(15), Signal()
        with m.Switch(format_.lbads):
            for lbads in range(9, 17):
                with m.Case(lbads):
                    m.d.comb += [block.eq(1 << (lbads - 2)), is_block.eq(1)]
        more = self._extended & (format_.metadata != 0)
        m.d.comb += [
            self.dws.eq(block + (format_.metadata[2:] & self._extended.replicate(14))),
            self.known.eq(self.fits & is_block & ~(more & (format_.metadata[:2] != 0))),
            self.metadata.eq(format_.metadata & ~self._extended.replicate(16)),
        ]
        self.behind = more
        """Its metadata stands behind each block."""

    @staticmethod
    def _index(nsid: Value) -> Value:
        return nsid[:_COUNT_BITS]

    def look_up(self, m: Module, nsid: Value) -> None:
        """Read the entry of `nsid` in the present state; :meth:`look_on` follows in the next."""
        m.d.comb += self._table.ra.eq(self._index(nsid))

    def look_on(self, m: Module, nsid: Value) -> None:
        """Read the format of the entry, in the present state."""
        flbas = self._table.r["flbas"]
        m.d.comb += self._formats.ra.eq(Cat(flbas[:_FORMAT_BITS], self._index(nsid)))
        m.d.sync += [
            self.fits.eq(self._valid.bit_select(self._index(nsid), 1) & (self._table.r["nsid"] == nsid) & (flbas[5:7] == 0)),
            self._extended.eq(flbas[4]),
        ]

    def doubt(self, m: Module, lists: Value) -> None:
        """Forget formats in the present state: they change, and the end of the command tells the new ones; if `lists`, not even that."""
        m.d.sync += self._valid.eq(0)
        with m.If(lists):
            m.d.sync += self._listed.eq(0)

    def formatted(self, m: Module, nsid: Value, cdw10: Value) -> None:
        """Note that Format NVM has ended without error, in the present state behind :meth:`look_up`."""
        index = self._index(nsid)
        with m.If(self._listed.bit_select(index, 1) & (self._table.r["nsid"] == nsid) & (cdw10[12:14] == 0)):
            self._table.write(m, index, flbas=cdw10[:5])
            m.d.sync += self._valid.bit_select(index, 1).eq(1)

    @staticmethod
    def is_told(nsid: Value, cns: Value) -> Value:
        """Return whether Identify with these fields tells a namespace's format; `nsid` is a slot's."""
        return (cns == 0) & (nsid != 0) & (nsid < spec.NSID_LARGE)

    def begin(self, m: Module, *, slot: Value, generation: Value, nsid: Value, place: Value) -> None:
        """Begin, in the present state, a TLP with Identify data of this command, from double word `place` on."""
        m.d.sync += self._place.eq(place)
        with m.If(~self._of.valid | (self._of.slot != slot) | (self._of.generation != generation)):
            m.d.sync += [
                self._of.valid.eq(1),
                self._of.slot.eq(slot),
                self._of.generation.eq(generation),
                self._nsid.eq(nsid),
                self._seen.eq(0),
                *(each.bit_select(self._index(nsid), 1).eq(0) for each in (self._listed, self._valid)),
            ]

    def take(self, m: Module, word: Value, *, last: Value) -> None:
        """Take, in the present state, the next double word of Identify data; `last`: of its TLP."""
        index, place = self._index(self._nsid), self._place
        m.d.sync += [place.eq(place + 1), self._ends.eq(last)]
        with m.If(place == _FLBAS):
            self._table.write(m, index, nsid=self._nsid, flbas=word[16:23])
            m.d.sync += self._seen[-1].eq(1)
        with m.If(place[_FORMAT_BITS:] == _LBAF >> _FORMAT_BITS):
            self._formats.write(m, Cat(place[:_FORMAT_BITS], index), entry=word[:24])
            m.d.sync += self._seen.bit_select(place[:_FORMAT_BITS], 1).eq(1)

    def forget(self, m: Module) -> None:
        """Forget all namespaces, in the present state."""
        m.d.sync += [self._listed.eq(0), self._valid.eq(0), self._of.valid.eq(0)]
