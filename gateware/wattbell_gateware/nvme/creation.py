"""Queues come and go: in the tables, and their pages in the page map."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from wattbell_spec import wire as spec

from .insert import Insertion
from .pagemap import PageMap
from .queues import Queues
from .report import Report
from .settings import Settings
from .store import Subroutine
from .tables import PageKind

__all__ = ["Creation"]


class Creation:
    """Creates queues, and takes their pages out of the page map (:meth:`unmap`).

    is_cq : the queue in hand is a CQ.
    qid : its number.
    """

    def __init__(self, *, report: Report, settings: Settings, queues: Queues, map_: PageMap, insertion: Insertion) -> None:
        self.report, self.settings, self.queues, self.map, self.insertion = report, settings, queues, map_, insertion
        self.is_cq = Signal()
        self.qid = Signal(16)
        self._base = Signal(64)
        self._size = Signal(17)
        self._link = Signal(16)
        self._tells = Signal()
        self._guess = Signal()  # positions are not known: late attach
        self._bytes = Signal(26)
        self._pages = Signal(14)
        self._key = Signal(52)
        self._create, self._unmap = Subroutine("CREATE"), Subroutine("UNMAP")

    def begin(self, m: Module, back: str, *, cq, qid, base, size, link, tells=0, guess=0) -> None:
        """Create a queue; go on at `back`. `tells`: a CQ with interrupts."""
        m.d.sync += [
            self.is_cq.eq(cq),
            self.qid.eq(qid),
            self._base.eq(base),
            self._size.eq(size),
            self._link.eq(link),
            self._tells.eq(tells),
            self._guess.eq(guess),
            self.settings.dirty.eq(1),
        ]
        self._create.call(m, back)

    def unmap(self, m: Module, back: str) -> None:
        """Take its pages out of the page map; go on at `back`."""
        self._unmap.call(m, back)

    def states(self, m: Module) -> None:
        report, settings, queues, pagemap = self.report, self.settings, self.queues, self.map
        qid = self.qid[: queues.bits]
        more = settings.more_chunks(self.qid)

        def bytes_of(size: Value) -> Value:
            return Mux(self.is_cq, size << 4, size << 6 << (more[0] + more[1] + more[2]))

        page_bits = (1 << (settings.mps + 12))[:20] - 1

        pages = (self._bytes + page_bits) >> (settings.mps + 12)

        # --- CREATE: what begin() was told; its pages go into the page map. NVMe: Create I/O Completion (Submission) Queue command ---
        with m.State("CREATE"):
            m.d.sync += [self._bytes.eq(bytes_of(self._size)), self._key.eq(settings.page_key(self._base))]
            with m.If((self.qid >= queues.count) | ~settings.is_followed(is_cq=self.is_cq, qid=self.qid)):
                report.lost(m, spec.LossSource.QUEUES)
                m.d.sync += queues.untracked.eq(1)
                self._create.leave_later(m)
            with m.Else():
                report.event(m, spec.EventType.QUEUE_CREATED, arg8=self.is_cq, arg16=self.qid, arg32=self._size)
                shape = {"base": self._base, "size": self._size, "link": self._link, "tells": self._tells}
                queues.shape.write(m, Cat(qid, self.is_cq), **shape)
                with m.If(self.is_cq):
                    fresh = Const(0, queues.CQ.size)
                    state = Signal(queues.CQ, name="fresh_cq")
                    m.d.comb += [state.eq(fresh), state.known.eq(~self._guess), state.phase.eq(1), state.epoch.eq(report.epoch)]
                    queues.cq_state.write(m, qid, entry=state)
                    m.d.sync += queues.cq_valid.bit_select(qid, 1).eq(1)
                    queues.emptied(m, qid)
                with m.Else():
                    sq = Signal(queues.SQ, name="fresh_sq")
                    m.d.comb += [
                        sq.tail_known.eq(~self._guess),
                        sq.fetch_known.eq(~self._guess),
                        sq.epoch.eq(report.epoch),
                    ]
                    queues.sq_state.write(m, qid, entry=sq)
                    m.d.sync += queues.sq_valid.bit_select(qid, 1).eq(1)
                m.next = "CREATE_PAGES"

        with m.State("CREATE_PAGES"):
            m.d.sync += self._pages.eq(pages)
            m.next = "CREATE_PAGE"

        with m.State("CREATE_PAGE"):
            self.insertion.prepare(m, key=self._key, kind=Mux(self.is_cq, int(PageKind.CQ), int(PageKind.SQ)), slot=qid)
            m.d.sync += [self._key.eq(self._key + (1 << settings.mps)), self._pages.eq(self._pages - 1)]
            with m.If(self._pages == 0):
                self._create.leave_later(m)
            with m.Else():
                self.insertion.insert(m, "CREATE_PAGE")

        # --- UNMAP: the pages of `qid` (`is_cq`) leave the page map. NVMe: Delete I/O Completion (Submission) Queue command ---
        with m.State("UNMAP"):
            m.d.comb += queues.shape.ra.eq(Cat(qid, self.is_cq))
            m.next = "UNMAP_SHAPE"

        with m.State("UNMAP_SHAPE"):
            base, size = queues.shape.r["base"], queues.shape.r["size"]
            m.d.sync += [self._bytes.eq(bytes_of(size)), self._key.eq(settings.page_key(base))]
            m.next = "UNMAP_PAGES"

        with m.State("UNMAP_PAGES"):
            m.d.sync += self._pages.eq(pages)
            m.next = "UNMAP_PAGE"

        with m.State("UNMAP_PAGE"):
            pagemap.look_up(m, self._key, Const(0, 14))
            with m.If(self._pages == 0):
                self._unmap.leave_later(m)
            with m.Else():
                m.next = "UNMAP_CLEAR"

        with m.State("UNMAP_CLEAR"):
            m.d.comb += [pagemap.put_key.eq(self._key), pagemap.put_offset.eq(0), pagemap.put_entry.valid.eq(0)]
            kind = Mux(self.is_cq, int(PageKind.CQ), int(PageKind.SQ))
            for number, entry in enumerate(pagemap.entries[: pagemap.pages]):
                m.d.comb += pagemap.put_ways[number].eq(pagemap.same[number] & (entry.kind == kind) & (entry.slot == qid))
            m.d.sync += [self._key.eq(self._key + (1 << settings.mps)), self._pages.eq(self._pages - 1)]
            m.next = "UNMAP_PAGE"

    def return_states(self, m: Module) -> None:
        """Build the states that return; after all states that call a subroutine of this file."""
        self._create.return_state(m)
        self._unmap.return_state(m)
