"""Bus traces (``.wbt``) of a simulation, which Wattbell's virtual rig plays into its gateware (``wattbell sim replay``)."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from .observer import LinkObserver
from .tlp import Direction, skip_prefixes

if TYPE_CHECKING:
    from .monitor import TlpSource

_RECORD = struct.Struct("<BBHQ")
_BURST_HEAD = struct.Struct("<BBHII")
_DOWN, _UP, _BURST, _RAIL, _SIDEBAND, _END, _SUMMARY, _MISSED = range(1, 9)
_PERST, _LINK = 1, 3
_DETECT = 7
_OMITTED = 1
"""Flag of a TLP without its payload."""
_LONGEST_PS = (1 << 63) - 1
_MOST_NANO = (1 << 63) - 1
"""Largest current in nA, and voltage in nV."""


class TraceWriter:
    """A bus trace being written: TLPs of both directions, the 3.3 V rail and PERST#, in the order of time.

    Use it as a context manager, or call :meth:`close`. A trace without its end cannot be played to the end.
    """

    def __init__(self, path: Path | str, source: TlpSource | None = None, *, note: str = "") -> None:
        """Create the file, and write every TLP of ``source`` into it.

        Parameters:
            path: File to write, by custom with the ending ``.wbt``.
            source: Its TLPs must come in the order of time over both directions.
            note: A sentence for the file's header.
        """
        self._file = Path(path).open("wb")  # noqa: SIM115 - close() closes it
        self._last_ps = 0
        head = {"source": "cocotbext-nvmetap", "profile": "", "timing": "model", "notes": [note] if note else []}
        text = json.dumps(head).encode()
        self._file.write(b"WBBT" + struct.pack("<II", 1, len(text)) + text)
        if source is not None:
            source.subscribe(self._watch)

    def tlp(self, time_ps: int, direction: Direction, data: bytes) -> None:
        """Write a TLP: prefixes, header, payload and digest as on the wire.

        Raises:
            ValueError: The time is earlier than the last record, or there is no such direction.
        """
        self._record(Direction(direction).value, time_ps, data)

    def rail(self, time_ps: int, volts: float, amps: float) -> None:
        """Write voltage in V and current in A from an instant on.

        Raises:
            ValueError: The time is earlier than the last record, or a value is no finite number.
        """
        if not (math.isfinite(volts) and math.isfinite(amps)) or max(abs(volts), abs(amps)) * 1e9 > _MOST_NANO:
            raise ValueError(f"the rail at {time_ps} ps has {volts} V and {amps} A: a trace has no place for such values")
        self._record(_RAIL, time_ps, struct.pack("<qq", round(amps * 1e9), round(volts * 1e9)))

    def perst(self, time_ps: int, *, asserted: bool) -> None:
        """Write a level of PERST#; asserted is low. Raises ValueError for a time earlier than the last record."""
        self._record(_SIDEBAND, time_ps, bytes((_PERST, 0 if asserted else 1)))

    def close(self, time_ps: int | None = None) -> None:
        """End the trace at an instant, or at its last record; later calls do nothing."""
        if not self._file.closed:
            self._record(_END, self._last_ps if time_ps is None else time_ps, b"")
            self._file.close()

    def __enter__(self) -> TraceWriter:
        """Return the writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the trace."""
        self.close()

    def _watch(self, time_ps: int, direction: Direction, data: bytes) -> None:
        """Write a TLP of the source; the simulation may go on after the trace's end."""
        if not self._file.closed:
            self.tlp(time_ps, direction, data)

    def _record(self, kind: int, time_ps: int, body: bytes) -> None:
        """Append a record.

        Raises:
            ValueError: The time is earlier than the last record, the body is too long, or the file is closed.
        """
        if not self._last_ps <= time_ps <= _LONGEST_PS:
            raise ValueError(f"a record at {time_ps} ps behind one at {self._last_ps} ps: a bus trace is in the order of time")
        if len(body) > 0xFFFF:
            raise ValueError(f"{len(body)} bytes at {time_ps} ps are no TLP: a record has at most 65535")
        self._last_ps = time_ps
        self._file.write(_RECORD.pack(kind, 0, len(body), time_ps) + body)


