"""Host memory: pages that are given out and come back, and the bytes of those that a drive reads as structures."""

from __future__ import annotations

import random

PAGE = 4096
_BLOCK = 256
"""Bytes of a block of Linux's small pool of PRP lists (drivers/nvme/host/pci.c)."""


class Memory:
    """Pages by number. Pages of structures (queues, lists) have bytes; pages of data have none."""

    def __init__(self, rng: random.Random, zones: tuple[tuple[int, int], ...]) -> None:
        self._rng = rng
        self._zones = zones
        self._structures: dict[int, bytearray] = {}
        self._used: set[int] = set()
        self._numbers: list[int] = []
        """Members of `_used`, in the order in which they came."""
        self._others: set[int] = set()
        self._idle: list[int] = []
        self._blocks: list[int] = []
        self._spare: list[int] = []

    def other_page(self) -> int:
        """Address of a page of data in another address space; half of them are addresses of this space's pages, of any use."""
        rng = self._rng
        while True:
            if self._numbers and rng.random() < 0.5:
                number = rng.choice(self._numbers)
            else:
                low, high = rng.choice(self._zones)
                number = rng.randrange(low // PAGE, high // PAGE)
            if number not in self._others:
                self._others.add(number)
                return number * PAGE

    def contiguous(self, pages: int) -> int:
        """Address of new pages with bytes, for a structure."""
        while True:
            low, high = self._rng.choice(self._zones)
            first = self._rng.randrange(low // PAGE, high // PAGE - pages)
            numbers = range(first, first + pages)
            if self._used.isdisjoint(numbers):
                break
        self._used.update(numbers)
        self._numbers += numbers
        for number in numbers:
            self._structures[number] = bytearray(PAGE)
        return first * PAGE

    def span(self, pages: int) -> list[int]:
        """Addresses of pages of data, one behind the other."""
        if pages == 1:
            return [self.page()]
        while True:
            low, high = self._rng.choice(self._zones)
            first = self._rng.randrange(low // PAGE, high // PAGE - pages)
            numbers = range(first, first + pages)
            if self._used.isdisjoint(numbers):
                self._used.update(numbers)
                self._numbers += numbers
                return [number * PAGE for number in numbers]

    def structure(self) -> int:
        """Address of a page with bytes, which keeps its old ones."""
        return self._spare.pop() if self._spare else self.contiguous(1)

    def give_back_structure(self, address: int) -> None:
        """A page of :meth:`structure` that is free again."""
        self._spare.append(address)

    def page(self) -> int:
        """Address of a page of data: one that came back lately, or a new one."""
        idle = self._idle
        if idle and self._rng.random() < 0.9:
            return idle.pop()
        used, rng = self._used, self._rng
        while True:
            low, high = self._zones[0] if len(self._zones) == 1 else rng.choice(self._zones)
            number = low // PAGE + int(rng.random() * ((high - low) // PAGE))
            if number not in used:
                used.add(number)
                self._numbers.append(number)
                return number * PAGE

    def give_back(self, addresses: list[int]) -> None:
        """Pages of data that a command no longer needs."""
        self._idle += addresses

    def block(self) -> int:
        """Address of a block of 256 bytes for a list, which keeps its old bytes."""
        if not self._blocks:
            base = self.contiguous(1)
            self._blocks = [base + at for at in range(0, PAGE, _BLOCK)]
            self._rng.shuffle(self._blocks)
        return self._blocks.pop()

    def give_back_block(self, address: int) -> None:
        """A block of 256 bytes that is free again, with its bytes."""
        self._blocks.append(address)

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into pages of structures; into pages of data, nothing is put."""
        at = 0
        while at < len(data):
            offset = (address + at) % PAGE
            part = data[at : at + PAGE - offset]
            page = self._structures.get((address + at) // PAGE)
            if page is not None:
                page[offset : offset + len(part)] = part
            at += len(part)

    def read(self, address: int, length: int) -> bytes | None:
        """Bytes that do not cross a page; None for a page of data."""
        page = self._structures.get(address // PAGE)
        if page is None:
            return None
        offset = address % PAGE
        return bytes(page[offset : offset + length])
