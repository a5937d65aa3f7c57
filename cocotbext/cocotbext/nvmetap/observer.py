"""The passive core: it takes TLPs of both directions and gives NVMe commands.

The link is its only source. Host and drive tell each other queues, page size, doorbell stride, formats, message vectors and the
host memory buffer. :attr:`LinkObserver.unmatched` counts TLPs without a known meaning.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from .command import Command, Doubt
from .opcodes import (
    BLOCK_OPCODES,
    HOST_MEMORY_BUFFER,
    RANGE_OPCODES,
    Admin,
    Io,
    admin_data_bytes,
    io_data_bytes,
)
from .rules import Rule, Violation
from .tlp import Direction, MalformedTlpError, Tlp, TlpKind, decode_tlp

_DATA, _LIST, _EITHER, _SGL, _SQ, _CQ, _HMB_LIST, _SHADOW, _META, _KEPT = range(10)
"""Use of a range of host memory. `_EITHER` is data or a PRP list; `_KEPT` is data with a use for its content."""
_MOVING = frozenset({_DATA, _EITHER, _META, _KEPT})

_DWORD = struct.Struct("<L").unpack_from
_UP32 = struct.Struct(">HBBL").unpack_from
_UP64 = struct.Struct(">HBBQ").unpack_from
_COMPLETION = struct.Struct(">HHB").unpack_from
_SQE = struct.Struct("<BBHLLLQQQLLLLLL").unpack_from
_CQE = struct.Struct("<LLHHHH").unpack_from

_UNKNOWN_BLOCK_BYTES = 16384
"""Largest block with metadata that a command of an unknown format may have: bounds the length of its PRP list."""


_UNCOUNTED = frozenset(
    {Doubt.SHARED_BUFFER, Doubt.LENGTH_UNKNOWN, Doubt.TLPS_MISSED, Doubt.CID_REUSED, Doubt.DATA_SPLIT_DIRECTION, Doubt.DATA_INCOMPLETE}
)
"""Doubts under which a count of data bytes proves nothing."""


class _Pending:
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
        "slot",
        "spans",
        "sq",
        "status",
        "tell",
    )

    def __init__(self, sq: _Sq, slot: int, doorbell: int | None) -> None:
        self.sq = sq
        self.slot = slot
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
        self.spans: list[tuple[dict[int, Any], int, _Span]] = []
        self.moved = 0
        self.meta_bytes = 0
        self.expected: int | None = None
        self.doubts: set[Doubt] | None = None
        self.capture: bytearray | None = None
        self.lists_open = 0
        self.remaining_list = 0
        self.sgl: bool | None = None
        self.depth: int | None = None
        self.cqe_queue: _Cq | None = None
        self.tell = True
        self.learnt = False

    def doubt(self, doubt: Doubt) -> None:
        if self.doubts is None:
            self.doubts = {doubt}
        else:
            self.doubts.add(doubt)


class _Span:
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


class _Crowd(list[_Span]):
    """Ranges of several owners in one page."""

    kind = -1


class _Sq:
    """A submission queue."""

    __slots__ = (
        "base",
        "cqid",
        "fetched",
        "function",
        "head",
        "in_flight",
        "last_value",
        "qid",
        "ring",
        "shadow",
        "size",
        "stride",
        "tail",
        "written",
    )

    def __init__(self, function: _Function, qid: int, base: int, size: int, stride: int, cqid: int) -> None:
        self.function = function
        self.qid = qid
        self.base = base
        self.size = size
        self.stride = stride
        self.cqid = cqid
        self.tail = 0
        self.head = 0
        self.fetched = 0
        self.in_flight = 0
        self.last_value: int | None = None
        self.ring: dict[int, _Pending] = {}
        self.written: dict[int, tuple[bytearray, int, int]] = {}
        self.shadow = False


class _Cq:
    """A completion queue."""

    __slots__ = (
        "base",
        "head",
        "ien",
        "last_value",
        "late",
        "owed",
        "partial",
        "phase",
        "qid",
        "size",
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
        self.last_value: int | None = None
        self.unread: deque[_Pending | None] = deque()
        self.waiting: list[_Pending] = []
        self.late: list[_Pending] = []
        self.owed = False
        self.partial: dict[int, tuple[bytearray, int]] = {}


class _Namespace:
    """Format of a namespace: from Identify, or learnt from a command that moved its data."""

    __slots__ = ("extended", "formats", "identified", "lba_bytes", "metadata", "protection")

    def __init__(self) -> None:
        self.identified = False
        self.lba_bytes = 0
        self.metadata = 0
        self.extended = False
        self.protection = 0
        self.formats: bytes = b""


class _Read:
    """A memory read of the drive that waits for completions."""

    __slots__ = ("at", "end", "fast", "forgotten", "queue", "remaining", "start", "targets", "time")

    def __init__(self, time: int, start: int, end: int, at: int) -> None:
        self.time = time
        self.start = start
        self.end = end
        self.remaining = end - start
        self.at = at
        self.fast: _Pending | None = None
        self.queue: _Sq | None = None
        self.targets: list[_Span] = []
        self.forgotten = False


class _Function:
    """One function of the device, with its controller."""

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self.bar_low: int | None = None
        self.bar_high = 0
        self.bar: int | None = None
        self.bar_size: int | None = None
        self.sizing = False
        self.config: dict[int, int] = {}
        self.registers = bytearray(0x60)
        self.stride: int | None = None
        self.page = 4096
        self.enabled = False
        self.admin_rewritten = False
        self.d3 = False
        self.sqs: dict[int, _Sq] = {}
        self.cqs: dict[int, _Cq] = {}
        self.in_flight: dict[int, _Pending] = {}
        self.up_writes: dict[int, Any] = {}
        self.up_reads: dict[int, Any] = {}
        self.controller_memory: dict[int, _Sq] = {}
        self.namespaces: dict[int, _Namespace] = {}
        self.hmb: list[tuple[int, int]] = []
        self.hmb_unknown = False
        self.vector_of: dict[tuple[int, int], int] = {}
        self.vector_hits: Counter[int] = Counter()
        self.candidates: dict[tuple[int, int], set[int]] = {}
        self.msix_table: dict[int, bytearray] = {}
        self.stray_message = False
        self.translations: dict[int, int] = {}
        self.shadow = False
        self.uncertain_memory = 0
        self.subsystem_reset = False
        """Whether the host asked for an NVM subsystem reset. The drive takes its link down a little later (NVMe 1.4, 7.3.1)."""


class LinkObserver:
    """Finds NVMe commands in TLPs.

    Call ``observer.feed(time_ps, Direction.DOWN, data)`` for each TLP, in the order of time. Finished commands come from
    :meth:`commands`, or go to ``on_command``. :meth:`close` gives the commands that are still open.
    """

    def __init__(
        self,
        on_command: Callable[[Command], None] | None = None,
        *,
        bar0: dict[int, int] | None = None,
        timeout_ps: int = 30_000_000_000_000,
    ) -> None:
        """Start without knowledge.

        Parameters:
            on_command: Receives each finished command; without it, they wait in a queue for :meth:`commands`.
            bar0: Address of BAR0 by function (bus, device and function number), for a start after enumeration.
            timeout_ps: Limit of rule TIMEOUT.
        """
        self.on_violation: Callable[[Violation], None] | None = None
        self.unmatched: Counter[str] = Counter()
        """Number of TLPs and events that were not understood, by class."""
        self.tlps = 0
        self._finished: deque[Command] = deque()
        self._out: Callable[[Command], None] = on_command or self._finished.append
        self._functions: dict[int, _Function] = {}
        self._bars: list[_Function] = []
        self._up_tags: dict[int, _Read] = {}
        self._down_tags: dict[int, tuple[_Function, int, int, int]] = {}
        self._timeout_ps = timeout_ps
        self._shapes: dict[bytes, tuple[int, int, int]] = {}
        self._now = 0
        for ident, address in (bar0 or {}).items():
            function = self._function(ident)
            function.bar = address
            self._sort_bars()

    # ------------------------------------------------------------------ the outside

    def commands(self) -> Iterator[Command]:
        """Yield the commands that have finished since the last call."""
        while self._finished:
            yield self._finished.popleft()

    def feed(self, time_ps: int, direction: Direction, data: bytes) -> None:
        """Take one TLP: bytes as on the wire, with or without prefixes and digest."""
        self.tlps += 1
        self._now = time_ps
        code, total, size = self._shapes.get(data[:4]) or self._shape(data)
        if total == len(data):
            if code <= 2:
                if code == 1:
                    requester, _tag, enables, address = _UP32(data, 4)
                else:
                    requester, _tag, enables, address = _UP64(data, 4)
                if direction == 2:
                    function = self._functions.get(requester)
                    if function is not None and function.enabled:
                        span = function.up_writes.get(address >> 12)
                        if span is None:
                            if (
                                size == 4
                                and enables == 15
                                and not (function.hmb and self._in_hmb(function, address))
                                and self._message(function, time_ps, (address, _DWORD(data, total - 4)[0]))
                            ):
                                return
                        elif enables == 0xFF and size > 4:
                            if span.kind == 0:
                                if span.lo <= address and address + size <= span.hi:
                                    cmd = span.cmd
                                    if cmd.first is None:
                                        cmd.first = time_ps
                                    cmd.last = time_ps
                                    cmd.moved += size
                                    span.hit = True
                                    return
                            elif span.kind == _CQ and size == 16 and not address & 15:
                                self._cqe(function, span.queue, time_ps, address, data[total - 16 :])
                                return
                elif size == 4 and enables == 15:
                    place = self._at_bar(address)
                    if place is not None and place[1] >= 0x1000 and address >> 12 not in place[0].controller_memory:
                        self._doorbell_or_table(place[0], place[1], _DWORD(data, total - 4)[0], 15, time_ps)
                        return
            elif code == 3 and direction == 1:
                status_count, requester, tag_low = _COMPLETION(data, 6)
                key = requester << 10 | tag_low | (data[1] & 8) << 5 | (data[1] & 0x80) << 2
                read = self._up_tags.get(key)
                if read is not None and status_count < 0x2000:
                    cmd = read.fast
                    if cmd is not None:
                        if cmd.first is None:
                            cmd.first = time_ps
                        cmd.last = time_ps
                        if size >= read.remaining:
                            cmd.moved += read.remaining
                            del self._up_tags[key]
                        else:
                            cmd.moved += size
                            read.remaining -= size
                        return
                    if read.queue is not None and size <= read.remaining:
                        function = self._functions[requester]
                        self._sqe_piece(function, read.queue, read.time, read.end - read.remaining, data[12:])
                        read.remaining -= size
                        if not read.remaining:
                            del self._up_tags[key]
                        return
        try:
            tlp = decode_tlp(time_ps, direction, data)
        except MalformedTlpError as error:
            self.unmatched["malformed TLP"] += 1
            self._breach(Rule.TLP_MALFORMED, time_ps, None, str(error))
            return
        kind = tlp.kind
        if kind in (TlpKind.MEMORY_WRITE, TlpKind.MEMORY_READ):
            if not self._well_formed(tlp):
                return
            if direction == 2:
                if kind is TlpKind.MEMORY_WRITE:
                    self._up_write(tlp)
                else:
                    self._up_read(tlp)
            elif kind is TlpKind.MEMORY_WRITE:
                self._down_write(tlp)
            else:
                self._down_read(tlp)
        elif kind is TlpKind.COMPLETION:
            if direction == 2:
                self._up_completion(tlp)
            else:
                self._down_completion(tlp)
        elif kind is TlpKind.CONFIG_WRITE and direction == 1:
            self._config_write(tlp)
        elif kind is TlpKind.CONFIG_READ and direction == 1:
            self._down_tags[tlp.requester << 10 | tlp.tag] = (self._function(tlp.completer), -1, tlp.register, 4)
        elif kind is TlpKind.MESSAGE and direction == 2 and 0x20 <= tlp.message_code <= 0x27:
            if tlp.message_code < 0x24:
                self._intx(tlp)
        else:
            self.unmatched[kind.value] += 1

    def _shape(self, data: bytes) -> tuple[int, int, int]:
        """Return code, bytes of the TLP and bytes of payload, from the first double word of a header.

        A plain memory write has code 1 or 2, with 3 or 4 double words of header. A plain completion with data has code 3. All others have
        code 4: poisoned, translated, with prefix or digest, or of another type.
        """
        shape = 4, 0, 0
        if len(data) >= 4:
            size = 4 * (((data[2] & 3) << 8 | data[3]) or 1024)
            if data[0] in (0x40, 0x60) and not data[2] & 0xCC:
                shape = (1, 12 + size, size) if data[0] == 0x40 else (2, 16 + size, size)
            elif data[0] == 0x4A and not data[2] & 0xC0:
                shape = 3, 12 + size, size
        self._shapes[data[:4]] = shape
        return shape

    def perst(self, time_ps: int, *, asserted: bool) -> None:
        """Tell a change of PERST#: ``asserted`` is the low level."""
        if asserted:
            self._all_reset(time_ps)

    def link(self, time_ps: int, *, up: bool) -> None:
        """Tell a change of the data link layer: a link that goes down resets every function behind it (PCIe 2.9.1 and 6.6.1)."""
        if not up:
            self._all_reset(time_ps)

    def _all_reset(self, time_ps: int) -> None:
        for function in list(self._functions.values()):
            self._reset(function, time_ps, forget=True)
        self._up_tags.clear()
        self._down_tags.clear()

    def missed(self, time_ps: int) -> None:
        """Tell that the source missed TLPs: every command in flight becomes doubtful."""
        self.unmatched["missed by the source"] += 1
        for function in self._functions.values():
            for cmd in self._open_commands(function):
                cmd.doubt(Doubt.TLPS_MISSED)

    def close(self, time_ps: int | None = None) -> None:
        """End the observation. Open commands finish with the instants that were seen."""
        now = self._now if time_ps is None else time_ps
        for function in self._functions.values():
            for cmd in self._open_commands(function):
                if cmd.cqe is None and cmd.doorbell is not None and not self._waits_for_event(cmd):
                    self._check_time(cmd, now)
            self._flush(function)

    # ------------------------------------------------------------------ help

    def _breach(self, rule: Rule, time_ps: int, function: _Function | None, detail: str) -> None:
        if self.on_violation is not None:
            self.on_violation(Violation(rule, time_ps, None if function is None else function.ident, detail))

    def _well_formed(self, tlp: Tlp) -> bool:
        if (tlp.address & 4095) + 4 * tlp.length_dw > 4096:
            self._breach(Rule.TLP_CROSSES_4K, tlp.time_ps, None, f"{tlp.address:x}h + {4 * tlp.length_dw} bytes")
            self.unmatched["malformed TLP"] += 1
            return False
        if (tlp.length_dw == 1) != (tlp.last_be == 0):
            self._breach(Rule.TLP_BYTE_ENABLES, tlp.time_ps, None, f"{tlp.length_dw} double words, last byte enables {tlp.last_be:04b}")
        return True

    def _function(self, ident: int) -> _Function:
        function = self._functions.get(ident)
        if function is None:
            function = self._functions[ident] = _Function(ident)
        return function

    def _sort_bars(self) -> None:
        self._bars = sorted((f for f in self._functions.values() if f.bar is not None), key=lambda f: f.bar or 0)

    def _at_bar(self, address: int) -> tuple[_Function, int] | None:
        """Return the function with ``address`` in its registers, and the offset."""
        found: tuple[_Function, int] | None = None
        for function in self._bars:
            if function.bar is not None and function.bar <= address:
                size = function.bar_size or 0x1000 + 2 * 65536 * (function.stride or 4)
                if address < function.bar + size:
                    found = function, address - function.bar
        return found

    @staticmethod
    def _open_commands(function: _Function) -> list[_Pending]:
        """Return every command that has not been given yet, without repetition."""
        seen: dict[int, _Pending] = {}
        for cq in function.cqs.values():
            for cmd in (*cq.late, *cq.unread, *cq.waiting):
                if cmd is not None and cmd.tell:
                    seen[id(cmd)] = cmd
        for cmd in function.in_flight.values():
            seen[id(cmd)] = cmd
        for sq in function.sqs.values():
            for cmd in sq.ring.values():
                if cmd.cqe is None and cmd.tell:
                    seen[id(cmd)] = cmd
        return list(seen.values())

    @staticmethod
    def _waits_for_event(cmd: _Pending) -> bool:
        return cmd.sq.qid == 0 and cmd.opcode == Admin.ASYNC_EVENT_REQUEST

    def _check_time(self, cmd: _Pending, now: int) -> None:
        start = cmd.doorbell if cmd.doorbell is not None else cmd.fetch
        if start is not None and now - start > self._timeout_ps and not self._waits_for_event(cmd):
            self._breach(Rule.TIMEOUT, now, cmd.sq.function, f"SQ {cmd.sq.qid} CID {cmd.cid}: {(now - start) // 1_000_000} us")

    def _finish(self, cmd: _Pending) -> None:
        """Give a command to the outside."""
        if not cmd.tell:
            return
        cmd.tell = False
        if cmd.spans:
            self._release(cmd)
        function = cmd.sq.function
        if function.stride is None and (cmd.sq.qid or cmd.head is not None):
            cmd.doubt(Doubt.STRIDE_ASSUMED)
        if cmd.cqe is None:
            cmd.doubt(Doubt.NOT_COMPLETED)
        elif cmd.head is None:
            cmd.doubt(Doubt.HEAD_UNSEEN)
        if cmd.opcode is None:
            cmd.doubt(Doubt.SQE_UNSEEN)
        cq = cmd.cqe_queue
        if function.stray_message and cq is not None and cq.ien and cmd.interrupt is None:
            cmd.doubt(Doubt.INTERRUPT_UNKNOWN)
        self._out(
            Command(
                function.ident,
                cmd.sq.qid,
                cmd.cid,
                cmd.opcode,
                cmd.nsid,
                cmd.slba,
                cmd.blocks,
                cmd.status,
                cmd.doorbell,
                cmd.fetch,
                cmd.first,
                cmd.last,
                cmd.cqe,
                cmd.interrupt,
                cmd.head,
                cmd.moved + cmd.meta_bytes,
                cmd.sgl,
                cmd.depth,
                tuple(sorted(cmd.doubts, key=lambda doubt: doubt.name)) if cmd.doubts else (),
            )
        )

    # ------------------------------------------------------------------ host memory

    @staticmethod
    def _claim(pages: dict[int, Any], page: int, span: _Span) -> None:
        held = pages.get(page)
        if held is None:
            pages[page] = span
        elif held.__class__ is _Crowd:
            held.append(span)
        else:
            pages[page] = _Crowd((held, span))

    def _add(
        self, function: _Function, cmd: _Pending, lo: int, size: int, kind: int, firm: bool, offset: int, reads: bool, writes: bool
    ) -> None:
        """Give ``cmd`` a range of host memory, cut at 4 KiB."""
        end = lo + size
        if kind == _DATA and cmd.capture is not None:
            kind = _KEPT
        while lo < end:
            page = lo >> 12
            hi = min(end, (page + 1) << 12)
            span = _Span(lo, hi, kind, cmd, firm, offset)
            for wanted, pages in ((writes, function.up_writes), (reads, function.up_reads)):
                if wanted:
                    held = pages.get(page)
                    if held is None:
                        pages[page] = span
                    else:
                        self._claim(pages, page, span)
                        if kind in _MOVING:
                            self._check_overlap(held if held.__class__ is _Crowd else [held], span)
                    cmd.spans.append((pages, page, span))
            offset += hi - lo
            lo = hi

    @staticmethod
    def _check_overlap(held: list[_Span], span: _Span) -> None:
        """Mark commands with overlapping data ranges, unless one has the better claim."""
        for other in held:
            if (
                other is not span
                and other.kind in _MOVING
                and other.cmd is not span.cmd
                and other.lo < span.hi
                and span.lo < other.hi
                and other.firm == span.firm
            ):
                other.cmd.doubt(Doubt.SHARED_BUFFER)
                span.cmd.doubt(Doubt.SHARED_BUFFER)

    @staticmethod
    def _release(cmd: _Pending) -> None:
        for pages, page, span in cmd.spans:
            held = pages.get(page)
            if held is span:
                del pages[page]
            elif held.__class__ is _Crowd:
                held.remove(span)
                if len(held) == 1:
                    pages[page] = held[0]
        cmd.spans = []

    @staticmethod
    def _overlapping(pages: dict[int, Any], lo: int, hi: int) -> list[_Span]:
        """Return the ranges that ``lo`` to ``hi`` touches; of data ranges only those with the best claim."""
        held = pages.get(lo >> 12)
        if held is None:
            return []
        spans = [s for s in (held if held.__class__ is _Crowd else (held,)) if s.lo < hi and lo < s.hi]
        if len(spans) > 1 and any(s.firm for s in spans):
            firm = [s for s in spans if s.firm]
            spans = firm + [s for s in spans if not s.firm and not any(f.lo < s.hi and s.lo < f.hi for f in firm)]
        return spans

    @staticmethod
    def _in_hmb(function: _Function, address: int) -> bool:
        at = bisect_right(function.hmb, (address, 1 << 64)) - 1
        return at >= 0 and function.hmb[at][0] <= address < function.hmb[at][1]

    def _translated(self, function: _Function, address: int) -> int | None:
        """Return the untranslated address of an address from the drive's translation cache."""
        page = function.translations.get(address >> 12)
        return None if page is None else page << 12 | address & 4095

    # ------------------------------------------------------------------ from the drive: writes

    def _up_write(self, tlp: Tlp) -> None:
        function = self._functions.get(tlp.requester)
        if function is None or not function.enabled:
            self.unmatched["write of an unknown or disabled function"] += 1
            return
        if tlp.zero_length:
            self.unmatched["zero-length write"] += 1
            return
        address = tlp.address
        if tlp.at == 2:
            known = self._translated(function, address)
            if known is None:
                self.unmatched["write to an unknown translation"] += 1
                self._doubt_data(function)
                return
            address = known
        lo, hi = _enabled_bytes(tlp, address)
        spans = self._overlapping(function.up_writes, lo, hi)
        if not spans:
            self._stray_write(function, tlp, lo, hi)
            return
        covered = 0
        for span in spans:
            cut_lo, cut_hi = max(lo, span.lo), min(hi, span.hi)
            covered += cut_hi - cut_lo
            content = tlp.payload[cut_lo - address : cut_hi - address]
            if span.kind == _CQ:
                self._partial_cqe(function, span.queue, tlp.time_ps, cut_lo, content)
            elif span.kind in _MOVING:
                if span.kind == _EITHER:
                    span.kind = _DATA
                self._data(span, tlp.time_ps, cut_lo, content, tlp.poisoned)
            # event index buffers of shadow doorbells carry nothing for us
        if covered < hi - lo:
            self.unmatched["write beside its buffer"] += 1
            if all(s.cmd is None or not s.cmd.learnt for s in spans):
                self._breach(Rule.WRITE_OUTSIDE, tlp.time_ps, function, f"{lo:x}h to {hi:x}h is in part outside of the buffer")

    @staticmethod
    def _data(span: _Span, time_ps: int, address: int, content: bytes, poisoned: bool) -> None:
        cmd: _Pending = span.cmd
        if cmd.first is None:
            cmd.first = time_ps
        cmd.last = time_ps
        if span.kind == _META:
            cmd.meta_bytes += len(content)
        else:
            cmd.moved += len(content)
            span.hit = True
        if poisoned:
            cmd.doubt(Doubt.DATA_POISONED)
        if cmd.capture is not None and span.kind != _META:
            start = span.offset + address - span.lo
            cmd.capture[start : start + len(content)] = content

    def _stray_write(self, function: _Function, tlp: Tlp, lo: int, hi: int) -> None:
        """Take a write to memory that belongs to nobody: an interrupt message, the host memory buffer, or a fault."""
        if self._in_hmb(function, lo):
            return
        if tlp.length_dw == 1 and tlp.first_be == 15 and not tlp.address & 3:
            key = (tlp.address, struct.unpack("<L", tlp.payload)[0])
            if self._message(function, tlp.time_ps, key):
                return
        self.unmatched["write to unknown memory"] += 1
        self._distrust(function)
        if self._buffers_known(function):
            self._breach(Rule.WRITE_OUTSIDE, tlp.time_ps, function, f"{lo:x}h to {hi:x}h belongs to no command")

    def _doubt_data(self, function: _Function) -> None:
        for cmd in function.in_flight.values():
            if cmd.spans:
                cmd.doubt(Doubt.DATA_INCOMPLETE)

    # ------------------------------------------------------------------ interrupts

    def _message(self, function: _Function, time_ps: int, key: tuple[int, int]) -> bool:
        """Take a double word that may be an interrupt message. Returns whether it is one."""
        vector = function.vector_of.get(key)
        if vector is None and function.msix_table:
            for index, entry in function.msix_table.items():
                if struct.unpack_from("<QL", entry) == key:
                    vector = function.vector_of[key] = index
                    function.vector_hits[index] += 1
                    break
        if vector is not None:
            function.vector_hits[vector] += 1
            function.candidates.pop(key, None)
            queues = [cq for cq in function.cqs.values() if cq.ien and cq.vector == vector]
            owed = any(cq.owed or cq.unread for cq in queues)
            if not self._interrupt(queues, time_ps, function) and queues and not owed:
                self._breach(Rule.INTERRUPT_EARLY, time_ps, function, f"vector {vector}: no CQE waits")
            return True
        mapped = set(function.vector_of.values())
        waiting = {cq.vector for cq in function.cqs.values() if cq.ien and cq.waiting} - mapped
        possible = function.candidates.get(key)
        if possible is not None:
            possible = (possible & waiting) or waiting
        else:
            possible = waiting
        if not possible:
            if key in function.candidates or key[0] >> 20 == 0xFEE:
                function.stray_message = True
                if not any(cq.ien and (cq.owed or cq.unread) for cq in function.cqs.values()):
                    self._breach(Rule.INTERRUPT_EARLY, time_ps, function, f"message {key[1]:x}h to {key[0]:x}h: no CQE waits")
                self.unmatched["interrupt of an unknown vector"] += 1
                return True
            return False
        if len(possible) == 1:
            vector = next(iter(possible))
            function.vector_of[key] = vector
            function.candidates.pop(key, None)
            self._interrupt([cq for cq in function.cqs.values() if cq.ien and cq.vector == vector], time_ps, function)
            return True
        function.candidates[key] = set(possible)
        guess = min(possible, key=lambda v: min(c.waiting[0].cqe or 0 for c in function.cqs.values() if c.vector == v and c.waiting))
        for cq in function.cqs.values():
            if cq.vector in possible:
                for cmd in cq.waiting:
                    cmd.doubt(Doubt.INTERRUPT_GUESSED)
        self._interrupt([cq for cq in function.cqs.values() if cq.ien and cq.vector == guess], time_ps, function)
        return True

    def _intx(self, tlp: Tlp) -> None:
        """Assert_INTx: its requester ID has no function (2.2.8.1), so every function with waiting CQEs may have sent it."""
        functions = [f for f in self._functions.values() if any(cq.ien and cq.waiting for cq in f.cqs.values())]
        if not functions:
            self.unmatched["INTx without a CQE"] += 1
            enabled = [f for f in self._functions.values() if f.enabled]
            owed = [cq for f in enabled for cq in f.cqs.values() if cq.owed]
            for cq in owed:  # the message may have crossed the CQ head doorbell
                cq.owed = False
            if enabled and not owed and not any(cq.unread for f in enabled for cq in f.cqs.values()):
                self._breach(Rule.INTERRUPT_EARLY, tlp.time_ps, None, "INTx: no CQE waits")
        for function in functions:
            if len(functions) > 1:
                for cq in function.cqs.values():
                    for cmd in cq.waiting:
                        cmd.doubt(Doubt.INTERRUPT_GUESSED)
            self._interrupt([cq for cq in function.cqs.values() if cq.ien], tlp.time_ps, function)

    def _interrupt(self, queues: list[_Cq], time_ps: int, function: _Function) -> bool:
        found = False
        for cq in queues:
            for cmd in cq.waiting:
                cmd.interrupt = time_ps
                found = True
            cq.waiting = []
            cq.owed = False
            if cq.late:
                if cq.unread:  # the message may be for these CQEs alone
                    for cmd in cq.late:
                        cmd.doubt(Doubt.INTERRUPT_GUESSED)
                for cmd in cq.late:
                    self._finish(cmd)
                cq.late = []
        return found

    # ------------------------------------------------------------------ completions of commands

    def _partial_cqe(self, function: _Function, cq: _Cq, time_ps: int, address: int, content: bytes) -> None:
        """Put pieces of CQEs together; the piece with the phase tag gives the instant."""
        at = address - cq.base
        while content:
            slot, start = divmod(at, 16)
            piece = content[: 16 - start]
            if len(piece) == 16:
                self._cqe(function, cq, time_ps, cq.base + 16 * slot, piece)
            else:
                whole, mask = cq.partial.get(slot, (bytearray(16), 0))
                whole[start : start + len(piece)] = piece
                mask |= ((1 << len(piece)) - 1) << start
                if mask == 0xFFFF:
                    cq.partial.pop(slot, None)
                    self._cqe(function, cq, time_ps, cq.base + 16 * slot, bytes(whole))
                else:
                    cq.partial[slot] = whole, mask
            at += len(piece)
            content = content[len(piece) :]

    def _cqe(self, function: _Function, cq: _Cq, time_ps: int, address: int, content: bytes) -> None:
        _dw0, _dw1, sqhd, sqid, cid, status = _CQE(content)
        slot = (address - cq.base) >> 4
        if slot != cq.tail:
            self._breach(Rule.CQE_SLOT, time_ps, function, f"CQ {cq.qid}: slot {slot} instead of {cq.tail}")
            self.unmatched["CQE in a wrong slot"] += 1
        elif (status & 1) != cq.phase:
            self._breach(Rule.CQE_PHASE, time_ps, function, f"CQ {cq.qid} slot {slot}: phase tag {status & 1}")
            self.unmatched["CQE with a wrong phase tag"] += 1
        if len(cq.unread) >= cq.size - 1:
            self._breach(Rule.CQ_OVERRUN, time_ps, function, f"CQ {cq.qid} holds {len(cq.unread)} CQEs already")
        sq = function.sqs.get(sqid)
        cmd = function.in_flight.pop(sqid << 16 | cid, None)
        if cmd is None and sq is not None:
            cmd = self._unfetched(function, sq, cid)
        if slot == cq.tail:
            cq.tail += 1
            if cq.tail == cq.size:
                cq.tail = 0
                cq.phase ^= 1
        if cmd is None or sq is None:
            self._breach(Rule.CQE_NO_COMMAND, time_ps, function, f"CQ {cq.qid}: SQ {sqid} CID {cid}")
            self.unmatched["CQE without a command"] += 1
            cq.unread.append(None)
            return
        if sq.cqid != cq.qid:
            self._breach(Rule.CQE_QUEUE, time_ps, function, f"SQ {sqid} belongs to CQ {sq.cqid}, not {cq.qid}")
        self._head_pointer(function, sq, sqhd, time_ps)
        sq.in_flight -= 1
        cmd.cqe = time_ps
        cmd.status = status >> 1
        cmd.cqe_queue = cq
        cq.unread.append(cmd)
        if cq.ien:
            cq.waiting.append(cmd)
        self._settle(function, cmd)
        if cmd.spans:
            self._release(cmd)
        if sqid == 0:
            self._admin_done(function, cmd)
        start = cmd.doorbell
        if start is not None and time_ps - start > self._timeout_ps:
            self._check_time(cmd, time_ps)

    def _unfetched(self, function: _Function, sq: _Sq, cid: int) -> _Pending | None:
        """Find the command of a CQE among SQEs that were read before their doorbell."""
        for slot, cmd in sq.ring.items():
            if cmd.opcode is None and cmd.cqe is None and slot in sq.written:
                whole, mask, time = sq.written[slot]
                if mask == (1 << 64) - 1 and whole[2] | whole[3] << 8 == cid:
                    cmd.doubt(Doubt.PREFETCHED)
                    self._decode(function, sq, cmd, time, bytes(whole))
                    return function.in_flight.pop(sq.qid << 16 | cid, None)
        for slot, (whole, mask, time) in sq.written.items():
            held = sq.ring.get(slot)
            if mask == (1 << 64) - 1 and (held is None or held.cqe is not None) and whole[2] | whole[3] << 8 == cid:
                cmd = _Pending(sq, slot, None)
                cmd.doubt(Doubt.SHADOW_DOORBELL if sq.shadow else Doubt.NO_DOORBELL)
                if not sq.shadow:
                    self._breach(Rule.FETCH_PAST_TAIL, self._now, function, f"SQ {sq.qid} slot {slot}: completed without a doorbell")
                sq.ring[slot] = cmd
                self._decode(function, sq, cmd, time, bytes(whole))
                return function.in_flight.pop(sq.qid << 16 | cid, None)
        return None

    def _head_pointer(self, function: _Function, sq: _Sq, sqhd: int, time_ps: int) -> None:
        if sqhd >= sq.size or (not sq.shadow and (sqhd - sq.head) % sq.size > (sq.tail - sq.head) % sq.size):
            self._breach(Rule.CQE_SQHD, time_ps, function, f"SQ {sq.qid}: head {sqhd}, last head {sq.head}, tail {sq.tail}")
        else:
            sq.head = sqhd

    def _settle(self, function: _Function, cmd: _Pending) -> None:
        """Compare the data of a completed command with its length, and learn an unknown format from it."""
        if cmd.expected is not None:
            uncertain = cmd.doubts is not None and not cmd.doubts.isdisjoint(_UNCOUNTED)
            if cmd.status == 0 and cmd.moved + cmd.meta_bytes != cmd.expected and not uncertain:
                self._breach(
                    Rule.DATA_COUNT,
                    cmd.cqe or 0,
                    function,
                    f"SQ {cmd.sq.qid} CID {cmd.cid}: {cmd.moved + cmd.meta_bytes} bytes, not {cmd.expected}",
                )
                if cmd.moved + cmd.meta_bytes < cmd.expected:
                    cmd.doubt(Doubt.DATA_INCOMPLETE)
        elif cmd.sq.qid and cmd.opcode in BLOCK_OPCODES and cmd.blocks and cmd.status == 0 and not cmd.doubts and cmd.nsid is not None:
            self._learn(function, cmd, cmd.blocks, cmd.nsid)
        if cmd.lists_open and cmd.status == 0:
            cmd.doubt(Doubt.LIST_UNSEEN)

    @staticmethod
    def _learn(function: _Function, cmd: _Pending, blocks: int, nsid: int) -> None:
        """Learn the bytes of a block from the last page that a command's data reached."""
        space = function.namespaces.get(nsid)
        if space is None:
            space = function.namespaces[nsid] = _Namespace()
        if space.identified or cmd.sgl:
            return
        ends = [(span.offset, span.offset + span.hi - span.lo) for _pages, _page, span in cmd.spans if span.hit and span.kind != _META]
        if not ends:
            return
        last_start, last_end = max(ends)
        exact = cmd.moved // blocks if cmd.moved % blocks == 0 else 0
        possible = [size for size in [1 << power for power in range(9, 15)] if last_start < size * blocks <= last_end]
        if exact >= 512 and last_start < cmd.moved <= last_end:
            possible = [exact]
        space.lba_bytes = possible[0] if len(possible) == 1 else 0

    @staticmethod
    def _buffers_known(function: _Function) -> bool:
        """Tell whether the ends of all buffers in flight are certain. Only then can an access be outside."""
        return not function.uncertain_memory and not any(
            cmd.learnt or (cmd.expected is None and cmd.spans) for cmd in function.in_flight.values()
        )

    @staticmethod
    def _distrust(function: _Function) -> None:
        """Doubt commands with a learnt length, since data went to memory that nobody gave."""
        for cmd in function.in_flight.values():
            if cmd.learnt:
                cmd.doubt(Doubt.LENGTH_UNKNOWN)
                space = function.namespaces.get(cmd.nsid or 0)
                if space is not None:
                    space.lba_bytes = 0

    # ------------------------------------------------------------------ from the drive: reads

    def _up_read(self, tlp: Tlp) -> None:
        function = self._functions.get(tlp.requester)
        key = tlp.requester << 10 | tlp.tag
        held = self._up_tags.get(key)
        if held is not None and not held.forgotten:
            self._breach(Rule.TAG_REUSED, tlp.time_ps, function, f"tag {tlp.tag}")
        address = tlp.address
        lo, hi = _enabled_bytes(tlp, address)
        read = _Read(tlp.time_ps, lo, hi, tlp.at)
        self._up_tags[key] = read
        if function is None or not function.enabled:
            self.unmatched["read of an unknown or disabled function"] += 1
            return
        if tlp.zero_length:
            read.start = lo
            read.end = lo + 1
            read.remaining = 1
            read.at = 3
            return
        if tlp.at == 1:
            return
        if tlp.at == 2:
            known = self._translated(function, address)
            if known is None:
                self.unmatched["read of an unknown translation"] += 1
                self._doubt_data(function)
                return
            read.start, read.end = lo - address + known, hi - address + known
            lo, hi = read.start, read.end
        spans = self._overlapping(function.up_reads, lo, hi)
        if not spans:
            if lo >> 12 not in function.up_reads and not self._in_hmb(function, lo):
                self.unmatched["read of unknown memory"] += 1
                self._distrust(function)
                if self._buffers_known(function):
                    self._breach(Rule.READ_OUTSIDE, tlp.time_ps, function, f"{lo:x}h to {hi:x}h belongs to no command")
            return
        only = spans[0]
        if len(spans) == 1 and only.kind == _DATA and only.lo <= lo and hi <= only.hi and only.cmd.capture is None:
            read.fast = only.cmd
            only.hit = True
        else:
            read.targets = spans
            if len(spans) == 1 and only.kind == _SQ and only.lo <= lo and hi <= only.hi and not lo & 3:
                read.queue = only.queue

    def _down_completion(self, tlp: Tlp) -> None:
        key = tlp.requester << 10 | tlp.tag
        read = self._up_tags.get(key)
        if read is None:
            self.unmatched["completion without a request"] += 1
            function = self._functions.get(tlp.requester)
            if function is not None and function.enabled:  # else its request may have been before the observation
                self._breach(Rule.COMPLETION_UNEXPECTED, tlp.time_ps, function, f"tag {tlp.tag}")
            return
        if tlp.status:
            del self._up_tags[key]
            self.unmatched["read that failed"] += 1
            return
        size = min(4 * tlp.length_dw, tlp.byte_count, read.remaining)
        lo = read.end - read.remaining
        read.remaining -= size
        if read.remaining <= 0:
            del self._up_tags[key]
        function = self._functions.get(tlp.requester)
        if function is None or read.at == 3:
            return
        skip = lo & 3 if lo == read.start else 0
        content = tlp.payload[skip : skip + size]
        if read.at == 1:
            self._translation(function, lo, content)
            return
        if read.fast is not None:
            cmd = read.fast
            if cmd.first is None:
                cmd.first = tlp.time_ps
            cmd.last = tlp.time_ps
            cmd.moved += size
            if tlp.poisoned:
                cmd.doubt(Doubt.DATA_POISONED)
            return
        for span in read.targets:
            cut_lo, cut_hi = max(lo, span.lo), min(lo + size, span.hi)
            if cut_lo >= cut_hi:
                continue
            piece = content[cut_lo - lo : cut_hi - lo]
            if span.kind == _SQ:
                self._sqe_piece(function, span.queue, read.time, cut_lo, piece)
            elif span.cmd is None or (not span.cmd.spans and span.cmd.cqe is not None):
                continue
            elif span.kind == _EITHER:
                self._data_or_list(function, span, tlp, cut_lo, piece)
            elif span.kind == _LIST:
                self._prp_list(function, span, cut_lo, piece)
            elif span.kind == _SGL:
                self._sgl_segment(function, span, cut_lo, piece)
            elif span.kind == _HMB_LIST:
                self._hmb_list(function, span, cut_lo, piece)
            elif span.kind in _MOVING:
                self._data(span, tlp.time_ps, cut_lo, piece, tlp.poisoned)
                if span.cmd.opcode == Io.DSM and span.cmd.capture is not None:
                    self._dsm_ranges(span.cmd)

    @staticmethod
    def _translation(function: _Function, requested: int, content: bytes) -> None:
        """Take a translation completion (PCIe 10.2.3): 8 bytes each, big-endian. Bit 11 marks a larger range."""
        page = requested >> 12
        for at in range(0, len(content) - 7, 8):
            entry = struct.unpack_from(">Q", content, at)[0]
            pages = 1
            if entry & 0x800:
                bits = entry >> 12
                pages = 2
                while bits & 1:
                    pages *= 2
                    bits >>= 1
            if entry & 3:
                base = entry >> 12 & ~(pages - 1)
                first = page & ~(pages - 1)
                for index in range(min(pages, 512)):
                    function.translations[base + index] = first + index
            page += pages

    # ------------------------------------------------------------------ submission queue entries

    def _sqe_piece(self, function: _Function, sq: _Sq, time_ps: int, address: int, content: bytes) -> None:
        at = address - sq.base
        while content:
            slot, start = divmod(at, sq.stride)
            piece = content[: sq.stride - start]
            cmd = sq.ring.get(slot)
            if (
                start == 0
                and len(piece) >= 64
                and cmd is not None
                and cmd.opcode is None
                and cmd.doorbell is not None
                and cmd.doorbell <= time_ps
            ):
                self._decode(function, sq, cmd, time_ps, piece)
            elif cmd is not None and cmd.opcode is not None and cmd.cqe is None:
                if start == 0 and cmd.doorbell is not None and piece[2:4] == cmd.cid.to_bytes(2, "little"):
                    cmd.doubt(Doubt.FETCHED_TWICE)
            elif start < 64:
                whole, mask, since = sq.written.get(slot, (bytearray(64), 0, time_ps))
                rung = cmd is not None and cmd.cqe is None and cmd.doorbell is not None and cmd.doorbell <= time_ps
                if rung and cmd is not None and cmd.doorbell is not None and since < cmd.doorbell:
                    whole, mask, since = bytearray(64), 0, time_ps
                part = piece[: 64 - start]
                whole[start : start + len(part)] = part
                mask |= ((1 << len(part)) - 1) << start
                sq.written[slot] = whole, mask, since
                if mask == (1 << 64) - 1 and rung and cmd is not None:
                    del sq.written[slot]
                    self._decode(function, sq, cmd, since, bytes(whole))
                elif mask == (1 << 64) - 1 and sq.shadow and cmd is None:
                    del sq.written[slot]
                    cmd = sq.ring[slot] = _Pending(sq, slot, None)
                    cmd.doubt(Doubt.SHADOW_DOORBELL)
                    self._decode(function, sq, cmd, since, bytes(whole))
            at += len(piece)
            content = content[len(piece) :]

    def _decode(self, function: _Function, sq: _Sq, cmd: _Pending, time_ps: int | None, content: bytes) -> None:
        """Take a whole SQE."""
        opcode, flags, cid, nsid, _c2, _c3, mptr, prp1, prp2, *cdw = _SQE(content)
        cmd.fetch = time_ps
        cmd.opcode, cmd.cid, cmd.nsid = opcode, cid, nsid
        sq.in_flight += 1
        cmd.depth = sq.in_flight
        key = sq.qid << 16 | cid
        if key in function.in_flight:
            other = function.in_flight[key]
            other.doubt(Doubt.CID_REUSED)
            cmd.doubt(Doubt.CID_REUSED)
            self._breach(Rule.CID_REUSED, self._now, function, f"SQ {sq.qid} CID {cid}")
            self._finish(other)
            sq.in_flight -= 1
        function.in_flight[key] = cmd
        if flags & 0x3C or flags >> 6 == 3:
            self._breach(Rule.SQE_RESERVED, self._now, function, f"SQ {sq.qid} CID {cid}: flags {flags:02x}h")
        cmd.sgl = bool(flags >> 6)
        if sq.qid:
            if opcode in RANGE_OPCODES:
                cmd.slba = cdw[1] << 32 | cdw[0]
                cmd.blocks = (cdw[2] & 0xFFFF) + 1
            if opcode in BLOCK_OPCODES:
                self._block_data(function, cmd, flags, mptr, prp1, prp2, cdw, content)
                return
            length = io_data_bytes(opcode, cdw[0], cdw[1], cdw[2])
            if opcode == Io.DSM and length:
                cmd.capture = bytearray(length)
        else:
            cmd.cdw = (prp1, prp2, *cdw)
            length = admin_data_bytes(opcode, cdw[0], cdw[1])
            if opcode == Admin.IDENTIFY and cdw[0] & 0xFF in (0x00, 0x11):
                cmd.capture = bytearray(4096)
            if opcode == Admin.SET_FEATURES and cdw[0] & 0xFF == HOST_MEMORY_BUFFER and cdw[1] & 1:
                self._add(function, cmd, (cdw[4] << 32 | cdw[3]) & ~15, 16 * cdw[5], _HMB_LIST, True, 0, True, False)
                return
            if opcode == Admin.DOORBELL_BUFFER_CONFIG:
                return
        if length == 0:
            cmd.expected = 0
            return
        self._buffers(function, cmd, flags, prp1, prp2, length, 1, content)

    def _block_data(
        self, function: _Function, cmd: _Pending, flags: int, mptr: int, prp1: int, prp2: int, cdw: list[int], content: bytes
    ) -> None:
        """Claim the buffers of a command that moves logical blocks."""
        blocks = cmd.blocks or 1
        space = function.namespaces.get(cmd.nsid or 0)
        length: int | None = None
        metadata = 0
        if space is not None and space.identified:
            per_block = space.lba_bytes
            stripped = bool(cdw[2] >> 29 & 1) and space.metadata == 8 and space.protection
            if space.metadata and not stripped:
                if space.extended:
                    per_block += space.metadata
                else:
                    metadata = space.metadata * blocks
            length = per_block * blocks
            cmd.expected = length + metadata
        elif mptr and flags >> 6 != 2:
            metadata = 128 * blocks
        up = (cmd.opcode or 0) & 2 != 0
        if metadata and flags >> 6 != 2:
            identified = space is not None and space.identified
            self._add(function, cmd, mptr, metadata, _META, identified, 0, not up, up)
        elif mptr and flags >> 6 == 2:
            self._add(function, cmd, mptr & ~7, 16, _SGL, True, 1, True, False)
        self._buffers(function, cmd, flags, prp1, prp2, length, blocks, content)

    def _buffers(
        self, function: _Function, cmd: _Pending, flags: int, prp1: int, prp2: int, length: int | None, blocks: int, content: bytes
    ) -> None:
        if flags >> 6:
            cmd.expected = cmd.expected if length is None else length if cmd.expected is None else cmd.expected
            self._sgl_descriptor(function, cmd, content[24:40], meta=False)
            return
        if cmd.expected is None and length is not None:
            cmd.expected = length
        up, down = self._ways(cmd)
        page = function.page
        if prp1 & 3:
            self._breach(Rule.PRP_OFFSET, self._now, function, f"SQ {cmd.sq.qid} CID {cmd.cid}: PRP1 {prp1:x}h")
        first = page - prp1 % page
        if length is not None:
            self._add(function, cmd, prp1, min(first, length), _DATA, True, 0, down, up)
            rest = length - first
            if rest <= 0:
                return
            if rest <= page:
                if prp2 % page:
                    self._breach(Rule.PRP_OFFSET, self._now, function, f"SQ {cmd.sq.qid} CID {cmd.cid}: PRP2 {prp2:x}h")
                self._add(function, cmd, prp2, rest, _DATA, True, first, down, up)
            else:
                self._claim_list(function, cmd, prp2, rest, True, first)
            return
        # The length is unknown: what PRP2 is shows in its offset, in what was learnt, or in the drive's use of it.
        learnt = self._learnt_length(function, cmd, blocks, first, prp2)
        self._add(function, cmd, prp1, first, _DATA, True, 0, down, up)
        if not prp2:
            return
        if learnt is not None:
            cmd.learnt = True
            rest = learnt - first
            if rest <= page:
                self._add(function, cmd, prp2, page, _DATA, True, first, down, up)
            else:
                self._claim_list(function, cmd, prp2, rest, True, first)
        elif prp2 % page or blocks * 512 > first + page:
            self._claim_list(function, cmd, prp2, blocks * _UNKNOWN_BLOCK_BYTES, False, first)
        else:
            cmd.remaining_list = blocks * _UNKNOWN_BLOCK_BYTES
            self._add(function, cmd, prp2, page, _EITHER, False, first, True, up)

    @staticmethod
    def _ways(cmd: _Pending) -> tuple[bool, bool]:
        """Return whether the drive writes, and whether it reads: the two lowest bits of the opcode."""
        way = (cmd.opcode or 0) & 3
        if way == 3 or way == 0:
            return True, True
        return way == 2, way == 1

    @staticmethod
    def _learnt_length(function: _Function, cmd: _Pending, blocks: int, first: int, prp2: int) -> int | None:
        """Return the length after what earlier commands moved, if the PRPs agree with it."""
        space = function.namespaces.get(cmd.nsid or 0)
        if space is None or not space.lba_bytes or not cmd.sq.qid:
            return None
        length = space.lba_bytes * blocks
        if (length > first) != bool(prp2):
            return None
        if prp2 % function.page and length <= first + function.page:
            return None
        return length

    def _claim_list(self, function: _Function, cmd: _Pending, address: int, rest: int, firm: bool, offset: int) -> None:
        """Expect a PRP list at ``address`` for ``rest`` bytes; ``offset`` is the place of its first page in the data."""
        page = function.page
        room = (page - address % page) // 8
        pages = -(-rest // page)
        count = min(pages, room)
        if address & 7:
            self._breach(Rule.PRP_OFFSET, self._now, function, f"SQ {cmd.sq.qid} CID {cmd.cid}: PRP list at {address:x}h")
        cmd.lists_open += 1
        cmd.remaining_list = rest
        self._add(function, cmd, address & ~7, 8 * count, _LIST, firm, offset, True, False)

    def _data_or_list(self, function: _Function, span: _Span, tlp: Tlp, address: int, content: bytes) -> None:
        """Tell a PRP list from data by its content: aligned addresses, then zeros."""
        cmd: _Pending = span.cmd
        up, down = self._ways(cmd)
        is_list = up and not down
        if down:
            entries = [struct.unpack_from("<Q", content, at)[0] for at in range(0, len(content) - 7, 8)]
            is_list = bool(entries) and entries[0] != 0 and all(e % function.page == 0 and e < 1 << 57 for e in entries)
            cmd.doubt(Doubt.LENGTH_UNKNOWN)
        if is_list:
            span.kind = _LIST
            cmd.lists_open += 1
            self._prp_list(function, span, address, content)
        else:
            span.kind = _DATA
            self._data(span, tlp.time_ps, address, content, tlp.poisoned)

    def _prp_list(self, function: _Function, span: _Span, address: int, content: bytes) -> None:
        """Take entries of a PRP list that the drive has read."""
        cmd: _Pending = span.cmd
        page = function.page
        up, down = self._ways(cmd)
        known = span.firm
        rest_at_start = cmd.remaining_list
        capacity = (page - span.lo % page) // 8
        for at in range(0, len(content) - 7, 8):
            index = (address + at - span.lo) // 8
            entry = struct.unpack_from("<Q", content, at)[0]
            if address + at < span.lo or (cmd.capture is None and not entry and not known):
                if not entry and not known:
                    span.hi = min(span.hi, address + at)
                    break
                continue
            before = index * page
            if index == capacity - 1 and rest_at_start - before > page:
                if (entry % page and not entry & 7) or known:
                    self._next_list(function, cmd, entry, rest_at_start - before, known, span.offset + before)
                continue
            if entry % page:
                if known:
                    self._breach(Rule.PRP_OFFSET, self._now, function, f"SQ {cmd.sq.qid} CID {cmd.cid}: list entry {entry:x}h")
                else:
                    span.hi = min(span.hi, address + at)
                    break
                continue
            size = page if not known or cmd.expected is None else min(page, rest_at_start - before)
            if size > 0 and not any(s.lo == entry and s.kind in (_DATA, _KEPT) for _p, _n, s in cmd.spans if _n == entry >> 12):
                self._add(function, cmd, entry, size, _DATA, known, span.offset + before, down, up)
        if cmd.lists_open:
            cmd.lists_open = 0

    def _next_list(self, function: _Function, cmd: _Pending, entry: int, rest: int, firm: bool, offset: int) -> None:
        if any(s.lo == entry and s.kind == _LIST for _p, _n, s in cmd.spans if _n == entry >> 12):
            return
        self._claim_list(function, cmd, entry, rest, firm, offset)

    # ------------------------------------------------------------------ scatter gather lists

    def _sgl_descriptor(self, function: _Function, cmd: _Pending, descriptor: bytes, meta: bool) -> None:
        """Claim the memory of an SGL descriptor (NVMe 1.4, 4.4)."""
        address, length = struct.unpack_from("<QL", descriptor)
        kind = descriptor[15] >> 4
        up, down = self._ways(cmd)
        if kind in (0, 4):
            if kind == 4:
                length = length & 0xFFFFFF
            if length:
                self._add(function, cmd, address, length, _META if meta else _DATA, True, 0, down, up)
        elif kind == 1:
            if up and cmd.expected is not None:
                cmd.expected -= length
        elif kind in (2, 3):
            cmd.lists_open += 1
            self._add(function, cmd, address, length, _SGL, True, int(meta), True, False)
        else:
            self.unmatched[f"SGL descriptor type {kind:x}h"] += 1
            cmd.doubt(Doubt.LENGTH_UNKNOWN)

    def _sgl_segment(self, function: _Function, span: _Span, address: int, content: bytes) -> None:
        cmd: _Pending = span.cmd
        start = -(address - span.lo) % 16
        if start or len(content) % 16:
            self.unmatched["SGL descriptor read in pieces"] += 1
            cmd.doubt(Doubt.LIST_UNSEEN)
        cmd.lists_open = 0
        for at in range(start, len(content) - 15, 16):
            self._sgl_descriptor(function, cmd, content[at : at + 16], meta=span.offset == 1)

    # ------------------------------------------------------------------ admin data

    def _hmb_list(self, function: _Function, span: _Span, address: int, content: bytes) -> None:
        """Take host memory descriptors: address, and size in pages of CC.MPS."""
        for at in range(-(address - span.lo) % 16, len(content) - 15, 16):
            base, pages = struct.unpack_from("<QL", content, at)
            if pages:
                function.hmb.append((base, base + pages * function.page))
        function.hmb.sort()

    @staticmethod
    def _dsm_ranges(cmd: _Pending) -> None:
        """Sum the ranges of a DSM once all were read."""
        if cmd.capture is None or cmd.moved < len(cmd.capture):
            return
        cmd.blocks = 0
        for at in range(0, len(cmd.capture) - 15, 16):
            _attributes, blocks, slba = struct.unpack_from("<LLQ", cmd.capture, at)
            cmd.blocks += blocks
            if at == 0:
                cmd.slba = slba

    def _admin_done(self, function: _Function, cmd: _Pending) -> None:
        """Let a completed admin command take effect."""
        if cmd.status or not cmd.cdw:
            return
        prp1, prp2, cdw10, cdw11, *_rest = cmd.cdw
        opcode = cmd.opcode
        if opcode == Admin.CREATE_CQ:
            size, qid = (cdw10 >> 16) + 1, cdw10 & 0xFFFF
            if not cdw11 & 1:
                self.unmatched["queue in pieces"] += 1
                function.uncertain_memory += 1
                return
            self._make_cq(function, qid, prp1, size, bool(cdw11 & 2), cdw11 >> 16)
        elif opcode == Admin.CREATE_SQ:
            size, qid = (cdw10 >> 16) + 1, cdw10 & 0xFFFF
            if not cdw11 & 1:
                self.unmatched["queue in pieces"] += 1
                function.uncertain_memory += 1
                return
            stride = 1 << (function.registers[0x16] & 15)
            self._make_sq(function, qid, prp1, size, max(64, stride), cdw11 >> 16)
        elif opcode == Admin.DELETE_SQ:
            sq = function.sqs.pop(cdw10 & 0xFFFF, None)
            if sq is not None:
                self._drop_sq(function, sq)
        elif opcode == Admin.DELETE_CQ:
            cq = function.cqs.pop(cdw10 & 0xFFFF, None)
            if cq is not None:
                self._drop_cq(function, cq)
        elif opcode == Admin.IDENTIFY and cmd.capture is not None and cdw10 & 0xFF in (0x00, 0x11) and cmd.nsid is not None:
            if cmd.moved == 4096:
                self._identify_namespace(function, cmd.nsid, bytes(cmd.capture))
        elif opcode == Admin.FORMAT_NVM:
            self._format(function, cmd.nsid or 0, cdw10)
        elif opcode == Admin.SET_FEATURES and cdw10 & 0xFF == HOST_MEMORY_BUFFER and not cdw11 & 1:
            function.hmb = []
        elif opcode == Admin.DOORBELL_BUFFER_CONFIG:
            function.shadow = True
            for address, pages in ((prp1, function.up_reads), (prp2, function.up_writes)):
                span = _Span(address, address + function.page, _SHADOW, None)
                self._claim(pages, address >> 12, span)
            for sq in function.sqs.values():
                sq.shadow = sq.qid != 0

    @staticmethod
    def _identify_namespace(function: _Function, nsid: int, data: bytes) -> None:
        """Take Identify Namespace: FLBAS 26, DPS 29, formats from 128."""
        if nsid == 0xFFFFFFFF or not any(data[:8]):
            return
        space = function.namespaces[nsid] = _Namespace()
        space.formats = data[128:384]
        space.extended = bool(data[26] & 0x10)
        space.protection = data[29] & 7
        _use_format(space, data[26] & 15 | (data[26] >> 5 & 3) << 4)

    @staticmethod
    def _format(function: _Function, nsid: int, cdw10: int) -> None:
        for ident, space in list(function.namespaces.items()):
            if nsid in (ident, 0xFFFFFFFF):
                if space.formats:
                    space.extended = bool(cdw10 & 0x10)
                    space.protection = cdw10 >> 5 & 7
                    _use_format(space, cdw10 & 15 | (cdw10 >> 12 & 3) << 4)
                else:
                    del function.namespaces[ident]

    # ------------------------------------------------------------------ queues

    def _make_cq(self, function: _Function, qid: int, base: int, size: int, ien: bool, vector: int) -> None:
        old = function.cqs.get(qid)
        if old is not None:
            self._drop_cq(function, old)
        cq = function.cqs[qid] = _Cq(qid, base, size, ien, vector)
        self._claim_queue(function.up_writes, base, 16 * size, _CQ, cq)

    def _make_sq(self, function: _Function, qid: int, base: int, size: int, stride: int, cqid: int) -> None:
        old = function.sqs.get(qid)
        if old is not None:
            self._drop_sq(function, old)
        sq = function.sqs[qid] = _Sq(function, qid, base, size, stride, cqid)
        sq.shadow = function.shadow and qid != 0
        self._claim_queue(function.up_reads, base, stride * size, _SQ, sq)
        for page in range(base >> 12, (base + stride * size + 4095) >> 12):
            function.controller_memory[page] = sq

    def _claim_queue(self, pages: dict[int, Any], base: int, size: int, kind: int, queue: Any) -> None:
        lo, end = base, base + size
        while lo < end:
            hi = min(end, ((lo >> 12) + 1) << 12)
            self._claim(pages, lo >> 12, _Span(lo, hi, kind, None, True, 0, queue))
            lo = hi

    @staticmethod
    def _disclaim_queue(pages: dict[int, Any], base: int, size: int, queue: Any) -> None:
        for page in range(base >> 12, (base + size + 4095) >> 12):
            held = pages.get(page)
            if held is None:
                continue
            left = [s for s in (held if held.__class__ is _Crowd else [held]) if s.queue is not queue]
            if not left:
                del pages[page]
            else:
                pages[page] = left[0] if len(left) == 1 else _Crowd(left)

    def _drop_sq(self, function: _Function, sq: _Sq) -> None:
        function.sqs.pop(sq.qid, None)
        for key, cmd in list(function.in_flight.items()):
            if cmd.sq is sq:
                del function.in_flight[key]
                self._finish(cmd)
        for cmd in sq.ring.values():
            if cmd.cqe is None:
                self._finish(cmd)
        sq.ring = {}
        self._disclaim_queue(function.up_reads, sq.base, sq.stride * sq.size, sq)
        for page in [page for page, owner in function.controller_memory.items() if owner is sq]:
            del function.controller_memory[page]

    def _drop_cq(self, function: _Function, cq: _Cq) -> None:
        function.cqs.pop(cq.qid, None)
        for cmd in (*cq.late, *cq.unread):
            if cmd is not None:
                self._finish(cmd)
        self._disclaim_queue(function.up_writes, cq.base, 16 * cq.size, cq)

    def _flush(self, function: _Function) -> None:
        for cmd in sorted(self._open_commands(function), key=lambda c: (c.cqe is None, c.cqe or 0, c.doorbell or 0)):
            self._finish(cmd)

    def _reset(self, function: _Function, time_ps: int, forget: bool = False) -> None:
        """End every queue. With ``forget``, message vectors and translations end too: CC.EN keeps them, other resets do not."""
        self._flush(function)
        for sq in function.sqs.values():
            sq.ring = {}
        function.sqs.clear()
        function.cqs.clear()
        function.in_flight.clear()
        function.up_writes.clear()
        function.up_reads.clear()
        function.controller_memory.clear()
        function.hmb = []
        function.enabled = False
        function.shadow = False
        function.uncertain_memory = 0
        function.admin_rewritten = False
        function.subsystem_reset = False
        if forget:
            function.registers[0x14:0x18] = bytes(4)
            function.vector_of.clear()
            function.candidates.clear()
            function.msix_table.clear()
            function.translations.clear()
            for key, read in self._up_tags.items():
                if key >> 10 == function.ident:
                    read.forgotten = True
                    read.fast = read.queue = None
                    read.targets = []

    def _enable(self, function: _Function) -> None:
        registers = function.registers
        aqa, asq, acq = struct.unpack_from("<LQQ", registers, 0x24)
        function.page = 1 << (12 + (registers[0x14] >> 7 | (registers[0x15] & 7) << 1))
        function.enabled = True
        function.admin_rewritten = False
        self._make_cq(function, 0, acq & ~4095, (aqa >> 16 & 0xFFF) + 1, True, 0)
        self._make_sq(function, 0, asq & ~4095, (aqa & 0xFFF) + 1, 64, 0)

    # ------------------------------------------------------------------ from the host

    def _down_write(self, tlp: Tlp) -> None:
        for function in self._functions.values():
            sq = function.controller_memory.get(tlp.address >> 12)
            if sq is not None:
                self._sqe_write(function, sq, tlp)
                return
        at = self._at_bar(tlp.address)
        if at is not None:
            function, offset = at
            self._register_write(function, offset, tlp)
            return
        self.unmatched["write to unknown controller memory"] += 1

    def _sqe_write(self, function: _Function, sq: _Sq, tlp: Tlp) -> None:
        """Take SQEs that the host writes to a queue in the controller's memory."""
        lo, hi = _enabled_bytes(tlp, tlp.address)
        content = tlp.payload[lo - tlp.address : hi - tlp.address]
        at = lo - sq.base
        while content:
            slot, start = divmod(at, sq.stride)
            piece = content[: sq.stride - start]
            part = piece[: max(0, 64 - start)]
            whole, mask, _since = sq.written.get(slot, (bytearray(64), 0, -1))
            if mask == (1 << 64) - 1:
                whole, mask = bytearray(64), 0
            whole[start : start + len(part)] = part
            sq.written[slot] = whole, mask | ((1 << len(part)) - 1) << start, -1
            at += len(piece)
            content = content[len(piece) :]

    def _register_write(self, function: _Function, offset: int, tlp: Tlp) -> None:
        payload = tlp.payload
        words = tlp.length_dw
        for index in range(words):
            enables = tlp.first_be if index == 0 else tlp.last_be if index == words - 1 else 15
            if not enables:
                continue
            here = offset + 4 * index
            value = struct.unpack_from("<L", payload, 4 * index)[0]
            if here >= 0x1000:
                self._doorbell_or_table(function, here, value, enables, tlp.time_ps)
            elif here < 0x60:
                self._controller_register(function, here, payload[4 * index : 4 * index + 4], enables, tlp.time_ps)

    def _controller_register(self, function: _Function, offset: int, content: bytes, enables: int, time_ps: int) -> None:
        if function.subsystem_reset:
            self._reset(function, time_ps, forget=True)
        registers = function.registers
        was_enabled = registers[0x14] & 1
        for byte in range(4):
            if enables >> byte & 1:
                registers[offset + byte] = content[byte]
        if 0x24 <= offset < 0x38:
            if was_enabled and function.enabled:
                function.admin_rewritten = True
                if self._capability(function, 0x10) is not None:  # else a function-level reset may have been missed
                    self._breach(Rule.ADMIN_WHILE_ENABLED, time_ps, function, f"register {offset:02x}h")
        elif offset == 0x14:
            now = registers[0x14] & 1
            cc = struct.unpack_from("<L", registers, 0x14)[0]
            if cc & 0xFE00000E:
                self._breach(Rule.CC_RESERVED, time_ps, function, f"CC {cc:08x}h")
            if now and function.enabled and function.admin_rewritten:
                for cmd in self._open_commands(function):
                    cmd.doubt(Doubt.RESET_UNSEEN)
                self.unmatched["reset that was not on the link"] += 1
                self._reset(function, time_ps)
                function.vector_of.clear()
                self._enable(function)
            elif now and not function.enabled:
                self._enable(function)
            elif not now and function.enabled:
                self._reset(function, time_ps)
        elif offset == 0x20 and registers[0x20:0x24] == b"eMVN":
            for other in self._functions.values():
                other.subsystem_reset = other.enabled

    def _doorbell_or_table(self, function: _Function, offset: int, value: int, enables: int, time_ps: int) -> None:
        table = self._msix_location(function)
        if table is not None and table[0] <= offset < table[1]:
            index, part = divmod(offset - table[0], 16)
            entry = function.msix_table.setdefault(index, bytearray(16))
            entry[part : part + 4] = struct.pack("<L", value)
            function.vector_of = {key: vector for key, vector in function.vector_of.items() if vector != index}
            return
        if not enables & 1 and not enables & 2:
            return
        stride = function.stride or 4
        index, odd = divmod(offset - 0x1000, stride)
        if odd:
            self.unmatched["write between doorbells"] += 1
            return
        if enables & 3 != 3:
            self.unmatched["doorbell with one byte enabled"] += 1
            return
        high = value >> 16 if enables == 15 else 0
        value &= 0xFFFF
        qid, is_cq = divmod(index, 2)
        cq = function.cqs.get(qid) if is_cq else None
        sq = None if is_cq else function.sqs.get(qid)
        if high and (cq is not None or sq is not None):
            self._breach(Rule.DOORBELL_RESERVED, time_ps, function, f"{high:04x}h above bit 15 at {offset:x}h")
        if cq is not None:
            self._head_doorbell(function, cq, value, time_ps)
            return
        if sq is not None:
            self._tail_doorbell(function, sq, value, time_ps)
            return
        self.unmatched["doorbell of no queue"] += 1
        may_be_table = table is None and offset >= 0x2000
        if function.enabled and not function.uncertain_memory and not may_be_table:
            self._breach(Rule.DOORBELL_NO_QUEUE, time_ps, function, f"{'CQ' if is_cq else 'SQ'} {qid}")

    def _tail_doorbell(self, function: _Function, sq: _Sq, value: int, time_ps: int) -> None:
        if value >= sq.size:
            self.unmatched["invalid doorbell value"] += 1
            self._breach(Rule.DOORBELL_RANGE, time_ps, function, f"SQ {sq.qid}: {value} of {sq.size}")
            return
        if value == sq.tail:
            self._breach(Rule.DOORBELL_REPEATED, time_ps, function, f"SQ {sq.qid}: {value} again")
            return
        count = (value - sq.tail) % sq.size
        free = sq.size - 1 - (sq.tail - sq.head) % sq.size
        if count > free and not sq.shadow:
            self._breach(Rule.DOORBELL_PAST_HEAD, time_ps, function, f"SQ {sq.qid}: {count} new entries, {free} free")
            self.unmatched["invalid doorbell value"] += 1
        slot = sq.tail
        while slot != value:
            old = sq.ring.get(slot)
            if sq.shadow and old is not None and old.cqe is None and old.doorbell is None:
                old.doorbell = time_ps
            else:
                if old is not None and old.opcode is None and old.cqe is None:
                    self._finish(old)
                cmd = sq.ring[slot] = _Pending(sq, slot, time_ps)
                content = sq.written.get(slot) if sq.written else None
                if content is not None and content[2] == -1:
                    del sq.written[slot]
                    if content[1] == (1 << 64) - 1:
                        cmd.doubt(Doubt.QUEUE_MEMORY)
                        self._decode(function, sq, cmd, None, bytes(content[0]))
            slot += 1
            if slot == sq.size:
                slot = 0
        sq.tail = value

    def _head_doorbell(self, function: _Function, cq: _Cq, value: int, time_ps: int) -> None:
        if value >= cq.size:
            self.unmatched["invalid doorbell value"] += 1
            self._breach(Rule.DOORBELL_RANGE, time_ps, function, f"CQ {cq.qid}: {value} of {cq.size}")
            return
        if value == cq.head:
            self._breach(Rule.DOORBELL_REPEATED, time_ps, function, f"CQ {cq.qid}: {value} again")
            return
        count = (value - cq.head) % cq.size
        if count > len(cq.unread):
            self._breach(Rule.DOORBELL_PAST_TAIL, time_ps, function, f"CQ {cq.qid}: {count} released, {len(cq.unread)} there")
            self.unmatched["invalid doorbell value"] += 1
            count = len(cq.unread)
        cq.head = value
        if cq.late:
            for cmd in cq.late:
                self._finish(cmd)
            cq.waiting = [cmd for cmd in cq.waiting if cmd.tell]
            cq.late = []
        hold = cq.ien and bool(cq.waiting) and cq.vector in function.vector_hits
        for _ in range(count):
            done = cq.unread.popleft()
            if done is None:
                continue
            done.head = time_ps
            if hold and done.interrupt is None:
                cq.late.append(done)
            else:
                self._finish(done)
        if cq.waiting and not hold:
            cq.owed = True
            cq.waiting = [cmd for cmd in cq.waiting if cmd.tell]

    def _down_read(self, tlp: Tlp) -> None:
        at = self._at_bar(tlp.address)
        if at is None:
            self.unmatched["read of unknown controller memory"] += 1
            return
        key = tlp.requester << 10 | tlp.tag
        self._down_tags[key] = (at[0], at[1], 0, 4 * tlp.length_dw)

    def _up_completion(self, tlp: Tlp) -> None:
        key = tlp.requester << 10 | tlp.tag
        request = self._down_tags.pop(key, None)
        if request is None:
            self.unmatched["completion without a request"] += 1
            return
        function, offset, register, size = request
        if tlp.status or not tlp.payload:
            return
        if offset < 0:
            self._config_value(function, register, struct.unpack_from("<L", tlp.payload)[0])
            return
        done = size - tlp.byte_count if tlp.byte_count <= size else 0
        if tlp.byte_count > len(tlp.payload):
            self._down_tags[key] = request
        for at in range(0, len(tlp.payload) - 3, 4):
            if offset + done + at == 4:
                function.stride = 4 << (tlp.payload[at] & 15)

    # ------------------------------------------------------------------ configuration space

    def _config_value(self, function: _Function, register: int, value: int) -> None:
        if register == 0x10 and function.sizing:
            low = value & ~15
            if low:
                function.bar_size = low & -low
            return
        function.config[register] = value

    def _capability(self, function: _Function, wanted: int) -> int | None:
        """Return the offset of a capability, or None before the host has read its header."""
        at = function.config.get(0x34, 0) & 0xFC
        for _ in range(48):
            header = function.config.get(at)
            if not at or header is None:
                return None
            if header & 0xFF == wanted:
                return at
            at = header >> 8 & 0xFC
        return None

    def _msix_location(self, function: _Function) -> tuple[int, int] | None:
        """Return where the MSI-X table lies in BAR0, if the host has read it."""
        at = self._capability(function, 0x11) if 0x34 in function.config else None
        if at is None:
            return None
        place = function.config.get(at + 4)
        if place is None or place & 7:
            return None
        count = (function.config[at] >> 16 & 0x7FF) + 1
        return place & ~7, (place & ~7) + 16 * count

    def _config_write(self, tlp: Tlp) -> None:
        function = self._function(tlp.completer)
        if function.subsystem_reset:
            self._reset(function, tlp.time_ps, forget=True)
        value = struct.unpack_from("<L", tlp.payload)[0]
        register = tlp.register
        if tlp.first_be != 15:
            old = function.config.get(register, 0)
            mask = sum(0xFF << 8 * byte for byte in range(4) if tlp.first_be >> byte & 1)
            value = old & ~mask | value & mask
        if register == 0x10:
            function.sizing = value == 0xFFFFFFFF
            if not function.sizing:
                function.bar_low = value & ~15
                self._place_bar(function)
        elif register == 0x14:
            function.sizing = value == 0xFFFFFFFF
            if not function.sizing:
                function.bar_high = value
                self._place_bar(function)
        elif register >= 0x40:
            self._capability_write(function, register, value, tlp)

    def _place_bar(self, function: _Function) -> None:
        if function.bar_low is None:
            return
        place = function.bar_high << 32 | function.bar_low
        if not place:
            return
        for other in list(self._functions.values()):
            if other is not function and other.bar == place and other.ident & 0xFF == function.ident & 0xFF:
                self._reset(other, self._now, forget=True)
                other.bar = None
        function.bar = place
        self._sort_bars()

    def _capability_write(self, function: _Function, register: int, value: int, tlp: Tlp) -> None:
        express = self._capability(function, 0x10)
        if express is not None and register == express + 8 and value & 0x8000 and tlp.first_be & 2:
            self._reset(function, tlp.time_ps, forget=True)
            return
        power = self._capability(function, 0x01)
        if power is not None and register == power + 4:
            if function.d3 and value & 3 == 0 and not function.config.get(register, 0) & 8:
                self._reset(function, tlp.time_ps, forget=True)
            function.d3 = value & 3 == 3
        message = self._capability(function, 0x05)
        if message is not None and message <= register < message + 0x14:
            function.config[register] = value
            self._place_msi(function, message)

    @staticmethod
    def _place_msi(function: _Function, at: int) -> None:
        """Take the MSI capability: a vector changes the low bits of the data."""
        control = function.config.get(at, 0) >> 16
        if not control & 1:
            return
        wide = control & 0x80
        address = function.config.get(at + 4, 0) | (function.config.get(at + 8, 0) << 32 if wide else 0)
        data = function.config.get(at + (12 if wide else 8), 0) & 0xFFFF
        count = 1 << (control >> 4 & 7)
        function.vector_of = {(address, data & ~(count - 1) | vector): vector for vector in range(count)}


def _use_format(space: _Namespace, index: int) -> None:
    """Take one of the namespace's formats: metadata bytes, and the exponent of the block."""
    if 4 * index + 4 > len(space.formats):
        return
    metadata, exponent, _performance = struct.unpack_from("<HBB", space.formats, 4 * index)
    space.metadata = metadata
    space.lba_bytes = 1 << exponent
    space.identified = exponent >= 9


def _enabled_bytes(tlp: Tlp, address: int) -> tuple[int, int]:
    """Return the range of enabled bytes; holes between them count as enabled."""
    first = tlp.first_be
    last = tlp.last_be if tlp.length_dw > 1 else first
    lo = address + ((first & -first).bit_length() - 1 if first else 0)
    end = address + 4 * (tlp.length_dw - 1)
    return lo, max(lo, end + last.bit_length())
