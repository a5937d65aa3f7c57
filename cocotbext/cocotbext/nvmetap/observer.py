"""The passive core: it takes TLPs of both directions and gives NVMe commands.

The link is its only source. Host and drive tell each other queues, page size, doorbell stride, formats, message vectors and the
host memory buffer. :attr:`LinkObserver.unmatched` counts TLPs without a known meaning.

The observer is the top of layers, a class and a module each. A layer calls only those below: requests of the drive, registers and
doorbells, configuration space, interrupts, queue entries, queues, data pointers, host memory. They share the state of ``state``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from operator import index

from .command import Command, Doubt
from .requests import DriveRequests
from .rules import Rule
from .state import CQ, DATA, tag_key
from .tlp import Direction, MalformedTlpError, Tlp, TlpKind, decode_tlp

_DWORD = struct.Struct("<L").unpack_from
_HEAD_32 = struct.Struct(">LL").unpack_from
_HEAD_64 = struct.Struct(">LQ").unpack_from
"""Requester, tag and byte enables of a memory request as one number, and its address."""
_COMPLETION_HEAD = struct.Struct(">HL").unpack_from
"""Status and byte count of a completion; requester, tag and lower address as one number."""
_OTHER, _COMPLETION, _WRITE_32, _WRITE_64, _READ_32, _READ_64 = range(6)
"""Codes of plain TLPs; a request's code is odd if its header has 4 double words."""
_DOWN, _UP = Direction
_DISORDER = "a TLP at {} ps behind one of the {} at {} ps: the source must keep the order of time in each direction"
_PLAIN = {0x60: _WRITE_64, 0x40: _WRITE_32, 0x4A: _COMPLETION, 0x00: _READ_32, 0x20: _READ_64}
"""Code by the first byte of a header."""


