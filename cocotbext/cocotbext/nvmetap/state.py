"""State of the observation: functions, queues, commands in the making, and ranges of host memory."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from .command import Doubt
from .tlp import Tlp

DATA, LIST, EITHER, SGL, SQ, CQ, HMB_LIST, SHADOW, META, KEPT = range(10)
"""Use of a range of host memory. `EITHER` is data or a PRP list; `KEPT` is data with a use for its content."""
MOVING = frozenset({DATA, EITHER, META, KEPT})


class Pending:
    """A command in the making."""

    __slots__ = (
        "blocks",
        "capture",
        "cdw",
        "cid",
        "cqe",
        "cqe_queue",
        "depth",
        "doorbell",
        "doubts",
        "elsewhere",
        "expected",
        "fetch",
        "first",
        "head",
        "interrupt",
        "last",
        "learnt",
        "lists_open",
        "meta_bytes",
        "moved",
        "nsid",
        "opcode",
        "remaining_list",
        "sgl",
        "slba",
        "spans",
        "sq",
        "status",
        "tell",
    )

    def __init__(self, sq: Sq, doorbell: int | None) -> None:
        self.sq = sq
        self.doorbell = doorbell
        self.fetch: int | None = None
        self.first: int | None = None
        self.last: int | None = None
        self.cqe: int | None = None
        self.interrupt: int | None = None
        self.head: int | None = None
        self.cid = -1
        self.opcode: int | None = None
        self.nsid: int | None = None
        self.slba: int | None = None
        self.blocks: int | None = None
        self.status: int | None = None
        self.cdw: tuple[int, ...] = ()
        self.spans: list[tuple[dict[int, Any], int, Span]] = []
        self.moved = 0
        self.meta_bytes = 0
        self.expected: int | None = None
        self.doubts: set[Doubt] | None = None
        self.capture: bytearray | None = None
        self.lists_open = 0
        self.remaining_list = 0
        self.sgl: bool | None = None
        self.depth: int | None = None
        self.cqe_queue: Cq | None = None
        self.tell = True
        self.learnt = False
        self.elsewhere = False
        """Whether a buffer or a list has an address in the controller's memory, and so may never be on the link."""

    def doubt(self, doubt: Doubt) -> None:
        if self.doubts is None:
            self.doubts = {doubt}
        else:
            self.doubts.add(doubt)


class Span:
    """A range of host memory inside one 4 KiB page, and its owner."""

    __slots__ = ("cmd", "firm", "hi", "hit", "kind", "lo", "offset", "queue")

    def __init__(self, lo: int, hi: int, kind: int, cmd: Any, firm: bool = True, offset: int = 0, queue: Any = None) -> None:
        self.lo = lo
        self.hi = hi
        self.kind = kind
        self.cmd = cmd
        self.firm = firm
        self.offset = offset
        self.queue = queue
        self.hit = False


class Crowd(list[Span]):
    """Ranges of several owners in one page."""

    kind = -1


class Sq:
    """A submission queue."""

    __slots__ = (
        "base",
        "cqid",
        "function",
        "head",
        "in_flight",
        "qid",
        "ring",
        "shadow",
        "size",
        "stride",
        "tail",
        "written",
    )

    def __init__(self, function: Function, qid: int, base: int, size: int, stride: int, cqid: int) -> None:
        self.function = function
        self.qid = qid
        self.base = base
        self.size = size
        self.stride = stride
        self.cqid = cqid
        self.tail = 0
        self.head = 0
        self.in_flight = 0
        self.ring: dict[int, Pending] = {}
        self.written: dict[int, tuple[bytearray, int, int]] = {}
        self.shadow = False


