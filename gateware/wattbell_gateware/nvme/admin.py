"""Effects of successful admin commands: queues created and deleted, shadow doorbells, power states, formats, lent memory."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from wattbell_spec import wire as spec

from . import tables
from .completions import Completions
from .creation import Creation
from .hostbuffer import HostBuffer
from .insert import Insertion
from .namespaces import Namespaces
from .places import Place
from .queues import Queues
from .records import Records
from .report import Report
from .search import Search
from .settings import Settings
from .slots import Slots
from .tables import PageKind

__all__ = ["AdminStates"]


class AdminStates:
    """The states behind such a command's CQE. `i`: the count of loops over a table."""

    def __init__(
        self,
        *,
        i: Signal,
        report: Report,
        settings: Settings,
        slots: Slots,
        search: Search,
        records: Records,
        queues: Queues,
        creation: Creation,
        insertion: Insertion,
        completions: Completions,
        namespaces: Namespaces,
        host_buffer: HostBuffer,
    ) -> None:
        self.i, self.report, self.settings, self.slots, self.search, self.records = i, report, settings, slots, search, records
        self.queues, self.creation, self.insertion, self.completions = queues, creation, insertion, completions
        self.namespaces, self.host_buffer = namespaces, host_buffer

    def states(self, m: Module) -> None:
        report, settings, slots, queues = self.report, self.settings, self.slots, self.queues
        search, records, creation, completions = self.search, self.records, self.creation, self.completions
        state = tables.SlotState

        # --- what the command was. NVMe: Create I/O .. Queue, Doorbell Buffer Config, Set Features (Power Management), Format NVM ---
        with m.State(Place.ADMIN_DONE):
            # `cq` goes back to its table: the deletion below walks queues with it.
            queues.save_cq(m, completions.qid, queues.cq)
            m.next = "ADMIN_BACK"
            qid = completions.done.lba[0:16]
            with m.Switch(completions.done.opcode):
                with m.Case(tables.CREATE_SQ, tables.CREATE_CQ):
                    creation.begin(
                        m,
                        "ADMIN_BACK",
                        cq=completions.done.opcode == tables.CREATE_CQ,
                        qid=qid,
                        base=completions.done.prp1,
                        size=completions.done.lba[16:32] + 1,
                        link=completions.done.blocks[16:32],
                        tells=completions.done.blocks[1],
                    )
                with m.Case(tables.DELETE_SQ, tables.DELETE_CQ):
                    m.d.sync += [creation.is_cq.eq(completions.done.opcode == tables.DELETE_CQ), creation.qid.eq(qid), self.i.eq(0)]
                    valid = Mux(completions.done.opcode == tables.DELETE_CQ, queues.cq_valid, queues.sq_valid)
                    with m.If((qid != 0) & (qid < queues.count) & valid.bit_select(qid[: queues.bits], 1)):
                        m.next = "DELETE"
                with m.Case(tables.DOORBELL_BUFFER_CONFIG):
                    m.d.sync += settings.shadow.eq(1)
                    report.event(m, spec.EventType.SHADOW_DOORBELLS)
                    m.d.sync += self.i.eq(0)
                    m.next = "SHADOW_PAGE"
                with m.Case(tables.FORMAT_NVM):
                    self.namespaces.look_up(m, completions.done.nsid)
                    m.next = "FORMATTED"
                with m.Case(tables.SET_FEATURES):
                    with m.If(completions.done.lba[0:8] == tables.POWER_FID):
                        report.event(m, spec.EventType.POWER_STATE, arg8=completions.done.blocks[0:8])
                    with m.Elif((completions.done.lba[0:8] == tables.HOST_BUFFER_FID) & ~completions.done.blocks[0]):
                        self.host_buffer.forget(m)

        with m.State("ADMIN_BACK"):  # the rest of the CQE's TLP
            m.d.comb += [queues.cq_state.ra.eq(completions.qid), queues.shape.ra.eq(queues.count | completions.qid)]
            m.next = "ADMIN_RELOAD"

        with m.State("ADMIN_RELOAD"):
            m.d.sync += [queues.cq.eq(queues.cq_state.r["entry"]), queues.size.eq(queues.shape.r["size"])]
            m.next = Place.CQE_NEXT

        with m.State("FORMATTED"):
            self.namespaces.formatted(m, completions.done.nsid, completions.done.lba)
            m.next = "ADMIN_BACK"

        with m.State("SHADOW_PAGE"):
            buffer = Mux(self.i[0], settings.db_buffers[1], settings.db_buffers[0])
            self.insertion.prepare(m, kind=int(PageKind.IGNORE), key=settings.page_key(buffer))
            m.d.sync += self.i.eq(self.i + 1)
            with m.If(self.i == 2):
                m.next = "ADMIN_BACK"
            with m.Else():
                self.insertion.insert(m, "SHADOW_PAGE")

        with m.State("DELETE"):
            report.event(m, spec.EventType.QUEUE_DELETED, arg8=creation.is_cq, arg16=creation.qid)
            qid = creation.qid[: queues.bits]
            m.d.comb += queues.cq_state.ra.eq(qid)
            with m.If(creation.is_cq):
                m.d.sync += queues.cq_valid.bit_select(qid, 1).eq(0)
                queues.emptied(m, qid)
                creation.unmap(m, "DELETE_CQ")
            with m.Else():
                m.d.sync += queues.sq_valid.bit_select(qid, 1).eq(0)
                creation.unmap(m, "DELETE_SQ")

        # --- what completed on a deleted CQ goes out without a CQ head doorbell. NVMe: Delete I/O Completion Queue command ---
        with m.State("DELETE_CQ"):
            m.d.sync += queues.cq.eq(queues.cq_state.r["entry"])
            m.next = "DELETE_CQ_ENTRY"

        with m.State("DELETE_CQ_ENTRY"):
            m.d.comb += slots.link.ra.eq(queues.cq.head)
            m.d.sync += queues.cq.count.eq(queues.cq.count - 1)
            with m.If(queues.cq.count == 0):
                m.next = "ADMIN_BACK"
            with m.Else():
                records.begin(m, queues.cq.head, "DELETE_CQ_STEP")

        with m.State("DELETE_CQ_STEP"):
            m.d.sync += queues.cq.head.eq(slots.link.r["next"])
            m.next = "DELETE_CQ_ENTRY"

        # --- what was in flight on a deleted SQ is aborted; what has completed still waits for its CQ head doorbell. ---
        # NVMe: Delete I/O Submission Queue command
        with m.State("DELETE_SQ"):
            m.d.comb += slots.ra.eq(self.i)
            m.next = "DELETE_SQ_SLOT"
            with m.If(self.i == slots.count):
                m.next = "ADMIN_BACK"

        with m.State("DELETE_SQ_SLOT"):
            slot = slots.r
            m.d.sync += [self.i.eq(self.i + 1), search.qid.eq(slot["qid"]), search.cid.eq(slot["cid"])]
            m.next = "DELETE_SQ"
            with m.If(slot["qid"] == creation.qid[: queues.bits]):
                with m.If(slot["state"] == state.IN_FLIGHT):
                    search.whole(m, "DELETE_SQ_FOUND")
                with m.If((slot["state"] == state.ANNOUNCED) | (slot["state"] == state.FETCHING)):
                    records.begin(m, self.i, "DELETE_SQ", aborted=1)

        with m.State("DELETE_SQ_FOUND"):
            with m.If(search.goes_on()):
                search.on(m)
            with m.Else():
                search.unlink(m)
                records.begin(m, search.slot, "DELETE_SQ", aborted=1)
