"""Decode pages of the kernel's trace ring buffer, as ``per_cpu/cpuN/trace_pipe_raw`` gives them, to events of the NVMe driver.

The layout of a page and of an event is read from the kernel's own ``events/header_page`` and ``events/nvme/*/format``. The sequence of
records in a page (``events/header_event``, include/linux/ring_buffer.h) has been the same since 2009:

    32 bits   type_len 5, time_delta 27
    1..28     data of type_len x 4 bytes                    0   data, its length in the next 32 bits, themselves included
    29        padding: a discarded event, or the page's rest (time_delta 0)
    30        time_delta is the low part of a longer one    31  of an absolute time stamp; the high part is in the next 32 bits

Pages are walked side by side, one record of each at a time: a page has some fifty records, a second of log has thousands of pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import CaptureError
from .events import COMPLETE, SETUP, Events, together

U8 = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
SETUP_EVENT, COMPLETE_EVENT = "nvme_setup_cmd", "nvme_complete_rq"
_FIELD = re.compile(r"field:\s*(?P<what>[^;]+);\s*offset:(?P<offset>\d+);\s*size:(?P<size>\d+);")
_NAME = re.compile(r"(\w+)(?:\[[^\]]*\])?$")
_ID = re.compile(r"^ID:\s*(\d+)\s*$", re.MULTILINE)
_KINDS: dict[int, type[np.generic]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 24: np.uint32}
"""A field of 24 bytes is an array, read a dword at a time."""
_LENGTH = (1 << 27) - 1
_MISSED, _STORED = 1 << 31, 1 << 30
"""In a page's ``commit``: events are missing before this page; how many stands behind its data."""
_EXTENDED, _PADDING, _EXTEND, _STAMP = 0, 29, 30, 31
_TOP = 0xF8 << 56
"""Bits of an absolute time stamp that have no room in its record: as in the page's."""


@dataclass(frozen=True)
class PageLayout:
    """Fields of an event or a page header: offset and size in bytes, by name."""

    fields: Mapping[str, tuple[int, int]]
    number: int | None = None
    """The event's, in the first field of each of its records."""

    def needs(self, name: str, *sizes: int) -> tuple[int, int]:
        """Return offset and size of a field. Raises CaptureError if it is missing, or has none of `sizes`."""
        if name not in self.fields or (sizes and self.fields[name][1] not in sizes):
            raise CaptureError(
                f"this kernel's trace events have no field {name} of {' or '.join(map(str, sizes)) or 'any'} bytes: its NVMe driver is "
                "older than Linux 5.0 or newer than what is known here; use --commands blktrace."
            )
        return self.fields[name]


def layout(text: str) -> PageLayout:
    """Return the layout in a ``format`` file, or in ``header_page``."""
    fields = {}
    for found in _FIELD.finditer(text):
        name = _NAME.search(found["what"].strip())
        if name:
            fields[name[1]] = (int(found["offset"]), int(found["size"]))
    number = _ID.search(text)
    return PageLayout(fields, int(number[1]) if number else None)


@dataclass(frozen=True)
class OverwrittenEvents:
    """Events that the kernel overwrote before they were read: between two instants of one CPU; count -1 if unknown."""

    after_ns: int | None
    before_ns: int
    count: int


