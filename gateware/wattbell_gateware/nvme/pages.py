"""The map of host pages: data, PRP lists, range lists, SGL segments.

The map is skewed-associative: each way has its own hash. An entry is valid from its start to the end of its page (ways of pages, hashed by
page) or of its granule (ways of pieces, hashed by page and granule, 512 bytes). An address belongs to the entry with the
largest start at or below it. So any number of commands may share a page for short buffers or for PRP lists from a pool. ``insert`` puts
entries in. Entries stay when their command ends. An entry is stale when its slot has another generation or is not in flight; the next
access to a stale entry removes it.

The due length of a command (``lengths``) gives the number of its pages and the end of its list. A drive may read more of a list than the
command needs. Entries behind that end belong to old lists, and do not enter the map. While the length is
unknown, the map assumes blocks of 512 bytes. Entries beyond the need at 512 bytes are then doubtful, and never replace a sure entry. Data
that a doubtful entry finds sets the flag DATA_PARTIAL, and so does a doubtful entry of a page that another command has.
An entry may then be the last page of a transfer or a pointer to the next list. It stays both until its first use:

- a write by the drive makes it data;
- a read makes it a list, if the command brings data to the host;
- otherwise the first 8 bytes read decide: a page-aligned address below 2**52, not 0, makes it a list.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from wattbell_spec import wire as spec

from ..tlp import TlpKind
from . import tables
from .completions import Completions
from .descriptors import Descriptors
from .fetch import Fetch
from .hostbuffer import HostBuffer
from .insert import Insertion
from .interrupts import Interrupts
from .namespaces import Namespaces
from .pagemap import GRANULE_BITS, PageMap
from .places import Place
from .present import Present
from .queues import Queues
from .report import Report
from .settings import Settings
from .slots import Slots
from .tables import PageKind
from .tags import Tags

__all__ = ["Pages"]


class Pages:
    """Sends reads and writes of the drive, and completions of its reads, to the states of their page's content."""

    def __init__(
        self,
        *,
        tlp: Present,
        report: Report,
        settings: Settings,
        slots: Slots,
        queues: Queues,
        tags: Tags,
        map_: PageMap,
        insertion: Insertion,
        fetch: Fetch,
        completions: Completions,
        interrupts: Interrupts,
        namespaces: Namespaces,
        host_buffer: HostBuffer,
        descriptors: Descriptors,
        raw: stream.Interface,
        raw_room: Signal,
    ) -> None:
        self.tlp, self.report, self.settings, self.slots, self.queues, self.tags = tlp, report, settings, slots, queues, tags
        self.map, self.insertion, self.fetch, self.completions, self.interrupts = map_, insertion, fetch, completions, interrupts
        self.namespaces, self.host_buffer, self.descriptors = namespaces, host_buffer, descriptors
        self._raw, self._raw_room = raw, raw_room
        self._later: dict[tuple[int, int], Signal] = {}  # pairs of ways -> the second one's entry starts after the first one's
        self._pe, self._pe_hit = Signal(map_.layout), Signal()  # the entry that counts, if one does
        self._pe_way = Signal(map_.count)  # one-hot
        self._pe_several = Signal()  # more ways hold the page
        self._page_lives, self._page_identify = Signal(), Signal()  # `pe` is of a command in flight; of Identify
        self._page_namespace = Signal()  # of such a one that tells a namespace's format
        self._pe_far = Signal()  # `pe` is of data that ends before
        # Other entries that may hold the data, too, and the one of these in hand; whether one was of another command in flight.
        self._others, self._other, self._other_way = Signal(map_.count), Signal(map_.layout), Signal(map_.count)
        self._shared = Signal()
        self._empty = Signal()  # the TLP is a read or write of zero bytes. PCIe: First/Last DW Byte Enable Rules
        self._read_kind = Signal(tables.TagKind)
        self._list_low = Signal(32)
        self._list_high = Signal(32)
        self._list_read = Signal(14)
        self._list_left = Signal(11)
        self._list_sum = Signal(32)
        self._list_ranges = Signal(10)
        self._list_lba = Signal(40)
        self._raw_read = Signal(14)
        self._raw_left = Signal(11)
        self._raw_tells = Signal()  # it goes out
        for a in range(map_.count):
            for b in range(a + 1, map_.count):
                self._later[a, b] = Signal(name=f"later_{a}_{b}")

    def connect(self, m: Module) -> None:
        pagemap = self.map

        # Of the hits, the one with the largest start; of equal ones the first. Every way knows by itself whether it is that.
        ways, hits = pagemap.count, pagemap.hits
        for i in range(ways):
            beaten = [hits[j] & ~self._later[j, i] for j in range(i)] + [hits[j] & self._later[i, j] for j in range(i + 1, ways)]
            m.d.comb += pagemap.best[i].eq(hits[i] & ~Cat(beaten).any())

    def compare(self, m: Module) -> None:
        """Compare, a clock after the look-up: the ways that hold the page of ``tlp``, at or before its offset."""
        pagemap = self.map
        for number, entry in enumerate(pagemap.entries):
            hit = pagemap.same[number] & (entry.start <= self.tlp.offset)
            if number >= pagemap.pages:
                hit &= entry.start[GRANULE_BITS:] == self.tlp.offset[GRANULE_BITS:]
            of_data = hit & (entry.kind == int(PageKind.DATA))
            m.d.sync += [
                pagemap.hits[number].eq(hit),
                pagemap.of_data[number].eq(of_data),
                pagemap.covers[number].eq(of_data & ~entry.doubtful & (self.tlp.offset <= entry.index)),
            ]
        starts = [entry.start for entry in pagemap.entries]
        m.d.sync += [later.eq(starts[b] > starts[a]) for (a, b), later in self._later.items()]

    def is_far(self) -> Value:
        """Return, a clock after :meth:`compare`, whether the entry that counts is of sure data that ends before."""
        pagemap = self.map
        sure = Cat(~entry.doubtful for entry in pagemap.entries)
        return (pagemap.best & pagemap.of_data & ~pagemap.covers & sure).any()

    def _take_out(self, m: Module, ways: Value) -> None:
        """Empty, in the present state, the places of the TLP's page in ``ways``, one-hot."""
        pagemap, tlp = self.map, self.tlp
        m.d.comb += [
            pagemap.put_ways.eq(ways),
            pagemap.put_key.eq(tlp.key),
            pagemap.put_offset.eq(tlp.offset),
            pagemap.put_entry.valid.eq(0),
        ]

    def _miss(self, m: Module) -> None:
        """Handle, in the present state, a TLP in no page of the map."""
        header = self.tlp.header
        m.next = Place.DONE
        with m.If(header.kind == TlpKind.MRD):
            m.d.comb += self.report.unmatched.eq(1)
            m.next = Place.TAG_UNKNOWN
        with m.Elif((header.length == 1) & header.kept & ~header.bad):
            m.next = Place.INTERRUPT
        with m.Else():
            m.d.comb += self.report.unmatched.eq(1)

    def states(self, m: Module) -> None:
        """Build all states of this file."""
        self._select_states(m)
        self._slot_states(m)
        self._other_states(m)
        self._raw_state(m)
        self._completion_states(m)
        self._data_states(m)
        self._list_states(m)
        self._range_states(m)

    # --- whose page it is. NVMe: Physical Region Page Entry and List --------------------------------------------------

    def _select_states(self, m: Module) -> None:
        """Build PAGE_SELECT to PAGE_MISSED: the entry of the page, and the next state of the TLP."""
        tlp, report, settings, slots = self.tlp, self.report, self.settings, self.slots
        queues, tags, pagemap, completions = self.queues, self.tags, self.map, self.completions
        kind = tables.TagKind

        with m.State(Place.PAGE_SELECT):
            m.d.comb += [pagemap.choice.eq(pagemap.best), tlp.read_index.eq(tlp.start + Cat(1, ~tlp.header.address[3]))]
            self.interrupts.look_up(m)
            completions.take_queue(m)
            m.d.sync += [
                self._pe_hit.eq(pagemap.hits.any()),
                self._pe_way.eq(pagemap.choice),
                self._pe.eq(pagemap.chosen),
                self._pe_several.eq((pagemap.hits & (pagemap.hits - 1)) != 0),
                self._pe_far.eq((pagemap.best & pagemap.of_data & ~pagemap.covers).any() & ~pagemap.chosen.doubtful),
                self._shared.eq(0),
                self._empty.eq((tlp.header.length == 1) & (tlp.header.first_be == 0)),
            ]
            m.next = "PAGE_DECIDE"

        with m.State("PAGE_DECIDE"):
            tag = tags.r["entry"]
            is_read = tlp.header.kind == TlpKind.MRD
            queue = self._pe.slot[: queues.bits]
            m.d.comb += [
                slots.ra.eq(self._pe.slot),
                queues.shape.ra.eq(Cat(queue, self._pe.kind[0])),
                queues.sq_state.ra.eq(queue),
                queues.cq_state.ra.eq(queue),
            ]
            self.interrupts.compare(m)
            completions.take_status(m)
            m.d.sync += [queues.qid.eq(queue), completions.qid.eq(queue)]
            with m.If(is_read & tag.valid & (tag.kind != kind.UNKNOWN)):
                # The tag is used again though its completions did not all come.
                report.lost(m, spec.LossSource.TAGS)
                tags.reclaim(m, "PAGE_DECIDE", failed=False)
            with m.Elif(self._empty):
                m.next = Place.DONE
                with m.If(is_read):
                    m.next = Place.TAG_UNKNOWN
            # PCIe: Address Type. A translation request moves no data; addresses that are translated, or of a process, are of another space.
            with m.Elif(is_read & (tlp.header.at == 1)):
                m.next = Place.TAG_UNKNOWN
            with m.Elif(tlp.header.at[1]):
                m.d.comb += report.unmatched.eq(1)
                m.d.sync += settings.translated.eq(1)
                m.next = Place.DONE
                with m.If(is_read):
                    m.next = Place.TAG_UNKNOWN
                with m.If(tlp.header.at[0]):
                    m.next = "SPACE"
            with m.Elif(~self._pe_hit):
                with m.If(self.host_buffer.lent):
                    m.next = Place.HOST_BUFFER
                with m.Else():
                    self._miss(m)
            with m.Elif(self._pe.kind == int(PageKind.SQ)):
                m.next = Place.FETCH
                with m.If(~is_read | ~queues.sq_valid.bit_select(queue, 1)):
                    m.d.comb += report.unmatched.eq(1)
                    m.next = Place.DONE
            with m.Elif(self._pe.kind == int(PageKind.CQ)):
                m.next = Place.CQE
                with m.If(is_read):
                    m.d.comb += report.unmatched.eq(1)
                    m.next = Place.TAG_UNKNOWN
                with m.Elif(tlp.header.bad):
                    m.d.comb += report.unmatched.eq(1)
                    m.next = Place.DONE
            with m.Elif(self._pe.kind == int(PageKind.IGNORE)):
                m.next = Place.DONE
                with m.If(is_read):
                    m.next = Place.TAG_UNKNOWN
            with m.Else():
                m.next = "PAGE_SLOT"

        with m.State("SPACE"):  # PCIe: PASID TLP Prefix
            m.d.sync += settings.spaces.eq(1)
            report.once(m, spec.GuessReason.ADDRESS_SPACES, tlp.header.requester)
            m.next = Place.DONE
            with m.If(tlp.header.kind == TlpKind.MRD):
                m.next = Place.TAG_UNKNOWN

        with m.State(Place.PAGE_MISSED):
            self._miss(m)

    def _slot_states(self, m: Module) -> None:
        """Build PAGE_SLOT to PAGE_AGAIN: the command that has the page."""
        tlp, report, slots, tags, pagemap = self.tlp, self.report, self.slots, self.tags, self.map
        state, kind = tables.SlotState, tables.TagKind

        with m.State("PAGE_SLOT"):
            slot, read_kind = slots.r, self._read_kind
            m.d.comb += slots.ra.eq(self._pe.slot)
            with m.Switch(self._pe.kind):
                with m.Case(int(PageKind.DATA)):
                    m.d.sync += read_kind.eq(kind.DATA)
                with m.Case(int(PageKind.EITHER)):
                    m.d.sync += read_kind.eq(Mux(slot["opcode"][0], kind.EITHER, kind.LIST))
                with m.Case(int(PageKind.LIST)):
                    m.d.sync += read_kind.eq(kind.LIST)
                with m.Case(int(PageKind.RANGES)):
                    m.d.sync += read_kind.eq(kind.RANGES)
                with m.Case(int(PageKind.DESCRIPTORS)):
                    m.d.sync += read_kind.eq(kind.SEGMENT)
            # A command whose CQE was lost stays in flight: where another one claims the page too, that one is right.
            left_over = (slot["epoch"] != report.epoch) & self._pe_several
            m.d.sync += [
                # Behind what its command surely has, a doubtful entry's data may be of any command of unknown length.
                self._others.eq(Mux(self._pe.doubtful, pagemap.of_data, pagemap.covers) & ~self._pe_way),
                self._page_lives.eq((slot["state"] == state.IN_FLIGHT) & (slot["generation"] == self._pe.generation) & ~left_over),
                self._page_identify.eq((slot["qid"] == 0) & (slot["opcode"] == tables.IDENTIFY)),
                self._page_namespace.eq(self.namespaces.is_told(slot["nsid"], slot["lba"][0:8])),
            ]
            m.next = "PAGE_USED"

        with m.State("PAGE_USED"):
            tlp.may_finish(m)
            with m.If(~self._page_lives):
                self._take_out(m, self._pe_way)
                m.d.sync += [each.eq(each & ~self._pe_way) for each in (pagemap.hits, pagemap.of_data, pagemap.covers)]
                m.next = "PAGE_AGAIN"
            with m.Elif(self._others.any()):
                m.next = "PAGE_OTHERS"
            with m.Elif(tlp.header.kind == TlpKind.MRD):
                tags.put(
                    m,
                    tlp.header.tag,
                    valid=1,
                    kind=self._read_kind,
                    slot=self._pe.slot,
                    generation=self._pe.generation,
                    index=self._pe.index + ((tlp.offset - self._pe.start) >> 1),
                    place=tlp.offset >> 1,
                    remaining=tlp.header.length,
                )
                beyond = self._pe_far & slots.r["left"].checked
                # NVMe: Opcode, bits 1:0 (Data Transfer Direction). The drive reads no data of a command that brings data.
                of_another = (self._read_kind == kind.DATA) & ~slots.r["opcode"][0]
                doubtful = self._pe.doubtful & ((self._read_kind == kind.DATA) | (self._read_kind == kind.EITHER))
                with m.If(beyond | doubtful | of_another):
                    slots.flag(m, self._pe.slot, int(spec.CommandFlag.DATA_PARTIAL))
                tlp.finish(m)
            with m.Else():
                slots.see_data(m, self._pe.slot)
                of_another = ~slots.r["opcode"][1]
                with m.If(self._pe.doubtful | (self._pe_far & slots.r["left"].checked) | of_another):
                    slots.flag(m, self._pe.slot, int(spec.CommandFlag.DATA_PARTIAL))
                m.d.sync += [self._raw_read.eq(tlp.header.base), self._raw_left.eq(tlp.total)]
                m.next = Place.DONE
                with m.If(self._page_identify & ~tlp.header.bad):
                    fits = tlp.header.kept & (self._raw_room >= tlp.total)
                    m.d.comb += tlp.read_index.eq(tlp.header.base)
                    m.d.sync += self._raw_tells.eq(report.wanted & fits)
                    with m.If(report.wanted & ~fits):
                        report.lost(m, spec.LossSource.RAW)
                    with m.If(tlp.header.kept & (self._page_namespace | (report.wanted & fits))):
                        m.next = "RAW"
                    with m.If(self._page_namespace):
                        self.namespaces.begin(
                            m,
                            slot=self._pe.slot,
                            generation=self._pe.generation,
                            nsid=slots.r["nsid"],
                            place=tlp.offset - slots.r["prp1"][2:12],
                        )

        with m.State("PAGE_AGAIN"):
            m.d.comb += [tags.ra.eq(tlp.header.tag), tlp.read_index.eq(tlp.start + Cat(0, ~tlp.header.address[3]))]
            pagemap.look_up(m, tlp.key, tlp.offset)
            m.next = Place.PAGE_SELECT

    def _other_states(self, m: Module) -> None:
        """Build PAGE_OTHERS to PAGE_OTHERS_DONE: other commands in flight may have the same double word as data: all are flagged."""
        tlp, report, slots, pagemap = self.tlp, self.report, self.slots, self.map

        with m.State("PAGE_OTHERS"):
            pagemap.look_up(m, tlp.key, tlp.offset)
            m.next = "PAGE_OTHER"

        with m.State("PAGE_OTHER"):
            pagemap.keep(m)
            m.d.comb += pagemap.choice.eq(self._others & -self._others)
            m.d.sync += [
                self._other.eq(pagemap.chosen),
                self._other_way.eq(pagemap.choice),
                self._others.eq(self._others & (self._others - 1)),
            ]
            m.next = "PAGE_OTHER_READ"

        with m.State("PAGE_OTHER_READ"):
            pagemap.keep(m)
            m.d.comb += slots.ra.eq(self._other.slot)
            m.next = "PAGE_OTHER_SLOT"

        with m.State("PAGE_OTHER_SLOT"):
            pagemap.keep(m)
            slot, other = slots.r, self._other
            # A command from before a loss of TLPs is most likely over.
            lives = (slot["state"] == tables.SlotState.IN_FLIGHT) & (slot["generation"] == other.generation)
            with m.If(~lives | (slot["epoch"] != report.epoch)):
                self._take_out(m, self._other_way)
            with m.Elif((other.slot != self._pe.slot) & ((pagemap.covers & self._other_way).any() | ~slot["left"].checked)):
                slots.flag(m, other.slot, int(spec.CommandFlag.DATA_PARTIAL))
                m.d.sync += self._shared.eq(1)
            m.next = "PAGE_OTHERS_END"
            with m.If(self._others.any()):
                m.next = "PAGE_OTHER"

        with m.State("PAGE_OTHERS_END"):
            m.d.comb += slots.ra.eq(self._pe.slot)
            m.d.sync += [pagemap.of_data.eq(0), pagemap.covers.eq(0)]
            m.next = "PAGE_OTHERS_FLAG"

        with m.State("PAGE_OTHERS_FLAG"):
            with m.If(self._shared):
                slots.flag(m, self._pe.slot, int(spec.CommandFlag.DATA_PARTIAL))
            m.next = "PAGE_OTHERS_DONE"

        with m.State("PAGE_OTHERS_DONE"):
            m.d.comb += slots.ra.eq(self._pe.slot)
            m.next = "PAGE_SLOT"

    def _raw_state(self, m: Module) -> None:
        """Build RAW: the words of a TLP with data of an Identify."""
        tlp = self.tlp

        with m.State("RAW"):
            p = self._raw.payload
            m.d.comb += [
                self._raw.valid.eq(self._raw_tells),
                p.data.eq(tlp.word),
                p.last.eq(self._raw_left == 1),
                p.tick.eq(tlp.header.tick),
                p.dws.eq(tlp.total),
                tlp.read_index.eq(self._raw_read + 1),
            ]
            m.d.sync += [self._raw_read.eq(self._raw_read + 1), self._raw_left.eq(self._raw_left - 1)]
            with m.If(self._page_namespace & (self._raw_left <= tlp.header.length)):
                self.namespaces.take(m, tlp.word, last=self._raw_left == 1)
            with m.If(self._raw_left == 1):
                m.next = Place.DONE

    # --- completions of the drive's reads; ``tags.present`` is the tag's entry. PCIe: Completion Rules -----------------------------

    def _completion_states(self, m: Module) -> None:
        """Build COMPLETION, COMPLETION_COUNT and CPL. ``tlp.word`` is the first word of the payload."""
        tlp, report, slots, queues, tags = self.tlp, self.report, self.slots, self.queues, self.tags
        kind = tables.TagKind

        with m.State(Place.COMPLETION):
            m.d.comb += [slots.ra.eq(tags.present.slot), slots.link.ra.eq(tags.present.slot), queues.shape.ra.eq(tags.present.qid)]
            self.fetch.begin_sqe(m)
            with m.If(~tags.present.valid):
                report.lost(m, spec.LossSource.TAGS)
                m.next = Place.DONE
            with m.Elif(tags.present.kind == kind.UNKNOWN):
                m.next = "COMPLETION_COUNT"
            with m.Elif(tags.present.kind == kind.SQE):
                with m.If(tlp.header.length[0:4] != 0):
                    report.lost(m, spec.LossSource.TAGS)  # not cut at the 64-byte read completion boundary
                    m.next = Place.DONE
            with m.Else():
                m.next = "COMPLETION_DATA"

        with m.State("COMPLETION_COUNT"):
            tlp.may_finish(m)
            tags.put(
                m, tlp.header.tag, remaining=tags.present.remaining - tlp.header.length, valid=tags.present.remaining > tlp.header.length
            )
            tlp.finish(m)

        with m.State(Place.CPL):  # no data: the request failed
            with m.If(tags.present.valid):
                tags.reclaim(m, Place.DONE, failed=True)
            with m.Else():
                report.lost(m, spec.LossSource.TAGS)
                m.next = Place.DONE

    def _data_states(self, m: Module) -> None:
        """Build COMPLETION_DATA, EITHER_LOW and EITHER_HIGH: data, or a list of pages, ranges or descriptors."""
        tlp, report, slots, tags = self.tlp, self.report, self.slots, self.tags
        state, kind = tables.SlotState, tables.TagKind

        with m.State("COMPLETION_DATA"):
            slot = slots.r
            live = (slot["state"] == state.IN_FLIGHT) & (slot["generation"] == tags.present.generation)
            whole = ~tlp.header.length[0] & tlp.header.kept
            m.d.sync += [
                self._list_read.eq(tlp.start),
                self._list_left.eq(tlp.header.length),
                self._list_sum.eq(slot["blocks"]),
                self._list_ranges.eq(slot["ranges"]),
                self._list_lba.eq(slot["lba"]),
            ]
            m.d.comb += tlp.read_index.eq(tlp.start)
            m.next = "COMPLETION_COUNT"
            with m.If(live & (tags.present.kind == kind.DATA)):
                slots.see_data(m, tags.present.slot)
            with m.Elif(live & (tags.present.kind == kind.EITHER)):
                m.next = "EITHER_LOW"
                with m.If(~whole):
                    m.d.sync += tags.present.kind.eq(kind.DATA)
                    m.next = "COMPLETION_DATA"
            with m.Elif((live & (tags.present.kind == kind.SEGMENT)) | (tags.present.kind == kind.BUFFER_LIST)):
                with m.If((tlp.header.length[0:2] == 0) & ~tags.present.index[0] & tlp.header.kept):
                    self.descriptors.begin(m)
                with m.Elif(tags.present.kind == kind.BUFFER_LIST):
                    m.d.comb += report.unmatched.eq(1)
                with m.Else():
                    slots.flag(m, tags.present.slot, int(spec.CommandFlag.DATA_PARTIAL))
            with m.Elif(live & (tags.present.kind == kind.LIST) & whole):
                m.next = "LIST_LOW"
            with m.Elif(live & (tags.present.kind == kind.RANGES)):
                slots.see_data(m, tags.present.slot)
                with m.If((tlp.header.length[0:2] == 0) & ~tags.present.index[0] & tlp.header.kept & ~tlp.header.bad):
                    m.next = "RANGE_0"

        with m.State("EITHER_LOW"):
            m.d.comb += tlp.read_index.eq(self._list_read + 1)
            m.d.sync += self._list_low.eq(tlp.word)
            m.next = "EITHER_HIGH"

        with m.State("EITHER_HIGH"):
            like_a_page = (self._list_low[0:12] == 0) & (tlp.word[20:32] == 0) & ((self._list_low | tlp.word) != 0)
            m.d.sync += tags.present.kind.eq(Mux(like_a_page, kind.LIST, kind.DATA))
            m.next = "COMPLETION_DATA"

    def _list_states(self, m: Module) -> None:
        """Build LIST_LOW to LIST_NEXT: a PRP list. NVMe: Physical Region Page Entry and List."""
        tlp, settings, slots, tags = self.tlp, self.settings, self.slots, self.tags

        with m.State("LIST_LOW"):
            m.d.comb += [tlp.read_index.eq(self._list_read + 1), slots.ra.eq(tags.present.slot)]
            m.d.sync += self._list_low.eq(tlp.word)
            m.next = "LIST_HIGH"

        with m.State("LIST_HIGH"):
            m.d.sync += self._list_high.eq(tlp.word)
            m.next = "LIST_ENTRY"

        with m.State("LIST_ENTRY"):
            address = Cat(self._list_low, self._list_high)
            number = tags.present.index + 1  # of the page of the transfer, PRP1's being 0
            sure = slots.r["pages_sure"]
            ends_page = tags.present.place + 1 == settings.page_size() >> 1
            chains = ends_page & (number + 1 < sure)
            exact = slots.r["left"].checked
            is_data = ~chains & ~(ends_page & ~exact)
            last = Mux(number + 1 == sure, slots.r["last"], (settings.page_size() - 1)[:14])
            used = ~exact | (number < sure)  # beyond the need of a command of known length, entries are of old lists
            self.insertion.prepare(
                m,
                key=settings.page_key(address),
                kind=Mux(chains, int(PageKind.LIST), Mux(ends_page & ~exact, int(PageKind.EITHER), int(PageKind.DATA))),
                slot=tags.present.slot,
                generation=tags.present.generation,
                index=Mux(is_data, last, tags.present.index),
                doubtful=number >= sure,
            )
            m.d.sync += [
                tags.present.index.eq(tags.present.index + 1),
                tags.present.place.eq(tags.present.place + 1),
                self._list_read.eq(self._list_read + 2),
                self._list_left.eq(self._list_left - 2),
            ]
            m.next = "LIST_NEXT"
            with m.If(used & (address[2:] != 0) & (settings.page_offset(address) == 0)):
                self.insertion.insert(m, "LIST_NEXT")

        with m.State("LIST_NEXT"):
            m.d.comb += tlp.read_index.eq(self._list_read)
            m.next = "LIST_LOW"
            with m.If(self._list_left == 0):
                m.next = "COMPLETION_COUNT"

    def _range_states(self, m: Module) -> None:
        """Build RANGE_0 to RANGE_STORE: a range list. NVMe: Dataset Management - Range Definition.

        A range has 16 bytes: attributes, length in blocks, SLBA.
        """
        tlp, slots, tags = self.tlp, self.slots, self.tags

        with m.State("RANGE_0"):
            m.d.comb += tlp.read_index.eq(self._list_read + 1)
            m.next = "RANGE_1"

        with m.State("RANGE_1"):
            m.d.comb += tlp.read_index.eq(self._list_read + 2)
            with m.If((tags.present.index >> 1) < slots.r["ranges_expected"]):
                m.d.sync += [self._list_sum.eq(self._list_sum + tlp.word), self._list_ranges.eq(self._list_ranges + 1)]
            m.next = "RANGE_2"

        with m.State("RANGE_2"):
            m.d.comb += tlp.read_index.eq(self._list_read + 3)
            with m.If(tags.present.index == 0):
                m.d.sync += self._list_lba[0:32].eq(tlp.word)
            m.next = "RANGE_3"

        with m.State("RANGE_3"):
            m.d.comb += tlp.read_index.eq(self._list_read + 4)
            with m.If(tags.present.index == 0):
                m.d.sync += self._list_lba[32:40].eq(tlp.word)
            m.d.sync += [
                tags.present.index.eq(tags.present.index + 2),
                self._list_read.eq(self._list_read + 4),
                self._list_left.eq(self._list_left - 4),
            ]
            m.next = "RANGE_0"
            with m.If(self._list_left <= 4):
                m.next = "RANGE_STORE"

        with m.State("RANGE_STORE"):
            slots.write(
                m,
                tags.present.slot,
                blocks=self._list_sum,
                lba=self._list_lba,
                ranges=self._list_ranges,
                flags=slots.r["flags"],
                pages_sure=slots.r["pages_sure"],
            )
            m.next = "COMPLETION_COUNT"