class Cq:
    """A completion queue."""

    __slots__ = (
        "base",
        "head",
        "ien",
        "late",
        "owed",
        "partial",
        "phase",
        "qid",
        "shares",
        "size",
        "spare",
        "tail",
        "unread",
        "vector",
        "waiting",
    )

    def __init__(self, qid: int, base: int, size: int, ien: bool, vector: int) -> None:
        self.qid = qid
        self.base = base
        self.size = size
        self.ien = ien
        self.vector = vector
        self.tail = 0
        self.head = 0
        self.phase = 1
        self.unread: deque[Pending | None] = deque()
        self.waiting: list[Pending] = []
        self.late: list[Pending] = []
        self.owed = False
        self.spare: deque[int] = deque()
        """CQEs' times that shared the message of a later CQE; each may still have a message of its own."""
        self.shares = False
        """One message announces several CQEs: a CQE never had its own message."""
        self.partial: dict[int, tuple[bytearray, int]] = {}


class Namespace:
    """Format of a namespace: from Identify, or learnt from a command that moved its data."""

    __slots__ = ("extended", "formats", "identified", "lba_bytes", "metadata", "protection")

    def __init__(self) -> None:
        self.identified = False
        self.lba_bytes = 0
        self.metadata = 0
        self.extended = False
        self.protection = 0
        self.formats: bytes = b""


class Read:
    """A memory read of the drive that waits for completions."""

    __slots__ = ("at", "end", "fast", "forgotten", "queue", "remaining", "start", "targets", "time")

    def __init__(self, time: int, start: int, end: int, at: int) -> None:
        self.time = time
        self.start = start
        self.end = end
        self.remaining = end - start
        self.at = at
        self.fast: Pending | None = None
        self.queue: Sq | None = None
        self.targets: list[Span] = []
        self.forgotten = False


class Function:
    """One function of the device, with its controller."""

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self.bar_low: int | None = None
        self.bar_high = 0
        self.bar: int | None = None
        self.bar_size: int | None = None
        self.sizing = False
        self.config: dict[int, int] = {}
        self.bars: dict[int, int] = {}
        """Values of the BARs from 18h on, by their register; ``bar_masks`` are the answers to their sizing."""
        self.bar_masks: dict[int, int] = {}
        self.own_lo = self.own_hi = 0
        """Least address and end of ``own``, for a quick check."""
        self.own: list[tuple[int, int]] = []
        """Ranges of the controller's memory: its BARs, and the controller memory buffer at an address of its own."""
        self.cmb_bytes = 0
        self.registers = bytearray(0x60)
        self.stride: int | None = None
        self.page = 4096
        self.enabled = False
        self.admin_rewritten = False
        self.d3 = False
        self.sqs: dict[int, Sq] = {}
        self.cqs: dict[int, Cq] = {}
        self.in_flight: dict[int, Pending] = {}
        self.up_writes: dict[int, Any] = {}
        self.up_reads: dict[int, Any] = {}
        self.controller_memory: dict[int, Sq] = {}
        self.namespaces: dict[int, Namespace] = {}
        self.hmb: list[tuple[int, int]] = []
        self.vector_of: dict[tuple[int, int], int] = {}
        self.vector_hits: Counter[int] = Counter()
        self.candidates: dict[tuple[int, int], set[int]] = {}
        self.msix_table: dict[int, bytearray] = {}
        self.stray_message = False
        self.translations: dict[int, int] = {}
        self.shadow = False
        self.uncertain_memory = 0
        """Queues that are not followed: in pieces, or with CQEs in the controller's memory."""
        self.unseen_cqs: set[int] = set()
        """CQs among them."""
        self.subsystem_reset = False
        """Whether the host asked for an NVM subsystem reset. The drive takes its link down a little later (NVMe 1.4, 7.3.1)."""


def tag_key(tlp: Tlp) -> int:
    """Return requester and tag of a request or of its completion as one number."""
    return tlp.tag >> 8 << 24 | tlp.requester << 8 | tlp.tag & 0xFF


def enabled_bytes(tlp: Tlp, address: int) -> tuple[int, int]:
    """Return the range of enabled bytes; holes between them count as enabled."""
    first = tlp.first_be
    last = tlp.last_be if tlp.length_dw > 1 else first
    lo = address + ((first & -first).bit_length() - 1 if first else 0)
    end = address + 4 * (tlp.length_dw - 1)
    return lo, max(lo, end + last.bit_length())