def play_trace(path: Path | str, observer: LinkObserver) -> None:
    """Play a bus trace into ``observer``, and end the observation where the trace ends.

    TLPs, bursts, PERST#, state of the link and missed TLPs go to the observer. The rail does not.

    Raises:
        ValueError: The file is no bus trace, is damaged, or has summaries instead of TLPs. The message names file and byte. All records
            before were played.
    """
    content = Path(path).read_bytes()
    if content[:8] != b"WBBT\x01\0\0\0" or len(content) < 12:
        raise ValueError(f"{path} is no bus trace: it does not begin with WBBT, version 1")
    at = 12 + struct.unpack_from("<L", content, 8)[0]
    waiting: list[tuple[int, int, int, bytes]] = []
    """TLPs of bursts that later records overtake: time, number, direction, bytes."""
    ended = False
    while at < len(content) and not ended:
        try:
            kind, flags, size, time_ps = _RECORD.unpack_from(content, at)
            body = content[at + 12 : at + 12 + size]
            if len(body) < size:
                raise ValueError("the file ends within it")
            _flush(waiting, observer, time_ps)
            if kind in (_DOWN, _UP):
                observer.feed(time_ps, Direction(kind), _with_payload(body) if flags & _OMITTED else body)
            elif kind == _BURST:
                for tlp_ps, direction, data in _burst_tlps(time_ps, body):
                    heappush(waiting, (tlp_ps, len(waiting), direction, data))
            else:
                ended = _other_record(kind, time_ps, body, observer)
        except (ValueError, IndexError, struct.error) as error:
            raise ValueError(f"{path}: the record at byte {at} is damaged: {error}") from None
        at += 12 + size
    _flush(waiting, observer, _LONGEST_PS)
    observer.close(None if not ended else time_ps)


def _other_record(kind: int, time_ps: int, body: bytes, observer: LinkObserver) -> bool:
    """Take a record without TLPs. Returns whether it ends the trace."""
    if kind == _SIDEBAND and body[0] == _PERST:
        observer.perst(time_ps, asserted=not body[1])
    elif kind == _SIDEBAND and body[0] == _LINK:
        observer.link(time_ps, up=body[1] != _DETECT)
    elif kind == _MISSED:
        observer.missed(time_ps)
    elif kind == _SUMMARY:
        raise ValueError("it is a command's summary without TLPs, and the observer needs TLPs")
    elif kind not in (_RAIL, _SIDEBAND, _END):
        raise ValueError(f"its type is {kind}")
    return kind == _END


def _flush(waiting: list[tuple[int, int, int, bytes]], observer: LinkObserver, time_ps: int) -> None:
    while waiting and waiting[0][0] <= time_ps:
        begun_ps, _, direction, data = heappop(waiting)
        observer.feed(begun_ps, Direction(direction), data)


def _with_payload(header: bytes) -> bytes:
    """Return a TLP with zeros for the payload that its header announces."""
    at = skip_prefixes(header)
    return header + bytes(4 * ((header[at + 2] & 3) << 8 | header[at + 3] or 1024))


def _burst_tlps(time_ps: int, body: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield time, direction and bytes of a burst's TLPs: memory writes or completions, one behind the other."""
    direction, size, count, step_ps, step_bytes = _BURST_HEAD.unpack_from(body)
    header = body[_BURST_HEAD.size :]
    if len(header) != size or size not in (12, 16):
        raise ValueError(f"its header of a TLP has {len(header)} bytes")
    for number in range(count):
        done = number * step_bytes
        if header[0] & 0x1F == 0x0A:
            byte_count = (int.from_bytes(header[6:8]) - done) & 0xFFF | header[6] >> 4 << 12
            one = header[:6] + byte_count.to_bytes(2) + header[8:11] + bytes(((header[11] + done) & 0x7F,))
        else:
            one = header[:8] + (int.from_bytes(header[8:]) + done).to_bytes(size - 8)
        yield time_ps + number * step_ps, direction, _with_payload(one)
