"""Reads of submission queue entries by the drive, and the completions that bring them."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from wattbell_spec import wire as spec

from . import tables
from .descriptors import Descriptors
from .hostbuffer import HostBuffer
from .identify import Identify
from .insert import Insertion
from .lengths import Lengths
from .namespaces import Namespaces
from .places import Place
from .present import Present
from .queues import Queues
from .records import Records
from .report import Report
from .search import Search
from .settings import Settings
from .slots import Slots
from .tables import PageKind
from .tags import Tags

__all__ = ["Fetch"]

Flag = spec.CommandFlag


class _Fields:
    """Fields of the SQE in `words`. NVMe: Submission Queue Entry - Command Format.

    admin : it is of the admin queue.
    opcode, cid, nsid, prp1, prp2 : fields of the SQE.
    pointer : PSDT: 0 PRPs, 1 and 2 an SGL.
    nlb : blocks of a command with SLBA and NLB.
    page_shift : bits of an offset in a page.
    offset : bytes from the start of PRP1's page.
    is_lba : an opcode with SLBA and NLB.
    is_dsm : Dataset Management.
    lends : Set Features names a list of the host memory buffer's descriptors.
    points : the data pointer has data behind it.
    """

    def __init__(self, words: list[Signal], settings: Settings, *, admin: Value) -> None:
        self.admin = admin
        self.opcode, self.cid, self.pointer = words[0][0:8], words[0][16:32], words[0][14:16]
        self.nsid, self.prp1, self.prp2 = words[1], Cat(words[6], words[7]), Cat(words[8], words[9])
        self.nlb = words[12][0:16] + 1
        self.page_shift = settings.mps + 12
        self.offset = Cat(self.prp1[0:2], settings.page_offset(self.prp1))[:16]
        self.is_lba = ~admin & (sum(self.opcode == lba for lba in tables.LBA) != 0)
        self.is_dsm = ~admin & (self.opcode == tables.DSM)
        without = (tables.CREATE_SQ, tables.CREATE_CQ, tables.DOORBELL_BUFFER_CONFIG)
        no_data = admin & ((self.opcode == without[0]) | (self.opcode == without[1]) | (self.opcode == without[2]))
        self.lends = admin & (self.opcode == tables.SET_FEATURES) & (words[10][0:8] == tables.HOST_BUFFER_FID) & words[11][0]
        self.points = (self.opcode[0:2] != 0) & ~no_data


class Fetch:
    """The states of both: FETCH, and the completions with SQEs (:meth:`begin_sqe`)."""

    def __init__(
        self,
        *,
        tlp: Present,
        report: Report,
        settings: Settings,
        identify: Identify,
        slots: Slots,
        search: Search,
        records: Records,
        queues: Queues,
        tags: Tags,
        insertion: Insertion,
        namespaces: Namespaces,
        lengths: Lengths,
        host_buffer: HostBuffer,
        descriptors: Descriptors,
    ) -> None:
        self.tlp, self.report, self.settings, self.identify, self.slots = tlp, report, settings, identify, slots
        self.search, self.records, self.queues, self.tags, self.insertion = search, records, queues, tags, insertion
        self.namespaces, self.lengths, self.host_buffer, self.descriptors = namespaces, lengths, host_buffer, descriptors
        self._fetch_index = Signal(16)
        self._fetch_left = Signal(11)
        self._fetch_real = Signal(11)
        self._fetch_first = Signal(slots.bits)  # first slot of this read's chain
        self._fetch_last = Signal(slots.bits)
        self._fetch_ahead = Signal(17)  # announced and not yet fetched, before this read
        self._fetch_window = Signal(17)  # announced and not yet fetched, in the whole queue
        self._fetch_windowed = Signal()  # where that begins is known
        self._fetch_offset = Signal(22)  # of the read in its queue, in entries
        self._fetch_end = Signal(16)  # place behind it
        self._fetch_place = Signal(3)  # of the read's first chunk of 64 bytes in its SQE
        self._fetch_early = Signal()  # no doorbell can have been missed: what is beyond the tail is read again
        self._fetch_match = Signal()  # the oldest announced command stands where the read does
        self._fetch_passes = Signal()  # it does not, and whether it is passed over is not known yet
        self._ahead_of_head, self._distance = Signal(18), Signal(18)  # from that one to the tail, and to here; modulo a clock later
        self._fetch_flags = Signal(8)
        self._sqe_beat = Signal(range(8))
        self._sqe_words_left = Signal(11)  # words of this TLP that are not yet consumed
        self._sqe_start = Signal(14)  # payload index of the present SQE
        self._sqe = [Signal(32, name=f"sqe_{i}") for i in range(tables.USED_WORDS)]
        self._sqe_index, self._sqe_rung = Signal(16), Signal()  # its place in its queue; its slot has a doorbell
        self._sqe_generation, self._sqe_flags = Signal(16), Signal(8)  # of its slot, as it was before
        self._sqe_held = Signal()  # it was a command without a slot
        self._sqe_next = Signal(slots.bits)
        self._sqe_chain = Signal()  # a command in flight may have this CID
        self._sqe_fits, self._sqe_lives = Signal(), Signal()  # it is the one that was fetched; at least it is being fetched
        self._sqe_starts = Signal()  # it is the first chunk of an SQE
        self._sqe_ends = Signal()  # it is the last one of this TLP
        self._sqe_sum_sure, self._sqe_sum_most = Signal(34), Signal(34)  # bytes from the start of PRP1's page
        self._sqe_bounded = Signal()  # these two are known
        self._sqe_due = Signal(tables.LEFT)  # of the data, without the metadata
        self._sqe_list_sure, self._sqe_list_most = Signal(17), Signal(17)  # entries of the list at PRP2
        self._sqe_lba = Signal()  # an opcode with SLBA and NLB
        self._sqe_dsm = Signal()
        self._sqe_pages_sure = Signal(17)
        self._sqe_pages_most = Signal(17)
        self._sqe_end1, self._sqe_most1 = Signal(27), Signal(27)  # double words in its page: behind what PRP1's part surely has, may have
        self._sqe_end2, self._sqe_most2 = Signal(27), Signal(27)  # the same of the list at PRP2
        self._sqe_last2 = Signal(14)  # last double word of the data in PRP2's page
        self._sqe_has_data = Signal()
        self._sqe_has_sgl = Signal()  # its data pointer is an SGL descriptor
        self._sqe_lends = Signal()  # it names a list of the host memory buffer's descriptors
        self._sqe_prp2_kind = Signal(3)
        self._sqe_metadata = Signal(tables.METADATA_BITS)  # double words of it in a buffer of its own
        self._marker_tick = Signal(64)  # when the present SQE was announced
        self._fields = _Fields(self._sqe, settings, admin=tags.present.qid == 0)
        self._page_size = settings.page_size()

    def _beats(self) -> int:
        """Return the beats of an SQE up to the last word in use."""
        return (3 + tables.USED_WORDS - 1) // self.tlp.lanes - 3 // self.tlp.lanes + 1

    def _take_beat(self, m: Module, number: int) -> None:
        """Take, in the present state, one beat of the SQE from ``tlp.beat``, and go on to the next.

        Word 0 of the SQE is word 3 of its TLP.
        """
        tlp = self.tlp
        for word in range(tables.USED_WORDS):
            beat, lane = divmod(3 + word, tlp.lanes)
            if beat - 3 // tlp.lanes == number:
                m.d.sync += self._sqe[word].eq(tlp.beat.word_select(lane, 32))
        m.d.sync += self._sqe_beat.eq(number + 1)
        m.d.comb += tlp.read_index.eq(self._sqe_start + (number + 1) * tlp.lanes)

    def begin_sqe(self, m: Module) -> None:
        """Begin an SQE, in COMPLETION: ``tlp.word`` is its first word, and slot, link and queue of the tag are read."""
        tlp = self.tlp
        self._take_beat(m, 0)
        m.d.comb += tlp.read_index.eq(tlp.start + tlp.lanes)
        m.d.sync += [self._sqe_start.eq(tlp.start), self._sqe_words_left.eq(tlp.header.length)]
        m.next = "SQE_BEAT"

    def states(self, m: Module) -> None:
        """Build all states of this file."""
        self._read_states(m)
        self._entry_states(m)
        self._passing_states(m)
        self._beat_states(m)
        self._check_states(m)
        self._store_state(m)
        self._length_states(m)
        self._second_pointer_states(m)
        self._lending_states(m)
        self._end_states(m)

    # --- FETCH: a read in a page of SQ ``queues.qid``. NVMe: Command Submission and Completion Mechanism ---------------------

    def _read_states(self, m: Module) -> None:
        """Build FETCH to FETCH_WINDOW: the place of the read in its queue."""
        tlp, report, settings, slots, queues, tags = self.tlp, self.report, self.settings, self.slots, self.queues, self.tags

        with m.State(Place.FETCH):  # `shape` and `sq_state` read their entries
            sq = queues.sq_state.r["entry"]
            m.d.comb += [slots.ra.eq(sq.head), slots.link.ra.eq(sq.head)]
            m.d.sync += [
                queues.sq.eq(sq),
                queues.size.eq(queues.shape.r["size"]),
                self._fetch_offset.eq(tlp.header.address[6:28] - queues.shape.r["base"][6:28]),
                self._fetch_left.eq(tlp.header.length >> 4),
                self._fetch_real.eq(0),
                self._fetch_place.eq(0),
            ]
            m.next = "FETCH_BEGIN"
            with m.If(settings.more_chunks(queues.qid).any()):
                m.next = "FETCH_STRIDE"

        with m.State("FETCH_STRIDE"):  # from chunks of 64 bytes to SQEs of several. NVMe: CC (IOSQES)
            more = settings.more_chunks(queues.qid)
            bits = more[0] + more[1] + more[2]
            place = self._fetch_offset[:3] & more
            starts = (((place + self._fetch_left + more) >> bits) - ((place + more) >> bits))[:11]
            m.d.sync += [
                self._fetch_place.eq(place),
                self._fetch_left.eq(starts),
                self._fetch_offset.eq((self._fetch_offset + more) >> bits),
            ]
            m.next = "FETCH_BEGIN"
            with m.If((starts == 0) & (tlp.header.address[2:6] == 0) & (tlp.header.length[0:4] == 0)):
                m.next = Place.TAG_UNKNOWN  # the end of an SQE

        with m.State("FETCH_BEGIN"):
            index = self._fetch_offset[:16]
            ahead, end = queues.modulo(queues.sq.tail - index), index + self._fetch_left
            m.d.sync += [
                self._fetch_window.eq(queues.modulo(queues.sq.tail - queues.sq.fetch)),
                self._fetch_windowed.eq(queues.sq.fetch_known & (slots.unheld == 0)),
                self._fetch_index.eq(index),
                self._fetch_ahead.eq(Mux(queues.sq.tail_known, ahead, 0)),
                self._fetch_end.eq(Mux(end >= queues.size, end - queues.size, end)),
                self._fetch_match.eq(slots.r["index"] == index),
                self._fetch_passes.eq(1),
                self._fetch_early.eq(
                    queues.sq.tail_known & queues.sq.rung & (queues.sq.epoch == report.epoch) & ~(settings.shadow & (queues.qid != 0))
                ),
                tags.present.eq(0),
                tags.present.valid.eq(1),
                tags.present.kind.eq(tables.TagKind.SQE),
                tags.present.qid.eq(queues.qid),
                tags.present.index.eq(index),
                tags.present.place.eq(self._fetch_place),
                tags.present.remaining.eq(tlp.header.length),
                self._fetch_flags.eq(Mux(settings.shadow & (queues.qid != 0), int(Flag.SHADOW), int(Flag.GUESS))),
            ]
            in_parts, beyond = (tlp.header.address[2:6] != 0) | (tlp.header.length[0:4] != 0), self._fetch_offset >= queues.size
            with m.If(in_parts | beyond):
                m.d.comb += report.unmatched.eq(1)
                m.next = Place.TAG_UNKNOWN
                with m.If(~beyond):
                    report.once(m, spec.GuessReason.SQE_PARTS, queues.qid)
            with m.Else():
                with m.If(~settings.function_known):
                    settings.follow(m, tlp.header.requester)
                # No SQE is larger than 64 bytes if the drive reads an odd number of these, or begins at an odd one.
                with m.If((queues.qid != 0) & (index[0] | self._fetch_left[0])):
                    m.d.sync += settings.unsized.eq(0)
                m.next = "FETCH_WINDOW"

        with m.State("FETCH_WINDOW"):  # beyond the tail, or before what was fetched last: read ahead, or again
            with m.If(self._fetch_early & self._fetch_windowed & (self._fetch_ahead > self._fetch_window)):
                m.d.sync += self._fetch_ahead.eq(0)
            m.next = "FETCH_ENTRY"

    def _entry_states(self, m: Module) -> None:
        """Build FETCH_ENTRY and FETCH_NEXT: a slot for each SQE of the read."""
        tlp, slots, queues, tags = self.tlp, self.slots, self.queues, self.tags
        state = tables.SlotState

        with m.State("FETCH_ENTRY"):  # `slots` and `link` read the head of the announced list
            tlp.may_finish(m)
            match = (queues.sq.count != 0) & self._fetch_match
            early = self._fetch_early & (self._fetch_ahead == 0)
            slot, taken = Mux(match, queues.sq.head, slots.free), match | (slots.has_room(queues.qid) & ~early)
            sq, after = Signal(queues.SQ, name="fetch_sq"), Signal(16, name="fetch_after")
            m.d.comb += [
                sq.eq(queues.sq),
                after.eq(queues.after(self._fetch_index)),
            ]
            with m.If(~early | match):
                m.d.comb += [sq.fetch.eq(after), sq.fetch_known.eq(1)]
            with m.If(queues.sq.tail_known & (self._fetch_left > self._fetch_ahead) & ~self._fetch_early):
                # A doorbell was missed, or there was none (shadow doorbells).
                m.d.comb += sq.tail.eq(self._fetch_end)
            m.d.sync += queues.sq.eq(sq)
            with m.If((queues.sq.count != 0) & ~match & self._fetch_passes):
                m.next = "FETCH_DIFFERS"
            with m.Else():
                m.d.sync += [self._fetch_left.eq(self._fetch_left - 1), self._fetch_index.eq(after)]
                with m.If(match):
                    slots.write(m, queues.sq.head, state=state.FETCHING, fetch=None)
                    m.d.comb += [sq.head.eq(slots.link.r["next"]), sq.count.eq(queues.sq.count - 1)]
                    m.d.comb += [slots.ra.eq(slots.link.r["next"]), slots.link.ra.eq(slots.link.r["next"])]
                with m.Elif(taken):
                    held = (self._fetch_ahead != 0) & (slots.unheld != 0)
                    slots.allocate(
                        m, state=state.FETCHING, qid=queues.qid, index=self._fetch_index, flags=self._fetch_flags, fetch=None, held=held
                    )
                    with m.If(self._fetch_ahead != 0):
                        slots.hold(m)
                with m.Elif(early):
                    m.d.sync += self.settings.reads_ahead.eq(1)
                with m.Elif(self._fetch_ahead == 0):
                    # It had no doorbell. Otherwise it counts since its doorbell found no slot.
                    slots.unhold(m)
                with m.If(self._fetch_ahead != 0):
                    m.d.sync += self._fetch_ahead.eq(self._fetch_ahead - 1)
                with m.If(taken):
                    with m.If(self._fetch_real == 0):
                        m.d.sync += self._fetch_first.eq(slot)
                    with m.Else():
                        slots.link.write(m, self._fetch_last, next=slot)
                    m.d.sync += [self._fetch_last.eq(slot), self._fetch_real.eq(self._fetch_real + 1)]
                m.next = "FETCH_NEXT"
                with m.If(self._fetch_left == 1):
                    tags.put(m, tlp.header.tag, slot=Mux(self._fetch_real == 0, slot, self._fetch_first), left=self._fetch_real + taken)
                    queues.sq_state.write(m, queues.qid, entry=sq)
                    tlp.finish(m)

        with m.State("FETCH_NEXT"):
            m.d.sync += [self._fetch_match.eq(slots.r["index"] == self._fetch_index), self._fetch_passes.eq(1)]
            m.next = "FETCH_ENTRY"

    def _passing_states(self, m: Module) -> None:
        """Build FETCH_DIFFERS to FETCH_PASSED: the read begins behind the oldest announced command."""
        slots, queues = self.slots, self.queues

        with m.State("FETCH_DIFFERS"):
            m.d.sync += [self._ahead_of_head.eq(queues.sq.tail - slots.r["index"]), self._distance.eq(self._fetch_index - slots.r["index"])]
            m.next = "FETCH_MODULO"

        with m.State("FETCH_MODULO"):
            m.d.sync += [each.eq(queues.modulo(each.as_signed())) for each in (self._ahead_of_head, self._distance)]
            m.next = "FETCH_PASSED"

        with m.State("FETCH_PASSED"):
            m.d.sync += self._fetch_passes.eq(0)
            m.next = "FETCH_ENTRY"
            with m.If(self._distance < self._ahead_of_head):
                # The read of this one was not seen. Its CQE will be a record without SQE.
                slots.let_go(m, queues.sq.head)
                m.d.sync += [queues.sq.head.eq(slots.link.r["next"]), queues.sq.count.eq(queues.sq.count - 1)]
                m.d.comb += [slots.ra.eq(slots.link.r["next"]), slots.link.ra.eq(slots.link.r["next"])]
                m.next = "FETCH_NEXT"

    # --- SQE: a completion with SQEs; ``tags.present`` is its tag's entry. NVMe: Submission Queue Entry - Command Format; PRP -------

    def _beat_states(self, m: Module) -> None:
        """Build SQE_FIRST and SQE_BEAT: a beat of an SQE a clock.

        A completion is cut at 64 bytes, its header has three double words, and its beats stand in the ring unchanged. Every SQE
        therefore lies in the same lanes.
        """
        settings, slots, queues, search, tags = self.settings, self.slots, self.queues, self.search, self.tags
        state = tables.SlotState

        with m.State("SQE_FIRST"):  # of those behind the first in its TLP
            m.d.comb += [slots.ra.eq(tags.present.slot), slots.link.ra.eq(tags.present.slot), queues.shape.ra.eq(tags.present.qid)]
            self._take_beat(m, 0)
            m.next = "SQE_BEAT"

        with m.State("SQE_BEAT"):
            with m.Switch(self._sqe_beat):
                for number in range(1, self._beats()):
                    with m.Case(number):
                        self._take_beat(m, number)
            with m.Switch(self._sqe_beat):
                with m.Case(1):  # the slot is read, and the CID is there
                    search.look_for(m, tags.present.qid, self._sqe[0][16:32])
                    starts = (tags.present.place[:3] & settings.more_chunks(tags.present.qid)) == 0
                    alive = (slots.r["state"] == state.FETCHING) & (slots.r["qid"] == tags.present.qid)
                    m.d.sync += [
                        search.qid.eq(tags.present.qid),
                        search.cid.eq(self._sqe[0][16:32]),
                        self._sqe_index.eq(tags.present.index),
                        self._sqe_rung.eq(tables.known(slots.r["doorbell"])),
                        self._sqe_generation.eq(slots.r["generation"]),
                        self._sqe_flags.eq(slots.r["flags"]),
                        self._sqe_held.eq(slots.r["held"]),
                        self._sqe_next.eq(slots.link.r["next"]),
                        queues.size.eq(queues.shape.r["size"]),
                        self._sqe_starts.eq(starts),
                        self._sqe_lives.eq(alive | ~starts),
                        self._sqe_fits.eq(alive & starts & (tags.present.left != 0) & (slots.r["index"] == tags.present.index)),
                        # Marker and POWER_STATE events need ticks of this slot before the search moves on.
                        self._marker_tick.eq(Mux(tables.known(slots.r["doorbell"]), slots.r["doorbell"], slots.r["fetch"])),
                        self._sqe_ends.eq((self._sqe_words_left <= 16) | (tags.present.remaining <= 16)),
                    ]
                with m.Case(2):
                    search.begin(m)
                    self.namespaces.look_up(m, self._sqe[1])
                    m.d.sync += [
                        self._sqe_chain.eq(search.starts()),
                        tags.present.index.eq(Mux(self._sqe_starts, queues.after(tags.present.index), tags.present.index)),
                        tags.present.place.eq(tags.present.place + 1),
                        tags.present.remaining.eq(tags.present.remaining - 16),
                        tags.present.valid.eq(tags.present.remaining > 16),
                        self._sqe_words_left.eq(self._sqe_words_left - 16),
                        self._sqe_start.eq(self._sqe_start + 16),
                    ]
                with m.Case(3):
                    self.namespaces.look_on(m, self._sqe[1])
            with m.If(self._sqe_beat == self._beats() - 1):
                m.next = "SQE_CHECK"

    def _check_states(self, m: Module) -> None:
        """Build SQE_CHECK to SQE_AGAIN: the kind of the command; an older command with its CID."""
        slots, search, tags, sqe = self.slots, self.search, self.tags, self._fields

        with m.State("SQE_CHECK"):
            self.lengths.work_out(m, self._sqe, sqe.admin)
            # While the length of a block is unknown, it has 512 to 4096 bytes.
            m.d.sync += [
                self._sqe_end1.eq(sqe.offset[2:] + (sqe.nlb << 7)),
                self._sqe_most1.eq(sqe.offset[2:] + (sqe.nlb << 10)),
                self._sqe_sum_sure.eq(sqe.offset + (sqe.nlb << 9)),
                self._sqe_sum_most.eq(sqe.offset + (sqe.nlb << 12)),
                self._sqe_lba.eq(sqe.is_lba),
                self._sqe_dsm.eq(sqe.is_dsm),
                self._sqe_has_data.eq(sqe.points & (sqe.pointer == 0) & (sqe.prp1 != 0)),
                self._sqe_has_sgl.eq(sqe.points & (sqe.pointer[0] ^ sqe.pointer[1])),
                self._sqe_lends.eq(sqe.lends),
            ]
            m.next = "SQE_STORE"
            with m.If(self._sqe_fits):
                with m.If(self._sqe_chain):
                    search.walk(m, "SQE_FOUND")
            with m.Else():
                with m.If(~self._sqe_lives):
                    m.d.sync += tags.present.left.eq(0)  # its queue was deleted meanwhile
                m.next = "SQE_NEXT"
                with m.If(self._sqe_starts & self._sqe_chain):
                    search.walk(m, "SQE_REREAD")

        # The drive reads the SQE of a command in flight again. Which of both reads it uses is not known.
        again = (slots.r["index"] == self._sqe_index) & (slots.r["epoch"] == self.report.epoch)
        with m.State("SQE_REREAD"):
            m.next = "SQE_NEXT"
            with m.If(search.goes_on()):
                search.on(m)
            with m.Elif(search.found & again):
                slots.flag(m, search.slot, int(Flag.GUESS))
                m.d.sync += self.settings.reads_ahead.eq(1)

        with m.State("SQE_FOUND"):
            m.next = "SQE_STORE"
            with m.If(search.goes_on()):
                search.on(m)
            with m.Elif(search.found & ~self._sqe_rung & again):
                slots.flag(m, search.slot, int(Flag.GUESS))
                m.d.sync += self.settings.reads_ahead.eq(1)
                m.next = "SQE_AGAIN"
            with m.Elif(search.found):
                # The CID is used again before its CQE was seen: that CQE was missed.
                search.unlink(m)
                self.records.begin(m, search.slot, "SQE_STORE", aborted=1, reused=1)

        with m.State("SQE_AGAIN"):
            slots.release(m, tags.present.slot)
            with m.If(self._sqe_held):
                slots.unhold(m)  # that one still has none
            m.d.sync += [tags.present.slot.eq(self._sqe_next), tags.present.left.eq(tags.present.left - 1)]
            m.next = "SQE_NEXT"

    def _store_state(self, m: Module) -> None:
        """Build SQE_STORE: the command into its slot."""
        tlp, settings, identify, slots, search = self.tlp, self.settings, self.identify, self.slots, self.search
        tags, insertion, sqe = self.tags, self.insertion, self._fields

        with m.State("SQE_STORE"):
            tlp.may_finish(m)
            m.d.comb += identify.known.eq(sqe.admin)
            with m.If(sqe.admin & (sqe.opcode == tables.GET_FEATURES) & (self._sqe[10][0:8] == tables.MARKER_FID)):
                source = int(spec.MarkerSource.IN_BAND)
                self.report.event(m, spec.EventType.MARKER, tick=self._marker_tick, arg8=source, arg32=self._sqe[11])
            with m.If(sqe.admin & (sqe.opcode == tables.IDENTIFY) & (identify.count != 31)):
                m.d.sync += identify.count.eq(identify.count + 1)
            with m.If(sqe.admin & (sqe.opcode == tables.DOORBELL_BUFFER_CONFIG)):
                m.d.sync += [settings.db_buffers[0].eq(sqe.prp1), settings.db_buffers[1].eq(sqe.prp2)]
            with m.If(sqe.admin & ((sqe.opcode == tables.FORMAT_NVM) | (sqe.opcode == tables.NAMESPACE_MANAGEMENT))):
                self.namespaces.doubt(m, lists=sqe.opcode == tables.NAMESPACE_MANAGEMENT)
            partial = ((sqe.opcode[0:2] != 0) & (sqe.pointer == 3)) | self.lengths.apart
            flags = self._sqe_flags | Mux(partial, int(Flag.DATA_PARTIAL), 0) | Mux(settings.unsized & ~sqe.admin, int(Flag.GUESS), 0)
            slba = Cat(self._sqe[10], self._sqe[11])
            blocks = Mux(self._sqe_lba, sqe.nlb, self._sqe[11])
            flush = ~sqe.admin & (sqe.opcode == 0)
            slots.write(
                m,
                tags.present.slot,
                state=tables.SlotState.IN_FLIGHT,
                opcode=sqe.opcode,
                cid=sqe.cid,
                nsid=Mux(sqe.nsid == 0xFFFFFFFF, spec.NSID_BROADCAST, Mux(sqe.nsid >= spec.NSID_LARGE, spec.NSID_LARGE, sqe.nsid[:16])),
                lba=Mux(self._sqe_dsm, 0, Mux(self._sqe_lba, slba[:40], self._sqe[10])),
                blocks=Mux(self._sqe_dsm | flush, 0, blocks),
                ranges=0,
                prp1=sqe.prp1,
                ranges_expected=self._sqe[10][0:8] + 1,
                pages_sure=0,
                flags=flags,
            )
            slots.expect(m, tags.present.slot, Cat(Const(0, tables.DUE_BITS + 2), self.lengths.none))
            search.link(m, tags.present.slot)  # to the chain that was read since SQE_BEAT
            self.lengths.go_on(m)
            m.d.sync += [
                self._sqe_flags.eq(flags),
                *(self.descriptors.words[i].eq(self._sqe[6 + i]) for i in range(4)),
                self.descriptors.slot.eq(tags.present.slot),
                self.descriptors.generation.eq(self._sqe_generation),
                tags.present.slot.eq(self._sqe_next),
                tags.present.left.eq(tags.present.left - 1),
                insertion.entry.eq(0),
                insertion.entry.valid.eq(1),
                insertion.entry.key.eq(settings.page_key(sqe.prp1)),
                insertion.entry.start.eq(settings.page_offset(sqe.prp1)),
                insertion.entry.kind.eq(Mux(self._sqe_dsm, int(PageKind.RANGES), int(PageKind.DATA))),
                insertion.entry.slot.eq(tags.present.slot),
                insertion.entry.generation.eq(self._sqe_generation),
            ]
            with m.If(self._sqe_has_data | self._sqe_has_sgl | self.lengths.has_metadata):
                m.next = "SQE_LENGTH"
            with m.Elif(self._sqe_lends):
                m.next = "SQE_LEND"
            with m.Elif(self._sqe_ends):
                tags.put(m, tlp.header.tag, slot=self._sqe_next, left=tags.present.left - 1)
                tlp.finish(m)
            with m.Else():
                m.d.comb += tlp.read_index.eq(self._sqe_start)
                m.next = "SQE_FIRST"

    # --- what is behind the pointers. NVMe: Physical Region Page Entry and List; Metadata Pointer ------------------------------------

    def _length_states(self, m: Module) -> None:
        """Build SQE_LENGTH and SQE_PAGES: the length of the data, and the page of PRP1."""
        slots, insertion, sqe = self.slots, self.insertion, self._fields
        size = self._page_size

        with m.State("SQE_LENGTH"):
            due = self.lengths.due
            m.d.sync += [self._sqe_due.eq(due), self._sqe_bounded.eq(due.checked | self._sqe_lba)]
            with m.If(due.checked):
                end, sum_ = sqe.offset[2:] + due.dws[: tables.DUE_BITS + 1], sqe.offset + (due.dws[: tables.DUE_BITS + 1] << 2)
                m.d.sync += [
                    self._sqe_end1.eq(end),
                    self._sqe_most1.eq(end),
                    self._sqe_sum_sure.eq(sum_),
                    self._sqe_sum_most.eq(sum_),
                ]
            m.next = "SQE_PAGES"

        with m.State("SQE_PAGES"):
            sure, most, total = Signal(17, name="pages_sure"), Signal(17, name="pages_most"), Signal(tables.LEFT, name="due_total")
            last = (size << 2) - 1
            m.d.comb += [
                sure.eq(Mux(self._sqe_bounded, (self._sqe_sum_sure + last) >> sqe.page_shift, 1)),
                most.eq(Mux(self._sqe_bounded, (self._sqe_sum_most + last) >> sqe.page_shift, (1 << 17) - 1)),
                total.eq(self._sqe_due),
                total.dws.eq(self._sqe_due.dws + self.lengths.metadata),
            ]
            piece = Signal(name="sqe_piece1")  # it may end before its page does
            m.d.comb += piece.eq(self._sqe_bounded & (sqe.offset[2:] != 0) & (self._sqe_end1 < size))
            m.d.sync += [
                self._sqe_pages_sure.eq(sure),
                self._sqe_pages_most.eq(most),
                self._sqe_metadata.eq(self.lengths.metadata),
                insertion.piece.eq(piece),
                insertion.span_end.eq(self._sqe_end1),
                insertion.span_most.eq(self._sqe_most1),
            ]
            # The last double word of the data in its page: of all of it, and of PRP1's part. Without any data: one double word.
            last, first_last = Signal(14, name="data_last"), Signal(14, name="data_first_last")
            at, whole = sqe.offset[2:], (size - 1)[:14]
            m.d.comb += [
                last.eq(Mux(self._sqe_bounded, Mux(self._sqe_end1 == at, at, (self._sqe_end1 - 1) & whole), whole)),
                first_last.eq(Mux(self._sqe_bounded & (self._sqe_end1 > size), whole, last)),
            ]
            m.d.sync += self._sqe_last2.eq(Mux(self._sqe_bounded & (self._sqe_end1 > (size << 1)), whole, last))
            with m.If(~self._sqe_dsm):
                m.d.sync += insertion.entry.index.eq(first_last)
            slots.write(
                m,
                insertion.entry.slot,
                ranges=0,
                pages_sure=Mux(self._sqe_has_data, sure, 0),
                flags=self._sqe_flags | Mux(self.lengths.long, int(Flag.DATA_PARTIAL), 0),
                last=last,
                shared=0,
                ousted=0,
            )
            m.next = "SQE_METADATA"
            with m.If(self._sqe_has_data):
                slots.expect(m, insertion.entry.slot, total)
                with m.If(piece):
                    insertion.span(m, "SQE_PRP2")
                with m.Else():
                    insertion.insert(m, "SQE_PRP2")
            with m.Elif(self._sqe_has_sgl):
                slots.expect(m, insertion.entry.slot, total)
                self.descriptors.describe(m, "SQE_METADATA")

    def _second_pointer_states(self, m: Module) -> None:
        """Build SQE_PRP2 and SQE_METADATA: the page or list of PRP2, and the metadata."""
        settings, insertion, sqe = self.settings, self.insertion, self._fields
        size, at = self._page_size, settings.page_offset(sqe.prp2)
        sure, most = self._sqe_pages_sure, self._sqe_pages_most
        # Ready long before the entry of PRP1 is in.
        m.d.sync += [
            self._sqe_list_sure.eq(Mux(sure > 2, sure - 1, 1)),
            self._sqe_list_most.eq(Mux(most > 2, most - 1, 1)),
            self._sqe_end2.eq(at + (self._sqe_list_sure << 1)),
            # A drive may read more of a list than it needs.
            self._sqe_most2.eq(Mux(sure == most, size, Mux(self._sqe_bounded, at + (self._sqe_list_most << 1), (1 << 27) - 1))),
            self._sqe_prp2_kind.eq(
                Mux(
                    self._sqe_dsm,
                    int(PageKind.RANGES),
                    Mux(
                        (sure > 2) | ((sure != most) & (at != 0)),
                        int(PageKind.LIST),
                        Mux((sure == most) | (most == 2), int(PageKind.DATA), int(PageKind.EITHER)),
                    ),
                )
            ),
        ]

        with m.State("SQE_PRP2"):
            is_list = self._sqe_prp2_kind == int(PageKind.LIST)
            piece = (at != 0) & is_list & (self._sqe_end2 < size)
            m.d.sync += [
                insertion.entry.key.eq(settings.page_key(sqe.prp2)),
                insertion.entry.start.eq(Mux(is_list, at, 0)),
                insertion.entry.kind.eq(self._sqe_prp2_kind),
                insertion.entry.index.eq(
                    Mux(
                        self._sqe_dsm,
                        (size - settings.page_offset(sqe.prp1)) >> 1,
                        Mux(self._sqe_prp2_kind == int(PageKind.DATA), self._sqe_last2, 0),
                    )
                ),
                insertion.entry.doubtful.eq(sure < 2),
                insertion.piece.eq(piece),
                insertion.span_end.eq(self._sqe_end2),
                insertion.span_most.eq(self._sqe_most2),
            ]
            m.next = "SQE_NEXT"
            with m.If(self._sqe_lends):
                m.next = "SQE_LEND"
            # Without a known length, blocks may be larger than 4096 bytes.
            with m.If((sqe.prp2 != 0) & ((most >= 2) | ~self._sqe_due.checked)):
                with m.If(piece):
                    insertion.span(m, "SQE_METADATA")
                with m.Else():
                    insertion.insert(m, "SQE_METADATA")
            with m.Elif(self._sqe_metadata != 0):
                m.next = "SQE_METADATA"

        with m.State("SQE_METADATA"):
            pointer = Cat(self._sqe[4], self._sqe[5])
            m.d.sync += [
                insertion.entry.key.eq(settings.page_key(pointer)),
                insertion.entry.start.eq(settings.page_offset(pointer)),
                insertion.entry.kind.eq(int(PageKind.DATA)),
                insertion.entry.index.eq(0),
                insertion.entry.doubtful.eq(0),
                insertion.left.eq(self._sqe_metadata),
            ]
            m.next = "SQE_NEXT"
            with m.If(self._sqe_lends):
                m.next = "SQE_LEND"
            with m.Elif(self._sqe_metadata != 0):
                insertion.buffer(m, "SQE_NEXT")

    def _lending_states(self, m: Module) -> None:
        """Build SQE_LEND and its words: the list's address, and the number of its descriptors. NVMe: Host Memory Buffer."""
        tlp = self.tlp

        with m.State("SQE_LEND"):
            m.d.comb += tlp.read_index.eq(self._sqe_start - 3)
            m.next = "SQE_LEND_LOW"

        with m.State("SQE_LEND_LOW"):
            m.d.comb += tlp.read_index.eq(self._sqe_start - 2)
            m.d.sync += self.descriptors.words[0].eq(tlp.word)
            m.next = "SQE_LEND_HIGH"

        with m.State("SQE_LEND_HIGH"):
            m.d.comb += tlp.read_index.eq(self._sqe_start - 1)
            m.d.sync += self.descriptors.words[1].eq(tlp.word)
            m.next = "SQE_LEND_ENTRIES"

        with m.State("SQE_LEND_ENTRIES"):
            self.host_buffer.begin_list(m, Cat(self.descriptors.words[0], self.descriptors.words[1]), tlp.word)
            m.next = "SQE_NEXT"
            with m.If(self.host_buffer.is_long_list(tlp.word)):
                self.report.lost(m, spec.LossSource.PAGES)
            with m.Elif(tlp.word != 0):
                self.host_buffer.add(m, "SQE_NEXT")

    def _end_states(self, m: Module) -> None:
        """Build SQE_NEXT and TAG_UNKNOWN: the end of an SQE, or of a read that is not followed."""
        tlp, tags = self.tlp, self.tags

        with m.State("SQE_NEXT"):
            tlp.may_finish(m)
            with m.If(self._sqe_ends):
                tags.put(m, tlp.header.tag)
                tlp.finish(m)
            with m.Else():
                m.d.comb += tlp.read_index.eq(self._sqe_start)
                m.next = "SQE_FIRST"

        with m.State(Place.TAG_UNKNOWN):
            tlp.may_finish(m)
            tags.put(m, tlp.header.tag, valid=1, kind=tables.TagKind.UNKNOWN, remaining=tlp.header.length)
            tlp.finish(m)