class PageReader:
    """Events of pages of one kernel; formats are texts of its files."""

    def __init__(self, header_page: str, setup: str, complete: str) -> None:
        page = layout(header_page)
        self._stamp = page.needs("timestamp", 8)[0]
        self._commit, self._commit_size = page.needs("commit", 4, 8)
        self._data, size = page.needs("data")
        self.page_bytes = self._data + size
        self._setup, self._complete = layout(setup), layout(complete)
        self._checked()
        self._last_ns: dict[int, int] = {}

    def _checked(self) -> None:
        for name, sizes in (
            ("disk", ()),
            ("ctrl_id", (4,)),
            ("qid", (4,)),
            ("opcode", (1,)),
            ("cid", (2, 4)),
            ("nsid", (4,)),
            ("cdw10", (24,)),
        ):
            self._setup.needs(name, *sizes)
        for name, sizes in (("disk", ()), ("ctrl_id", (4,)), ("qid", (4,)), ("cid", (2, 4)), ("status", (2,))):
            self._complete.needs(name, *sizes)

    def read(self, cpu: int, raw: bytes) -> tuple[Events, list[OverwrittenEvents]]:
        """Return events of consecutive pages of one CPU, in order, and the losses among them."""
        if len(raw) % self.page_bytes:
            raise CaptureError(f"CPU {cpu}: {len(raw)} bytes of trace are not whole pages of {self.page_bytes}.")
        pages = np.frombuffer(raw, np.uint8).reshape(-1, self.page_bytes)
        if not len(pages):
            return together([]), []
        stamp = _field(pages.reshape(-1), np.arange(len(pages)) * self.page_bytes + self._stamp, np.uint64).astype(np.int64)
        kind = np.uint64 if self._commit_size == 8 else np.uint32
        commit = _field(pages.reshape(-1), np.arange(len(pages)) * self.page_bytes + self._commit, kind).astype(np.int64)
        end = np.minimum(commit & _LENGTH, self.page_bytes - self._data)
        at, ns = self._records(pages, stamp, end)
        events = together([self._events(pages.reshape(-1), at, ns, SETUP), self._events(pages.reshape(-1), at, ns, COMPLETE)])
        return events.take(np.argsort(events.ns, kind="stable")), self._missing(cpu, pages, commit, end, at, ns, stamp)

    def _records(self, pages: U8, stamp: Int64, end: Int64) -> tuple[Int64, Int64]:
        """Place of the data of every event in all pages (bytes from the first), and its instant."""
        flat = pages.reshape(-1)
        words = flat.view(np.uint32)
        base = np.arange(len(pages), dtype=np.int64) * self.page_bytes + self._data
        place, stop, ns = base.copy(), base + end, stamp.copy()
        live = np.flatnonzero(place + 4 <= stop)
        places: list[Int64] = []
        instants: list[Int64] = []
        while len(live):
            here = place[live]
            head = words[here >> 2].astype(np.int64)
            kind, delta = head & 31, head >> 5
            has_more = here + 8 <= stop[live]
            more = words[np.where(has_more, here + 4, here) >> 2].astype(np.int64)
            long = (more << 27) + delta
            before = ns[live]
            after = np.where(kind == _EXTEND, before + long, np.where(kind == _STAMP, (before & _signed(_TOP)) | long, before + delta))
            ns[live] = after
            # the last record of a page may be padding up to its end, with no length
            rest = (kind == _PADDING) & (delta == 0)
            step = np.where(kind >= _EXTEND, 8, np.where((kind == _EXTENDED) | (kind == _PADDING), 4 + ((more + 3) & ~3), 4 + 4 * kind))
            broken = rest | ((kind == _EXTENDED) & ((more < 4) | ~has_more)) | (here + step > stop[live])
            data = (kind < _PADDING) & ~broken
            places.append(np.where(kind == _EXTENDED, here + 8, here + 4)[data])
            instants.append(after[data])
            place[live] = np.where(broken, stop[live], here + step)
            live = live[place[live] + 4 <= stop[live]]
        if not places:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(places), np.concatenate(instants)

    def _events(self, flat: U8, at: Int64, ns: Int64, kind: int) -> Events:
        what = self._setup if kind == SETUP else self._complete
        longest = max(offset + size for offset, size in what.fields.values())
        mine = at[at + 2 <= len(flat)]
        mine = np.flatnonzero((_field(flat, mine, np.uint16) == what.number) & (mine + longest <= len(flat)))
        at, ns = at[mine], ns[mine]
        disk_at, disk_size = what.needs("disk")
        none = np.zeros(len(at), np.uint32)

        def value(name: str, extra: int = 0) -> npt.NDArray[np.unsignedinteger[npt.NBitBase]]:
            offset, size = what.fields[name]
            return _field(flat, at + offset + extra, _KINDS[size])

        disk = np.ascontiguousarray(flat[(at + disk_at)[:, None] + np.arange(disk_size)]).view(f"S{disk_size}").reshape(-1)
        common = (ns, np.full(len(at), kind, np.uint8), value("ctrl_id").astype(np.int32), value("qid").astype(np.int32))
        cid = value("cid").astype(np.uint16)
        if kind == COMPLETE:
            return Events(*common, cid, none.astype(np.uint8), none, none.astype(np.uint64), none, value("status").astype(np.uint16), disk)
        lba = value("cdw10").astype(np.uint64) | (value("cdw10", 4).astype(np.uint64) << np.uint64(32))
        return Events(
            *common,
            cid,
            value("opcode").astype(np.uint8),
            value("nsid").astype(np.uint32),
            lba,
            value("cdw10", 8).astype(np.uint32),
            none.astype(np.uint16),
            disk,
        )

    def _missing(self, cpu: int, pages: U8, commit: Int64, end: Int64, at: Int64, ns: Int64, stamp: Int64) -> list[OverwrittenEvents]:
        page_of = at // self.page_bytes
        latest = np.full(len(pages), np.iinfo(np.int64).min)
        np.maximum.at(latest, page_of, ns)
        found = []
        last = self._last_ns.get(cpu)
        size = self._commit_size
        for number, (length, word) in enumerate(zip(end.tolist(), commit.tolist(), strict=True)):
            if word & _MISSED:
                count = -1
                if word & _STORED and self._data + length + size <= self.page_bytes:
                    count = int.from_bytes(pages[number, self._data + length : self._data + length + size].tobytes(), "little", signed=True)
                found.append(OverwrittenEvents(last, int(stamp[number]), count))
            if latest[number] > np.iinfo(np.int64).min:
                last = int(latest[number])
        if last is not None:
            self._last_ns[cpu] = last
        return found


def _field(flat: U8, at: Int64, kind: type[np.generic]) -> npt.NDArray[np.unsignedinteger[npt.NBitBase]]:
    """Values at any places."""
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(flat[at[:, None] + np.arange(size)]).view(kind).reshape(-1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
