"""Descriptors of 16 bytes: of scatter gather lists (NVMe: SGL Descriptor), and of the host memory buffer's list."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from wattbell_spec import wire as spec

from . import tables
from .hostbuffer import HostBuffer
from .insert import Insertion
from .present import Present
from .report import Report
from .settings import Settings
from .slots import Slots
from .store import Subroutine
from .tables import PageKind
from .tags import Tags

__all__ = ["Descriptors"]

_DATA_BLOCK, _BIT_BUCKET, _SEGMENT, _LAST_SEGMENT = range(4)
"""SGL descriptor types; sub type 0 means an address."""
_BLOCK_BITS, _SEGMENT_BITS = 25, 16
"""A block of 2**_BLOCK_BITS bytes, and a segment of 2**_SEGMENT_BITS, or more, is not followed."""


class Descriptors:
    """Takes an SGL descriptor of a command (:meth:`describe`), and the descriptors that a completion brings (:meth:`begin`).

    A data block enters the page map as data, a segment as descriptors. A bit bucket discards data for the host, so less is due. The
    command of any other descriptor has the flag DATA_PARTIAL. A descriptor takes 7 clocks, and the entries of its pages.

    Attributes
    ----------
    words : the descriptor.
    slot, generation : the command.
    """

    def __init__(
        self,
        *,
        tlp: Present,
        report: Report,
        settings: Settings,
        slots: Slots,
        tags: Tags,
        insertion: Insertion,
        host_buffer: HostBuffer,
    ) -> None:
        self.tlp, self.report, self.settings, self.slots, self.tags = tlp, report, settings, slots, tags
        self.insertion, self.host_buffer = insertion, host_buffer
        self.words = [Signal(32, name=f"descriptor_{i}") for i in range(4)]
        self.slot, self.generation = Signal(slots.bits), Signal(16)
        self._read = Signal(14)
        self._left = Signal(11)
        self._number = Signal(2)
        self._describe = Subroutine("DESCRIBE")

    def describe(self, m: Module, back: str) -> None:
        """Take the descriptor `words` of the command in `slot`, as both are in the next clock; go on at `back`."""
        self._describe.call(m, back)

    def begin(self, m: Module) -> None:
        """Begin a completion with descriptors in the present state; its tag's entry is ``tags.present``."""
        m.d.sync += [
            self._read.eq(self.tlp.start),
            self._left.eq(self.tlp.header.length),
            self._number.eq(0),
            self.slot.eq(self.tags.present.slot),
            self.generation.eq(self.tags.present.generation),
        ]
        m.d.comb += self.tlp.read_index.eq(self.tlp.start)
        m.next = "DESCRIPTOR_WORD"

    def states(self, m: Module, *, done: str) -> None:
        """`done`: the state behind a completion."""
        tlp, report, slots, tags, buffer = self.tlp, self.report, self.slots, self.tags, self.host_buffer
        words, index = self.words, tags.present.index
        address, size = Cat(words[0], words[1]), words[2]

        with m.State("DESCRIPTOR_WORD"):
            m.d.comb += tlp.read_index.eq(self._read + 1)
            m.d.sync += [self._read.eq(self._read + 1), self._number.eq(self._number + 1), words[3].eq(tlp.word)]
            m.d.sync += [words[number].eq(words[number + 1]) for number in range(3)]
            with m.If(~index[tables.HALF_BITS - 1]):
                m.next = done  # behind the end of the segment or list
            with m.Elif(self._number == 3):
                m.next = "DESCRIPTOR"

        with m.State("DESCRIPTOR"):
            m.d.sync += [index.eq((index + 2)[: tables.HALF_BITS]), self._left.eq(self._left - 4)]
            with m.If(tags.present.kind != tables.TagKind.BUFFER_LIST):
                self.describe(m, "DESCRIPTOR_NEXT")
            with m.Else():
                buffer.begin_pages(m, address, size)
                m.next = "DESCRIPTOR_NEXT"
                with m.If(buffer.is_long(size)):
                    report.lost(m, spec.LossSource.PAGES)
                with m.Elif(size != 0):
                    buffer.add(m, "DESCRIPTOR_NEXT")

        with m.State("DESCRIPTOR_NEXT"):
            m.d.comb += tlp.read_index.eq(self._read)
            m.next = "DESCRIPTOR_WORD"
            with m.If(self._left == 0):
                m.next = done

        # --- DESCRIBE. NVMe: SGL Data Block, SGL Bit Bucket, SGL Segment and SGL Last Segment descriptor ------------------------
        with m.State("DESCRIBE"):
            kind, segment = words[3][28:32], Signal(name="is_segment")
            m.d.comb += segment.eq((kind == _SEGMENT) | (kind == _LAST_SEGMENT))
            m.d.comb += slots.ra.eq(self.slot)
            self.insertion.prepare(
                m,
                key=self.settings.page_key(address),
                start=self.settings.page_offset(address),
                slot=self.slot,
                generation=self.generation,
            )
            m.d.sync += self.insertion.left.eq(size[2:_BLOCK_BITS])
            with m.If(segment):
                m.d.sync += [
                    self.insertion.entry.kind.eq(int(PageKind.DESCRIPTORS)),
                    self.insertion.entry.index.eq(tables.first_half(size[2:_SEGMENT_BITS])),
                ]
            short, whole = (size[_BLOCK_BITS:] == 0) & (size[:2] == 0), address[:2] == 0
            m.next = "DESCRIBE_ODD"
            with m.If(words[3][24:28] != 0):
                pass
            with m.Elif((kind == _DATA_BLOCK) & short & whole):
                m.next = "DESCRIBE_BLOCK"
            with m.Elif((kind == _BIT_BUCKET) & short):
                m.next = "DESCRIBE_BUCKET"
            with m.Elif(segment & (size[:4] == 0) & (size[_SEGMENT_BITS:] == 0) & (address[:3] == 0)):
                m.next = "DESCRIBE_BLOCK"

        with m.State("DESCRIBE_BLOCK"):
            with m.If(self.insertion.left == 0):
                m.next = "DESCRIBED"
            with m.Else():
                self.insertion.buffer(m, "DESCRIBED")

        with m.State("DESCRIBE_BUCKET"):  # `slots` reads the command
            left = Signal(tables.LEFT, name="left_less")
            m.d.comb += [left.eq(slots.r["left"]), left.dws.eq(tables.less(slots.r["left"], size[2:_BLOCK_BITS]))]
            with m.If(slots.r["opcode"][0:2] == 2):
                slots.write(m, self.slot, last_data=slots.r["last_data"], left=left)
            m.next = "DESCRIBED"

        with m.State("DESCRIBE_ODD"):  # so it does here
            slots.flag(m, self.slot, int(spec.CommandFlag.DATA_PARTIAL))
            m.next = "DESCRIBED"

        with m.State("DESCRIBED"):
            self._describe.leave(m)
