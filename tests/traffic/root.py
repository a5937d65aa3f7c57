"""The host's root complex: answers a drive's reads out of host memory, in completions that PCIe 2.3.1.1 allows."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from typing import Any

from tests.traffic import packets
from tests.traffic.kernel import NS, Group, Kernel, Process
from tests.traffic.kinds import Setup
from tests.traffic.link import Link
from tests.traffic.memory import PAGE, Memory
from tests.traffic.packets import DOWN

DEVICE = 0x0000
"""Requester and completer identifier of the root port."""
_NOISE = 1 << 16


@dataclass(slots=True, eq=False)
class Request:
    """A read of the drive that is outstanding. ``failed``: poisoned, or the status was not SC."""

    address: int
    length: int
    requester: int
    tag: int
    attr: int
    at: int
    start: int
    what: str
    """``data``, ``sqe``, ``list``, ``hmb``, ``flush`` or ``translate``."""
    done: Any
    """Called with the request when the last completion has arrived."""
    starts: list[int]
    """List in which the times of its completions with data are noted."""
    data: bytes | None = None
    failed: bool = False
    status: int = packets.SUCCESS
    passed: Any = None
    """Called with the request, and address, bytes and time of each completion with data."""


class Payload:
    """Bytes for TLPs of user data: none at all, random ones, or ones that look like structures of NVMe."""

    def __init__(self, rng: random.Random, kind: str) -> None:
        self.kind = kind
        self._rng = rng
        self._bytes = b""
        if kind == "random":
            self._bytes = rng.randbytes(_NOISE)
        elif kind == "decoys":
            entries = [
                struct.pack("<LLHHHH", 0, 0, rng.randrange(64), rng.randrange(4), rng.randrange(64), rng.randrange(2))
                for _ in range(_NOISE // 32)
            ]
            pointers = [struct.pack("<QQ", rng.randrange(1 << 20) * PAGE, rng.randrange(1 << 24) * PAGE) for _ in range(_NOISE // 32)]
            mixed = entries + pointers
            rng.shuffle(mixed)
            self._bytes = b"".join(mixed)

    def take(self, length: int) -> bytes | None:
        """Bytes of a TLP; None where a trace leaves them out."""
        if not self._bytes:
            return None
        at = int(self._rng.random() * (_NOISE - length)) & ~15
        return self._bytes[at : at + length]


class Root:
    """Completer of the drive's reads."""

    def __init__(self, kernel: Kernel, link: Link, memory: Memory, rng: random.Random, setup: Setup) -> None:
        self.kernel = kernel
        self.link = link
        self.memory = memory
        self.group = Group()
        self.payload = Payload(rng, setup.payload)
        self.translations: dict[int, int] = {}
        """Translated page by untranslated page."""
        self._back: dict[int, int] = {}
        self._rng = rng
        self._setup = setup
        self._latency = rng.randrange(150 * NS, 900 * NS)

    def restart(self) -> None:
        """Drop outstanding requests: the link went down."""
        self.group.alive = False
        self.group = Group()

    def translate(self, address: int) -> int:
        """Translated address of a page, out of a space that overlaps with the untranslated one (PCIe 10.2)."""
        page = address // PAGE
        if page not in self.translations:
            low, high = self._rng.choice(self._setup.zones)
            other = self._rng.randrange(low // PAGE, high // PAGE)
            while other in self._back:
                other = self._rng.randrange(low // PAGE, high // PAGE)
            self.translations[page] = other
            self._back[other] = page
        return self.translations[page] * PAGE

    def asked(self, request: Request, delay: int) -> None:
        """A read is on its way and arrives in `delay` ps."""
        wait = delay + self._latency + int(self._rng.expovariate(1 / (150 * NS)))
        self.kernel.spawn(self._answer(request), self.group, wait)

    def _fails(self, request: Request) -> int:
        faults, rng = self._setup.faults, self._rng
        if request.what == "sqe" and "fetch_ur" in faults and rng.random() < 0.05:
            return packets.UNSUPPORTED
        if request.what == "data" and "data_ca" in faults and rng.random() < 0.03:
            return packets.ABORT
        return packets.SUCCESS

    def _answer(self, request: Request) -> Process:
        setup, link, rng, kernel = self._setup, self.link, self._rng, self.kernel
        status = self._fails(request)
        if status:
            header = packets.completion(
                0, DEVICE, request.requester, request.tag, request.length, request.address, status, attr=request.attr
            )
            _, delay = link.send(DOWN, header)
            request.failed, request.status = True, status
            kernel.call(delay, self.group, request.done, request)
            return
        data = self._content(request)
        if request.what == "flush":
            _, delay = link.send(
                DOWN, packets.completion(1, DEVICE, request.requester, request.tag, 1, request.address, attr=request.attr) + bytes(4)
            )
            kernel.call(delay, self.group, request.done, request)
            return
        at, left, delay = request.address, request.length, 0
        poison = request.what == "data" and "poisoned" in setup.faults and rng.random() < 0.03
        while left:
            size = self._piece(at, left)
            part = data[at - request.address : at - request.address + size] if data is not None else self.payload.take(size)
            header = packets.completion(
                size >> 2, DEVICE, request.requester, request.tag, left, at, attr=request.attr, ep=poison and left == request.length
            )
            if part is None:
                start, delay = link.send(DOWN, header, size)
            else:
                start, delay = link.send(DOWN, header + part)
            request.starts.append(start)
            if request.passed is not None:
                request.passed(request, at, size, start)
            at += size
            left -= size
            if left and setup.interleaved:
                pause = link.backlog(DOWN)
                yield pause + int(rng.random() * 20 * NS)
        request.data = data
        request.failed = poison
        kernel.call(max(0, delay), self.group, request.done, request)

    def _content(self, request: Request) -> bytes | None:
        if request.at == packets.TRANSLATION_REQUEST:
            # one entry: translated address, size 0, read and write permitted (PCIe 10.2.3.1, figure 10-8)
            return struct.pack(">Q", self.translate(request.address) | 3)
        address = request.address
        if request.at == packets.TRANSLATED:
            address = self._back[address // PAGE] * PAGE + address % PAGE
        return self.memory.read(address, request.length)

    def _piece(self, at: int, left: int) -> int:
        """Bytes of the next completion: up to a multiple of RCB, unless it is the last (PCIe 2.3.1.1)."""
        setup = self._setup
        rcb, most = setup.rcb, setup.mps
        if setup.completions == "rcb":
            most = rcb
        elif setup.completions == "random" and most > rcb:
            most = rcb * (1 + int(self._rng.random() * (most // rcb)))
        if left <= most:
            return left
        return most - at % rcb


__all__ = ["DEVICE", "Payload", "Request", "Root"]
