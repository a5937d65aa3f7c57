"""Pipeline for data TLPs, the most frequent ones: one a clock, beside the engine's states.

A data write of the drive, or a completion with data for the drive, changes at most two things: its command's slot (ticks of data, length
left) and the count of its tag. The pipeline stores both in its last stage only:

===== ==========================================================================================================================
stage
===== ==========================================================================================================================
0     taken from the queue; its place in the page map and its tag are read (the engine's, as for any TLP)
1     the ways of the page map are compared; a completion knows its tag
2     the valid way is chosen
3     the command's slot is read
4     the slot is checked
5     the TLP is stored; or it turns out to be another kind, goes to the engine's states, and all TLPs behind it come again
===== ==========================================================================================================================

TLPs in stages 1 to 4 have changed nothing, so they may come again. No state of the engine runs while the pipeline holds a TLP.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..tlp import HEADER, TlpKind
from .tables import LEFT, PageKind, SlotState, TagKind, less

__all__ = ["DataWay", "entry_layout", "slot_layout"]

_SHORT = 4
"""Double words. A write of the drive that is not longer is a CQE or an interrupt, or nearly always."""


def entry_layout(slot_bits: int) -> data.StructLayout:
    """Return the fields of a page map entry that the pipeline reads."""
    return data.StructLayout({"kind": 3, "doubtful": 1, "slot": slot_bits, "generation": 16})


def slot_layout(queue_bits: int) -> data.StructLayout:
    """Return the fields of a slot that the pipeline reads.

    ``takes``: its command has data written to the host, by its opcode; ``first_known``: the slot has the tick of its first data.
    """
    return data.StructLayout(
        {"state": SlotState, "generation": 16, "epoch": 16, "qid": queue_bits, "takes": 1, "first_known": 1, "left": LEFT}
    )


class DataWay(wiring.Component):
    """Latency: five clocks from ``begun`` to ``done``, both included. Throughput: one TLP a clock, also of one tag or one command.

    Parameters: `tag`, layout of an entry of the tag table; `slot_bits`; `queue_bits`; `ways` of the page map.

    Ports
    -----
    begun : stage 1 has a TLP.
    header : header of that TLP; :meth:`may_take` allows it.
    up : direction of that TLP.
    foreign : it is of a function that is not followed; so the engine has to take it.
    tag : entry of its tag.
    ways : entries of the page map at its place, one of each way.
    hit : stage 2: a way holds its page.
    choice : stage 2: that way, one-hot.
    several : stage 2: more than one way holds the page.
    claimed : stage 2: another way has data there, too.
    far : stage 2: that way is of data that ends before, if its command's length is known.
    slot_at : stage 3: slot to read in the next clock.
    slot : stage 4: that slot.
    epoch : present epoch of the engine.
    done : stage 5: the TLP is finished.
    up_done : direction of the finished TLP.
    end : end of its payload in the ring.
    other : stage 1: a completion without data of a command, with no TLP before it. The engine's states may take it at once; the next clock
        removes it from the pipeline.
    may_be_other : stage 1: a completion with no TLP before it; known before the tag's entry is.
    odd : stage 5: the engine has to take the TLP, and all TLPs behind it come again. The next clock removes them from the pipeline.
    see : writes ``see_tick`` (last data) and ``see_left`` into slot ``see_slot``.
    see_first : writes ``see_tick`` as the tick of the first data, too.
    see_slot : that slot.
    see_tick : tick of the data.
    see_left : length left after this TLP.
    count : writes ``counted`` as the entry of tag ``count_tag``.
    count_tag : that tag.
    counted : its new entry.
    behind : stages 1 to 4 hold a TLP.
    """

    def __init__(self, tag: data.StructLayout, *, slot_bits: int, queue_bits: int, entry_slot_bits: int, ways: int) -> None:
        self._tag, self._entry, self._slot_bits = tag, entry_layout(entry_slot_bits), slot_bits
        self._ways = ways
        super().__init__({
            "header": In(HEADER), "up": In(1), "foreign": In(1), "begun": In(1), "tag": In(tag), "ways": In(self._entry).array(ways),
            "hit": In(1), "choice": In(ways), "several": In(1), "claimed": In(1), "far": In(1),
            "slot_at": Out(slot_bits), "slot": In(slot_layout(queue_bits)), "epoch": In(16),
            "done": Out(1), "up_done": Out(1), "end": Out(14), "other": Out(1), "may_be_other": Out(1), "odd": Out(1),
            "see": Out(1), "see_first": Out(1), "see_slot": Out(slot_bits), "see_tick": Out(64),
            "see_left": Out(LEFT),
            "count": Out(1), "count_tag": Out(10), "counted": Out(tag), "behind": Out(1),
        })  # fmt: skip

    @staticmethod
    def may_take(merged) -> object:
        """Whether this may be a data TLP (a completion is known by its tag only)."""
        header, up = merged.header, merged.up
        write = up & (header.kind == TlpKind.MWR) & (header.length > _SHORT) & ~header.at[1]
        return (write | (~up & (header.kind == TlpKind.CPLD))) & ~header.lost & ~header.bad

    def elaborate(self, _platform) -> Module:
        m = Module()
        told = data.StructLayout(
            {
                "valid": 1,
                "up": 1,
                "tick": 64,
                "end": 14,
                "count_tag": 10,
                "tag": self._tag,
                # a completion: of data, by its tag; a write: its page's entry is of a command, sure, and of one alone if it is old
                "sure": 1,
                "foreign": 1,
                "several": 1,
                "far": 1,
                "slot": self._slot_bits,
                "generation": 16,
                "length": 11,
            }
        )
        second, third, fourth, fifth = stages = [Signal(told, name=name) for name in ("second", "third", "fourth", "fifth")]

        # --- stage 1 ------------------------------------------------------------------------------------------------
        tag = Signal(self._tag)
        m.d.comb += tag.eq(self.tag)
        for older in reversed(stages):  # the youngest counts
            with m.If(older.valid & ~older.up & (older.count_tag == self.header.tag)):
                m.d.comb += [tag.remaining.eq(older.tag.remaining), tag.valid.eq(older.tag.valid)]
        of_data = Signal()
        m.d.comb += [
            of_data.eq(tag.valid & (tag.kind == TagKind.DATA)),
            # Nothing is before it, so what the table gave is what its tag is.
            self.may_be_other.eq(self.begun & ~self.up & ~Cat(stage.valid for stage in stages).any()),
            self.other.eq(self.may_be_other & ~self.foreign & ~(self.tag.valid & (self.tag.kind == TagKind.DATA))),
        ]
        entries = [Signal(self._entry, name=f"entry{i}") for i in range(self._ways)]
        m.d.sync += [
            second.valid.eq(self.begun & ~self.odd & ~self.other),
            second.up.eq(self.up),
            second.tick.eq(self.header.tick),
            second.end.eq(self.header.end),
            second.length.eq(self.header.length),
            second.count_tag.eq(self.header.tag),
            second.tag.eq(tag),
            second.slot.eq(tag.slot),
            second.generation.eq(tag.generation),
            second.tag.remaining.eq(tag.remaining - self.header.length),
            second.tag.valid.eq(tag.remaining > self.header.length),
            second.sure.eq(of_data & ~self.foreign),
            second.foreign.eq(self.foreign),
            second.several.eq(0),
            second.far.eq(0),
            *(kept.eq(way) for kept, way in zip(entries, self.ways, strict=True)),
        ]

        # --- stage 2 ------------------------------------------------------------------------------------------------
        chosen = Signal(self._entry)
        for i, entry in enumerate(entries):
            with m.If(self.choice[i]):
                m.d.comb += chosen.eq(entry)
        of_command = (chosen.kind != int(PageKind.SQ)) & (chosen.kind != int(PageKind.CQ)) & (chosen.kind != int(PageKind.IGNORE))
        m.d.sync += [third.eq(second), third.valid.eq(second.valid & ~self.odd)]
        with m.If(second.up):
            m.d.sync += [
                # The engine flags the command of a doubtful entry, and two commands that have the same page.
                third.sure.eq(self.hit & of_command & ~chosen.doubtful & ~self.claimed & ~second.foreign),
                third.several.eq(self.several),
                third.far.eq(self.far),
                third.slot.eq(chosen.slot),
                third.generation.eq(chosen.generation),
            ]

        # --- stage 3 ------------------------------------------------------------------------------------------------
        m.d.comb += self.slot_at.eq(third.slot)
        m.d.sync += [fourth.eq(third), fourth.valid.eq(third.valid & ~self.odd)]

        # --- stage 4 ------------------------------------------------------------------------------------------------
        slot = self.slot
        lives, first_known = Signal(), Signal()
        left_over = fourth.several & (slot.epoch != self.epoch)  # as in PAGE_SLOT
        m.d.sync += [
            fifth.eq(fourth),
            fifth.valid.eq(fourth.valid & ~self.odd),
            lives.eq(slot.state == SlotState.IN_FLIGHT),
            first_known.eq(slot.first_known),
        ]
        mine = Signal()
        same_life, own_page, left = Signal(), Signal(), Signal(LEFT)
        m.d.sync += left.eq(slot.left)
        stays = ~(fourth.far & slot.left.checked)
        m.d.sync += [
            same_life.eq(slot.generation == fourth.generation),
            own_page.eq(~fourth.up | (~left_over & stays & slot.takes & (slot.qid != 0))),
        ]

        # --- stage 5 ------------------------------------------------------------------------------------------------
        m.d.comb += [
            mine.eq(fifth.sure & own_page & (~fifth.up | (lives & same_life))),
            self.done.eq(fifth.valid & mine),
            self.odd.eq(fifth.valid & ~mine),
            self.up_done.eq(fifth.up),
            self.end.eq(fifth.end),
            self.see.eq(self.done & lives & same_life),
            self.see_slot.eq(fifth.slot),
            self.see_tick.eq(fifth.tick),
            self.count.eq(self.done & ~fifth.up),
            self.count_tag.eq(fifth.count_tag),
            self.counted.eq(fifth.tag),
            self.behind.eq(self.begun | second.valid | third.valid | fourth.valid),
        ]
        # What was read of a slot in the clock in which it is written is not defined, and what was read in the one before is older; those
        # wrote its first tick at the latest, and what was left then.
        seen = [Signal(data.StructLayout({"valid": 1, "slot": self._slot_bits, "left": LEFT}), name=f"seen{n}") for n in (1, 2)]
        same = [Signal(name=f"same{n}") for n in (1, 2)]  # slots
        m.d.sync += [
            seen[0].valid.eq(self.see),
            seen[0].slot.eq(fifth.slot),
            seen[0].left.eq(self.see_left),
            seen[1].eq(seen[0]),
            same[0].eq(fourth.slot == fifth.slot),
            same[1].eq(fourth.slot == seen[0].slot),
        ]
        written, before = Signal(2), Signal(LEFT)
        m.d.comb += [
            written.eq(Cat(one.valid & here for one, here in zip(seen, same, strict=True))),
            before.eq(Mux(written[0], seen[0].left.as_value(), Mux(written[1], seen[1].left.as_value(), left.as_value()))),
            self.see_first.eq(self.see & ~first_known & ~written.any()),
            self.see_left.checked.eq(before.checked),
            self.see_left.dws.eq(less(before, fifth.length)),
        ]
        return m
