"""The memories of the page map, with a look-up address, an entry to write and a choice that all ways share.

The map is skewed-associative: each way has its own hash of the same page and offset. Logic in front of the hashes exists once; logic
behind them once a way. So states share one look-up and one write, and the hashes follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from .store import FieldTable

GRANULE_BITS = 7
"""2**GRANULE_BITS double words (512 bytes) are a granule: no entry in a way of pieces holds beyond its granule."""


@dataclass(frozen=True)
class MapSizes:
    """Sizes of the page map.

    pages, sets : ways of pages (a power of 2), with at most 1024 entries each.
    pieces, piece_sets : ways of pieces, and entries of each.
    key_bits : bits of page numbers that are kept. Addresses from 2**(12 + key_bits) on would be taken for others.
    """

    pages: int = 8
    sets: int = 1024
    pieces: int = 4
    piece_sets: int = 512
    key_bits: int = 52


FULL_SIZE = MapSizes()


class PageMap:
    """Ways of pages, then ways of pieces.

    A state sets ``key`` and ``offset`` (:meth:`look_up`), and ``entries`` hold that place of every way from the next clock on. The state
    sets
    ``hold`` to keep them for one more clock; otherwise the ways go on to their default look-up. A write (:meth:`put`; an invalid entry
    takes one away) shows in a look-up that begins in the next clock.

    A way of pages does not keep the lower bits of keys. Its hash adds them unchanged, so the place of an entry tells them.
    """

    def __init__(self, m: Module, sizes: MapSizes, *, of_bits: int) -> None:
        """Create the ways. `of_bits`: bits of the number of a slot or a queue."""
        key_bits, offset_bits = sizes.key_bits, 14
        self.key_bits = key_bits
        self.layout = entry = data.StructLayout(
            {
                "valid": 1,
                "key": key_bits,
                "start": offset_bits,  # in double words
                "kind": 3,
                "slot": of_bits,
                "generation": 16,
                "index": 14,  # of the list entry (8 bytes) at `start`; of data: the last double word that the command has
                "doubtful": 1,  # it may be that the command does not use this
            }
        )
        self.pages, self.count = sizes.pages, sizes.pages + sizes.pieces
        told = (sizes.sets - 1).bit_length()  # bits of a key that its place tells
        shorter = data.StructLayout({name: key_bits - told if name == "key" else field.shape for name, field in entry})
        self.ways = [FieldTable(m, f"way{i}", sizes.sets, {"entry": shorter}) for i in range(sizes.pages)]
        self.ways += [FieldTable(m, f"piece_way{i}", sizes.piece_sets, {"entry": entry}) for i in range(sizes.pieces)]
        self.entries = [Signal(entry, name=f"map_entry{i}") for i in range(self.count)]
        self.key, self.offset, self.hold = Signal(key_bits, name="map_key"), Signal(offset_bits, name="map_offset"), Signal(name="map_hold")
        self.put_key, self.put_offset = Signal(key_bits, name="map_put_key"), Signal(offset_bits, name="map_put_offset")
        self.put_entry, self.put_ways = Signal(entry, name="map_put_entry"), Signal(self.count, name="map_put_ways")
        self.clear, self.clear_place = Signal(name="map_clear"), Signal(range(max(sizes.sets, sizes.piece_sets)), name="map_clear_place")
        asked = Signal(key_bits, name="map_asked")
        with m.If(~self.hold):
            m.d.sync += asked.eq(self.key)
        self.same = Signal(self.count, name="map_same")
        """Which entries are of the page that was looked up."""
        for number, (way, whole) in enumerate(zip(self.ways, self.entries, strict=True)):
            kept, skipped = way.r["entry"], told if number < self.pages else 0
            low = (way.held ^ self._hash(number, Cat(Const(0, told), kept.key), Const(0, offset_bits)))[:skipped]
            m.d.comb += [
                self.same[number].eq(kept.valid & (kept.key == asked[skipped:])),
                *(whole[name].eq(kept[name]) for name in entry.members if name != "key"),
                whole.key.eq(Cat(low, kept.key)),
            ]
        self.hits = Signal(self.count)
        """Ways with the page looked for; and the best among them, one-hot (``pages`` makes both)."""
        self.best = Signal(self.count)
        self.of_data, self.covers = Signal(self.count, name="map_of_data"), Signal(self.count, name="map_covers")
        """Hits of data; and the sure ones among them with data up to here (``pages`` makes both)."""
        self.choice = Signal(self.count, name="map_choice")
        """The way of the entry ``chosen``, one-hot; a state sets it."""
        self.chosen = Signal(entry, name="map_chosen")
        m.d.comb += self.chosen.as_value().eq(
            reduce(or_, (e.as_value() & self.choice[i].replicate(entry.size) for i, e in enumerate(self.entries)))
        )
        for number, way in enumerate(self.ways):
            m.d.comb += [
                way.ra.eq(Mux(self.hold, way.held, self._hash(number, self.key, self.offset))),
                way.wa.eq(Mux(self.clear, self.clear_place, self._hash(number, self.put_key, self.put_offset))),
                way.we["entry"].eq(self.put_ways[number] | self.clear),
                *(way.w["entry"][name].eq(self.put_entry[name]) for name in entry.members if name != "key"),
                way.w["entry"].key.eq(self.put_entry.key[told if number < self.pages else 0 :]),
            ]

    def look_up(self, m: Module, key: Value, offset: Value) -> None:
        m.d.comb += [self.key.eq(key), self.offset.eq(offset), self.hold.eq(0)]

    def keep(self, m: Module) -> None:
        """Keep the entries for another clock, in the present state."""
        m.d.comb += self.hold.eq(1)

    def put(self, m: Module, way: Value) -> None:
        """Write, in the present state, ``put_entry`` to `way`, at ``put_key`` and ``put_offset``."""
        m.d.comb += self.put_ways.eq((1 << way)[: self.count])

    def _hash(self, way: int, key: Value, offset: Value) -> Value:
        """Return the place of page `key` in `way`; in a way of pieces, of that page's granule with `offset`.

        Each way has another place, so entries that meet in one way part in the next. With one place for all ways (a set-associative
        map), 1024 pages in flight at random addresses (128 KiB at queue depth 32) now and then filled all 8 ways of a place. In the
        first free way of eight places they do not.
        """
        if way < self.pages:
            return key[0:10] ^ key[10:20].rotate_left(way) ^ key[20:30].rotate_left(2 * way + 1) ^ key[30:40]
        granule = offset[GRANULE_BITS:14]
        turn = way - self.pages
        # Granules change the upper bits, neighbouring pages the lower ones: buffers and pools are neighbours.
        spread = Cat(0, 0, granule[::-1])[:9].rotate_left(turn)
        return key[0:9] ^ key[9:18].rotate_left(turn + 1) ^ key[18:27].rotate_left(2 * turn) ^ key[27:36] ^ spread
