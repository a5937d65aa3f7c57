"""The host's memory as an operating system hands it out: pages of data, PRP lists in pages of their own or in a pool."""

from __future__ import annotations

import struct
from random import Random

from tests.gateware.nvme.expect import Command


class Pool:
    """Blocks of `size` bytes cut from pages; the last one freed is handed out first (Linux's ``dma_pool``).

    ``free`` starts in address order, so blocks of many commands lie in one page.
    """

    def __init__(self, size: int, pages: list[int], page: int) -> None:
        self.size = size
        self.page = page
        self.free = [base + at for base in reversed(pages) for at in reversed(range(0, page, size))]

    def take(self) -> int:
        return self.free.pop()

    def give(self, address: int) -> None:
        self.free.append(address & ~(self.size - 1))


class Memory:
    """`random`: a generator. `page`: memory page size in bytes (CC.MPS)."""

    def __init__(self, random: Random, page: int) -> None:
        self.random = random
        self.page = page
        self.next_page = random.randrange(1 << 8, 1 << 30) * page
        self.recycled: list[int] = []
        self.lists: Pool | None = None  # PRP lists that fit; others, and all without a pool, lie in pages of their own
        self.list_offset: int | None = None  # offset at which these begin in their page, if fixed
        self.window = 0  # data pages at random within this many bytes (0: upward from a random place)
        self.taken: set[int] = set()

    def claimed(self) -> set[int]:
        """Pages named in commands in flight that do not use them."""
        return set()

    def pages(self, count: int, scattered: bool = False) -> list[int]:
        """Fresh or recycled pages of host memory."""
        out = []
        for _ in range(count):
            if self.window:
                address = 0
                while not address or address in self.taken:
                    address = self.random.randrange(1, self.window // self.page) * self.page
                self.taken.add(address)
                out.append(address)
            elif self.recycled and self.random.random() < 0.7:
                out.append(self.recycled.pop(self.random.randrange(len(self.recycled))))
            else:
                self.next_page += self.page * (self.random.randrange(1, 9) if scattered else 1)
                out.append(self.next_page)
        return out

    def contiguous(self, size: int) -> int:
        base = self.next_page + self.page
        self.next_page = base + -(-size // self.page) * self.page
        return base

    def free(self, base: int, size: int) -> None:
        """Memory from :meth:`contiguous` is soon reused for data."""
        self.recycled += range(base, base + size, self.page)

    def give_back(self, command: Command) -> None:
        """Frees the memory of a completed command, as the host would."""
        base = ~(self.page - 1)
        if self.window:
            self.taken -= {address & base for address in command.pages}
        elif command.own_pages:
            self.recycled += [address & base for address in command.pages if address & base not in self.claimed()]
        for address, _ in command.lists:
            if command.pooled:
                self.lists.give(address)
            elif not self.window:
                self.recycled.append(address & base)

    def prp_lists(self, command: Command, pages: list[int]) -> int:
        """List pages for `pages`; returns PRP2."""
        if self.lists and 8 * len(pages) <= self.lists.size:
            command.pooled = True
            at = self.lists.take()
            command.lists.append((at, struct.pack(f"<{len(pages)}Q", *pages)))
            return at
        exact = max(0, self.page - 8 * len(pages))  # the last entry ends the page, or the one before it would have
        anywhere = self.random.randrange(self.page // 8) * 8
        offset = self.random.choice((0, 0, anywhere, self.page - 16, exact, min(exact + 8, self.page - 16)))
        if self.list_offset is not None:
            offset = self.list_offset
        entries, at = list(pages), None
        room = (self.page - offset) // 8
        (page,) = self.pages(1)
        first = page + offset
        at = first
        while True:
            if len(entries) <= room:
                command.lists.append((at, struct.pack(f"<{len(entries)}Q", *entries)))
                return first
            (following,) = self.pages(1)
            command.lists.append((at, struct.pack(f"<{room}Q", *entries[: room - 1], following)))
            entries = entries[room - 1 :]
            at, room = following, self.page // 8
