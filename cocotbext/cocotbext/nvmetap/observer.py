"""The passive core: it takes TLPs of both directions and gives NVMe commands.

The link is its only source. Host and drive tell each other queues, page size, doorbell stride, formats, message vectors and the
host memory buffer. :attr:`LinkObserver.unmatched` counts TLPs without a known meaning.

The observer is the top of layers, a class and a module each. A layer calls only those below: requests of the drive, registers and
doorbells, configuration space, interrupts, queue entries, queues, data pointers, host memory. They share the state of ``state``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from .command import Command, Doubt
from .requests import DriveRequests
from .rules import Rule
from .state import CQ
from .tlp import Direction, MalformedTlpError, Tlp, TlpKind, decode_tlp

_DWORD = struct.Struct("<L").unpack_from
_UP32 = struct.Struct(">HBBL").unpack_from
_UP64 = struct.Struct(">HBBQ").unpack_from
_COMPLETION = struct.Struct(">HHB").unpack_from


class LinkObserver(DriveRequests):
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
        super().__init__(on_command, timeout_ps)
        self.tlps = 0
        self._shapes: dict[bytes, tuple[int, int, int]] = {}
        for ident, address in (bar0 or {}).items():
            function = self._function(ident)
            function.bar = address
            self._sort_bars()
            self._place_own(function)

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
                            elif span.kind == CQ and size == 16 and not address & 15:
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

    def _well_formed(self, tlp: Tlp) -> bool:
        if (tlp.address & 4095) + 4 * tlp.length_dw > 4096:
            self._breach(Rule.TLP_CROSSES_4K, tlp.time_ps, None, f"{tlp.address:x}h + {4 * tlp.length_dw} bytes")
            self.unmatched["malformed TLP"] += 1
            return False
        if (tlp.length_dw == 1) != (tlp.last_be == 0):
            self._breach(Rule.TLP_BYTE_ENABLES, tlp.time_ps, None, f"{tlp.length_dw} double words, last byte enables {tlp.last_be:04b}")
        return True
