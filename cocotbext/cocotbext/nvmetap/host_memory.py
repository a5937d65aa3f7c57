"""Ownership of host memory by page, and the end of a command."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from .command import Command, Doubt
from .opcodes import Admin
from .rules import Rule, Violation
from .state import (
    DATA,
    KEPT,
    META,
    MOVING,
    Crowd,
    Function,
    Pending,
    Read,
    Span,
)


class HostMemory:
    """Knows which command or queue each range of host memory belongs to, and gives finished commands to the outside."""

    def __init__(self, on_command: Callable[[Command], None] | None, timeout_ps: int) -> None:
        """Start without knowledge."""
        self.on_violation: Callable[[Violation], None] | None = None
        self.unmatched: Counter[str] = Counter()
        """Number of TLPs and events that were not understood, by class."""
        self._finished: deque[Command] = deque()
        self._out: Callable[[Command], None] = on_command or self._finished.append
        self._functions: dict[int, Function] = {}
        self._up_tags: dict[int, Read] = {}
        self._timeout_ps = timeout_ps
        self._now = 0

    def _breach(self, rule: Rule, time_ps: int, function: Function | None, detail: str) -> None:
        if self.on_violation is not None:
            self.on_violation(Violation(rule, time_ps, None if function is None else function.ident, detail))

    def _function(self, ident: int) -> Function:
        function = self._functions.get(ident)
        if function is None:
            function = self._functions[ident] = Function(ident)
        return function

    @staticmethod
    def _open_commands(function: Function) -> list[Pending]:
        """Return every command that has not been given yet, without repetition."""
        seen: dict[int, Pending] = {}
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
    def _waits_for_event(cmd: Pending) -> bool:
        return cmd.sq.qid == 0 and cmd.opcode == Admin.ASYNC_EVENT_REQUEST

    def _check_time(self, cmd: Pending, now: int) -> None:
        start = cmd.doorbell if cmd.doorbell is not None else cmd.fetch
        if start is not None and now - start > self._timeout_ps and not self._waits_for_event(cmd):
            self._breach(Rule.TIMEOUT, now, cmd.sq.function, f"SQ {cmd.sq.qid} CID {cmd.cid}: {(now - start) // 1_000_000} us")

    def _finish(self, cmd: Pending) -> None:
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

    @staticmethod
    def _claim(pages: dict[int, Any], page: int, span: Span) -> None:
        held = pages.get(page)
        if held is None:
            pages[page] = span
        elif held.__class__ is Crowd:
            held.append(span)
        else:
            pages[page] = Crowd((held, span))

    def _add(
        self, function: Function, cmd: Pending, lo: int, size: int, kind: int, firm: bool, offset: int, reads: bool, writes: bool
    ) -> None:
        """Give ``cmd`` a range of host memory, cut at 4 KiB."""
        end = lo + size
        if lo < function.own_hi and function.own_lo < end and self._is_own(function, lo):
            cmd.elsewhere = True
            if kind not in (DATA, META):
                cmd.lists_open = max(cmd.lists_open, 1)
        if kind == DATA and cmd.capture is not None:
            kind = KEPT
        while lo < end:
            page = lo >> 12
            hi = min(end, (page + 1) << 12)
            span = Span(lo, hi, kind, cmd, firm, offset)
            for wanted, pages in ((writes, function.up_writes), (reads, function.up_reads)):
                if wanted:
                    held = pages.get(page)
                    if held is None:
                        pages[page] = span
                    else:
                        self._claim(pages, page, span)
                        if kind in MOVING:
                            self._check_overlap(held if held.__class__ is Crowd else [held], span)
                    cmd.spans.append((pages, page, span))
            offset += hi - lo
            lo = hi

    @staticmethod
    def _is_own(function: Function, address: int) -> bool:
        """Whether an address is in the controller's memory, which needs no link."""
        return any(lo <= address < hi for lo, hi in function.own)

    @staticmethod
    def _check_overlap(held: list[Span], span: Span) -> None:
        """Mark commands with overlapping data ranges, unless one has the better claim."""
        for other in held:
            if (
                other is not span
                and other.kind in MOVING
                and other.cmd is not span.cmd
                and other.lo < span.hi
                and span.lo < other.hi
                and other.firm == span.firm
            ):
                other.cmd.doubt(Doubt.SHARED_BUFFER)
                span.cmd.doubt(Doubt.SHARED_BUFFER)

    @staticmethod
    def _release(cmd: Pending) -> None:
        for pages, page, span in cmd.spans:
            held = pages.get(page)
            if held is span:
                del pages[page]
            elif held.__class__ is Crowd:
                held.remove(span)
                if len(held) == 1:
                    pages[page] = held[0]
        cmd.spans = []

    @staticmethod
    def _overlapping(pages: dict[int, Any], lo: int, hi: int) -> list[Span]:
        """Return the ranges that ``lo`` to ``hi`` touches; of data ranges only those with the best claim."""
        held = pages.get(lo >> 12)
        if held is None:
            return []
        spans = [s for s in (held if held.__class__ is Crowd else (held,)) if s.lo < hi and lo < s.hi]
        if len(spans) > 1 and any(s.firm for s in spans):
            firm = [s for s in spans if s.firm]
            spans = firm + [s for s in spans if not s.firm and not any(f.lo < s.hi and s.lo < f.hi for f in firm)]
        return spans

    @staticmethod
    def _in_hmb(function: Function, address: int) -> bool:
        at = bisect_right(function.hmb, (address, 1 << 64)) - 1
        return at >= 0 and function.hmb[at][0] <= address < function.hmb[at][1]

    def _translated(self, function: Function, address: int) -> int | None:
        """Return the untranslated address of an address from the drive's translation cache."""
        page = function.translations.get(address >> 12)
        return None if page is None else page << 12 | address & 4095

    def _claim_queue(self, pages: dict[int, Any], base: int, size: int, kind: int, queue: Any) -> None:
        lo, end = base, base + size
        while lo < end:
            hi = min(end, ((lo >> 12) + 1) << 12)
            self._claim(pages, lo >> 12, Span(lo, hi, kind, None, True, 0, queue))
            lo = hi

    @staticmethod
    def _disclaim_queue(pages: dict[int, Any], base: int, size: int, queue: Any) -> None:
        for page in range(base >> 12, (base + size + 4095) >> 12):
            held = pages.get(page)
            if held is None:
                continue
            left = [s for s in (held if held.__class__ is Crowd else [held]) if s.queue is not queue]
            if not left:
                del pages[page]
            else:
                pages[page] = left[0] if len(left) == 1 else Crowd(left)

    @staticmethod
    def _data(span: Span, time_ps: int, address: int, content: bytes, poisoned: bool) -> None:
        cmd: Pending = span.cmd
        if cmd.first is None:
            cmd.first = time_ps
        cmd.last = time_ps
        if span.kind == META:
            cmd.meta_bytes += len(content)
        else:
            cmd.moved += len(content)
            span.hit = True
        if poisoned:
            cmd.doubt(Doubt.DATA_POISONED)
        if cmd.capture is not None and span.kind != META:
            start = span.offset + address - span.lo
            cmd.capture[start : start + len(content)] = content

    def _doubt_data(self, function: Function) -> None:
        for cmd in function.in_flight.values():
            if cmd.spans:
                cmd.doubt(Doubt.DATA_INCOMPLETE)

    @staticmethod
    def _buffers_known(function: Function) -> bool:
        """Tell whether the ends of all buffers in flight are certain. Only then can an access be outside."""
        return not function.uncertain_memory and not any(
            cmd.learnt or (cmd.elsewhere and cmd.lists_open) or (cmd.expected is None and cmd.spans) for cmd in function.in_flight.values()
        )

    @staticmethod
    def _distrust(function: Function) -> None:
        """Doubt commands with a learnt length, since data went to memory that nobody gave."""
        for cmd in function.in_flight.values():
            if cmd.learnt:
                cmd.doubt(Doubt.LENGTH_UNKNOWN)
                space = function.namespaces.get(cmd.nsid or 0)
                if space is not None:
                    space.lba_bytes = 0