class LinkObserver(DriveRequests):
    """Finds NVMe commands in TLPs.

    Call ``observer.feed(time_ps, Direction.DOWN, data)`` for each TLP, in the order of their ends. Times of one direction must not fall.
    Finished commands come from :meth:`commands`, or go to ``on_command``. :meth:`close` gives the commands that are still open.
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

        Raises:
            ValueError: A function or an address in ``bar0`` is none, or ``timeout_ps`` is not above 0.
        """
        if timeout_ps <= 0:
            raise ValueError(f"timeout_ps is {timeout_ps}; it must be above 0")
        super().__init__(on_command, timeout_ps)
        self.tlps = 0
        self._last_up_ps = self._last_down_ps = 0
        self._shapes: dict[bytes, tuple[int, int, int, int]] = {}
        for ident, address in (bar0 or {}).items():
            if not (isinstance(ident, int) and 0 <= ident < 1 << 16 and isinstance(address, int) and 0 < address < 1 << 64):
                raise ValueError(f"bar0 has {ident!r}: {address!r}; it maps numbers of functions such as 0x0100 to addresses")
            function = self._function(ident)
            function.bar = address
            self._sort_bars()
            self._place_own(function)

    def commands(self) -> Iterator[Command]:
        """Yield the commands that have finished since the last call."""
        while self._finished:
            yield self._finished.popleft()

    def feed(self, time_ps: int, direction: Direction, data: bytes) -> None:
        """Take one TLP.

        Parameters:
            time_ps: Time of the first symbol.
            direction: Way over the link.
            data: Bytes as on the wire, with or without prefixes and digest. Bytes that are no TLP break rule TLP_MALFORMED.

        Raises:
            ValueError: The time is negative or earlier than the last TLP of the direction, or there is no such direction.
            TypeError: The time is no integer.
        """
        try:
            code, total, size, tag_high = self._shapes[data[:4]]
        except (KeyError, TypeError):
            time_ps, data = index(time_ps), bytes(data)
            code, total, size, tag_high = self._shape(data)
        if direction is _UP:
            if time_ps < self._last_up_ps:
                raise ValueError(_DISORDER.format(time_ps, "drive", self._last_up_ps))
            self._now = self._last_up_ps = time_ps
            taken = code >= _WRITE_32 and total == len(data) and self._plain_request(time_ps, data, code, size, tag_high)
        elif direction is _DOWN:
            if time_ps < self._last_down_ps:
                raise ValueError(_DISORDER.format(time_ps, "host", self._last_down_ps))
            self._now = self._last_down_ps = time_ps
            if code == _COMPLETION:
                taken = total == len(data) and self._plain_completion(time_ps, data, size, tag_high)
            else:
                taken = size == 4 and _WRITE_32 <= code <= _WRITE_64 and total == len(data) and self._plain_doorbell(time_ps, data, code)
        else:
            self.feed(time_ps, Direction(direction), data)
            return
        self.tlps += 1
        if not taken:
            self._any_tlp(time_ps, direction, data)

    def _plain_request(self, time_ps: int, data: bytes, code: int, size: int, tag_high: int) -> bool:
        """Take a read or a write of the drive. Returns False if its full decoding is needed."""
        word, address = _HEAD_64(data, 4) if code & 1 else _HEAD_32(data, 4)
        address &= ~3  # the lowest bits are a processing hint (2.2.7.1)
        function = self._functions.get(word >> 16)
        if function is None or not function.enabled or word & 0xFF != (0xFF if size > 4 else 0x0F):
            return False
        if code >= _READ_32:
            if (address & 4095) + size > 4096:
                return False
            self._plain_read(function, word >> 8 | tag_high, time_ps, address, address + size)
            return True
        span = function.up_writes.get(address >> 12)
        if span is None:
            return (
                size == 4
                and not (function.hmb and self._in_hmb(function, address))
                and self._message(function, time_ps, (address, _DWORD(data, len(data) - 4)[0]))
            )
        if span.kind == DATA and span.lo <= address and address + size <= span.hi:
            cmd = span.cmd
            if cmd.first is None:
                cmd.first = time_ps
            cmd.last = time_ps
            cmd.moved += size
            span.hit = True
            return True
        if span.kind == CQ and size == 16 and not address & 15:
            self._cqe(function, span.queue, time_ps, address, data[-16:])
            return True
        return False

    def _plain_completion(self, time_ps: int, data: bytes, size: int, tag_high: int) -> bool:
        """Take data or SQEs that the drive has asked for. Returns False if its full decoding is needed."""
        status_count, word = _COMPLETION_HEAD(data, 6)
        key = word >> 8 | tag_high
        read = self._up_tags.get(key)
        if read is None or status_count >= 0x2000:
            return False
        last = size >= read.remaining
        cmd = read.fast
        if cmd is not None:
            if cmd.first is None:
                cmd.first = time_ps
            cmd.last = time_ps
            cmd.moved += read.remaining if last else size
        elif read.queue is not None and size <= read.remaining:
            self._sqe_piece(read.queue.function, read.queue, read.time, read.end - read.remaining, data[12:])
        else:
            return False
        if last:
            del self._up_tags[key]
        else:
            read.remaining -= size
        return True

    def _plain_doorbell(self, time_ps: int, data: bytes, code: int) -> bool:
        """Take a write of the host to a doorbell, or to the MSI-X table. Returns False if its full decoding is needed."""
        word, address = _HEAD_64(data, 4) if code & 1 else _HEAD_32(data, 4)
        address &= ~3
        place = self._at_bar(address)
        if word & 0xFF != 0x0F or place is None or place[1] < 0x1000 or address >> 12 in place[0].controller_memory:
            return False
        self._doorbell_or_table(place[0], place[1], _DWORD(data, len(data) - 4)[0], 15, time_ps)
        return True

    def _shape(self, data: bytes) -> tuple[int, int, int, int]:
        """Return code, bytes of the TLP, bytes that it moves, and upper bits of a tag's key, from the first double word of a header.

        All TLPs that are not plain have the code `_OTHER`: poisoned, translated, with prefix or digest, or of another type.
        """
        shape = _OTHER, 0, 0, 0
        if len(data) >= 4:
            size = 4 * (((data[2] & 3) << 8 | data[3]) or 1024)
            tag_high = (data[1] & 8) << 21 | (data[1] & 0x80) << 18
            code = _PLAIN.get(data[0], _OTHER)
            if code == _COMPLETION:
                if not data[2] & 0xC0:
                    shape = code, 12 + size, size, tag_high
            elif code and not data[2] & 0xCC:
                header = 16 if code & 1 else 12
                shape = code, header if code >= _READ_32 else header + size, size, tag_high
        self._shapes[data[:4]] = shape
        return shape

    def _any_tlp(self, time_ps: int, direction: Direction, data: bytes) -> None:
        """Take a TLP of any kind, decoded in full: what :meth:`feed` does not know by its first double word."""
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
            if direction is _UP:
                if kind is TlpKind.MEMORY_WRITE:
                    self._up_write(tlp)
                else:
                    self._up_read(tlp)
            elif kind is TlpKind.MEMORY_WRITE:
                self._down_write(tlp)
            else:
                self._down_read(tlp)
        elif kind is TlpKind.COMPLETION:
            if direction is _UP:
                self._up_completion(tlp)
            else:
                self._down_completion(tlp)
        elif kind in (TlpKind.CONFIG_WRITE, TlpKind.CONFIG_READ):
            if direction is _UP:
                self.unmatched["configuration request of the drive: are the directions exchanged?"] += 1
            else:
                self._down_tags[tag_key(tlp)] = (self._function(tlp.completer), -1, tlp.register, 4)
                if kind is TlpKind.CONFIG_WRITE:
                    self._config_write(tlp)
        elif kind is TlpKind.MESSAGE and direction is _UP and 0x20 <= tlp.message_code <= 0x27:
            if tlp.message_code < 0x24:
                self._intx(tlp)
        else:
            self.unmatched[kind.value] += 1

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
